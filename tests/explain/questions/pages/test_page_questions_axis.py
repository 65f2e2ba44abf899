"""The axis of the pages: cells joined into points keep sums, low ≤ mean ≤ high; runs are laid out without loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.explain.questions.coverage import Coverage
from fairlead.explain.questions.pages.page_axis import (
    MOST_CELLS,
    Axis,
    build_axis_line,
    build_page_axis,
    refine_page_axis,
    spread_over_axis,
)
from fairlead.explain.questions.rollup_sums import Steps
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS, Span

T0 = 20_000 * DAY_NS
FAR = T0 + 1000 * DAY_NS


def nothing(axis: Axis) -> Coverage:
    return Coverage.create_empty(axis.points)


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(1, 900),
    points=st.integers(10, 300),
    seed=st.integers(0, 2**31),
    now=st.integers(0, 1000),
    share=st.floats(0.05, 1.0),
)
def test_points_keep_the_sum_and_lie_between_low_and_high(
    length: int, points: int, seed: int, now: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    axis = build_page_axis(Span(T0, T0 + length * SECOND_NS), T0 + now * SECOND_NS, points)
    assert axis.points.count <= points
    at = np.flatnonzero(rng.random(axis.cells.count) < share)
    at = at[at < now]
    amounts = np.round(rng.exponential(1e6, len(at)))
    line, there = build_axis_line(axis, at, amounts, nothing(axis))
    mean = np.array([np.nan if value is None else value for value in line.mean])
    begun = axis.points.list_starts() < axis.cells.now_ns
    passed = np.where(begun, np.minimum(axis.cells.now_ns - axis.points.list_starts(), axis.points.step_ns), 0) / 1e9
    assert np.nansum(mean * passed) == pytest.approx(amounts.sum(), abs=0.01 * length + 1)
    assert (np.isfinite(mean) == there).all()
    if line.low:
        low, high = (np.array([np.nan if v is None else v for v in one]) for one in (line.low, line.high))
        known = np.isfinite(mean)
        assert (np.isfinite(low) == known).all()
        assert (low[known] <= mean[known] + 0.002).all()
        assert (high[known] >= mean[known] - 0.002).all()


def test_low_and_high_are_of_the_cells_and_a_cell_without_rows_is_nothing() -> None:
    axis = build_page_axis(Span(T0, T0 + 40 * SECOND_NS), FAR, 10)
    line, _ = build_axis_line(axis, np.array([0, 1, 2, 3, 4]), np.array([4.0, 8.0, 0.0, 4.0, 12.0]), nothing(axis))
    assert (line.mean[:3], line.low[:3], line.high[:3]) == ([4.0, 3.0, None], [0.0, 0.0, None], [8.0, 12.0, None])


def test_a_point_that_is_one_cell_has_no_low_and_high() -> None:
    axis = build_page_axis(Span(T0, T0 + 20 * SECOND_NS), FAR, 100)
    line, _ = build_axis_line(axis, np.array([3]), np.array([5.0]), nothing(axis))
    assert (line.mean[3], line.low, line.high) == (5.0, [], [])


def test_what_is_known_to_be_idle_is_zero_and_the_rest_is_not_known() -> None:
    axis = build_page_axis(Span(T0, T0 + 20 * SECOND_NS), FAR, 100)
    known = np.zeros(20, np.bool_)
    known[:10] = True
    line, _ = build_axis_line(axis, np.array([3]), np.array([5.0]), Coverage(known, known.astype(float), []))
    assert line.mean[:11] == [0.0, 0.0, 0.0, 5.0, *[0.0] * 6, None]
    untold, _ = build_axis_line(axis, np.array([3]), np.array([np.nan]), Coverage(known, known.astype(float), []))
    assert untold.mean == [None] * 20


@pytest.mark.parametrize(("length", "step"), [(HOUR_NS, SECOND_NS), (2 * DAY_NS, MINUTE_NS), (365 * DAY_NS, HOUR_NS)])
def test_cells_are_the_finest_that_are_not_too_many(length: int, step: int) -> None:
    axis = build_page_axis(Span(T0, T0 + length), FAR, 800)
    assert axis.cells.step_ns == step
    assert axis.cells.count <= MOST_CELLS
    assert axis.points.count <= 800


@pytest.mark.parametrize(("seconds", "points", "step"), [(1, 800, 10), (8, 800, 10), (60, 800, 100), (60, 100, None)])
def test_seconds_are_cut_where_there_is_room(seconds: int, points: int, step: int | None) -> None:
    made = refine_page_axis(build_page_axis(Span(T0, T0 + seconds * SECOND_NS), FAR, points), points)
    assert (None if made is None else made.drawn.step_ns // 1_000_000) == step
    assert made is None or made.drawn.count <= points


@settings(deadline=None, max_examples=80)
@given(
    steps=st.integers(1, 200), rows=st.integers(0, 60), seed=st.integers(0, 2**31), step=st.sampled_from([1, 10, 1000])
)
def test_runs_are_laid_out_in_proportion_to_time(steps: int, rows: int, seed: int, step: int) -> None:
    rng = np.random.default_rng(seed)
    axis = Steps(T0, step * 1_000_000, steps, FAR)
    length = steps * step * 1_000_000
    start = T0 + rng.integers(-length, length, rows)
    end = start + rng.integers(0, length, rows) * rng.integers(0, 2, rows)
    amount = np.round(rng.exponential(1e7, rows))
    made = spread_over_axis(axis, start, end, amount)
    edges = T0 + np.arange(steps + 1) * axis.step_ns
    wanted = np.zeros(steps)
    for a, z, much in zip(start.tolist(), end.tolist(), amount.tolist(), strict=True):
        if a == z:
            wanted += much * ((edges[:-1] <= a) & (a < edges[1:]))
        else:
            wanted += much * np.clip(np.minimum(z, edges[1:]) - np.maximum(a, edges[:-1]), 0, None) / (z - a)
    np.testing.assert_allclose(made, wanted, rtol=1e-6, atol=1e-2)
