"""What really happened: faults and interference with what they cost, each from the same play without them.

A counterfactual run starts every job when and where it started, so that the difference is the cause's alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.faults import Fault
from fairlead.kit.testing.machine.client_rows import NS
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.play import Play

Times = dict[int, NDArray[np.float64]]
"""Seconds each phase of I/O took, by job number."""
LEAST_S = 0.5
"""A job that lost less is not called a victim."""
LEAST_SHARE = 0.02
"""Nor one that lost less than this share of its time in I/O."""


@dataclass(frozen=True)
class Victim:
    """A job that took longer: seconds its phases of I/O took, and how many of them it would not have lost. Both are of
    the whole job; `open`: it had not ended when the play did."""

    job_id: str
    cost_s: float
    io_s: float
    open: bool


@dataclass(frozen=True)
class Label:
    """One cause. `kind`: the fault's, or `interference`; `component` (a fault) or `culprit` (a job) is what it was."""

    kind: str
    from_ns: int
    to_ns: int
    component: str | None = None
    layer: str | None = None
    factor: float | None = None
    culprit: str | None = None
    culprit_kind: str | None = None
    victims: list[Victim] = field(default_factory=list)


def build_truth_labels(play: Play, culprits: Sequence[int] | None = None) -> list[Label]:
    """The truth of a play: every fault, and every one of `culprits` (jobs by number; default: `suspects`) that cost
    another job time. One run of the engine for each."""
    whole = play.to_the_end()
    had = measure_truth_times(whole)
    found = [_of_fault(play, whole, had, number) for number in range(len(play.faults))]
    for number in _list_suspects(play) if culprits is None else culprits:
        label = _of_job(play, whole, had, number)
        if label.victims:
            found.append(label)
    return found


def _list_suspects(play: Play, most: int = 12) -> list[int]:
    """Jobs worth a counterfactual run: all that contend for a file or storm the metadata servers, then the largest."""
    course = play.course
    loud = [job.drawn.number for job in course.jobs if any(step.contested or step.each > 1 for step in job.drawn.steps)]
    by_volume = sorted(course.jobs, key=lambda job: -(job.drawn.read_bytes + job.drawn.write_bytes))
    rest = [job.drawn.number for job in by_volume if job.drawn.number not in loud]
    return [*loud, *rest][:most]


def _of_fault(play: Play, whole: Play, had: Times, number: int) -> Label:
    fault = play.faults[number]
    others = [other for i, other in enumerate(play.faults) if i != number]
    return Label(
        kind=fault.kind,
        from_ns=play.origin_ns + int(fault.from_s * NS),
        to_ns=play.origin_ns + int(fault.to_s * NS),
        component=name_truth_component(play, fault),
        layer=fault.component,
        factor=0.0 if fault.kind == "dead" else fault.factor,
        victims=_victims(play, had, whole.leave_out(faults=others)),
    )


def name_truth_component(play: Play, fault: Fault) -> str:
    """The name of a fault's component in the records."""
    machine = play.machine
    if fault.component == "mds":
        return machine.format_mdt_name(fault.number)
    layers = {"forwarder": machine.forwarders, "server": machine.servers, "target": machine.targets}
    return layers[fault.component].names[fault.number]


def _of_job(play: Play, whole: Play, had: Times, number: int) -> Label:
    job = next(job for job in play.course.jobs if job.drawn.number == number)
    end = job.end_s if not np.isnan(job.end_s) else float(play.seconds)
    kinds = {"strided": "N-1", "shared_read": "N-1", "storm": "mdops"}
    loud = any(step.contested for step in job.drawn.steps)
    return Label(
        kind="interference",
        from_ns=play.origin_ns + int(job.start_s * NS),
        to_ns=play.origin_ns + int(end * NS),
        culprit=format_machine_job_id(job.drawn),
        culprit_kind="N-1" if loud else kinds.get(job.drawn.program.pattern, "bandwidth"),
        victims=_victims(play, had, whole.leave_out(jobs=[number])),
    )


def _victims(play: Play, had: Times, without: Play) -> list[Victim]:
    would = measure_truth_times(without)
    found = []
    for job in play.course.jobs:
        number = job.drawn.number
        if number not in would:
            continue
        # Phases that ended in both runs: the same work.
        both = np.isfinite(had[number]) & np.isfinite(would[number])
        io_s, cost = float(had[number][both].sum()), float((had[number] - would[number])[both].sum())
        if cost >= LEAST_S and cost >= LEAST_SHARE * io_s:
            found.append(
                Victim(format_machine_job_id(job.drawn), round(cost, 3), round(io_s, 3), bool(np.isnan(job.end_s)))
            )
    return sorted(found, key=lambda victim: -victim.cost_s)


def measure_truth_times(play: Play) -> Times:
    """Seconds each phase of I/O took, by job number; NaN where it did not end."""
    course = play.course
    took = course.phase_ended - course.phase_begun
    return {job.drawn.number: took[list(job.io_phases)] for job in course.jobs}


def write_truth_labels(found: Sequence[Label], path: Path) -> None:
    """The labels as JSON."""
    path.write_text(json.dumps({"simulated": True, "labels": [asdict(label) for label in found]}, indent=1) + "\n")
