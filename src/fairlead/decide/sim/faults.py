"""Faults: what a component can do over time, as capacity changes of its resources.

A fault is a component, a span and a course of the factor its capacity is multiplied by. Not here: finding them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.core.model.site import F64, Site
from fairlead.decide.sim.engine import Changes

KINDS = ("degraded", "fail_slow", "flapping", "dead", "rebuild")
FOR_EVER = ("degraded", "dead")
"""Kinds that may last without an end (`to_s` inf)."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One component out of order from `from_s` to `to_s`. `component`: forwarder, server, target or mds.

    `kind`: `degraded` (at `factor` of its capacity throughout), `fail_slow` (sinks to `factor` in ten steps and stays
    there), `flapping` (`factor` and whole in turns of `period_s`), `dead` (nothing), `rebuild` (`factor`, then ever
    better in the last third, as a RAID under rebuild).
    """

    component: str
    number: int
    from_s: float
    to_s: float
    factor: float = 0.2
    kind: str = "degraded"
    period_s: float = 20.0

    def build_course(self) -> list[tuple[float, float]]:
        """(time, factor) from its beginning until it is whole again."""
        span = self.to_s - self.from_s
        match self.kind:
            case "degraded":
                steps = [(self.from_s, self.factor)]
            case "dead":
                steps = [(self.from_s, 0.0)]
            case "fail_slow":
                steps = [(self.from_s + span * i / 20, 1.0 - (1.0 - self.factor) * (i + 1) / 10) for i in range(10)]
            case "rebuild":
                late = self.to_s - span / 3
                rest = [(late + span / 3 * i / 10, self.factor + (1 - self.factor) * (i + 1) / 11) for i in range(10)]
                steps = [(self.from_s, self.factor), *rest]
            case "flapping":
                turns = int(np.ceil(span / self.period_s))
                steps = [(self.from_s + i * self.period_s, self.factor if i % 2 == 0 else 1.0) for i in range(turns)]
            case _:
                raise UsageError(f"unknown kind of fault: {self.kind!r}", remedy=f"one of {', '.join(KINDS)}")
        return [*steps, (self.to_s, 1.0)]


def build_fault_changes(machine: Site, faults: Sequence[Fault], capacity: F64) -> Changes:
    """The faults as capacity changes. Faults of one component multiply where they overlap. Raises UsageError."""
    for fault in faults:
        layer = {
            "forwarder": len(machine.forwarders),
            "server": len(machine.servers),
            "target": len(machine.targets),
            "mds": len(machine.mds),
        }
        if not 0 <= fault.number < layer.get(fault.component, 0) or not fault.from_s < fault.to_s:
            raise UsageError(
                f"no {fault.component} {fault.number} to fail, or an invalid time",
                remedy="see fairlead.decide.sim.faults",
            )
        if not 0 <= fault.factor < np.inf or not fault.period_s > 0:
            raise UsageError(
                f"a fault's factor is {fault.factor:g}, its period {fault.period_s:g} s",
                where="factor" if fault.period_s > 0 else "period_s",
                remedy="a factor of 0 or more, a period above 0",
            )
        if np.isinf(fault.to_s - fault.from_s) and fault.kind not in FOR_EVER:
            raise UsageError(f"a fault of kind {fault.kind!r} has no end", where="to_s", remedy="give it one")
    points: list[tuple[float, int, float]] = []
    by_component: dict[tuple[str, int], list[Fault]] = {}
    for fault in faults:
        by_component.setdefault((fault.component, fault.number), []).append(fault)
    for (component, number), own in by_component.items():
        courses = [fault.build_course() for fault in own]
        for when in sorted({time for course in courses for time, _ in course if time < np.inf}):
            factor = float(np.prod([_factor_at(course, when) for course in courses]))
            points += [(when, r, factor * float(capacity[r])) for r in machine.at.find_resources(component, number)]
    points.sort()
    return Changes(
        np.array([p[0] for p in points], np.float64),
        np.array([p[1] for p in points], np.int32),
        np.array([p[2] for p in points], np.float64),
    )


def _factor_at(course: list[tuple[float, float]], when: float) -> float:
    factor = 1.0
    for time, value in course:
        if time <= when:
            factor = value
    return factor
