"""What is known at the end of one block, or of one day's file, and needed at the start of the next."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairlead.see.sources.beacon.lines import Ints, Words
from fairlead.see.sources.beacon.series import Series

_SEEN_PATHS = 1 << 20
_FEWEST_SLOTS = 1 << 10
_MOST_OPEN = 1 << 24


class OpenHandles:
    """File of every handle that is open, per host: a table that `scan_trace.resolve_trace_handles` reads and fills."""

    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    used: NDArray[np.int64]

    def __init__(self) -> None:
        self._clear(_FEWEST_SLOTS)

    def _clear(self, slots: int) -> None:
        self.keys = np.zeros((slots, 2), np.int64)
        self.values = np.zeros((slots, 2), np.int64)
        self.used = np.zeros(1, np.int64)

    def reserve(self, opens: int) -> None:
        """Make room for that many more opens; when the table has to grow, closed handles are forgotten, and all of
        them past _MOST_OPEN (closes were lost: the files behind them would be guesses)."""
        if 2 * (int(self.used[0]) + opens) <= len(self.values):
            return
        live = np.flatnonzero(self.values[:, 0] == 1)
        if len(live) > _MOST_OPEN:
            live = live[:0]
        slots = 1 << int(2 * (len(live) + opens)).bit_length()
        old_keys, old_files = self.keys[live], self.values[live, 1]
        self._clear(max(slots, _FEWEST_SLOTS))
        self._insert(old_keys, old_files)

    def _insert(self, keys: Ints, files: Ints) -> None:
        """Insert distinct keys: all probe at once, those that meet a taken slot go one further."""
        mask = len(self.values) - 1
        h = (keys[:, 1] & 0x7FFFFFFF) * 40503 + ((keys[:, 1] >> 31) & 0x7FFFFFFF) * 7919 + keys[:, 0] * 1000003
        slot = (h ^ (h >> 17)) & mask
        left = np.arange(len(keys))
        while len(left):
            free = self.values[slot[left], 0] == 0
            here, first = np.unique(slot[left[free]], return_index=True)
            placed = left[free][first]
            self.keys[here], self.values[here, 0], self.values[here, 1] = keys[placed], 1, files[placed]
            left = np.setdiff1d(left, placed, assume_unique=True)
            slot[left] = (slot[left] + (self.values[slot[left], 0] != 0)) & mask
        self.used[0] = len(keys)


@dataclass
class Pending:
    """Histogram differences of each server's newest second, kept until the rest of its snapshot has come: columns
    host, time, interval, class, phase; and the eight values."""

    columns: Ints = field(default_factory=lambda: np.empty((0, 5), np.int64))
    values: Ints = field(default_factory=lambda: np.empty((0, 8), np.int64))


@dataclass
class SeriesState:
    """State of one series of files, read in order of time."""

    hosts: Words = field(default_factory=Words)
    targets: Words = field(default_factory=Words)
    clients: Words = field(default_factory=Words)
    names: Words = field(default_factory=lambda: Words(limit=1 << 12))
    handles: OpenHandles = field(default_factory=OpenHandles)
    latency: Series = field(default_factory=lambda: Series(8))
    client_rpcs: Series = field(default_factory=Series)
    target_rpcs: Series = field(default_factory=Series)
    cache: Series = field(default_factory=lambda: Series(3))
    metadata: Series = field(default_factory=lambda: Series(1))
    pending: Pending = field(default_factory=Pending)
    seen_paths: set[int] = field(default_factory=set)

    def find_new_paths(self, ids: Ints) -> NDArray[np.bool_]:
        """Which ids were not given before (of the latest million or so)."""
        if len(self.seen_paths) > _SEEN_PATHS:
            self.seen_paths.clear()
        fresh = np.fromiter((i not in self.seen_paths for i in ids.tolist()), bool, len(ids))
        self.seen_paths.update(ids[fresh].tolist())
        return fresh
