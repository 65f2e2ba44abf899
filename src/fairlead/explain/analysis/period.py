"""The dominant period of a bandwidth series and how sure it is: autocorrelation, spectrum and phase starts must agree.

Not here: the phases themselves (`phases`). Only NumPy's FFT is used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.phase import NS_PER_S
from fairlead.explain.analysis.phases import find_phases

MIN_PERIODS = 1.8
"""A series holds at least this many periods from its first byte to its last: three bursts, two spacings of which may be
a little less than two periods."""
MIN_CONFIDENCE = 0.3
"""What is less sure is not reported."""
SMOOTHING = 0.1
"""Standard deviation of the smoothing before a lag is judged, in periods: jitter below it is mostly forgiven."""
FUNDAMENTAL = 0.8
"""The shortest period whose confidence reaches this share of the best is taken: its multiples correlate as well."""
FEW_PERIODS = 0.5
"""Confidence is lowered by this over the number of periods seen: two are hardly a pattern yet."""
REGULAR = 0.5
"""From this regularity on the period is the mean spacing of the phase starts, which is finer than a lag."""
ALTERNATIVES = 3
_CANDIDATES = 8

FloatArray = NDArray[np.float64]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Another period that was considered, and how sure it would be."""

    period_s: float
    confidence: float


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """The dominant period of a series.

    `confidence` in [0, 1] is the geometric mean of the evidence, each in [0, 1]: `correlation` of the series with
    itself a period later; `spectrum`, the share of its power at the period's frequency and multiples, beyond what
    chance puts there; `regularity` of the phase starts. Where that is None (fewer than three phases), the share of the
    variation that is left at the scale of the period stands in for it. It is lowered where few `periods` were seen. At
    0.6 and above a period can be relied on, below that it is a hint.
    """

    period_s: float
    confidence: float
    periods: float
    correlation: float
    spectrum: float
    regularity: float | None
    method: str
    alternatives: list[Candidate] = []


class _Trial(NamedTuple):
    """One candidate, in bins."""

    period: float
    confidence: float
    correlation: float
    spectrum: float
    regularity: float | None
    from_starts: bool


def find_period(bytes_per_bin: NDArray[Any], bin_ns: int) -> Period | None:
    """The dominant period of a series of bytes in bins of `bin_ns`, shape (bins,), or None where it has none.

    In the line of FTIO (Tarraf et al., IPDPS'24), where the spectrum proposes and the autocorrelation confirms, but the
    other way round: peaks of the autocorrelation, each lag on a series smoothed to its own scale, are the candidates;
    the spectrum and the starts of the phases confirm. One burst, two bursts, noise and a changing pace give None or a
    low confidence. Raises ValueError as `find_phases` does.
    """
    values = np.asarray(bytes_per_bin)
    phases = find_phases(values, 0, bin_ns, kind="read")
    busy = np.flatnonzero(values)
    if not len(busy) or busy[-1] - busy[0] < 8:
        return None
    series = _level(np.sqrt(values[busy[0] : busy[-1] + 1].astype(np.float64)))
    if float(np.dot(series, series)) <= 1e-9 * float(values.max()) * len(series):
        return None
    power = np.abs(np.fft.rfft(series)) ** 2
    starts = np.array([phase.start_ns / bin_ns for phase in phases])
    trials = [_judge(series, power, starts, lag, value) for lag, value in _peaks(series)]
    sure = [trial for trial in trials if trial.confidence >= MIN_CONFIDENCE]
    if not sure:
        return None
    best = max(trial.confidence for trial in sure)
    chosen = min((t for t in sure if t.confidence >= FUNDAMENTAL * best), key=lambda t: t.period)
    others = sorted((t for t in sure if t is not chosen), key=lambda t: (-t.confidence, t.period))[:ALTERNATIVES]
    seconds = bin_ns / NS_PER_S
    return Period(
        period_s=chosen.period * seconds,
        confidence=chosen.confidence,
        periods=len(series) / chosen.period,
        correlation=chosen.correlation,
        spectrum=chosen.spectrum,
        regularity=chosen.regularity,
        method="spacing of phase starts" if chosen.from_starts else "autocorrelation",
        alternatives=[Candidate(period_s=t.period * seconds, confidence=t.confidence) for t in others],
    )


def _level(series: FloatArray) -> FloatArray:
    """Without its mean and linear trend."""
    time = np.arange(len(series)) - (len(series) - 1) / 2
    centred: FloatArray = series - series.mean()
    slope = float(np.dot(time, centred) / np.dot(time, time))
    return centred - time * slope


def _peaks(series: FloatArray) -> list[tuple[float, float]]:
    """Candidates (lag in bins, correlation there), the best correlated first.

    Octave by octave of the lag, on the series smoothed for it: one smoothing would blur short periods or leave the
    jitter of long ones.
    """
    bins = len(series)
    longest = int(bins / MIN_PERIODS)
    size = 1 << (2 * bins - 1).bit_length()
    spectrum, frequency = np.fft.rfft(series, size), np.arange(size // 2 + 1) / size
    found: list[tuple[float, float]] = []
    low = 2
    while low <= longest:
        high = min(2 * low, longest + 1)
        width = SMOOTHING * np.sqrt(2.0) * low
        smooth = np.fft.irfft(spectrum * np.exp(-2.0 * (np.pi * frequency * width) ** 2), size)[:bins]
        found += _octave(smooth, size, low, high)
        low = high if high <= longest else longest + 1
    return sorted(found, key=lambda peak: (-peak[1], peak[0]))[:_CANDIDATES]


def _octave(smooth: FloatArray, size: int, low: int, high: int) -> list[tuple[float, float]]:
    """Peaks of the autocorrelation at lags low ≤ k < high, each lag normed by the part that overlaps."""
    bins = len(smooth)
    smooth = smooth - smooth.mean()
    raw = np.fft.irfft(np.abs(np.fft.rfft(smooth, size)) ** 2, size)[: high + 1]
    energy = np.concatenate([[0.0], np.cumsum(smooth * smooth)])
    lags = np.arange(high + 1)
    norm = np.sqrt(energy[bins - lags] * (energy[bins] - energy[lags]))
    correlation = np.where(norm > 1e-9 * energy[bins], raw / np.maximum(norm, 1e-300), 0.0)
    before, here, after = correlation[low - 1 : high - 1], correlation[low:high], correlation[low + 1 : high + 1]
    peaks = np.flatnonzero((here > before) & (here >= after) & (here > 0.0))
    bend = before[peaks] - 2.0 * here[peaks] + after[peaks]
    shift = 0.5 * (before[peaks] - after[peaks]) / np.where(bend < 0.0, bend, -1.0)
    return [(float(low + k + s), min(1.0, float(here[k]))) for k, s in zip(peaks.tolist(), shift.tolist(), strict=True)]


def _judge(series: FloatArray, power: FloatArray, starts: FloatArray, lag: float, correlation: float) -> _Trial:
    """Weigh the evidence for a period of `lag` bins."""
    bins = len(series)
    spectrum, left = _comb(power, bins, lag)
    regularity, refined = _regularity(starts, lag)
    if regularity is None:
        evidence = float(np.sqrt(correlation * spectrum * left))
    else:
        evidence = float(np.cbrt(correlation * spectrum * regularity))
    from_starts = regularity is not None and regularity >= REGULAR
    period = refined if from_starts else lag
    confidence = max(0.0, evidence * (1.0 - FEW_PERIODS * period / bins))
    return _Trial(period, confidence, correlation, spectrum, regularity, from_starts)


def _comb(power: FloatArray, bins: int, period: float) -> tuple[float, float]:
    """Share of the smoothed power within one line of a multiple of 1 / period, beyond what chance puts there, and the
    share of all power that the smoothing leaves."""
    cycles = np.arange(1, len(power)) * (period / bins)
    weight = np.exp(-4.0 * (np.pi * SMOOTHING * cycles) ** 2)
    multiple = np.round(cycles)
    near = (np.abs(cycles - multiple) <= period / bins) & (multiple >= 1)
    smooth = power[1:] * weight
    total = float(smooth.sum())
    by_chance = float(weight[near].sum() / weight.sum())
    if total <= 0.0 or by_chance >= 1.0:
        return 0.0, 0.0
    share = (float(smooth[near].sum()) / total - by_chance) / (1.0 - by_chance)
    return min(1.0, max(0.0, share)), total / float(power[1:].sum())


def _regularity(starts: FloatArray, period: float) -> tuple[float | None, float]:
    """How evenly the phases start, 1 on the dot, 0 as at random, and the mean time from a start to its next one.

    For every start there should be another a period later; None for fewer than three phases.
    Several phases in a period are measured against how close chance would bring one of them.
    """
    span = float(starts[-1] - starts[0]) if len(starts) > 2 else 0.0
    if span < period:
        return None, period
    expected = starts[starts + period <= starts[-1] + period / 2] + period
    after = np.clip(np.searchsorted(starts, expected), 1, len(starts) - 1)
    nearer = np.where(expected - starts[after - 1] < starts[after] - expected, after - 1, after)
    off = starts[nearer] - expected
    by_chance = 0.25 / max(1.0, (len(starts) - 1) * period / span) * period
    even = 1.0 - float(np.mean(np.minimum(np.abs(off), by_chance))) / by_chance
    close = np.abs(off) < by_chance
    refined = period + float(off[close].mean()) if close.any() else period
    return even, refined
