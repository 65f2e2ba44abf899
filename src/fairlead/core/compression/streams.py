"""Which rows belong to one stream: same node, job, rank, interface, file system, file and handle.

Streams come as a stable order of rows, worked out on columns; what is merged inside a stream is `law`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

STREAM_KEY = ("node", "job_id", "rank", "interface", "fs", "file_id", "handle")
"""The columns that name a stream; null is a value of its own."""


def find_stream_codes(
    column: pa.Array,
) -> tuple[NDArray[np.int64] | NDArray[np.int32], NDArray[np.bool_] | None] | None:
    """Values (nulls as 0) and the mask of nulls (None without nulls); None for a column of one value throughout."""
    indices = column.indices if isinstance(column, pa.DictionaryArray) else column
    nulls = indices.null_count
    if nulls == len(indices):
        return None
    if nulls:
        mask = indices.is_null().to_numpy(zero_copy_only=False)
        return indices.fill_null(0).to_numpy(), mask
    if isinstance(column, pa.DictionaryArray) and len(column.dictionary) == 1:
        return None
    return indices.to_numpy(), None


def _differs(values: NDArray[np.generic], into: NDArray[np.bool_]) -> None:
    np.logical_or(into, values[1:] != values[:-1], out=into)


def find_stream_starts(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """bool[rows]: whether a row is of another stream than the row before it (the first row is)."""
    starts = np.zeros(batch.num_rows, np.bool_)
    if batch.num_rows == 0:
        return starts
    starts[0] = True
    for name in STREAM_KEY:
        coded = find_stream_codes(batch.column(name))
        if coded is not None:
            for values in coded:
                if values is not None:
                    _differs(values, starts[1:])
    return starts


def number_streams(batch: pa.RecordBatch, rows: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
    """int64: a dense id, by first appearance, of the stream of each row of `batch` (of `rows` when given)."""
    count = batch.num_rows if rows is None else len(rows)
    ids = np.zeros(count, np.int64)
    streams = 1
    for name in STREAM_KEY:
        column = batch.column(name)
        if find_stream_codes(column) is None:
            continue
        if isinstance(column, pa.DictionaryArray):
            column = column.indices
        if rows is not None:
            column = column.take(pa.array(rows))
        coded = column.dictionary_encode(null_encoding="encode")
        if len(coded.dictionary) == 1:
            continue
        # Ids stay dense, so both factors are at most the number of rows and their product fits 63 bits.
        codes = coded.indices.to_numpy()
        if streams > 1:
            coded = pa.array(ids * len(coded.dictionary) + codes).dictionary_encode()
            codes = coded.indices.to_numpy()
        ids = codes.astype(np.int64)
        streams = len(coded.dictionary)
    return ids


def _compute_stable_order(ids: NDArray[np.int64]) -> NDArray[np.intp]:
    """The stable order of rows by id; a radix sort where ids fit 16 bits (int64 keys are merge-sorted)."""
    if len(ids) and int(ids.max()) < 1 << 16:
        return np.argsort(ids.astype(np.uint16), kind="stable")
    return np.argsort(ids, kind="stable")


def group_streams(batch: pa.RecordBatch) -> tuple[NDArray[np.intp] | None, NDArray[np.bool_]]:
    """A stable order of rows that puts each stream together (None when every stream already is), and bool[rows] in
    that order: whether a row is the first of its stream."""
    starts = find_stream_starts(batch)
    heads = np.flatnonzero(starts)
    if len(heads) <= 1:
        return None, starts
    ids = number_streams(batch, None if len(heads) == batch.num_rows else heads)
    if int(ids.max()) + 1 == len(heads):
        return None, starts
    pieces = _compute_stable_order(ids)
    lengths = np.diff(heads, append=batch.num_rows)[pieces]
    placed_at = np.cumsum(lengths) - lengths
    first = np.zeros(batch.num_rows, np.bool_)
    first[placed_at[np.diff(ids[pieces], prepend=-1) != 0]] = True
    if len(heads) == batch.num_rows:
        return pieces, first
    # Row numbers of whole pieces, one piece after the other: each piece counts up from its first row.
    return np.arange(batch.num_rows) + np.repeat(heads[pieces] - placed_at, lengths), first
