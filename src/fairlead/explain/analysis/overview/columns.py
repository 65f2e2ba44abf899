"""Columns of Arrow tables as NumPy arrays, where what is not known is NaN."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def read_floats(table: pa.Table, name: str) -> F64:
    """Return a column as float64, null as NaN. Integers above 2**53 lose their last digits."""
    return np.asarray(table[name].cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def sum_moved_bytes(table: pa.Table) -> F64:
    """Bytes read and written (`read_bytes`, `write_bytes`), NaN where neither is known."""
    read, write = read_floats(table, "read_bytes"), read_floats(table, "write_bytes")
    return np.where(np.isnan(read) & np.isnan(write), np.nan, np.nan_to_num(read) + np.nan_to_num(write))


def select_last_of_runs(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return the last row of each run of rows with equal `keys`; the table must be sorted by them."""
    if not table.num_rows:
        return table
    change = np.zeros(table.num_rows - 1, np.bool_)
    for name in keys:
        codes = table[name].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        change |= codes[1:] != codes[:-1]
    return table.filter(pa.array(np.append(change, True)))
