"""Metadata load: who hammers a metadata server, with what, from where: operations, classes of clients, clients, jobs.

Sums over time are of the rollup; operations and clients are counted from the raw rows of the span.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairlead.core.model.site_facts import SiteFacts
from fairlead.core.model.site_file import ADDRESSED, OF_CLASS
from fairlead.core.model.tables import PART_SOURCES
from fairlead.explain.questions.answers import Mds, OpCount
from fairlead.explain.questions.components import SERVED_BY, SERVED_WITHIN_NS, list_component_names
from fairlead.explain.questions.coverage import find_coverage
from fairlead.explain.questions.job_accounts import find_latest_accounts
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.latencies import list_latencies
from fairlead.explain.questions.rollup_sums import build_rollup_select
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.explain.questions.timelines import build_timeline, sum_timeline_by_layer
from fairlead.explain.questions.visible_lake import (
    find_visible_intervals,
    mask_by_visible_intervals,
    require_visible_component,
)

RAW_NS = 6 * HOUR_NS
"""Operations and clients are counted over at most so long, the end of the span: raw rows are many."""
_MOST_OF_ONE = 1 << 56
"""Operations of one row, as in `analysis.rollup_cells`: one that says more must not spoil the sum of the others."""
_NOT_COUNTED = (
    "samedir_rename",
    "crossdir_rename",
    "parallel_rename_dir",
    "parallel_rename_file",
    "read",
    "write",
    "read_bytes",
    "write_bytes",
)
"""Words that split up another word, or are no metadata operations (as in `analysis.rollups`)."""
_DIGITS = re.compile(r"[0-9]+.*$")


def describe_metadata_load(
    lake: Tables,
    server: str,
    span: Span,
    sight: Sight,
    now_ns: int,
    *,
    points: int = 600,
    limit: int = 20,
    facts: SiteFacts | None = None,
) -> Mds:
    """Metadata load of one server or metadata target, or of all (`server` empty). Raises UnknownNameError."""
    where = "kind = $kind AND job_id IS NULL" + (" AND id = $id" if server else "")
    parameters: dict[str, object] = {"kind": "mds"}
    if server:
        parameters["id"] = server
        require_visible_component(lake, "mds", server, span, "metadata server")
    steps, found = sum_timeline_by_layer(lake, span, where, parameters, now_ns, points)
    if server and not found.num_rows:
        known = list_component_names(lake, "mds", now_ns, span)
        if server not in known:
            raise UnknownNameError("metadata server", server, find_similar_names(server, known))
    seconds = max(1e-9, (min(span.to_ns, max(now_ns, span.from_ns + 1)) - span.from_ns) / 1e9)
    servers = _by(lake, span, "id", "job_id IS NULL", parameters, server)
    total = sum(row["count"] for row in servers) if servers else None
    cover = find_coverage(lake, [row["name"] for row in servers] + _hosts(lake, span, server), steps)
    raw = Span(max(span.from_ns, span.to_ns - RAW_NS), span.to_ns)
    ops = _raw(lake, raw, "op", server, parts=False)
    clients = _raw(lake, raw, "client", server, parts=True)
    classes = _classes(clients, facts or _told(lake, [row["name"] for row in clients]))
    raw_s = max(1e-9, (min(raw.to_ns, max(now_ns, raw.from_ns + 1)) - raw.from_ns) / 1e9)
    return Mds(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        server=server or None,
        total=total,
        per_s=total / seconds if total is not None else None,
        servers=_counted(servers, seconds, limit),
        ops=_counted(ops, raw_s, limit),
        classes=_counted(classes, raw_s, limit),
        clients=_counted(clients, raw_s, limit) if sight.everything else [],
        jobs=_jobs(lake, span, server, parameters, total, seconds, limit),
        hidden=not sight.everything,
        timeline=mask_by_visible_intervals(
            build_timeline(steps, found, cover), find_visible_intervals(lake, "mds", span, server)
        ),
        gaps=cover.gaps,
        latencies=list_latencies(lake, span, where, parameters),
    )


def _by(
    lake: Tables, span: Span, column: str, condition: str, parameters: Mapping[str, object], server: str
) -> list[dict[str, Any]]:
    where = f"kind = $kind AND {condition}" + (" AND id = $id" if server else "")
    found = query_lake(
        lake,
        f"SELECT {column} AS name, sum(metadata_ops)::BIGINT AS count FROM"
        f" {build_rollup_select(span, where, f'{column}, metadata_ops')} GROUP BY {column}"
        " HAVING sum(metadata_ops) IS NOT NULL ORDER BY 2 DESC, 1",
        parameters,
        within=span.align_to(HOUR_NS),
    )
    return list_query_rows(found)


def _raw(lake: Tables, span: Span, column: str, server: str, *, parts: bool) -> list[dict[str, Any]]:
    """Counts by a column of raw rows: of rows that add up to the whole, or (`parts`) also of those split by client. A
    row is of the interval that ends at its time."""
    chosen = "AND (target = $id OR (target IS NULL AND server = $id) OR server = $id) " if server else ""
    source = (
        "AND client IS NOT NULL AND coalesce(source, '') IN (SELECT unnest($sources)) "
        if parts
        else "AND coalesce(source, '') NOT IN (SELECT unnest($sources)) "
    )
    sources = ["exports", "mountstats", ""] if parts else list(PART_SOURCES)
    found = query_lake(
        lake,
        f"SELECT {column} AS name, sum(count)::BIGINT AS count, CASE WHEN bool_and(busy_ns IS NOT NULL OR count = 0)"
        " AND sum(count) > 0 THEN sum(busy_ns) / sum(count) END AS mean_ns FROM metadata"
        f" WHERE ts_ns > {span.from_ns}"
        f" AND ts_ns <= {span.to_ns} AND {build_day_filter(span)} AND count BETWEEN 0 AND {_MOST_OF_ONE}"
        f" AND op NOT IN (SELECT unnest($not_counted)) {source}{chosen}"
        "GROUP BY 1 ORDER BY 2 DESC, 1",
        {"sources": sources, "not_counted": list(_NOT_COUNTED)} | ({"id": server} if server else {}),
        within=span,
    )
    return list_query_rows(found)


UNKNOWN_CLASS = "unknown class"


def _told(lake: Tables, clients: list[str]) -> SiteFacts | None:
    """Classes of clients as a site file told the lake once; None where none did."""
    if not clients:
        return None
    hosts = {client.partition(".")[0] if "@" not in client else client for client in clients}
    found = query_lake(
        lake,
        "WITH told AS (SELECT a, max_by(b, from_ns) AS b FROM mapping WHERE kind = $of_class GROUP BY a),"
        " named AS (SELECT a, max_by(b, from_ns) AS b FROM mapping WHERE kind = $addressed GROUP BY a)"
        " SELECT a, b FROM told WHERE a IN (SELECT unnest($names)) UNION ALL"
        " SELECT named.a, told.b FROM named JOIN told ON told.a = named.b WHERE named.a IN (SELECT unnest($names))"
        " UNION ALL SELECT NULL, min(b) FROM told",
        {"of_class": OF_CLASS, "addressed": ADDRESSED, "names": sorted({*clients, *hosts})},
    )
    rows = list_query_rows(found)
    if all(row["b"] is None for row in rows):
        return None
    return SiteFacts({row["a"] or "": row["b"] for row in rows})


def _classes(clients: list[dict[str, Any]], facts: SiteFacts | None) -> list[dict[str, Any]]:
    """Clients by class: as the site says (`UNKNOWN_CLASS` where it does not); where no site is described, the letters
    their names begin with (`login03` → login, `10.0.1.2@o2ib` → its network)."""
    sums: dict[str, int] = {}
    for row in clients:
        described = facts is not None and facts.classes
        name = (
            (facts.find_class(row["name"]) or UNKNOWN_CLASS)
            if facts and described
            else classify_metadata_client(row["name"])
        )
        sums[name] = sums.get(name, 0) + row["count"]
    return [{"name": name, "count": sums[name]} for name in sorted(sums, key=lambda name: -sums[name])]


def classify_metadata_client(client: str) -> str:
    """What kind of machine a client is, by its name."""
    host, at, network = client.partition("@")
    if at and host[:1].isdigit():
        return f"@{network}"
    return _DIGITS.sub("", host.split(".")[0]).rstrip("-_") or host


def _counted(rows: list[dict[str, Any]], seconds: float, limit: int) -> list[OpCount]:
    whole = sum(row["count"] for row in rows)
    return [
        OpCount(
            name=row["name"],
            count=row["count"],
            per_s=row["count"] / seconds,
            share=row["count"] / whole if whole else 0.0,
            user=row.get("user"),
            program=row.get("program"),
            mean_ns=row.get("mean_ns"),
        )
        for row in rows[:limit]
    ]


def _jobs(
    lake: Tables,
    span: Span,
    server: str,
    parameters: Mapping[str, object],
    total: int | None,
    seconds: float,
    limit: int,
) -> list[OpCount]:
    rows = _by(lake, span, "job_id", "job_id IS NOT NULL", parameters, server)
    told = find_latest_accounts(lake, [row["name"] for row in rows[:limit]], span)
    counted = []
    for row in rows[:limit]:
        account = told.get(row["name"])
        counted.append(
            OpCount(
                name=row["name"],
                count=row["count"],
                per_s=row["count"] / seconds,
                share=row["count"] / total if total else 0.0,
                user=account["user"] if account else None,
                program=account["program"] if account else None,
            )
        )
    return counted


def _hosts(lake: Tables, span: Span, server: str) -> list[str]:
    """Hosts that serve metadata targets: from the mapping, else those that counted near the end of the span."""
    chosen = "AND a = $name" if server else ""
    found = query_lake(
        lake,
        f"SELECT DISTINCT b FROM mapping WHERE kind IN (SELECT unnest($kinds)) AND from_ns < {span.to_ns}"
        f" AND (to_ns IS NULL OR to_ns > {span.from_ns - DAY_NS}) {chosen} LIMIT 64",
        {"kinds": list(SERVED_BY)} | ({"name": server} if server else {}),
    )
    mapped: list[str] = found.column("b").to_pylist()
    if mapped:
        return mapped
    last = Span(max(span.from_ns, span.to_ns - SERVED_WITHIN_NS), span.to_ns)
    chosen = "AND target = $name" if server else ""
    raw = query_lake(
        lake,
        f"SELECT DISTINCT server FROM metadata WHERE server IS NOT NULL AND ts_ns >= {last.from_ns}"
        f" AND ts_ns < {last.to_ns} AND {build_day_filter(last)} {chosen} LIMIT 64",
        {"name": server} if server else None,
        within=last,
    )
    return [name for name in raw.column("server").to_pylist() if name]
