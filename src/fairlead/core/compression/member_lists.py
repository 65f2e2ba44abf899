"""List columns of `op_groups`: a value for every member, written short where a law gives them all.

A list holds, of a group of m members in order: nothing (null) where no member has a value; one value that holds for
all; of more than two members, two values where they climb evenly (the first, and the step between neighbours, modulo
2**64); else a value each, null where a member has none. Not here: which rows are members (`node_groups`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Cut:
    """Rows cut into groups: where each begins, and how many rows it has (one or more)."""

    heads: NDArray[np.intp]
    lengths: I64


@dataclass(frozen=True)
class Members:
    """Members to give back: the group of each, its number in it, and of each group how many it has."""

    group: I64
    nth: I64
    counts: I64


def shorten_member_lists(column: pa.Array, cut: Cut) -> pa.ListArray:
    """The lists of an int64 column whose rows lie group after group."""
    groups = len(cut.heads)
    missing = np.asarray(column.is_null())
    values = column.fill_null(0).to_numpy(zero_copy_only=False) if column.null_count else column.to_numpy()
    without = np.add.reduceat(missing.astype(np.int64), cut.heads) if missing.any() else np.zeros(groups, np.int64)
    whole = without == 0
    step = np.empty(len(values), np.int64)
    np.subtract(values[1:], values[:-1], out=step[1:])
    second = np.minimum(cut.heads + 1, len(values) - 1)
    of_group = step[second]
    # The first row of a group has no step of its own: it agrees with any.
    even = step == np.repeat(of_group, cut.lengths)
    even[cut.heads] = True
    even = np.logical_and.reduceat(even, cut.heads) & whole
    constant = even & ((cut.lengths == 1) | (of_group == 0))
    climbing = even & ~constant & (cut.lengths > 2)
    kept = np.where(constant, 1, np.where(climbing, 2, cut.lengths))
    kept[without == cut.lengths] = 0
    if climbing.any():
        values = values.copy()
        values[second[climbing]] = of_group[climbing]
    nth = np.arange(len(values)) - np.repeat(cut.heads, cut.lengths)
    held = nth < np.repeat(kept, cut.lengths)
    inner = pa.array(values[held], mask=missing[held]) if missing.any() else pa.array(values[held])
    return _lists(inner, kept, kept == 0)


def _lists(values: pa.Array, lengths: I64, absent: Flags) -> pa.ListArray:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(absent) if absent.any() else None)


def expand_member_values(column: pa.ChunkedArray | pa.Array, members: Members) -> pa.Array:
    """int64: the value of every member."""
    held, begin, lengths = _parts(column)
    if not len(held):
        return pa.nulls(len(members.group), pa.int64())
    explicit = (lengths == members.counts) | (lengths < 2)
    each = np.where(explicit & (lengths > 1), 1, 0)
    at = np.minimum(begin[members.group] + members.nth * each[members.group], len(held) - 1)
    missing = (lengths == 0)[members.group]
    if held.null_count:
        missing |= np.asarray(held.is_null())[at]
    numbers = held.fill_null(0).to_numpy(zero_copy_only=False)
    values = numbers[at]
    if not explicit.all():
        step = np.where(explicit, 0, numbers[np.minimum(begin + 1, len(numbers) - 1)])
        values = values + members.nth * step[members.group]
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def _parts(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, I64, I64]:
    """(values, where each list begins in them, its length: 0 for null)."""
    one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(one, pa.ChunkedArray):
        one = one.chunk(0)
    lengths = one.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return one.flatten(), np.cumsum(lengths) - lengths, lengths


def list_member_nodes(column: pa.Array, groups: I64, cut: Cut) -> tuple[pa.ListArray, pa.ListArray]:
    """(names of a group's nodes by first appearance, which of them each member is of). The second is null where
    members lie node after node, equally many of each."""
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    codes = column.indices.to_numpy().astype(np.int64)
    pair = pa.array(groups * len(column.dictionary) + codes).dictionary_encode()
    number = pair.indices.to_numpy().astype(np.int64)
    # Rows lie group after group, so pairs are numbered group after group too.
    first = number[cut.heads]
    distinct = np.diff(first, append=len(pair.dictionary))
    local = number - np.repeat(first, cut.lengths)
    nth = np.arange(len(codes)) - np.repeat(cut.heads, cut.lengths)
    expected = nth * np.repeat(distinct, cut.lengths) // np.repeat(cut.lengths, cut.lengths)
    regular = (cut.lengths % distinct == 0) & np.logical_and.reduceat(local == expected, cut.heads)
    of_pair = pair.dictionary.to_numpy() % len(column.dictionary)
    names = column.dictionary.cast(pa.string()).take(pa.array(of_pair))
    listed = _lists(names, distinct, np.zeros(len(distinct), np.bool_))
    return listed, _lists(pa.array(local[~np.repeat(regular, cut.lengths)]), np.where(regular, 0, cut.lengths), regular)


def expand_member_nodes(names: pa.ChunkedArray, codes: pa.ChunkedArray, members: Members) -> pa.DictionaryArray:
    """The node of every member."""
    held, begin, lengths = _parts(names)
    regular = members.nth * lengths[members.group] // members.counts[members.group]
    told = expand_member_values(codes, Members(members.group, members.nth, members.counts))
    local = regular if told.null_count == len(told) else _filled(told, regular)
    return held.take(pa.array(begin[members.group] + local)).dictionary_encode()


def _filled(told: pa.Array, otherwise: I64) -> I64:
    known = np.asarray(told.is_valid())
    return np.where(known, told.fill_null(0).to_numpy(zero_copy_only=False), otherwise)
