"""The story of the sample site: jobs and faults that are put there by hand. What comes of them is the machine's to say.

Alice's `seismic` writes through a forwarder as it did all month; on the last day it does so while bob's `spectra`
holds that forwarder with one file of many writers. Some hours later storage target 5 sinks to a fraction of its speed,
and stays so. Times are seconds before the end of the month. Not here: the other jobs (`month`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.steps import Step
from fairlead.kit.testing.machine.population import DrawnJob
from fairlead.kit.testing.machine.scenes import build_scene_job

HOUR_S = 3600.0
DAY_S = 86_400.0
VICTIM, CULPRIT = 90_000, 90_001
"""Job numbers of the two."""
BEFORE_S = 9 * HOUR_S
"""The two begin so long before the month ends."""
RESERVED_S = (BEFORE_S + 600.0, BEFORE_S - 2.0 * HOUR_S)
"""Nobody else is on the nodes behind the first forwarder from the one to the other, before the end."""
RESERVED_NODES = 16
VICTIM_NODE = 15
SICK_TARGET = 5
SICK_S = 5.5 * HOUR_S
STEADY_EVERY_S = 3 * HOUR_S


@dataclass(frozen=True)
class FixedJob:
    """A job put by hand: when it begins and the first of its nodes (None: where there is room)."""

    drawn: DrawnJob
    begin_s: float
    first: int | None = None


def _owned(drawn: DrawnJob, user: str, project: str, name: str) -> DrawnJob:
    return replace(drawn, program=replace(drawn.program, user=user, project=project, name=name))


def _seismic(number: int) -> DrawnJob:
    own = Step(op="write", volume=3 << 30, request=256 << 10, writers=1, files=1, label="trace", compute_s=150.0)
    return _owned(
        build_scene_job(number, [own] * 5, 1, name="seismic", mode="1-1", tail_s=30.0), "alice", "climate", "seismic"
    )


def _spectra(number: int, writes: int = 20) -> DrawnJob:
    shared = Step(
        op="write",
        volume=12 << 30,
        request=128 << 10,
        writers=30,
        files=1,
        stripes=4,
        contested=True,
        label="field",
        compute_s=8.0,
    )
    return _owned(
        build_scene_job(number, [shared] * writes, 15, name="spectra", mode="N-1"), "bob", "plasma", "spectra"
    )


def _steady(number: int) -> DrawnJob:
    """A job that runs nearly until the next of its kind, and writes all the time: so that there is one to watch."""
    step = Step(op="write", volume=1536 << 20, writers=8, files=8, label="snap", compute_s=75.0)
    parts = [replace(step, fresh=k % 20 == 0) for k in range(120)]
    return _owned(
        build_scene_job(number, parts, 2, name="wavecast", mode="N-N", tail_s=20.0), "alice", "climate", "wavecast"
    )


def _archive(number: int) -> DrawnJob:
    """Half of the machine copies out what it holds: for minutes every target is as busy as it can be."""
    step = Step(op="write", volume=96 << 30, writers=64, files=64, label="archive", compute_s=20.0)
    return _owned(
        build_scene_job(number, [step] * 3, 32, name="archive", mode="N-N", tail_s=10.0), "kim", "ocean", "archive"
    )


def build_sample_story_jobs(month_s: float, ahead_s: float) -> list[FixedJob]:
    """The jobs put by hand, of the month and of the days ahead."""
    fixed = [
        FixedJob(_seismic(VICTIM), month_s - BEFORE_S, VICTIM_NODE),
        FixedJob(_spectra(CULPRIT, 24), month_s - BEFORE_S + 20.0, 0),
    ]
    usual = np.arange(0.4 * DAY_S, month_s - 0.8 * DAY_S, 0.31 * DAY_S)
    fixed += [FixedJob(_seismic(90_100 + k), float(at)) for k, at in enumerate(usual)]
    alone = np.arange(1.3 * DAY_S, month_s - 0.9 * DAY_S, 1.9 * DAY_S)
    fixed += [FixedJob(_spectra(90_400 + k, 8), float(at)) for k, at in enumerate(alone)]
    copies = np.arange(0.6 * DAY_S, month_s - 0.9 * DAY_S, 1.4 * DAY_S)
    fixed += [FixedJob(_archive(90_600 + k), float(at)) for k, at in enumerate(copies)]
    watch = np.arange(month_s - 0.14 * DAY_S, month_s + ahead_s, STEADY_EVERY_S)
    return fixed + [FixedJob(_steady(91_000 + k), float(at)) for k, at in enumerate(watch)]


def build_sample_story_faults(month_s: float, ahead_s: float) -> list[Fault]:
    """What is out of order and when: three times in the last days, and one target now."""
    made = [
        Fault(
            component="target",
            number=2,
            from_s=month_s - 4.65 * DAY_S,
            to_s=month_s - 4.4 * DAY_S,
            factor=0.05,
            kind="rebuild",
        ),
        Fault(component="forwarder", number=2, from_s=month_s - 3.6 * DAY_S, to_s=month_s - 3.35 * DAY_S, factor=0.06),
        Fault(component="mds", number=1, from_s=month_s - 2.6 * DAY_S, to_s=month_s - 2.4 * DAY_S, factor=0.08),
        Fault(component="target", number=SICK_TARGET, from_s=month_s - SICK_S, to_s=month_s + ahead_s, factor=0.06),
    ]
    return [fault for fault in made if fault.from_s >= 0]
