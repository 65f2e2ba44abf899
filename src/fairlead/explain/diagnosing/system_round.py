"""One look at the whole system: each hour and each day that is over, once, as findings in the lake.

A window's batch is named after it and written also when nothing was found, so that nobody looks again. Windows missed
while nobody looked are caught up with, the latest first, a bounded number a round. Not here: what is found
(`analysis.system`).
"""
# ruff: noqa: S608  (names of columns and conditions are ours)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION, StoredFinding, build_finding_rows
from fairlead.core.model.tables import TABLES
from fairlead.explain.analysis.system.system_findings import (
    DAILY,
    HOURLY,
    find_system_findings,
    list_system_finding_kinds,
    list_system_finding_tables,
)
from fairlead.explain.analysis.system.system_site import SystemSite
from fairlead.explain.questions.lake_queries import build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.store.stored_tables import conform_stored_table

LATE_NS = 10 * MINUTE_NS
"""A window is looked at this long after its end: records come late."""
BACK = {HOUR_NS: 14 * 24, DAY_NS: 14}
"""So many windows back one is looked at that was missed, by their length."""
MOST_WINDOWS = 12
"""Windows looked at in one round."""
MOST_ROWS = 3_000_000
"""Of a table that has more rows in a window nothing is read; findings tell that."""
_CONDITION = {
    "rollup": f"interval_ns = {MINUTE_NS} AND ts_ns >= {{begin}} AND ts_ns < {{end}}",
    "job_summary": "start_ns < {end} AND coalesce(end_ns, made_ns) > {begin}",
    "mapping": "from_ns < {end} AND (to_ns IS NULL OR to_ns > {begin})",
    "layouts": "true",
    "file_counters": "open_start_ns >= {begin} AND open_start_ns < {end}",
    "ops": "start_ns >= {begin} AND start_ns < {end}",
    "metadata": "ts_ns > {begin} AND ts_ns <= {end} AND client IS NOT NULL",
    "health": "ts_ns >= {begin} AND ts_ns < {end}",
}
_BEFORE = {"job_summary": 32 * DAY_NS}


@dataclass(frozen=True)
class RoundResult:
    """What a round did. `left`: windows that still wait."""

    written: int
    left: int


def _list_ended_windows(now_ns: int) -> list[Span]:
    """Hours and days that are over, those that ended last first, of these hours first."""
    found = []
    for length, back in BACK.items():
        last = (now_ns - LATE_NS) // length * length
        found += [Span(last - k * length, last - (k - 1) * length) for k in range(1, back + 1)]
    return sorted(found, key=lambda window: (-window.to_ns, window.length_ns))


def _stream_of(window: Span) -> str:
    """What names a window's batch for ever."""
    return f"system/{DIAGNOSIS_VERSION}/{window.from_ns}/{window.to_ns}"


def run_system_round(lake: Any, writer: Any, now_ns: int, site: SystemSite, *, most: int = MOST_WINDOWS) -> RoundResult:
    """Looks at `most` of the windows that were not looked at and of which there is something, one batch each. Raises
    LakeError."""
    due = [window for window in _list_ended_windows(now_ns) if not writer.has_batch(_stream_of(window))]
    busy = _busy_hours(lake, due)
    due = [window for window in due if any(hour in busy for hour in _hours(window))]
    written = 0
    for window in due[:most]:
        rules = HOURLY if window.length_ns == HOUR_NS else DAILY
        tables, unread = _tables(lake, window, rules)
        found = find_system_findings(tables, site, window.from_ns, window.to_ns, only=rules, advice=load_advice_set())
        told = [_with_missing(one, unread) for one in found.told]
        batch = writer.open_batch(_stream_of(window), source="analysis")
        batch.add(build_finding_rows(sorted(told, key=lambda one: one.finding.id), now_ns))
        batch.commit()
        written += len(told)
    return RoundResult(written, max(len(due) - most, 0))


def _hours(window: Span) -> range:
    return range(window.from_ns // HOUR_NS, window.to_ns // HOUR_NS)


def _busy_hours(lake: Any, due: Sequence[Span]) -> set[int]:
    """Hours of these windows in which something was counted or a job began. Of others nothing is known, and when their
    records come, they are looked at."""
    if not due:
        return set()
    span = Span(min(window.from_ns for window in due), max(window.to_ns for window in due))
    found = query_lake(
        lake,
        f"SELECT ts_ns // {HOUR_NS} AS hour FROM rollup WHERE interval_ns = {HOUR_NS} AND ts_ns >= {span.from_ns}"
        f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)} UNION SELECT start_ns // {HOUR_NS} FROM job_summary"
        f" WHERE start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND {build_day_filter(span)}",
    )
    return set(found["hour"].to_pylist())


def _with_missing(one: StoredFinding, unread: Sequence[str]) -> StoredFinding:
    if not unread:
        return one
    finding = msgspec.structs.replace(one.finding, missing=[*unread, *one.finding.missing])
    return msgspec.structs.replace(one, finding=finding)


def _tables(lake: Any, window: Span, rules: Sequence[str]) -> tuple[dict[str, pa.Table], list[str]]:
    """What these rules read of a window, and what was not read of it and why; tables without rows in it are left out,
    and so are those with too many."""
    found, unread = {}, []
    for name in list_system_finding_tables(rules):
        spec = TABLES[name]
        where = _CONDITION[name].format(begin=window.from_ns, end=window.to_ns)
        if spec.time_column is not None and name != "mapping":
            where += f" AND {build_day_filter(Span(window.from_ns - _BEFORE.get(name, DAY_NS), window.to_ns + DAY_NS))}"
        words: dict[str, object] = {}
        if name == "rollup":
            where += " AND kind IN (SELECT unnest($kinds)) AND (kind <> $whole OR job_id IS NULL)"
            words = {"kinds": list_system_finding_kinds(rules), "whole": "node"}
        counted = query_lake(lake, f"SELECT count(*) AS n FROM {name} WHERE {where}", words)["n"][0].as_py()
        if 0 < counted <= MOST_ROWS:
            order = ", ".join(f'"{column}"' for column in spec.sort_by)
            rows = query_lake(lake, f"SELECT * EXCLUDE (day) FROM {name} WHERE {where} ORDER BY {order}", words)
            found[name] = conform_stored_table(rows, spec, strict=True)
        elif counted:
            unread.append(f"{name}: {counted:,} rows in this window exceed the limit ({MOST_ROWS:,})")
    return found, unread
