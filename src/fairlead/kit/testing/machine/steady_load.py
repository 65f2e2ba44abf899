"""Steady loads: a machine whose jobs do I/O all the time, at a chosen number of rows a second. For benchmarks.

Not here: populations and their rhythm (`population`), or sending (`benchmarks/make_load.py` writes files).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.sim.platform import MACHINES
from fairlead.decide.sim.steps import Step
from fairlead.decide.sim.workloads.sunway import NODES
from fairlead.kit.testing.machine import client_rows
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.population import DrawnJob, Mix
from fairlead.kit.testing.machine.scenes import build_scene_job

__all__ = ["MACHINES", "build_steady_load", "measure_steady_load_randomness"]

PAUSES = 8
"""Runs a process makes in a second at most, where it does not go to places at random."""


def build_steady_load(machine: str, seed: int, rows_per_s: int, seconds: int, *, random: float = 0.25) -> Play:
    """A play in which clients make about `rows_per_s` rows of `ops`, the share `random` of them single operations at
    random offsets. Jobs of the published sizes fill the machine as far as that needs; nothing begins or ends.

    How many processes that takes is found by trying: the rate at which each goes is the engine's to say.
    """
    made = MACHINES[machine]()
    scale = 1.0
    play = _play(made, seed, rows_per_s, seconds, random, scale, 1.0)
    scattered = 1.0
    for _ in range(4):
        runs, single = _rates(play)
        scale *= rows_per_s * (1 - random) / max(runs, 1.0)
        scattered *= rows_per_s * random / max(single, 1.0)
        play = _play(made, seed, rows_per_s, seconds, random, scale, scattered)
    return play


def _rates(play: Play) -> tuple[float, float]:
    """Rows a second that are runs, and that are single operations at random."""
    course, t = play.course, play.build_traffic(2, 6)
    runs = client_rows.build_client_runs(course, t, play.seed)
    single = int(course.random[t.flow[runs.row]].sum())
    return (len(runs.row) - single) / 4, single / 4


def measure_steady_load_randomness(play: Play) -> float:
    """The share of rows that are single operations at random offsets."""
    runs, single = _rates(play)
    return single / max(runs + single, 1.0)


def _play(
    machine: Site, seed: int, rows_per_s: int, seconds: int, random: float, scale: float, scattered: float
) -> Play:
    rng = np.random.default_rng([seed, 9])
    processes = machine.nodes * machine.cores_per_node
    wanted = rows_per_s * (1 - random) * scale
    pauses = int(np.clip(np.ceil(wanted / (0.6 * processes)), 1, PAUSES))
    lanes, single = wanted / pauses, rows_per_s * random * scattered / 4
    sizes, shares = np.array([n for n, _ in NODES]), np.array([share for _, share in NODES])
    jobs: list[tuple[DrawnJob, int]] = []
    free, number = 0, 0
    # Jobs at random first: they are the fewer, and both kinds share forwarders as they come to lie.
    left = {"random": single, "runs": lanes}
    while free < machine.nodes and max(left.values()) >= 1:
        kind = "random" if left["random"] * lanes >= left["runs"] * single else "runs"
        nodes = int(rng.choice(sizes, p=shares / shares.sum()))
        nodes = max(min(nodes, machine.nodes - free, -(-int(left[kind]) // machine.cores_per_node)), 1)
        many = min(nodes * machine.cores_per_node, max(int(left[kind]), 1))
        jobs.append(
            (
                build_scene_job(
                    number, [_step(rng, kind, many, seconds, pauses, single)], nodes, name=f"load{number % 40}"
                ),
                free,
            )
        )
        left[kind] -= many
        free += nodes
        number += 1
    placed = {drawn.number: (0.0, np.arange(at, at + drawn.program.nodes, dtype=np.int32)) for drawn, at in jobs}
    return Play(machine, Mix(), seed, seconds, jobs=[drawn for drawn, _ in jobs], placed=placed)


def _step(rng: np.random.Generator, kind: str, writers: int, seconds: int, pauses: int, single: float) -> Step:
    """I/O that no process comes to the end of in the time: 200 MB/s each would not."""
    step = Step(
        op=str(rng.choice(["read", "write"], p=[0.45, 0.55])),
        volume=writers * seconds * 200_000_000,
        request=int(rng.choice([4 << 10, 16 << 10, 64 << 10, 128 << 10])),
        writers=writers,
        files=writers,
        pauses=pauses,
    )
    # Where less than one process at random would do, its requests are larger, and so fewer.
    larger = 1 << int(np.clip(np.ceil(np.log2(1 / single)) if single < 1 else 0, 0, 8))
    return step if kind == "runs" else replace(step, op="read", request=larger << 16, random=True, pauses=1)
