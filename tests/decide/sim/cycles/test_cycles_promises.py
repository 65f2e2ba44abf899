"""The exact loop against small steps of time and the other engine, and what must hold of every run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairlead.decide.sim.cycles.cycle_model import Cycles, Outcome, Sharing, Speeds, Window, simulate_cycles
from fairlead.decide.sim.engine import Changes, Engine, Phases
from stepped_reference import stepped

F64 = NDArray[np.float64]
EXACT = {"rtol": 1e-9, "atol": 1e-9}
TO_THE_END = Window(until_s=np.inf)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What goes into a run, but for the window."""

    cycles: Cycles
    resources: NDArray[np.int64]
    work_s: F64
    count: int
    sharing: Sharing
    speeds: Speeds

    def run(self, window: Window = TO_THE_END, *, logged: bool = False) -> Outcome:
        return simulate_cycles(
            self.cycles,
            self.resources,
            self.work_s,
            self.count,
            window,
            sharing=self.sharing,
            speeds=self.speeds,
            logged=logged,
        )


def made(seed: int, sharing: str = "equal", *, width: int = 3, phases: int = 3, changes: bool = False) -> Case:
    """A random small case; `sharing` equal, weighted, exclusive or queues."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    counts = rng.integers(1, phases + 1, k)
    rows = np.full((k, min(width, n)), -1, np.int64)
    for row in rows:
        used = int(rng.integers(1, len(row) + 1))
        row[:used] = rng.choice(n, used, replace=False)
    cycles = Cycles(
        first_phase=np.concatenate([[0], np.cumsum(counts)]),
        compute_s=rng.uniform(0.2, 6.0, counts.sum()),
        share=rng.uniform(0.1, 1.0, counts.sum()),
        start_s=rng.uniform(0.0, 5.0, k),
        skip_s=rng.uniform(0.0, 1.0, k),
        repeat=False,
    )
    shared = {
        "equal": Sharing.share_equally(k),
        "weighted": Sharing(queue=np.arange(k), weight=rng.uniform(0.1, 4.0, k)),
        "exclusive": Sharing(queue=np.zeros(k, np.int64), weight=np.ones(1)),
        "queues": Sharing(queue=rng.integers(0, 2, k), weight=np.array([1.0, 0.1])),
    }[sharing]
    some = int(rng.integers(1, 5)) if changes else 0
    speeds = Speeds(
        initial=rng.uniform(0.5, 2.0, n) if changes else np.ones(n),
        time_s=np.sort(rng.uniform(0.0, 20.0, some)),
        resource=rng.integers(0, n, some),
        speed=rng.choice([0.3, 0.5, 1.0, 2.0], some),
    )
    return Case(cycles=cycles, resources=rows, work_s=rng.uniform(0.3, 6.0, k), count=n, sharing=shared, speeds=speeds)


SEEDS = st.integers(0, 2**32 - 1)
SHARINGS = st.sampled_from(["equal", "weighted", "exclusive", "queues"])


@pytest.mark.parametrize("sharing", ["equal", "weighted", "exclusive", "queues"])
@pytest.mark.parametrize("changes", [False, True])
def test_small_steps_come_to_the_same_but_for_the_step(sharing: str, changes: bool) -> None:
    step_s = 1 / 512
    for seed in range(3):
        case = made(seed, sharing, phases=2, changes=changes)
        exact = {(int(i), int(p)): (begin, end) for i, p, begin, end in case.run(logged=True).log}
        slow = stepped(case.cycles, case.resources, case.work_s, case.sharing, case.speeds, step_s)
        assert exact.keys() == slow.keys()
        for phase, times in exact.items():
            # Each event before may be late by a step, and a transfer may have been slowed by as much.
            np.testing.assert_allclose(slow[phase], times, rtol=0, atol=3 * step_s * len(exact))


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=st.sampled_from(["equal", "weighted"]), changes=st.booleans())
def test_the_general_engine_says_the_same_of_one_layer(seed: int, sharing: str, changes: bool) -> None:
    """Progressive filling over flows, and virtual time: two ways to the same times."""
    case = made(seed, sharing, changes=changes)
    cycles, p = case.cycles, len(case.cycles.share)
    of = np.repeat(np.arange(len(case.work_s)), np.diff(cycles.first_phase))
    first = np.zeros(p, bool)
    first[cycles.first_phase[:-1]] = True
    delay = np.where(first, cycles.start_s[of] + np.maximum(cycles.compute_s - cycles.skip_s[of], 0), cycles.compute_s)
    rows = case.resources[of]
    phase, place = np.nonzero(rows >= 0)
    n = len(phase)
    engine = Engine(
        case.speeds.initial, Changes(case.speeds.time_s, case.speeds.resource.astype(np.int32), case.speeds.speed)
    )
    engine.add(
        Phases(
            after=np.where(first, -1, np.arange(p) - 1).astype(np.int32),
            delay_s=delay,
            phase=phase.astype(np.int32),
            amount=(case.work_s[of] * cycles.share)[phase],
            weight=case.sharing.weight[case.sharing.queue[of]][phase],
            cap=np.full(n, np.inf),
            crosses=rows[phase, place].astype(np.int32)[:, None],
            cost=np.ones((n, 1)),
        ),
        after_within=True,
    )
    engine.run()
    begun, ended = engine.list_phase_times()
    log = case.run(logged=True).log
    at = log[:, 1].astype(int)
    np.testing.assert_allclose(log[:, 2], begun[at], **EXACT)
    np.testing.assert_allclose(log[:, 3], ended[at], **EXACT)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=SHARINGS, power=st.integers(-20, 20))
def test_all_times_scaled_scale_what_comes_out_to_the_bit(seed: int, sharing: str, power: int) -> None:
    case, by = made(seed, sharing, changes=True), 2.0**power
    cycles, speeds = case.cycles, case.speeds
    scaled = replace(
        case,
        work_s=case.work_s * by,
        speeds=replace(speeds, time_s=speeds.time_s * by),
        cycles=replace(cycles, compute_s=cycles.compute_s * by, start_s=cycles.start_s * by, skip_s=cycles.skip_s * by),
    )
    window = Window(from_s=2.0, until_s=15.0)
    one, other = case.run(window), scaled.run(Window(from_s=2.0 * by, until_s=15.0 * by))
    for name in ("io_s", "waiting_s", "busy_s", "end_s"):
        np.testing.assert_array_equal(getattr(one, name) * by, getattr(other, name))
    np.testing.assert_array_equal(one.phases, other.phases)
    assert one.events == other.events


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=SHARINGS, faster=st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_resources_twice_as_fast_are_half_the_work_to_the_bit(seed: int, sharing: str, faster: float) -> None:
    case = made(seed, sharing)
    fast = replace(case, speeds=replace(case.speeds, initial=case.speeds.initial * faster))
    less = replace(case, work_s=case.work_s / faster)
    np.testing.assert_array_equal(fast.run().end_s, less.run().end_s)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=SHARINGS)
def test_names_of_resources_mean_nothing(seed: int, sharing: str) -> None:
    case = made(seed, sharing, changes=True)
    new = np.random.default_rng(seed).permutation(case.count)
    speeds = case.speeds
    initial = np.empty(case.count)
    initial[new] = speeds.initial
    renamed = replace(
        case,
        resources=np.where(case.resources >= 0, new[case.resources], -1),
        speeds=replace(speeds, initial=initial, resource=new[speeds.resource]),
    )
    one, other = case.run(), renamed.run()
    np.testing.assert_allclose(one.end_s, other.end_s, **EXACT)
    np.testing.assert_allclose(one.busy_s, other.busy_s[new], **EXACT)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=SHARINGS)
def test_names_of_applications_mean_nothing(seed: int, sharing: str) -> None:
    """Nobody arrives at the same time as another here: then order of arrival is no matter of numbers either."""
    case = made(seed, sharing, changes=True)
    order = np.random.default_rng(seed).permutation(len(case.work_s))
    cycles, spans = case.cycles, np.diff(case.cycles.first_phase)
    phases = np.concatenate([np.arange(cycles.first_phase[i], cycles.first_phase[i + 1]) for i in order])
    other = replace(
        case,
        resources=case.resources[order],
        work_s=case.work_s[order],
        sharing=replace(case.sharing, queue=case.sharing.queue[order]),
        cycles=replace(
            cycles,
            first_phase=np.concatenate([[0], np.cumsum(spans[order])]),
            compute_s=cycles.compute_s[phases],
            share=cycles.share[phases],
            start_s=cycles.start_s[order],
            skip_s=cycles.skip_s[order],
        ),
    ).run()
    np.testing.assert_allclose(case.run().end_s[order], other.end_s, **EXACT)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=st.sampled_from(["equal", "weighted"]), part=st.floats(0.05, 0.95))
def test_io_split_in_two_without_a_pause_is_the_same_io(seed: int, sharing: str, part: float) -> None:
    """Where each application is on one resource: on several, the end of the first part would hold up the second."""
    case = made(seed, sharing, width=1, changes=True)
    cycles = case.cycles
    split = replace(
        case,
        cycles=replace(
            cycles,
            first_phase=2 * cycles.first_phase,
            compute_s=np.stack([cycles.compute_s, np.zeros_like(cycles.compute_s)], axis=1).reshape(-1),
            share=np.stack([cycles.share * part, cycles.share * (1 - part)], axis=1).reshape(-1),
        ),
    ).run()
    whole = case.run()
    np.testing.assert_allclose(split.end_s, whole.end_s, **EXACT)
    np.testing.assert_allclose(split.io_s, whole.io_s, **EXACT)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=st.sampled_from(["equal", "weighted", "exclusive"]))
def test_one_more_application_speeds_up_nobody(seed: int, sharing: str) -> None:
    """On one resource and with one phase each: a longer chain may be pushed out of another's way."""
    case = made(seed, sharing, width=1, phases=1, changes=True)
    case = replace(case, resources=np.zeros_like(case.resources))
    k = len(case.work_s)
    if k < 2:
        return
    few = replace(
        case,
        resources=case.resources[:-1],
        work_s=case.work_s[:-1],
        sharing=replace(case.sharing, queue=case.sharing.queue[:-1]),
        cycles=replace(
            case.cycles,
            first_phase=case.cycles.first_phase[:-1],
            compute_s=case.cycles.compute_s[:-1],
            share=case.cycles.share[:-1],
            start_s=case.cycles.start_s[:-1],
            skip_s=case.cycles.skip_s[:-1],
        ),
    )
    assert (case.run().end_s[: k - 1] >= few.run().end_s * (1 - 1e-12)).all()


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, sharing=SHARINGS)
def test_no_work_is_lost_and_nobody_is_faster_than_alone(seed: int, sharing: str) -> None:
    case = made(seed, sharing)
    out = case.run()
    cycles = case.cycles
    moved = case.work_s * np.add.reduceat(cycles.share, cycles.first_phase[:-1])
    given_ = case.resources >= 0
    asked = np.bincount(case.resources[given_], np.repeat(moved, given_.sum(axis=1)), case.count)
    np.testing.assert_allclose(out.busy_s, asked, **EXACT)
    assert (out.io_s >= moved * (1 - 1e-12)).all()
    np.testing.assert_allclose(out.io_s, out.waiting_s, **EXACT)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, cut=st.floats(0.0, 40.0), repeat=st.booleans())
def test_two_windows_add_up_to_one(seed: int, cut: float, repeat: bool) -> None:
    case = made(seed, "queues", changes=True)
    case = replace(case, cycles=replace(case.cycles, repeat=repeat))
    whole = case.run(Window(until_s=50.0))
    one, other = case.run(Window(until_s=cut)), case.run(Window(from_s=cut, until_s=50.0))
    for name in ("waiting_s", "busy_s"):
        np.testing.assert_allclose(getattr(one, name) + getattr(other, name), getattr(whole, name), **EXACT)
    assert (one.phases + other.phases <= whole.phases).all()
    assert (one.phases + other.phases >= whole.phases - 1).all()  # the one that the cut goes through


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, sharing=SHARINGS)
def test_the_same_run_gives_the_same_bits(seed: int, sharing: str) -> None:
    case = made(seed, sharing, changes=True)
    one, other = case.run(logged=True), case.run(logged=True)
    np.testing.assert_array_equal(one.log, other.log)
    np.testing.assert_array_equal(one.busy_s, other.busy_s)
