"""How evenly processes share the I/O: ranks, stragglers, serial I/O.

Shared records say only who was fastest and slowest; where nothing tells the ranks apart the metric is unknown.
"""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.counters import FloatArray
from fairlead.explain.analysis.io_time import CRUMBS, IoTimes
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Metrics, Value, check_metric_docs, compute_metric_share
from fairlead.explain.analysis.modes import estimate_mode_ranks
from fairlead.explain.analysis.timeline import sum_timeline_by_rank

STRAGGLER_SHARE = 0.15
STRAGGLER_FACTOR = 1.5

DOCS: Metrics = {
    "io_processes": ("count", "processes that moved bytes"),
    "io_processes_share": ("share", "of the job's processes that moved bytes"),
    "data_straggler_files": ("count", "shared files whose fastest and slowest rank differ by over 15 % of the bytes"),
    "time_straggler_files": ("count", "shared files whose slowest rank took over 1.5 times the average one"),
    "{d}_rank_imbalance": ("share", "(largest - smallest) / largest bytes per process, among those that moved any"),
    "time_rank_imbalance": ("share", "(slowest - mean) / slowest I/O time per process"),
    "straggler_ranks": ("count", "processes whose I/O took over 1.5 times the median of those doing I/O"),
    "slowest_rank": ("rank", "the process that spent most time in I/O"),
    "busiest_rank_bytes_share": ("share", "of all bytes that the busiest process moved"),
}


def compute_rank_balance_metrics(view: JobView, times: IoTimes) -> dict[str, Value]:
    """All metrics of `DOCS`."""
    moved = sum_timeline_by_rank(view)
    out: dict[str, Value] = {}
    active = int((moved.sum(axis=0) > 0).sum()) if moved is not None else None
    out["io_processes"] = active
    out["io_processes_share"] = compute_metric_share(active, view.processes)
    for kind, d in enumerate(("read", "write")):
        out[f"{d}_rank_imbalance"] = None if moved is None else _spread(moved[kind])
    out["busiest_rank_bytes_share"] = (
        None if moved is None or moved.sum() == 0 else float(moved.sum(axis=0).max() / moved.sum())
    )
    out["data_straggler_files"], out["time_straggler_files"] = _count_straggler_files(view)
    mean, slowest = times.mean_s, times.slowest_s
    out["time_rank_imbalance"] = None if slowest <= 0 else max(0.0, (slowest - mean) / slowest)
    out["straggler_ranks"] = None if times.per_rank_s is None else len(find_straggler_ranks(times.per_rank_s))
    out["slowest_rank"] = times.slowest_rank
    return check_metric_docs(out, DOCS, "balance_metrics")


def find_straggler_ranks(per_rank_s: FloatArray) -> np.ndarray:
    """Ranks whose I/O time exceeds 1.5 times the median of the ranks that did any, slowest first; (k,) int64."""
    busy = per_rank_s[per_rank_s > 0]
    if busy.size < 3:
        return np.zeros(0, np.int64)
    late = np.flatnonzero(per_rank_s > STRAGGLER_FACTOR * np.median(busy))
    return late[np.argsort(-per_rank_s[late], kind="stable")]


def _spread(per_rank: FloatArray) -> float | None:
    busy = per_rank[per_rank > 0]
    return float((busy.max() - busy.min()) / busy.max()) if busy.size > 1 else None


def _count_straggler_files(view: JobView) -> tuple[int | None, int | None]:
    """Shared files with a data and with a time straggler (Drishti's P18 and P19)."""
    data, time = find_unbalanced_rank_rows(view)
    rows = view.counters.lowest & view.counters.shared
    if not rows.any():
        return (0, 0) if view.counters_recorded else (None, None)
    return int(data.sum()), int(time.sum())


def _sharing(view: JobView) -> int | None:
    """Processes that share the work on shared files, as far as bytes per rank or their variance tell; None where
    collective calls hide it."""
    counters = view.counters
    moved = sum_timeline_by_rank(view)
    if moved is not None and moved.any():
        return int((moved.sum(axis=0) > 0).sum())
    total = counters.read_ints("bytes_read") + counters.read_ints("bytes_written")
    shared = counters.lowest & counters.shared & (total > CRUMBS * total[counters.lowest].sum())
    if (shared & counters.mark_known("variance_rank_bytes")).any():
        return estimate_mode_ranks(counters, shared & counters.mark_known("variance_rank_bytes"), view.processes)
    above = counters.select_rows("MPI-IO")
    calls = [f"{kind}_{word}" for kind in ("coll", "split") for word in ("reads", "writes")]
    return None if any(counters.read_ints(call)[above].any() for call in calls) else view.processes


def find_unbalanced_rank_rows(view: JobView) -> tuple[np.ndarray, np.ndarray]:
    """Rows of shared records with a data and with a time straggler, each (n,) bool.

    Drishti (P19) holds the gap in time between the fastest and the slowest rank against the sum over all ranks, which
    no gap reaches with many ranks. Here the slowest rank is held against the average of those that moved bytes.
    """
    counters = view.counters
    rows = counters.lowest & counters.shared & counters.mark_known("slowest_rank_time_s")
    moved = (counters.read_ints("bytes_read") + counters.read_ints("bytes_written")).astype(float)
    enough = moved > CRUMBS * moved[counters.lowest].sum()
    gap = np.abs(counters.read_ints("slowest_rank_bytes") - counters.read_ints("fastest_rank_bytes"))
    data = rows & enough & (gap > STRAGGLER_SHARE * moved)
    spent = (
        counters.read_floats("read_time_s") + counters.read_floats("write_time_s") + counters.read_floats("meta_time_s")
    )
    sharing = _sharing(view)
    if sharing is None:
        return data, np.zeros_like(data)
    average = spent / sharing
    lasting = spent > CRUMBS * np.maximum(spent, 0)[counters.lowest].sum()
    return data, rows & lasting & (counters.read_floats("slowest_rank_time_s") > STRAGGLER_FACTOR * average)
