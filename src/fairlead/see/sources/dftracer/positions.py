"""Where reads and writes without an offset of their own happened: the position of each handle, followed in order.

A position is known from an open, a seek or a tell on; appending opens, seeks from the end and moves of unknown length
lose it. Vectorised over a block; only the state of the handles passes from block to block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.see.sources.dftracer.layout import IntArray

UNKNOWN = -1
"""As a row's value in `Steps.to`: the position is unknown from here on. As a result: no offset."""
KEEP = -2
"""As a row's value in `Steps.to`: the row moves the position by `Steps.by`."""
NOT_TOLD = -(1 << 62)
"""As a row's value in `Steps.by`: it moves the position by an unknown number of bytes."""


@dataclass(frozen=True)
class Steps:
    """What each row (n,) does to the position of its handle `key`, in order.

    `to`: a new position, UNKNOWN, or KEEP; `by`: bytes moved with KEEP, or NOT_TOLD;
    `opened`: +1 for an open, -1 for a close, else 0; `counted`: opens of this key must not overlap to be followed
    (the trace names the file, not the handle).
    """

    key: IntArray
    to: IntArray
    by: IntArray
    opened: IntArray
    counted: NDArray[np.bool_]


class Positions:
    """Positions of all handles of a trace between blocks: key → (position or UNKNOWN, opens)."""

    def __init__(self) -> None:
        self._state: dict[int, tuple[int, int]] = {}

    def follow(self, steps: Steps) -> IntArray:
        """Position before each row, UNKNOWN where it is not known."""
        n = len(steps.key)
        if not n:
            return np.empty(0, np.int64)
        order = np.argsort(steps.key, kind="stable")
        key, to, by = steps.key[order], steps.to[order], steps.by[order]
        first = np.r_[True, key[1:] != key[:-1]]
        group = np.cumsum(first) - 1
        starts = np.flatnonzero(first)
        carried = [self._state.get(k, (UNKNOWN, 0)) for k in key[starts].tolist()]
        position0 = np.array([p for p, _ in carried], np.int64)
        opens0 = np.array([o for _, o in carried], np.int64)

        opens = _running(steps.opened[order], starts, group) + opens0[group]
        shared = steps.counted[order] & (opens > 1)
        back_to_one = steps.counted[order] & (opens == 1) & (steps.opened[order] < 0)
        to = np.where(shared | back_to_one | ((to == KEEP) & (by == NOT_TOLD)), UNKNOWN, to)
        moved = np.where(to == KEEP, by, 0)

        # Each row stands on the latest setting before it (or what was carried in) plus the moves since.
        setting = to != KEEP
        total = np.cumsum(moved)
        before = total - moved
        last = np.maximum.accumulate(np.where(setting | first, np.arange(n), -1))
        previous = np.r_[0, last[:-1]]
        from_carried = first | ~setting[previous]
        from_carried |= group[previous] != group
        base = np.where(from_carried, position0[group], to[previous])
        since = np.where(from_carried, before[starts][group], total[previous])
        position = np.where(base < 0, UNKNOWN, np.maximum(base + before - since, UNKNOWN))
        self._keep(key, starts, position, to, by, opens)
        result = np.empty(n, np.int64)
        result[order] = position
        return result

    def _keep(
        self, key: IntArray, starts: IntArray, position: IntArray, to: IntArray, by: IntArray, opens: IntArray
    ) -> None:
        ends = np.r_[starts[1:], len(key)] - 1
        moved = np.where(position[ends] < 0, UNKNOWN, position[ends] + by[ends])
        final = np.where(to[ends] == KEEP, moved, to[ends])
        for k, p, o in zip(key[ends].tolist(), final.tolist(), opens[ends].tolist(), strict=True):
            if p < 0 and o == 0:
                self._state.pop(k, None)
            else:
                self._state[k] = (p, o)


def _running(values: IntArray, starts: IntArray, group: IntArray) -> IntArray:
    """Cumulative sum inside each group, the row included."""
    total = np.cumsum(values)
    before = total[starts] - values[starts]
    return np.asarray(total - before[group], np.int64)
