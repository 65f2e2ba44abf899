"""Counter modules (POSIX, MPI-IO, STDIO, H5F, H5D, PnetCDF) → batches of `file_counters`, whole columns at a time.

Counters without a column of their own go to `extra`. Darshan's -1 (unknown) becomes null; its 0 s (never) too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import FILE_COUNTERS, build_table_batch, build_table_word_column
from fairlead.see.sources.darshan.layouts import Layout
from fairlead.see.sources.darshan.records import (
    MOST_BYTES,
    MOST_PROCESSES,
    Placing,
    Tally,
    check_darshan_record_ranks,
    convert_darshan_record_times,
    split_darshan_records,
)

_COLUMN = {
    "fdsyncs": "fdatasyncs",
    "rename_sources": "renames",
    **{f"{w}_{e}_timestamp": f"{w}_{e}_ns" for w in ("open", "read", "write", "close") for e in ("start", "end")},
    **{
        name: f"{name}_s"
        for name in (
            "read_time",
            "write_time",
            "meta_time",
            "max_read_time",
            "max_write_time",
            "fastest_rank_time",
            "slowest_rank_time",
        )
    },
}
_LISTS = {
    "read_sizes": ("size_read_", ""),
    "write_sizes": ("size_write_", ""),
    "access_sizes": ("access", "_access"),
    "access_counts": ("access", "_count"),
    "strides": ("stride", "_stride"),
    "stride_counts": ("stride", "_count"),
}
_SHARED_ONLY = (
    "fastest_rank",
    "fastest_rank_bytes",
    "slowest_rank",
    "slowest_rank_bytes",
    "fastest_rank_time",
    "slowest_rank_time",
    "variance_rank_time",
    "variance_rank_bytes",
)
"""Filled when the records of all ranks are reduced to one; their 0 in the record of one rank says nothing."""
_UNSIGNED = frozenset({"renamed_from"})


def read_darshan_counters(
    module: str, layout: Layout, blocks: Iterable[bytes], placing: Placing, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """`file_counters` of one module, one row per record; `extra` holds `file_rec_id` rounded to 53 bits."""
    for raw in split_darshan_records(blocks, layout.build_dtype(placing.order)):
        records = _usable(raw, layout, placing.processes, tally)
        if len(records):
            tally.kept += len(records)
            yield _batch(module, layout, records, placing, tally)


def _usable(records: NDArray[np.void], layout: Layout, processes: int | None, tally: Tally) -> NDArray[np.void]:
    """Without impossible ranks and values, and without records of version 1 of POSIX that mix in C streams: their bytes
    cannot be told apart (libdarshan leaves them out too)."""
    keep = check_darshan_record_ranks(records["rank"], processes)
    tally.impossible_ranks += int(np.count_nonzero(~keep))
    counters = records["counters"]
    # "Not known" is -1 in a rank's record, and summed over the ranks in a shared one.
    least = -(processes or MOST_PROCESSES)
    if counters.size and (counters.min() < least or counters.max() > MOST_BYTES):
        bounded = [k for k, name in enumerate(layout.counters) if name not in _UNSIGNED and "stride" not in name]
        outside = (counters[:, bounded] < least) | (counters[:, bounded] > MOST_BYTES)
        for k, column in enumerate(bounded):  # the size of an access that was counted no time says nothing
            size, slot, _ = layout.counters[column].partition("_access")
            if slot and f"{size}_count" in layout.counters:
                outside[:, k] &= counters[:, layout.counters.index(f"{size}_count")] != 0
        impossible = outside.any(axis=1)
        tally.impossible_values += int(np.count_nonzero(keep & impossible))
        keep &= ~impossible
    if "fopens" in layout.counters:
        mixed = counters[:, layout.counters.index("fopens")] > 0
        tally.stream_records += int(np.count_nonzero(keep & mixed))
        keep &= ~mixed
    return records if keep.all() else records[keep]


class _Columns:
    """Columns of one batch by their Darshan names, contiguous and in this machine's byte order."""

    def __init__(self, layout: Layout, records: NDArray[np.void]) -> None:
        self.rank = np.ascontiguousarray(records["rank"], np.int64)
        counters = np.ascontiguousarray(records["counters"].T, np.int64)
        floats = np.ascontiguousarray(records["floats"].T, np.float64)
        self.counters = dict(zip(layout.counters, counters, strict=True))
        self.floats = dict(zip(layout.floats, floats, strict=True))
        self.one_rank = self.rank >= 0

    def unknown(self, name: str, values: NDArray[np.generic]) -> NDArray[np.bool_] | None:
        """Where a value is not known; None when it always is."""
        mask = values == -1
        if values.dtype.kind == "f":
            mask |= ~np.isfinite(values)
        if name in _SHARED_ONLY:
            mask |= self.one_rank & (values == 0)
        return mask if mask.any() else None


def _batch(module: str, layout: Layout, records: NDArray[np.void], placing: Placing, tally: Tally) -> pa.RecordBatch:
    rows = len(records)
    source = _Columns(layout, records)
    ids, _ = placing.files.look_up(np.ascontiguousarray(records["id"], np.uint64))
    columns: dict[str, object] = {
        "job_id": build_table_word_column(placing.job_id, rows),
        "rank": source.rank.astype(np.int32),
        "interface": build_table_word_column(module, rows),
        "file_id": ids,
    }
    taken = _list_columns(source.counters, columns)
    extra: dict[str, NDArray[np.float64]] = {}
    known = set(FILE_COUNTERS.schema.names)
    for name, values in (*source.counters.items(), *source.floats.items()):
        column = _COLUMN.get(name, name)
        if name in taken:
            continue
        if column not in known:
            extra[name] = _as_float(name, values)
        elif column.endswith("_ns"):
            columns[column] = _timestamps(values, placing.start_ns, tally)
        else:
            columns[column] = pa.array(values, mask=source.unknown(name, values))
    if layout.file_record:
        extra["file_rec_id"] = records["file_record"].astype(np.float64)
    if module == "PNETCDF_FILE" and "indep_opens" in source.counters:
        columns["opens"] = source.counters["indep_opens"] + source.counters["coll_opens"]
    columns["extra"] = _extras(extra, rows)
    return build_table_batch(FILE_COUNTERS, columns)


def _as_float(name: str, values: NDArray[np.generic]) -> NDArray[np.float64]:
    return values.view(np.uint64).astype(np.float64) if name in _UNSIGNED else values.astype(np.float64)


def _list_columns(counters: dict[str, NDArray[np.int64]], columns: dict[str, object]) -> set[str]:
    """Add the list columns a module has; returns the names they used up."""
    taken: set[str] = set()
    for column, (prefix, suffix) in _LISTS.items():
        parts = [n for n in counters if n.startswith(prefix) and n.endswith(suffix) and _plain(n, prefix, suffix)]
        if not parts:
            continue
        taken.update(parts)
        values = np.stack([counters[name] for name in parts], axis=1)
        offsets = np.arange(0, values.size + 1, len(parts), dtype=np.int32)
        columns[column] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))
    return taken


def _plain(name: str, prefix: str, suffix: str) -> bool:
    """Whether a name is a size bin (no suffix asked) or `prefix` + a number + `suffix`."""
    return not suffix or name[len(prefix) : len(name) - len(suffix)].isdigit()


def _timestamps(values: NDArray[np.float64], start_ns: int, tally: Tally) -> pa.Array:
    """Seconds since the start of the job → epoch ns; 0 (never) and -1 (not recorded) → null."""
    happened = (values != 0) & (values != -1)
    at, usable = convert_darshan_record_times(values, start_ns)
    if usable is not None:
        tally.unplaced_times += int(np.count_nonzero(happened & ~usable))
        happened &= usable
    return pa.array(at, mask=~happened)


def _extras(extra: dict[str, NDArray[np.float64]], rows: int) -> pa.Array:
    """A map per row of what is neither 0 nor unknown."""
    kind = FILE_COUNTERS.schema.field("extra").type
    if not extra:
        return pa.nulls(rows, kind)
    matrix = np.stack(list(extra.values()), axis=1)
    told = (matrix != 0) & (matrix != -1) & np.isfinite(matrix)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.count_nonzero(told, axis=1), out=offsets[1:])
    _, names = np.nonzero(told)
    keys = pa.array(list(extra), pa.string()).take(pa.array(names))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(matrix[told])).cast(kind)
