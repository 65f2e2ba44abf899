"""How fairlead itself is: sources, what is taken in, gaps, the lake's size and what is kept, how far the analysis is.

All of it is read from the lake. Not here: the health of components (`component_health`), of each probe (`machine`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.core.model.unit_formats import format_bytes, format_duration
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers import Gap
from fairlead.explain.questions.answers_own_health import (
    AnalysisProgress,
    Collecting,
    LakeHeld,
    OwnHealth,
    SentRows,
    SilentHours,
    SourceSeen,
    TableHeld,
    Tier,
)
from fairlead.explain.questions.coverage import PERIODS, find_coverage_gaps
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.load_distributions import DistributionCache
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.store.inventory import Holding, take_stored_inventory
from fairlead.store.lake_folder import Place
from fairlead.store.retention import Policy
from fairlead.store.stored_tables import TIERS

HEARD_NS = 3 * DAY_NS
"""A source silent for longer is not shown as one any more."""
STEP_NS = 10 * MINUTE_NS
LATE_NS = 10 * MINUTE_NS
"""A job that ended so long ago should have its summary."""
BEGAN_NS = 8 * DAY_NS
"""Jobs that began longer ago are not looked at for the lag of the analysis."""
MOST = 300
_COLLECTOR, _FEED = "collector", "feed:"
_TROUBLE = ("failing", "late", "lost")
_LITTLE_ROOM = 0.05


def describe_own_health(lake: Tables, now_ns: int, *, kept: DistributionCache, keep: Policy | None = None) -> OwnHealth:
    """The whole of it. `keep`: what the server keeps how long, where that is known. Raises LakeError."""
    sources, collectors = _sources(lake, now_ns)
    states: dict[str, int] = {}
    for one in sources:
        states[one.state] = states.get(one.state, 0) + 1
    held = _lake(lake, now_ns, kept, keep)
    analysis = _analysed(lake, now_ns)
    missing = []
    if not sources:
        missing.append("sources: none reported in the last three days")
    if not collectors:
        missing.append("the server: no collector reported in the last three days")
    if keep is None:
        missing.append("retention: only a server knows its settings")
    problems = _problems(sources, collectors, held, analysis, now_ns)
    return OwnHealth(
        now_ns=now_ns,
        state="troubled" if problems else "ok",
        problems=problems,
        states=states,
        sources=sources[:MOST],
        collectors=collectors,
        taken=_taken(lake, now_ns, kept),
        silences=_silences(lake, now_ns, sources),
        lake=held,
        analysis=analysis,
        missing=missing,
    )


def count_silent_sources(lake: Tables, now_ns: int) -> tuple[int, list[Gap]]:
    """How many sources report, and a gap for each that is silent now, the latest first: the one definition of it, of
    Home, Health and `fairlead system show`. Raises LakeError."""
    sources, _ = _sources(lake, now_ns)
    open_ = {
        gap.source: gap for gap in find_coverage_gaps(lake, None, Span(now_ns - HEARD_NS, now_ns)) if gap.to_ns is None
    }
    silent = [
        open_.get(one.node) or Gap(source=one.node, from_ns=one.last_ns, to_ns=None, why="its agent no longer reports")
        for one in sources
        if one.state == "silent"
    ]
    return len(sources), sorted(silent, key=lambda gap: (-gap.from_ns, gap.source))


def _sources(lake: Tables, now_ns: int) -> tuple[list[SourceSeen], list[Collecting]]:
    """The last that every probe told, by node; what a collector tells of itself and its feeds apart."""
    span = Span(now_ns - HEARD_NS, now_ns + HOUR_NS)
    fields = ("state", "text", "interval_ns", "lost_batches", "clock_offset_ns", "memory_bytes")
    chosen = ", ".join(f"'{name}': {name}" for name in fields)
    found = query_lake(
        lake,
        f"WITH last AS (SELECT node, probe, max(ts_ns) AS ts_ns, arg_max({{{chosen}}}, ts_ns) AS said FROM health"
        f" WHERE ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)} GROUP BY node, probe),"
        " own AS (SELECT *, probe = $collector OR starts_with(probe, $feed) AS ours FROM last)"
        " SELECT node, ours, max(ts_ns) AS ts_ns, count(*) AS probes, max(said.interval_ns) AS every_ns,"
        " list(probe ORDER BY probe) FILTER (said.state IN (SELECT unnest($trouble))) AS troubled,"
        " string_agg(probe || ': ' || said.text, '; ' ORDER BY probe)"
        " FILTER (said.state IN (SELECT unnest($trouble)) AND said.text IS NOT NULL) AS why,"
        " sum(said.lost_batches)::BIGINT AS lost, arg_max(said.clock_offset_ns, ts_ns) AS off,"
        " max(said.memory_bytes) FILTER (probe = $collector) AS memory FROM own GROUP BY node, ours",
        {"collector": _COLLECTOR, "feed": _FEED, "trouble": list(_TROUBLE)},
        within=span,
    )
    open_ = {
        gap.source: gap for gap in find_coverage_gaps(lake, None, Span(now_ns - HEARD_NS, now_ns)) if gap.to_ns is None
    }
    sources, collectors = [], []
    for row in list_query_rows(found):
        if row["ours"]:
            collectors.append(_collector(row, now_ns))
        else:
            sources.append(_source(row, open_.get(row["node"]), now_ns))
    order = ("silent", "failing", "ok")
    sources.sort(key=lambda one: (order.index(one.state), -one.last_ns if one.state == "silent" else 0, one.node))
    return sources, sorted(collectors, key=lambda one: -one.ts_ns)


def _source(row: Mapping[str, Any], gap: Gap | None, now_ns: int) -> SourceSeen:
    every = max(row["every_ns"] or 0, MINUTE_NS)
    quiet = now_ns - row["ts_ns"]
    silent, troubled = quiet > PERIODS * every, row["troubled"] or []
    why = row["why"] or ""
    if silent:
        why = f"it reports every {format_duration(every / 1e9)}; no report for "
        why += format_duration(quiet / 1e9) + (f": {gap.why}" if gap is not None and gap.why else "")
    return SourceSeen(
        node=row["node"],
        state="silent" if silent else "failing" if troubled else "ok",
        last_ns=row["ts_ns"],
        every_ns=every,
        probes=row["probes"],
        troubled=troubled,
        lost_batches=row["lost"],
        clock_offset_ns=row["off"],
        why=why[:500],
    )


def _collector(row: Mapping[str, Any], now_ns: int) -> Collecting:
    every = max(row["every_ns"] or 0, MINUTE_NS)
    return Collecting(
        node=row["node"],
        ts_ns=row["ts_ns"],
        state="failing" if row["troubled"] else "ok",
        silent=now_ns - row["ts_ns"] > PERIODS * every,
        memory_bytes=row["memory"],
        text=row["why"],
    )


def _taken(lake: Tables, now_ns: int, kept: DistributionCache) -> SentRows:
    """Rows sent in the last day, as nodes count them: each word of health is of the interval before it. Looked at once
    a minute, as it looks at every word of the day."""
    end = now_ns // STEP_NS * STEP_NS
    span = Span(end - DAY_NS, end)
    key = ("rows sent", span, now_ns // MINUTE_NS)
    known = kept.get(key, now_ns)
    if known is None:
        known = _sent(lake, span)
        kept.put(key, known, now_ns)
    return known  # type: ignore[no-any-return]


def _sent(lake: Tables, span: Span) -> SentRows:
    found = query_lake(
        lake,
        f"SELECT (ts_ns - {span.from_ns}) // {STEP_NS} AS k, sum(rows) FILTER (probe = $agent OR rows_of_agent IS NULL)"
        " AS rows, count(DISTINCT node) AS sources FROM (SELECT *,"
        " max(rows) FILTER (probe = $agent) OVER (PARTITION BY node, ts_ns) AS rows_of_agent FROM health"
        f" WHERE ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {build_day_filter(span)}) GROUP BY k ORDER BY k",
        {"agent": "agent"},
        within=span,
    )
    count = DAY_NS // STEP_NS
    rate: list[float | None] = [None] * count
    heard: list[int | None] = [None] * count
    known = read_float_column(found, "rows") if found.num_rows else np.zeros(0)
    for k, rows, sources in zip(found["k"].to_pylist(), known.tolist(), found["sources"].to_pylist(), strict=True):
        heard[k] = sources
        rate[k] = rows / (STEP_NS / 1e9) if np.isfinite(rows) else None
    return SentRows(from_ns=span.from_ns, step_ns=STEP_NS, rows_per_s=rate, sources=heard)


def _silences(lake: Tables, now_ns: int, sources: list[SourceSeen]) -> SilentHours:
    """Gaps of the last week, and how many sources had one in each hour; who is silent without a gap that was written
    down (no server watched) has one."""
    end = -(-now_ns // HOUR_NS) * HOUR_NS
    span = Span(end - 7 * DAY_NS, end)
    gaps = find_coverage_gaps(lake, None, Span(span.from_ns, now_ns))
    named = {gap.source for gap in gaps if gap.to_ns is None}
    why = "no report since"
    gaps += [
        Gap(source=one.node, from_ns=one.last_ns, to_ns=None, why=why)
        for one in sources
        if one.state == "silent" and one.node not in named
    ]
    silent: list[set[str]] = [set() for _ in range(span.length_ns // HOUR_NS)]
    for gap in gaps:
        first = max(gap.from_ns - span.from_ns, 0) // HOUR_NS
        past = min((gap.to_ns if gap.to_ns is not None else now_ns), now_ns) - span.from_ns
        for hour in silent[first : -(-past // HOUR_NS)]:
            hour.add(gap.source)
    return SilentHours(
        from_ns=span.from_ns,
        step_ns=HOUR_NS,
        silent=[len(hour) for hour in silent],
        gaps=sorted(gaps, key=lambda one: (one.to_ns is not None, -one.from_ns))[:MOST],
    )


def _lake(lake: Tables, now_ns: int, kept: DistributionCache, keep: Policy | None) -> LakeHeld | None:
    """Size by table; looked at once a minute, as it looks at every file."""
    place = getattr(lake, "place", None)
    if not isinstance(place, Place):
        return None
    key = ("own health", str(place.root), now_ns // MINUTE_NS)
    found = kept.get(key, now_ns)
    if found is None:
        found = _held(place, now_ns, keep)
        kept.put(key, found, now_ns)
    return found  # type: ignore[no-any-return]


def _held(place: Place, now_ns: int, keep: Policy | None) -> LakeHeld:
    holdings, log_bytes, per_day = take_stored_inventory(place, now_ns)
    by_table: dict[str, list[Holding]] = {}
    for one in holdings:
        by_table.setdefault(one.table, []).append(one)
    tables = [
        TableHeld(
            table=name,
            rows=sum(one.rows for one in mine),
            bytes=sum(one.bytes for one in mine),
            files=sum(one.files for one in mine),
            days=max(one.days for one in mine),
            first_day=min((one.first_day for one in mine if one.first_day), default=None),
            last_day=max((one.last_day for one in mine if one.last_day), default=None),
            known=all(one.known for one in mine),
            keeps=_keeps(name, keep),
        )
        for name, mine in by_table.items()
    ]
    tables.sort(key=lambda one: -one.bytes)
    return LakeHeld(
        root=str(place.root),
        bytes=sum(one.bytes for one in tables) + log_bytes,
        log_bytes=log_bytes,
        free_bytes=_free(place.root),
        rows=sum(one.rows for one in tables),
        shards=len(place.list_shards()),
        bytes_per_day=per_day,
        tables=tables,
    )


def _keeps(table: str, keep: Policy | None) -> list[Tier]:
    if keep is None:
        return []
    if table in TIERS:
        days_of = (("1s", keep.rollup_1s_days), ("1min", keep.rollup_1min_days), ("1h", keep.rollup_1h_days))
        return [Tier(tier=name, days=value) for name, value in days_of]
    return [Tier(tier="", days=keep.find_days(table))]


def _free(root: Path) -> int | None:
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None


def _analysed(lake: Tables, now_ns: int) -> AnalysisProgress:
    """Jobs that ended within the last day, and whether they have a summary of all of their run. Of those that began in
    the last days."""
    span, wide = Span(now_ns - DAY_NS, now_ns - LATE_NS), Span(now_ns - BEGAN_NS, now_ns)
    found = query_lake(
        lake,
        "WITH over AS (SELECT cluster, job_id, start_ns, max(end_ns) AS end_ns FROM jobs"
        f" WHERE end_ns >= {span.from_ns} AND end_ns < {span.to_ns} AND {build_day_filter(wide)} GROUP BY ALL),"
        " done AS (SELECT DISTINCT cluster, job_id, start_ns FROM job_summary WHERE end_ns IS NOT NULL"
        f" AND end_ns >= {span.from_ns} AND {build_day_filter(wide)})"
        " SELECT count(*) AS ended, count(*) FILTER (done.job_id IS NULL) AS waiting,"
        " min(over.end_ns) FILTER (done.job_id IS NULL) AS oldest FROM over LEFT JOIN done"
        " ON over.job_id = done.job_id AND over.start_ns = done.start_ns"
        " AND over.cluster IS NOT DISTINCT FROM done.cluster",
        within=wide,
        began=wide,
    )
    last = query_lake(
        lake, f"SELECT max(made_ns) AS at FROM job_summary WHERE {build_day_filter(wide)}", within=wide, began=wide
    )
    ended, waiting = (int(read_integer_column(found, name)[0]) for name in ("ended", "waiting"))
    return AnalysisProgress(
        last_ns=last["at"][0].as_py(), ended=ended, waiting=waiting, oldest_ns=found["oldest"][0].as_py()
    )


def _problems(
    sources: list[SourceSeen],
    collectors: list[Collecting],
    held: LakeHeld | None,
    analysis: AnalysisProgress,
    now_ns: int,
) -> list[str]:
    """What somebody has to look after, in words."""
    said = []
    for state, word in (("silent", "silent"), ("failing", "failing in part")):
        mine = [one.node for one in sources if one.state == state]
        if mine:
            more = f" and {len(mine) - 3:,} more" if len(mine) > 3 else ""
            said.append(f"{len(mine):,} of {len(sources):,} sources {word}: {', '.join(mine[:3])}{more}")
    for one in collectors[:1]:
        if one.silent:
            said.append(f"the server on {one.node} has not reported for {format_duration((now_ns - one.ts_ns) / 1e9)}")
        elif one.text:
            said.append(f"the server on {one.node}: {one.text}")
    if held is not None:
        strange = [one.table for one in held.tables if not one.known]
        if strange:
            said.append(f"tables from a newer version of fairlead, kept but not shown: {', '.join(strange)}")
        if held.free_bytes is not None and held.free_bytes < _LITTLE_ROOM * (held.free_bytes + held.bytes):
            said.append(f"little space is left on the lake's file system: {format_bytes(held.free_bytes)}")
    if analysis.waiting and analysis.oldest_ns is not None:
        lag = format_duration((now_ns - analysis.oldest_ns) / 1e9)
        many = analysis.waiting > 1
        said.append(
            f"{analysis.waiting:,} jobs wait for their summary, the oldest ended {lag} ago"
            if many
            else f"1 job waits for its summary, it ended {lag} ago"
        )
    return said
