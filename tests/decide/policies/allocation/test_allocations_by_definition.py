"""Published allocations and placements against their definitions, read off the papers and written out plainly."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import Applications, Decision, Running, build_allocation_pool
from fairlead.decide.policies.allocation.mckp import Mckp, MckpDirect, choose_mckp_items
from fairlead.decide.policies.allocation.tcpu import Tcpu
from fairlead.decide.policies.placement.applications import GreedyClairvoyant, GreedyNonClairvoyant, RoundRobinPlacing
from fairlead.decide.registered_policies import ALLOCATIONS, PLACINGS, find_registered_policy

RNG = np.random.default_rng(0)


@st.composite
def sets(draw: st.DrawFn, most: int = 12) -> Applications:
    """Applications of round numbers (ties happen), with counts that some cannot use."""
    k = draw(st.integers(1, most))
    counts = draw(st.sampled_from(([1, 2, 4, 8], [1, 2, 3], [2, 4], [1])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bandwidth = rng.integers(1, 9, (k, len(counts))).astype(float)
    bandwidth[rng.random(bandwidth.shape) < draw(st.sampled_from((0.0, 0.3)))] = np.nan
    bandwidth[np.isnan(bandwidth).all(axis=1), 0] = 1.0
    direct = np.where(rng.random(k) < 0.5, rng.integers(1, 9, k), np.nan)
    return Applications.from_columns(
        counts,
        bandwidth,
        rng.integers(0, 50, k),
        rng.integers(0, 50, k),
        rng.integers(1, 9, k),
        nodes=rng.integers(0, 17, k),
        processes=rng.integers(0, 17, k),
        direct=direct,
    )


@st.composite
def pools(draw: st.DrawFn) -> Layer:
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    broken = draw(st.sampled_from((0.0, 0.4, 1.0)))
    return replace(
        build_allocation_pool(n, 100.0), bandwidth=rng.integers(0, 5, n).astype(float), sick=rng.random(n) < broken
    )


def usable_columns(applications: Applications, pool: Layer, i: int) -> list[int]:
    """Counts of one application that the pool can give, the smallest it knows where there is none."""
    known = [c for c in range(len(applications.counts)) if not np.isnan(applications.bandwidth[i, c])]
    return [c for c in known if applications.counts[c] <= len(pool.usable)] or known[:1]


def tcpu_by_definition(a: Applications, pool: Layer, already: float = 0.0) -> list[int]:
    columns = [usable_columns(a, pool, i) for i in range(len(a))]
    at = [min(c, key=lambda x, i=i: (a.stress[i, x], x)) for i, c in enumerate(columns)]
    top = [max(c, key=lambda x, i=i: (a.bandwidth[i, x], -x)) for i, c in enumerate(columns)]
    while True:
        load = sum(a.stress[i, at[i]] for i in range(len(a))) + already
        steps = []
        for i in range(len(a)):
            for c in columns[i]:
                gain = a.cpu_load[i, c] - a.cpu_load[i, at[i]]
                fits = load + a.stress[i, c] - a.stress[i, at[i]] <= len(pool.usable)
                if at[i] < c <= top[i] and fits and gain >= 0:
                    steps.append((gain, -i, c))
                    break
        if not steps:
            return at
        _, i, c = max(steps)
        at[-i] = c


@given(sets(), pools())
@settings(max_examples=150, deadline=None)
def test_tcpu_is_its_definition(applications: Applications, pool: Layer) -> None:
    chosen = Tcpu().choose(applications, pool, RNG).tolist()
    if not len(pool.usable):
        assert chosen == [-1] * len(applications)
        return
    expected = tcpu_by_definition(applications, pool)
    if chosen != expected:  # sums that are equal but for rounding: then both are answers, of the same gain
        rows = np.arange(len(applications))
        loads = [applications.stress[rows, np.array(c)].sum() for c in (chosen, expected)]
        assert min(abs(load - len(pool.usable)) for load in loads) < 1e-9


@given(sets(), pools())
@settings(max_examples=60, deadline=None)
def test_one_more_climbs_beside_what_runs(applications: Applications, pool: Layer) -> None:
    running = Running(len(pool), applications.counts)
    pair = find_registered_policy("tcpu+greedy-clairvoyant")
    for i in range(len(applications)):
        one = applications.select_rows([i])
        if len(pool.usable):
            assert Tcpu().choose_one(one, running, pool, RNG) == tcpu_by_definition(one, pool, running.stress)[0]
        running.enter(one, pair.arrive(one, running, pool, RNG))


@given(sets(most=5), st.integers(0, 12), st.booleans())
@settings(max_examples=150, deadline=None)
def test_mckp_is_the_best_of_all_choices(applications: Applications, n: int, direct: bool) -> None:
    pool = build_allocation_pool(max(n, 1), 100)
    if n == 0:
        pool = replace(build_allocation_pool(1, 100.0), sick=np.ones(1, np.bool_))
    items = []
    for i in range(len(applications)):
        mine = [(0, -1, applications.direct[i])] if direct and not np.isnan(applications.direct[i]) else []
        columns = usable_columns(applications, pool, i) if n else []
        items.append(mine + [(min(applications.counts[c], n), c, applications.bandwidth[i, c]) for c in columns])
    totals = [sum(x[2] for x in way) for way in product(*items) if sum(x[0] for x in way) <= n]
    chosen = (MckpDirect() if direct else Mckp()).choose(applications, pool, RNG)
    if not totals:
        for i, column in enumerate(chosen):
            assert column == (items[i][0][1] if items[i] else -1) or applications.counts[column] == 1
        return
    value = [applications.direct[i] if c < 0 else applications.bandwidth[i, c] for i, c in enumerate(chosen)]
    weight = [0 if c < 0 else min(applications.counts[c], n) for c in chosen]
    assert sum(weight) <= n
    assert sum(value) == pytest.approx(max(totals))


@given(st.integers(0, 2**32 - 1), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_a_larger_knapsack_holds_no_less(seed: int, capacity: int) -> None:
    rng = np.random.default_rng(seed)
    value = rng.random((8, 5))
    weight = np.array([0, 1, 2, 4, 8])

    def total(room: int) -> float:
        chosen = choose_mckp_items(weight, value, room)
        assert chosen is not None
        return float(value[np.arange(8), chosen].sum())

    assert total(capacity) <= total(capacity + 1) + 1e-12
    assert total(64) == pytest.approx(value.max(axis=1).sum())


@given(sets(), pools(), st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_greedy_placements_are_their_definitions(applications: Applications, pool: Layer, seed: int) -> None:
    choice = np.random.default_rng(seed).integers(-1, len(applications.counts), len(applications))
    number = [0 if c < 0 else min(int(applications.counts[c]), len(pool.usable)) for c in choice]
    turn, expected = 0, [set() for _ in number]
    for i in sorted(range(len(number)), key=lambda i: -number[i]):
        for _ in range(number[i]):
            expected[i].add(int(pool.usable[turn % len(pool.usable)]))
            turn += 1
    placed = GreedyNonClairvoyant().place(applications, choice, pool, RNG)
    assert [set(row[row >= 0].tolist()) for row in placed] == expected

    occupancy = dict.fromkeys(pool.usable.tolist(), 0.0)
    expected = [set() for _ in number]
    busy = []
    for i, c in enumerate(choice):
        t = 0.0 if c < 0 or np.isinf(applications.time_s[i, c]) else applications.time_s[i, c]
        busy.append(t / (t + applications.compute_s[i]) if t else 0.0)
    if any(c >= 0 and np.isinf(applications.time_s[i, c]) for i, c in enumerate(choice)):
        return  # a count it cannot use is nobody's choice
    for i in sorted(range(len(number)), key=lambda i: -busy[i]):
        for r in sorted(occupancy, key=lambda r: (occupancy[r], r))[: number[i]]:
            expected[i].add(r)
            occupancy[r] += busy[i]
    placed = GreedyClairvoyant().place(applications, choice, pool, RNG)
    assert [set(row[row >= 0].tolist()) for row in placed] == expected


def arrived(placing: object, applications: Applications, order: list[int], column: list[int], pool: Layer) -> list[set]:
    running = Running(len(pool), applications.counts)
    out: list[set] = [set() for _ in order]
    for i in order:
        row = placing.place_one(applications.select_rows([i]), column[i], running, pool, RNG)  # type: ignore[attr-defined]
        running.enter(applications.select_rows([i]), Decision(np.array([column[i]]), row[None, :]))
        out[i] = set(row[row >= 0].tolist())
    return out


@given(sets(), st.integers(1, 12), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_one_by_one_on_an_empty_machine_is_all_at_once(applications: Applications, n: int, seed: int) -> None:
    pool = build_allocation_pool(n, 100)
    rng = np.random.default_rng(seed)
    column = np.array([rng.choice(np.flatnonzero(~np.isnan(row))) for row in applications.bandwidth])
    number = np.minimum(applications.counts[column], n)
    by_number = np.argsort(-number, kind="stable").tolist()
    for placing, order in ((GreedyNonClairvoyant(), by_number), (RoundRobinPlacing(), list(range(len(number))))):
        at_once = placing.place(applications, column, pool, RNG)
        together = [set(row[row >= 0].tolist()) for row in at_once]
        assert arrived(placing, applications, order, column.tolist(), pool) == together


@pytest.mark.parametrize("name", [f"{a}+{p}" for a, p in zip(ALLOCATIONS, [*PLACINGS, *PLACINGS], strict=False)])
@given(sets(most=6), pools(), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_grants_are_what_the_contract_says(name: str, applications: Applications, pool: Layer, seed: int) -> None:
    pair = find_registered_policy(name)
    decided = pair.decide(applications, pool, np.random.default_rng(seed))
    again = pair.decide(applications, pool, np.random.default_rng(seed))
    assert (decided.choice == again.choice).all()
    assert (decided.resources == again.resources).all()
    running = Running(len(pool), applications.counts)
    rows = []
    for i in range(len(applications)):
        before = {name: np.copy(getattr(running, name)) for name in vars(running)}
        one = pair.arrive(applications.select_rows([i]), running, pool, np.random.default_rng(seed))
        assert all(np.array_equal(before[name], getattr(running, name)) for name in before)
        rows.append((one.choice[0], one.resources[0], i))
        running.enter(applications.select_rows([i]), one)
    for i, column in enumerate(decided.choice):
        rows.append((column, decided.resources[i], i))
    for column, resources, i in rows:
        mine = resources[resources >= 0]
        assert len(resources) == applications.counts.max()
        assert (resources[len(mine) :] == -1).all()
        assert len(set(mine.tolist())) == len(mine)
        assert np.isin(mine, pool.usable).all()
        if column < 0:
            assert not len(mine)
        else:
            assert len(mine) == min(applications.counts[column], len(pool.usable))
            assert not np.isnan(applications.bandwidth[i, column])
        if len(pool.usable) and not (name.startswith("mckp-direct") and not np.isnan(applications.direct[i])):
            assert column >= 0
