"""How far I/O overlaps with computing. Only traces that record computing (DFTracer's APP events) can tell."""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.counters import LOWEST, IntArray
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Metrics, Value, check_metric_docs
from fairlead.explain.analysis.op_columns import union_op_intervals
from fairlead.explain.analysis.operations import OperationTotals

COMPUTE_INTERFACE = "APP"

DOCS: Metrics = {
    "overlap_share": ("share", "of the I/O time during which the same process computed"),
    "compute_time_s": ("s", "mean time per process in recorded computing"),
    "concurrent_io_share": ("share", "of the I/O time that ran beside other I/O of the same process (threads, async)"),
}


def compute_overlap_metrics(view: JobView) -> dict[str, Value]:
    """All metrics of `DOCS`, None where computing or single operations were not recorded."""
    io = [view.operations[i] for i in LOWEST if i in view.operations]
    compute = view.operations.get(COMPUTE_INTERFACE)
    busy = sum(float(t.rank_busy_s.sum()) for t in io)
    spent = sum(float(t.rank_time_s.sum()) for t in io)
    out: dict[str, Value] = {"overlap_share": None, "compute_time_s": None, "concurrent_io_share": None}
    if io and spent > 0:
        out["concurrent_io_share"] = max(0.0, 1 - busy / spent)
    if io and compute is not None:
        both = _common_ns(io, compute) / 1e9
        out["compute_time_s"] = float(compute.rank_busy_s.sum()) / max(int((compute.rank_busy_s > 0).sum()), 1)
        out["overlap_share"] = min(both / busy, 1.0) if busy > 0 else None
    return check_metric_docs(out, DOCS, "overlap_metrics")


def _common_ns(io: list[OperationTotals], compute: OperationTotals) -> int:
    """Nanoseconds in both, from the merged activity (pauses within `gap_ns` count as activity)."""
    io_rank = np.concatenate([t.activity.rank for t in io])
    io_start = np.concatenate([t.activity.start_ns for t in io])
    io_end = np.concatenate([t.activity.end_ns for t in io])
    a, c = compute.activity, union_op_intervals
    left = _length(*c(io_rank, io_start, io_end))
    right = _length(*c(a.rank, a.start_ns, a.end_ns))
    either = _length(
        *c(
            np.concatenate([io_rank, a.rank]),
            np.concatenate([io_start, a.start_ns]),
            np.concatenate([io_end, a.end_ns]),
        )
    )
    return left + right - either


def _length(group: IntArray, start: IntArray, end: IntArray) -> int:
    del group
    return int((end - start).sum())
