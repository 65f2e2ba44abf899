"""Slurm's host list expressions: `c[001-003,7],d1`, `a[1-2]b[3-4]`. The size is known before a name is made."""

from __future__ import annotations

import re
from itertools import product
from math import prod

from fairlead.see.sources.node_lists import NodeListError

MOST_NODES = 1 << 17
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[0-9,\-]+\])+")
_PIECE = re.compile(r"\[([0-9,\-]+)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand_hostlist(text: str, most: int = MOST_NODES) -> list[str]:
    """Names of a host list in its order; zero padding is kept as wide as the lower end of its range.

    Raises NodeListError for malformed text and, before expanding, for more than `most` names.
    """
    if "[" not in text and "]" not in text:
        names = text.split(",")
        if not all(names) or any(c.isspace() for c in text):
            raise NodeListError(f"not a host list: {text[:60]!r}")
        if len(names) > most:
            raise NodeListError(f"more than {most} hosts", too_large=True)
        return names
    items: list[list[list[tuple[int, int, int]] | str]] = []
    total = 0
    for item in _items(text):
        pieces = [_ranges(inner) if inner else plain for inner, plain in _PIECE.findall(item)]
        total += prod(_size(piece) for piece in pieces if not isinstance(piece, str))
        if total > most:
            raise NodeListError(f"{total} hosts, more than {most}", too_large=True)
        items.append(pieces)
    return ["".join(parts) for pieces in items for parts in product(*map(_texts, pieces))]


def _items(text: str) -> list[str]:
    """What stands between the commas outside of brackets."""
    found = []
    at = 0
    while True:
        match = _ITEM.match(text, at)
        if match is None:
            raise NodeListError(f"not a host list: {text[:60]!r}")
        found.append(match.group())
        at = match.end()
        if at == len(text):
            return found
        if text[at] != ",":
            raise NodeListError(f"not a host list: {text[:60]!r}")
        at += 1


def _ranges(inner: str) -> list[tuple[int, int, int]]:
    """Lower end, upper end and width of each range of a bracket."""
    found = []
    for part in inner.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise NodeListError(f"not a range of numbers: {part[:60]!r}")
        low, high = match.group(1), match.group(2) or match.group(1)
        if int(high) < int(low):
            raise NodeListError(f"a range that runs backwards: {part[:60]!r}")
        found.append((int(low), int(high), len(low)))
    return found


def _size(ranges: list[tuple[int, int, int]]) -> int:
    return sum(high - low + 1 for low, high, _ in ranges)


def _texts(piece: list[tuple[int, int, int]] | str) -> list[str]:
    if isinstance(piece, str):
        return [piece]
    return [f"{n:0{width}d}" for low, high, width in piece for n in range(low, high + 1)]
