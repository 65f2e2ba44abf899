"""Cumulative counters of many series to the deltas between successive samples, carried from block to block.

A counter that goes down starts a new base: nothing is said of the interval that holds the reset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Deltas:
    """Rows of the samples that have a predecessor, in order of series and time: `rows` points into the samples given,
    `interval_ns` and `values` (rows × width) are the differences. `resets` and `late` count what was left out: samples
    below their predecessor, and samples older than one already seen."""

    rows: Ints
    interval_ns: Ints
    values: Ints
    resets: int
    late: int


class Series:
    """The last sample of every series, by integer key; all samples have one width."""

    def __init__(self, width: int = 0) -> None:
        self._keys: Ints = np.empty(0, np.int64)
        self._times: Ints = np.empty(0, np.int64)
        self._values: Ints = np.empty((0, width), np.int64)

    def compute_deltas(self, keys: Ints, times: Ints, values: Ints) -> Deltas:
        """Differences of samples (`keys` and `times` of n, `values` of n × width) to what came before them.

        Of several samples of a series at one instant the last counts.
        """
        order = np.lexsort((times, keys))
        if len(order) > 1:
            k, t = keys[order], times[order]
            order = order[np.append((k[1:] != k[:-1]) | (t[1:] != t[:-1]), True)]
        k, t = keys[order], times[order]
        slot, known = self._find(k)
        newest = np.full(len(k), np.iinfo(np.int64).min)
        newest[known] = self._times[slot[known]]
        late = int((t < newest).sum())
        fresh = t > newest
        order, k, t, slot, known = order[fresh], k[fresh], t[fresh], slot[fresh], known[fresh]
        v = values[order]
        first = np.ones(len(k), bool)
        first[1:] = k[1:] != k[:-1]
        before_t, before_v = np.roll(t, 1), np.roll(v, 1, axis=0)
        based = first & known
        before_t[based], before_v[based] = self._times[slot[based]], self._values[slot[based]]
        delta = v - before_v
        fell = (delta < 0).any(axis=1)
        has_base = ~first | known
        good = has_base & ~fell
        self._store(k, t, v)
        return Deltas(order[good], (t - before_t)[good], delta[good], int((fell & has_base).sum()), late)

    def _find(self, keys: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        slot = np.searchsorted(self._keys, keys)
        inside = slot < len(self._keys)
        known = np.zeros(len(keys), bool)
        known[inside] = self._keys[slot[inside]] == keys[inside]
        return slot, known

    @property
    def width(self) -> int:
        """Counters per sample."""
        return int(self._values.shape[1])

    def map_values(self, change: Callable[[Ints], Ints]) -> None:
        """Lay the kept values out anew (samples × width)."""
        self._values = change(self._values)

    def _store(self, keys: Ints, times: Ints, values: Ints) -> None:
        if not len(keys):
            return
        last = np.append(keys[1:] != keys[:-1], True)
        keys, times, values = keys[last], times[last], values[last]
        slot, known = self._find(keys)
        self._times[slot[known]], self._values[slot[known]] = times[known], values[known]
        if known.all():
            return
        merged = np.concatenate([self._keys, keys[~known]])
        order = np.argsort(merged, kind="stable")
        self._keys = merged[order]
        self._times = np.concatenate([self._times, times[~known]])[order]
        self._values = np.concatenate([self._values, values[~known]])[order]
