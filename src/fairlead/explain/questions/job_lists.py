"""Lists of jobs, and who moved most: jobs, users, projects, programs over a span.

Not here: which layer speaks for a job (`job_volumes`), one job (`job_detail`).
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from fairlead.explain.questions.answers import JobRow, Jobs, Sums, Top, TopRow
from fairlead.explain.questions.job_accounts import (
    COLUMNS,
    build_account_condition,
    build_account_row,
    compute_account_begin_span,
    is_account_running,
)
from fairlead.explain.questions.job_counters import RUN_COLUMNS
from fairlead.explain.questions.job_volumes import (
    build_volume_runs,
    read_job_volumes,
    read_volume_bound,
    sum_named_jobs,
)
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows, query_lake
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
_OWNER = 'cluster, job_id, "user", project, program, start_ns, end_ns, state, nodes_count'


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
    """Jobs that ran in the span, with what each moved in all. `filters`: equal values of `FILTERS`; `node`: jobs on
    that node. Sorted by figures, jobs that counters name and no scheduler told of are among them where nothing is
    filtered."""
    filters = {name: value for name, value in (filters or {}).items() if value}
    conditions, parameters = _conditions(span, now_ns, filters, node, running)

    if sort in _ORDER and not running:
        found = _accounts(lake, span, conditions, parameters, _ORDER[sort], f" LIMIT {limit} OFFSET {offset}")
        total = found.column("total")[0].as_py() if found.num_rows else 0
        return _page(span, total, sort, _rows(lake, found, now_ns))
    found = _accounts(lake, span, conditions, parameters, _ORDER.get(sort, _ORDER["start"]), "")
    if running:
        found = found.filter(pa.array([is_account_running(a, now_ns) for a in list_query_rows(found)], pa.bool_()))
    if sort in _ORDER:
        page = found.slice(offset, limit)
        return _page(span, found.num_rows, sort, _rows(lake, page, now_ns))
    listed = _rows(lake, found, now_ns)
    if sight.everything and not filters and not node and not running:
        listed += _unaccounted(sum_named_jobs(lake, span), {row.job_id for row in listed})
    listed.sort(key=lambda row: (-_value(row.sums, sort), row.job_id, row.cluster or "", -(row.start_ns or 0)))
    return _page(span, len(listed), sort, _measure_again(lake, listed[offset : offset + limit], now_ns))


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


def _rows(lake: Tables, found: pa.Table, now_ns: int) -> list[JobRow]:
    volumes = list_query_rows(read_job_volumes(lake, found, now_ns))
    return [
        build_account_row(account, now_ns, sums=read_rollup_sums(row), layer=row["layer"], bound=read_volume_bound(row))
        for account, row in zip(list_query_rows(found), volumes, strict=True)
    ]


def _measure_again(lake: Tables, rows: list[JobRow], now_ns: int) -> list[JobRow]:
    """The same rows; figures by node to the second, which of many jobs are to the minute."""
    places = [at for at, row in enumerate(rows) if row.accounted and (row.bound is not None or row.layer is None)]
    runs = build_volume_runs([{name: getattr(rows[at], name) for name in RUN_COLUMNS} for at in places])
    nodes = pa.array([rows[at].nodes_count for at in places], pa.int64())
    runs = runs.set_column(runs.schema.get_field_index("nodes_count"), "nodes_count", nodes)
    for at, row in zip(places, list_query_rows(read_job_volumes(lake, runs, now_ns)), strict=True):
        sums, bound = read_rollup_sums(row), read_volume_bound(row)
        rows[at] = replace(rows[at], layer=row["layer"], sums=sums, bound=bound)
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
    told = query_lake(
        lake,
        f"SELECT {_OWNER} FROM jobs WHERE {build_account_condition(span)}",
        within=compute_account_begin_span(span),
        began=compute_account_begin_span(span),
    )
    moved = read_job_volumes(lake, told, now_ns, span=span)
    table = told.rename_columns(["id" if name == "job_id" else name for name in told.column_names])
    for name in ("layer", *VALUES):
        table = table.append_column(name, moved.column(name))
    table = table.filter(pc.is_valid(table.column("layer")))
    if sight.everything:
        named = sum_named_jobs(lake, span)
        others = named.filter(pc.invert(pc.is_in(named.column("id"), value_set=pc.unique(told.column("job_id")))))
        table = pa.concat_tables([table, others], promote_options="permissive")
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
