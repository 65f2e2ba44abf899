"""Time spent in I/O: per process, on average and by the process that waited longest.

Counter-only logs reduce a file shared by all ranks to one record: its times are sums over ranks, only the slowest
rank's total is kept. What follows from that is stated where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.counters import FloatArray
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.modes import estimate_mode_ranks
from fairlead.explain.analysis.timeline import sum_timeline_by_rank

SPREAD_SHARE = 0.01
"""Shared records that hold at most 1 % of the time are spread evenly over the ranks without calling it an estimate."""

CRUMBS = 0.01
"""Below this share of the job's bytes or time a shared record tells neither who does its I/O nor how evenly."""


@dataclass(frozen=True)
class IoTimes:
    """Seconds in I/O at the lowest interface.

    `read_s`, `write_s`: mean over the `active` processes (those that moved bytes; all of them when unknown), `meta_s`
    over those that did metadata operations.
    `slowest_s`: the process that spent most, capped at the run time. `per_rank_s` (processes,) where known exactly,
    else None. `exact` is False when shared records that matter had to be spread evenly or taken at their slowest rank.
    """

    read_s: float
    write_s: float
    meta_s: float
    slowest_s: float
    slowest_rank: int | None
    active: int
    per_rank_s: FloatArray | None
    exact: bool

    @property
    def mean_s(self) -> float:
        """Mean I/O time of an active process."""
        return self.read_s + self.write_s + self.meta_s


def compute_io_times(view: JobView) -> IoTimes:
    """I/O times of the lowest interface."""
    counters = view.counters
    rows = counters.lowest
    processes = view.processes
    parts = [np.maximum(counters.read_floats(f"{k}_time_s"), 0.0) for k in ("read", "write", "meta")]
    total = parts[0] + parts[1] + parts[2]
    shared = rows & counters.shared
    own = rows & ~counters.shared
    per_rank: FloatArray = np.bincount(counters.rank[own], total[own], processes)[:processes].astype(np.float64)
    exact = float(total[shared].sum()) <= SPREAD_SHARE * float(total[rows].sum())
    active = _active(view, own, shared, total)
    even = float(total[shared].sum()) / processes
    extra = np.maximum(counters.read_floats("slowest_rank_time_s")[shared], total[shared] / processes)
    # Whether one rank was slowest in every shared file is unknown; the records' maxima add up to an upper bound.
    top = int(np.argmax(per_rank)) if per_rank.size else 0
    slowest = float(per_rank.max(initial=0.0) + extra.sum())
    run_time = view.job.run_time_s
    if run_time:
        slowest = min(slowest, run_time)
    sharers = (active, active, _opening(view, rows, parts[2]))
    sums = [float(part[rows].sum()) / n for part, n in zip(parts, sharers, strict=True)]
    mean = sum(sums)
    slowest = max(slowest, min(mean, run_time or mean))
    known_ranks = counters.read_ints("slowest_rank")[shared]
    slowest_rank = top if exact else (int(known_ranks[np.argmax(extra)]) if extra.size else None)
    ranks = per_rank + even if exact else _traced_ranks(view, per_rank, even)
    return IoTimes(
        read_s=sums[0],
        write_s=sums[1],
        meta_s=sums[2],
        slowest_s=slowest,
        slowest_rank=slowest_rank if slowest > 0 else None,
        active=active,
        per_rank_s=ranks,
        exact=exact,
    )


def _opening(view: JobView, rows: np.ndarray, meta: FloatArray) -> int:
    """Processes that did metadata operations: all where files are shared, as every rank opened them."""
    used = rows & (meta > 0)
    if (used & view.counters.shared).any():
        return view.processes
    return max(len(np.unique(view.counters.rank[used])), 1)


def _active(view: JobView, own: np.ndarray, shared: np.ndarray, total: FloatArray) -> int:
    """Processes over which to average: those that moved bytes where that is known; those that spent time where no
    record is shared; as many as the variance of bytes over ranks proves (with collective buffering few of many); else
    all."""
    moved = sum_timeline_by_rank(view)
    if moved is not None and moved.sum() > 0:
        return max(int((moved.sum(axis=0) > 0).sum()), 1)
    if not (shared & (total > 0)).any():
        busy = np.bincount(view.counters.rank[own], total[own], view.processes) > 0
        return max(int(busy.sum()), 1)
    # Crumbs of text that all ranks touch say nothing about who moves the data.
    lasting = total > CRUMBS * total[view.counters.lowest].sum()
    proven = shared & lasting & view.counters.mark_known("variance_rank_bytes")
    if not proven.any():
        return view.processes
    alone = len(np.unique(view.counters.rank[own & (total > 0)]))
    return max(estimate_mode_ranks(view.counters, proven, view.processes), alone, 1)


def _traced_ranks(view: JobView, own: FloatArray, even: float) -> FloatArray | None:
    """Per-rank times from the operation trace where it covers the shared files; None when nothing tells ranks apart."""
    traced = view.operations.get("POSIX")
    if traced is None or traced.rank_time_s.shape[1] > view.processes:
        return None
    out = np.zeros(view.processes)
    out[: traced.rank_time_s.shape[1]] = traced.rank_time_s.sum(axis=0)
    return np.maximum(out, own) if even > 0 or out.any() else None
