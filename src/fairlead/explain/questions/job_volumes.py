"""What each run of a job moved: the one definition that lists, pages, summaries and exports read.

Layers count the same bytes and are never added: `RANK` says which one speaks for a job. Where no layer counts a job,
the counters of its nodes speak, with bounds (`node_estimates`). Not here: which rows are a run's (`job_counters`).
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.questions.answers import Bound, Sums
from fairlead.explain.questions.job_counters import (
    RUN_COLUMNS,
    Windows,
    find_counter_windows,
    read_run_times,
    split_ranges,
)
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, list_query_rows, query_lake
from fairlead.explain.questions.node_estimates import ESTIMATE, HIGH, LOW, estimate_runs_by_node
from fairlead.explain.questions.rollup_sums import METADATA_RANK, RANK, VALUES, build_rollup_select, read_rollup_sums
from fairlead.explain.questions.span import HOUR_NS, Span, widen_span_to_pieces
from fairlead.explain.questions.visible_lake import get_visible_reach, widen_visible_lake

MOST_NODES = 50_000
"""Nodes of runs that no counter names, up to which these nodes' counters are looked at."""
BY_JOB = ("target", "pfs_client", "osc")
"""Layers of a file system whose counters name jobs: where they do, a job they do not name moved nothing there."""
OWN_PLANE = ("mount", "forwarder")
"""Layers of fairlead's own plane: its storage targets name the jobs that went through it, and no others."""
_NODE_LAYERS = ("mount", "client", "pfs_client", "osc")
_TAKEN = ", ".join(f"best.{name} AS {name}" for name in VALUES[:-1])
_PARTS = ", ".join(f"'{name}': {name}" for name in VALUES)
_SUMMED = ", ".join(f"TRY_CAST(sum({name}) AS BIGINT) AS {name}" for name in VALUES)
_RANK = "coalesce(list_position($ranks, layer), 99)"
_CHOSEN = (
    f"chosen AS (SELECT place, coalesce(arg_min({{'layer': layer, {_PARTS}}}, {_RANK})"
    " FILTER (WHERE read_bytes IS NOT NULL OR write_bytes IS NOT NULL),"
    f" arg_min({{'layer': layer, {_PARTS}}}, {_RANK})) AS best,"
    f" arg_min({VALUES[-1]}, list_position($metadata_ranks, layer)) FILTER (WHERE {VALUES[-1]} IS NOT NULL"
    f" AND list_position($metadata_ranks, layer) IS NOT NULL) AS {VALUES[-1]} FROM layered GROUP BY place) "
    f"SELECT place, best.layer AS layer, {_TAKEN}, {VALUES[-1]} FROM chosen"
)
_RANKS: dict[str, object] = {"ranks": list(RANK), "metadata_ranks": list(METADATA_RANK)}


def read_job_volumes(
    lake: Tables, runs: pa.Table, now_ns: int, *, span: Span | None = None, by_node: bool = True
) -> pa.Table:
    """Volumes of `runs` (RUN_COLUMNS, `nodes_count`), a row each in their order: `layer` (null: nothing is known),
    VALUES, and LOW and HIGH of each of these where the layer is ESTIMATE. `span`: what they moved in it, in whole steps
    of it (`split_span_by_interval`), its bounds too. `by_node` false: of jobs that counters name alone."""
    count = runs.num_rows
    if not count:
        return _spread(0, _none())
    dated = np.flatnonzero(np.asarray(runs["start_ns"].is_valid()))
    if span is not None and len(dated):
        inside = _find_inside(runs, span, now_ns)
        if inside.any():
            parts = [
                read_job_volumes(lake, runs.filter(pa.array(chosen)), now_ns, span=of, by_node=by_node)
                for chosen, of in ((inside, None), (~inside, span))
            ]
            at = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
            return pa.concat_tables(parts).take(pa.array(np.argsort(at)))
    some = runs.take(pa.array(dated))
    counted = _read_counted(lake, some, now_ns, span) if len(dated) else _none()
    found = _spread(count, counted.set_column(0, "place", pa.array(dated[counted["place"].to_numpy()])))
    hidden = _hide_shared(lake, runs)
    if hidden.any():
        kept = pa.array(~hidden)
        found = pa.table({name: pc.if_else(kept, found[name], None) for name in found.column_names})
    if not by_node:
        return found
    # A device's counters tell of disks in the node: they do not speak for a job's traffic where its nodes' do.
    lacking = np.array([layer is None or layer == "device" for layer in found["layer"].to_pylist()], np.bool_)
    places = np.intersect1d(np.flatnonzero(lacking & ~hidden), dated)
    if not len(places) or (pc.sum(runs["nodes_count"].take(pa.array(places))).as_py() or 0) > MOST_NODES:
        return found
    asked = runs.take(pa.array(places))
    places = places[~_counted_elsewhere(lake, asked, now_ns)]
    if not len(places):
        return found
    told = estimate_runs_by_node(lake, runs.take(pa.array(places)), now_ns, span)
    if not told.num_rows:
        return found
    made = told.set_column(0, "place", pa.array(places[told["place"].to_numpy()]))
    return _spread(count, made, found)


def _find_inside(runs: pa.Table, span: Span, now_ns: int) -> NDArray[np.bool_]:
    """Runs that lie in the span as a whole."""
    start = pc.fill_null(runs["start_ns"], -1).to_numpy()
    end = pc.fill_null(runs["end_ns"], now_ns).to_numpy()
    return np.asarray((start >= span.from_ns) & (end < span.to_ns))


def read_volume_bound(row: Mapping[str, Any]) -> Bound | None:
    """The bound in a row of `read_job_volumes`; None where its figures were counted."""
    if row["layer"] != ESTIMATE:
        return None
    low, high = (Sums(**{name: row[f"{name}{end}"] for name in VALUES}) for end in (LOW, HIGH))
    return Bound(low=low, high=high, shared=bool(row["shared"]), share=_share(read_rollup_sums(row), low, high))


def read_summary_bound(row: Mapping[str, Any]) -> Bound | None:
    """The bound in a row of `job_summary`: of bytes only; None where its figures were counted."""
    if row["basis"] != ESTIMATE or row["shared"] is None:
        return None
    low, high = (Sums(read_bytes=row[f"read_bytes{end}"], write_bytes=row[f"write_bytes{end}"]) for end in (LOW, HIGH))
    return Bound(low=low, high=high, shared=row["shared"], share=_share(read_rollup_sums(row), low, high))


def _share(sums: Sums, low: Sums, high: Sums) -> float | None:
    """How far from the figure a bound lies at most, as a part of the figure; None where the figure is 0 and need not
    be."""
    parts = []
    for name in VALUES[:2]:
        value, bottom, top = (getattr(one, name) for one in (sums, low, high))
        if value is None or bottom is None or top is None or bottom == top:
            continue
        if not value:
            return None
        parts.append(max(value - bottom, top - value) / value)
    return max(parts, default=0.0)


def sum_named_jobs(lake: Tables, span: Span) -> pa.Table:
    """Columns `id`, `layer`, VALUES of every number that counters name in the span, whoever's it is."""
    rows = build_rollup_select(span, "kind = $kind", f"id AS place, layer, {', '.join(VALUES)}")
    sql = f"WITH layered AS (SELECT place, layer, {_SUMMED} FROM {rows} GROUP BY place, layer), {_CHOSEN}"
    found = query_lake(lake, sql, {"kind": "job", **_RANKS}, within=widen_span_to_pieces(span))
    return found.rename_columns(["id", *found.column_names[1:]])


def _hide_shared(lake: Tables, runs: pa.Table) -> NDArray[np.bool_]:
    """Runs that a reader who does not see everything is told nothing of: another's job had their number meanwhile."""
    starts = runs["start_ns"].to_pylist()
    known = [start for start in starts if start is not None]
    reach = get_visible_reach(lake, Span(min(known), max(known) + 1)) if known else None
    if reach is None:
        return np.zeros(runs.num_rows, np.bool_)
    numbers = runs["job_id"].to_pylist()
    return np.array([reach.is_number_shared(n, start) for n, start in zip(numbers, starts, strict=True)], np.bool_)


# -- jobs that counters name -------------------------------------------------------------------------------------------


def _read_counted(lake: Tables, runs: pa.Table, now_ns: int, span: Span | None) -> pa.Table:
    """`place`, `layer`, VALUES of the runs that counters name."""
    whole = widen_visible_lake(lake)
    windows = find_counter_windows(whole, runs, now_ns)
    pieces = _build_pieces(runs, windows, span)
    if not pieces.num_rows:
        return _none()
    parameters: dict[str, object] = {"k_job": "job", **_RANKS}
    columns = ", ".join(VALUES)
    mine = "(r.cluster = p.cluster OR NOT p.mixed AND (r.cluster IS NULL OR p.cluster IS NULL))"
    within = Span(int(pc.min(pieces["from_ns"]).as_py()), int(pc.max(pieces["to_ns"]).as_py()))
    tables = {"r_pieces": pieces}
    parts = []
    for step in sorted(set(pieces["step"].to_pylist())):
        of_step = pieces.filter(pc.equal(pieces["step"], step))
        low, high = int(pc.min(of_step["from_ns"]).as_py()), int(pc.max(of_step["to_ns"]).as_py())
        # A row is the run's that had begun when it ended: rows of a minute are shared by none.
        late = step - 1 if span is not None else 0
        where = (
            f"r.interval_ns = {step} AND r.ts_ns >= {low - late} AND r.ts_ns < {high}"
            f" AND {build_day_filter(Span(low - late, high), 'r.day')}"
        )
        joined = f"p.step = {step} AND r.ts_ns + {late} >= p.from_ns AND r.ts_ns + {late} < p.to_ns"
        parts.append(
            f"SELECT p.place, r.layer, {columns} FROM rollup r JOIN r_pieces p ON r.id = p.job_id AND {joined}"
            f" WHERE r.kind = $k_job AND r.id IN (SELECT job_id FROM r_pieces) AND {where} AND {mine}"
        )
        if windows.mixed.any():
            parts.append(
                f"SELECT p.place, r.layer, {columns} FROM rollup r JOIN r_pieces p ON r.job_id = p.job_id AND {joined}"
                " JOIN r_nodes n ON n.place = p.place AND n.node = r.id"
                f" WHERE r.kind = $k_node AND p.mixed AND r.cluster IS NULL AND {where}"
                " AND r.layer IN (SELECT unnest($k_layers))"
            )
    if windows.mixed.any():
        parameters |= {"k_node": "node", "k_layers": list(_NODE_LAYERS)}
        tables["r_nodes"] = _read_own_nodes(whole, runs, windows.mixed)
    sql = f"WITH layered AS (SELECT place, layer, {_SUMMED} FROM ({' UNION ALL '.join(parts)}) GROUP BY place, layer),"
    return query_lake(whole, f"{sql} {_CHOSEN}", parameters, within=within.align_to(HOUR_NS), tables=tables)


def _build_pieces(runs: pa.Table, windows: Windows, span: Span | None) -> pa.Table:
    """Rows of the rollup that are asked for: `place`, `job_id`, `cluster`, `mixed`, `step`, `from_ns`, `to_ns`."""
    if span is None:
        row, step, begin, until = split_ranges(windows.from_ns, windows.to_ns)
    else:
        from fairlead.explain.questions.span import split_span_by_interval

        parts = split_span_by_interval(span)
        every = np.arange(runs.num_rows)
        row = np.concatenate([every for _ in parts])
        step = np.concatenate([np.full(len(every), interval) for interval, _ in parts])
        begin = np.concatenate([np.maximum(windows.from_ns, piece.from_ns) for _, piece in parts])
        until = np.concatenate([np.minimum(windows.to_ns, piece.to_ns) for _, piece in parts])
        some = until > begin
        row, step, begin, until = row[some], step[some], begin[some], until[some]
    return pa.table(
        {
            "place": pa.array(row, pa.int64()),
            "job_id": runs["job_id"].cast(pa.string()).take(pa.array(row)),
            "cluster": runs["cluster"].cast(pa.string()).take(pa.array(row)),
            "mixed": pa.array(windows.mixed[row]),
            "step": pa.array(step, pa.int64()),
            "from_ns": pa.array(begin, pa.int64()),
            "to_ns": pa.array(until, pa.int64()),
        }
    )


def _read_own_nodes(lake: Tables, runs: pa.Table, mixed: NDArray[np.bool_]) -> pa.Table:
    """Nodes of the runs whose number another cluster's run had, that the other run was not on."""
    chosen = runs.select(RUN_COLUMNS).append_column("place", pa.array(np.arange(runs.num_rows)))
    chosen = chosen.filter(pa.array(mixed))
    numbers = pc.unique(chosen["job_id"].cast(pa.string())).to_pylist()
    far = int(pc.max(chosen["start_ns"]).as_py()) + 32 * 24 * HOUR_NS
    began = Span(int(pc.min(chosen["start_ns"]).as_py()) - 32 * 24 * HOUR_NS, far)
    return query_lake(
        lake,
        "WITH there AS (SELECT cluster, job_id, start_ns, coalesce(end_ns, 4611686018427387904) AS end_ns,"
        " unnest(nodes) AS node FROM jobs WHERE job_id IN (SELECT unnest($numbers)))"
        " SELECT DISTINCT m.place, there.node FROM r_mixed m JOIN there ON there.job_id = m.job_id"
        " AND there.start_ns = m.start_ns AND there.cluster IS NOT DISTINCT FROM m.cluster"
        " WHERE NOT EXISTS (SELECT 1 FROM there o WHERE o.job_id = m.job_id AND o.node = there.node"
        " AND o.cluster IS DISTINCT FROM m.cluster AND o.start_ns < there.end_ns AND o.end_ns > there.start_ns)",
        {"numbers": numbers},
        began=began,
        numbers=numbers,
        tables={"r_mixed": chosen},
    )


def _counted_elsewhere(lake: Tables, runs: pa.Table, now_ns: int) -> NDArray[np.bool_]:
    """Which of the runs lie where a file system's own counters name jobs: what they do not name moved nothing there."""
    start, end = read_run_times(runs, now_ns)
    hull = Span(int(start.min()), int(end.max()) + 1).align_to(HOUR_NS)
    found = query_lake(
        widen_visible_lake(lake),
        f"SELECT DISTINCT ts_ns FROM (SELECT id, ts_ns FROM rollup WHERE interval_ns = {HOUR_NS} AND kind = $k_job"
        f" AND ts_ns >= {hull.from_ns} AND ts_ns < {hull.to_ns} AND {build_day_filter(hull)} GROUP BY id, ts_ns"
        " HAVING bool_or(layer IN (SELECT unnest($by_job))) AND NOT bool_or(layer IN (SELECT unnest($own))))",
        {"k_job": "job", "by_job": list(BY_JOB), "own": list(OWN_PLANE)},
        within=hull,
    )
    hours = np.sort(found["ts_ns"].to_numpy())
    first = np.searchsorted(hours, start // HOUR_NS * HOUR_NS, side="left")
    return np.asarray(first < np.searchsorted(hours, end, side="right"))


# -- tables of volumes -------------------------------------------------------------------------------------------------


_BOUNDS = tuple(f"{name}{end}" for name in VALUES for end in (LOW, HIGH))


def _none() -> pa.Table:
    columns = {"place": pa.int64(), "layer": pa.string(), **dict.fromkeys(VALUES, pa.int64())}
    return pa.schema(list(columns.items())).empty_table()


def _spread(count: int, rows: pa.Table, over: pa.Table | None = None) -> pa.Table:
    """`rows` by `place` as `count` rows in order; where none is, those of `over`, or nulls."""
    at = np.full(count, -1)
    at[rows["place"].to_numpy()] = np.arange(rows.num_rows)
    take = pa.array(at, mask=at < 0)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in ("layer", *VALUES, *_BOUNDS, "shared"):
        kind = pa.string() if name == "layer" else pa.bool_() if name == "shared" else pa.int64()
        held = rows[name].cast(kind).take(take) if name in rows.column_names else pa.nulls(count, kind)
        columns[name] = held if over is None else pc.if_else(pa.array(at >= 0), held, over[name])
    return pa.table(columns)


def read_one_volume(lake: Tables, account: Mapping[str, Any], now_ns: int) -> tuple[str | None, Sums, Bound | None]:
    """Layer, sums and bound of one run (an account)."""
    [row] = list_query_rows(read_job_volumes(lake, build_volume_runs([account]), now_ns))
    return row["layer"], read_rollup_sums(row), read_volume_bound(row)


def build_volume_runs(accounts: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Accounts as `read_job_volumes` takes them."""
    kinds = {"cluster": pa.string(), "job_id": pa.string(), "start_ns": pa.int64(), "end_ns": pa.int64()}
    columns = {name: pa.array([one[name] for one in accounts], kind) for name, kind in kinds.items()}
    counts = [
        one.get("nodes_count") if one.get("nodes_count") is not None else len(one.get("nodes") or ())
        for one in accounts
    ]
    return pa.table({**columns, "nodes_count": pa.array(counts, pa.int64())})
