"""Who of a job moved when, by rank or node: at most 256 rows, however many ranks there are.

From recorded operations, else from a trace's heat map, else from what counters of nodes tell by job. Grouping is done
where the rows are. Not here: the axis of layers (`job_timeline`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column
from fairlead.explain.questions.answers_pages import RankRow, Ranks
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.pages.operations import (
    DATA,
    MOUNTED,
    MOVED,
    build_operation_condition,
    compute_operation_file_span,
    find_operation_layer,
)
from fairlead.explain.questions.pages.run_window import RunSeen, find_run_window
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.rollup_sums import RANK, round_rollup_line
from fairlead.explain.questions.span import INTERVALS, SECOND_NS, Span

BUSIEST = 10
_LEAST_STEP_NS = 1_000_000
_UPPER = ("MPIIO", "MPI-IO", "H5D", "H5F", "PNETCDF_VAR", "PNETCDF_FILE", "DXT_MPIIO")
"""Interfaces of heat maps whose bytes the one below counts again."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Source:
    """Where who moved when is told: `table` of rows `who`, `begin_ns`, `end_ns`, `read`, `written` as SQL."""

    by: str
    table: str
    words: dict[str, object]
    within: Span
    least_ns: int = _LEAST_STEP_NS


def build_rank_map(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> Ranks:
    """Who of a job moved when, by rank or node. Raises UnknownNameError, UsageError, LakeError."""
    run = find_run_window(asking, name, asked, sight, now_ns)
    missing = list(run.missing)
    source = _source(asking.lake, run, asked.by) if run.alone else None
    if source is None:
        if run.alone:
            missing.append(_none(asked.by))
        step = max(1, -(-run.span.length_ns // asked.columns))
        return Ranks(
            job_id=run.job_id,
            by=asked.by or "node",
            from_ns=run.span.from_ns,
            step_ns=step,
            columns=-(-run.span.length_ns // step),
            total=0,
            rows=[],
            busiest=[],
            imbalance=None,
            missing=missing,
        )
    step = _step(run.span, asked.columns, source.least_ns)
    from_ns = run.span.from_ns // source.least_ns * source.least_ns
    columns = -(-(run.span.to_ns - from_ns) // step)
    totals = _totals(asking.lake, source)
    known = run.account["processes" if source.by == "rank" else "nodes_count"]
    if known is not None and known > totals.num_rows:
        missing.append(f"{source.by}s: of {known}, {totals.num_rows} were seen moving data")
    rows = _rows(asking.lake, source, totals, (from_ns, step, columns), asked.rows, now_ns)
    moved = read_float_column(totals, "read") + read_float_column(totals, "written")
    return Ranks(
        job_id=run.job_id,
        by=source.by,
        from_ns=from_ns,
        step_ns=step,
        columns=columns,
        total=totals.num_rows,
        rows=rows,
        busiest=_busiest(totals, moved),
        imbalance=float(moved.max() / moved.mean()) if len(moved) and moved.mean() > 0 else None,
        missing=missing,
    )


def _none(by: str) -> str:
    what = {
        "rank": "ranks: no trace shows what each process did",
        "node": "nodes: no counter or trace is split by node",
    }
    return what.get(by, "ranks: neither a trace nor a counter shows what each process or node of this job did")


def _step(span: Span, columns: int, least: int) -> int:
    """A multiple of `least` of which at most `columns` cover the span."""
    whole = -(-span.to_ns // least) * least - span.from_ns // least * least
    return max(1, -(-whole // (least * columns))) * least


# -- where it is told ------------------------------------------------------------------------------------------------


def _source(lake: Tables, run: RunSeen, by: str) -> _Source | None:
    layer, ranked = find_operation_layer(lake, run.job_id, run.span)
    if layer is not None and (by == "node" or ranked or not by):
        who = "rank" if ranked and by != "node" else "node"
        chosen = f'{MOUNTED[layer]} AND {DATA} AND "{who}" IS NOT NULL'
        table = (
            f'SELECT "{who}" AS who, start_ns AS begin_ns, end_ns,'
            f" CASE WHEN op = 'read' THEN {MOVED} END AS read, CASE WHEN op = 'write' THEN {MOVED} END AS written"
            f" FROM ops WHERE job_id = $job AND {build_operation_condition(run.span)} AND {chosen}"
        )
        return _Source(who, table, {"job": run.job_id}, compute_operation_file_span(run.span))
    if by != "node":
        found = _heated(lake, run)
        if found is not None:
            return found
    return None if by == "rank" else _counted(lake, run)


def _heated(lake: Tables, run: RunSeen) -> _Source | None:
    """A trace's own heat map."""
    span = run.span
    wide = Span(span.from_ns - 3600 * SECOND_NS, span.to_ns)
    where = (
        f"job_id = $job AND bin_start_ns < {span.to_ns} AND bin_start_ns >= {wide.from_ns}"
        f" AND bin_start_ns + bin_ns > {span.from_ns} AND {build_day_filter(wide)} AND interface NOT IN"
        f" (SELECT unnest($upper))"
    )
    words: dict[str, object] = {"job": run.job_id, "upper": list(_UPPER)}
    some = query_lake(lake, f"SELECT max(bin_ns) AS bin FROM heatmap WHERE {where}", words, within=wide)
    if some.column("bin")[0].as_py() is None:
        return None
    table = (
        "SELECT rank AS who, bin_start_ns AS begin_ns, bin_start_ns + bin_ns AS end_ns, read_bytes AS read,"
        f" write_bytes AS written FROM heatmap WHERE {where}"
    )
    return _Source("rank", table, words, wide)


def _counted(lake: Tables, run: RunSeen) -> _Source | None:
    """Counters of nodes that tell the job."""
    for step in INTERVALS:
        span = run.span.align_to(step)
        if span.length_ns // step > 20_000:
            continue
        where = (
            f"interval_ns = {step} AND kind = $kind AND job_id = $job AND ts_ns >= {span.from_ns}"
            f" AND ts_ns < {span.to_ns} AND {build_day_filter(span)}"
        )
        words: dict[str, object] = {"kind": "node", "job": run.job_id}
        told = query_lake(
            lake,
            f"SELECT DISTINCT layer FROM rollup WHERE {where} AND (read_bytes IS NOT NULL OR write_bytes IS NOT NULL)",
            words,
            within=span,
        )
        layers = told.column("layer").to_pylist()
        best = next((layer for layer in RANK if layer in layers), None)
        if best is not None:
            table = (
                f"SELECT id AS who, ts_ns AS begin_ns, ts_ns + {step} AS end_ns, read_bytes AS read,"
                f" write_bytes AS written FROM rollup WHERE {where} AND layer = $layer"
            )
            return _Source("node", table, {**words, "layer": best}, span, step)
    return None


# -- rows ------------------------------------------------------------------------------------------------------------


def _totals(lake: Tables, source: _Source) -> pa.Table:
    """Sums of each, in order: `who`, `read`, `written`."""
    return query_lake(
        lake,
        "SELECT who, sum(coalesce(read, 0))::DOUBLE AS read, sum(coalesce(written, 0))::DOUBLE AS written"
        f" FROM ({source.table}) GROUP BY who ORDER BY who",
        source.words,
        within=source.within,
    )


def _rows(
    lake: Tables, source: _Source, totals: pa.Table, axis: tuple[int, int, int], most: int, now_ns: int
) -> list[RankRow]:
    """Rows of the picture: each one rank, or as many neighbours as it takes."""
    total = totals.num_rows
    if not total:
        return []
    from_ns, step, columns = axis
    count = min(total, most)
    group = np.arange(total) * count // total
    found = query_lake(
        lake,
        f"WITH runs AS MATERIALIZED ({_runs(source, axis)}),"
        f" members AS (SELECT who, (row_number() OVER (ORDER BY who) - 1) * {count} // {total} AS number"
        " FROM (SELECT DISTINCT who FROM runs)),"
        f" cells AS (SELECT who, col, sum(moved) AS moved FROM ({_laid(axis)}) GROUP BY who, col)"
        " SELECT number, col, sum(moved) AS moved, max(moved) AS highest FROM cells JOIN members USING (who)"
        f" WHERE col >= 0 AND col < {columns} GROUP BY number, col",
        source.words,
        within=source.within,
    )
    row, at = read_integer_column(found, "number"), read_integer_column(found, "col")
    moved, highest = np.zeros((count, columns)), np.zeros((count, columns))
    moved[row, at], highest[row, at] = read_float_column(found, "moved"), read_float_column(found, "highest")
    starts = from_ns + np.arange(columns, dtype=np.int64) * step
    seconds = np.clip(now_ns - starts, 1, step) / 1e9
    future = starts >= now_ns
    members = np.bincount(group, minlength=count)
    read = np.bincount(group, read_float_column(totals, "read"), count)
    written = np.bincount(group, read_float_column(totals, "written"), count)
    names = _names(totals.column("who").to_pylist(), group, count)
    made = []
    for k in range(count):
        mean = np.where(future, np.nan, moved[k] / members[k] / seconds)
        most_of = np.where(future, np.nan, highest[k] / seconds)
        made.append(
            RankRow(
                name=names[k],
                members=int(members[k]),
                bytes_per_s=round_rollup_line(mean),
                highest_bytes_per_s=round_rollup_line(most_of) if members[k] > 1 else [],
                read_bytes=round(read[k]),
                write_bytes=round(written[k]),
            )
        )
    return made


def _laid(axis: tuple[int, int, int]) -> str:
    """`who`, `col`, `moved` of `runs`: what lies in one column as it is, the rest in proportion to time."""
    from_ns, step, columns = axis
    cell = f"({from_ns} + col * {step})"
    part = f"(least(end_ns, {cell} + {step}) - greatest(begin_ns, {cell})) / (end_ns - begin_ns)"
    return (
        "SELECT who, first AS col, amount AS moved FROM runs WHERE first = last UNION ALL"
        f" SELECT who, col, amount * {part} AS moved FROM (SELECT who, begin_ns, end_ns, amount,"
        f" unnest(range(greatest(first, 0), least(last, {columns - 1}) + 1)) AS col FROM runs WHERE first < last)"
    )


def _runs(source: _Source, axis: tuple[int, int, int]) -> str:
    """`who`, `begin_ns`, `end_ns`, `amount`, and the first and the last column they lie in."""
    from_ns, step, _ = axis
    return (
        "SELECT who, begin_ns, end_ns, coalesce(read, 0)::DOUBLE + coalesce(written, 0) AS amount,"
        f" (begin_ns - {from_ns}) // {step} AS first, (greatest(end_ns - 1, begin_ns) - {from_ns}) // {step} AS last"
        f" FROM ({source.table})"
    )


def _names(who: Sequence[object], group: NDArray[np.int64], count: int) -> list[str]:
    """A rank or node, or the first and last of those that are one row."""
    firsts = np.searchsorted(group, np.arange(count))
    lasts = np.searchsorted(group, np.arange(count), side="right") - 1
    return [
        str(who[first]) if first == last else f"{who[first]}–{who[last]}"
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]


def _busiest(totals: pa.Table, moved: Floats) -> list[RankRow]:
    order = np.argsort(-moved, kind="stable")[:BUSIEST]
    who = totals.column("who")
    read, written = read_float_column(totals, "read"), read_float_column(totals, "written")
    return [
        RankRow(
            name=str(who[int(k)].as_py()),
            members=1,
            bytes_per_s=[],
            highest_bytes_per_s=[],
            read_bytes=round(read[k]),
            write_bytes=round(written[k]),
        )
        for k in order
    ]
