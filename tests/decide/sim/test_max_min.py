"""Max-min fairness as a property: of rates, and of an engine that only looks where something changed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.decide.sim.engine import Changes, Engine, Phases, compute_max_min_rates

CASES = st.integers(0, 2**32 - 1)


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Capacity, crossings, cost, weight, cap of up to 24 flows over up to 8 resources."""
    rng = np.random.default_rng(seed)
    resources, flows, width = int(rng.integers(1, 9)), int(rng.integers(1, 25)), int(rng.integers(1, 4))
    capacity = rng.choice([1.0, 2.0, 5.0, 10.0, 0.0], resources, p=[0.3, 0.3, 0.2, 0.15, 0.05])
    crosses = np.full((flows, min(width, resources)), -1, np.int32)
    for flow in range(flows):
        many = int(rng.integers(1, crosses.shape[1] + 1))
        crosses[flow, :many] = rng.choice(resources, many, replace=False)
    cost = rng.choice([1.0, 0.5, 3.0], crosses.shape)
    weight = rng.choice([1.0, 2.0, 7.0], flows)
    cap = np.where(rng.random(flows) < 0.4, rng.uniform(0.05, 3.0, flows), np.inf)
    return capacity, crosses, cost, weight, cap


def check(
    capacity: np.ndarray, crosses: np.ndarray, cost: np.ndarray, weight: np.ndarray, cap: np.ndarray, rate: np.ndarray
) -> None:
    """No capacity exceeded; who is below its cap crosses a full resource on which nobody has more for its weight."""
    used = np.zeros(len(capacity))
    for k in range(crosses.shape[1]):
        there = crosses[:, k] >= 0
        np.add.at(used, crosses[there, k], rate[there] * cost[there, k])
    assert (used <= capacity * (1 + 1e-9) + 1e-12).all()
    assert (rate <= cap * (1 + 1e-12)).all()
    level = rate / weight
    for flow in range(len(rate)):
        if rate[flow] >= cap[flow] * (1 - 1e-9):
            continue
        held = False
        for r in crosses[flow][crosses[flow] >= 0]:
            beside = (crosses == r).any(axis=1)
            full = used[r] >= capacity[r] * (1 - 1e-7) - 1e-12
            held = held or bool(full and level[flow] >= level[beside].max() * (1 - 1e-7) - 1e-12)
        assert held, flow


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_no_flow_can_have_more_without_taking_from_a_smaller_one(seed: int) -> None:
    capacity, crosses, cost, weight, cap = drawn(seed)
    check(
        capacity,
        crosses,
        cost,
        weight,
        cap,
        compute_max_min_rates(capacity, crosses, cost=cost, weight=weight, cap=cap),
    )


@given(CASES)
@settings(max_examples=60, deadline=None)
def test_rates_stay_fair_through_arrivals_ends_and_changes(seed: int) -> None:
    capacity, crosses, cost, weight, cap = drawn(seed)
    rng = np.random.default_rng(seed)
    n = len(weight)
    when = np.sort(rng.uniform(0, 12, 4))
    hit = rng.integers(0, len(capacity), 4).astype(np.int32)
    to = rng.choice([0.5, 2.0, 8.0], 4)
    engine = Engine(capacity, Changes(when, hit, to))
    engine.add(
        Phases(
            after=np.full(n, -1, np.int32),
            delay_s=rng.uniform(0, 10, n),
            phase=np.arange(n, dtype=np.int32),
            amount=rng.uniform(0.5, 8.0, n),
            weight=weight,
            cap=cap,
            crosses=crosses,
            cost=cost,
        )
    )
    for until in np.sort(rng.uniform(0, 20, 12)):
        engine.run(float(until))
        rate, (begun, ended) = engine.read_rates(), engine.read_times()
        now = capacity.copy()
        for time, resource, value in zip(when, hit, to, strict=True):
            if time <= until:
                now[resource] = value
        going = ~np.isnan(begun) & np.isnan(ended)
        assert (rate[~going] == 0).all()
        check(now, crosses[going], cost[going], weight[going], cap[going], rate[going])
