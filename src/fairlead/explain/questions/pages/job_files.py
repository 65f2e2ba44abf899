"""Files of a job: what it did with each, by name where names are known.

From recorded operations, else from the counters of a trace. Not here: who of the job did it (`rank_map`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from typing import Any

from fairlead.explain.questions.answers_pages import FileRow, JobFiles
from fairlead.explain.questions.lake_queries import Sight, Tables, list_query_rows, query_lake
from fairlead.explain.questions.pages.operations import (
    METADATA,
    MOUNTED,
    MOVED,
    build_operation_condition,
    find_operation_layer,
)
from fairlead.explain.questions.pages.run_window import RunSeen, find_run_window
from fairlead.explain.questions.question import Asking
from fairlead.store.rollups import UPPER_INTERFACES

_ORDER = {
    "bytes": "coalesce(read_bytes, 0) + coalesce(write_bytes, 0) DESC",
    "read": "read_bytes DESC NULLS LAST",
    "write": "write_bytes DESC NULLS LAST",
    "metadata": "metadata_ops DESC NULLS LAST",
    "time": "busy_s DESC NULLS LAST",
    "path": "path NULLS LAST",
}
_NO_NAMES = "names: no trace or mount recorded the names of these files"
_NOTHING = "files: neither a trace nor a mount recorded what this job did with files"
_METADATA_COUNTS = ("opens", "stats", "renames")


def list_job_files(asking: Asking, name: str, asked: Any, sight: Sight, now_ns: int) -> JobFiles:
    """Files of a job. Raises UnknownNameError, UsageError, LakeError."""
    run = find_run_window(asking, name, asked, sight, now_ns)
    missing = list(run.missing)
    found: list[dict[str, Any]] = []
    if run.alone:
        layer, ranked = find_operation_layer(asking.lake, run.job_id, run.span)
        if layer is not None:
            who = "rank" if ranked else "node"
            found = _listed(asking.lake, run, asked, _operations(run, layer, who), of_ops=True)
        else:
            found = _listed(asking.lake, run, asked, _counters(), of_ops=False)
        if not found and not asked.like and not asked.offset:
            missing.append(_NOTHING)
    shown = [_row(row) for row in found if row["file_id"] is not None]
    if shown and all(row.path is None for row in shown):
        missing.append(_NO_NAMES)
    total = found[0]["total"] if found else 0
    return JobFiles(job_id=run.job_id, total=total, sort=asked.sort, files=shown, missing=missing)


def _listed(lake: Tables, run: RunSeen, asked: Any, sums: str, *, of_ops: bool) -> list[dict[str, Any]]:
    """The page of files. A name is the first one a file was seen under."""
    words: dict[str, object] = {"job": run.job_id}
    named = ""
    if asked.like:
        named = " WHERE contains(lower(path), lower($like))"
        words["like"] = asked.like
    if not of_ops:
        words["upper"] = list(UPPER_INTERFACES)
    # Names are looked up without pruning: a file may have been seen long ago.
    found = query_lake(
        lake,
        f"WITH sums AS ({sums}), named AS (SELECT file_id, arg_min(path, coalesce(first_seen_ns, 0)) AS path,"
        " arg_min(fs, coalesce(first_seen_ns, 0)) AS named_fs FROM files WHERE file_id IN (SELECT file_id FROM sums)"
        " GROUP BY file_id), listed AS (SELECT sums.*, named.path, coalesce(named.named_fs, sums.seen_fs) AS fs"
        f" FROM sums LEFT JOIN named USING (file_id)) SELECT *, count(*) OVER () AS total FROM listed{named}"
        f" ORDER BY {_ORDER[asked.sort]}, file_id LIMIT {int(asked.limit)} OFFSET {int(asked.offset)}",
        words,
    )
    return list_query_rows(found)


def _operations(run: RunSeen, layer: str, who: str) -> str:
    """Sums by file of recorded operations."""

    def of(word: str, value: str) -> str:
        return f"TRY_CAST(sum({value}) FILTER (op = '{word}') AS BIGINT)"

    return (
        f"SELECT file_id, min(fs) AS seen_fs, {of('read', MOVED)} AS read_bytes, {of('write', MOVED)} AS write_bytes,"
        f" coalesce({of('read', 'count')}, 0) AS read_ops, coalesce({of('write', 'count')}, 0) AS write_ops,"
        f" coalesce(TRY_CAST(sum(count) FILTER ({METADATA}) AS BIGINT), 0) AS metadata_ops,"
        f' count(DISTINCT "{who}") AS processes, sum(busy_ns) / 1e9 AS busy_s,'
        " min(start_ns) AS first_ns, max(end_ns) AS last_ns"
        f" FROM ops WHERE job_id = $job AND {build_operation_condition(run.span)} AND {MOUNTED[layer]} AND"
        f" file_id IS NOT NULL"
        " GROUP BY file_id"
    )


def _counters() -> str:
    """Sums by file of a trace's counters; a row of rank -1 stands for all processes."""

    def added(*names: str) -> str:
        parts = " + ".join(f"coalesce(sum({name}), 0)" for name in names)
        return f"CASE WHEN {' + '.join(f'count({name})' for name in names)} > 0 THEN TRY_CAST({parts} AS BIGINT) END"

    seconds = ("read_time_s", "write_time_s", "meta_time_s")
    told = " + ".join(f"count({name})" for name in seconds)
    busy = f"CASE WHEN {told} > 0 THEN {' + '.join(f'coalesce(sum({name}), 0)' for name in seconds)} END"
    return (
        f"SELECT file_id, NULL::VARCHAR AS seen_fs, {added('bytes_read')} AS read_bytes,"
        f" {added('bytes_written')} AS write_bytes, {added('reads')} AS read_ops, {added('writes')} AS write_ops,"
        f" {added(*_METADATA_COUNTS)} AS metadata_ops,"
        " CASE WHEN bool_or(rank < 0) THEN NULL ELSE count(DISTINCT rank) END AS processes,"
        f" {busy} AS busy_s, min(least(open_start_ns, read_start_ns, write_start_ns)) AS first_ns,"
        " max(greatest(close_end_ns, read_end_ns, write_end_ns)) AS last_ns"
        " FROM file_counters WHERE job_id = $job AND interface NOT IN (SELECT unnest($upper)) GROUP BY file_id"
    )


def _row(row: dict[str, Any]) -> FileRow:
    read, write = row["read_bytes"], row["write_bytes"]
    requests = (row["read_ops"] or 0) + (row["write_ops"] or 0)
    moved = (read or 0) + (write or 0)
    if read is None and not row["read_ops"]:
        read = 0 if row["read_ops"] == 0 else None
    if write is None and not row["write_ops"]:
        write = 0 if row["write_ops"] == 0 else None
    return FileRow(
        file_id=str(row["file_id"]),
        path=row["path"],
        fs=row["fs"],
        read_bytes=read,
        write_bytes=write,
        read_ops=row["read_ops"],
        write_ops=row["write_ops"],
        metadata_ops=row["metadata_ops"],
        processes=row["processes"],
        busy_s=row["busy_s"],
        request_bytes=moved / requests if requests and (read is not None or write is not None) else None,
        first_ns=row["first_ns"],
        last_ns=row["last_ns"],
    )
