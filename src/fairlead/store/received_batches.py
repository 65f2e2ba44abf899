"""Which batches a shard has taken in: per stream a set of ranges of numbers, so that late ones are taken too.

Pure bookkeeping over keys and numbers. Not here: when a batch counts as taken (`writer`), the table (`stored_tables`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.errors import LakeError

EVERYTHING = -(1 << 63)
"""Beginning of a range that says: every number up to its end (what lakes before ranges wrote)."""
MAX_RANGES = 4_096
"""Ranges of one stream. An honest writer sends what it lacks sooner or later; one that never does is refused."""

Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Keys, first and last numbers, sorted by key."""
NOTHING: Rows = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def hash_received_stream(stream: str) -> int:
    """int64 of blake2b-8 over the name of a stream."""
    return int.from_bytes(blake2b(stream.encode(), digest_size=8).digest(), "little", signed=True)


def sort_received_rows(keys: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]) -> Rows:
    """Rows in the order `ReceivedRanges` wants them."""
    order = np.lexsort((first, keys))
    return keys[order], first[order], last[order]


class ReceivedRanges:
    """Ranges by stream: those of before as arrays (24 bytes a range), those heard of since as short lists."""

    def __init__(self, before: Rows = NOTHING) -> None:
        """`before` as `sort_received_rows` gives them; ranges of a stream may overlap."""
        self._before = before
        self._heard: dict[int, list[int]] = {}

    def has(self, key: int, seq: int) -> bool:
        """Whether number `seq` of a stream is in one of its ranges."""
        ranges = self._heard.get(key)
        if ranges is None:
            keys, firsts, lasts = self._before
            low, high = np.searchsorted(keys, key, "left"), np.searchsorted(keys, key, "right")
            return bool(np.any((firsts[low:high] <= seq) & (lasts[low:high] >= seq)))
        at = bisect_right(ranges, seq)
        # Even places begin a range, odd ones are one beyond its end.
        return at % 2 == 1

    def add(self, key: int, seq: int) -> None:
        """Notes number `seq` as taken. Raises LakeError when the stream has too many gaps; it is not noted then."""
        ranges = self._of(key)
        at = bisect_right(ranges, seq)
        if at % 2:
            return
        joins_left = at > 0 and ranges[at - 1] == seq
        joins_right = at < len(ranges) and ranges[at] == seq + 1
        if joins_left and joins_right:
            del ranges[at - 1 : at + 1]
        elif joins_left:
            ranges[at - 1] = seq + 1
        elif joins_right:
            ranges[at] = seq
        else:
            ranges[at:at] = [seq, seq + 1]

    def has_room(self, key: int) -> bool:
        """Whether another gap of this stream can be remembered."""
        ranges = self._heard.get(key)
        return ranges is None or len(ranges) < 2 * MAX_RANGES

    def _of(self, key: int) -> list[int]:
        ranges = self._heard.get(key)
        if ranges is None:
            keys, firsts, lasts = self._before
            low, high = int(np.searchsorted(keys, key, "left")), int(np.searchsorted(keys, key, "right"))
            pairs = zip(firsts[low:high].tolist(), lasts[low:high].tolist(), strict=True)
            self._heard[key] = ranges = [edge for first, last in _join_ranges(pairs) for edge in (first, last + 1)]
        return ranges


def _join_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint ranges in order from any; neighbours become one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def merge_received_rows(rows: pa.Table) -> pa.Table:
    """Rows of `_batches` with the ranges of each stream joined where they touch, sorted by key: what is known stays
    the same. Rows, batches add up; the latest time, source and path count. Columns of a newer fairlead stay as the
    latest row has them. Raises LakeError when a needed column is missing."""
    if rows.num_rows < 2:
        return rows
    if not {"key", "seq", "taken_ns"} <= set(rows.column_names):
        raise LakeError("rows of _batches without key, seq or taken_ns")
    key, last, heard = (rows.column(name).to_numpy() for name in ("key", "seq", "taken_ns"))
    first = read_received_firsts(rows)
    order = np.lexsort((last, first, key))
    key, first, last = key[order], first[order], last[order]
    # The furthest end so far within each stream; streams are told apart by their place.
    ends = _running_ends(key, last)
    same = key[1:] == key[:-1]
    touches = same & ((first[1:] <= ends[:-1]) | (first[1:] - 1 == ends[:-1]))
    starts = np.flatnonzero(np.concatenate(([True], ~touches)))
    if len(starts) == rows.num_rows:
        return rows.take(pa.array(order))
    heard = heard[order]
    group = np.cumsum(np.concatenate(([0], (~touches).astype(np.int64))))
    latest = np.lexsort((heard, group))[np.concatenate((starts[1:], [len(order)])) - 1]
    kept = rows.take(pa.array(order[latest]))
    sums = {}
    for name in ("rows", "batches"):
        if name in rows.column_names:
            values = rows.column(name).fill_null(1 if name == "batches" else 0).to_numpy()[order]
            sums[name] = np.add.reduceat(values, starts)
    new = {"seq": np.maximum.reduceat(last, starts), **sums}
    if "first_seq" in rows.column_names:
        edges = first[starts]
        new["first_seq"] = pa.array(edges, mask=edges == EVERYTHING)
    for name, values in new.items():
        at = kept.column_names.index(name)
        field = kept.schema.field(name)
        kept = kept.set_column(at, field, pa.chunked_array([pa.array(values).cast(field.type)]))
    return kept


def read_received_firsts(rows: pa.Table) -> NDArray[np.int64]:
    """int64[rows]: where each range begins."""
    if "first_seq" not in rows.column_names:
        return np.full(rows.num_rows, EVERYTHING)
    return np.asarray(rows.column("first_seq").fill_null(EVERYTHING).to_numpy(), np.int64)


def _running_ends(key: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """The highest `last` up to each row among rows of the same key (rows sorted by key)."""
    ends = last.copy()
    firsts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    many = np.flatnonzero(np.diff(np.concatenate((firsts, [len(key)]))) > 1)
    for number in many.tolist():
        low = firsts[number]
        high = firsts[number + 1] if number + 1 < len(firsts) else len(key)
        np.maximum.accumulate(last[low:high], out=ends[low:high])
    return ends
