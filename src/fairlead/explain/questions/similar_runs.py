"""What the runs of a job's program are like as kept in profiles, and which runs are like it whatever their name.

Not here: how its phases went beside others' (`usual_performance`), what a profile is (`analysis.history`).
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import JOB_SUMMARY
from fairlead.explain.analysis.history.category import compute_category_scale
from fairlead.explain.analysis.history.run_profiles import (
    KINDS,
    KindProfile,
    Profile,
    estimate_profile_quantile,
    read_run_profiles,
)
from fairlead.explain.analysis.history.similar import find_similar_runs
from fairlead.explain.questions.answers_diagnosis import AlikeRun, KindUsually, RunsOfProgram
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.explain.questions.visible_lake import is_job_visible
from fairlead.store.stored_tables import conform_stored_table

REACH_NS = 120 * DAY_NS
"""Runs that began so long before or after a job are searched for those like it."""
MOST_SEARCHED = 50_000
"""The nearest in time of these are searched."""
SHOWN = 8
_NEEDED = (
    'cluster, job_id, start_ns, end_ns, "user", program, nodes_count, processes, read_bytes, write_bytes, read_ops,'
    " write_ops, metadata_ops, read_mode, write_mode, phases, mdops_in_phases, made_ns, analysis_version"
)


def read_program_profile(lake: Tables, account: Mapping[str, Any], program: str | None) -> RunsOfProgram | None:
    """The profile of the category of a run; None where there is none. Raises LakeError."""
    nodes = account["nodes_count"]
    if not program or not account["user"] or nodes is None:
        return None
    scale = int(compute_category_scale(np.array([float(nodes)]))[0])
    found = query_lake(
        lake,
        'SELECT detail FROM profile WHERE program = $program AND "user" = $user AND cluster IS NOT DISTINCT FROM'
        f" $cluster AND scale = {scale} AND runs > 0",
        {"program": program, "user": account["user"], "cluster": account["cluster"]},
    )
    told = read_run_profiles(found)
    return _told(told[0]) if told else None


def _told(one: Profile) -> RunsOfProgram:
    return RunsOfProgram(
        runs=one.runs,
        scale=one.scale,
        first_ns=one.first_ns,
        last_ns=one.last_ns,
        seconds_p50=estimate_profile_quantile(one.seconds, 0.5),
        kinds=[_usually(name, one.kinds[name]) for name in KINDS if name in one.kinds],
    )


def _usually(name: str, kind: KindProfile) -> KindUsually:
    middle = {
        "amount_p50": kind.volumes,
        "rate_p50": kind.rates,
        "request_p50_bytes": kind.requests,
        "period_p50_s": kind.periods,
    }
    mode = max(kind.modes, key=lambda word: (kind.modes[word], word), default=None)
    return KindUsually(
        kind=name,
        phases=kind.phases,
        runs=kind.runs,
        mode=mode,
        **{figure: estimate_profile_quantile(counts, 0.5) for figure, counts in middle.items()},
    )


def list_similar_runs(lake: Tables, account: Mapping[str, Any], sight: Sight, most: int = SHOWN) -> list[AlikeRun]:
    """Runs whose I/O is like that of the run an account is of, nearest first; other people's without their names.
    Raises LakeError."""
    start = account["start_ns"]
    if start is None:
        return []
    span = Span(start - REACH_NS, start + REACH_NS)
    found = query_lake(
        lake,
        f"SELECT {_NEEDED} FROM job_summary WHERE start_ns >= {span.from_ns}"
        f" AND start_ns < {span.to_ns} AND {build_day_filter(span)} AND (end_ns IS NOT NULL OR job_id = $job)"
        " AND greatest(read_bytes, write_bytes, metadata_ops) > 0"
        f" ORDER BY abs(start_ns - {start}), start_ns, cluster, job_id LIMIT {MOST_SEARCHED}",
        {"job": account["job_id"]},
        began=span,
    )
    rows = conform_stored_table(found, JOB_SUMMARY, strict=True)
    place = _place(rows, account)
    return [] if place is None else [_alike(rows, one, sight) for one in find_similar_runs(rows, place, most)]


def _place(rows: pa.Table, account: Mapping[str, Any]) -> int | None:
    named = zip(*(rows[name].to_pylist() for name in ("cluster", "job_id", "start_ns")), strict=True)
    wanted = (account["cluster"], account["job_id"], account["start_ns"])
    return next((at for at, one in enumerate(named) if one == wanted), None)


def _alike(rows: pa.Table, one: Any, sight: Sight) -> AlikeRun:
    row = rows.slice(one.row, 1).to_pylist()[0]
    seen = is_job_visible(row, sight)
    took = (row["end_ns"] - row["start_ns"]) / 1e9 if row["end_ns"] is not None else None
    return AlikeRun(
        job_id=row["job_id"] if seen else None,
        user=row["user"] if seen else None,
        program=row["program"] if seen else None,
        start_ns=row["start_ns"],
        seconds=took,
        distance=one.distance,
        how=one.text,
    )
