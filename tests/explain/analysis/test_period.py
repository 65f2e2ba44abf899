"""The period: trains of known period are found, what has none is not."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.explain.analysis.period import find_period

S = 1_000_000_000


def train(
    seed: int,
    bins: int,
    period: float,
    *,
    width: float = 0.15,
    jitter: float = 0.0,
    heights: float = 1.0,
    trend: float = 0.0,
    noise: float = 0.0,
) -> np.ndarray:
    """Bursts every `period` bins; jitter of each start (standard deviation) and width in periods."""
    rng = np.random.default_rng(seed)
    out = np.zeros(bins)
    at = rng.uniform(0.1, 0.4) * period
    while at < bins:
        first = max(0, round(at + rng.normal(0, jitter * period)))
        rate = np.exp(rng.uniform(0, np.log(heights))) * (1 + trend * at / bins)
        out[first : first + max(1, round(width * period))] += 1e6 * rate
        at += period
    return np.rint(out + rng.exponential(noise * 1e6, bins) if noise else out)


@pytest.mark.parametrize("bins", [200, 1000, 4000])
@pytest.mark.parametrize("count", [3, 4, 10, 20])
@pytest.mark.parametrize("width", [0.02, 0.15, 0.5, 0.8])
def test_regular_bursts(bins: int, count: int, width: float) -> None:
    period = bins / (count + 0.4)
    found = find_period(train(1, bins, period, width=width), S)
    assert found is not None
    assert found.period_s == pytest.approx(period, abs=max(1.0, 0.02 * period))
    assert found.confidence >= 0.6
    if count >= 10:
        assert found.confidence >= 0.75


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "more",
    [
        {"jitter": 0.03},
        {"jitter": 0.05},
        {"heights": 10.0},
        {"trend": 3.0},
        {"noise": 0.01},
        {"jitter": 0.03, "heights": 4.0, "noise": 0.005},
    ],
    ids=lambda more: "+".join(more),
)
def test_bursts_that_vary(more: dict[str, float], seed: int) -> None:
    found = find_period(train(seed, 2000, 187.0, **more), S)
    assert found is not None
    assert found.period_s == pytest.approx(187.0, rel=0.05)
    assert found.confidence >= 0.5


@pytest.mark.parametrize("period", [12.0, 40.0, 150.0])
def test_a_swelling_rate_without_phases(period: float) -> None:
    rng = np.random.default_rng(4)
    series = np.maximum(0, 1 + 0.6 * np.sin(2 * np.pi * np.arange(1500) / period) + rng.normal(0, 0.2, 1500)) * 1e6
    found = find_period(np.rint(series), S)
    assert found is not None
    assert found.period_s == pytest.approx(period, rel=0.02)
    assert found.regularity is None
    assert found.method == "autocorrelation"
    assert found.confidence >= 0.5


def test_several_phases_in_a_period() -> None:
    """Three bursts close together, every 400 bins: the period is of the group."""
    series = np.zeros(4096)
    for k in range(100, 4000, 400):
        for f in (0, 40, 80):
            series[k + f : k + f + 10] = 1e6
    found = find_period(series, S)
    assert found is not None
    assert found.period_s == pytest.approx(400, rel=0.02)


def test_a_rhythm_that_holds_only_now_and_then_is_not_sure() -> None:
    """Six bursts 40 bins apart, then silence of uneven length, four times."""
    series = np.zeros(4096)
    for k in (100, 900, 2300, 3500):
        for f in range(0, 240, 40):
            series[k + f : k + f + 4] = 1e6
    found = find_period(series, S)
    assert found is None or found.confidence < 0.6


@pytest.mark.parametrize(("ratio", "period", "other"), [(2, 100, 200), (10, 200, 100)])
def test_large_and_small_bursts_in_turn(ratio: int, period: int, other: int) -> None:
    series = np.zeros(2000)
    for turn, k in enumerate(range(50, 1950, 100)):
        series[k : k + 10] = 1e6 * (ratio if turn % 2 else 1)
    found = find_period(series, S)
    assert found is not None
    assert found.period_s == pytest.approx(period, rel=0.02)
    assert any(candidate.period_s == pytest.approx(other, rel=0.02) for candidate in found.alternatives)


@pytest.mark.parametrize("late", [-20, -5, 0, 5, 20])
def test_three_bursts_of_one_bin(late: int) -> None:
    """The third may come early or late by a fiftieth; the series then holds a little less or more than two periods."""
    series = np.zeros(4096)
    series[[100, 1100, 2100 + late]] = 1e6
    found = find_period(series, S)
    assert found is not None
    assert found.period_s == pytest.approx(1000, rel=0.015)
    assert found.confidence >= 0.5


def test_a_skipped_burst_does_not_hide_the_period() -> None:
    series = train(2, 2000, 100.0)
    series[900:1000] = 0
    found = find_period(series, S)
    assert found is not None
    assert found.period_s == pytest.approx(100, rel=0.02)
    assert found.confidence >= 0.6


def test_confidence_grows_with_the_periods_seen() -> None:
    sure = [find_period(train(0, 120 * count, 120.0), S) for count in (3, 6, 12, 24)]
    values = [found.confidence for found in sure if found is not None]
    assert len(values) == 4
    assert values == sorted(values)


@pytest.mark.parametrize(
    "series",
    [
        [],
        [0] * 100,
        [5],
        [1, 2, 3],
        np.ones(1000),
        np.full(1000, 3),
        np.r_[np.zeros(300), np.ones(50), np.zeros(300)],
        np.r_[np.ones(50), np.zeros(300), np.ones(50)],
        np.arange(1000),
        np.r_[np.zeros(50), np.ones(9)],
    ],
    ids=["empty", "silent", "one bin", "three bins", "constant", "integers", "one burst", "two", "ramp", "short"],
)
def test_what_has_no_period(series: object) -> None:
    assert find_period(np.asarray(series, dtype=np.float64), S) is None


def test_a_changing_pace_is_no_period() -> None:
    series, at, step = np.zeros(3000), 10.0, 20.0
    while at < 2900:
        series[int(at) : int(at) + 8] = 1e6
        at, step = at + step, step * 1.3
    assert find_period(series, S) is None


@pytest.mark.parametrize("kind", ["uniform", "exponential", "walk", "on and off"])
def test_noise_is_not_sure(kind: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        series = {
            "uniform": rng.uniform(0.5, 1.5, 1000),
            "exponential": rng.exponential(1, 1000),
            "walk": np.abs(np.cumsum(rng.normal(0, 1, 1000))),
            "on and off": (rng.random(1000) < 0.3) * 1.0,
        }[kind]
        found = find_period(np.rint(series * 1e6), S)
        assert found is None or found.confidence < 0.5


def test_bursts_at_random_are_rarely_believed() -> None:
    believed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        series = np.zeros(2000)
        for first in rng.integers(0, 1980, int(rng.integers(3, 30))):
            series[first : first + 10] += 1e6
        found = find_period(series, S)
        believed += found is not None and found.confidence >= 0.6
    assert believed <= 5


def test_units_and_fields() -> None:
    series = train(0, 1000, 50.0)
    seconds, tenths = find_period(series, S), find_period(series, S // 10)
    assert seconds is not None
    assert tenths is not None
    assert tenths.period_s == pytest.approx(seconds.period_s / 10)
    assert seconds.periods == pytest.approx(19.3, abs=1)
    assert seconds.method == "spacing of phase starts"
    for value in (seconds.confidence, seconds.correlation, seconds.spectrum, seconds.regularity):
        assert value is not None
        assert 0 <= value <= 1
    assert all(0 <= other.confidence <= 1 for other in seconds.alternatives)
    scaled = find_period(series * 1000, S)
    assert scaled is not None
    assert scaled.period_s == pytest.approx(seconds.period_s)
    assert scaled.confidence == pytest.approx(seconds.confidence)
    assert find_period(series, S) == seconds
