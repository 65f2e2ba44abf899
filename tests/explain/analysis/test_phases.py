"""Phases: each clause of the law of docs/explanation/phases.md on a series made for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fairlead.explain.analysis.haar_bursts import compute_haar_approximations
from fairlead.explain.analysis.phases import choose_phase_base_level, find_phases, split_phases

BIN = 100_000_000
START = 1_700_000_000_000_000_000


def edges(series, **more) -> list[tuple[int, int]]:
    """Phases as bins; checks on the way that no byte is lost."""
    values = np.asarray(series)
    split = split_phases(values, START, BIN, kind="write", **more)
    assert split.total_bytes == int(np.rint(values.sum()))
    assert sum(p.bytes for p in split.phases) + split.outside_bytes == split.total_bytes
    return [((p.start_ns - START) // BIN, (p.end_ns - START) // BIN) for p in split.phases]


def blocks(bins: int, *spans: tuple[int, int, float]) -> np.ndarray:
    out = np.zeros(bins)
    for first, last, rate in spans:
        out[first:last] += rate
    return out


def test_a_phase_says_what_it_is() -> None:
    series = blocks(1000, (100, 110, 50), (111, 120, 50), (500, 501, 7))
    first, second = find_phases(series, START, BIN, kind="read")
    assert (first.kind, first.bytes) == ("read", 950)
    assert (first.start_ns, first.end_ns) == (START + 100 * BIN, START + 120 * BIN)
    assert first.bandwidth_bytes_per_s == pytest.approx(950 / 2.0)
    assert first.active_ns == 19 * BIN
    assert first.duration_s == pytest.approx(2.0)
    assert (second.bytes, second.active_ns) == (7, BIN)


@pytest.mark.parametrize("series", [[], [0], [0] * 500])
def test_silence_has_no_phases(series: list[int]) -> None:
    assert edges(np.array(series, np.int64)) == []


@pytest.mark.parametrize(
    ("series", "found"),
    [([5], [(0, 1)]), ([5, 0], [(0, 1)]), ([0, 5], [(1, 2)]), ([5, 0, 5], [(0, 3)]), ([5, 0, 0, 5], [(0, 1), (3, 4)])],
)
def test_series_of_a_few_bins(series: list[int], found: list[tuple[int, int]]) -> None:
    assert edges(series) == found


@pytest.mark.parametrize("bins", [50, 100, 200, 1000, 4096])
@pytest.mark.parametrize("shape", ["constant", "uniform", "exponential", "lognormal", "heavy", "requests"])
def test_a_run_that_never_stops_is_one_phase(bins: int, shape: str) -> None:
    rng = np.random.default_rng(bins)
    series = {
        "constant": np.full(bins, 1000.0),
        "uniform": rng.uniform(500, 1500, bins),
        "exponential": rng.exponential(1000, bins) + 1,
        "lognormal": rng.lognormal(7, 1, bins),
        "heavy": rng.lognormal(7, 2, bins),
        "requests": rng.poisson(3, bins) * 1000.0,
    }[shape]
    found = edges(series)
    assert len(found) == 1
    assert found[0][1] - found[0][0] > 0.95 * bins - 3


def test_sparse_requests_without_rhythm_are_one_phase() -> None:
    """One request in eight bins, at random: no gap stands out of the others."""
    assert len(edges(np.random.default_rng(5).poisson(0.125, 4096) * 4096.0)) == 1


@pytest.mark.parametrize(
    ("bins", "level"), [(0, 0), (1, 0), (2, 1), (100, 1), (1023, 1), (1024, 2), (4096, 4), (1 << 20, 12)]
)
def test_the_level_follows_the_length(bins: int, level: int) -> None:
    assert choose_phase_base_level(bins) == level


def test_silence_parts_phases_when_it_fills_a_window() -> None:
    third = (1300, 1310, 9)
    assert edges(blocks(4096, (1000, 1100, 9), (1115, 1200, 9), third)) == [(1000, 1200), (1300, 1310)]
    assert edges(blocks(4096, (1000, 1100, 9), (1116, 1200, 9), third))[:2] == [(1000, 1100), (1116, 1200)]


def test_latency_between_requests_parts_nothing() -> None:
    series = np.tile([8.0, 0, 0, 0, 0], 300)
    assert len(find_phases(series, 0, 1_000_000, kind="write")) == 1
    assert len(find_phases(series, 0, 1_000_000, kind="write", min_pause_ns=0)) == 300


def test_regular_phases_with_short_gaps_stay_apart() -> None:
    assert len(edges(np.tile([100.0] * 36 + [0.0] * 4, 50))) == 50
    assert edges(blocks(4096, *((k, k + 1, 5) for k in range(0, 4096, 20)))) == [(k, k + 1) for k in range(0, 4096, 20)]


def test_pauses_are_told_from_gaps_by_the_band_between_them() -> None:
    """Checkpoints of four files each: 30 bins of writing, 20 of pause; 500 bins of computing between checkpoints."""
    spans = [(k + f, k + f + 30, 100.0) for k in range(0, 4096, 680) for f in range(0, 200, 50)]
    series = blocks(4300, *spans)
    assert edges(series) == [(k, k + 180) for k in range(0, 4096, 680)]


def test_bursts_far_apart_for_their_length_are_not_joined() -> None:
    spans = [(k + f, k + f + 5, 100.0) for k in range(0, 4000, 1000) for f in range(0, 200, 50)]
    assert len(edges(blocks(4096, *spans))) == 16


@pytest.mark.parametrize("share", [1e-6, 1e-4, 1e-2, 0.05])
def test_a_steady_floor_is_no_phase_and_joins_none(share: float) -> None:
    rng = np.random.default_rng(2)
    floor = rng.uniform(0.5, 1.0, 2000) * share * 1e6
    series = np.rint(blocks(2000, (300, 350, 1e6), (900, 960, 1e6), (1400, 1401, 1e6)) + floor)
    assert edges(series) == [(300, 350), (900, 960), (1400, 1401)]
    split = split_phases(series, START, BIN, kind="write")
    assert split.outside_bytes == int(
        series[:300].sum() + series[350:900].sum() + series[960:1400].sum() + series[1401:].sum()
    )
    assert split.floor_bytes_per_s > share * 1e6 / (BIN / 1e9)


@pytest.mark.parametrize("every", [2, 7, 40])
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_log_lines_are_no_phases_and_move_no_edges(every: int, size: float) -> None:
    series = blocks(4000, (300, 350, 1e6), (900, 960, 1e6), (2400, 2420, 1e6))
    series[::every] += size
    found = edges(series)
    assert len(found) == 3
    assert np.abs(np.array(found) - [(300, 350), (900, 960), (2400, 2420)]).max() <= 1


def test_a_base_load_is_io_not_background() -> None:
    assert edges(blocks(2000, (0, 2000, 200), (500, 600, 800))) == [(0, 2000)]


def test_bursts_of_very_different_size() -> None:
    assert len(edges(blocks(4096, (100, 101, 1000), (2000, 2001, 1), (3000, 3001, 1000)))) == 3
    assert edges(blocks(4096, (100, 200, 1e6), (2000, 2100, 1e3), (3000, 3100, 1e6)))[1] == (2000, 2100)
    assert len(edges(blocks(4096, (100, 200, 1e6), (2000, 2100, 9e2), (3000, 3100, 1e6)))) == 2


def test_a_slow_phase_after_fast_bursts_is_a_phase() -> None:
    series = blocks(4096, (100, 140, 1e6), (400, 440, 1e6), (1000, 3000, 5e3))
    assert edges(series) == [(100, 140), (400, 440), (1000, 3000)]


def test_small_bursts_that_outnumber_the_large_are_background() -> None:
    small = [(k, k + 1, 2e4) for k in range(600, 4000, 150)]
    assert edges(blocks(4096, (100, 200, 1e6), *small)) == [(100, 200)]


def test_few_small_bursts_are_phases_only_if_no_more_than_the_large() -> None:
    large = [(100, 200, 1e6), (2000, 2100, 1e6)]
    small = [(k, k + 20, 1e4) for k in (600, 1000, 2600, 3000)]
    assert len(edges(blocks(4096, *large, *small[:2]))) == 4
    assert edges(blocks(4096, *large, *small)) == [(100, 200), (2000, 2100)]


def test_many_bursts_of_a_thirtieth_are_phases() -> None:
    small = [(k, k + 20, 1e6 / 30) for k in range(400, 1900, 100)]
    assert len(edges(blocks(4096, (100, 200, 1e6), (2000, 2100, 1e6), *small))) == 17


def test_a_stray_line_near_a_burst_moves_no_edge() -> None:
    series = blocks(4096, (1000, 1100, 1e6), (2000, 2100, 1e6), (1108, 1109, 1e3), (1990, 1991, 1e3))
    assert edges(series) == [(1000, 1100), (2000, 2100)]


def test_shifting_the_series_shifts_the_phases() -> None:
    series = blocks(3000, (1000, 1033, 10), (1100, 1101, 30), (1500, 1777, 5), (1790, 1800, 5))
    base = edges(series)
    for shift in (1, 2, 3, 7, 500):
        assert edges(np.roll(series, shift)) == [(a + shift, b + shift) for a, b in base]


def test_scaling_the_series_changes_only_the_bytes() -> None:
    series = blocks(3000, (1000, 1033, 10), (1100, 1101, 30), (1500, 1777, 5), (1790, 1800, 5)) + 0.0
    assert edges(series * 1000) == edges(series)


def test_large_volumes_are_exact() -> None:
    series = np.zeros(1000, np.int64)
    series[[10, 500]] = [(1 << 60) + 1, (1 << 60) + 3]
    assert [p.bytes for p in find_phases(series, 0, BIN, kind="write")] == [(1 << 60) + 1, (1 << 60) + 3]


@pytest.mark.parametrize(
    "series", [np.ones((2, 2)), np.array([1.0, -1.0]), np.array([1.0, np.nan]), np.array([np.inf])]
)
def test_what_is_no_series_is_refused(series: np.ndarray) -> None:
    with pytest.raises(ValueError):
        find_phases(series, 0, BIN, kind="read")


def test_a_bin_must_have_a_width() -> None:
    with pytest.raises(ValueError):
        find_phases(np.ones(3), 0, 0, kind="read")


def test_approximations_are_means_of_windows() -> None:
    rng = np.random.default_rng(0)
    for bins in (16, 33, 100):
        series = rng.exponential(1.0, bins)
        for level, mean in enumerate(compute_haar_approximations(series, 4)):
            assert mean == pytest.approx(np.convolve(series, np.full(1 << level, 0.5**level), "valid"))


def test_neither_phases_nor_period_import_scipy() -> None:
    code = (
        "import sys, numpy as np\n"
        "import fairlead.explain.analysis.phases, fairlead.explain.analysis.period\n"
        "import fairlead.explain.analysis.byte_series\n"
        "assert 'pywt' not in sys.modules\n"
        "fairlead.explain.analysis.period.find_period(np.tile([9.0, 0, 0, 0, 0, 0, 0, 0], 50), 10**9)\n"
        "assert 'pywt' in sys.modules\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('scipy', 'sklearn', 'numba', 'pandas')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
