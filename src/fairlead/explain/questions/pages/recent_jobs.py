"""Recent jobs at a glance: a spark line, a grade, how much was found and the gravest of it. One query each for all.

Not here: which jobs a reader sees (`list_jobs`), one job's page.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.finding import SEVERITIES
from fairlead.core.model.finding_incident_rows import parse_finding_rows
from fairlead.explain.analysis.grade import grade_lost_time
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import JobRow
from fairlead.explain.questions.answers_pages import MyJob, MyJobs
from fairlead.explain.questions.job_lists import list_jobs
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.past_phases import LATEST
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.redaction import redact_findings
from fairlead.explain.questions.rollup_sums import RANK, round_rollup_line
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, INTERVALS, MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.visible_lake import get_visible_reach, narrow_visible_lake, widen_visible_lake

POINTS = 40
_SHORT_NS, _LONG_NS = 20 * MINUTE_NS, 2 * DAY_NS
"""Spark lines of shorter jobs are of seconds, of longer ones of hours, else of minutes."""
_LONGEST_NS = 32 * DAY_NS
Floats = NDArray[np.float64]
Key = tuple[str | None, str, int]


@dataclass(frozen=True)
class _RunFindings:
    """What was found about one run."""

    count: int
    cost_s: float | None
    severity: str
    title: str


def list_recent_jobs(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> MyJobs:  # noqa: ARG001
    """Recent jobs at a glance. Raises UsageError, LakeError."""
    span = asked.span(now_ns, "30d", asking.longest_ns).round_to_steps()
    listed = list_jobs(
        asking.lake,
        span,
        sight,
        now_ns,
        filters={"user": asked.user},
        sort="start",
        limit=asked.limit,
        offset=asked.offset,
    )
    rows = listed.jobs
    sparks = _sparks(_told_apart(asking.lake, rows, now_ns), rows, now_ns)
    lost = _lost(asking.lake, rows)
    found = _found(asking.lake, rows, sight, now_ns)
    shown = [
        _shown(row, spark, lost.get(_build_run_key(row)), found.get(_build_run_key(row)))
        for row, spark in zip(rows, sparks, strict=True)
    ]
    missing = [] if rows else ["jobs: the scheduler has reported none in this time"]
    return MyJobs(from_ns=span.from_ns, to_ns=span.to_ns, total=listed.total, jobs=shown, missing=missing)


def _told_apart(lake: Tables, rows: Sequence[JobRow], now_ns: int) -> Tables:
    """The lake to read these runs' counters in: all of it where nobody else's job ever had one of their numbers, which
    is far quicker than what is narrowed."""
    lives = [_life(row, now_ns) for row in rows if row.start_ns is not None]
    if not lives:
        return lake
    reach = get_visible_reach(lake, Span(min(one.from_ns for one in lives), max(one.to_ns for one in lives)))
    if reach is None or any(row.job_id in reach.common for row in rows):
        return lake
    return widen_visible_lake(lake)


def _build_run_key(row: JobRow) -> Key:
    """What tells runs apart."""
    return row.cluster, row.job_id, row.start_ns or 0


def _shown(row: JobRow, spark: list[float | None], lost: float | None, found: _RunFindings | None) -> MyJob:
    lost_s = lost if lost is not None else (found.cost_s if found else None)
    return MyJob(
        job=row,
        spark=spark,
        grade=grade_lost_time(lost_s, row.start_ns, row.end_ns),
        lost_s=lost_s,
        findings=found.count if found else 0,
        worst=found.title if found else None,
        severity=found.severity if found else None,
    )


# -- spark lines -----------------------------------------------------------------------------------------------------


def _life(row: JobRow, now_ns: int) -> Span:
    start = row.start_ns or 0
    end = row.end_ns if row.end_ns is not None else min(now_ns, start + _LONGEST_NS)
    return Span(start, max(end, start + SECOND_NS))


def _sparks(lake: Tables, rows: Sequence[JobRow], now_ns: int) -> list[list[float | None]]:
    """Of each job bytes a second over its run, of the layer that tells it best; null where no counter names it."""
    lives = [_life(row, now_ns) for row in rows]
    lines: list[list[float | None]] = [[None] * POINTS for _ in rows]
    wanted: dict[int, list[int]] = {step: [] for step in INTERVALS}
    for at, life in enumerate(lives):
        if rows[at].start_ns is not None:
            wanted[_interval(life)].append(at)
    for step in INTERVALS:
        if not wanted[step]:
            continue
        drawn = _drawn(lake, [(at, rows[at].job_id, lives[at]) for at in wanted[step]], step)
        for at in wanted[step]:
            if at in drawn:
                lines[at] = round_rollup_line(drawn[at])
            elif step != HOUR_NS:
                wanted[INTERVALS[INTERVALS.index(step) + 1]].append(at)  # seconds are forgotten first
    return lines


def _interval(life: Span) -> int:
    if life.length_ns < _SHORT_NS:
        return SECOND_NS
    return MINUTE_NS if life.length_ns < _LONG_NS else HOUR_NS


def _drawn(lake: Tables, asked: Sequence[tuple[int, str, Span]], step: int) -> dict[int, Floats]:
    """Lines of those jobs that rows of this interval name."""
    span = Span(min(life.from_ns for _, _, life in asked), max(life.to_ns for _, _, life in asked)).align_to(step)
    found = query_lake(
        lake,
        "WITH asked AS (SELECT unnest($numbers) AS number, unnest($places) AS place, unnest($begins) AS begun,"
        " unnest($ends) AS ended) SELECT place, layer, ts_ns, sum(coalesce(read_bytes, 0) + coalesce(write_bytes, 0))"
        f" AS moved FROM rollup JOIN asked ON rollup.id = asked.number AND ts_ns > begun - {step} AND ts_ns < ended"
        f" WHERE interval_ns = {step} AND kind = $kind AND id IN (SELECT unnest($numbers)) AND ts_ns >= {span.from_ns}"
        f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)} AND (read_bytes IS NOT NULL OR write_bytes"
        f" IS NOT NULL)"
        " GROUP BY place, layer, ts_ns",
        {
            "kind": "job",
            "numbers": [number for _, number, _ in asked],
            "places": [at for at, _, _ in asked],
            "begins": [life.from_ns for _, _, life in asked],
            "ends": [life.to_ns for _, _, life in asked],
        },
        within=span,
    )
    if not found.num_rows:
        return {}
    rank = {layer: place for place, layer in enumerate(RANK)}
    place, ts, moved = (
        read_integer_column(found, "place"),
        read_integer_column(found, "ts_ns"),
        read_float_column(found, "moved"),
    )
    layer = np.array([rank.get(word, len(rank)) for word in found.column("layer").to_pylist()])
    lines: dict[int, Floats] = {}
    for at, _, life in asked:
        of_job = place == at
        if of_job.any():
            best = of_job & (layer == layer[of_job].min())
            lines[at] = _points(ts[best] - life.from_ns, moved[best], step, life.length_ns)
    return lines


def _points(begin: NDArray[np.int64], moved: Floats, step: int, length: int) -> Floats:
    """float64[POINTS] of amounts that each cover `step` from `begin` on; 0 between the first and the last of them."""
    edges = np.linspace(0, length, POINTS + 1)
    first, last = np.clip(begin, 0, length), np.clip(begin + step, 0, length)
    wide = np.maximum(last - first, 1)
    overlap: Floats = np.minimum(last[:, None], edges[None, 1:]) - np.maximum(first[:, None], edges[None, :-1])
    line = (moved[:, None] * np.clip(overlap, 0, None) / wide[:, None]).sum(axis=0) / (length / POINTS / 1e9)
    there = np.asarray((overlap > 0).any(axis=0), np.bool_)
    known = np.flatnonzero(there)
    if len(known):
        there[known[0] : known[-1] + 1] = True
    return np.where(there, line, np.nan)


# -- what was lost and found -----------------------------------------------------------------------------------------


def _ended(rows: Sequence[JobRow]) -> tuple[Span, dict[str, list[str]]]:
    starts = [row.start_ns for row in rows if row.start_ns is not None]
    span = Span(min(starts), max(starts) + 1)
    return span, {"numbers": sorted({row.job_id for row in rows})}


def _lost(lake: Tables, rows: Sequence[JobRow]) -> dict[Key, float]:
    """Seconds beyond what is usual, of runs of which any phase could be judged."""
    if not any(row.start_ns is not None for row in rows):
        return {}
    span, words = _ended(rows)
    wide = Span(span.from_ns - DAY_NS, span.to_ns + _LONGEST_NS)
    found = query_lake(
        lake,
        "SELECT cluster, job_id, job_start_ns, sum(lost_s) AS lost_s FROM (SELECT cluster, job_id, job_start_ns,"
        f" made_ns, expected_s, lost_s FROM phase WHERE job_id IN (SELECT unnest($numbers)) AND"
        f" {build_day_filter(wide)}"
        f" AND job_start_ns >= {span.from_ns} AND job_start_ns < {span.to_ns} QUALIFY {LATEST})"
        " WHERE expected_s IS NOT NULL AND lost_s IS NOT NULL GROUP BY cluster, job_id, job_start_ns",
        words,
        began=wide,
        numbers=words["numbers"],
    )
    return {(row["cluster"], row["job_id"], row["job_start_ns"]): row["lost_s"] for row in list_query_rows(found)}


def _found(lake: Tables, rows: Sequence[JobRow], sight: Sight, now_ns: int) -> dict[Key, _RunFindings]:
    """Findings about each run: how many, what they cost, and the gravest in words this reader may hear."""
    if not any(row.start_ns is not None for row in rows):
        return {}
    span, words = _ended(rows)
    wide = Span(span.from_ns - DAY_NS, max(span.to_ns, now_ns))
    rank = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(SEVERITIES))
    found = list_query_rows(
        query_lake(
            narrow_visible_lake(lake, wide),
            "SELECT cluster, job_id, from_ns, cost_s, severity, detail,"
            f" CASE severity {rank} ELSE {len(SEVERITIES)} END AS place FROM finding"
            f" WHERE job_id IN (SELECT unnest($numbers)) AND NOT coalesce(withdrawn, false) AND"
            f" {build_day_filter(wide)}"
            " QUALIFY analysis_version = max(analysis_version) OVER (PARTITION BY cluster, job_id)"
            " ORDER BY place, cost_s DESC NULLS LAST, id",
            words,
            began=wide,
            numbers=words["numbers"],
        )
    )
    of_run: dict[Key, list[Mapping[str, Any]]] = {}
    for row in rows:
        key = _build_run_key(row)
        if row.start_ns is None:
            continue
        end = row.end_ns if row.end_ns is not None else now_ns
        of_run[key] = [
            one
            for one in found
            if one["job_id"] == row.job_id
            and one["cluster"] == row.cluster
            and row.start_ns - MINUTE_NS <= one["from_ns"] <= end + MINUTE_NS
        ]
    some = {key: these for key, these in of_run.items() if these}
    import pyarrow as pa

    told = redact_findings(
        lake,
        parse_finding_rows(pa.table({"detail": pa.array([t[0]["detail"] for t in some.values()], pa.string())})),
        sight,
    )
    made = {}
    for (key, these), one in zip(some.items(), told, strict=True):
        costs = [row["cost_s"] for row in these if row["cost_s"] is not None]
        made[key] = _RunFindings(len(these), sum(costs) if costs else None, these[0]["severity"], one.finding.title)
    return made
