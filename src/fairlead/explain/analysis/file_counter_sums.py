"""Sums per process and file of one interface's operations, as they end up in `file_counters`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import FILE_COUNTERS, build_table_batch, build_table_word_column
from fairlead.explain.analysis.op_columns import READ, WRITE, FloatArray, IntArray

WORD_COLUMNS = {
    "read": "reads",
    "write": "writes",
    "open": "opens",
    "create": "opens",
    "opendir": "opens",
    "seek": "seeks",
    "stat": "stats",
    "mmap": "mmaps",
    "fsync": "fsyncs",
    "fdatasync": "fdatasyncs",
    "flush": "flushes",
    "rename": "renames",
}
"""Column that counts an operation word; others are counted in `extra`."""


@dataclass
class FileCounters:
    """Sums per (rank, file) of one interface; rows grow as pairs appear."""

    index: dict[tuple[int, int], int] = field(default_factory=dict)
    sums: dict[str, FloatArray] = field(default_factory=dict)
    sizes: IntArray = field(default_factory=lambda: np.zeros((0, 2, 10), np.int64))
    firsts: dict[str, IntArray] = field(default_factory=dict)
    lasts: dict[str, IntArray] = field(default_factory=dict)

    def find_rows(self, rank: IntArray, file: IntArray) -> IntArray:
        """Return the row of each (rank, file) pair; new pairs are appended."""
        for key in zip(rank.tolist(), file.tolist(), strict=True):
            self.index.setdefault(key, len(self.index))
        return np.fromiter((self.index[k] for k in zip(rank.tolist(), file.tolist(), strict=True)), np.int64, len(rank))

    def grow(self) -> int:
        """Make room for all pairs and return their number."""
        size = len(self.index)
        short = size - len(self.sizes)
        if short > 0:
            self.sizes = np.concatenate([self.sizes, np.zeros((max(short, len(self.sizes)), 2, 10), np.int64)])
        return size

    def add(self, name: str, rows: IntArray, values: FloatArray | IntArray) -> None:
        column = _grow_column(self.sums.get(name), len(self.index), 0.0)
        np.add.at(column, rows, values)
        self.sums[name] = column

    def add_first(self, name: str, rows: IntArray, values: IntArray) -> None:
        column = _grow_column(self.firsts.get(name), len(self.index), np.iinfo(np.int64).max)
        np.minimum.at(column, rows, values)
        self.firsts[name] = column

    def add_last(self, name: str, rows: IntArray, values: IntArray) -> None:
        column = _grow_column(self.lasts.get(name), len(self.index), np.iinfo(np.int64).min)
        np.maximum.at(column, rows, values)
        self.lasts[name] = column

    def build_table(self, interface: str, final: IntArray) -> pa.Table:
        """Return the sums as a `file_counters` table, one row per pair. `final` maps internal numbers to ranks."""
        size = len(self.index)
        keys = np.array(list(self.index), np.int64).reshape(size, 2)
        columns: dict[str, object] = {
            "rank": final[keys[:, 0]].astype(np.int32),
            "file_id": keys[:, 1],
            "interface": build_table_word_column(interface, size),
        }
        floats = {"read_time_s", "write_time_s", "meta_time_s"}
        extras: dict[str, FloatArray] = {}
        for name, values in self.sums.items():
            full = _grow_column(values, size, 0.0)[:size]
            if name.startswith("extra:"):
                extras[name[6:]] = full
            else:
                columns[name] = full if name in floats else full.astype(np.int64)
        none_first, none_last = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        for name, bounds in (*self.firsts.items(), *self.lasts.items()):
            full = _grow_column(bounds, size, none_first if name in self.firsts else none_last)[:size]
            columns[name] = pa.array(full, mask=(full == none_first) | (full == none_last))
        for kind, name in ((READ, "read_sizes"), (WRITE, "write_sizes")):
            flat = pa.array(self.sizes[:size, kind].reshape(-1))
            columns[name] = pa.ListArray.from_arrays(pa.array(np.arange(size + 1, dtype=np.int32) * 10), flat)
        if extras:
            names = sorted(extras)
            values = np.stack([extras[n] for n in names], axis=1)
            columns["extra"] = pa.MapArray.from_arrays(
                pa.array(np.arange(size + 1, dtype=np.int32) * len(names)),
                pa.array(np.tile(np.array(names, object), size)),
                pa.array(values.reshape(-1)),
            )
        return pa.Table.from_batches([build_table_batch(FILE_COUNTERS, columns)])


def _grow_column(column: np.ndarray | None, size: int, fill: float) -> np.ndarray:
    """Return `column` with at least `size` rows, new ones set to `fill`. It at least doubles, so appending is cheap."""
    if column is None:
        return np.full(max(size, 16), fill, np.float64 if isinstance(fill, float) else np.int64)
    if len(column) >= size:
        return column
    return np.concatenate([column, np.full(max(size - len(column), len(column)), fill, column.dtype)])
