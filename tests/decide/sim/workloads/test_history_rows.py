"""Whatever rows a lake holds, a history is refused by name or gives jobs that can be replayed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.errors import UsageError
from fairlead.decide.sim.workloads.history import (
    Bursts,
    Runs,
    build_history_jobs,
    build_history_phases,
    drop_unsound_history,
)
from fairlead.decide.sim.workloads.history_curves import Defaults, learn_curves

ODD = st.sampled_from([0.0, -1.0, 1.0, 7.0, 512.0, 4e9, 1e18, 1e300, -1e300, np.nan, np.inf, -np.inf])
TIMES = st.sampled_from([0.0, -5.0, 1e9, np.nan])
PEAK = st.sampled_from([np.nan, 1e9])
NEAR = st.floats(0.0, 1000.0)
COUNT = 6


def column(values: st.SearchStrategy[float], rows: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(values, min_size=rows, max_size=rows).map(lambda some: np.array(some, np.float64))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Runs, Bursts, Defaults]:
    """Mostly sound rows with odd values in any column."""
    mixed = st.one_of(NEAR, NEAR, NEAR, ODD)

    def some(values: st.SearchStrategy[float] = mixed) -> np.ndarray:
        return draw(column(values, COUNT))

    def codes(low: int, high: int) -> np.ndarray:
        return draw(column(st.integers(low, high).map(float), COUNT)).astype(np.int64)

    start = some(st.one_of(NEAR, TIMES))
    runs = Runs(
        start_s=start,
        end_s=start + some(st.one_of(NEAR, TIMES)),
        nodes=some(),
        cores=some(),
        io_nodes=some(),
        io_processes=some(),
        first_node=np.full(COUNT, -1, np.int64),
        program=codes(-1, 2),
        mode=codes(-1, 3),
        forwarders=some(),
        targets=some(),
        recorded=np.ones(COUNT, np.bool_),
    )
    job = codes(-1, COUNT)
    begin = runs.start_s[np.clip(job, 0, COUNT - 1)]
    return (
        runs,
        Bursts(
            job=job,
            kind=codes(0, 2),
            start_s=begin,
            end_s=begin + some(st.one_of(NEAR, TIMES)),
            active_s=some(),
            amount=some(st.one_of(st.floats(0, 1e12), ODD)),
            request_bytes=some(),
        ),
        Defaults(forwarder_peak=draw(PEAK), target_peak=draw(PEAK)),
    )


@settings(max_examples=150, deadline=None)
@given(histories())
def test_any_rows_are_refused_by_name_or_can_be_replayed(made: tuple[Runs, Bursts, Defaults]) -> None:
    runs, bursts, defaults = made
    try:
        fit = drop_unsound_history(runs, bursts)
    except UsageError as refused:
        assert refused.where in ("phase", "job_summary")  # noqa: PT017 (either way is right)
        return
    phases = build_history_phases(fit.runs, fit.bursts)
    history = build_history_jobs(fit.runs, phases, learn_curves(fit.runs, phases, defaults))
    jobs = history.jobs
    jobs.check()
    assert len(jobs) == len(fit.row)
    assert (np.diff(jobs.first_phase) >= 1).all()
    assert np.isfinite(jobs.phase_rate if jobs.phase_rate is not None else np.nan).all()
    for name in ("client_rate", "forwarder_cost", "target_cost", "weight"):
        values = getattr(jobs, name)
        assert np.isfinite(values).all(), name
        assert (values > 0).all(), name
    assert (jobs.most_targets >= 1).all()
    assert (jobs.most_forwarders >= 1).all()  # type: ignore[operator]
    took = fit.runs.end_s - fit.runs.start_s
    whole = np.bincount(phases.job, phases.compute_s + phases.io_s, len(jobs)) + phases.tail_s
    assert np.allclose(whole, took, rtol=1e-6, atol=1e-3)
