"""The month: the machine of the sample site, when its jobs are handed in and where they run. Simulated, from a seed.

The month is followed by some days that are played while somebody looks. Not here: what is put by hand (`story`), what
is recorded (`records`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairlead.core.model.site import F64, I32, Site
from fairlead.decide.sim.platform import build_small_platform
from fairlead.kit.sample.people import MIX, draw_people_programs
from fairlead.kit.sample.story import (
    CULPRIT,
    DAY_S,
    RESERVED_NODES,
    RESERVED_S,
    VICTIM,
    FixedJob,
    build_sample_story_faults,
    build_sample_story_jobs,
)
from fairlead.kit.testing.machine.noise import RunNoise
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.population import DrawnJob, draw_population_jobs

SEED = 11
"""With this seed the diagnosis of the story agrees with its truth; tests hold that."""
DAYS, AHEAD_DAYS = 30, 2
JOBS_A_DAY = 64
NS = 1_000_000_000
HOUR_NS = 3600 * NS
MOST_RANDOM = 600
"""Requests at random a step makes at most: each is a row."""


@dataclass(frozen=True)
class Quiet:
    """A node whose agent says nothing from `from_s` to `to_s` (None: for ever)."""

    node: str
    from_s: float
    to_s: float | None


@dataclass(frozen=True)
class Month:
    """A sample site at some time. `seconds`: of the month; `play` goes on for `AHEAD_DAYS` after it. `quiet`: agents
    that are silent for a while."""

    play: Play
    seconds: int
    quiet: tuple[Quiet, ...]
    victim: int = VICTIM
    culprit: int = CULPRIT


def _build_machine() -> Site:
    """64 nodes, 4 forwarders, 4 storage servers of 2 targets, 2 metadata servers."""
    return build_small_platform(
        name="sample",
        mds=2,
        cores_per_node=2,
        target_bandwidth=150e6,
        server_bandwidth=280e6,
        target_iops=3_000.0,
    )


def find_month_origin(now_ns: int, days: int = DAYS) -> int:
    """The whole hour a month begins at that ends now, or less than an hour ago."""
    return now_ns // HOUR_NS * HOUR_NS - days * 24 * HOUR_NS


def build_sample_month(
    origin_ns: int,
    seed: int = SEED,
    *,
    days: int = DAYS,
    ahead_days: float = AHEAD_DAYS,
    jobs_a_day: float = JOBS_A_DAY,
) -> Month:
    """The month that begins at `origin_ns`. The same arguments give the same records, in any process."""
    made, month_s, ahead_s = _build_machine(), days * DAY_S, ahead_days * DAY_S
    site = draw_people_programs(made, seed)
    when = _submitted(month_s + ahead_s, jobs_a_day, np.random.default_rng([seed, 41]))
    drawn = draw_population_jobs(made, MIX, len(when), np.random.default_rng([seed, 42]), site=site)
    jobs = [_bound_random_requests(replace(one, submit_s=float(at))) for one, at in zip(drawn, when, strict=True)]
    placed = _placed(made, jobs, build_sample_story_jobs(month_s, ahead_s), month_s)
    everyone = sorted(
        [*jobs, *(one.drawn for one in build_sample_story_jobs(month_s, ahead_s))],
        key=lambda one: placed[one.number][0],
    )
    everyone = [
        replace(one, submit_s=min(one.submit_s or placed[one.number][0], placed[one.number][0])) for one in everyone
    ]
    play = Play(
        made,
        MIX,
        seed,
        int(month_s + ahead_s),
        origin_ns=origin_ns,
        faults=build_sample_story_faults(month_s, ahead_s),
        jobs=everyone,
        placed=placed,
        noise=RunNoise(seed),
        idle_s=60,
    )
    quiet = (
        Quiet(made.format_node_name(42), month_s - 5.2 * 3600, None),
        Quiet(made.forwarders.names[3], month_s - 1.3 * DAY_S, month_s - 1.3 * DAY_S + 2700),
    )
    return Month(play, int(month_s), quiet)


def _bound_random_requests(job: DrawnJob) -> DrawnJob:
    """The same job with no more requests at random than a lake of a month bears."""
    steps = tuple(
        replace(step, request=max(step.request, -(-step.volume // MOST_RANDOM // 4096) * 4096)) if step.random else step
        for step in job.steps
    )
    return replace(job, steps=steps)


def _submitted(span_s: float, jobs_a_day: float, rng: np.random.Generator) -> F64:
    """When jobs are handed in: more by day than by night, fewer on two days of seven."""
    hours = np.arange(int(np.ceil(span_s / 3600)))
    by_day = 0.35 + np.exp(-(((hours % 24) - 13.0) ** 2) / 30.0)
    weight = by_day * np.where(hours // 24 % 7 >= 5, 0.45, 1.0)
    reached = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    count = int(span_s / DAY_S * jobs_a_day)
    return np.sort(np.interp(rng.random(count), reached, np.append(hours, len(hours)) * 3600.0))


def _placed(
    machine: Site, jobs: Sequence[DrawnJob], fixed: Sequence[FixedJob], month_s: float
) -> dict[int, tuple[float, I32]]:
    """When and on which nodes each job begins: first come first served, by how long it is thought to take; what is put
    by hand goes first where it has a place."""
    free = np.zeros(machine.nodes)
    held = np.array([month_s - RESERVED_S[0], month_s - RESERVED_S[1]])
    placed: dict[int, tuple[float, I32]] = {}
    waiting = [(one.submit_s, one) for one in jobs] + [(one.begin_s, one.drawn) for one in fixed if one.first is None]
    for submit_s, one in sorted(waiting, key=lambda pair: (pair[0], pair[1].number)):
        long = _thought_s(one)
        count = one.program.nodes
        windows = np.lib.stride_tricks.sliding_window_view(free, count).max(axis=1)
        begin = np.maximum(windows, submit_s)
        # Nobody else is behind the story's forwarder while it is told.
        meets = (np.arange(len(begin)) < RESERVED_NODES) & (begin < held[1]) & (begin + long > held[0])
        begin = np.where(meets, held[1], begin)
        first = int(begin.argmin())
        at = float(np.ceil(begin[first]))
        free[first : first + count] = at + long
        placed[one.number] = (at, np.arange(first, first + count, dtype=np.int32))
    for special in fixed:
        if special.first is not None:
            nodes = np.arange(special.first, special.first + special.drawn.program.nodes, dtype=np.int32)
            placed[special.drawn.number] = (float(np.ceil(special.begin_s)), nodes)
    return placed


def _thought_s(job: DrawnJob) -> float:
    """How long a job is thought to take, generously: as a limit its user would give."""
    program = job.program
    rate = 80e6 if program.mode == "1-1" else 80e6 * min(program.nodes, 2 if program.mode == "N-1" else 5)
    io_s = (job.read_bytes + job.write_bytes) / rate
    return sum(step.compute_s for step in job.steps) + job.tail_s + 2.5 * io_s + 120.0
