"""I/O phases of a bandwidth series by discrete wavelet transform. Reads and writes are looked at apart, a call each.

Not here: making the series (`series`), whether phases recur (`period`). The law with its limits is explained in
docs/explanation/phases.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.phase import NS_PER_S, Phase
from fairlead.explain.analysis.haar_bursts import (
    STRONG,
    BoolArray,
    FloatArray,
    IntArray,
    compute_burst_background,
    compute_burst_rate,
    compute_haar_approximations,
    cover_burst_windows,
    find_burst_runs,
    mark_bursts,
)

RUN_SHARE = 256
"""Level rule, base: silence that lasts 1/256 of the series parts two phases (level floor(log2(bins / 256)))."""
MIN_PAUSE_NS = 10_000_000
"""Level rule, shortest: silence below 10 ms is latency between requests, whatever the length of the series."""
MIN_LEVEL = 1
"""A single empty bin never parts a phase: where the bin edges fall may have made it."""
CHANCE = 0.05
"""Level rule, chance: silence that pauses like those inside bursts would reach once in twenty such runs is a pause."""
BAND_OCTAVES = 3
"""Level rule, band: pauses are told from gaps where no silence is of a length inside three whole octaves."""
MIN_DUTY = 0.5
"""Bursts are joined over such a band only if the result holds data for at least half of its time."""
WEAK = 1 / 1024
"""Threshold: a window that moves less than this share of the average byte's rate is never part of a phase."""
SMALLEST = 1e-3
"""A phase holds at least this share of the bytes of the largest one; what is smaller counts as outside."""


@dataclass(frozen=True)
class PhaseSplit:
    """Phases of one series, in time order, and what they leave out.

    The bytes of all phases and `outside_bytes` add up to `total_bytes` exactly. `level` is the wavelet level of the
    series' length, `pause_ns` the silence that parts two phases, `floor_bytes_per_s` the rate a bin must exceed to
    count as a burst (0 where the series has no background).
    """

    phases: list[Phase]
    total_bytes: int
    outside_bytes: int
    level: int
    pause_ns: int
    floor_bytes_per_s: float


def find_phases(
    bytes_per_bin: NDArray[Any],
    start_ns: int,
    bin_ns: int,
    *,
    kind: Literal["read", "write"],
    min_pause_ns: int = MIN_PAUSE_NS,
) -> list[Phase]:
    """Phases of one series, in time order; see `split_phases`, which also tells the bytes outside of them."""
    return split_phases(bytes_per_bin, start_ns, bin_ns, kind=kind, min_pause_ns=min_pause_ns).phases


def split_phases(
    bytes_per_bin: NDArray[Any],
    start_ns: int,
    bin_ns: int,
    *,
    kind: Literal["read", "write"],
    min_pause_ns: int = MIN_PAUSE_NS,
) -> PhaseSplit:
    """Part a series (bytes in each bin of `bin_ns`, the first beginning at `start_ns`) into phases and the rest.

    After IOSI (Liu et al., FAST'14) and Beacon (Yang et al., TOS 2023), which find bursts in the discrete wavelet
    transform of a bandwidth series. Wavelet: Haar, undecimated. Level: floor(log2(bins / 256)), at least 1; silence
    that fills a window of it and lasts `min_pause_ns` parts two phases; where the series' own pauses ask for it, only
    longer silence does.
    Threshold: 1/64 of the average byte's rate in such a window, and the background where the series has one; weaker
    bursts, down to 1/1024, count where they are no more numerous than the strong ones.

    Shape (bins,), int64 or float64. An empty or silent series has no phases. Raises ValueError for a series that is
    not one-dimensional, holds a negative or non-finite value, or for `bin_ns` < 1.
    """
    values = np.asarray(bytes_per_bin)
    if values.ndim != 1 or bin_ns < 1:
        raise ValueError(f"expected one series and a bin of at least 1 ns, not shape {values.shape} and {bin_ns} ns")
    rates = values.astype(np.float64)
    if rates.size and not (np.isfinite(rates).all() and float(rates.min()) >= 0.0):
        raise ValueError("a series of bytes holds a negative or non-finite value")
    level = choose_phase_base_level(len(values))
    if not rates.any():
        return PhaseSplit([], 0, 0, level, max(bin_ns << level, min_pause_ns), 0.0)
    sums = np.zeros(len(values) + 1, np.int64)
    if values.dtype.kind in "iu":
        np.cumsum(values, out=sums[1:])
    else:
        sums[1:] = np.rint(np.cumsum(rates))
    means = compute_haar_approximations(rates, level)
    thresholds = compute_burst_background(means)
    shortest = max(1 << level, -(-min_pause_ns // bin_ns))
    found, pause = _select(mark_bursts(means, thresholds), means, sums, shortest)
    phases = [
        _phase(kind, start_ns, bin_ns, sums, rates, first, last)
        for first, last in zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    ]
    total = int(sums[-1])
    floor = thresholds[0] / bin_ns * NS_PER_S if thresholds else 0.0
    return PhaseSplit(phases, total, total - sum(p.bytes for p in phases), level, pause * bin_ns, floor)


def choose_phase_base_level(bins: int) -> int:
    """The base level: a window of it spans at most 1/256 of the series, at least 2 bins, never more than all of it."""
    wanted = max(MIN_LEVEL, (bins // RUN_SHARE).bit_length() - 1)
    return min(wanted, max(bins, 1).bit_length() - 1)


class _Spans(NamedTuple):
    """Stretches of bins: begin, end (exclusive), and the bins in each that belong to bursts."""

    starts: IntArray
    ends: IntArray
    active: IntArray

    def at(self, keep: BoolArray) -> _Spans:
        return _Spans(self.starts[keep], self.ends[keep], self.active[keep])

    @property
    def silences(self) -> IntArray:
        """Bins between each and the next."""
        return self.starts[1:] - self.ends[:-1]

    def joined(self, first: BoolArray) -> _Spans:
        """Each that is not a `first` becomes part of the one before it."""
        begin = np.flatnonzero(first)
        stop = np.append(begin[1:], len(first))
        held = np.concatenate([[0], np.cumsum(self.active)])
        return _Spans(self.starts[begin], self.ends[stop - 1], held[stop] - held[begin])


def _select(bursts: BoolArray, means: list[FloatArray], sums: IntArray, shortest: int) -> tuple[_Spans, int]:
    """Strong bursts joined to phases, then the weak ones beside them. Returns the pause limit too, in bins."""
    top, bins = means[-1], len(bursts)
    window = 1 << (len(means) - 1)
    rate = compute_burst_rate(top)
    strong, pause = _join(
        _touched(bursts, cover_burst_windows(top >= STRONG * rate, window, bins)), sums, shortest, 0.0
    )
    near = np.zeros(bins, bool)
    for first, last in zip(strong.starts.tolist(), strong.ends.tolist(), strict=True):
        near[max(0, first - pause + 1) : last + pause - 1] = True
    apart = _touched(bursts, cover_burst_windows(top >= WEAK * rate, window, bins))
    beside = np.concatenate([[0], np.cumsum(near)])
    apart = apart.at(2 * (beside[apart.ends] - beside[apart.starts]) < apart.active)
    largest = float((sums[strong.ends] - sums[strong.starts]).max(initial=0))
    weak, _ = _join(apart, sums, pause, largest)
    if not len(weak.starts) or len(weak.starts) > len(strong.starts):
        return strong, pause
    both = _Spans(*(np.concatenate(pair) for pair in zip(strong, weak, strict=True)))
    return both.at(np.argsort(both.starts)), pause  # type: ignore[arg-type]


def _touched(bursts: BoolArray, windows: BoolArray) -> _Spans:
    """Unbroken runs of burst bins of which at least one lies in a marked window."""
    starts, ends = find_burst_runs(bursts)
    marked = np.concatenate([[0], np.cumsum(windows & bursts)])
    return _Spans(starts, ends, ends - starts).at(marked[ends] > marked[starts])


def _join(pieces: _Spans, sums: IntArray, shortest: int, largest: float) -> tuple[_Spans, int]:
    """Bursts to phases: join over pauses, drop what is too small, join over a clear band, cut thin ends."""
    if not len(pieces.starts):
        return pieces, shortest
    pause = _chance(pieces.silences, shortest)
    spans = pieces.joined(np.concatenate([[True], pieces.silences >= pause]))
    volume = sums[spans.ends] - sums[spans.starts]
    spans = spans.at(volume >= max(SMALLEST * max(largest, float(volume.max())), 1.0))
    band = _band(spans.silences)
    if band is not None:
        wide = spans.silences > band
        first = np.concatenate([[True], wide])
        merged = spans.joined(first)
        dense = merged.active >= MIN_DUTY * (merged.ends - merged.starts)
        counts = np.diff(np.append(np.flatnonzero(first), len(first)))
        spans = spans.joined(first | ~np.repeat(dense, counts))
        pause = max(pause, band + 1 if (dense & (counts > 1)).any() else 0)
    return _cut(spans, pieces, sums), pause


def _chance(silences: IntArray, shortest: int) -> int:
    """Silence in bins that parts two phases: `shortest`, or more where pauses inside bursts are common, the known ones
    would reach that far by chance (their lengths taken as geometric), and the lengths do so without a break."""
    lengths = np.sort(silences)
    inside = int(np.searchsorted(lengths, shortest))
    while 3 * inside >= len(lengths) > inside:
        reach = float(lengths[:inside].mean()) * math.log(inside / CHANCE)
        following = int(lengths[inside])
        if following > min(reach, 2 * int(lengths[inside - 1])):
            break
        inside = int(np.searchsorted(lengths, following, side="right"))
    return max(shortest, int(lengths[inside - 1]) + 1 if inside else 0)


def _band(gaps: IntArray) -> int | None:
    """The longest gap below the first empty band of `BAND_OCTAVES` octaves, None when there is no such band."""
    lengths = np.unique(gaps)
    wide = np.flatnonzero(lengths[1:] >= lengths[:-1] << BAND_OCTAVES)
    return int(lengths[wide[0]]) if len(wide) else None


def _cut(spans: _Spans, pieces: _Spans, sums: IntArray) -> _Spans:
    """Move edges inward past end pieces that, with the silence beside them, move less than STRONG of the phase's rate:
    log lines near a burst are not part of it."""
    starts, ends = spans.starts.copy(), spans.ends.copy()
    for i, (first, last) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        inside = slice(*np.searchsorted(pieces.starts, (first, last)).tolist())
        begin, end = pieces.starts[inside], pieces.ends[inside]
        slowest = STRONG * (sums[last] - sums[first]) / (last - first)
        # From each edge: bytes up to every piece that could be the first (or last) one, against the time up to it.
        thin = sums[begin] - sums[first] < slowest * (begin - first)
        starts[i] = begin[np.flatnonzero(thin)[-1]] if thin.any() else first
        thin = sums[last] - sums[end] < slowest * (last - end)
        ends[i] = end[np.flatnonzero(thin)[0]] if thin.any() else last
    return _Spans(starts, ends, spans.active)


def _phase(
    kind: Literal["read", "write"], start_ns: int, bin_ns: int, sums: IntArray, rates: FloatArray, first: int, last: int
) -> Phase:
    nbytes = int(sums[last] - sums[first])
    return Phase(
        kind=kind,
        start_ns=start_ns + first * bin_ns,
        end_ns=start_ns + last * bin_ns,
        bytes=nbytes,
        bandwidth_bytes_per_s=nbytes * NS_PER_S / ((last - first) * bin_ns),
        active_ns=int(np.count_nonzero(rates[first:last])) * bin_ns,
    )
