"""Lists of jobs, and who moved most: jobs, users, projects, programs over a span.

Not here: which layer speaks for a job (`job_volumes`), one job (`job_detail`).
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.explain.questions.answers import JobRow, Jobs, Sums, Top, TopRow
from fairlead.explain.questions.job_accounts import (
    COLUMNS,
    build_account_condition,
    build_account_row,
    compute_account_begin_span,
    is_account_running,
)
from fairlead.explain.questions.job_volumes import add_accounts_to_volumes, read_volume_accounts, sum_job_volumes
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows, query_lake
from fairlead.explain.questions.node_estimates import add_node_estimates
from fairlead.explain.questions.rollup_sums import VALUES, read_rollup_sums
from fairlead.explain.questions.span import Span

SORTS = ("start", "end", "read", "write", "bytes", "metadata", "nodes", "user", "job")
METRICS = ("bytes", "read", "write", "metadata")
BY = ("jobs", "users", "projects", "programs")
FILTERS = ("user", "project", "program", "state", "partition", "cluster")
_ORDER = {
    "start": "start_ns DESC NULLS LAST",
    "end": "end_ns DESC NULLS FIRST",
    "nodes": "nodes_count DESC NULLS LAST",
    "user": '"user" NULLS LAST',
    "job": "job_id",
}
_OWNER = ("job_id", "user", "project", "program", "start_ns", "end_ns", "state", "nodes_count")


def list_jobs(
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
    """Jobs that ran in the span. `filters`: equal values of `FILTERS`; `node`: jobs on that node. Sorted by figures,
    jobs that counters name and no scheduler told of are among them where nothing is filtered."""
    filters = {name: value for name, value in (filters or {}).items() if value}
    conditions, parameters = _conditions(span, now_ns, filters, node, running)

    def moved(of: pa.Table) -> pa.Table:
        return add_node_estimates(lake, span, sum_job_volumes(lake, span, of), of)

    if sort in _ORDER and not running:
        found = _accounts(lake, span, conditions, parameters, _ORDER[sort], f" LIMIT {limit} OFFSET {offset}")
        total = found.column("total")[0].as_py() if found.num_rows else 0
        return _page(span, total, sort, _rows(found, moved(found), now_ns))
    found = _accounts(lake, span, conditions, parameters, _ORDER.get(sort, _ORDER["start"]), "")
    if running:
        found = found.filter(pa.array([is_account_running(a, now_ns) for a in list_query_rows(found)], pa.bool_()))
    if sort in _ORDER:
        page = found.slice(offset, limit)
        return _page(span, found.num_rows, sort, _rows(page, moved(page), now_ns))
    open_to_all = sight.everything and not filters and not node and not running
    sums = add_node_estimates(lake, span, sum_job_volumes(lake, span), found) if open_to_all else moved(found)
    listed = _rows(found, sums, now_ns)
    if open_to_all:
        listed += _unaccounted(sums, {row.job_id for row in listed})
    listed.sort(key=lambda row: (-_value(row.sums, sort), row.job_id))
    return _page(span, len(listed), sort, listed[offset : offset + limit])


def _conditions(
    span: Span, now_ns: int, filters: Mapping[str, str], node: str, running: bool
) -> tuple[list[str], dict[str, object]]:
    conditions, parameters = [build_account_condition(span)], dict[str, object]()
    for name, value in filters.items():
        conditions.append(f'lower("{name}") = lower($f_{name})' if name == "state" else f'"{name}" = $f_{name}')
        parameters[f"f_{name}"] = value
    if node:
        conditions.append("list_contains(nodes, $node)")
        parameters["node"] = node
    if running:
        conditions.append(f"(end_ns IS NULL OR end_ns > {now_ns})")
    return conditions, parameters


def _accounts(
    lake: Tables, span: Span, conditions: list[str], parameters: dict[str, object], order: str, cut: str
) -> pa.Table:
    chosen = ", ".join(f'"{name}"' for name in COLUMNS)
    sql = (
        f"SELECT {chosen}, count(*) OVER () AS total FROM jobs WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order}, job_id DESC{cut}"
    )
    return query_lake(
        lake, sql, parameters, within=compute_account_begin_span(span), began=compute_account_begin_span(span)
    )


def _rows(found: pa.Table, sums_by_job: pa.Table, now_ns: int) -> list[JobRow]:
    sums = {row["id"]: (row["layer"], read_rollup_sums(row)) for row in list_query_rows(sums_by_job)}
    rows = []
    for account in list_query_rows(found):
        layer, figures = sums.get(account["job_id"], (None, None))
        rows.append(build_account_row(account, now_ns, sums=figures, layer=layer))
    return rows


def _unaccounted(moved: pa.Table, known: set[str]) -> list[JobRow]:
    return [
        JobRow(job_id=row["id"], layer=row["layer"], sums=read_rollup_sums(row), accounted=False)
        for row in list_query_rows(moved)
        if row["id"] not in known
    ]


def _page(span: Span, total: int, sort: str, rows: list[JobRow]) -> Jobs:
    return Jobs(from_ns=span.from_ns, to_ns=span.to_ns, total=total, sort=sort, jobs=rows)


def _value(sums: Sums, metric: str) -> int:
    if metric == "bytes":
        return sums.bytes or 0
    return {"read": sums.read_bytes, "write": sums.write_bytes, "metadata": sums.metadata_ops}[metric] or 0


def rank_job_consumers(
    lake: Tables, span: Span, sight: Sight, now_ns: int, *, by: str = "jobs", metric: str = "bytes", limit: int = 20
) -> Top:
    """Who moved most in the span (`by` of `BY`, `metric` of `METRICS`). Of a reader who does not see
    everything: of the jobs he sees, with totals of these alone."""
    told = read_volume_accounts(lake, span, _OWNER)
    moved = sum_job_volumes(lake, span, None if sight.everything else told)
    table = add_accounts_to_volumes(add_node_estimates(lake, span, moved, told), told)
    total = Sums(**{name: pc.sum(table.column(name)).as_py() for name in VALUES})
    if by == "jobs":
        table = table.append_column("jobs", pa.array([1] * table.num_rows, pa.int64()))
    else:
        table = _grouped(table, {"users": "user", "projects": "project", "programs": "program"}[by])
    first = _by_metric(table, metric, limit)
    whole = _value(total, metric)
    rows = [_top_row(row, by, metric, whole, now_ns) for row in list_query_rows(first)]
    return Top(
        from_ns=span.from_ns, to_ns=span.to_ns, by=by, metric=metric, total=total, count=table.num_rows, rows=rows
    )


def _grouped(table: pa.Table, name: str) -> pa.Table:
    sums = table.group_by(name).aggregate([("id", "count"), *((value, "sum") for value in VALUES)])
    names = {name: "id", "id_count": "jobs", **{f"{value}_sum": value for value in VALUES}}
    return sums.rename_columns([names[column] for column in sums.column_names])


def _by_metric(table: pa.Table, metric: str, limit: int) -> pa.Table:
    columns = {"bytes": VALUES[:2], "read": VALUES[:1], "write": VALUES[1:2], "metadata": VALUES[4:]}[metric]
    value = table.column(columns[0]).fill_null(0)
    for name in columns[1:]:
        value = pc.add(value, table.column(name).fill_null(0))
    keyed = table.append_column("value", value)
    order = pc.sort_indices(keyed, sort_keys=[("value", "descending"), ("id", "ascending")])
    return table.take(order.slice(0, limit))


def _top_row(row: Mapping[str, Any], by: str, metric: str, whole: int, now_ns: int) -> TopRow:
    sums = read_rollup_sums(row)
    share = _value(sums, metric) / whole if whole else None
    if by != "jobs":
        return TopRow(name=row["id"], sums=sums, share=share, jobs=row["jobs"])
    running = is_account_running(row, now_ns) if row["start_ns"] is not None else None
    return TopRow(
        name=row["id"],
        sums=sums,
        share=share,
        jobs=1,
        user=row["user"],
        program=row["program"],
        running=running,
        layer=row["layer"],
    )
