"""RAID-0 arithmetic: which bytes of a file are which bytes of its objects. Pure.

A file of `count` stripes is cut into units of `size` bytes; unit u is row u // count of object u % count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MAX_PIECES = 512
"""Buffers of one vectored call at most (IOV_MAX is 1024)."""


class Segment(NamedTuple):
    """Bytes of one object, contiguous there: where they are in it, and the pieces [start, stop) of the buffer."""

    number: int
    offset: int
    pieces: list[tuple[int, int]]
    length: int


def locate_striped_byte(offset: int, size: int, count: int) -> tuple[int, int]:
    """Object and offset in it of a byte of the file."""
    unit, within = divmod(offset, size)
    row, index = divmod(unit, count)
    return index, row * size + within


def split_striped_range(offset: int, length: int, size: int, count: int) -> Iterator[Segment]:
    """The parts of [offset, offset + length), one per object and window."""
    if count == 1:
        if length:
            yield Segment(0, offset, [(0, length)], length)
        return
    window = size * count * MAX_PIECES
    done = 0
    while done < length:
        stop = min(length, ((offset + done) // window + 1) * window - offset)
        yield from _window(offset, done, stop, size, count)
        done = stop


def _window(offset: int, start: int, stop: int, size: int, count: int) -> Iterator[Segment]:
    found: dict[int, Segment] = {}
    at = start
    while at < stop:
        index, inside = locate_striped_byte(offset + at, size, count)
        end = min(stop, at + size - (offset + at) % size)
        old = found.get(index)
        if old is None:
            found[index] = Segment(index, inside, [(at, end)], end - at)
        else:
            old.pieces.append((at, end))
            found[index] = old._replace(length=old.length + end - at)
        at = end
    yield from found.values()


def compute_stripe_object_size(index: int, end: int, size: int, count: int) -> int:
    """Bytes of object `index` that lie before `end` of the file: its size in a file of that size without holes."""
    rows, rest = divmod(end, size * count)
    return rows * size + min(max(rest - index * size, 0), size)


def compute_striped_end(index: int, length: int, size: int, count: int) -> int:
    """End of the file that an object of `length` bytes implies; 0 for an empty one."""
    if length <= 0:
        return 0
    row, within = divmod(length - 1, size)
    return (row * count + index) * size + within + 1


def compute_striped_offset(index: int, offset: int, size: int, count: int) -> int:
    """Where byte `offset` of an object is in the file."""
    row, within = divmod(offset, size)
    return (row * count + index) * size + within
