"""Scenes: a few jobs put together by hand, where what happens to whom is known before it is played.

Not here: populations (`population`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.platform import build_small_platform
from fairlead.decide.sim.steps import Step
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.population import DrawnJob, Mix, Program


def build_scene_job(
    number: int,
    steps: Sequence[Step],
    nodes: int,
    *,
    name: str = "",
    mode: str = "N-N",
    submit_s: float = 0.0,
    tail_s: float = 1.0,
) -> DrawnJob:
    """A job that does `steps` on that many nodes."""
    label = name or f"prog{number}"
    program = Program(
        name=label,
        user=f"user{number}",
        project="proj1",
        mode=mode,
        pattern="made",
        nodes=nodes,
        request=1 << 20,
        steps=len(steps),
        mean_read=0.0,
        mean_write=0.0,
        run_time_s=60.0,
    )
    return DrawnJob(number=number, program=program, submit_s=submit_s, steps=tuple(steps), tail_s=tail_s)


def build_scene_play(
    jobs: Sequence[tuple[DrawnJob, float, int]],
    seconds: int,
    *,
    machine: Site | None = None,
    seed: int = 7,
    faults: Sequence[Fault] = (),
) -> Play:
    """Jobs, each with when it begins and the first of its nodes."""
    placed = {
        drawn.number: (begin, np.arange(first, first + drawn.program.nodes, dtype=np.int32))
        for drawn, begin, first in jobs
    }
    return Play(
        machine or build_small_platform(),
        Mix(),
        seed,
        seconds,
        faults=faults,
        jobs=[drawn for drawn, _, _ in jobs],
        placed=placed,
    )


def build_co_run_scene(seed: int = 7, *, together: bool = True, seconds: int = 120) -> Play:
    """Beacon's co-run: a 1-1 job (number 1) writes through the forwarder of an N-1 job (number 0), or alone."""
    small_requests = 256 << 10
    shared = Step(op="write", volume=24 << 30, request=128 << 10, writers=60, files=1, contested=True, label="shared")
    serial = Step(op="write", volume=4 << 30, request=small_requests, writers=1, files=1, label="own", compute_s=20.0)
    first = (build_scene_job(0, [shared], 15, name="nto1", mode="N-1"), 0.0, 0)
    second = (build_scene_job(1, [serial], 1, name="oneone", mode="1-1"), 0.0, 15)
    return build_scene_play([first, second] if together else [second], seconds, seed=seed)


def build_slow_target_scene(seed: int = 7, *, factor: float = 0.1, seconds: int = 180) -> Play:
    """One job writes checkpoints to all targets; from 60 s to 120 s target 3 has only `factor` of its speed."""
    steps = [Step(op="write", volume=8 << 30, writers=64, files=64, label="ckpt", compute_s=10.0) for _ in range(6)]
    fault = Fault(component="target", number=3, from_s=60.0, to_s=120.0, factor=factor)
    return build_scene_play([(build_scene_job(0, steps, 16, name="ckpt"), 0.0, 0)], seconds, seed=seed, faults=[fault])


def build_bad_day_scene(seed: int = 7) -> Play:
    """Ten minutes of four users, each with a program of their own. Number 1 of alice runs as 10 to 13 did before it,
    but beside an N-1 job of bob (0, as 40 before it), which holds their forwarder. Number 2 of carol writes checkpoints
    as 20 to 22 did, but target 3 has a tenth of its speed. Number 33 of dave is as 30 to 32 before it."""
    own = Step(op="write", volume=2 << 30, request=256 << 10, writers=1, files=1, label="own", compute_s=5.0)
    shared = Step(op="write", volume=8 << 30, request=128 << 10, writers=60, files=1, contested=True, label="shared")
    ckpt = [Step(op="write", volume=8 << 30, writers=64, files=64, label="ckpt", compute_s=8.0) for _ in range(4)]
    calm = [Step(op="read", volume=1 << 30, writers=8, files=8, label="mesh", compute_s=15.0, fresh=False)]
    alice = (own,), "alice", "seismic", "1-1", 1
    bob = (shared,), "bob", "spectra", "N-1", 15
    carol, dave = (ckpt, "carol", "climate", "N-N", 16), (calm, "dave", "mesher", "N-N", 4)
    jobs = [
        *((10 + k, alice, 45.0 * k, 15) for k in range(4)),
        (1, alice, 300.0, 15),
        (40, bob, 210.0, 0),
        (0, bob, 300.0, 0),
        *((20 + k, carol, 75.0 * k, 16) for k in range(3)),
        (2, carol, 390.0, 16),
        *((30 + k, dave, 60.0 * k, 48) for k in range(3)),
        (33, dave, 300.0, 48),
    ]
    fault = Fault(component="target", number=3, from_s=385.0, to_s=540.0, factor=0.1)
    return build_scene_play(
        [(_of(number, *who), begin, first) for number, who, begin, first in jobs], 600, seed=seed, faults=[fault]
    )


def _of(number: int, steps: Sequence[Step], user: str, name: str, mode: str, nodes: int) -> DrawnJob:
    made = build_scene_job(number, steps, nodes, name=name, mode=mode)
    return replace(made, program=replace(made.program, user=user))
