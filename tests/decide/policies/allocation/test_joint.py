"""The joint policy on cases small enough to judge by hand; its estimate against the simulator; the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import allocation_oracle
from fairlead.decide.policies.allocation.contract import Applications, Decision, Running, build_allocation_pool
from fairlead.decide.policies.allocation.joint import Joint, JointLight, Tuning, estimate_joint_slowdowns
from fairlead.decide.registered_policies import find_registered_policy
from fairlead.decide.sim.cycles.cycle_model import Window
from fairlead.decide.sim.workloads.profiles import BEHAVIOURS, draw_ost_profiles, read_forge_profiles
from fairlead.decide.sim.workloads.published_sets import draw_published_set

QUICK = Tuning(trials=40, least_trials=1500)
WINDOW = Window(until_s=30_000.0, from_s=5_000.0)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def alike(k: int, *, steep: bool = True, volume: float = 100.0) -> Applications:
    curve = [1.0, 2.0, 4.0, 8.0] if steep else [8.0, 4.0, 2.0, 1.0]
    return Applications.from_columns([1, 2, 4, 8], [curve] * k, [volume] * k, [100.0] * k, [10.0] * k)


def test_alone_it_gets_what_is_fastest() -> None:
    decision = Joint().decide(alike(1), build_allocation_pool(8, 100), rng())
    assert decision.choice.tolist() == [3]
    assert sorted(decision.resources[0].tolist()) == list(range(8))


def test_two_that_gain_nothing_from_more_are_kept_apart() -> None:
    decision = Joint().decide(alike(2, steep=False), build_allocation_pool(8, 100), rng())
    assert decision.choice.tolist() == [0, 0]
    assert decision.resources[0, 0] != decision.resources[1, 0]


def test_a_slow_resource_is_left_to_nobody_while_sound_ones_are_free() -> None:
    pool = replace(build_allocation_pool(4, 100), bandwidth=np.array([1.0, 0.05, 1.0, 1.0]))
    decision = Joint().decide(alike(3, steep=False), pool, rng())
    assert 1 not in decision.resources[:, 0].tolist()


def test_too_few_resources_and_none() -> None:
    some = replace(alike(2), counts=np.array([2, 4, 6, 8]))
    one = replace(build_allocation_pool(4, 100), sick=np.array([True, False, True, True]))
    none = replace(one, sick=np.ones(4, np.bool_))
    for asked in (Joint(QUICK), JointLight(QUICK)):
        assert asked.decide(some, one, rng()).resources[:, 0].tolist() == [1, 1]
        assert (asked.decide(some, none, rng()).resources < 0).all()
        running = Running(4, some.counts)
        assert (asked.arrive(some.select_rows([0]), running, none, rng()).resources < 0).all()
        assert asked.arrive(some.select_rows([0]), running, one, rng()).resources[0, 0] == 1
        assert len(asked.decide(some.select_rows([]), one, rng()).choice) == 0


def test_an_application_without_io_and_one_without_computing() -> None:
    some = Applications.from_columns([1, 2], [[1.0, 2.0]] * 3, [0.0, 10.0, 10.0], [10.0, 0.0, 10.0], [1.0, 0.0, 0.0])
    decision = Joint(QUICK).decide(some, build_allocation_pool(2, 10), rng())
    assert (decision.choice >= 0).all()


def test_an_application_that_needs_more_than_there_are_gets_the_smallest_count() -> None:
    some = Applications.from_columns(
        [1, 2, 4], [[np.nan, np.nan, 4.0], [1.0, 2.0, 4.0]], [9.0] * 2, [9.0] * 2, [1.0] * 2
    )
    pool = build_allocation_pool(3, 10)
    assert Joint(QUICK).decide(some, pool, rng()).choice[0] == 0
    assert Joint().arrive(some.select_rows([0]), Running(3, some.counts), pool, rng()).choice.tolist() == [0]


def test_counts_that_cannot_be_used_are_not_granted() -> None:
    some = Applications.from_columns(
        [1, 2, 4], [[1.0, np.nan, 4.0], [np.nan, 2.0, np.nan]] * 4, [9.0] * 8, [9.0] * 8, [1.0] * 8
    )
    decision = Joint(QUICK).decide(some, build_allocation_pool(6, 10), rng())
    assert np.isfinite(some.time_s[np.arange(8), decision.choice]).all()


def test_the_estimate_is_within_a_tenth_of_what_is_simulated() -> None:
    for k, theta in ((30, 0.3), (60, 0.8)):
        drawn = draw_published_set(read_forge_profiles(), theta, k, (k, 5))
        pool = build_allocation_pool(drawn.resources, drawn.cores)
        for name in ("tcpu+greedy-clairvoyant", "best-bandwidth+greedy-non-clairvoyant", "n-sys+random"):
            decision = find_registered_policy(name).decide(drawn.applications, pool, rng())
            expected = estimate_joint_slowdowns(drawn.applications, decision, pool).mean()
            seen = allocation_oracle.simulate_oracle_slowdown(drawn, decision.choice, decision.resources, WINDOW)
            assert expected == pytest.approx(seen, rel=0.1), name


def test_two_on_one_resource_are_estimated_as_they_are_known_to_be() -> None:
    # One resource, one transfer each, the other is met with chance t / (T + t): exact for a closed network of two.
    some = Applications.from_columns([1], [[1.0], [1.0]], [50.0, 50.0], [150.0, 150.0], [1.0, 1.0])
    shared = Decision(np.zeros(2, np.int64), np.zeros((2, 1), np.int64))
    exact = Tuning(back=1.0)
    assert estimate_joint_slowdowns(some, shared, build_allocation_pool(1, 2), exact) == pytest.approx(
        [1.25, 1.25], abs=0.01
    )
    apart = Decision(np.zeros(2, np.int64), np.array([[0], [1]]))
    assert estimate_joint_slowdowns(some, apart, build_allocation_pool(2, 2), exact) == pytest.approx([1.0, 1.0])


def test_curves_of_classes_are_doubted() -> None:
    """16 applications told two curves that hardly rise: fewer resources are granted than when these are believed."""
    curves = [[1.0, 1.04, 1.08, 1.12], [1.0, 1.05, 1.1, 1.15]] * 8
    some = Applications.from_columns([1, 2, 4, 8], curves, [5.0] * 16, [5000.0] * 16, [1.0] * 16)
    believed = Joint(replace(QUICK, doubt=0.0)).decide(some, build_allocation_pool(200, 16), rng()).count_granted(some)
    doubted = Joint(QUICK).decide(some, build_allocation_pool(200, 16), rng()).count_granted(some)
    assert doubted.sum() < believed.sum()


def test_light_does_not_look_at_volumes_times_and_cores() -> None:
    drawn = draw_published_set(read_forge_profiles(), 0.6, 20, 1)
    other = replace(drawn.applications, volume=drawn.applications.volume * 7, compute_s=np.ones(20), cores=np.ones(20))
    light, pool = JointLight(QUICK), build_allocation_pool(20, 480)
    first, second = light.decide(drawn.applications, pool, rng()), light.decide(other, pool, rng())
    assert (first.resources == second.resources).all()


def test_one_more_goes_where_it_is_met_least() -> None:
    some = alike(4, steep=False)
    running, pool = Running(4, some.counts), build_allocation_pool(4, 100)
    seen = set()
    for i in range(4):
        decision = Joint().arrive(some.select_rows([i]), running, pool, rng())
        running.enter(some.select_rows([i]), decision)
        seen.add(int(decision.resources[0, 0]))
    assert seen == {0, 1, 2, 3}


def test_many_are_granted_in_groups() -> None:
    drawn = draw_published_set(read_forge_profiles(), 0.5, 400, 2, resources=80, cores=4800.0)
    decision = Joint(Tuning(trials=2, least_trials=10)).decide(
        drawn.applications, build_allocation_pool(80, 4800.0), rng()
    )
    assert (decision.choice >= 0).all()
    assert len(np.unique(decision.resources[decision.resources >= 0])) == 80


def test_ours_beats_tcpu_under_load() -> None:
    ours, published = [], []
    for seed in range(4):
        drawn = draw_published_set(read_forge_profiles(), 0.9, 40, (seed, 8))
        pool = build_allocation_pool(drawn.resources, drawn.cores)
        for name, into in (("joint", ours), ("tcpu+greedy-clairvoyant", published)):
            decision = find_registered_policy(name).decide(drawn.applications, pool, rng())
            into.append(allocation_oracle.simulate_oracle_slowdown(drawn, decision.choice, decision.resources, WINDOW))
    assert np.mean(ours) < 0.8 * np.mean(published)


def test_the_bound_is_one_where_there_is_room_and_tight_for_one_resource() -> None:
    assert allocation_oracle.compute_oracle_bound(alike(1), 8) == pytest.approx(1.0)
    # Two without computing on one resource: each can have half of it at best.
    full = Applications.from_columns([1], [[1.0], [1.0]], [10.0, 10.0], [0.0, 0.0], [1.0, 1.0])
    assert allocation_oracle.compute_oracle_bound(full, 1) == pytest.approx(2.0, rel=1e-3)


def test_the_bound_is_below_what_any_search_finds() -> None:
    drawn = draw_published_set(read_forge_profiles(), 1.1, 30, 4)
    start = find_registered_policy("joint").decide(drawn.applications, build_allocation_pool(20, 480), rng())
    found = allocation_oracle.search_oracle_decision(drawn, start, WINDOW, 30, rng())
    begun = allocation_oracle.simulate_oracle_slowdown(drawn, start.choice, start.resources, WINDOW)
    assert allocation_oracle.compute_oracle_bound(drawn.applications, 20) < found.mean <= begun
    assert found.mean == allocation_oracle.simulate_oracle_slowdown(
        drawn, found.decision.choice, found.decision.resources, WINDOW
    )


def test_curves_of_targets_keep_to_their_class() -> None:
    made = draw_ost_profiles()
    assert made.counts.tolist() == list(range(1, 9))
    assert (made.bandwidth == draw_ost_profiles(1).bandwidth).all()
    relative = made.bandwidth / made.bandwidth[:, :1]
    top = relative.argmax(axis=1)
    assert (relative[made.behaviour == BEHAVIOURS.index("ascent"), 7] > 1.15).all()
    assert (relative[made.behaviour == BEHAVIOURS.index("descent"), 7] < 1).all()
    assert (top[made.behaviour == BEHAVIOURS.index("peak")] < 7).all()
    assert np.isnan(made.direct).all()
