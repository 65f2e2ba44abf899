"""Columns of the `file_counters` table as NumPy arrays, and which rows belong to which layer.

Not here: what the numbers mean. A null counter reads as 0 in sums and as unknown in `mark_known()`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LOWEST = ("POSIX", "STDIO")
"""Interfaces whose bytes reach the file system; those of MPI-IO and HDF5 pass through POSIX and are never added."""

STANDARD_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Counters:
    """Rows of `file_counters` (n of them) with cached NumPy views of the columns.

    `paths` maps file_id to path; rows of standard streams are kept apart by `streams`.
    """

    def __init__(self, table: pa.Table, paths: dict[int, str]) -> None:
        self.table = table.combine_chunks()
        self.rows: int = table.num_rows
        self._columns: dict[str, NDArray[np.generic]] = {}
        self._known: dict[str, BoolArray] = {}
        self.rank = self.read_ints("rank").astype(np.int64)
        self.file_id = self.read_ints("file_id")
        self._interface = self._words("interface")
        streams = np.array([i for i, path in paths.items() if path in STANDARD_STREAMS], np.int64)
        self.streams: BoolArray = np.isin(self.file_id, streams)
        self.shared: BoolArray = self.rank < 0

    def _column(self, name: str) -> pa.Array:
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)

    def _words(self, name: str) -> NDArray[np.object_]:
        column = self._column(name)
        values = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)

    def mark_known(self, name: str) -> BoolArray:
        """Return where the counter was recorded, shape (n,)."""
        if name not in self._known:
            self._known[name] = np.asarray(self._column(name).is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        return self._known[name]

    def read_ints(self, name: str) -> IntArray:
        """Return a column as int64, shape (n,); nulls are 0."""
        return np.asarray(self._filled(name, 0), dtype=np.int64)

    def read_floats(self, name: str) -> FloatArray:
        """Return a column as float64, shape (n,); nulls are 0."""
        return np.asarray(self._filled(name, 0.0), dtype=np.float64)

    def _filled(self, name: str, zero: float) -> NDArray[np.generic]:
        if name not in self._columns:
            column = self._column(name)
            full = column.fill_null(zero) if column.null_count else column
            self._columns[name] = np.asarray(full.to_numpy(zero_copy_only=False))
        return self._columns[name]

    def read_lists(self, name: str, width: int) -> IntArray:
        """Return a list column of fixed width as int64, shape (n, width); missing lists are rows of 0."""
        column = self._column(name)
        out = np.zeros((self.rows, width), np.int64)
        if self.rows == 0 or column.null_count == self.rows:
            return out
        offsets = np.asarray(column.offsets.to_numpy(zero_copy_only=False), dtype=np.int64)
        values = np.asarray(column.values.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
        lengths = np.diff(offsets)
        rows = np.repeat(np.arange(self.rows), lengths)
        places = np.arange(offsets[0], offsets[-1]) - np.repeat(offsets[:-1], lengths)
        keep = places < width
        out[rows[keep], places[keep]] = values[offsets[0] : offsets[-1]][keep]
        return out

    def select_rows(self, *interfaces: str) -> BoolArray:
        """Mark the rows of these interfaces without standard streams, shape (n,)."""
        return self.select_rows_with_streams(*interfaces) & ~self.streams

    def select_rows_with_streams(self, *interfaces: str) -> BoolArray:
        """Mark the rows of these interfaces, standard streams included, shape (n,)."""
        return np.isin(self._interface.astype(str), interfaces) if self.rows else np.zeros(0, bool)

    @property
    def lowest(self) -> BoolArray:
        """Rows of the lowest interface (POSIX and STDIO), standard streams excluded."""
        return self.select_rows(*LOWEST)
