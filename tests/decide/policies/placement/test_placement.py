"""Targets of new files: what each rule promises, against the best that integers allow."""

from __future__ import annotations

import pytest

from fairlead.core.errors import ConfigError
from fairlead.decide.policies.placement.files import (
    LeastOpen,
    Placement,
    RoundRobin,
    TargetState,
    WeightedRandom,
    find_file_placement,
)
from fairlead.decide.registered_policies import PLACEMENTS

PERFORMANCE = (5, 3, 5, 2, 3, 1, 5, 2)


def spread(rule: Placement, files: int) -> list[int]:
    """Files of one stripe on each target, all of them kept open."""
    counts = [0] * len(PERFORMANCE)
    for _ in range(files):
        targets = [TargetState(speed, count) for speed, count in zip(PERFORMANCE, counts, strict=True)]
        (chosen,) = rule.place(1, targets)
        counts[chosen] += 1
    return counts


def bandwidth(counts: list[int]) -> float:
    """Of equal files written together, until the last target has ended."""
    return sum(counts) / max(count / speed for count, speed in zip(counts, PERFORMANCE, strict=True))


def best(files: int) -> float:
    """The least time in which the targets together finish that many whole files, found by trying every time at which
    one of them finishes one."""
    times = sorted({count / speed for speed in PERFORMANCE for count in range(1, files + 1)})
    return next(files / time for time in times if sum(int(time * speed + 1e-9) for speed in PERFORMANCE) >= files)


@pytest.mark.parametrize("files", range(24, 201))
def test_least_open_is_the_best_that_whole_files_allow(files: int) -> None:
    reached = bandwidth(spread(LeastOpen(), files))
    assert reached >= 0.98 * best(files)
    if files >= 124:
        assert reached >= 0.95 * sum(PERFORMANCE)
        assert reached >= 2.5 * bandwidth(spread(RoundRobin(), files))


def test_least_open_counts_what_closed() -> None:
    counts = spread(LeastOpen(), 100)
    counts[5] = 0
    targets = [TargetState(speed, count) for speed, count in zip(PERFORMANCE, counts, strict=True)]
    assert LeastOpen().place(1, targets) == [5]


def test_stripes_are_on_different_targets_and_no_more_than_there_are() -> None:
    targets = [TargetState(speed) for speed in PERFORMANCE]
    for name in PLACEMENTS:
        rule = find_file_placement(name, seed=3)
        for stripes in (1, 3, 8, 20):
            chosen = rule.place(stripes, targets)
            assert len(chosen) == len(set(chosen)) == min(stripes, 8), name


def test_full_and_unavailable_targets_get_nothing() -> None:
    targets = [TargetState(9, available=False), TargetState(9, free_bytes=5), TargetState(1), TargetState(1)]
    for name in PLACEMENTS:
        rule = find_file_placement(name)
        chosen = [index for _ in range(50) for index in rule.place(1, targets)]
        assert set(chosen) == {2, 3} or (name == "least-open" and set(chosen) == {2})
        assert rule.place(2, targets[:2]) == []


def test_a_pool_limits_the_choice() -> None:
    targets = [TargetState(speed) for speed in PERFORMANCE]
    for name in PLACEMENTS:
        assert set(find_file_placement(name).place(8, targets, pool={3, 1, 6})) == {1, 3, 6}


def test_round_robin_goes_round() -> None:
    rule = RoundRobin()
    targets = [TargetState()] * 3
    assert [rule.place(1, targets)[0] for _ in range(5)] == [0, 1, 2, 0, 1]
    assert rule.place(2, targets) == [2, 0]
    lost = [TargetState(), TargetState(available=False), TargetState()]
    assert [rule.place(1, lost)[0] for _ in range(3)] == [2, 0, 2]


def test_weighted_random_follows_the_weights_and_the_seed() -> None:
    counts = spread(WeightedRandom(7), 4000)
    assert counts == spread(WeightedRandom(7), 4000)
    assert counts != spread(WeightedRandom(8), 4000)
    for count, speed in zip(counts, PERFORMANCE, strict=True):
        assert 0.7 < count / (4000 * speed / sum(PERFORMANCE)) < 1.3


def test_overload_counts_as_slowness() -> None:
    targets = [TargetState(10, overload=2.0), TargetState(5)]
    assert LeastOpen(penalty=1.0).place(1, targets) == [1]
    assert LeastOpen(penalty=0.0).place(1, targets) == [0]


def test_an_unknown_placement_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown placement 'best'"):
        find_file_placement("best")
