"""What jobs moved by the counters of the nodes they were on, which know no jobs: an estimate, and marked as one.

A node's traffic falls to the jobs on it in proportion to the time they were there, and in equal parts where several
were at once. Not here: what counters tell by job (`job_volumes`), shared servers (`layer_estimates`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.explain.questions.lake_queries import Tables, query_lake
from fairlead.explain.questions.rollup_sums import VALUES, build_rollup_select
from fairlead.explain.questions.span import Span, widen_span_to_pieces
from fairlead.explain.questions.visible_lake import get_visible_reach, narrow_visible_lake, widen_visible_lake

ESTIMATE = "estimate"
"""Stands for the layer of such figures."""
BY_JOB = ("target", "pfs_client")
"""Layers whose counters name jobs: where they do, a job they do not name moved nothing there."""
MOST_NODES = 50_000
_LONGEST_RUN_NS = 32 * 86_400 * 10**9
_NODES: dict[str, object] = {"kind": "node", "layer": "pfs_client"}


def estimate_jobs_by_node(lake: Tables, span: Span, numbers: Sequence[str]) -> pa.Table:
    """Columns `id`, `start_ns` (of the run), `layer` (ESTIMATE) and `VALUES` of these jobs in the span, those alone
    whose nodes something was counted on."""
    hidden = get_visible_reach(lake, span) if numbers else None
    if hidden is not None:
        numbers = _undisturbed(widen_visible_lake(lake), hidden.runs, span, numbers)
    if not numbers:
        return _none()
    if not query_lake(
        narrow_visible_lake(lake, span),
        f"SELECT 1 AS some FROM {_counted(span)} LIMIT 1",
        _NODES,
        within=widen_span_to_pieces(span),
    ).num_rows:
        return _none()
    # What may be seen of a node is of the time the jobs were there: then it is all theirs.
    whole_share = "every" if hidden is not None else "greatest(interval_ns, every)"
    began = Span(span.from_ns - _LONGEST_RUN_NS, span.to_ns)
    ran = (
        f"start_ns < {span.to_ns} AND start_ns >= {began.from_ns}"
        f" AND coalesce(end_ns, start_ns + {_LONGEST_RUN_NS}) > {span.from_ns}"
    )
    # Lists of nodes are most of the table: they are read of the jobs of the span alone.
    there = query_lake(narrow_visible_lake(lake, span), f"SELECT DISTINCT job_id FROM jobs WHERE {ran}", began=began)[
        "job_id"
    ].to_pylist()
    parts = ", ".join(f"round(sum({name} * share))::BIGINT AS {name}" for name in VALUES)
    return query_lake(
        narrow_visible_lake(lake, span),
        "WITH runs AS (SELECT job_id, start_ns, coalesce(end_ns, start_ns + $longest) AS end_ns, nodes FROM jobs"
        f" WHERE {ran} AND job_id IN (SELECT unnest($there))),"
        " asked AS (SELECT DISTINCT unnest(nodes) AS node FROM runs WHERE job_id IN (SELECT unnest($numbers))),"
        " placed AS (SELECT DISTINCT job_id, start_ns, end_ns, node FROM"
        " (SELECT job_id, start_ns, end_ns, unnest(nodes) AS node FROM runs) SEMI JOIN asked USING (node)),"
        f" moved AS (SELECT * FROM {_counted(span)} SEMI JOIN asked ON id = asked.node),"
        " there AS (SELECT placed.job_id, placed.start_ns, moved.* EXCLUDE (id), moved.id AS node,"
        " least(placed.end_ns, ts_ns + interval_ns) - greatest(placed.start_ns, ts_ns) AS stayed"
        " FROM moved JOIN placed ON moved.id = placed.node AND placed.start_ns < ts_ns + interval_ns"
        " AND placed.end_ns > ts_ns),"
        " runs_there AS (SELECT DISTINCT node, ts_ns, interval_ns, job_id, start_ns, stayed FROM there),"
        " crowd AS (SELECT node, ts_ns, interval_ns, sum(stayed) AS every FROM runs_there GROUP BY ALL),"
        f" shared AS (SELECT there.*, stayed / {whole_share} AS share"
        " FROM there JOIN crowd USING (node, ts_ns, interval_ns) WHERE job_id IN (SELECT unnest($numbers)))"
        f" SELECT job_id AS id, start_ns, '{ESTIMATE}' AS layer, {parts} FROM shared GROUP BY job_id, start_ns"
        " ORDER BY id, start_ns",
        {**_NODES, "numbers": list(dict.fromkeys(numbers)), "longest": _LONGEST_RUN_NS, "there": there},
        began=began,
        numbers=there,
    )


def _counted(span: Span) -> str:
    columns = f"id, ts_ns, interval_ns, {', '.join(VALUES)}"
    return build_rollup_select(span, "kind = $kind AND layer = $layer AND job_id IS NULL", columns)


def _undisturbed(
    lake: Tables, runs: Sequence[tuple[str | None, str, int, int]], span: Span, numbers: Sequence[str]
) -> list[str]:
    """Those of the numbers on whose nodes nobody but these runs was: else it cannot be told what was theirs."""
    found = query_lake(
        lake,
        "WITH own AS (SELECT unnest($clusters::VARCHAR[]) AS cluster, unnest($jobs::VARCHAR[]) AS job_id,"
        " unnest($starts::BIGINT[]) AS start_ns), every AS (SELECT cluster, job_id, start_ns,"
        " coalesce(end_ns, start_ns + $longest) AS end_ns, unnest(nodes) AS node FROM jobs"
        f" WHERE start_ns < {span.to_ns} AND coalesce(end_ns, start_ns + $longest) > {span.from_ns}),"
        " mine AS (SELECT every.* FROM every JOIN own ON own.job_id = every.job_id AND own.start_ns = every.start_ns"
        " AND own.cluster IS NOT DISTINCT FROM every.cluster),"
        " others AS (SELECT every.* FROM every WHERE NOT EXISTS (SELECT 1 FROM own WHERE own.job_id = every.job_id"
        " AND own.start_ns = every.start_ns AND own.cluster IS NOT DISTINCT FROM every.cluster))"
        " SELECT DISTINCT mine.job_id FROM mine JOIN others ON mine.node = others.node"
        " AND others.start_ns < mine.end_ns AND others.end_ns > mine.start_ns",
        {
            "clusters": [run[0] for run in runs],
            "jobs": [run[1] for run in runs],
            "starts": [run[2] for run in runs],
            "longest": _LONGEST_RUN_NS,
        },
    )
    disturbed = set(found["job_id"].to_pylist())
    return [number for number in numbers if number not in disturbed]


def _none() -> pa.Table:
    columns = {"id": pa.string(), "start_ns": pa.int64(), "layer": pa.string(), **dict.fromkeys(VALUES, pa.int64())}
    return pa.schema(list(columns.items())).empty_table()


def add_node_estimates(lake: Tables, span: Span, moved: pa.Table, accounts: pa.Table) -> pa.Table:
    """`moved` (of `job_volumes.sum_job_volumes`) and rows for those of `accounts` (`job_id`, `nodes_count`) it lacks.
    As it is where counters of servers or clients name jobs, or the nodes are too many."""
    if not accounts.num_rows or any(name in BY_JOB for name in pc.unique(moved.column("layer")).to_pylist()):
        return moved
    known = moved.column("id").combine_chunks() if moved.num_rows else pa.array([], pa.string())
    lacking = accounts.filter(pc.invert(pc.is_in(accounts.column("job_id").cast(pa.string()), value_set=known)))
    if not lacking.num_rows or (pc.sum(lacking.column("nodes_count")).as_py() or 0) > MOST_NODES:
        return moved
    found = estimate_jobs_by_node(lake, span, lacking.column("job_id").to_pylist()).drop_columns(["start_ns"])
    if not found.num_rows:
        return moved
    return pa.concat_tables([moved, found.select(moved.column_names)], promote_options="permissive")
