"""Metadata work: how many operations, how fast, how long, on how many and how small files."""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.counters import LOWEST, Counters
from fairlead.explain.analysis.io_time import IoTimes
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Metrics, Value, check_metric_docs, compute_metric_share
from fairlead.explain.analysis.timeline import Timeline

SMALL_FILE_BYTES = 1 << 20

DOCS: Metrics = {
    "metadata_ops": ("count", "opens, stats, renames and other calls for the metadata server; no closes, seeks, syncs"),
    "metadata_ops_per_s": ("1/s", "metadata operations per second while the job did I/O (over one second at least)"),
    "metadata_ops_share": ("share", "of all operations that are metadata operations"),
    "meta_time_share": ("share", "of the I/O time that is spent in metadata operations"),
    "meta_time_max_s": ("s", "the longest time one process spent in metadata operations"),
    "opens": ("count", "opens"),
    "stats": ("count", "stat calls"),
    "opens_per_file": ("ratio", "opens per file and process using it"),
    "fsyncs": ("count", "fsync, fdatasync and flush calls"),
    "writes_per_fsync": ("ratio", "writes per fsync"),
    "seeks": ("count", "seeks"),
    "seeks_per_op": ("ratio", "seeks per data operation"),
    "files": ("count", "files used"),
    "files_read": ("count", "files read from"),
    "files_written": ("count", "files written to"),
    "shared_files": ("count", "files used by more than one process"),
    "small_files": ("count", "files of which the job touched at most 1 MiB"),
    "small_files_share": ("share", "of the files that hold data of which the job touched at most 1 MiB"),
    "empty_files": ("count", "files opened without moving a byte"),
}


def _count_metadata_ops(view: JobView) -> int:
    """Metadata operations at the lowest interface, standard streams apart."""
    counters = view.counters
    rows = counters.lowest
    total = sum(int(np.maximum(counters.read_ints(n), 0)[rows].sum()) for n in ("opens", "stats", "renames"))
    counted = {"open", "create", "opendir", "stat", "rename"}
    if not view.counters_recorded:
        for name in LOWEST:
            if name in view.operations:
                total += sum(c for w, c in view.operations[name].metadata_ops.items() if w not in counted)
    return total


def compute_namespace_metrics(
    view: JobView, times: IoTimes, timeline: Timeline | None, data_ops: int
) -> dict[str, Value]:
    """All metrics of `DOCS`. `data_ops` are reads plus writes."""
    counters = view.counters
    rows = counters.lowest
    files, inverse = np.unique(counters.file_id[rows], return_inverse=True)
    inverse = inverse.reshape(-1)
    n = len(files)
    read = np.bincount(inverse, counters.read_ints("bytes_read")[rows], n)
    written = np.bincount(inverse, counters.read_ints("bytes_written")[rows], n)
    users = np.bincount(inverse, np.where(counters.shared[rows], view.processes, 1), n)
    opens, stats = (int(np.maximum(counters.read_ints(c), 0)[rows].sum()) for c in ("opens", "stats"))
    syncs = sum(int(np.maximum(counters.read_ints(c), 0)[rows].sum()) for c in ("fsyncs", "fdatasyncs"))
    seeks = int(np.maximum(counters.read_ints("seeks"), 0)[rows].sum())
    total, seconds = _count_metadata_ops(view), _compute_io_seconds(view, timeline)
    moved = read + written
    small = int(((moved > 0) & (moved <= SMALL_FILE_BYTES)).sum())
    writes = int(counters.read_ints("writes")[rows].sum())
    return check_metric_docs(
        {
            "metadata_ops": total,
            "metadata_ops_per_s": None if seconds is None else total / max(seconds, 1.0),
            "metadata_ops_share": compute_metric_share(total, total + data_ops),
            "meta_time_share": compute_metric_share(times.meta_s, times.mean_s),
            "meta_time_max_s": _longest_meta(counters, view.processes),
            "opens": opens,
            "stats": stats,
            "opens_per_file": compute_metric_share(opens, int(users.sum())),
            "fsyncs": syncs,
            "writes_per_fsync": compute_metric_share(writes, syncs),
            "seeks": seeks,
            "seeks_per_op": compute_metric_share(seeks, data_ops),
            "files": n,
            "files_read": int((read > 0).sum()),
            "files_written": int((written > 0).sum()),
            "shared_files": int((users > 1).sum()),
            "small_files": small,
            "small_files_share": compute_metric_share(small, int((moved > 0).sum())),
            "empty_files": int((moved == 0).sum()),
        },
        DOCS,
        "namespace_metrics",
    )


def _compute_io_seconds(view: JobView, timeline: Timeline | None) -> float | None:
    """Seconds in which the job did I/O: from the first to the last recorded activity, less the empty stretches of the
    timeline where there is one. None when no times were recorded."""
    counters = view.counters
    rows = counters.lowest
    bounds = []
    for name in (
        "open_start_ns",
        "read_start_ns",
        "write_start_ns",
        "open_end_ns",
        "read_end_ns",
        "write_end_ns",
        "close_end_ns",
    ):
        known = counters.read_ints(name)[rows & counters.mark_known(name)]
        if known.size:
            bounds += [int(known.min()), int(known.max())]
    if not bounds or max(bounds) <= min(bounds):
        return None
    span = (max(bounds) - min(bounds)) / 1e9
    if timeline is None:
        return span
    busy = int(((timeline.fine_read + timeline.fine_write) > 0).sum()) * timeline.fine_bin_ns / 1e9
    return min(span, busy) if busy > 0 else span


def _longest_meta(counters: Counters, processes: int) -> float | None:
    """Per process, the own records' metadata time plus an even part of the shared ones (a lower bound then)."""
    rows = counters.lowest & counters.mark_known("meta_time_s")
    if not rows.any():
        return None
    spent = np.maximum(counters.read_floats("meta_time_s"), 0.0)
    own = rows & ~counters.shared
    per_rank = np.bincount(counters.rank[own], spent[own], processes)
    return float(per_rank.max(initial=0.0) + spent[rows & counters.shared].sum() / processes)
