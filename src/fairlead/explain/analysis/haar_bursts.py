"""Which bins of a bandwidth series belong to bursts: Haar approximations against the background of the series.

Not here: which bursts make a phase (`phases`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

WAVELET = "haar"
"""Its approximation at level j is the mean over 2^j bins: never negative, exactly 0 over silence, no ringing."""
FLOOR_SHARE = 0.1
"""A steady background runs at most at this share of the rate at which the average byte moves."""
STRONG = 1 / 64
"""A strong window moves at least this share of the average byte's rate; scattered background never fills one."""
FLOOR_MARGIN = 1.5
"""A burst exceeds the largest value of the background by this factor, or lies beyond a clear jump above it ..."""
FLOOR_JUMP = 2.0
"""... that is a ratio of at least this between neighbours among the sorted values."""
FLOOR_BYTES = 0.5
"""A floor holds at most half of all bytes: else it is the run's I/O."""
SCATTERED = 2
"""Small pieces are background where they are more than this many times as numerous as the strong stretches."""

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def compute_haar_approximations(series: FloatArray, level: int) -> list[FloatArray]:
    """Haar approximations at levels 0 to `level`, undecimated: item j has at i the mean over bins [i, i + 2^j).

    Item j has shape (bins - 2^j + 1,); `level` is at most log2(bins). The undecimated transform has a coefficient at
    every bin, so shifting the series shifts the result.
    """
    if level == 0:
        return [series]
    import pywt

    width = 1 << level
    padded = np.zeros(-(-(len(series) + width) // width) * width)
    padded[: len(series)] = series
    coefficients = pywt.swt(padded, WAVELET, level=level)
    out = [series]
    for j, (approximation, _) in enumerate(reversed(coefficients), start=1):
        out.append(approximation[: len(series) - (1 << j) + 1] * 2.0 ** (-j / 2))
    return out


def compute_burst_rate(mean: FloatArray) -> float:
    """The rate at which the average byte moves: the mean of the windows' rates weighted by their bytes."""
    weight = float(mean.sum())
    return float(np.dot(mean, mean)) / weight if weight else 0.0


def compute_burst_background(means: list[FloatArray]) -> list[float]:
    """What a window must exceed at each level to be no background; empty where silence lies between the bursts.

    Item 0 is the threshold of single bins, and the only one where the background is scattered (log lines).
    """
    return _steady(means) or _scattered(means)


def _steady(means: list[FloatArray]) -> list[float]:
    """Thresholds of a floor that runs on between the bursts, set apart from them by a jump in the values.

    One that no jump sets apart is taken for a floor only where its low values lie together: rates often vary widely,
    bin by bin, without being two things.
    """
    rates = means[0]
    quiet = rates <= FLOOR_SHARE * compute_burst_rate(rates)
    if not quiet.any() or quiet.all():
        return []
    nearest = float(rates[~quiet].min())
    top, threshold, clear = _jump(np.append(rates[quiet], nearest))
    if not clear:
        top, threshold, _ = _jump(rates[quiet])
    quiet &= rates <= top
    if not _everywhere(rates, quiet):
        return []
    if float(rates[quiet].sum()) > FLOOR_BYTES * float(rates.sum()):
        return []
    if not clear and not _together(quiet):
        return []
    wider = [mean[_mark_full_windows(quiet, 2 << level)] for level, mean in enumerate(means[1:])]
    return [threshold, *(FLOOR_MARGIN * float(part.max(initial=top)) for part in wider)]


def _everywhere(rates: FloatArray, quiet: BoolArray) -> bool:
    """Whether the quiet part carries data in most bins, and so in most of its stretches between bursts."""
    starts, ends = find_burst_runs(quiet)
    if not len(starts):
        return False
    busy = np.concatenate([[0], np.cumsum((rates > 0.0) & quiet)])
    shares = (busy[ends] - busy[starts]) / (ends - starts)
    return bool(2 * busy[-1] >= np.count_nonzero(quiet) and 2 * np.count_nonzero(shares >= 0.5) > len(shares))


def _together(quiet: BoolArray) -> bool:
    """Whether the quiet bins form at most half as many stretches as if each bin were quiet by chance."""
    share = np.count_nonzero(quiet) / len(quiet)
    return bool(len(find_burst_runs(quiet)[0]) <= 0.5 * share * (1.0 - share) * len(quiet))


def _scattered(means: list[FloatArray]) -> list[float]:
    """Threshold of single bins where pieces far from strong windows are too many to be phases."""
    rates, top = means[0], means[-1]
    strong = cover_burst_windows(top >= STRONG * compute_burst_rate(top), 1 << (len(means) - 1), len(rates))
    starts, ends = find_burst_runs((rates > 0.0) & ~strong)
    if len(starts) <= SCATTERED * len(find_burst_runs(strong)[0]):
        return []
    peaks = np.maximum.reduceat(np.append(rates, 0.0), np.stack([starts, ends], axis=1).ravel())[::2]
    return [min(_jump(peaks)[1], FLOOR_SHARE * compute_burst_rate(rates))]


def _jump(values: FloatArray) -> tuple[float, float, bool]:
    """Largest value of the lower class, the threshold above it, and whether a jump parts it from the upper class.

    The classes part at the widest ratio between neighbours above the median, where it is wide enough; else all is one.
    """
    ranked = np.sort(values)
    upper = ranked[len(ranked) // 2 :]
    if not len(upper) or upper[0] <= 0.0:
        return 0.0, 0.0, False
    ratios = upper[1:] / upper[:-1]
    place = int(np.argmax(ratios)) if len(ratios) else 0
    if len(ratios) and ratios[place] >= FLOOR_JUMP:
        low, high = float(upper[place]), float(upper[place + 1])
        return low, min(FLOOR_MARGIN * low, math.sqrt(low * high)), True
    return float(upper[-1]), FLOOR_MARGIN * float(upper[-1]), False


def mark_bursts(means: list[FloatArray], thresholds: list[float]) -> BoolArray:
    """Bins that stand out of the background, fine before coarse: a wider window counts where no finer one in it did."""
    rates = means[0]
    bursts: BoolArray = rates > (thresholds[0] if thresholds else 0.0)
    for level in range(1, len(thresholds)):
        width = 1 << level
        found = (means[level] > thresholds[level]) & _mark_full_windows(~bursts, width)
        bursts |= cover_burst_windows(found, width, len(rates)) & (rates > 0.0)
    return bursts


def find_burst_runs(mask: BoolArray) -> tuple[IntArray, IntArray]:
    """Begin and end (exclusive) of each run of true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2].astype(np.int64), edges[1::2].astype(np.int64)


def cover_burst_windows(windows: BoolArray, width: int, bins: int) -> BoolArray:
    """Bins that lie in a marked window [i, i + width)."""
    if width == 1:
        return windows
    steps = np.zeros(bins + 1, np.int64)
    steps[: len(windows)] += windows
    steps[width : width + len(windows)] -= windows
    return np.asarray(np.cumsum(steps)[:bins] > 0)


def _mark_full_windows(mask: BoolArray, width: int) -> BoolArray:
    """Windows [i, i + width) that are true throughout."""
    if width == 1:
        return mask
    sums = np.concatenate([[0], np.cumsum(mask)])
    return np.asarray(sums[width:] - sums[:-width] == width)
