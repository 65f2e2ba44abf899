"""How fast the storage targets served a job, where its files tell them apart: one stripe, one process each.

Not here: the servers' own counters. A slow target seen by one job may have been slow for this job's time only.
"""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.counters import FloatArray, IntArray
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Metrics, Value, check_metric_docs

SLOW_SHARE = 0.3
"""Beacon calls a component abnormal below 30 % of what its peers reach (TOS 2023, section 4)."""
_ENOUGH_TARGETS = 4
_ENOUGH_FILES = 2
_ENOUGH_BYTES = 16 << 20

DOCS: Metrics = {
    "targets_compared": (
        "count",
        "storage targets whose speed can be measured from files with one stripe and one process",
    ),
    "slow_targets": ("count", "of these, targets that served under 30 % of the median rate"),
    "slowest_target": ("rank", "the slowest target (its index, as Lustre numbers OSTs)"),
    "slowest_target_rate_share": ("share", "rate of the slowest target over the median target's"),
}


def compute_target_metrics(view: JobView) -> dict[str, Value]:
    """All metrics of `DOCS`, None where fewer than four targets can be compared."""
    out: dict[str, Value] = dict.fromkeys(DOCS)
    ids, rates = compute_target_rate_metrics(view)
    if len(ids) >= _ENOUGH_TARGETS:
        relative = rates / np.median(rates)
        slowest = int(np.argmin(relative))
        out |= {
            "targets_compared": len(ids),
            "slow_targets": int((relative < SLOW_SHARE).sum()),
            "slowest_target": int(ids[slowest]),
            "slowest_target_rate_share": float(relative[slowest]),
        }
    return check_metric_docs(out, DOCS, "target_metrics")


def compute_target_rate_metrics(view: JobView) -> tuple[IntArray, FloatArray]:
    """Targets and the bytes per second one process got from each, both (n,); only targets with at least two files
    and 16 MiB."""
    nothing = np.zeros(0, np.int64), np.zeros(0)
    counters = view.counters
    rows = counters.select_rows("POSIX") & ~counters.shared
    moved = (counters.read_ints("bytes_read") + counters.read_ints("bytes_written")).astype(float)
    spent = np.maximum(counters.read_floats("read_time_s"), 0) + np.maximum(counters.read_floats("write_time_s"), 0)
    rows = rows & (moved > 0) & (spent > 0)
    target_of = _single_targets(view)
    if not rows.any() or not target_of:
        return nothing
    held = np.array([target_of.get(i, -1) for i in counters.file_id[rows].tolist()], np.int64)
    ids, inverse = np.unique(held, return_inverse=True)
    inverse = inverse.reshape(-1)
    nbytes, seconds = np.bincount(inverse, moved[rows]), np.bincount(inverse, spent[rows])
    enough = (ids >= 0) & (np.bincount(inverse) >= _ENOUGH_FILES) & (nbytes >= _ENOUGH_BYTES)
    return ids[enough], (nbytes / seconds)[enough]


def _single_targets(view: JobView) -> dict[int, int]:
    """file_id → its only target."""
    columns = (view.layouts.column(name).to_pylist() for name in ("file_id", "targets"))
    found: dict[int, int] = {}
    several: set[int] = set()
    for file, targets in zip(*columns, strict=True):
        if targets is None or len(targets) != 1 or found.get(file, targets[0]) != targets[0]:
            several.add(file)
        else:
            found[file] = targets[0]
    return {file: target for file, target in found.items() if file not in several}
