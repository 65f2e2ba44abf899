"""What was written of jobs that turned out to be others: a mount told of one before the scheduler did, say.

`jobs` shows such a job once (`store.job_merging`). Summaries, phases and findings made before are withdrawn. Not here:
making them anew (`ended_jobs`).
"""
# ruff: noqa: S608  (names of tables and columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from fairlead.core.model.tables import FINDING, JOB_SUMMARY, PHASE, TableSpec
from fairlead.explain.diagnosing.serving_components import Tables

_SAME = "job.job_id = old.job_id AND job.cluster IS NOT DISTINCT FROM old.cluster"
_KEYS: tuple[tuple[TableSpec, str], ...] = (
    (JOB_SUMMARY, f"{_SAME} AND job.start_ns IS NOT DISTINCT FROM old.start_ns"),
    (PHASE, f"{_SAME} AND job.start_ns IS NOT DISTINCT FROM old.job_start_ns"),
    (FINDING, _SAME),
)
"""Tables, and when a row is of a job that there is. Findings do not say which run they are of."""


def withdraw_replaced_jobs(lake: Tables, numbers: Collection[str], now_ns: int) -> list[pa.Table]:
    """Rows that withdraw what tells of these job numbers and of no run in `jobs`. Raises LakeError."""
    found = []
    for spec, same in _KEYS if numbers else ():
        rows = lake.query(
            f"SELECT old.* EXCLUDE (day) FROM {spec.name} old WHERE old.job_id IN (SELECT unnest($numbers))"
            f" AND old.withdrawn IS NOT TRUE AND NOT EXISTS (SELECT 1 FROM jobs job WHERE {same})"
            " AND EXISTS (SELECT 1 FROM jobs job WHERE job.job_id = old.job_id)",
            {"numbers": sorted(numbers)},
        )
        if rows.num_rows:
            columns = {
                "made_ns": pa.array([now_ns] * rows.num_rows, pa.int64()),
                "withdrawn": pa.array([True] * rows.num_rows, pa.bool_()),
            }
            arrays = [columns.get(field.name, rows[field.name]) for field in spec.schema]
            plain = [one.cast(field.type) for one, field in zip(arrays, spec.schema, strict=True)]
            found.append(pa.Table.from_arrays(plain, schema=spec.schema))
    return found
