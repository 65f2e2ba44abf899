"""Published allocations and placements on cases small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide.policies.allocation.contract import Applications, Decision, Running, build_allocation_pool
from fairlead.decide.policies.allocation.mckp import Mckp, MckpDirect, choose_mckp_items
from fairlead.decide.policies.allocation.published import BestBandwidth, NSys, Oracle, Process, Random, Size, Static
from fairlead.decide.policies.allocation.tcpu import Tcpu
from fairlead.decide.policies.placement.applications import Pools, Straw, WeightedRandomPlacing
from fairlead.decide.registered_policies import ALLOCATIONS, PLACINGS, find_registered_policy, list_registered_policies

RNG = np.random.default_rng(0)
COUNTS = [1, 2, 4, 8]


def applications(
    *bandwidth: list[float], volume: float = 100.0, compute_s: object = None, **more: object
) -> Applications:
    k = len(bandwidth)
    cores = more.pop("cores", [10.0] * k)
    return Applications.from_columns(
        COUNTS[: len(bandwidth[0])], list(bandwidth), [volume] * k, compute_s or [100.0] * k, cores, **more
    )


RISING, FALLING = [1.0, 2.0, 4.0, 8.0], [8.0, 4.0, 2.0, 1.0]


def test_best_bandwidth_takes_the_smallest_count_of_the_highest() -> None:
    chosen = BestBandwidth().choose(
        applications(RISING, FALLING, [1.0, 3.0, 3.0, 2.0]), build_allocation_pool(8, 100), RNG
    )
    assert chosen.tolist() == [3, 0, 1]


def test_n_sys_takes_the_least_stress() -> None:
    # n t / (T + t) with V = T = 100: t = 100, 50, 25, 12.5 -> 0.5, 0.667, 0.8, 0.889; a steep curve -> 0.5, 0.182...
    chosen = NSys().choose(applications(RISING, [1.0, 10.0, 11.0, 12.0]), build_allocation_pool(8, 100), RNG)
    assert chosen.tolist() == [0, 1]


def test_static_follows_cores() -> None:
    a = applications(RISING, RISING, RISING, RISING, cores=[1.0, 25.0, 37.5, 100.0])
    # 8 Q / 100 = 0.08, 2, 3, 8: one at least; 3 lies between 2 and 4, the smaller is taken
    assert Static().choose(a, build_allocation_pool(8, 100), RNG).tolist() == [0, 1, 1, 3]


def test_size_and_process_are_parts_of_the_pool() -> None:
    a = applications(RISING, RISING, RISING, nodes=[1, 1, 6], processes=[50, 25, 25])
    assert Size().choose(a, build_allocation_pool(8, 100), RNG).tolist() == [0, 0, 2]  # 1, 1, 6 of 8: 6 goes down to 4
    assert Process().choose(a, build_allocation_pool(8, 100), RNG).tolist() == [2, 1, 1]  # 4, 2, 2
    unknown = applications(RISING, RISING, cores=[75.0, 25.0])
    assert Size().choose(unknown, build_allocation_pool(8, 100), RNG).tolist() == [2, 1]  # by cores: 6, 2


def test_size_of_one_more_counts_those_that_run() -> None:
    a = applications(RISING, RISING, nodes=[12, 4], processes=[1, 3])
    running, pool = Running(8, a.counts), build_allocation_pool(8, 100)
    running.enter(a.select_rows([0]), Decision(np.array([0]), np.array([[0] + [-1] * 7])))
    assert Size().choose_one(a.select_rows([1]), running, pool, RNG) == 1  # 4 of 16 nodes: 2 of 8
    assert Process().choose_one(a.select_rows([1]), running, pool, RNG) == 2  # 3 of 4 processes: 6 of 8, down to 4
    running.leave(0)
    assert Size().choose_one(a.select_rows([1]), running, pool, RNG) == 3


def test_oracle_may_go_straight() -> None:
    a = applications(RISING, FALLING, direct=[9.0, np.nan])
    assert Oracle().choose(a, build_allocation_pool(8, 100), RNG).tolist() == [3, 0]
    assert Oracle(direct=True).choose(a, build_allocation_pool(8, 100), RNG).tolist() == [-1, 0]


def test_random_takes_every_allowed_count_and_no_other() -> None:
    a = applications(*[[1.0, np.nan, 3.0, 4.0]] * 300)
    chosen = Random().choose(a, build_allocation_pool(4, 100), np.random.default_rng(1))
    assert set(chosen.tolist()) == {0, 2}


def test_tcpu_climbs_where_the_layer_holds_it() -> None:
    a = applications(RISING, RISING, cores=[1.0, 50.0])
    assert Tcpu().choose(a, build_allocation_pool(8, 100), RNG).tolist() == [3, 3]
    # One resource: load 0.5 + 0.5 is already 1; nobody can step.
    assert Tcpu().choose(a, replace(build_allocation_pool(8, 100), sick=np.arange(8) >= 1), RNG).tolist() == [0, 0]
    # Load may grow by 0.3889 = 0.889 - 0.5: the one with more cores goes all the way, step by step, the other stays.
    two = applications([1.0, 2.0], [1.0, 2.0], cores=[1.0, 50.0], compute_s=[5.0, 5.0], volume=100.0)
    # stress: 100/105 = 0.952, 2 * 50/55 = 1.818; pool of 2 available
    pool = build_allocation_pool(3, 100)
    assert Tcpu().choose(two, pool, RNG).tolist() == [0, 1]


def test_tcpu_beside_a_full_layer_stays_at_n_sys() -> None:
    a = applications(RISING)
    running = Running(8, a.counts)
    assert Tcpu().choose_one(a, running, build_allocation_pool(8, 100), RNG) == 3
    running.stress = 7.9
    assert Tcpu().choose_one(a, running, build_allocation_pool(8, 100), RNG) == 0


def test_mckp_maximises_the_sum() -> None:
    a = applications(RISING, FALLING, [1.0, 5.0, 5.5, 6.0])
    # 8 resources: 8 cannot be granted beside two others; 4 + 1 + 2 gives 4 + 8 + 5
    assert Mckp().choose(a, build_allocation_pool(8, 100), RNG).tolist() == [2, 0, 1]
    straight = applications(RISING, FALLING, [1.0, 5.0, 5.5, 6.0], direct=[np.nan, 1.0, 4.9])
    assert MckpDirect().choose(straight, build_allocation_pool(8, 100), RNG).tolist() == [2, 0, 1]
    assert MckpDirect().choose(straight, build_allocation_pool(2, 100), RNG).tolist() == [0, 0, -1]


def test_mckp_shares_only_when_nothing_fits() -> None:
    a = applications(*[RISING] * 5)
    assert Mckp().choose(a, build_allocation_pool(5, 100), RNG).tolist() == [0] * 5
    assert Mckp().choose(a, build_allocation_pool(4, 100), RNG).tolist() == [0] * 5
    assert Mckp(default=2).choose(a, build_allocation_pool(4, 100), RNG).tolist() == [1] * 5
    placed = (
        find_registered_policy("mckp+greedy-non-clairvoyant").decide(a, build_allocation_pool(5, 100), RNG).resources
    )
    assert sorted(placed[placed >= 0].tolist()) == list(range(5))


def test_mckp_may_ask_for_counts_that_divide_the_nodes() -> None:
    a = applications(RISING, RISING, nodes=[6, 0])
    assert Mckp().choose(a, build_allocation_pool(16, 100), RNG).tolist() == [3, 3]
    assert Mckp(dividing=True).choose(a, build_allocation_pool(16, 100), RNG).tolist() == [1, 3]


def test_mckp_gives_one_more_what_is_free() -> None:
    a = applications(RISING)
    running, pool = Running(8, a.counts), build_allocation_pool(8, 100)
    assert Mckp().choose_one(a, running, pool, RNG) == 3
    running.users[:5] = 1
    assert Mckp().choose_one(a, running, pool, RNG) == 1
    running.users[:] = 1
    assert Mckp().choose_one(a, running, pool, RNG) == 0
    straight = applications(RISING, direct=[0.5])
    assert MckpDirect().choose_one(straight, running, pool, RNG) == -1


def test_knapsack_without_a_way() -> None:
    assert choose_mckp_items(np.array([1, 2]), np.array([[1.0, 2.0], [1.0, 2.0]]), 1) is None
    assert choose_mckp_items(np.array([1, 2]), np.zeros((0, 2)), 1) is not None


def test_pools_prefer_what_is_fast_and_little_used() -> None:
    a = applications(*[RISING] * 4)
    pool = replace(build_allocation_pool(3, 100), bandwidth=np.array([5.0, 2.0, 0.9]))
    # 5; 2.5 against 2; 1.67 against 2; 1.67 against 1
    assert Pools().place(a, np.zeros(4, np.int64), pool, RNG)[:, 0].tolist() == [0, 0, 1, 0]
    running = Running(3, a.counts)
    running.users[:] = [2, 0, 0]
    assert Pools().place_one(a.select_rows([0]), 0, running, pool, RNG)[0] == 1


@pytest.mark.parametrize("placing", [WeightedRandomPlacing(), Straw()])
def test_draws_follow_performance(placing: WeightedRandomPlacing | Straw) -> None:
    a = applications(*[RISING] * 4000)
    pool = replace(build_allocation_pool(4, 100), bandwidth=np.array([3.0, 1.0, 0.0, 4.0]))
    placed = placing.place(a, np.zeros(4000, np.int64), pool, np.random.default_rng(3))[:, 0]
    share = np.bincount(placed, minlength=4) / 4000
    assert share == pytest.approx([3 / 8, 1 / 8, 0, 4 / 8], abs=0.03)
    four = placing.place(a.select_rows([0]), np.array([2]), pool, RNG)[0]
    assert four[3] == 2  # of no performance: only where no other is left


def test_only_who_used_a_straw_moves_when_it_goes() -> None:
    a = applications(*[RISING] * 200)
    choice = np.ones(200, np.int64)
    all_there, one_gone = (
        build_allocation_pool(10, 100),
        replace(build_allocation_pool(10, 100), sick=np.arange(10) == 4),
    )
    before = Straw().place(a, choice, all_there, np.random.default_rng(1))
    after = Straw().place(a, choice, one_gone, np.random.default_rng(1))
    used = (before == 4).any(axis=1)
    assert used.any()
    assert (before[~used] == after[~used]).all()
    kept = [set(b[b >= 0]) - {4} <= set(x[x >= 0]) for b, x in zip(before[used], after[used], strict=True)]
    assert all(kept)


def test_every_named_pair_answers() -> None:
    a = applications(RISING, FALLING, direct=[1.0, 1.0])
    for name in list_registered_policies():
        if "+" in name:
            assert (
                len(
                    find_registered_policy(name)
                    .decide(a, build_allocation_pool(8, 100), np.random.default_rng(0))
                    .choice
                )
                == 2
            )


def test_what_no_application_can_have_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="volume"):
        applications(RISING, volume=-1.0)
    with pytest.raises(UsageError, match="bandwidth"):
        applications([0.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", [1, 2]),
        ("behaviour", []),
        ("direct", [0.0]),
        ("direct", [np.inf]),
        ("counts", [1.5, 2.5]),
        ("counts", [1.0, np.nan]),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(UsageError) as refused:
        Applications.from_columns(
            **(
                {"counts": [1, 2], "bandwidth": [[1.0, 2.0]], "volume": [1], "compute_s": [1], "cores": [1]}
                | {field: value}
            )
        )
    assert refused.value.where == field


@pytest.mark.parametrize(("field", "count", "cores"), [("count", -1, 9.0), ("cores", 1, 0.0), ("cores", 1, np.nan)])
def test_a_machine_that_cannot_be_is_refused_by_name(field: str, count: int, cores: float) -> None:
    with pytest.raises(UsageError) as refused:
        build_allocation_pool(count, cores)
    assert refused.value.where == field


@pytest.mark.parametrize("allocation", list(ALLOCATIONS))
def test_an_arrival_is_answered_where_sums_alone_are_kept(allocation: str) -> None:
    a = applications(RISING, nodes=[4], processes=[8], cores=[50.0])
    running = Running.from_sums(np.array([0.9, 0.1, 0.5, 0.2]), np.array([1, 0, 2, 1]), np.array([1, 2, 4, 8]))
    for placing in PLACINGS:
        granted = find_registered_policy(f"{allocation}+{placing}").arrive(
            a, running, build_allocation_pool(4, 100), np.random.default_rng(0)
        )
        mine = granted.resources[0][granted.resources[0] >= 0]
        assert len(set(mine.tolist())) == len(mine) == a.counts[granted.choice[0]] <= 4


def test_size_of_one_more_falls_back_on_the_machine_s_cores() -> None:
    a = applications(RISING, nodes=[4], cores=[25.0])
    running = Running.from_sums(np.full(8, 0.5), np.ones(8, np.int64), np.array([1, 2, 4, 8]))
    assert Size().choose_one(a, running, build_allocation_pool(8, 100), RNG) == 1  # a quarter of the machine: 2 of 8


def test_nobody_leaves_twice() -> None:
    running = Running(4, np.array([1, 2, 4]))
    row = running.enter(applications(RISING), Decision(np.array([0]), np.array([[2]])))
    running.leave(row)
    with pytest.raises(ValueError, match="nothing runs in row"):
        running.leave(row)
    assert (len(running), running.users.sum()) == (0, 0)


def test_what_runs_is_forgotten_when_it_leaves() -> None:
    a = applications(RISING, FALLING, nodes=[3, 0], processes=[5, 0])
    running = Running(8, a.counts, room=1)
    rows = [
        running.enter(a.select_rows([i]), Decision(np.array([1]), np.array([[i, i + 1] + [-1] * 6]))) for i in range(2)
    ]
    assert (running.nodes_used, running.processes_used, running.nodeless, running.processless) == (3, 5, 1, 1)
    assert running.users.tolist() == [1, 2, 1, 0, 0, 0, 0, 0]
    for row in rows:
        running.leave(row)
    assert (running.nodes_used, running.processes_used, running.nodeless, running.processless) == (0, 0, 0, 0)
    assert not running.occupancy.any()
    assert running.stress == pytest.approx(0.0)
