"""How far replays can be trusted: what was really active, and a change of the map foreseen, held against measurements.

Not here: what other policies would have made of it (`question`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.unit_formats import NS_PER_S, format_time
from fairlead.decide.sim.workloads.history import (
    Bursts,
    History,
    Phases,
    Runs,
    Sound,
    build_history_jobs,
    build_history_phases,
)
from fairlead.decide.sim.workloads.history_curves import Curves, learn_curves
from fairlead.decide.whatif.past_jobs import Past
from fairlead.decide.whatif.past_replay import AS_IT_WAS, NamedReplay, build_recorded_past_replay, replay_past
from fairlead.decide.whatif.past_site import build_past_site, find_known_past_site
from fairlead.explain.questions.answers_whatif import Check, HeldOut
from fairlead.explain.questions.lake_queries import Tables
from fairlead.explain.questions.span import Span

F64 = NDArray[np.float64]
LEAST_S = 1.0
"""Jobs in I/O for less are not compared: records are of seconds."""
LEAST_JOBS = 20
"""On either side of a change of the map there must be so many jobs, or it tells nothing."""
LEAST_NODES = 0.1
"""A change of the map is one of this share of the nodes, or more, at once."""


def check_whatif_replay(name: str, history: History, runs: Runs, one: NamedReplay) -> Check:
    """A replay against what was measured of the same jobs."""
    measured, replayed = history.io_s, one.replayed.io_s
    usable = (measured >= LEAST_S) & np.isfinite(replayed)
    ratio = replayed[usable] / measured[usable]
    took = runs.end_s - runs.start_s
    ends = np.isfinite(one.replayed.end_s) & (took > 0)
    run_time = np.abs((one.replayed.end_s - runs.start_s)[ends] / took[ends] - 1.0)
    cores = history.jobs.cores
    told = float((cores * measured).sum() / 3600.0)
    found = float(np.nansum(cores * replayed) / 3600.0)
    return Check(
        name=name,
        jobs=len(runs),
        compared=int(usable.sum()),
        measured_core_hours=told,
        replayed_core_hours=found,
        total_error=found / told - 1.0 if told > 0 else None,
        bias=_quantile(ratio, 0.5),
        error_p50=_quantile(np.abs(ratio - 1.0), 0.5),
        error_p90=_quantile(np.abs(ratio - 1.0), 0.9),
        run_time_error_p50=_quantile(run_time, 0.5),
        run_time_error_p90=_quantile(run_time, 0.9),
    )


def _quantile(values: F64, share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None


def check_held_out_change(
    lake: Tables, span: Span, past: Past, fit: Sound, peaks: Mapping[str, float], *, seed: int
) -> tuple[HeldOut | None, str]:
    """The largest change of the map in the span, foreseen from what came before it; else why there is none. Raises
    LakeError."""
    found = find_largest_change(past, span)
    if found is None:
        return None, "no check against a change of the map: the map of nodes to forwarders did not change in this time"
    at_ns, changed = found
    at_s = (at_ns - past.origin_ns) / NS_PER_S
    before = np.flatnonzero(fit.runs.start_s < at_s)
    after = np.flatnonzero(fit.runs.start_s >= at_s)
    if min(len(before), len(after)) < LEAST_JOBS:
        return None, (
            f"the change of the map at {format_time(at_ns)} was not predicted: {len(before)} jobs before it and"
            f" {len(after)} after it, {LEAST_JOBS} are needed on each side"
        )
    known, defaults = find_known_past_site(lake, Span(span.from_ns, at_ns), past, peaks)
    runs, phases = _part(fit, before)
    curves = learn_curves(runs, phases, defaults)
    then, later = _part(fit, after)
    history = _unseen(then, later, curves)
    rows = fit.row[after]
    new, old = (build_past_site(known, past, curves, at_ns=when) for when in (at_ns, at_ns - 1))
    foreseen, unchanged = (
        replay_past(
            AS_IT_WAS,
            AS_IT_WAS,
            build_recorded_past_replay(past, rows, site, targets=False, mapped_at=when),
            past,
            rows,
            then,
            history,
            site,
            seed=seed,
        )
        for site, when in ((new, at_ns), (old, at_ns - 1))
    )
    return HeldOut(
        at_ns=at_ns,
        nodes_changed=changed,
        nodes=len(past.node_names),
        learnt=len(before),
        check=check_whatif_replay("foreseen", history, then, foreseen),
        as_before_core_hours=float(np.nansum(history.jobs.cores * unchanged.replayed.io_s) / 3600.0),
    ), ""


def find_largest_change(past: Past, span: Span) -> tuple[int, int] | None:
    """When most nodes got another forwarder at once, and how many; None where never `LEAST_NODES` of them did."""
    routes = past.routes
    if not len(routes.a):
        return None
    # Intervals are sorted by node and time: a change is where one of the same node follows at once.
    node = routes.a.dictionary_encode().indices.to_numpy()
    where = routes.b.dictionary_encode().indices.to_numpy()
    again = (node[1:] == node[:-1]) & (where[1:] != where[:-1]) & (routes.from_ns[1:] == routes.to_ns[:-1])
    times = routes.from_ns[1:][again]
    times = times[(times > past.origin_ns) & (times < span.to_ns)]
    if not len(times):
        return None
    at, counts = np.unique(times, return_counts=True)
    most = int(np.argmax(counts))
    return (int(at[most]), int(counts[most])) if counts[most] >= LEAST_NODES * len(past.node_names) else None


def _part(fit: Sound, rows: NDArray[np.int64]) -> tuple[Runs, Phases]:
    runs = fit.runs.select_rows(rows)
    place = np.full(len(fit.runs), -1, np.int64)
    place[rows] = np.arange(len(rows))
    bursts = fit.bursts.select_rows(place[fit.bursts.job] >= 0)
    mine = Bursts(**{name: getattr(bursts, name) for name in _NAMES}, job=place[bursts.job])
    return runs, build_history_phases(runs, mine)


_NAMES = ("kind", "start_s", "end_s", "active_s", "amount", "request_bytes")


def _unseen(runs: Runs, phases: Phases, curves: Curves) -> History:
    """Jobs of which nothing is known but what they ask: where their files lay is not foreseen."""
    from dataclasses import replace

    blind = replace(runs, targets=np.full(len(runs), np.nan), forwarders=np.full(len(runs), np.nan))
    return build_history_jobs(blind, phases, curves)
