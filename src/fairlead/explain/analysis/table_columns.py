"""Columns of tables as arrays: numbers with NaN for null, words and jobs as codes. Not here: what they mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.store.rollup_cells import read_cell_names

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def read_float_column(table: pa.Table, name: str) -> F64:
    """A column of numbers, null as NaN. Integers above 2**53 lose their last digits."""
    return np.asarray(table[name].cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(), np.float64)


def read_integer_column(table: pa.Table, name: str, null: int = 0) -> I64:
    """A column of integers, null as `null`."""
    return np.asarray(table[name].fill_null(null).to_numpy(), np.int64)


def read_code_column(table: pa.Table, name: str) -> I64:
    """A column of words as codes, null as -1. They hold within one call."""
    column = table[name]
    return read_cell_names(column.cast(pa.string())).codes if table.num_rows else np.zeros(0, np.int64)


def combine_column_codes(columns: Sequence[I64]) -> I64:
    """One code from 0 for each combination of codes."""
    key, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        least = int(column.min(initial=0))
        wide = int(column.max(initial=0)) - least + 1
        part = column - least
        if wide > 2 * len(column) + 16:
            distinct, part = np.unique(column, return_inverse=True)
            wide = len(distinct)
        if size * wide >= 1 << 62:
            _, key = np.unique(key, return_inverse=True)
            size = int(key.max(initial=0)) + 1
        key, size = key * wide + part, size * wide
    return np.asarray(np.unique(key, return_inverse=True)[1], np.int64)


def read_job_code_columns(table: pa.Table, began: str = "job_start_ns") -> I64:
    """A code for each job: cluster, number and when it began (numbers come round again)."""
    return combine_column_codes(
        [read_code_column(table, "cluster"), read_code_column(table, "job_id"), read_integer_column(table, began, -1)]
    )


def sum_byte_columns(table: pa.Table) -> F64:
    """Bytes read and written (`read_bytes`, `write_bytes`), NaN where neither is known."""
    read, write = read_float_column(table, "read_bytes"), read_float_column(table, "write_bytes")
    return np.where(np.isnan(read) & np.isnan(write), np.nan, np.nan_to_num(read) + np.nan_to_num(write))
