"""What goes wrong on a machine while a replay runs: faults, background noise, and when a policy comes to know of them.

Not here: what happens to jobs (`replay`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.core.model.site import F64, I64, Site
from fairlead.decide.sim.engine import Changes
from fairlead.decide.sim.faults import Fault, build_fault_changes


@dataclass(frozen=True)
class Sickness:
    """When the policy comes to know what: at `time_s[i]` the component `number[i]` of `layer[i]` is `sick[i]`."""

    time_s: F64
    layer: tuple[str, ...]
    number: I64
    sick: tuple[bool, ...]


def find_disturbance_sickness(site: Site, faults: Sequence[Fault], known_after_s: float) -> Sickness:
    """Faults as what is known of them. A sick server's targets are sick. One over before it is known never is."""
    held: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for fault in faults:
        from_s = fault.from_s + known_after_s
        if not from_s < fault.to_s:
            continue
        held.setdefault((fault.component, fault.number), []).append((from_s, fault.to_s))
        if fault.component == "server":
            first = fault.number * site.targets_per_server
            for target in range(first, first + site.targets_per_server):
                held.setdefault(("target", target), []).append((from_s, fault.to_s))
    points: list[tuple[float, str, int, bool]] = []
    for (layer, number), spans in held.items():
        until = -np.inf
        for from_s, to_s in sorted(spans):
            if from_s > until:
                points.append((from_s, layer, number, True))
            else:  # one goes over into the other
                points.remove((until, layer, number, False))
            until = max(until, to_s)
            points.append((until, layer, number, False))
    points.sort()
    return Sickness(
        np.array([p[0] for p in points], np.float64),
        tuple(p[1] for p in points),
        np.array([p[2] for p in points], np.int64),
        tuple(p[3] for p in points),
    )


def build_disturbance_courses(site: Site, faults: Sequence[Fault], noise: Changes | None) -> Changes:
    """Faults and background noise as one course of capacities; where both hold a resource back their factors multiply.
    `noise` speaks of `Site.at`'s resources, 1 being whole. Raises UsageError."""
    whole = np.ones(len(site.compute_capacity()))
    known = build_fault_changes(site, faults, whole)
    parts = [known] if noise is None else [known, noise]
    beyond = noise is not None and ((noise.resource < 0) | (noise.resource >= len(whole))).any()
    if beyond:
        raise UsageError("background noise of an unknown resource", where="noise", remedy="see Site.at")
    time_s = np.concatenate([part.time_s for part in parts])
    resource = np.concatenate([part.resource for part in parts])
    factor = np.concatenate([part.capacity for part in parts])
    source = np.repeat(np.arange(len(parts)), [len(part.time_s) for part in parts])
    order = np.argsort(time_s, kind="stable")
    out = factor[order].copy()
    both = np.intersect1d(known.resource, noise.resource) if noise is not None else np.zeros(0, np.int32)
    now = {int(r): [1.0, 1.0] for r in both}
    for place, i in enumerate(order):
        factors = now.get(int(resource[i]))
        if factors is not None:
            factors[int(source[i])] = float(factor[i])
            out[place] = factors[0] * factors[1]
    return Changes(time_s[order], resource[order].astype(np.int32), out)
