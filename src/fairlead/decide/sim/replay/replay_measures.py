"""What a replay means: slowdown, stretch, idle core-hours, use of components, fairness, tables by class.

Not here: comparing two replays' causes, or money (`whatif`). Missing stays NaN: a job that had not ended has no figure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.cycles.cycle_measures import measure_cycle_fairness
from fairlead.decide.sim.replay.jobs import Jobs, ReplayResult
from fairlead.decide.sim.replay.kernel_arguments import F64, I64
from fairlead.decide.sim.replay.solo_time import sum_solo_time

HOUR_S = 3600.0


def measure_slowdown(replayed: ReplayResult) -> F64:
    """Seconds of I/O over those alone with the best grant (J,): rho of Bandet, Boito and Pallez 2024; 1 for a job
    without I/O, NaN for one that had not ended."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(replayed.alone_s == 0, 1.0, replayed.io_s / replayed.alone_s))


def measure_granted_slowdown(replayed: ReplayResult) -> F64:
    """Of `measure_slowdown`, what the grant costs alone (rho_io) (J,); the rest is contention and faults."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(replayed.alone_s == 0, 1.0, replayed.granted_s / replayed.alone_s)
    return np.asarray(part)


def measure_computing_seconds(jobs: Jobs) -> F64:
    """Seconds each job (J,) computes."""
    return sum_solo_time(jobs, jobs.compute_s) + jobs.tail_s


def measure_stretch(jobs: Jobs, replayed: ReplayResult) -> F64:
    """Run time over run time alone with the best grant (J,)."""
    alone = measure_computing_seconds(jobs) + replayed.alone_s
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(alone == 0, 1.0, (replayed.end_s - jobs.start_s) / alone))


def measure_waiting_core_hours(jobs: Jobs, replayed: ReplayResult) -> F64:
    """Core-hours each job's cores wait in I/O (J,)."""
    return np.asarray(replayed.io_s * jobs.cores / HOUR_S)


def measure_lost_core_hours(jobs: Jobs, replayed: ReplayResult) -> F64:
    """Core-hours each job's cores wait in I/O beyond what they would alone with the best grant (J,)."""
    return np.asarray((replayed.io_s - replayed.alone_s) * jobs.cores / HOUR_S)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Jobs of one group: `ended` of `jobs`; of those that ended mean, median and 90th percentile of slowdown, mean
    stretch, the mean slowdown their grants cost alone, core-hours they waited in I/O and of these lost, fairness
    (Jain's index of 1 / slowdown). NaN where none has ended."""

    jobs: int
    ended: int
    mean: float
    median: float
    p90: float
    granted: float
    stretch: float
    waiting_core_hours: float
    lost_core_hours: float
    fairness: float


def summarise_replay_measures(jobs: Jobs, replayed: ReplayResult, among: NDArray[np.bool_] | None = None) -> Summary:
    """The jobs of the mask `among` (J,) (None: all) in one row."""
    chosen = np.ones(len(jobs), np.bool_) if among is None else among
    ended = chosen & ~np.isnan(replayed.end_s)
    rho = measure_slowdown(replayed)[ended]
    none = float("nan")
    return Summary(
        jobs=int(chosen.sum()),
        ended=int(ended.sum()),
        mean=float(rho.mean()) if len(rho) else none,
        median=float(np.median(rho)) if len(rho) else none,
        p90=float(np.percentile(rho, 90)) if len(rho) else none,
        granted=float(measure_granted_slowdown(replayed)[ended].mean()) if len(rho) else none,
        stretch=float(measure_stretch(jobs, replayed)[ended].mean()) if len(rho) else none,
        waiting_core_hours=float(measure_waiting_core_hours(jobs, replayed)[ended].sum()) if len(rho) else none,
        lost_core_hours=float(measure_lost_core_hours(jobs, replayed)[ended].sum()) if len(rho) else none,
        fairness=measure_cycle_fairness(1.0 / rho) if len(rho) else none,
    )


def measure_replay_classes(jobs: Jobs, replayed: ReplayResult, classes: I64) -> dict[int, Summary]:
    """A row for each class of jobs, rising; `classes` (J,) is `jobs.behaviour`, `jobs.basis`, or any other."""
    return {int(c): summarise_replay_measures(jobs, replayed, classes == c) for c in np.unique(classes)}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One policy against another, on jobs that ended under both: `faster`, `slower` and `alike` jobs (by more than
    `within` of their I/O time), core-hours `saved` on the whole, by those that gain (`gained`) and by those that lose
    (`paid`)."""

    faster: int
    slower: int
    alike: int
    saved_core_hours: float
    gained_core_hours: float
    paid_core_hours: float


def measure_replay_change(jobs: Jobs, before: ReplayResult, after: ReplayResult, *, within: float = 0.01) -> Change:
    """What `after` changes for the jobs of `before`."""
    both = ~np.isnan(before.end_s) & ~np.isnan(after.end_s)
    was, now = before.io_s[both], after.io_s[both]
    differ = np.abs(now - was) > within * was
    saved = (was - now) * jobs.cores[both] / HOUR_S
    return Change(
        faster=int((differ & (now < was)).sum()),
        slower=int((differ & (now > was)).sum()),
        alike=int((~differ).sum()),
        saved_core_hours=float(saved.sum()),
        gained_core_hours=float(saved[saved > 0].sum()),
        paid_core_hours=float(-saved[saved < 0].sum()),
    )
