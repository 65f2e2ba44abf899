"""The law of merging: which neighbours in a stream become one run. Pure NumPy on columns; no tables, no building.

A *link* joins a row to the one before it in its stream, where kind and times allow; links of equal stride in a row
form a *progression*. `find_merge_links` says which links are taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Operations or runs, stream after stream, each stream in order. Null offsets and sizes are 0 here; `same` is
    false where a row cannot join the one before it whatever its times (other stream, op, size, null pattern).
    `count` and `stride` are None when every row is one operation. `whole` is false for rows nothing may join."""

    start: I64
    end: I64
    offset: I64
    same: Flags
    whole: Flags | None
    count: I64 | None
    stride: I64 | None


@dataclass(frozen=True)
class Links:
    """Of each row: whether it belongs to the run of the row before (`join`), by a long progression (`long`, also set
    on links a long progression gave up), and its distance from that row's last offset modulo 2**64 (`step`)."""

    join: Flags
    long: Flags
    step: I64


def find_merge_links(rows: Rows, gap_ns: int, boundary_ns: int) -> Links:
    """Decide every link of `rows`, in linear time.

    A progression is long with two links or more, or when a row in it already is a run (which is never split). A long
    progression takes all its operations, but leaves its last one to the long progression that begins there. What
    lies between long progressions is joined two by two from the left. No partition into runs has fewer runs, and a
    chance pair never costs a long run its first operation.
    """
    n = len(rows.start)
    step = np.zeros(n, np.int64)
    if n == 0:
        return Links(np.zeros(0, np.bool_), np.zeros(0, np.bool_), step)
    last = rows.offset
    if rows.count is not None and rows.stride is not None:
        last = rows.offset + (rows.count - 1) * rows.stride
    np.subtract(rows.offset[1:], last[:-1], out=step[1:])
    link = _possible(rows, step, gap_ns, boundary_ns)
    # equal[i]: link i goes on with the stride of link i - 1; a false entry closes the end.
    equal = np.zeros(n + 1, np.bool_)
    np.equal(step[1:], step[:-1], out=equal[1:n])
    equal[1:n] &= link[1:]
    equal[1:n] &= link[:-1]
    long = equal[:-1] | equal[1:]
    if rows.count is not None:
        merged = rows.count > 1
        long[1:] |= merged[1:] | merged[:-1]
        long &= link
    join = long.copy()
    join[:-1] &= equal[1:n] | ~long[1:]
    weak = link
    weak &= ~long
    _pair_off(join, weak, long)
    return Links(join, long, step)


def _possible(rows: Rows, step: I64, gap_ns: int, boundary_ns: int) -> Flags:
    """Links the law allows before strides are compared: kind, one second, time forward, no gap, known strides."""
    start, end = rows.start, rows.end
    second = start // boundary_ns
    link = rows.same.copy()
    link[0] = False
    # A row that ends in a later second, or before it starts, stays alone; so a run lies inside its second.
    whole = (end >= start) & (end <= (second + 1) * boundary_ns)
    if rows.whole is not None:
        whole &= rows.whole
    link &= whole
    link[1:] &= whole[:-1]
    link[1:] &= second[1:] == second[:-1]
    idle = start[1:] - end[:-1]
    link[1:] &= (idle >= 0) & (idle < gap_ns)
    if rows.count is not None and rows.stride is not None:
        fits = (rows.count == 1) | (step == rows.stride)
        link &= fits
        link[1:] &= (rows.count[:-1] == 1) | (step[1:] == rows.stride[:-1])
    return link


def _pair_off(join: Flags, weak: Flags, long: Flags) -> None:
    """Join every other link of each chain of weak links: the first when its left operation is free, never the one
    whose right operation begins a long progression."""
    at = np.flatnonzero(weak)
    if len(at) == 0:
        return
    first = np.empty(len(at), np.bool_)
    first[0] = True
    np.not_equal(at[1:], at[:-1] + 1, out=first[1:])
    begins = np.flatnonzero(first)
    phase = (at[begins] + long[at[begins] - 1]).astype(np.uint8) & 1
    lengths = np.diff(begins, append=len(at))
    chosen = at[(at.astype(np.uint8) & 1) == np.repeat(phase, lengths)]
    following = np.minimum(chosen + 1, len(long) - 1)
    join[chosen[~((following > chosen) & long[following])]] = True
