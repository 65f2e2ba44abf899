"""What each job moved in a span, as columns: one row a job, figures of the layer that tells it best.

Layers count the same bytes and are never added: `sums.RANK` says which one speaks for a job.
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fairlead.explain.questions.job_accounts import COLUMNS, build_account_condition, compute_account_begin_span
from fairlead.explain.questions.lake_queries import Tables, query_lake
from fairlead.explain.questions.rollup_sums import METADATA_RANK, RANK, VALUES, build_rollup_select
from fairlead.explain.questions.span import Span, widen_span_to_pieces

_FOREVER = 2**62
_PARTS = ", ".join(f"'{name}': {name}" for name in VALUES)
_TAKEN = ", ".join(f"best.{name} AS {name}" for name in VALUES[:-1])


def sum_job_volumes(lake: Tables, span: Span, accounts: pa.Table | None = None) -> pa.Table:
    """Columns `id`, `layer`, `VALUES` of every job that counters name in the span; with `read_volume_accounts`
    (`job_id`, `start_ns`, `end_ns`) of these jobs, each while it ran, as numbers are used again. Metadata operations
    are of the first layer that knows them (`METADATA_RANK`)."""
    rows = build_rollup_select(span, "kind = $kind", f"id, layer, ts_ns, interval_ns, {', '.join(VALUES)}")
    parameters: dict[str, object] = {"kind": "job", "ranks": list(RANK), "metadata_ranks": list(METADATA_RANK)}
    if accounts is not None:
        if accounts.num_rows == 0:
            return _none()
        starts = accounts.column("start_ns").fill_null(0)
        ends = accounts.column("end_ns").fill_null(_FOREVER)
        parameters |= {
            "numbers": accounts.column("job_id").to_pylist(),
            "starts": starts.to_pylist(),
            "ends": ends.to_pylist(),
        }
        rows = (
            f"(SELECT r.* FROM {rows} r JOIN (SELECT unnest($numbers) AS number, unnest($starts) AS began,"
            " unnest($ends) AS ended) a ON r.id = a.number AND r.ts_ns + r.interval_ns > began AND r.ts_ns < ended)"
        )
    sums = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
    told = f"{{'layer': layer, {_PARTS}}}"
    sql = (
        "WITH layered AS (SELECT id, layer, coalesce(list_position($ranks, layer), 99) AS place,"
        f" coalesce(list_position($metadata_ranks, layer), 99) AS metadata_place, {sums}"
        f" FROM {rows} GROUP BY id, layer), "
        f"chosen AS (SELECT id, coalesce(arg_min({told}, place)"
        f" FILTER (WHERE read_bytes IS NOT NULL OR write_bytes IS NOT NULL), arg_min({told}, place)) AS best,"
        f" arg_min({VALUES[-1]}, metadata_place) AS {VALUES[-1]} FROM layered GROUP BY id) "
        f"SELECT id, best.layer AS layer, {_TAKEN}, {VALUES[-1]} FROM chosen"
    )
    return query_lake(lake, sql, parameters, within=widen_span_to_pieces(span))


def _none() -> pa.Table:
    words = {"id": pa.array([], pa.string()), "layer": pa.array([], pa.string())}
    return pa.table(words | {name: pa.array([], pa.int64()) for name in VALUES})


def read_volume_accounts(lake: Tables, span: Span, columns: Sequence[str] = COLUMNS) -> pa.Table:
    """Accounts of jobs that ran in the span."""
    chosen = ", ".join(f'"{name}"' for name in columns)
    return query_lake(
        lake,
        f"SELECT {chosen} FROM jobs WHERE {build_account_condition(span)}",
        within=compute_account_begin_span(span),
        began=compute_account_begin_span(span),
    )


def add_accounts_to_volumes(moved: pa.Table, told: pa.Table) -> pa.Table:
    """`moved` (of `sum_job_volumes`) and beside each job its account, the latest where a number was used again; nulls
    where the scheduler told of none."""
    import pyarrow.compute as pc

    order = pc.sort_indices(told, sort_keys=[("start_ns", "ascending")])
    ids = pa.chunked_array([told.column("job_id").take(order).combine_chunks()])
    if len(ids):
        places = _last_places(ids)
        mine = pc.index_in(moved.column("id"), value_set=ids.take(places).combine_chunks())
        rows = told.take(order).take(places).take(mine)
    else:
        rows = _nulls(told, moved.num_rows)
    for name in rows.column_names:
        if name not in moved.column_names:
            moved = moved.append_column(name, rows.column(name))
    return moved


def _last_places(ids: pa.ChunkedArray) -> pa.Array:
    table = pa.table({"job_id": ids, "at": pa.array(range(len(ids)), pa.int64())})
    return table.group_by("job_id").aggregate([("at", "max")]).column("at_max").combine_chunks()


def _nulls(told: pa.Table, rows: int) -> pa.Table:
    return pa.table({f.name: pa.nulls(rows, f.type) for f in told.schema})
