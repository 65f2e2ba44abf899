"""Sums by second and name as integer columns: rows spread over the seconds they cover, equal keys added up, exactly.

Pure NumPy and Arrow kernels, no row is ever an object. Not here: which column of which table means what (`rollups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.unit_formats import NS_PER_S

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_CELLS = 7200
"""A row that covers more seconds than this is laid down every second, third, ... second only, so that one wrong time
cannot fill the memory. Its sums stay exact."""
LONGEST_NS = 31 * 86_400 * NS_PER_S
"""A row that says it covers more than this has a wrong time, and lies in one second: else it alone would make a file of
every day it claims."""

MOST_OF_ONE = 1 << 56
"""Bytes or operations of one row of a counter, and bytes a device holds, at most: 72 PB."""


@dataclass(frozen=True)
class Names:
    """A column of words as codes into `words`; -1 is null."""

    codes: I64
    words: pa.Array

    def select_rows(self, rows: NDArray[np.intp]) -> Names:
        """These rows."""
        return Names(self.codes[rows], self.words)


@dataclass(frozen=True)
class Amounts:
    """Integers with a mask of those that are known (None: all)."""

    values: I64
    known: Flags | None = None


def read_cell_names(column: pa.ChunkedArray | pa.Array) -> Names:
    """A dictionary or string column as codes."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type) and column.num_chunks > 1:
            column = column.unify_dictionaries()
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):  # no chunk at all
        column = pa.array([], column.type)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.indices
    plain = codes.fill_null(-1) if codes.null_count else codes
    return Names(plain.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary)


def read_cell_amounts(column: pa.ChunkedArray | pa.Array) -> Amounts:
    """An integer column; a null counts nothing and is not known."""
    if column.null_count == 0:
        return Amounts(np.asarray(column.to_numpy(), np.int64))
    known = np.asarray(column.is_valid())
    return Amounts(np.asarray(column.fill_null(0).to_numpy(), np.int64), known)


def drop_impossible_cells(column: Amounts) -> Amounts:
    """Amounts of intervals; one that no interval can have is not known: added up with others, it would spoil theirs."""
    strange = (column.values < 0) | (column.values > MOST_OF_ONE)
    if not strange.any():
        return column
    return Amounts(np.where(strange, 0, column.values), ~strange if column.known is None else column.known & ~strange)


def join_cell_names(left: Names, right: Names, mark: str) -> Names:
    """`left`, `mark` and `right` as one word; null where either is."""
    key = np.where((left.codes < 0) | (right.codes < 0), -1, left.codes * max(len(right.words), 1) + right.codes)
    distinct, codes = np.unique(key, return_inverse=True)
    first, second = left.words.to_pylist(), right.words.to_pylist()
    wide = max(len(second), 1)
    words = [f"{first[k // wide]}{mark}{second[k % wide]}" if k >= 0 else "" for k in distinct.tolist()]
    return Names(np.where(key < 0, -1, codes).astype(np.int64), pa.array(words, pa.string()))


def prefer_left_cells(left: Names, right: Names) -> Names:
    """`left` where it is known, else `right`."""
    if not (left.codes < 0).any():
        return left
    words = pa.concat_arrays([left.words.cast(pa.string()), right.words.cast(pa.string())])
    other = np.where(right.codes < 0, -1, right.codes + len(left.words))
    return Names(np.where(left.codes < 0, other, left.codes), words)


def spread_over_cells(
    start_ns: I64, end_ns: I64, amounts: Sequence[I64]
) -> tuple[NDArray[np.intp] | None, I64, list[I64]]:
    """Rows cut at the borders of seconds: (row each piece is of, its second, its part of every amount).

    The row index is None when no row crosses a border. An amount is shared in proportion to time and rounded so that
    its parts add up to it; a row without length, that ends before it starts or claims more than LONGEST_NS, lies in the
    second of its start.
    """
    end_ns = np.where(end_ns - start_ns > LONGEST_NS, start_ns, end_ns)
    first = start_ns // NS_PER_S
    last = np.maximum(end_ns - 1, start_ns) // NS_PER_S
    at = np.flatnonzero(last > first)
    if not len(at):
        return None, first, list(amounts)
    covered = last[at] - first[at] + 1
    step = -(-covered // MOST_CELLS)
    pieces = -(-covered // step)
    source = np.repeat(at, pieces)
    behind = np.cumsum(pieces)
    nth = np.arange(len(source)) - np.repeat(behind - pieces, pieces)
    wide = np.repeat(step, pieces)
    second = first[source] + nth * wide
    border = np.minimum((second + wide) * NS_PER_S, end_ns[source])
    passed = (border - start_ns[source]) / (end_ns - start_ns)[source]
    ends = behind - 1
    inside = np.flatnonzero(last <= first)
    out = []
    for values in amounts:
        reached = np.floor(values[source] * passed).astype(np.int64)
        reached[ends] = values[at]
        part = np.diff(reached, prepend=0)
        part[ends[:-1] + 1] = reached[ends[:-1] + 1]
        out.append(np.concatenate([values[inside], part]))
    return np.concatenate([inside, source]), np.concatenate([first[inside], second]), out


def group_cell_rows(keys: Sequence[I64]) -> tuple[I64, NDArray[np.intp]]:
    """(group of each row, a row of each group) of rows alike in all `keys` (any integers)."""
    count = len(keys[0])
    codes: I64 = np.zeros(count, np.int64)
    groups = 1
    for key in keys:
        if not count:
            break
        low = int(key.min())
        span = int(key.max()) - low + 1
        if span == 1:
            continue
        if groups * span >= 1 << 62:
            key, span, low = *_dense(key), 0
        codes = codes * span + (key - low) if groups > 1 else key - low
        if groups > 1 or span > count:
            codes, span = _dense(codes)
            groups = 1
        groups *= span
    codes, found = _dense(codes)
    one = np.empty(found, np.intp)
    one[codes] = np.arange(count)
    return codes, one


def _dense(values: I64) -> tuple[I64, int]:
    """Codes 0, 1, ... by first appearance, and how many there are."""
    coded = pa.array(values).dictionary_encode()
    return np.asarray(coded.indices.to_numpy(), np.int64), len(coded.dictionary)


def add_cell_groups(amount: Amounts, groups: I64, count: int) -> Amounts:
    """Sums by group; not known where nothing in the group is."""
    total = np.zeros(count, np.int64)
    np.add.at(total, groups, amount.values)
    return Amounts(total, _any(amount.known, groups, count))


def _find_largest(amount: Amounts, groups: I64, count: int) -> Amounts:
    """The largest known value by group."""
    low = np.iinfo(np.int64).min
    values = amount.values if amount.known is None else np.where(amount.known, amount.values, low)
    total = np.full(count, low, np.int64)
    np.maximum.at(total, groups, values)
    known = _any(amount.known, groups, count)
    return Amounts(total if known is None else np.where(known, total, 0), known)


def _any(known: Flags | None, groups: I64, count: int) -> Flags | None:
    if known is None:
        return None
    found = np.zeros(count, np.bool_)
    found[groups[known]] = True
    return found


@dataclass(frozen=True)
class Cells:
    """Sums by second and names: what is left of the raw rows. `_find_largest` columns are combined by their maximum."""

    second: I64
    names: Mapping[str, Names]
    sums: Mapping[str, Amounts]
    largest: Mapping[str, Amounts]
    apart: bool = False
    """Whether no two rows are of one second and the same names."""

    def select_rows(self, rows: Flags) -> Cells:
        """These rows only."""
        at = np.flatnonzero(rows)
        return self._at(at, self.second[at])

    def _at(self, at: NDArray[np.intp], second: I64) -> Cells:
        def taken(columns: Mapping[str, Amounts]) -> dict[str, Amounts]:
            return {n: Amounts(c.values[at], None if c.known is None else c.known[at]) for n, c in columns.items()}

        kept = {name: column.select_rows(at) for name, column in self.names.items()}
        return Cells(second, kept, taken(self.sums), taken(self.largest), self.apart)

    def group_by(self, wanted: Sequence[str], interval_s: int = 1) -> Cells:
        """Added up by interval and the names in `wanted`; other names are dropped."""
        if self.apart and interval_s == 1 and len(wanted) == len(self.names):
            return self
        second = self.second // interval_s * interval_s
        groups, one = group_cell_rows([second, *(self.names[name].codes for name in wanted)])
        count = len(one)
        return Cells(
            second[one],
            {name: self.names[name].select_rows(one) for name in wanted},
            {name: add_cell_groups(column, groups, count) for name, column in self.sums.items()},
            {name: _find_largest(column, groups, count) for name, column in self.largest.items()},
            apart=True,
        )
