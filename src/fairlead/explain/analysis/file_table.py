"""One row per file at the lowest interface: what the pages list and what evidence points at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.explain.analysis.counters import FloatArray, IntArray
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.rank_balance import find_unbalanced_rank_rows
from fairlead.explain.analysis.request_metrics import SMALL_BINS


@dataclass(frozen=True)
class FileTable:
    """Files of a job (n rows), standard streams apart. `columns` maps a name to an (n,) array; `layout` to text.

    Columns: processes, read_bytes, write_bytes, read_ops, write_ops, opens, stats, metadata_ops, read_time_s,
    write_time_s, meta_time_s, io_time_s, read_small_ops, write_small_ops, read_random_ops, write_random_ops,
    misaligned_ops, mem_misaligned_ops, data_straggler, time_straggler, shared_write_time_s, independent_reads,
    independent_writes, stdio_bytes.
    """

    file_id: IntArray
    path: list[str]
    fs: list[str]
    interface: list[str]
    layout: list[str | None]
    columns: dict[str, NDArray[np.float64]]

    def list_top(self, column: str, limit: int = 5) -> list[str]:
        """Paths with the largest positive values of a column, largest first."""
        values = self.columns[column]
        order = np.argsort(values, kind="stable")[::-1][:limit]
        return [self.path[i] for i in order if values[i] > 0]


def build_file_table(view: JobView) -> FileTable:
    """Sum the lowest interface's records per file; MPI-IO adds its independent operation counts only."""
    counters = view.counters
    rows = counters.lowest
    ids, inverse = np.unique(counters.file_id[rows], return_inverse=True)
    inverse = inverse.reshape(-1)
    n = len(ids)

    def total(values: FloatArray | IntArray) -> FloatArray:
        return np.bincount(inverse, np.maximum(values, 0)[rows], n).astype(np.float64)

    def counter(name: str) -> FloatArray:
        return total(counters.read_ints(name))

    small = {d: total(counters.read_lists(f"{d}_sizes", 10)[:, :SMALL_BINS].sum(axis=1)) for d in ("read", "write")}
    data, time = find_unbalanced_rank_rows(view)
    columns: dict[str, FloatArray] = {
        "processes": np.minimum(
            np.bincount(inverse, np.where(counters.shared[rows], view.processes, 1), n), view.processes
        ),
        "read_bytes": counter("bytes_read"),
        "write_bytes": counter("bytes_written"),
        "read_ops": counter("reads"),
        "write_ops": counter("writes"),
        "opens": counter("opens"),
        "stats": counter("stats"),
        "metadata_ops": counter("opens") + counter("stats") + counter("renames"),
        "read_time_s": total(counters.read_floats("read_time_s")),
        "write_time_s": total(counters.read_floats("write_time_s")),
        "meta_time_s": total(counters.read_floats("meta_time_s")),
        "read_small_ops": small["read"],
        "write_small_ops": small["write"],
        "misaligned_ops": counter("file_not_aligned"),
        "mem_misaligned_ops": counter("mem_not_aligned"),
        "data_straggler": total(data.astype(float)),
        "time_straggler": total(time.astype(float)),
    }
    columns["io_time_s"] = columns["read_time_s"] + columns["write_time_s"] + columns["meta_time_s"]
    for d, ops in (("read", "reads"), ("write", "writes")):
        known = counters.mark_known(f"seq_{ops}")
        behind = np.where(known, counters.read_ints(ops) - counters.read_ints(f"seq_{ops}") - 1, 0)
        columns[f"{d}_random_ops"] = total(behind)
        columns[f"independent_{ops}"] = _above(view, ids, f"indep_{ops}")
    columns["shared_write_time_s"] = np.where(columns["processes"] > 1, columns["write_time_s"], 0.0)
    stdio = np.where(
        counters.select_rows("STDIO"), counters.read_ints("bytes_read") + counters.read_ints("bytes_written"), 0
    )
    columns["stdio_bytes"] = total(stdio)
    return FileTable(
        file_id=ids,
        path=[view.paths.get(int(i), f"file {int(i) & (2**64 - 1):016x}") for i in ids],
        fs=[view.file_systems.get(int(i), "") for i in ids],
        interface=_interfaces(view, ids),
        layout=_layouts(view, ids),
        columns=columns,
    )


def _above(view: JobView, ids: IntArray, name: str) -> FloatArray:
    counters = view.counters
    rows = counters.select_rows("MPI-IO") & np.isin(counters.file_id, ids)
    if not rows.any():
        return np.zeros(len(ids))
    at = np.searchsorted(ids, counters.file_id[rows])
    return np.bincount(at, counters.read_ints(name)[rows], len(ids)).astype(np.float64)


def _interfaces(view: JobView, ids: IntArray) -> list[str]:
    counters = view.counters
    names = [name for name in ("POSIX", "STDIO", "MPI-IO", "H5F", "PNETCDF_FILE") if counters.select_rows(name).any()]
    used = {name: np.isin(ids, counters.file_id[counters.select_rows(name)]) for name in names}
    return [" ".join(name for name in names if used[name][i]) for i in range(len(ids))]


def _layouts(view: JobView, ids: IntArray) -> list[str | None]:
    if not view.layouts.num_rows:
        return [None] * len(ids)
    text: dict[int, str] = {}
    for row in view.layouts.select(["file_id", "stripe_count", "stripe_size"]).to_pylist():
        count, size = row["stripe_count"], row["stripe_size"]
        piece = f"{count} × {size >> 10} KiB" if count and size and size > 0 else "unknown"
        old = text.get(row["file_id"])
        text[row["file_id"]] = f"{old}, {piece}" if old and old != piece else piece
    return [text.get(int(i)) for i in ids]
