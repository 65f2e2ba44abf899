"""Per-chunk reductions: intervals, order of offsets, distinct rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.explain.analysis.op_columns import (
    WRITE,
    OpColumns,
    count_op_patterns,
    find_distinct_op_rows,
    find_op_size_bins,
    merge_op_activity,
    union_op_intervals,
)

I64 = np.int64


def ops(offsets: list[int], size: int = 10, *, kind: int = WRITE, count: int = 1, stride: int = 0) -> OpColumns:
    n = len(offsets)
    full = lambda v: np.full(n, v, I64)  # noqa: E731
    return OpColumns(
        start=np.arange(n, dtype=I64) * 100,
        end=np.arange(n, dtype=I64) * 100 + 50,
        busy=full(50),
        rank=full(0),
        file=full(1),
        offset=np.array(offsets, I64),
        size=full(size),
        stride=full(stride),
        count=full(count),
        kind=full(kind),
        word=full(0),
        words=["write"],
    )


def counted(columns: OpColumns) -> dict[str, int]:
    order = np.arange(len(columns.start))
    fresh = np.zeros(len(order), bool)
    fresh[0] = True
    pattern, _, _ = count_op_patterns(columns, order, fresh)
    return {w: int(getattr(pattern, w)[WRITE]) for w in ("consecutive", "sequential", "strided", "random", "placed")}


def test_consecutive() -> None:
    seen = counted(ops([0, 10, 20, 30]))
    assert seen == {"consecutive": 3, "sequential": 3, "strided": 0, "random": 0, "placed": 3}


def test_strided() -> None:
    seen = counted(ops([0, 100, 200, 300]))
    assert seen == {"consecutive": 0, "sequential": 3, "strided": 3, "random": 0, "placed": 3}


def test_random() -> None:
    seen = counted(ops([500, 20, 910, 333, 0]))
    assert seen["random"] == 4
    assert seen["strided"] == 0


def test_a_merged_run_counts_like_its_operations() -> None:
    run = counted(ops([0], count=5, stride=40))
    alone = counted(ops([0, 40, 80, 120, 160]))
    assert run == alone


def test_unknown_offsets_are_not_placed() -> None:
    assert counted(ops([-1, -1, -1]))["placed"] == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 12)), max_size=40))
def test_union_covers_what_the_intervals_cover(rows: list[tuple[int, int, int]]) -> None:
    group = np.array([r[0] for r in rows], I64)
    start = np.array([r[1] for r in rows], I64)
    end = np.array([r[1] + r[2] for r in rows], I64)
    g, s, e = union_op_intervals(group, start, end)
    for number in range(4):
        expected = {b for r in rows if r[0] == number for b in range(r[1], r[1] + r[2])}
        mine = [(a, b) for n, a, b in zip(g, s, e, strict=True) if n == number]
        assert {b for lo, hi in mine for b in range(lo, hi)} == expected
        assert all(left[1] < right[0] for left, right in pairwise(mine))


def test_union_of_far_apart_groups_does_not_overflow() -> None:
    big = 1 << 61
    g, s, e = union_op_intervals(np.array([0, 1, 1], I64), np.array([0, 0, big], I64), np.array([5, 7, big + 3], I64))
    assert list(zip(g, s, e, strict=True)) == [(0, 0, 5), (1, 0, 7), (1, big, big + 3)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), min_size=1, max_size=50))
def test_distinct_rows(rows: list[tuple[int, int]]) -> None:
    columns = [np.array(c, I64) for c in zip(*rows, strict=True)]
    values, inverse = find_distinct_op_rows(*columns)
    assert [(int(values[0][i]), int(values[1][i])) for i in inverse] == rows
    pairs = list(zip(values[0].tolist(), values[1].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 200), st.integers(0, 20), st.integers(0, 9)), max_size=40))
def test_merging_activity_keeps_the_bytes(rows: list[tuple[int, int, int, int]]) -> None:
    lane, start, length, nbytes = (np.array([r[i] for r in rows], I64) for i in range(4))
    merged = merge_op_activity(lane, start, start + length, nbytes, 7)
    assert merged[3].sum() == nbytes.sum()
    for number in range(3):
        assert merged[3][merged[0] == number].sum() == nbytes[lane == number].sum()
    assert (merged[2] >= merged[1]).all()


@pytest.mark.parametrize(
    ("size", "place"), [(0, 0), (100, 0), (101, 1), (1024, 1), (1 << 20, 4), ((1 << 20) + 1, 5), (1 << 31, 9)]
)
def test_size_bins_are_those_of_darshan(size: int, place: int) -> None:
    assert find_op_size_bins(np.array([size], I64)).tolist() == [place]


def test_intervals_of_one_group_may_span_all_of_time() -> None:
    far = 2**62
    group, start, end = union_op_intervals(
        np.zeros(3, I64), np.array([far, -far, 5], I64), np.array([far + 1, 0, 9], I64)
    )
    assert (group.tolist(), start.tolist(), end.tolist()) == ([0, 0, 0], [-far, 5, far], [0, 9, far + 1])
    two = union_op_intervals(np.array([0, 1], I64), np.array([-far, -far], I64), np.array([far, far], I64))
    assert [part.tolist() for part in two] == [[0, 1], [-far, -far], [far, far]]
