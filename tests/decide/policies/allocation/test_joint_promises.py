"""What the joint policies promise for whatever they are asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import Applications, Decision, Policy, Running, build_allocation_pool
from fairlead.decide.policies.allocation.joint import Joint, JointLight, Tuning, estimate_joint_slowdowns

QUICK = Tuning(trials=5, least_trials=200)
COUNTS = np.array([1, 2, 4, 8])


@st.composite
def asked(draw: st.DrawFn) -> tuple[Applications, Layer, int]:
    k, n, seed = draw(st.integers(1, 12)), draw(st.integers(1, 14)), draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    bandwidth = rng.lognormal(0, 1, (k, 4))
    bandwidth[:, 1:][rng.random((k, 3)) < 0.1] = np.nan
    applications = Applications.from_columns(
        COUNTS, bandwidth, rng.uniform(0, 100, k) * (rng.random(k) < 0.9), rng.uniform(0, 100, k), rng.uniform(0, 9, k)
    )
    available = rng.random(n) < 0.8
    available[rng.integers(n)] = True
    pool = replace(build_allocation_pool(n, 100), sick=~available, bandwidth=rng.uniform(0.2, 1.0, n))
    return applications, pool, seed


def sound(decision: Decision, applications: Applications, pool: Layer) -> None:
    for i in range(len(applications)):
        mine = decision.resources[i][decision.resources[i] >= 0]
        assert len(mine) == COUNTS[decision.choice[i]]
        assert len(set(mine.tolist())) == len(mine)
        assert np.isin(mine, pool.usable).all()
        assert np.isfinite(applications.time_s[i, decision.choice[i]])


@settings(max_examples=40, deadline=None)
@given(asked())
def test_grants_are_sound_and_the_same_again(case: tuple[Applications, Layer, int]) -> None:
    applications, pool, seed = case
    policies: tuple[Policy, ...] = (Joint(QUICK), JointLight(QUICK))
    for policy in policies:
        first = policy.decide(applications, pool, np.random.default_rng(seed))
        second = policy.decide(applications, pool, np.random.default_rng(seed))
        sound(first, applications, pool)
        assert (first.resources == second.resources).all()
        assert (first.choice == second.choice).all()


@settings(max_examples=40, deadline=None)
@given(asked())
def test_a_search_is_never_worse_than_where_it_began(case: tuple[Applications, Layer, int]) -> None:
    applications, pool, seed = case
    only_slowdown = replace(QUICK, idle=0.0)
    start = Joint(replace(only_slowdown, trials=0, least_trials=0)).decide(
        applications, pool, np.random.default_rng(seed)
    )
    ended = Joint(only_slowdown).decide(applications, pool, np.random.default_rng(seed))
    before = estimate_joint_slowdowns(applications, start, pool, only_slowdown).mean()
    assert estimate_joint_slowdowns(applications, ended, pool, only_slowdown).mean() <= before * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(asked())
def test_other_numbers_of_resources_change_no_estimate(case: tuple[Applications, Layer, int]) -> None:
    applications, pool, seed = case
    decision = Joint(QUICK).decide(applications, pool, np.random.default_rng(seed))
    other = np.random.default_rng(seed).permutation(len(pool))
    moved = np.where(decision.resources >= 0, other[decision.resources], -1)
    performance = np.empty(len(pool))
    performance[other] = pool.performance
    renamed = replace(pool, bandwidth=performance, sick=np.zeros(len(pool), np.bool_))
    same = estimate_joint_slowdowns(applications, Decision(decision.choice, moved), renamed)
    plain = estimate_joint_slowdowns(applications, decision, replace(pool, sick=np.zeros(len(pool), np.bool_)))
    np.testing.assert_allclose(same, plain, rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(asked())
def test_one_more_is_granted_soundly_and_moves_nobody(case: tuple[Applications, Layer, int]) -> None:
    applications, pool, seed = case
    for policy in (Joint(QUICK), JointLight(QUICK)):
        running = Running(len(pool), COUNTS, 4)
        for i in range(len(applications)):
            one = applications.select_rows([i])
            before = running.resources.copy()
            decision = policy.arrive(one, running, pool, np.random.default_rng(seed))
            assert (running.resources == before).all()
            sound(decision, one, pool)
            running.enter(one, decision)
