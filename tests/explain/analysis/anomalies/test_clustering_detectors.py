"""The published two-stage clustering, the one-stage it was held against, and DBSCAN with weights."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from benchmarks._clustering_detectors import (
    OUTLIER,
    TwoStageParams,
    clusters,
    knee,
    one_stage,
    performance_vectors,
    two_stage,
)
from sklearn.cluster import DBSCAN

from fairlead.explain.analysis.history.rate_bins import find_rate_bins
from phase_building import S, phase, table


def population(seed: int = 1, count: int = 200) -> tuple[pa.Table, np.ndarray]:
    """Phases of three modes, each with a volume and a rate of its own, one in twenty mostly slow."""
    rng = np.random.default_rng(seed)
    rows, slow = [], []
    for i in range(count):
        kind = i % 3
        mode, volume, rate = (("N-N", 4e11, 8e9), ("N-1", 2e9, 2e8), ("1-1", 3e10, 1e9))[kind]
        bad = rng.random() < 0.05
        volume *= np.exp(rng.normal(0, 0.3))
        rate *= np.exp(rng.normal(0, 0.03))
        parts = rate * np.exp(rng.normal(0, 0.02, 4)) * (np.array([0.15, 0.2, 0.2, 1.0]) if bad else 1.0)
        share = np.array([0.3, 0.3, 0.3, 0.1]) if bad else np.full(4, 0.25)
        seconds = volume / float((parts * share).sum())
        rows.append(
            phase(
                i,
                volume / seconds,
                seconds,
                mode=mode,
                rate_bins=find_rate_bins(parts).tolist(),
                rate_ns=(share * seconds * S).astype(np.int64).tolist(),
            )
        )
        slow.append(bad)
    return table(rows), np.array(slow)


def f1(flagged: np.ndarray, slow: np.ndarray) -> float:
    right = int((flagged & slow).sum())
    return 2 * right / max(int(flagged.sum() + slow.sum()), 1)


def test_two_stages_find_what_one_does_not() -> None:
    phases, slow = population()
    two, one = two_stage(phases), one_stage(phases)
    assert f1(two.abnormal, slow) >= f1(one.abnormal, slow) + 0.2
    assert f1(two.abnormal, slow) > 0.75
    assert (two.lost_s[two.abnormal] > 0).all()


def test_performance_vectors_are_shares_of_time_in_parts_of_the_range() -> None:
    rates = np.array([100.0, 200.0, 20.0, 110.0, 0.0])
    times = np.array([3.0, 1.0, 4.0, 4.0, 8.0])
    vectors = performance_vectors(rates, times, np.array([0, 0, 1, 1, 1]), 2, 5)
    np.testing.assert_allclose(vectors, [[0, 0, 0.75, 0, 0.25], [0.75, 0, 0.25, 0, 0]])


def test_the_order_of_rows_does_not_matter() -> None:
    phases, _ = population(2)
    order = np.random.default_rng(1).permutation(phases.num_rows)
    for detector in (two_stage, one_stage):
        straight, shuffled = detector(phases), detector(phases.take(pa.array(order)))
        np.testing.assert_array_equal(shuffled.abnormal, straight.abnormal[order])


def test_equal_points_are_taken_once_and_weigh() -> None:
    rng = np.random.default_rng(3)
    points = np.round(rng.normal(0, 1, (400, 2)) * 4) / 4
    found = clusters(points, 0.25)
    assert found.min_samples == 4
    plain = DBSCAN(eps=found.eps * (1 + 1e-9), min_samples=4).fit(points).labels_
    np.testing.assert_array_equal(found.labels == OUTLIER, plain == OUTLIER)


def test_too_many_different_points_are_taken_on_a_coarser_grid() -> None:
    points = np.random.default_rng(4).normal(0, 1, (60_000, 2))
    found = clusters(points, 1e-6)
    assert (found.labels == 0).mean() > 0.95
    assert found.eps < 1.0


def test_the_knee_is_where_the_curve_turns_up() -> None:
    distances = np.concatenate([np.linspace(0.1, 0.2, 90), np.linspace(1, 10, 10)])
    assert knee(distances, np.ones(100)) == pytest.approx(0.2, abs=0.02)
    assert knee(np.array([3.0]), np.ones(1)) == 3.0


@pytest.mark.parametrize("detector", [two_stage, one_stage])
def test_few_rows_and_broken_rows_are_unknown(detector: object) -> None:
    rows = [
        phase(0),
        phase(1),
        phase(2, bytes=None),
        phase(3, rate_bins=None),
        phase(4, rate_bins=[-1], rate_ns=[S]),
        phase(5, active_ns=0),
        phase(6, bytes=-1),
        phase(7, mode=None),
        phase(8, rate_ns=[None]),
    ]
    for count in (0, 1, len(rows)):
        found = detector(table(rows[:count]))  # type: ignore[operator]
        assert not found.abnormal.any()
        assert not (found.lost_s == 0)[2:3].any()


def test_what_is_abnormal_is_set_by_parameters() -> None:
    phases, _ = population()
    assert not two_stage(phases, TwoStageParams(low_share=1.0)).abnormal.any()
