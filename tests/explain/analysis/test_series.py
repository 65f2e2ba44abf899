"""Binning: what goes where, nothing lost, silence exactly silent, streams that grow both ways."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.explain.analysis.byte_series import AdaptiveSeries, spread_bytes

EPOCH = 1_700_000_000_000_000_000


def slow_spread(start, end, nbytes, origin, width, bins):
    """The definition, one operation and bin at a time."""
    out = np.zeros(bins)
    for s, e, n in zip(start, end, nbytes, strict=True):
        if e <= s:
            out[min(max((s - origin) // width, 0), bins - 1)] += n
            continue
        for b in range(bins):
            low, high = origin + b * width, origin + (b + 1) * width
            out[b] += n * max(0, min(e, high) - max(s, low)) / (e - s)
    return out


def test_an_operation_is_spread_evenly_over_its_time() -> None:
    out = spread_bytes([5], [35], [300], 0, 10, 5)
    assert out.shape == (1, 5)
    assert out[0] == pytest.approx([50, 100, 100, 50, 0], abs=0.02)


def test_it_is_what_one_operation_at_a_time_gives() -> None:
    rng = np.random.default_rng(7)
    start = rng.integers(0, 900, 400)
    end = np.minimum(start + rng.integers(0, 300, 400), 1000)
    nbytes = rng.integers(0, 10_000, 400)
    out = spread_bytes(start + EPOCH, end + EPOCH, nbytes, EPOCH, 13, 77)[0]
    assert out == pytest.approx(slow_spread(start, end, nbytes, 0, 13, 77), abs=4.0)
    assert out.sum() == nbytes.sum()


def test_ends_on_a_bin_edge_leave_the_next_bin_untouched() -> None:
    assert spread_bytes([0, 10], [10, 20], [7, 9], 0, 10, 3).tolist() == [[7, 9, 0]]


def test_operations_without_duration_count_where_they_start() -> None:
    assert spread_bytes([0, 9, 10, 29], [0, 9, 10, 29], [1, 2, 4, 8], 0, 10, 3).tolist() == [[3, 4, 8]]


def test_an_end_before_the_start_counts_at_the_start() -> None:
    assert spread_bytes([25], [3], [8], 0, 10, 3).tolist() == [[0, 0, 8]]


def test_what_lies_outside_counts_at_the_edges() -> None:
    assert spread_bytes([-50, 990, -10], [-20, 999, 5], [1, 2, 4], 0, 10, 3).tolist() == [[5, 0, 2]]


def test_bins_between_long_operations_are_exactly_zero() -> None:
    rng = np.random.default_rng(3)
    start = rng.integers(0, 1000, 5000)
    out = spread_bytes(
        np.concatenate([start, start + 9000]),
        np.concatenate([start + 777, start + 9777]),
        np.full(10_000, 1_234_567),
        0,
        10,
        1200,
    )[0]
    assert not out[180:900].any()
    assert (out >= 0).all()
    assert out.sum() == 10_000 * 1_234_567


def test_a_long_operation_of_few_bytes_keeps_them() -> None:
    out = spread_bytes([0], [4_000_000], [3], 0, 1000, 4000)[0]
    assert out.sum() == 3
    assert (out >= 0).all()


def test_groups_are_rows() -> None:
    out = spread_bytes([0, 0, 5], [10, 20, 25], [10, 20, 20], 0, 10, 3, group=[2, 0, 2], groups=3)
    assert out.shape == (3, 3)
    assert out.tolist() == [[10, 10, 0], [0, 0, 0], [15, 10, 5]]


def test_more_operations_than_one_piece() -> None:
    count = 150_001
    start = np.arange(count) * 10
    out = spread_bytes(start, start + 10, np.ones(count, int), 0, 1000, 1501)[0]
    assert out[:1500].tolist() == [100.0] * 1500
    assert out.sum() == count


def test_a_damaged_size_does_not_overflow() -> None:
    out = spread_bytes([0], [100], [1 << 60], 0, 10, 10)[0]
    assert out.sum() == float(1 << 60)
    assert (out >= 0).all()


def test_no_operations() -> None:
    assert spread_bytes([], [], [], 0, 10, 3).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        (([0, 1], [1], [1]), {}),
        (([0], [1], [-1]), {}),
        (([0], [1], [1]), {"group": [1], "groups": 1}),
        (([0], [1], [1]), {"group": [-1], "groups": 1}),
        (([0], [1], [1]), {"groups": 0}),
    ],
)
def test_wrong_columns_are_refused(columns, more) -> None:
    with pytest.raises(ValueError):
        spread_bytes(*columns, 0, 10, 3, **more)


def test_a_stream_gives_what_the_whole_gives() -> None:
    rng = np.random.default_rng(1)
    count = 30_000
    start = EPOCH + np.sort(rng.integers(0, 60_000_000_000, count))
    end = start + rng.integers(0, 50_000_000, count)
    nbytes, rank, kind = rng.integers(0, 1 << 20, count), rng.integers(0, 9, count), rng.integers(0, 2, count)
    stream = AdaptiveSeries(max_bins=512)
    for order in np.array_split(rng.permutation(count), 17):
        stream.push(kind[order], rank[order], start[order], end[order], nbytes[order])
    origin, width, series = stream.build_series()
    assert series.shape[:2] == (2, 9)
    assert 256 <= series.shape[2] <= 512
    assert origin % width == 0
    for k in (0, 1):
        mine = kind == k
        whole = spread_bytes(start[mine], end[mine], nbytes[mine], origin, width, series.shape[2], rank[mine], 9)
        assert series[k] == pytest.approx(whole, abs=20.0)
        assert series[k].sum() == nbytes[mine].sum()


def test_a_stream_may_run_backwards_and_meet_new_groups_late() -> None:
    stream = AdaptiveSeries(1, max_bins=64)
    for step in range(1000):
        at = EPOCH - step * 1_000_000
        stream.push(0, step % (1 + step // 100), [at], [at + 10], [1])
    origin, width, series = stream.build_series()
    assert series.shape[:2] == (1, 10)
    assert series.sum() == 1000
    assert origin <= EPOCH - 999_000_000 < origin + width
    assert series[0, :, -1].any()


@pytest.mark.parametrize("step", [1_000_003, -1_000_003])
def test_doubling_keeps_bytes_in_their_place(step: int) -> None:
    """One operation a push: the width doubles many times while data is held."""
    starts = EPOCH + 12_345 + step * np.arange(3000)
    stream = AdaptiveSeries(1, max_bins=100)
    for at in starts.tolist():
        stream.push(0, 0, [at], [at], [1])
    origin, width, series = stream.build_series()
    assert width >= 1 << 24
    assert series[0].tolist() == spread_bytes(starts, starts, np.ones(3000), origin, width, series.shape[2]).tolist()


def test_many_groups_get_wider_bins() -> None:
    stream = AdaptiveSeries(1, max_cells=1 << 16)
    stream.push(
        0, np.arange(512), EPOCH + np.arange(512) * 1_000_000, EPOCH + np.arange(512) * 1_000_000, np.ones(512, int)
    )
    assert stream.build_series().series.shape == (1, 512, pytest.approx(96, abs=33))


def test_a_stream_of_nothing_is_empty() -> None:
    stream = AdaptiveSeries()
    stream.push([], [], [], [], [])
    assert stream.build_series().series.shape == (2, 0, 0)


@pytest.mark.parametrize("call", [(2, 0), (-1, 0), (0, -1)])
def test_a_stream_refuses_unknown_kinds_and_groups(call: tuple[int, int]) -> None:
    with pytest.raises(ValueError):
        AdaptiveSeries().push(*call, [0], [1], [1])
