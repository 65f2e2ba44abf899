"""Replays against cases done by hand, the one-layer simulator, and what may not change an answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Site, build_uniform_site
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant
from fairlead.decide.sim.cycles.cycle_model import Cycles, Window, simulate_cycles
from fairlead.decide.sim.engine import Changes, Engine
from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.platform import build_small_platform
from fairlead.decide.sim.replay.disturbances import find_disturbance_sickness
from fairlead.decide.sim.replay.jobs import Jobs, ReplayResult
from fairlead.decide.sim.replay.replay import replay_jobs

MACHINE = build_small_platform()
"""64 nodes, 16 to each of 4 forwarders, 8 targets, 1 metadata server of 8,000 operations/s."""
TIGHT = {"rtol": 1e-9, "atol": 1e-9}


class Given:
    """Grants each job what it was given by its number, and keeps what the policy was shown."""

    def __init__(self, grants: dict[int, Grant] | None = None) -> None:
        self.grants, self.seen = grants or {}, []

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:  # noqa: ARG002
        """By `job_id`."""
        fwd, tgt = site.forwarders, site.targets
        self.seen.append(
            {
                "jobs": fwd.jobs.copy(),
                "occupancy": fwd.occupancy.copy(),
                "reserved": fwd.reserved.copy(),
                "sick": fwd.sick.copy(),
                "load": fwd.load.copy(),
                "targets": tgt.jobs.copy(),
                "bad": tgt.sick.copy(),
            }
        )
        return self.grants.get(int(expected.job_id), Grant())


def made(start: list[float], volume: list[list[float]], **more: object) -> Jobs:
    """Jobs of one node each that compute nothing; `volume`: of each job's phases."""
    j = len(start)
    flat = np.array([v for own in volume for v in own], float)
    columns: dict[str, object] = {
        "start_s": np.array(start, float),
        "first_phase": np.cumsum([0, *map(len, volume)]),
        "compute_s": np.zeros(len(flat)),
        "volume": flat,
        "operations": np.zeros(len(flat)),
        "tail_s": np.zeros(j),
        "nodes": np.ones(j, np.int64),
        "cores": np.ones(j),
        "first_node": np.zeros(j, np.int64),
        "client_rate": np.full(j, np.inf),
        "forwarder_cost": np.full(j, 0.01),
        "target_cost": np.full(j, 0.001),
        "most_targets": np.ones(j, np.int64),
        "behaviour": np.full(j, -1),
        "basis": np.zeros(j, np.int64),
    }
    return Jobs(**(columns | {k: np.asarray(v) for k, v in more.items()}))  # type: ignore[arg-type]


def drawn(count: int, seed: int) -> tuple[Jobs, dict[int, Grant]]:
    """Jobs that meet each other on a small machine, each with a grant of its own."""
    rng = np.random.default_rng(seed)
    phases = rng.integers(1, 5, count)
    jobs = made(
        np.sort(rng.uniform(0, 3.0 * count, count)).tolist(),
        [list(rng.uniform(20, 800, n)) for n in phases],
        compute_s=rng.uniform(0, 8, phases.sum()),
        tail_s=rng.uniform(0, 2, count),
        nodes=rng.integers(8, 17, count),
        most_targets=np.full(count, 8),
        forwarder_cost=rng.uniform(0.004, 0.03, count),
        target_cost=rng.uniform(0.004, 0.03, count),
        client_rate=rng.uniform(50, 900, count),
    )
    grants = {
        j: Grant(
            forwarders=tuple(rng.permutation(4)[: rng.integers(1, 5)].tolist()),
            targets=tuple(rng.permutation(8)[: rng.integers(1, 9)].tolist()),
        )
        for j in range(count)
    }
    return jobs, grants


def test_a_job_alone_is_as_fast_as_its_slower_layer() -> None:
    jobs = made([0.0], [[120.0, 30.0]], compute_s=[10.0, 1.0], tail_s=[2.0], target_cost=[1 / 30], most_targets=[4])
    out = replay_jobs(jobs, MACHINE, Given())
    assert out.io_s == pytest.approx([1.5])  # 100/s through one forwarder, though four targets take 120/s
    assert out.end_s == pytest.approx([14.5])
    assert (out.forwarders.tolist(), out.targets.tolist()) == ([1], [4])
    assert out.granted_s == pytest.approx([1.5])
    assert out.alone_s == pytest.approx([1.5])


def test_two_jobs_share_a_forwarder_from_when_the_second_comes() -> None:
    out = replay_jobs(made([0.0, 0.5], [[100.0], [100.0]]), MACHINE, Given())
    np.testing.assert_allclose(out.end_s, [1.5, 2.0], **TIGHT)


def test_three_jobs_over_two_layers_are_filled_progressively() -> None:
    """One is held back by its target, so another gets what it leaves of the forwarder: 2, 8 and 2 of 10 and 4."""
    jobs = made([0.0] * 3, [[20.0], [80.0], [20.0]], forwarder_cost=[0.1] * 3, target_cost=[0.25, 0.0, 0.25])
    grants = {
        0: Grant(forwarders=(0,), targets=(0,)),
        1: Grant(forwarders=(0,), targets=(1,)),
        2: Grant(forwarders=(1,), targets=(0,)),
    }
    out = replay_jobs(jobs, MACHINE, Given(grants))
    np.testing.assert_allclose(out.end_s, 10.0, **TIGHT)


def test_the_static_map_sends_as_much_through_a_forwarder_as_nodes_are_behind_it() -> None:
    """Nodes 14 to 21: two behind the first forwarder, six behind the second, which takes three quarters of 100."""
    out = replay_jobs(made([0.0], [[100.0]], nodes=[8], first_node=[14], most_targets=[8]), MACHINE, Given())
    np.testing.assert_allclose(out.io_s, 0.75, **TIGHT)
    assert out.forwarders.tolist() == [2]


@pytest.mark.parametrize(("forwarder", "target", "rate"), [(100.0, 30.0, 120.0), (30.0, 100.0, 90.0)])
def test_three_forwarders_and_four_targets_are_all_used_to_the_full(
    forwarder: float, target: float, rate: float
) -> None:
    jobs = made([0.0], [[360.0]], nodes=[3], most_targets=[4], forwarder_cost=[1 / forwarder], target_cost=[1 / target])
    out = replay_jobs(jobs, MACHINE, Given({0: Grant(forwarders=(3, 1, 0), targets=(7, 5, 2, 0))}))
    np.testing.assert_allclose(out.io_s, 360.0 / rate, **TIGHT)


def test_a_job_cannot_be_faster_than_itself() -> None:
    jobs = made([0.0], [[120.0, 120.0]], client_rate=[40.0], phase_rate=[np.inf, 20.0])
    out = replay_jobs(jobs, MACHINE, Given())
    np.testing.assert_allclose([out.io_s[0], out.granted_s[0], out.alone_s[0]], 9.0, **TIGHT)


def test_a_phase_of_operations_is_no_faster_than_its_own_rate() -> None:
    """8,000 operations a second could be done; the second phase does 2,000."""
    jobs = made([0.0], [[0.0, 0.0]], operations=[8000.0, 8000.0], phase_rate=[np.inf, 2000.0])
    out = replay_jobs(jobs, MACHINE, Given())
    np.testing.assert_allclose([out.io_s[0], out.granted_s[0], out.alone_s[0]], 5.0, **TIGHT)


def test_a_forwarder_that_never_comes_back_holds_its_jobs_for_good() -> None:
    jobs = made([0.0, 0.0], [[100.0], [100.0]], first_node=[0, 16])
    for kind in ("dead", "degraded"):
        faults = [Fault(component="forwarder", number=0, from_s=0.5, to_s=np.inf, kind=kind, factor=0.5)]
        end = replay_jobs(jobs, MACHINE, Given(), faults=faults).end_s
        np.testing.assert_allclose(end, [np.nan if kind == "dead" else 1.5, 1.0], **TIGHT)


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("factor", {"factor": -1.0}),
        ("factor", {"factor": np.nan}),
        ("period_s", {"kind": "flapping", "period_s": 0.0}),
        ("to_s", {"kind": "rebuild", "to_s": np.inf}),
    ],
)
def test_a_fault_that_cannot_be_is_refused_by_its_field(field: str, fault: dict[str, object]) -> None:
    faults = [Fault(**({"component": "target", "number": 0, "from_s": 0.0, "to_s": 9.0} | fault))]  # type: ignore[arg-type]
    with pytest.raises(UsageError) as refused:
        replay_jobs(made([0.0], [[1.0]]), MACHINE, Given(), faults=faults)
    assert refused.value.where == field


@pytest.mark.parametrize("until_s", [np.nan, -1.0])
def test_an_end_that_is_no_time_is_refused(until_s: float) -> None:
    with pytest.raises(UsageError) as refused:
        replay_jobs(made([0.0], [[1.0]]), MACHINE, Given(), until_s=until_s)
    assert refused.value.where == "until_s"


def test_what_is_contended_goes_by_weight() -> None:
    jobs = made([0.0, 0.0], [[25.0], [75.0]], weight=[1.0, 3.0])
    np.testing.assert_allclose(replay_jobs(jobs, MACHINE, Given()).end_s, 1.0, **TIGHT)


def test_operations_share_the_metadata_server() -> None:
    """One node alone does 8,000 a second (4 processes, 0.5 ms each), as much as the server; two take twice as long."""
    jobs = made([0.0, 0.0], [[0.0], [0.0]], operations=[8000.0, 8000.0])
    out = replay_jobs(jobs, MACHINE, Given({1: Grant(forwarders=(3,))}))
    np.testing.assert_allclose(out.io_s, 2.0, **TIGHT)
    np.testing.assert_allclose(out.alone_s, 1.0, **TIGHT)


def test_operations_hold_the_forwarder_against_data() -> None:
    """16 workers, half of 0.5 ms an operation: 64,000/s; with no slower server a storm takes half of the forwarder."""
    machine = build_small_platform(mdops=1e9)
    jobs = made([0.0, 0.0], [[0.0], [100.0]], operations=[320_000.0, 0.0], nodes=[16, 1])
    grants = {0: Grant(forwarders=(0,)), 1: Grant(forwarders=(0,))}
    beside = replay_jobs(jobs, machine, Given(grants))
    apart = replay_jobs(jobs, machine, Given(grants | {1: Grant(forwarders=(1,))}))
    assert [apart.io_s[1], beside.io_s[1]] == pytest.approx([1.0, 2.0])


def test_servers_limit_their_targets_when_asked_to() -> None:
    machine = build_small_platform(server_bandwidth=10.0)
    jobs, grants = made([0.0], [[40.0]], most_targets=[2]), {0: Grant(targets=(0, 1))}
    assert replay_jobs(jobs, machine, Given(grants)).io_s == pytest.approx([0.4])
    assert replay_jobs(jobs, machine, Given(grants), servers=True).io_s == pytest.approx([4.0])


@pytest.mark.parametrize("seed", range(4))
def test_one_layer_is_the_one_layer_simulator(seed: int) -> None:
    """Without forwarders and without limits of their own, jobs do what `sim.cycles` says (rates share equally)."""
    rng = np.random.default_rng(seed)
    machine = build_small_platform(forwarders=0)
    k, phases = 12, rng.integers(1, 6, 12)
    start, cost, volume = np.sort(rng.uniform(0, 30, k)), rng.uniform(0.01, 0.1, k), rng.uniform(50, 500, k)
    compute, granted = rng.uniform(5, 40, k), rng.integers(1, 9, k)
    jobs = made(
        start.tolist(),
        [[volume[i] / n] * n for i, n in enumerate(phases)],
        target_cost=cost,
        compute_s=np.repeat(compute / phases, phases),
        most_targets=np.full(k, 8),
    )
    places = np.full((k, 8), -1)
    for i in range(k):
        places[i, : granted[i]] = rng.permutation(8)[: granted[i]]
    grants = {i: Grant(targets=tuple(places[i, : granted[i]].tolist())) for i in range(k)}
    cycles = replace(Cycles.build_equal(phases, compute, repeat=False), start_s=start)
    wanted = simulate_cycles(cycles, places, volume * cost / granted, 8, Window(until_s=1e6))
    out = replay_jobs(jobs, machine, Given(grants))
    np.testing.assert_allclose(out.end_s, wanted.end_s, **TIGHT)


def stepped(jobs: Jobs, grants: dict[int, Grant], step_s: float) -> list[float]:
    """When jobs end, in steps of time with shares filled anew in each: slow, and nothing of the engine in it."""
    lanes = []  # job, forwarder, target, part of the data, weight
    for j, grant in grants.items():
        nf, nt = len(grant.forwarders), len(grant.targets)
        for i, f in enumerate(grant.forwarders):
            for k, t in enumerate(grant.targets):
                part = min((i + 1) / nf, (k + 1) / nt) - max(i / nf, k / nt)
                if part > 1e-12:
                    dearest = max(jobs.forwarder_cost[j], jobs.target_cost[j])
                    lanes.append((j, f, 4 + t, part, part * max(nf, nt) / dearest))
    at, end, now = list(jobs.first_phase[:-1]), {}, 0.0
    due = {j: jobs.start_s[j] + jobs.compute_s[at[j]] for j in range(len(jobs))}
    left = [np.inf] * len(lanes)
    moving: set[int] = set()
    while len(end) < len(jobs):
        for j in [j for j in due if due[j] <= now]:
            if at[j] == jobs.first_phase[j + 1]:
                end[j] = due.pop(j)
                continue
            due.pop(j)
            moving.add(j)
            for n, lane in enumerate(lanes):
                if lane[0] == j:
                    left[n] = jobs.volume[at[j]] * lane[3]
        rate, room = [0.0] * len(lanes), [1.0] * 12
        cost = [{lane[1]: jobs.forwarder_cost[lane[0]], lane[2]: jobs.target_cost[lane[0]]} for lane in lanes]
        rising = {n for n, lane in enumerate(lanes) if lane[0] in moving and left[n] > 0}
        while rising:
            need = [sum(lanes[n][4] * cost[n].get(r, 0.0) for n in rising) for r in range(12)]
            rise = min(room[r] / need[r] for r in range(12) if need[r] > 0)
            rise = min([rise, *((jobs.client_rate[lanes[n][0]] * lanes[n][3] - rate[n]) / lanes[n][4] for n in rising)])
            for n in rising:
                rate[n] += rise * lanes[n][4]
            room = [max(left_of - rise * used, 0.0) for left_of, used in zip(room, need, strict=True)]
            rising = {
                n
                for n in rising
                if all(room[r] > 1e-9 for r in cost[n])
                and rate[n] < jobs.client_rate[lanes[n][0]] * lanes[n][3] * (1 - 1e-9)
            }
        left = [amount - rate[n] * step_s for n, amount in enumerate(left)]
        now += step_s
        for j in [j for j in moving if all(left[n] <= 0 for n, lane in enumerate(lanes) if lane[0] == j)]:
            moving.remove(j)
            at[j] += 1
            more = at[j] < jobs.first_phase[j + 1]
            due[j] = now + (jobs.compute_s[at[j]] if more else jobs.tail_s[j])
    return [end[j] for j in range(len(jobs))]


@pytest.mark.parametrize("seed", [11, 12])
def test_small_steps_of_time_come_to_the_same(seed: int) -> None:
    jobs, grants = drawn(5, seed)
    jobs = replace(jobs, volume=jobs.volume / 4)
    wanted = stepped(jobs, grants, 0.004)
    np.testing.assert_allclose(replay_jobs(jobs, MACHINE, Given(grants)).end_s, wanted, atol=0.004 * 20, rtol=0)


def moved_s(out: ReplayResult, jobs: Jobs, until: float | None = None) -> tuple[float, float]:
    """Seconds forwarders and targets were busy, all together."""
    span = (np.nanmax(out.end_s) if until is None else until) - jobs.start_s[0]
    return float(out.forwarder_busy.sum() * span), float(out.target_busy.sum() * span)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_byte_is_moved_once(seed: int) -> None:
    jobs, grants = drawn(60, seed)
    of_job = np.repeat(np.arange(60), np.diff(jobs.first_phase))
    volume = np.bincount(of_job, jobs.volume)
    forwarders, targets = moved_s(replay_jobs(jobs, MACHINE, Given(grants)), jobs)
    np.testing.assert_allclose(forwarders, (volume * jobs.forwarder_cost).sum(), **TIGHT)
    np.testing.assert_allclose(targets, (volume * jobs.target_cost).sum(), **TIGHT)


def test_what_has_not_ended_counts_as_far_as_it_got() -> None:
    jobs = made([0.0, 0.25, 9.0], [[100.0, 300.0], [25.0], [1.0]])
    out = replay_jobs(jobs, MACHINE, Given({1: Grant(forwarders=(1,))}), until_s=2.0)
    assert np.isnan(out.end_s).tolist() == [True, False, True]
    assert np.isnan(out.io_s).tolist() == [True, False, True]
    np.testing.assert_allclose(moved_s(out, jobs, 2.0), [2.0 + 0.25, 0.2 + 0.025], **TIGHT)
    assert out.forwarders.tolist() == [1, 1, 0]


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_names_of_components_do_not_matter(seed: int) -> None:
    jobs, grants = drawn(60, seed)
    fwd, tgt = np.random.default_rng(5).permutation(4), np.random.default_rng(6).permutation(8)
    other = {
        j: Grant(forwarders=tuple(fwd[list(g.forwarders)].tolist()), targets=tuple(tgt[list(g.targets)].tolist()))
        for j, g in grants.items()
    }
    # The node's own forwarders are granted in parts of its nodes: keep clear of them by an even map.
    even = replace(MACHINE, default_forwarder=np.zeros(64, np.int64))
    jobs = replace(jobs, nodes=np.full(60, 16))
    one, two = (replay_jobs(jobs, even, Given(g)) for g in (grants, other))
    np.testing.assert_allclose(one.end_s, two.end_s, **TIGHT)
    np.testing.assert_allclose(one.forwarder_busy, two.forwarder_busy[fwd], **TIGHT)


def test_twice_the_time_and_twice_the_bytes_is_the_same_story() -> None:
    jobs, grants = drawn(80, 3)
    double = replace(
        jobs, start_s=jobs.start_s * 2, compute_s=jobs.compute_s * 2, volume=jobs.volume * 2, tail_s=jobs.tail_s * 2
    )
    one, two = replay_jobs(jobs, MACHINE, Given(grants)), replay_jobs(double, MACHINE, Given(grants))
    np.testing.assert_allclose(one.end_s * 2, two.end_s, **TIGHT)


def test_a_phase_in_two_halves_is_the_same_phase() -> None:
    jobs, grants = drawn(60, 4)
    halves = replace(
        jobs,
        first_phase=jobs.first_phase * 2,
        volume=np.repeat(jobs.volume / 2, 2),
        compute_s=np.column_stack([jobs.compute_s, np.zeros(len(jobs.compute_s))]).ravel(),
        operations=np.repeat(jobs.operations, 2),
    )
    one = replay_jobs(
        jobs,
        MACHINE,
        Given({j: replace(g, targets=g.targets[:1], forwarders=g.forwarders[:1]) for j, g in grants.items()}),
    )
    two = replay_jobs(
        halves,
        MACHINE,
        Given({j: replace(g, targets=g.targets[:1], forwarders=g.forwarders[:1]) for j, g in grants.items()}),
    )
    np.testing.assert_allclose(one.end_s, two.end_s, **TIGHT)


def test_the_same_replay_gives_the_same_bits() -> None:
    jobs = replace(drawn(60, 5)[0], first_node=np.full(60, -1))
    one, again, other = (replay_jobs(jobs, MACHINE, Given(), seed=seed) for seed in (7, 7, 8))
    assert one.end_s.tobytes() == again.end_s.tobytes()
    assert one.events == again.events
    assert one.end_s.tobytes() != other.end_s.tobytes()  # other nodes, so other forwarders


def test_forgetting_what_has_ended_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, grants = drawn(300, 6)
    forgets = replay_jobs(jobs, MACHINE, Given(grants))
    monkeypatch.setattr(Engine, "room", property(lambda _: (1 << 30, 1 << 30)))
    keeps = replay_jobs(jobs, MACHINE, Given(grants))
    assert forgets.end_s.tobytes() == keeps.end_s.tobytes()
    assert forgets.io_s.tobytes() == keeps.io_s.tobytes()


def test_a_dead_forwarder_holds_its_jobs_up_until_it_is_back() -> None:
    dead = Fault(component="forwarder", number=0, from_s=0.5, to_s=2.5, kind="dead")
    out = replay_jobs(made([0.0], [[100.0]]), MACHINE, Given(), faults=[dead])
    np.testing.assert_allclose(out.end_s, 3.0, **TIGHT)
    np.testing.assert_allclose(out.alone_s, 1.0, **TIGHT)


def test_a_fault_is_known_when_it_is_known() -> None:
    slow = Fault(component="forwarder", number=2, from_s=1.0, to_s=4.0, factor=0.5)
    jobs = made([0.0, 2.0, 3.5, 5.0], [[1.0]] * 4)
    for known, sick in ((0.0, [False, True, True, False]), (2.0, [False, False, True, False]), (np.inf, [False] * 4)):
        policy = Given()
        replay_jobs(jobs, MACHINE, policy, faults=[slow], known_after_s=known)
        assert [bool(seen["sick"][2]) for seen in policy.seen] == sick


def test_a_sick_server_makes_its_targets_sick_and_spans_join() -> None:
    faults = [
        Fault(component="server", number=1, from_s=1.0, to_s=4.0),
        Fault(component="target", number=2, from_s=3.0, to_s=6.0),
    ]
    told = find_disturbance_sickness(MACHINE, faults, 0.0)
    of_second = [
        (t, s)
        for t, layer, n, s in zip(told.time_s, told.layer, told.number, told.sick, strict=True)
        if layer == "target" and n == 2
    ]
    assert of_second == [(1.0, True), (6.0, False)]
    assert set(zip(told.layer, told.number.tolist(), strict=True)) == {("server", 1), ("target", 2), ("target", 3)}


def test_noise_and_faults_multiply() -> None:
    """A quarter of the forwarder from 0.5 to 4.5: half by noise, half by a fault."""
    half = Fault(component="forwarder", number=0, from_s=0.5, to_s=4.5, factor=0.5)
    noise = Changes(np.array([0.0, 0.5, 4.5]), np.zeros(3, np.int32), np.array([1.0, 0.5, 1.0]))
    out = replay_jobs(made([0.0], [[200.0]]), MACHINE, Given(), faults=[half], noise=noise)
    np.testing.assert_allclose(out.end_s, 5.0, **TIGHT)


def test_the_policy_sees_who_is_there_and_whoever_ends_is_gone() -> None:
    jobs = made([0.0, 0.5, 50.0], [[100.0], [50.0], [1.0]], compute_s=[1.0, 0.0, 0.0])
    policy = Given({0: Grant(forwarders=(1,), isolated=True), 1: Grant(forwarders=(2,))})
    replay_jobs(jobs, MACHINE, policy)
    first, second, third = policy.seen
    assert not first["jobs"].any()
    assert second["jobs"].tolist() == [0, 1, 0, 0]
    assert second["reserved"].tolist() == [False, True, False, False]
    assert second["occupancy"].tolist() == [0.0, 0.5, 0.0, 0.0]  # a second of I/O for one of computing
    assert second["targets"].sum() == 1
    for name in ("jobs", "occupancy", "reserved", "load", "targets"):
        assert not third[name].any()


def test_load_is_what_is_used_now() -> None:
    jobs = made([0.0, 0.5], [[100.0], [1.0]], client_rate=[25.0, np.inf])
    policy = Given()
    replay_jobs(jobs, MACHINE, policy)
    assert policy.seen[1]["load"].tolist() == [0.25, 0.0, 0.0, 0.0]


def test_the_policy_hears_what_is_expected_not_what_is_true() -> None:
    jobs = made([0.0, 0.5], [[100.0], [1.0]])
    policy = Given()
    replay_jobs(jobs, MACHINE, policy, expected_of=lambda j: ExpectedJob(job_id=str(j)))
    assert policy.seen[1]["jobs"][0] == 1
    assert policy.seen[1]["occupancy"][0] == 0.0


def test_jobs_without_a_grant_take_the_next_targets_in_turn() -> None:
    jobs = made([0.0, 0.1, 0.2], [[10.0]] * 3, most_targets=[3, 8, 1], tail_s=[9.0] * 3)
    policy = Given()
    out = replay_jobs(jobs, MACHINE, policy, default_targets=3)
    assert out.targets.tolist() == [3, 3, 1]
    assert policy.seen[2]["targets"].tolist() == [1, 1, 1, 1, 1, 1, 0, 0]


def test_an_unfit_job_or_grant_is_refused_by_name() -> None:
    jobs = made([0.0], [[1.0]])
    with pytest.raises(UsageError, match="nodes is 65"):
        replay_jobs(replace(jobs, nodes=np.array([65])), MACHINE, Given())
    with pytest.raises(UsageError, match="volume is negative"):
        replay_jobs(replace(jobs, volume=np.array([-1.0])), MACHINE, Given())
    with pytest.raises(UsageError, match="the phases of jobs"):
        replay_jobs(replace(jobs, first_phase=np.array([0, 2])), MACHINE, Given())
    with pytest.raises(UsageError, match="the rate of a job"):
        replay_jobs(replace(jobs, client_rate=np.array([np.nan])), MACHINE, Given())
    with pytest.raises(UsageError, match="forwarder twice, or one beyond the 4"):
        replay_jobs(jobs, MACHINE, Given({0: Grant(forwarders=(4,))}))
    with pytest.raises(UsageError, match="map of nodes"):
        replay_jobs(jobs, replace(MACHINE, default_forwarder=np.full(64, 9)), Given())
    with pytest.raises(UsageError, match="background noise"):
        replay_jobs(jobs, MACHINE, Given(), noise=Changes(np.zeros(1), np.full(1, 999, np.int32), np.ones(1)))


def test_nobody_and_nothing() -> None:
    nobody = replay_jobs(made([], []), build_uniform_site(name="none", nodes=1), Given())
    assert len(nobody.end_s) == 0
    assert nobody.events == 0
    still = replay_jobs(made([3.0], [[0.0]], compute_s=[4.0]), MACHINE, Given())
    assert [*still.end_s, *still.io_s, *still.alone_s] == [7.0, 0.0, 0.0]
