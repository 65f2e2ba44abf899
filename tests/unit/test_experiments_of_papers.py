"""Experiments of other papers: their pieces against what can be worked out by hand, and what they tell."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.policies.allocation.contract import Applications, Pool
from fairlead.policies.placement.files import LeastOpen, RoundRobin
from fairlead.policies.requests.fluid import Streams, sharing
from fairlead.sim.experiments import mckp, set10, sunway
from fairlead.sim.workloads.profiles import forge


def nothing(done: int, out_of: int) -> None:
    assert 0 < done <= out_of


def test_pools_reach_what_the_rule_says() -> None:
    # 160 files by max_perf / (open + 1): none takes longer than about 160 GB over 2,600 MB/s; round robin waits for
    # 20 files on the target of 100 MB/s.
    assert sunway.write(RoundRobin(), 160).total_s == pytest.approx(20 * 1024 / 100)
    aware = sunway.write(LeastOpen(), 160)
    assert np.bincount(aware.target).tolist() == [31, 19, 31, 12, 18, 6, 31, 12]
    longest = max(n * 1024 / perf for n, perf in zip(np.bincount(aware.target), sunway.MAX_PERF_MB, strict=True))
    assert aware.total_s == pytest.approx(longest)


def test_a_closed_file_no_longer_counts() -> None:
    # One file at a time: each goes to the fastest target, which is free again.
    alone = sunway.write(LeastOpen(), 5, apart_s=10.0)
    assert alone.target.tolist() == [0] * 5
    assert (alone.closed_s - alone.opened_s).tolist() == pytest.approx([1024 / 500] * 5)


def test_sunway_tells_what_was_published() -> None:
    told = sunway.compared(seed=1, quick=True, tell=nothing)
    held = [line.held for line in told.lines if line.held is not None]
    assert len(held) >= 8
    assert all(held)
    assert [line.published for line in told.lines[:6]] == [2473, 2534, 2563, 2545, 2555, 2552]


def test_bandwidth_of_a_set_is_shared_where_too_much_is_granted() -> None:
    a = Applications.of([1, 2], [[10.0, 30.0]] * 3, [1.0] * 3, [0.0] * 3, [1.0] * 3, direct=[5.0] * 3)
    assert mckp.reached(a, np.array([0, 0, 0]), Pool.of(3, 1)) == 30.0
    # On two: the first and the third have one forwarder together.
    assert mckp.reached(a, np.array([0, 0, 0]), Pool.of(2, 1)) == 5.0 + 10.0 + 5.0
    assert mckp.reached(a, np.array([1, -1, -1]), Pool.of(2, 1)) == 30.0 + 5.0 + 5.0


def test_best_counts_are_the_published_ones_with_the_largest_repetition() -> None:
    assert mckp.best_counts(forge("max")) == {0: 62, 1: 12, 2: 83, 4: 15, 8: 17}
    assert mckp.best_counts(forge("median")) != mckp.best_counts(forge("max"))


def test_mckp_is_bounded_by_the_oracle_and_never_below_static(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mckp, "QUICK_SETS", 6)
    found = mckp.bandwidths(forge("max"), 1, 6, nothing)
    for name, column in found.items():
        assert (column <= found["ORACLE"] * (1 + 1e-12)).all(), name
    assert (found["MCKP"] >= found["ZERO"] * (1 - 1e-12)).all()
    enough = [forwarders >= mckp.TOGETHER for forwarders in mckp.POOLS]
    assert (found["MCKP >= 1"][enough] >= found["ONE"][enough] * (1 - 1e-12)).all()
    told = mckp.compared(seed=1, quick=True, tell=nothing)
    assert all(line.held for line in told.lines if line.held is not None)
    assert [line for line in told.lines if line.value is None]  # what cannot be simulated is told, without a figure


def test_periodic_applications_have_their_load() -> None:
    for setting in set10.SETTINGS:
        drawn = set10.periodic(setting, 3)
        assert (drawn.io_s / drawn.iteration_s).sum() == pytest.approx(setting.load)
        assert len(drawn.io_s) == set10.EACH * len(setting.decades)


def test_two_applications_of_one_set_take_turns() -> None:
    # Both begin I/O of 10 s at 90 s: exclusive ends one after 10, the other after 20 s; side by side both after 20.
    two = set10.Periodic(compute_s=np.array([90.0, 90.0]), io_s=np.array([10.0, 10.0]), skip_s=np.zeros(2))
    streams = Streams.alike(two.iteration_s)
    first = set10.outcome(two, sharing("set-10", streams))
    assert sorted(first.slowdown.tolist()) == pytest.approx([1.0, 1.0])  # from the second iteration on they are apart
    together = set10.outcome(two, sharing("job-fair", streams))
    assert together.slowdown.tolist() == pytest.approx([2.0, 2.0])


def test_set_ten_gains_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set10, "QUICK_SETS", 12)
    told = set10.compared(seed=1, quick=True, tell=nothing)
    held = [line.held for line in told.lines if line.held is not None]
    assert len(held) == 15
    assert all(held)
