"""Lists of jobs, and who moved most: jobs, users, projects, programs over a span.

A job's figures are of the layer that tells it best (`sums.RANK`): layers count the same bytes and are never added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fairlead.questions.accounts import COLUMNS, begun_in, in_span, is_running, row_of
from fairlead.questions.answers import JobRow, Jobs, Sums, Top, TopRow
from fairlead.questions.asking import Sight, Tables, records, select
from fairlead.questions.span import Span
from fairlead.questions.sums import RANK, VALUES, added, sums_of, totals

SORTS = ("start", "end", "read", "write", "bytes", "metadata", "nodes", "user", "job")
METRICS = ("bytes", "read", "write", "metadata")
BY = ("jobs", "users", "projects", "programs")
_VALUE = {
    "bytes": "coalesce(read_bytes, 0) + coalesce(write_bytes, 0)",
    "read": "coalesce(read_bytes, 0)",
    "write": "coalesce(write_bytes, 0)",
    "metadata": "coalesce(metadata_ops, 0)",
}
_ORDER = {
    "start": "start_ns DESC NULLS LAST",
    "end": "end_ns DESC NULLS FIRST",
    "nodes": "nodes_count DESC NULLS LAST",
    "user": '"user" NULLS LAST',
    "job": "job_id",
}
FILTERS = ("user", "project", "program", "state", "partition", "cluster")


def moved(lake: Tables, span: Span, numbers: Sequence[str] | None = None) -> dict[str, tuple[str, Sums]]:
    """Layer and sums of every job that counters name in the span (or of `numbers`)."""
    chosen = " AND id IN (SELECT unnest($numbers))" if numbers is not None else ""
    parameters: dict[str, object] = {"kind": "job"} | ({"numbers": list(numbers)} if numbers is not None else {})
    return best_layers(totals(lake, span, "id, layer", f"kind = $kind{chosen}", parameters))


def best_layers(found: pa.Table) -> dict[str, tuple[str, Sums]]:
    """Of sums by `id` and `layer`, for each id those of the layer that tells it best.

    Bytes and operations are of one layer; metadata operations of the first that knows them.
    """
    ranked: dict[str, list[tuple[int, str, Sums]]] = {}
    for row in records(found):
        rank = RANK.index(row["layer"]) if row["layer"] in RANK else len(RANK)
        ranked.setdefault(row["id"], []).append((rank, row["layer"], sums_of(row)))
    best = {}
    for name, layers in ranked.items():
        layers.sort(key=lambda item: item[:2])
        _, layer, sums = next((one for one in layers if one[2].bytes is not None), layers[0])
        metadata = next((s.metadata_ops for _, _, s in layers if s.metadata_ops is not None), None)
        parts = {name: getattr(sums, name) for name in VALUES} | {"metadata_ops": metadata}
        best[name] = (layer, Sums(**parts))
    return best


def jobs(
    lake: Tables,
    span: Span,
    sight: Sight,
    now_ns: int,
    *,
    filters: Mapping[str, str] | None = None,
    node: str = "",
    running: bool = False,
    sort: str = "start",
    limit: int = 50,
    offset: int = 0,
) -> Jobs:
    """Jobs that ran in the span. `filters`: equal values of `FILTERS`; `node`: jobs on that node."""
    filters = {name: value for name, value in (filters or {}).items() if value}
    conditions, parameters = [in_span(span)], dict[str, object]()
    for name, value in filters.items():
        conditions.append(f'lower("{name}") = lower($f_{name})' if name == "state" else f'"{name}" = $f_{name}')
        parameters[f"f_{name}"] = value
    if not sight.everything:
        conditions.append('"user" = $owner')
        parameters["owner"] = sight.user
    if node:
        conditions.append("list_contains(nodes, $node)")
        parameters["node"] = node
    if running:
        conditions.append(f"(end_ns IS NULL OR end_ns > {now_ns})")
    if sort in _ORDER and not running:
        return _by_account(lake, span, now_ns, conditions, parameters, sort, limit, offset)
    found = _accounts(lake, span, conditions, parameters, "start_ns DESC NULLS LAST", None, 0)
    chosen = [a for a in records(found) if not running or is_running(a, now_ns)]
    sums = moved(lake, span) if sort not in _ORDER else {}
    listed = [row_of(a, now_ns, layer=sums.get(a["job_id"], (None,))[0], sums=sums.get(a["job_id"], (None, None))[1]) for a in chosen]
    if sort in _ORDER:
        page = _with_sums(lake, span, listed[offset : offset + limit])
        return _page(span, len(listed), sort, page)
    if sight.everything and not filters and not node and not running:
        known = {row.job_id for row in listed}
        listed += [JobRow(job_id=n, layer=s[0], sums=s[1], accounted=False) for n, s in sums.items() if n not in known]
    listed.sort(key=lambda row: (-(_value(row.sums, sort)), row.job_id))
    return _page(span, len(listed), sort, listed[offset : offset + limit])


def _by_account(
    lake: Tables, span: Span, now_ns: int, conditions: list[str], parameters: dict[str, object], sort: str, limit: int,
    offset: int,
) -> Jobs:  # fmt: skip
    found = _accounts(lake, span, conditions, parameters, _ORDER[sort], limit, offset)
    rows = records(found)
    total = rows[0]["total"] if rows else 0
    return _page(span, total, sort, _with_sums(lake, span, [row_of(row, now_ns) for row in rows]))


def _accounts(
    lake: Tables, span: Span, conditions: list[str], parameters: dict[str, object], order: str, limit: int | None, offset: int
) -> pa.Table:
    chosen = ", ".join(f'"{name}"' for name in COLUMNS)
    cut = f" LIMIT {limit} OFFSET {offset}" if limit is not None else ""
    sql = (
        f"SELECT {chosen}, count(*) OVER () AS total FROM jobs WHERE {' AND '.join(conditions)} "  # noqa: S608
        f"ORDER BY {order}, job_id DESC{cut}"
    )
    return select(lake, sql, parameters, within=begun_in(span))


def _with_sums(lake: Tables, span: Span, rows: list[JobRow]) -> list[JobRow]:
    from msgspec.structs import replace

    sums = moved(lake, span, [row.job_id for row in rows]) if rows else {}
    return [replace(r, layer=sums[r.job_id][0], sums=sums[r.job_id][1]) if r.job_id in sums else r for r in rows]


def _page(span: Span, total: int, sort: str, rows: list[JobRow]) -> Jobs:
    return Jobs(from_ns=span.from_ns, to_ns=span.to_ns, total=total, sort=sort, jobs=rows)


def _value(sums: Sums, metric: str) -> int:
    if metric == "bytes":
        return sums.bytes or 0
    return {"read": sums.read_bytes, "write": sums.write_bytes, "metadata": sums.metadata_ops}[metric] or 0


def top(
    lake: Tables, span: Span, sight: Sight, now_ns: int, *, by: str = "jobs", metric: str = "bytes", limit: int = 20
) -> Top:
    """Who moved most in the span (`by` of `BY`, `metric` of `METRICS`)."""
    table = _moved_by_job(lake, span, sight)
    if by == "jobs":
        rows = [_top_job(row, now_ns) for row in records(table)]
    else:
        rows = _grouped(table, by)
    if not sight.everything and by == "users":
        rows = [row for row in rows if row.name == sight.user]
    total = added([row.sums for row in rows])
    whole = _value(total, metric)
    rows.sort(key=lambda row: (-_value(row.sums, metric), row.name or ""))
    listed = [_shared(row, metric, whole) for row in rows[:limit]]
    return Top(
        from_ns=span.from_ns, to_ns=span.to_ns, by=by, metric=metric, total=total, count=len(rows), rows=listed
    )  # fmt: skip


def _shared(row: TopRow, metric: str, whole: int) -> TopRow:
    from msgspec.structs import replace

    return replace(row, share=_value(row.sums, metric) / whole if whole else None)


def _moved_by_job(lake: Tables, span: Span, sight: Sight) -> pa.Table:
    """A row a job that counters name: its account (nulls without one), layer and sums. A reader with a user gets that
    user's jobs, and of each only what was counted while it ran: numbers are used again."""
    from fairlead.questions.ranking import ranked

    return ranked(lake, span, None if sight.everything else sight.user)


def _top_job(row: Mapping[str, Any], now_ns: int) -> TopRow:
    running = is_running(row, now_ns) if row["start_ns"] is not None else None
    return TopRow(
        name=row["id"], sums=sums_of(row), share=None, jobs=1, user=row["user"], program=row["program"],
        running=running, layer=row["layer"],
    )  # fmt: skip


def _grouped(table: pa.Table, by: str) -> list[TopRow]:
    groups: dict[str | None, list[Sums]] = {}
    name = {"users": "user", "projects": "project", "programs": "program"}[by]
    for row in records(table.select([name, *VALUES])):
        groups.setdefault(row[name], []).append(sums_of(row))
    return [TopRow(name=name, sums=added(sums), share=None, jobs=len(sums)) for name, sums in groups.items()]
