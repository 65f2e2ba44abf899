"""What a replay means, on figures small enough to do by hand; and DFRA's experiment on a single application."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.decide.sim.experiments import dfra
from fairlead.decide.sim.replay.jobs import Jobs, ReplayResult
from fairlead.decide.sim.replay.replay_measures import (
    measure_cycle_fairness,
    measure_granted_slowdown,
    measure_lost_core_hours,
    measure_replay_change,
    measure_replay_classes,
    measure_slowdown,
    measure_stretch,
    summarise_replay_measures,
)
from fairlead.decide.sim.workloads.taihulight import DAY_S, draw_taihulight_season


def jobs() -> Jobs:
    """Three jobs of two phases: the last without I/O."""
    column = np.ones(3)
    return Jobs(
        start_s=np.array([0.0, 10.0, 20.0]),
        first_phase=np.array([0, 2, 4, 6]),
        compute_s=np.full(6, 2.0),
        volume=np.array([5, 5, 5, 5, 0, 0.0]),
        operations=np.zeros(6),
        tail_s=column,
        nodes=column.astype(int),
        cores=np.array([3600.0, 7200.0, 1.0]),
        first_node=np.zeros(3, int),
        client_rate=column,
        forwarder_cost=column,
        target_cost=column,
        most_targets=column.astype(int),
        behaviour=np.array([4, 4, -1]),
        basis=np.array([0, 2, 0]),
    )


def outcome() -> ReplayResult:
    """The first took twice as long as alone, the second has not ended, the third did no I/O."""
    nan = np.nan
    return ReplayResult(
        end_s=np.array([25.0, nan, 25.0]),
        io_s=np.array([20.0, nan, 0.0]),
        alone_s=np.array([10.0, nan, 0.0]),
        granted_s=np.array([15.0, nan, 0.0]),
        forwarders=np.ones(3, int),
        targets=np.ones(3, int),
        forwarder_busy=np.zeros(1),
        target_busy=np.zeros(1),
        events=0,
    )


def test_slowdown_its_part_stretch_and_what_is_lost() -> None:
    nan = np.nan
    np.testing.assert_array_equal(measure_slowdown(outcome()), [2.0, nan, 1.0])
    np.testing.assert_array_equal(measure_granted_slowdown(outcome()), [1.5, nan, 1.0])
    np.testing.assert_array_equal(measure_stretch(jobs(), outcome()), [25.0 / 15.0, nan, 1.0])
    np.testing.assert_array_equal(measure_lost_core_hours(jobs(), outcome()), [10.0, nan, 0.0])


def test_a_summary_counts_who_has_not_ended_and_takes_him_for_nothing() -> None:
    whole = summarise_replay_measures(jobs(), outcome())
    assert (whole.jobs, whole.ended, whole.mean, whole.lost_core_hours) == (3, 2, 1.5, 10.0)
    assert whole.waiting_core_hours == 20.0
    rows = measure_replay_classes(jobs(), outcome(), jobs().basis)
    assert (rows[0].ended, rows[2].ended) == (2, 0)
    assert np.isnan([rows[2].mean, rows[2].lost_core_hours, rows[2].fairness]).all()


def test_fairness_is_jains() -> None:
    assert measure_cycle_fairness(np.array([2.0, 2.0, 2.0])) == pytest.approx(1.0)
    assert measure_cycle_fairness(np.array([1.0, 0.0, 0.0, np.nan])) == pytest.approx(1 / 3)
    assert np.isnan(measure_cycle_fairness(np.zeros(0)))


def test_a_change_says_who_wins_and_who_loses() -> None:
    before = outcome()
    before = replace(before, end_s=np.full(3, 50.0), io_s=np.array([20.0, 10.0, 5.0]))
    after = replace(before, io_s=np.array([10.0, 11.0, 5.01]))
    told = measure_replay_change(jobs(), before, after)
    assert (told.faster, told.slower, told.alike) == (1, 1, 1)
    assert (told.gained_core_hours, told.paid_core_hours) == (pytest.approx(10.0), pytest.approx(2.0, abs=1e-5))
    assert told.saved_core_hours == pytest.approx(told.gained_core_hours - told.paid_core_hours)


def test_an_application_alone_gains_what_its_nodes_reach_over_what_one_forwarder_moves() -> None:
    """512 x 90 MB/s / 2.5 GB/s; the paper has 16 to 18.9 for some."""
    assert dfra.measure_dfra_forwarder(1) == pytest.approx(512 * 90e6 / 2.5e9)


def test_dfra_foresees_a_job_by_its_programs_last_run() -> None:
    drawn = draw_taihulight_season(5, span_s=5 * DAY_S, programs=50, machine=dfra.build_dfra_machine())
    last = dfra.find_last_dfra_runs(drawn)
    assert 0 < (last < 0).sum() < len(last) / 2
    known = np.flatnonzero(last >= 0)
    assert (drawn.program[last[known]] == drawn.program[known]).all()
    assert (drawn.jobs.start_s[last[known]] < drawn.jobs.start_s[known]).all()
    expected = dfra.predict_dfra_jobs(drawn)
    j = int(known[-1])
    assert expected(j).write_bytes == pytest.approx((drawn.read + drawn.written)[last[j]])
    assert (expected(j).job_id, expected(j).node_count) == (str(j), int(drawn.jobs.nodes[j]))
    first = expected(int(np.flatnonzero(last < 0)[0]))
    assert (first.volume_bytes, first.runs_known) == (None, 0)


@pytest.mark.slow
def test_two_days_of_dfra_save_core_hours_and_tell_how_far_they_are() -> None:
    heard: list[tuple[int, int]] = []
    told = dfra.compare_dfra(seed=3, quick=True, tell=lambda done, of: heard.append((done, of)))
    value = {(line.setting, line.measure): line for line in told.lines}
    assert value[("all jobs", "saved")].held
    before, after = (value[("eligible jobs", f"slowdown, {name}")].value for name in ("static", "DFRA"))
    assert before is not None
    assert after is not None
    assert 1.0 <= after < before
    assert heard == sorted(heard)
    assert heard[-1][0] == heard[-1][1]
