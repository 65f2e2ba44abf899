"""Exact times of the operations in a run: two list columns of OPS, kept only when asked for.

A run of `count` operations holds `count` durations and the `count - 1` idle gaps between them; a single operation
needs neither, its own row says all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import OPS

I64 = NDArray[np.int64]
LISTS = ("gaps_ns", "durations_ns")


def build_empty_exact_times(rows: int) -> dict[str, pa.Array]:
    """The two columns without exact times."""
    return {name: pa.nulls(rows, OPS.schema.field(name).type) for name in LISTS}


def _timed(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Runs that kept their times."""
    return np.asarray(batch.column("durations_ns").is_valid(), np.bool_)


def find_exact_rows(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Rows whose exact times are known and fit the lists: runs that kept theirs, and operations busy throughout."""
    span = batch.column("end_ns").to_numpy() - batch.column("start_ns").to_numpy()
    single = (batch.column("count").to_numpy() == 1) & (batch.column("busy_ns").to_numpy() == span)
    return np.asarray(single | _timed(batch))


def _values(column: pa.ListArray) -> I64:
    return np.asarray(column.drop_null().flatten(), np.int64)


def build_exact_times(
    batch: pa.RecordBatch, order: NDArray[np.intp] | None, heads: NDArray[np.intp], ranked: NDArray[np.intp] | None
) -> dict[str, pa.Array]:
    """The list columns of runs whose rows begin at `heads` of `order`; runs come out in the sequence `ranked`."""
    rows = np.arange(batch.num_rows) if order is None else order
    lengths = np.diff(heads, append=len(rows))
    if ranked is not None:
        rows = rows[_ranges(heads[ranked], lengths[ranked])]
        lengths = lengths[ranked]
        heads = np.cumsum(lengths) - lengths
    batch = batch if order is None and ranked is None else batch.take(pa.array(rows))
    timed = _timed(batch)
    start, end = batch.column("start_ns").to_numpy(), batch.column("end_ns").to_numpy()
    count = np.where(timed, batch.column("count").to_numpy(), 1)
    at = np.cumsum(count) - count
    # One slot an operation. The gap slot of a run's first operation is dropped at the end.
    durations = np.empty(int(count.sum()), np.int64)
    gaps = np.zeros(len(durations), np.int64)
    durations[at] = end - start
    gaps[at[1:]] = start[1:] - end[:-1]
    inner = _ranges(at[timed], count[timed])
    durations[inner] = _values(batch.column("durations_ns"))
    gaps[_ranges(at[timed] + 1, count[timed] - 1)] = _values(batch.column("gaps_ns"))
    operations = np.add.reduceat(count, heads)
    absent = (operations == 1) & ~((lengths == 1) & timed[heads])
    return _lists(durations, gaps, at[heads], operations, absent)


def _lists(durations: I64, gaps: I64, at: I64, operations: I64, absent: NDArray[np.bool_]) -> dict[str, pa.Array]:
    held = np.where(absent, 0, operations)
    keep = np.repeat(~absent, operations)
    later = keep.copy()
    later[at] = False
    return {
        "gaps_ns": _list_array(gaps[later], np.maximum(held - 1, 0), absent),
        "durations_ns": _list_array(durations[keep], held, absent),
    }


def _list_array(values: I64, lengths: I64, absent: NDArray[np.bool_]) -> pa.ListArray:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(absent))


def _ranges(first: NDArray[np.intp], lengths: NDArray[np.intp]) -> NDArray[np.intp]:
    """first[0], first[0] + 1, ... (lengths[0] of them), first[1], ..."""
    placed = np.cumsum(lengths)
    total = int(placed[-1]) if len(placed) else 0
    return np.asarray(np.arange(total) + np.repeat(first - (placed - lengths), lengths))


def expand_exact_times(batch: pa.RecordBatch, count: I64, source: I64, nth: I64) -> tuple[I64, I64, I64]:
    """(start, end, busy) of every operation, given the row it comes from and its number in that row's run."""
    start, end = batch.column("start_ns").to_numpy()[source], batch.column("end_ns").to_numpy()[source]
    busy = batch.column("busy_ns").to_numpy()[source]
    merged = count > 1
    if not merged.any():
        return start, end, busy
    spread = merged[source]
    timed = _timed(batch)
    many = count[source]
    duration = np.where(spread, busy // many + (nth < busy % many), busy)
    room = np.maximum(end - start - duration, 0)
    # In floats relative to the start of the run, at most a second: exact at both ends.
    shift = np.where(nth == many - 1, room, (room * (nth / np.maximum(many - 1, 1))).astype(np.int64))
    start = np.where(spread, start + shift, start)
    end = np.where(spread, start + duration, end)
    if timed.any():
        start, end, duration = _restored(batch, timed, source, nth, (start, end, duration))
    return start, end, duration


def _restored(
    batch: pa.RecordBatch, timed: NDArray[np.bool_], source: I64, nth: I64, spread: tuple[I64, I64, I64]
) -> tuple[I64, I64, I64]:
    """`spread` with the operations of timed runs put at their recorded times."""
    start, end, busy = (values.copy() for values in spread)
    at = np.flatnonzero(timed[source])
    durations = _values(batch.column("durations_ns"))
    gaps = np.zeros(len(at), np.int64)
    gaps[nth[at] > 0] = _values(batch.column("gaps_ns"))
    # Start of operation k = start of the run + everything before it: durations shifted by one, and gaps.
    before = gaps + np.concatenate(([0], durations[:-1]))
    before[nth[at] == 0] = 0
    total = np.cumsum(before)
    first = np.flatnonzero(nth[at] == 0)
    base = np.repeat(total[first], np.diff(first, append=len(at)))
    start[at] = batch.column("start_ns").to_numpy()[source[at]] + total - base
    end[at] = start[at] + durations
    busy[at] = durations
    return start, end, busy
