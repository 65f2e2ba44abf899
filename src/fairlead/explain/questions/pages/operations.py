"""Recorded operations of one job, as pages read them: which rows count once, and what class each of them is.

A mount's requests and a tracer's calls are the same bytes at two heights and are never added.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

import pyarrow as pa

from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.store.rollups import CLIENT, MOUNT, MOUNT_INTERFACES, NO_METADATA, UPPER_INTERFACES


def _either(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)


MOUNTED = {
    MOUNT: f"interface IN ({_either(MOUNT_INTERFACES)})",
    CLIENT: f"interface NOT IN ({_either((*UPPER_INTERFACES, *MOUNT_INTERFACES))})",
}
"""Condition on rows of `ops`, by the layer they are counted as."""
DATA = "op IN ('read', 'write')"
METADATA = f"op NOT IN ({_either(NO_METADATA)})"
MOVED = "CASE WHEN size >= 0 AND size <= 4611686018427387904 // greatest(count, 1) THEN size * count END"
"""Bytes of a run of operations; null where they are not known, or beyond belief."""
_LONGEST_NS = DAY_NS
"""Runs that began earlier than this before a span are not looked for in it."""


def build_operation_condition(span: Span) -> str:
    """The condition that a row of `ops` touches the span."""
    wide = Span(span.from_ns - _LONGEST_NS, span.to_ns)
    return (
        f"start_ns < {span.to_ns} AND start_ns >= {wide.from_ns} AND end_ns"
        f" >= {span.from_ns} AND {build_day_filter(wide)}"
    )


def compute_operation_file_span(span: Span) -> Span:
    """The times of files that `build_operation_condition` looks at."""
    return Span(span.from_ns - _LONGEST_NS, span.to_ns)


def find_operation_layer(lake: Tables, job_id: str, span: Span) -> tuple[str | None, bool]:
    """The layer that tells a job's operations (a mount's, else those traced in its processes), and whether ranks are
    known there; None where none were recorded."""
    chosen = ", ".join(
        f"count(*) FILTER ({where}) AS {layer}, count(rank) FILTER ({where}) AS {layer}_ranks"
        for layer, where in MOUNTED.items()
    )
    found = query_lake(
        lake,
        f"SELECT {chosen} FROM ops WHERE job_id = $job AND {build_operation_condition(span)}",
        {"job": job_id},
        within=compute_operation_file_span(span),
    )
    [row] = found.to_pylist()
    for layer in MOUNTED:
        if row[layer]:
            return layer, bool(row[f"{layer}_ranks"])
    return None, False


def read_operation_runs(lake: Tables, job_id: str, span: Span, where: str, *, most: int) -> pa.Table | None:
    """Runs of the span as `start_ns`, `end_ns`, `class` (read_bytes, write_bytes, metadata_ops), `amount`; None where
    they are more than `most`."""
    found = query_lake(
        lake,
        f"SELECT start_ns, end_ns, CASE op WHEN 'read' THEN 'read_bytes' WHEN 'write' THEN 'write_bytes'"
        f" ELSE 'metadata_ops' END AS class, CASE WHEN {DATA} THEN {MOVED} ELSE count END AS amount FROM ops"
        f" WHERE job_id = $job AND {build_operation_condition(span)} AND {where} AND ({DATA} OR {METADATA})"
        f" LIMIT {most + 1}",
        {"job": job_id},
        within=compute_operation_file_span(span),
    )
    return found if found.num_rows <= most else None
