"""Which UTC day and which tier rows of a table belong to, and rows sorted and split by them.

Not here: the tables (`stored_tables`), their files (`part_files`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.tables import TableSpec
from fairlead.store.stored_tables import DAY, DAY_NS, TIERS, list_stored_table_key

NO_DAY = np.iinfo(np.int32).min


def compute_days(table: pa.Table, spec: TableSpec, fallback_ns: int | None) -> NDArray[np.int32]:
    """int32[rows] days since 1970 in UTC; rows without a time get the day of `fallback_ns`, else NO_DAY."""
    fallback = NO_DAY if fallback_ns is None else fallback_ns // DAY_NS
    if spec.time_column is None:
        return np.full(table.num_rows, fallback, np.int32)
    times = table.column(spec.time_column)
    if times.null_count == 0:
        return np.asarray(times.to_numpy() // DAY_NS, np.int32)
    known = times.is_valid().to_numpy()
    days = (times.fill_null(0).to_numpy() // DAY_NS).astype(np.int32)
    return np.where(known, days, np.int32(fallback))


def format_day(day: int) -> str | None:
    """`2026-11-21` of a day number, None for NO_DAY."""
    return None if day == NO_DAY else str(np.datetime64(int(day), "D"))


def add_day_column(table: pa.Table, days: NDArray[np.int32]) -> pa.Table:
    """`table` and its column `day` (date32)."""
    dates = pa.array(days, pa.int32(), mask=days == NO_DAY).cast(pa.date32())
    return table.append_column(pa.field(DAY, pa.date32()), dates)


def sort_by_day(table: pa.Table, spec: TableSpec, days: NDArray[np.int32]) -> tuple[pa.Table, NDArray[np.int32]]:
    """Rows sorted by day, then by the table's sort key (stable, nulls last), and their days."""
    keys = [days.astype(np.int64), *(_ranks(table.column(name)) for name in list_stored_table_key(spec))]
    if _is_sorted(keys):
        return table, days
    packed = _packed(keys)
    order = np.argsort(packed[0], kind="stable") if len(packed) == 1 else np.lexsort(packed[::-1])
    return table.take(pa.array(order)), days[order]


def _ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Integers in the order of the values, nulls highest."""
    if pa.types.is_integer(column.type):
        highest = np.iinfo(np.int64).max if column.type.bit_width == 64 else np.iinfo(np.int32).max
        return np.asarray(column.fill_null(highest).to_numpy(), np.int64)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    chunk = whole if isinstance(whole, pa.DictionaryArray) else whole.chunk(0)
    words = chunk.dictionary
    rank_of = np.empty(len(words) + 1, np.int64)
    rank_of[pc.sort_indices(words).to_numpy()] = np.arange(len(words))
    rank_of[len(words)] = len(words)
    return np.asarray(rank_of[chunk.indices.fill_null(len(words)).to_numpy()])


def _is_sorted(keys: list[NDArray[np.int64]]) -> bool:
    if len(keys[0]) < 2:
        return True
    undecided = np.ones(len(keys[0]) - 1, np.bool_)
    for key in keys:
        before, after = key[:-1], key[1:]
        if (undecided & (after < before)).any():
            return False
        undecided &= after == before
        if not undecided.any():
            return True
    return True


def _packed(keys: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Neighbouring keys of small range as one: sorting costs by the key. Constant keys vanish."""
    packed: list[NDArray[np.int64]] = []
    room = 0
    for key in keys:
        low = int(key.min())
        span = int(key.max()) - low + 1
        if span == 1:
            continue
        if packed and room * span < 2**62:
            packed[-1] = packed[-1] * span + (key - low)
            room *= span
        else:
            packed.append(key - low if span < 2**62 else key)
            room = span if span < 2**62 else 2**62
    return packed or [keys[0]]


def format_tier(interval_ns: int | None) -> str:
    """`i60` of 60 s in nanoseconds; "" when unknown."""
    return "" if interval_ns is None else f"i{interval_ns // 1_000_000_000}"


def split_by_tier(
    table: pa.Table, spec: TableSpec, days: NDArray[np.int32]
) -> Iterable[tuple[str, pa.Table, NDArray[np.int32]]]:
    """(tier, rows, their days) of each tier; the whole table as tier "" when it has none."""
    if spec.name not in TIERS:
        yield "", table, days
        return
    intervals = table.column(TIERS[spec.name]).fill_null(0).to_numpy()
    for interval in np.unique(intervals).tolist():
        mask = intervals == interval
        yield format_tier(interval), table.filter(pa.array(mask)), days[mask]


def split_by_day(days: NDArray[np.int32]) -> Iterable[tuple[int, int, int]]:
    """(day, first row, rows) of each stretch of equal days."""
    if not len(days):
        return
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(days)) + 1))
    for first, last in zip(firsts, [*firsts[1:], len(days)], strict=True):
        yield int(days[first]), int(first), int(last - first)
