"""A site's own past as jobs to replay: what is dropped, how bursts become phases, and where curves come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide.sim.workloads.history import (
    METADATA,
    MODES,
    Bursts,
    Runs,
    build_history_jobs,
    build_history_phases,
    drop_unsound_history,
)
from fairlead.decide.sim.workloads.history_curves import CLASS, MACHINE, OWN, Defaults, learn_curves
from fairlead.decide.sim.workloads.history_peaks import find_highest_peak

NAN = np.nan
MIB = float(1 << 20)


def runs(count: int, **more: object) -> Runs:
    """Jobs of 2 nodes behind one forwarder, 1,000 s each, one after the other; N-N unless said."""
    start = 1000.0 * np.arange(count)
    usual: dict[str, object] = {
        "start_s": start,
        "end_s": start + 1000.0,
        "nodes": np.full(count, 2.0),
        "cores": np.full(count, 8.0),
        "io_nodes": np.full(count, 2.0),
        "io_processes": np.full(count, 8.0),
        "first_node": np.full(count, -1),
        "program": np.zeros(count, np.int64),
        "mode": np.zeros(count, np.int64),
        "forwarders": np.ones(count),
        "targets": np.full(count, 4.0),
        "recorded": np.ones(count, np.bool_),
    }
    return Runs(**(usual | more))  # type: ignore[arg-type]


def bursts(*rows: tuple[int, int, float, float, float], request: float = MIB) -> Bursts:
    """Rows of job, kind, begin, end, amount; active throughout."""
    job, kind, begin, end, amount = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    return Bursts(
        job=job.astype(np.int64),
        kind=kind.astype(np.int64),
        start_s=begin,
        end_s=end,
        active_s=end - begin,
        amount=amount,
        request_bytes=np.full(len(rows), request),
    )


def writes(rates: list[float], seconds: float = 100.0) -> Bursts:
    """One write a job, at these rates, 100 s after its begin."""
    return bursts(*((j, 1, 1000.0 * j + 100, 1000.0 * j + 100 + seconds, r * seconds) for j, r in enumerate(rates)))


def learnt(of: Runs, what: Bursts, peak: float = 1e9, **more: float) -> object:
    fit = drop_unsound_history(of, what)
    return learn_curves(
        fit.runs, build_history_phases(fit.runs, fit.bursts), Defaults(forwarder_peak=peak, target_peak=1e9, **more)
    )


def test_bursts_that_overlap_are_one_phase_and_what_is_between_is_computing() -> None:
    rows = bursts(
        (0, 0, 100, 200, 5e9),
        (0, 1, 150, 260, 7e9),
        (0, METADATA, 210, 220, 900),
        (0, 1, 400, 410, 1e9),
        (1, METADATA, 1500, 1510, 5000),
    )
    made = build_history_phases(runs(2), rows)
    assert made.first.tolist() == [0, 2, 3]
    assert made.volume.tolist() == [12e9, 1e9, 0.0]
    assert made.operations.tolist() == [0.0, 0.0, 5000.0]
    assert made.kind.tolist() == [1, 1, METADATA]
    assert made.compute_s.tolist() == [100.0, 140.0, 500.0]
    assert made.io_s.tolist() == [160.0, 10.0, 10.0]
    assert made.tail_s.tolist() == [590.0, 490.0]
    job_s = np.bincount(made.job, made.compute_s + made.io_s) + made.tail_s
    assert job_s.tolist() == [1000.0, 1000.0]


def test_a_phase_whose_clock_runs_ahead_ends_with_its_job() -> None:
    made = build_history_phases(runs(1), bursts((0, 1, 1010, 1030, 1e9)))
    assert made.compute_s.tolist() == [1000.0]
    assert made.io_s.tolist() == [0.0]
    assert made.tail_s.tolist() == [0.0]


def test_pauses_inside_a_phase_are_computing() -> None:
    paused = replace(bursts((0, 1, 100, 200, 1e9)), active_s=np.array([30.0]))
    made = build_history_phases(runs(1), paused)
    assert made.io_s.tolist() == [30.0]
    assert made.compute_s.tolist() == [170.0]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("end_s", 500.0, "ended before"),
        ("end_s", NAN, "not known"),
        ("nodes", 0.0, "nodes"),
        ("nodes", NAN, "nodes"),
        ("nodes", np.inf, "nodes"),
        ("nodes", 1e12, "nodes"),
        ("cores", -1.0, "cores"),
        ("cores", 1e15, "cores"),
    ],
)
def test_a_broken_job_is_left_out_and_said(field: str, value: float, why: str) -> None:
    of = runs(3)
    getattr(of, field)[1] = value
    fit = drop_unsound_history(of, writes([1e8] * 3))
    assert fit.row.tolist() == [0, 2]
    assert [(one.count, why in one.why) for one in fit.dropped] == [(1, True)]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("amount", -5.0, "amount"),
        ("amount", NAN, "amount"),
        ("active_s", NAN, "times"),
        ("amount", 1e25, "more than anything"),
        ("end_s", 1.0, "before it begins"),
        ("end_s", 99_999.0, "outside"),
        ("job", 77, "not known"),
    ],
)
def test_a_broken_phase_costs_its_job_only(field: str, value: float, why: str) -> None:
    what = writes([1e8] * 3)
    getattr(what, field)[1] = value
    fit = drop_unsound_history(runs(3), what)
    assert 0 in fit.row.tolist()
    assert 2 in fit.row.tolist()
    assert 1 not in fit.row.tolist()
    assert any(why in one.why for one in fit.dropped)


def test_jobs_without_io_are_counted_and_jobs_nobody_watched_are_told() -> None:
    of = runs(3, recorded=np.array([True, True, False]))
    fit = drop_unsound_history(of, writes([1e8]))
    assert fit.quiet == 1
    assert [(one.why, one.count) for one in fit.dropped] == [("no layer recorded their I/O", 1)]


def test_a_history_of_nothing_is_refused_naming_what_is_missing() -> None:
    with pytest.raises(UsageError, match="no job"):
        drop_unsound_history(runs(0), writes([1.0]).select_rows(np.zeros(1, np.bool_)))
    with pytest.raises(UsageError, match="no I/O phase") as refused:
        drop_unsound_history(runs(2), writes([1.0]).select_rows(np.zeros(1, np.bool_)))
    assert "phase" in str(refused.value)


def test_contention_is_not_replayed_twice() -> None:
    """Half of the runs were held up by others: what counts is what the program reaches without them."""
    rates = [1.8e8, 0.6e8] * 4
    of, what = runs(8), writes([1.8e8, 0.6e8] * 4)
    history = build_history_jobs(of, build_history_phases(of, what), learnt(of, what))  # type: ignore[arg-type]
    assert history.jobs.phase_rate is not None
    assert history.jobs.phase_rate == pytest.approx([1.8e8] * 8, rel=0.01)
    assert history.io_s == pytest.approx([100.0] * len(rates))
    assert set(history.jobs.basis.tolist()) == {OWN}


def test_curves_fall_back_on_alike_runs_and_then_on_the_machine() -> None:
    """Program 0 is known; program 1 ran once but does the same as it; program 2 does what nobody else does."""
    program = np.array([0, 0, 0, 0, 1, 2])
    mode = np.array([0, 0, 0, 0, 0, 1])
    of = runs(6, program=program, mode=mode)
    what = writes([1.6e8] * 4 + [0.4e8, 0.3e8])
    history = build_history_jobs(of, build_history_phases(of, what), learnt(of, what, node_rate=9e7))  # type: ignore[arg-type]
    assert history.jobs.basis.tolist() == [OWN] * 4 + [CLASS, MACHINE]
    assert history.jobs.client_rate[4] == pytest.approx(1.6e8, rel=0.01)
    assert history.jobs.client_rate[5] == pytest.approx(2 * 9e7)


def test_a_larger_job_of_the_same_program_scales_by_nodes_unless_one_file_limits() -> None:
    for mode, expected in ((0, 4e8), (MODES.index("N-1"), 1e8)):
        of = runs(4, mode=np.full(4, mode), program=np.array([0, 0, 0, 1]))
        of = replace(of, nodes=np.array([2.0, 2, 2, 8]), io_nodes=np.array([2.0, 2, 2, 8]))
        what = writes([1e8, 1e8, 1e8, 0.2e8])
        history = build_history_jobs(of, build_history_phases(of, what), learnt(of, what))  # type: ignore[arg-type]
        assert history.jobs.client_rate[3] == pytest.approx(expected, rel=0.01), mode


def test_a_rate_that_the_forwarder_held_says_nothing_of_the_client() -> None:
    """Ten nodes behind one full forwarder: with more they would be as fast as alike programs that were not held."""
    of = runs(6, program=np.array([0, 0, 0, 1, 1, 1]))
    of = replace(of, io_nodes=np.array([2.0, 2, 2, 10, 10, 10]), nodes=np.array([2.0, 2, 2, 10, 10, 10]))
    what = writes([1.8e8] * 3 + [4e8] * 3)
    history = build_history_jobs(of, build_history_phases(of, what), learnt(of, what, peak=4e8))  # type: ignore[arg-type]
    assert history.jobs.client_rate[5] == pytest.approx(9e8, rel=0.02)
    assert history.jobs.forwarder_cost[5] == pytest.approx(1 / 4e8)


def test_small_requests_that_fill_a_forwarder_cost_more_of_it() -> None:
    """Clients could have filled their forwarder with 4 KiB requests, and the best of them got a quarter of its peak."""
    of = replace(runs(8), io_nodes=np.full(8, 16.0), nodes=np.full(8, 16.0))
    small = replace(writes([1e8] * 8), request_bytes=np.full(8, 4096.0))
    history = build_history_jobs(of, build_history_phases(of, small), learnt(of, small, peak=4e8, node_rate=9e7))  # type: ignore[arg-type]
    assert history.jobs.forwarder_cost == pytest.approx([1 / 1e8] * 8)


def test_what_a_program_reached_on_known_counts_tells_what_one_forwarder_gives_it() -> None:
    of = runs(8, forwarders=np.array([1.0, 1, 1, 1, 2, 2, 2, 2]))
    what = writes([1e8] * 4 + [2e8] * 4)
    history = build_history_jobs(of, build_history_phases(of, what), learnt(of, what))  # type: ignore[arg-type]
    assert history.jobs.forwarder_cost == pytest.approx([1 / 1e8] * 8)


def test_jobs_without_a_program_or_any_name_still_have_a_curve() -> None:
    of = runs(
        4,
        program=np.full(4, -1),
        mode=np.full(4, -1),
        forwarders=np.full(4, NAN),
        targets=np.full(4, NAN),
        io_nodes=np.full(4, NAN),
        io_processes=np.full(4, NAN),
        cores=np.full(4, NAN),
    )
    what = replace(writes([1e8] * 4), request_bytes=np.full(4, NAN))
    fit = drop_unsound_history(of, what)
    phases = build_history_phases(fit.runs, fit.bursts)
    history = build_history_jobs(fit.runs, phases, learn_curves(fit.runs, phases, Defaults()))
    assert (history.jobs.client_rate > 0).all()
    assert (history.jobs.cores == history.jobs.nodes).all()
    assert set(history.jobs.basis.tolist()) == {CLASS}


def test_the_highest_rate_of_a_component_is_the_sum_of_what_overlaps_on_it() -> None:
    """Two phases at once for 50 s on the first, one after the other on the second."""
    of = np.array([0, 0, 1, 1])
    begin, end = np.array([0.0, 50, 0, 100]), np.array([100.0, 150, 100, 200])
    assert find_highest_peak(of, begin, end, np.array([1e8, 2e8, 1.5e8, 2.5e8])) == pytest.approx(3e8)
    assert np.isnan(find_highest_peak(of, begin, begin, np.ones(4)))
