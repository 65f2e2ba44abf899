"""Bytes per time bin from operations: `spread_bytes` for a known range, `AdaptiveSeries` for a stream of unknown end.

Not here: what a series means (`phases`, `period`), nor which operations to count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

TARGET_BINS = 4096
_FRACTION_BITS = 8
"""Bits after the point of a bin's share: 1/256 byte."""
_LARGEST = 1 << 50
"""An operation of more bytes than this (a damaged record) counts in the bin of its start."""
_PIECE = 1 << 16
"""Operations spread at a time: their temporary columns stay in the cache."""


def spread_bytes(
    start_ns: ArrayLike,
    end_ns: ArrayLike,
    nbytes: ArrayLike,
    origin_ns: int,
    bin_ns: int,
    bins: int,
    group: ArrayLike | None = None,
    groups: int = 1,
) -> FloatArray:
    """Bytes of each of `bins` bins of `bin_ns` from `origin_ns` on, shape (groups, bins).

    An operation's `nbytes` are spread evenly over [start_ns, end_ns); one without duration, or whose end lies before
    its start, counts in the bin of its start. One that reaches beyond the range is spread over the part inside, one
    wholly outside counts in the first or last bin: the sum over all bins is the sum of `nbytes` (exactly up to 32 TiB,
    then to float rounding). A bin no operation touches is exactly 0, as sums run in fixed point. All columns have n
    rows; `group` (0 ≤ group < groups) is the row of the result, e.g. the rank.

    Time O(n + groups × bins), memory O(groups × bins). Raises ValueError for columns of unequal length, negative bytes
    or a group out of range.
    """
    if bin_ns < 1 or bins < 1 or groups < 1:
        raise ValueError(f"bin_ns, bins and groups must be at least 1, not {bin_ns}, {bins}, {groups}")
    columns = _columns(start_ns, end_ns, nbytes, group)
    if columns.group is not None and columns.top_group >= groups:
        raise ValueError(f"group {columns.top_group} outside 0..{groups - 1}")
    cells = _Cells(groups, bins)
    cells.add(columns, origin_ns, bin_ns, bins)
    cells.settle()
    return cells.whole


@dataclass(frozen=True)
class _Columns:
    """Checked columns of n operations."""

    start: IntArray
    end: IntArray
    size: IntArray
    group: IntArray | None

    @property
    def top_group(self) -> int:
        return int(self.group.max(initial=0)) if self.group is not None else 0


def _columns(start_ns: ArrayLike, end_ns: ArrayLike, nbytes: ArrayLike, group: ArrayLike | None) -> _Columns:
    start, end, size = (np.ascontiguousarray(column, dtype=np.int64) for column in (start_ns, end_ns, nbytes))
    rows = None if group is None else np.ascontiguousarray(group, dtype=np.int64)
    lengths = {len(start), len(end), len(size)} | ({len(rows)} if rows is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"columns of unequal length: {sorted(lengths)}")
    if size.size and int(size.min()) < 0:
        raise ValueError("negative number of bytes")
    if rows is not None and rows.size and int(rows.min()) < 0:
        raise ValueError(f"negative group {int(rows.min())}")
    return _Columns(start, end, size, rows)


class _Cells:
    """Bytes per group and bin: `whole` holds what is settled, `steps` differences (fixed point) of what is not."""

    def __init__(self, groups: int, bins: int) -> None:
        self.whole: FloatArray = np.zeros((groups, bins))
        self.steps: IntArray = np.zeros((groups, bins + 1), np.int64)
        self._stepped = False

    def add(self, columns: _Columns, origin_ns: int, bin_ns: int, bins: int) -> None:
        """Add operations to the first `bins` bins, of which the first begins at `origin_ns`."""
        for at in range(0, len(columns.start), _PIECE):
            piece = slice(at, at + _PIECE)
            rows = None if columns.group is None else columns.group[piece]
            self._add(columns.start[piece], columns.end[piece], columns.size[piece], rows, origin_ns, bin_ns, bins)

    def _add(
        self,
        start: IntArray,
        end: IntArray,
        size: IntArray,
        rows: IntArray | None,
        origin_ns: int,
        bin_ns: int,
        bins: int,
    ) -> None:
        limit = bins * bin_ns
        begin = np.clip(start - origin_ns, 0, limit - 1)
        stop = np.clip(end - origin_ns, 0, limit)
        first = begin // bin_ns
        last = np.maximum((stop - 1) // bin_ns, first)
        long = np.flatnonzero((last > first) & (size < _LARGEST))
        amount = size.astype(np.float64)
        amount[long] = 0.0
        cell = first if rows is None else first + rows * self.whole.shape[1]
        _accumulate(self.whole.reshape(-1), cell, amount)
        if long.size:
            base = 0 if rows is None else rows[long] * self.steps.shape[1]
            _step(self.steps.reshape(-1), begin[long], stop[long], first[long], last[long], size[long], base, bin_ns)
            self._stepped = True

    def settle(self) -> None:
        """Turn the differences into bytes per bin."""
        if self._stepped:
            self.whole += np.ldexp(np.cumsum(self.steps, axis=1)[:, :-1].astype(np.float64), -_FRACTION_BITS)
            self.steps[:] = 0
            self._stepped = False


def _accumulate(cells: FloatArray, index: IntArray, amount: FloatArray) -> None:
    """cells[index] += amount, repeated indices added up. bincount is the faster where the indices lie close."""
    low = int(index.min())
    if int(index.max()) - low < 4 * len(index) + 1024:
        sums = np.bincount(index - low, weights=amount)
        cells[low : low + len(sums)] += sums
    else:
        np.add.at(cells, index, amount)


def _step(
    steps: IntArray,
    begin: IntArray,
    stop: IntArray,
    first: IntArray,
    last: IntArray,
    size: IntArray,
    base: IntArray | int,
    bin_ns: int,
) -> None:
    """Operations over several bins, as differences: an even share to each inner bin, the rest by time to both ends.

    Shares are rounded down in fixed point; what rounding leaves stays with the last bin, so nothing is lost.
    """
    fixed = size << _FRACTION_BITS
    rate = fixed / (stop - begin)
    head = np.minimum((rate * ((first + 1) * bin_ns - begin)).astype(np.int64), fixed)
    inner_bins = last - first - 1
    inner = np.minimum((rate * bin_ns).astype(np.int64), (fixed - head) // np.maximum(inner_bins, 1))
    tail = fixed - head - inner * inner_bins
    near, far = base + first, base + last
    np.add.at(steps, near, head)
    np.add.at(steps, near + 1, inner - head)
    np.add.at(steps, far, tail - inner)
    np.add.at(steps, far + 1, -tail)


class ByteSeries(NamedTuple):
    """Bytes per bin, shape (kinds, groups, bins). Bin i begins at origin_ns + i × bin_ns; empty when nothing came."""

    origin_ns: int
    bin_ns: int
    series: FloatArray


class AdaptiveSeries:
    """Bytes per bin of a stream of operations in any order, of which neither begin nor end nor groups are known.

    Bins start at `bin_ns` (rounded up to a power of two, aligned to the epoch) and double as often as it takes to stay
    within `max_bins`; pairs are then added up, so nothing is lost. `max_cells` bounds kinds × groups × bins: many
    groups get wider bins, down to 64 of them, and only then is it exceeded. A job-wide series that must stay fine is
    kept beside one per rank.
    """

    def __init__(
        self, kinds: int = 2, *, bin_ns: int = 1024, max_bins: int = TARGET_BINS, max_cells: int = 1 << 23
    ) -> None:
        if kinds < 1 or bin_ns < 1 or max_bins < 2:
            raise ValueError(f"kinds {kinds} and bin_ns {bin_ns} must be at least 1, max_bins {max_bins} at least 2")
        self._kinds = kinds
        self._shift = (bin_ns - 1).bit_length()
        self._max_bins = max_bins
        self._max_cells = max_cells
        self._first = 0
        self._bins = 0
        self._groups = 0
        self._room = 0
        self._cells = _Cells(0, 0)

    @property
    def bin_ns(self) -> int:
        """Present bin width in ns."""
        return 1 << self._shift

    def push(
        self, kind: ArrayLike, group: ArrayLike, start_ns: ArrayLike, end_ns: ArrayLike, nbytes: ArrayLike
    ) -> None:
        """Add operations: columns of n rows (see `spread_bytes`); `kind` (below `kinds`) and `group` may be one number.

        Raises ValueError for columns of unequal length, negative bytes, and kinds or groups out of range.
        """
        start = np.ascontiguousarray(start_ns, dtype=np.int64)
        groups, kinds = (np.broadcast_to(np.asarray(column, dtype=np.int64), start.shape) for column in (group, kind))
        if not start.size:
            return
        if int(groups.min()) < 0 or not 0 <= int(kinds.min()) <= int(kinds.max()) < self._kinds:
            raise ValueError(f"a negative group, or a kind outside 0..{self._kinds - 1}")
        end = np.ascontiguousarray(end_ns, dtype=np.int64)
        self._cover(int(start.min()), max(int(start.max()) + 1, int(end.max(initial=0))), int(groups.max()) + 1)
        columns = _columns(start, end, nbytes, kinds * self._room + groups)
        self._cells.add(columns, self._first << self._shift, self.bin_ns, self._bins)

    def build_series(self) -> ByteSeries:
        """What was pushed so far, from the first bin to the last that any operation touched."""
        self._cells.settle()
        return ByteSeries(self._first << self._shift, self.bin_ns, self._held().copy())

    def _held(self) -> FloatArray:
        """View of the settled bytes, shape (kinds, groups, bins)."""
        room = self._cells.whole.reshape(self._kinds, self._room, -1) if self._room else np.zeros((self._kinds, 0, 0))
        return room[:, : self._groups, : self._bins]

    def _cover(self, start_ns: int, end_ns: int, groups: int) -> None:
        """Make room for [start_ns, end_ns) and `groups` groups, doubling the bin width as often as it takes."""
        groups = max(groups, self._groups)
        limit = max(min(self._max_bins, self._max_cells // (groups * self._kinds)), min(64, self._max_bins))
        while True:
            first, last = start_ns >> self._shift, (end_ns - 1) >> self._shift
            if self._bins:
                first, last = min(first, self._first), max(last, self._first + self._bins - 1)
            if last - first < limit:
                break
            self._coalesce()
        self._grow(first, last - first + 1, groups, limit)

    def _coalesce(self) -> None:
        """Double the bin width: bins 2k and 2k + 1 of the epoch's grid become bin k."""
        if self._bins:
            self._cells.settle()
            lead = self._first & 1
            bins = (lead + self._bins + 1) // 2
            padded = np.zeros((self._kinds, self._room, 2 * bins))
            padded[:, : self._groups, lead : lead + self._bins] = self._held()
            self._cells = _Cells(self._kinds * self._room, bins)
            self._cells.whole += padded.reshape(-1, bins, 2).sum(axis=2)
            self._first >>= 1
            self._bins = bins
        self._shift += 1

    def _grow(self, first: int, bins: int, groups: int, limit: int) -> None:
        """Move what is there to its new place, with room ahead: at least double, up to `limit` bins."""
        moved = self._first - first if self._bins else 0
        room_bins = self._cells.whole.shape[1]
        if moved or bins > room_bins or groups > self._room:
            self._cells.settle()
            if bins > room_bins:
                room_bins = max(bins, min(limit, 2 * room_bins))
            room = max(groups, 2 * self._room) if groups > self._room else self._room
            fresh = _Cells(self._kinds * room, room_bins)
            place = fresh.whole.reshape(self._kinds, room, room_bins)
            place[:, : self._groups, moved : moved + self._bins] = self._held()
            self._cells, self._room = fresh, room
        self._first, self._bins, self._groups = first, bins, groups
