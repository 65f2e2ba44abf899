"""Scenes: a few jobs put together by hand, where what happens to whom is known before it is played.

Not here: populations (`population`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.sim.faults import Fault
from fairlead.sim.platform import Machine, small
from fairlead.sim.workload import Step
from fairlead.testing.machine.play import Play
from fairlead.testing.machine.population import Drawn, Mix, Program


def job(
    number: int, steps: Sequence[Step], nodes: int, *, name: str = "", mode: str = "N-N", submit_s: float = 0.0,
    tail_s: float = 1.0,
) -> Drawn:  # fmt: skip
    """A job that does `steps` on that many nodes."""
    label = name or f"prog{number}"
    program = Program(
        name=label, user=f"user{number}", project="proj1", mode=mode, pattern="made", nodes=nodes, request=1 << 20,
        steps=len(steps), mean_read=0.0, mean_write=0.0, run_time_s=60.0,
    )  # fmt: skip
    return Drawn(number=number, program=program, submit_s=submit_s, steps=tuple(steps), tail_s=tail_s)


def play(
    jobs: Sequence[tuple[Drawn, float, int]], seconds: int, *, machine: Machine | None = None, seed: int = 7,
    faults: Sequence[Fault] = (),
) -> Play:  # fmt: skip
    """Jobs, each with when it begins and the first of its nodes."""
    placed = {
        drawn.number: (begin, np.arange(first, first + drawn.program.nodes, dtype=np.int32))
        for drawn, begin, first in jobs
    }
    return Play(
        machine or small(), Mix(), seed, seconds, faults=faults, jobs=[drawn for drawn, _, _ in jobs], placed=placed
    )


def co_run(seed: int = 7, *, together: bool = True, seconds: int = 120) -> Play:
    """Beacon's co-run: a 1-1 job (number 1) writes through the forwarder of an N-1 job (number 0), or alone."""
    small_requests = 256 << 10
    shared = Step(op="write", volume=24 << 30, request=128 << 10, writers=60, files=1, contested=True, label="shared")
    serial = Step(op="write", volume=4 << 30, request=small_requests, writers=1, files=1, label="own", compute_s=20.0)
    first = (job(0, [shared], 15, name="nto1", mode="N-1"), 0.0, 0)
    second = (job(1, [serial], 1, name="oneone", mode="1-1"), 0.0, 15)
    return play([first, second] if together else [second], seconds, seed=seed)


def slow_target(seed: int = 7, *, factor: float = 0.1, seconds: int = 180) -> Play:
    """One job writes checkpoints to all targets; from 60 s to 120 s target 3 has only `factor` of its speed."""
    steps = [Step(op="write", volume=8 << 30, writers=64, files=64, label="ckpt", compute_s=10.0) for _ in range(6)]
    fault = Fault(component="target", number=3, from_s=60.0, to_s=120.0, factor=factor)
    return play([(job(0, steps, 16, name="ckpt"), 0.0, 0)], seconds, seed=seed, faults=[fault])
