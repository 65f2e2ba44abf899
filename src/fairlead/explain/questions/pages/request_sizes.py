"""Request sizes of a job, how they follow each other, and what was asked besides data.

From recorded operations, by powers of two; else from the counters of a trace, in their ten bins. Not here: by file
(`files`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from typing import Any

from fairlead.core.model.tables import SIZE_BIN_EDGES
from fairlead.explain.questions.answers_pages import JobRequests, RequestBin
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows, query_lake
from fairlead.explain.questions.pages.operations import (
    DATA,
    METADATA,
    MOUNTED,
    build_operation_condition,
    compute_operation_file_span,
    find_operation_layer,
)
from fairlead.explain.questions.pages.run_window import RunSeen, find_run_window
from fairlead.explain.questions.question import Asking
from fairlead.store.rollups import UPPER_INTERFACES

MOST_ORDERED = 3_000_000
"""Runs of operations that are put in order to see which follows which; of more, only what each run tells is counted."""
_NOTHING = "requests: neither a trace nor a mount recorded the requests of this job"
_PART = "sequence: too many operations to sort; the values are lower bounds"
_SIZES = "sizes: {} of {} requests have no recorded size"
_METADATA_COUNTS = ("opens", "stats", "renames", "fsyncs", "fdatasyncs", "seeks", "mmaps", "flushes")


def describe_request_sizes(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> JobRequests:
    """Request sizes of a job. Raises UnknownNameError, UsageError, LakeError."""
    run = find_run_window(asking, name, asked, sight, now_ns)
    if not run.alone:
        return JobRequests(job_id=run.job_id, bins=[], metadata={}, sequential_share=None, missing=list(run.missing))
    layer, _ = find_operation_layer(asking.lake, run.job_id, run.span)
    made = _of_operations(asking.lake, run, layer) if layer is not None else _of_counters(asking.lake, run)
    if made is None:
        missing = [*run.missing, _NOTHING]
        return JobRequests(job_id=run.job_id, bins=[], metadata={}, sequential_share=None, missing=missing)
    return made


# -- recorded operations ---------------------------------------------------------------------------------------------


def _of_operations(lake: Tables, run: RunSeen, layer: str) -> JobRequests:
    rows = f"job_id = $job AND {build_operation_condition(run.span)} AND {MOUNTED[layer]}"
    words, wide = {"job": run.job_id}, compute_operation_file_span(run.span)
    binned = "CASE WHEN size IS NULL OR size < 0 THEN -2 WHEN size = 0 THEN -1 ELSE floor(log2(size))::BIGINT END"
    found = list_query_rows(
        query_lake(
            lake,
            f"SELECT CASE WHEN {DATA} THEN {binned} ELSE -3 END AS place, op, TRY_CAST(sum(count) AS BIGINT) AS count,"
            " TRY_CAST(sum(size::HUGEINT * count) AS BIGINT) AS moved, count(*) AS runs FROM ops"
            f" WHERE {rows} AND ({DATA} OR {METADATA}) GROUP BY ALL ORDER BY count DESC, op",
            words,
            within=wide,
        )
    )
    data = [row for row in found if row["place"] >= -2]
    unsized = sum(row["count"] for row in data if row["place"] == -2)
    whole = sum(row["count"] for row in data)
    missing = list(run.missing)
    if unsized:
        missing.append(_SIZES.format(unsized, whole))
    ordered = sum(row["runs"] for row in data) <= MOST_ORDERED
    if not ordered:
        missing.append(_PART)
    return JobRequests(
        job_id=run.job_id,
        bins=_powers(data),
        metadata={row["op"]: row["count"] for row in found if row["place"] == -3},
        sequential_share=_sequential(lake, rows, words, wide, ordered=ordered) if whole else None,
        missing=missing,
    )


def _powers(data: list[dict[str, Any]]) -> list[RequestBin]:
    """Bins of powers of two without a hole between the smallest and the largest."""
    there = sorted({row["place"] for row in data if row["place"] >= -1})
    if not there:
        return []
    made = []
    for place in range(there[0], there[-1] + 1):
        of = {row["op"]: row for row in data if row["place"] == place}
        read, write = of.get("read"), of.get("write")
        made.append(
            RequestBin(
                from_bytes=0 if place < 0 else 1 << place,
                to_bytes=1 if place < 0 else 1 << (place + 1),
                reads=read["count"] if read else 0,
                writes=write["count"] if write else 0,
                read_bytes=read["moved"] if read else 0,
                write_bytes=write["moved"] if write else 0,
            )
        )
    return made


def _sequential(lake: Tables, rows: str, words: dict[str, Any], wide: Any, *, ordered: bool) -> float | None:
    """Share of the data requests that begin where the one before ended, in the same file by the same process."""
    inside = "CASE WHEN stride = size THEN count - 1 ELSE 0 END"
    # Of a run whose operations do not move on by their size, only the first may follow what was before.
    reached = '"offset" + coalesce(stride, size) * (count - 1) + size'
    follows = (
        f'CASE WHEN "offset" = lag({reached}) OVER (PARTITION BY node, rank, file_id, op ORDER BY start_ns, "offset")'
        " THEN 1 ELSE 0 END"
        if ordered
        else "0"
    )
    found = query_lake(
        lake,
        "SELECT sum(inside + follows)::DOUBLE AS sequential, sum(count)::DOUBLE AS all_of FROM"
        f" (SELECT {inside} AS inside,"
        f' {follows} AS follows, count FROM ops WHERE {rows} AND {DATA} AND "offset" IS NOT NULL AND size > 0'
        " AND count > 0 AND file_id IS NOT NULL AND abs(coalesce(stride, size)) < 1099511627776"
        ' AND count < 4194304 AND abs("offset") < 4611686018427387904)',
        words,
        within=wide,
    )
    [row] = list_query_rows(found)
    return row["sequential"] / row["all_of"] if row["all_of"] else None


# -- counters of a trace ---------------------------------------------------------------------------------------------


def _of_counters(lake: Tables, run: RunSeen) -> JobRequests | None:
    sizes = len(SIZE_BIN_EDGES) + 1
    lists = ", ".join(
        f"TRY_CAST(sum({way}_sizes[{k + 1}]) AS BIGINT) AS {way}_{k}" for way in ("read", "write") for k in range(sizes)
    )
    sums = ", ".join(
        f"TRY_CAST(sum({name}) AS BIGINT) AS {name}"
        for name in (*_METADATA_COUNTS, "reads", "writes", "consec_reads", "consec_writes")
    )
    [row] = list_query_rows(
        query_lake(
            lake,
            f"SELECT count(*) AS told, {lists}, {sums} FROM file_counters WHERE job_id = $job"
            " AND interface NOT IN (SELECT unnest($upper))",
            {"job": run.job_id, "upper": list(UPPER_INTERFACES)},
        )
    )
    if not row["told"]:
        return None
    consecutive = [row[name] for name in ("consec_reads", "consec_writes") if row[name] is not None]
    data = (row["reads"] or 0) + (row["writes"] or 0)
    bins = []
    for k in range(sizes):
        read, write = row[f"read_{k}"], row[f"write_{k}"]
        if read is not None or write is not None:
            bins.append(
                RequestBin(
                    from_bytes=SIZE_BIN_EDGES[k - 1] + 1 if k else 0,
                    to_bytes=SIZE_BIN_EDGES[k] + 1 if k < len(SIZE_BIN_EDGES) else None,
                    reads=read or 0,
                    writes=write or 0,
                    read_bytes=None,
                    write_bytes=None,
                )
            )
    missing = [*run.missing, "bytes by size: this trace counts requests by size, not what they moved"]
    if not bins:
        missing.append("sizes: this trace does not count requests by size")
    return JobRequests(
        job_id=run.job_id,
        bins=bins,
        metadata={name: row[name] for name in _METADATA_COUNTS if row[name]},
        sequential_share=sum(consecutive) / data if consecutive and data else None,
        missing=missing,
    )
