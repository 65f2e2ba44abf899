"""Time spent in I/O: per process, on average and by the process that waited longest.

Counter-only logs reduce a file shared by all ranks to one record: its times are sums over ranks, only the slowest
rank's total is kept. What follows from that is stated where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.analysis.counters import FloatArray
from fairlead.analysis.timeline import bytes_by_rank
from fairlead.analysis.view import JobView

SPREAD_SHARE = 0.01
"""Shared records that hold at most 1 % of the time are spread evenly over the ranks without calling it an estimate."""


@dataclass(frozen=True)
class IoTimes:
    """Seconds in I/O at the lowest interface.

    `read_s`, `write_s`, `meta_s`: mean over the `active` processes (those that did I/O; all of them when unknown).
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


def io_times(view: JobView) -> IoTimes:
    """I/O times of the lowest interface."""
    counters = view.counters
    rows = counters.lowest
    processes = view.processes
    parts = [np.maximum(counters.floats(f"{k}_time_s"), 0.0) for k in ("read", "write", "meta")]
    total = parts[0] + parts[1] + parts[2]
    shared = rows & counters.shared
    own = rows & ~counters.shared
    per_rank: FloatArray = np.bincount(counters.rank[own], total[own], processes)[:processes].astype(np.float64)
    exact = float(total[shared].sum()) <= SPREAD_SHARE * float(total[rows].sum())
    active = _active(view, own, shared, total)
    even = float(total[shared].sum()) / processes
    extra = np.maximum(counters.floats("slowest_rank_time_s")[shared], total[shared] / processes)
    # Whether one rank was slowest in every shared file is unknown; the records' maxima add up to an upper bound.
    top = int(np.argmax(per_rank)) if per_rank.size else 0
    slowest = float(per_rank.max(initial=0.0) + extra.sum())
    run_time = view.job.run_time_s
    if run_time:
        slowest = min(slowest, run_time)
    sums = [float(p[rows].sum()) / active for p in parts]
    mean = sum(sums)
    slowest = max(slowest, min(mean, run_time or mean))
    known_ranks = counters.ints("slowest_rank")[shared]
    slowest_rank = top if exact else (int(known_ranks[np.argmax(extra)]) if extra.size else None)
    ranks = per_rank + even if exact else _traced_ranks(view, per_rank, even)
    return IoTimes(
        read_s=sums[0], write_s=sums[1], meta_s=sums[2], slowest_s=slowest,
        slowest_rank=slowest_rank if slowest > 0 else None,
        active=active, per_rank_s=ranks, exact=exact,
    )  # fmt: skip


def _active(view: JobView, own: np.ndarray, shared: np.ndarray, total: FloatArray) -> int:
    """Processes over which to average: those that moved bytes where that is known, else those that spent time, else
    all."""
    moved = bytes_by_rank(view)
    if moved is not None and moved.sum() > 0:
        return max(int((moved.sum(axis=0) > 0).sum()), 1)
    if not (shared & (total > 0)).any():
        busy = np.bincount(view.counters.rank[own], total[own], view.processes) > 0
        return max(int(busy.sum()), 1)
    return view.processes


def _traced_ranks(view: JobView, own: FloatArray, even: float) -> FloatArray | None:
    """Per-rank times from the operation trace where it covers the shared files; None when nothing tells ranks apart."""
    traced = view.operations.get("POSIX")
    if traced is None or traced.rank_time_s.shape[1] > view.processes:
        return None
    out = np.zeros(view.processes)
    out[: traced.rank_time_s.shape[1]] = traced.rank_time_s.sum(axis=0)
    return np.maximum(out, own) if even > 0 or out.any() else None
