"""Experiments of other papers: their pieces against what can be worked out by hand, and what they tell."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.cli.simulate_results import print_simulate_paper_results
from fairlead.decide.policies.allocation.contract import Applications, build_allocation_pool
from fairlead.decide.policies.placement.files import LeastOpen, RoundRobin
from fairlead.decide.policies.requests.fluid_limits import Streams, build_fluid_sharing
from fairlead.decide.sim.cycles.cycle_model import Cycles
from fairlead.decide.sim.experiments import mckp, papers, set10, sunway
from fairlead.decide.sim.workloads.profiles import count_best_profiles, read_forge_profiles


def nothing(done: int, out_of: int) -> None:
    assert 0 < done <= out_of


def test_pools_reach_what_the_rule_says() -> None:
    # 160 files by max_perf / (open + 1): none takes longer than about 160 GB over 2,600 MB/s; round robin waits for
    # 20 files on the target of 100 MB/s.
    assert sunway.simulate_sunway_writes(RoundRobin(), 160).total_s == pytest.approx(20 * 1024 / 100)
    aware = sunway.simulate_sunway_writes(LeastOpen(), 160)
    assert np.bincount(aware.target).tolist() == [31, 19, 31, 12, 18, 6, 31, 12]
    longest = max(n * 1024 / perf for n, perf in zip(np.bincount(aware.target), sunway.MAX_PERF_MB, strict=True))
    assert aware.total_s == pytest.approx(longest)


def test_a_closed_file_no_longer_counts() -> None:
    # One file at a time: each goes to the fastest target, which is free again.
    alone = sunway.simulate_sunway_writes(LeastOpen(), 5, apart_s=10.0)
    assert alone.target.tolist() == [0] * 5
    assert (alone.closed_s - alone.opened_s).tolist() == pytest.approx([1024 / 500] * 5)


def test_sunway_tells_what_was_published() -> None:
    told = sunway.compare_sunway(seed=1, quick=True, tell=nothing)
    held = [line.held for line in told.lines if line.held is not None]
    assert len(held) >= 8
    assert all(held)
    assert [line.published for line in told.lines[:6]] == [2473, 2534, 2563, 2545, 2555, 2552]


def test_a_set_reaches_the_sum_of_what_each_reaches() -> None:
    a = Applications.from_columns([1, 2], [[10.0, 30.0]] * 3, [1.0] * 3, [0.0] * 3, [1.0] * 3, direct=[5.0] * 3)
    assert mckp.compute_mckp_bandwidth(a, np.array([0, 1, -1])) == 10.0 + 30.0 + 5.0


def test_the_papers_static_gives_a_forwarder_for_every_ratio_begun() -> None:
    nodes = [8, 16, 32, 32]
    a = Applications.from_columns([1, 2, 4, 8], [[1.0, 2.0, 3.0, 4.0]] * 4, [1.0] * 4, [0.0] * 4, nodes, nodes=nodes)
    choose = mckp.list_mckp_policies()["STATIC"]
    rng = np.random.default_rng(0)
    # 480 nodes: 24 forwarders, one for 20 nodes; 128, one for 3.75: 3 (of 2 and 4 the smaller), 5, 9
    assert choose(a, build_allocation_pool(24, 480), rng).tolist() == [0, 0, 1, 1]
    assert choose(a, build_allocation_pool(128, 480), rng).tolist() == [1, 2, 3, 3]


def test_best_counts_are_the_published_ones_with_the_largest_repetition() -> None:
    assert count_best_profiles(read_forge_profiles("max")) == {0: 62, 1: 12, 2: 83, 4: 15, 8: 17}
    assert count_best_profiles(read_forge_profiles("median")) != count_best_profiles(read_forge_profiles("max"))


def test_mckp_comes_out_as_published_and_never_below_static(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mckp, "QUICK_SETS", 60)
    told = mckp.compare_mckp(seed=1, quick=True, tell=nothing)
    held = {(line.setting, line.measure): line.held for line in told.lines if line.held is not None}
    few = {("any pool", "ORACLE over ZERO, most"), ("56 forwarders", "MCKP over STATIC, median")}
    assert len(held) >= 18
    assert [key for key, value in held.items() if not value and key not in few] == []  # 60 sets, the paper has 10,000
    assert [line.measure for line in told.lines if line.value is None] == ["MCKP over STATIC"]  # told, not simulated
    bounds = {line.setting: line.value for line in told.lines if line.measure == "MCKP over ORACLE, medians"}
    assert all(value is not None and value <= 1 for value in bounds.values())


def test_periodic_applications_have_their_load() -> None:
    drawn = set10.draw_set10_applications(set10.Setting(numbers=(3, 2, 1), load=0.5), 3)
    assert drawn.share.sum() == pytest.approx(0.5)
    count = np.diff(drawn.cycles.first_phase)
    assert (count * drawn.iteration_s >= set10.HORIZON_S).all()
    assert drawn.io_s / (count * drawn.iteration_s) == pytest.approx(drawn.share, rel=0.1)
    assert (drawn.cycles.start_s < drawn.iteration_s).all()


def two(start_s: float) -> set10.Periodic:
    """Iterations of 100 s, 10 s of them I/O, the second one beginning later."""
    count = 200
    cycles = Cycles(
        first_phase=np.array([0, count, 2 * count]),
        compute_s=np.full(2 * count, 90.0),
        share=np.full(2 * count, 1 / count),
        start_s=np.array([0.0, start_s]),
        skip_s=np.zeros(2),
        repeat=False,
    )
    return set10.Periodic(
        iteration_s=np.full(2, 100.0), share=np.full(2, 0.1), cycles=cycles, io_s=np.full(2, 10.0 * count)
    )


def test_applications_of_one_set_wait_once_and_are_apart() -> None:
    streams = Streams.build_alike([100.0, 100.0])
    # Side by side both need 20 s for 10 s of I/O, every time. In one set one waits for the other once.
    fair = set10.measure_set10_run(two(0.0), build_fluid_sharing("job-fair", streams))
    assert fair.slowdown == pytest.approx(2.0, rel=0.01)
    assert fair.utilisation == pytest.approx(90 / 110, rel=0.01)
    assert fair.stretch == pytest.approx(110 / 100, rel=0.01)
    ours = set10.measure_set10_run(two(0.0), build_fluid_sharing("set-10", streams))
    assert ours.slowdown == pytest.approx(1.0, rel=0.01)
    assert ours.utilisation == pytest.approx(0.9, rel=0.01)
    apart = set10.measure_set10_run(two(50.0), build_fluid_sharing("job-fair", streams))
    assert apart.slowdown == pytest.approx(1.0, rel=0.01)


def test_set_ten_gains_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set10, "QUICK_SETS", 3)
    monkeypatch.setattr(set10, "FIGURE_6", set10.FIGURE_6[2:3])
    monkeypatch.setattr(set10, "FIGURE_9", ())
    told = set10.compare_set10(seed=1, quick=True, tell=nothing)
    held = [line.held for line in told.lines if line.held is not None]
    assert len(held) == 9
    assert all(held)


@pytest.mark.parametrize("columns", [200, 80, 30])
def test_a_papers_figures_are_shown_whole_on_any_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    line = papers.Line(
        setting="all jobs",
        measure="core-hours saved",
        value=14_999_906.0,
        unit="core-hours",
        wanted="> 200000000",
        note="of its own jobs",
    )
    print_simulate_paper_results(papers.PaperReport(paper="x", source="someone", lines=(line,)))
    words = capsys.readouterr().out.split()
    wanted = {"core-hours", "14,999,906", "200000000", "fail", "jobs"}
    assert wanted <= {word.strip(",:") for word in words}
