"""Summaries of jobs that still run: what was counted so far, for all of them at once, from sums by the hour.

`end_ns` of such a row is null. What only an end tells (rates, phases, modes, files) stays unknown until then; so does
a job nothing counted. Not here: jobs that ended (`ended_jobs`).
"""
# ruff: noqa: S608  (names of tables and columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.job_summary import ESTIMATE, SERIES, JobData, Row, build_running_job_summary
from fairlead.explain.diagnosing.serving_components import DAY_NS, Tables, build_day_condition
from fairlead.explain.questions.job_accounts import LONGEST_RUN_NS, is_account_running
from fairlead.explain.questions.job_volumes import build_volume_runs, read_job_volumes

EVERY_NS = 600 * NS_PER_S
"""A running job's row is written again after this time, or a tenth of the time it ran, whichever is longer..."""
LONGEST_NS = 3600 * NS_PER_S
"""... but at least this often."""
MOST_RUNNING = 1000
"""Running jobs looked at in one step; the longest waiting come first."""
_HOUR_NS = 3600 * NS_PER_S

_DUE = """
SELECT jobs.* EXCLUDE (day) FROM jobs LEFT JOIN job_summary told ON told.job_id = jobs.job_id
    AND told.start_ns = jobs.start_ns AND told.cluster IS NOT DISTINCT FROM jobs.cluster
    AND told.day >= DATE '1970-01-01' + $first_day::INTEGER
WHERE jobs.day >= DATE '1970-01-01' + $first_day::INTEGER AND jobs.start_ns <= $now
    AND jobs.start_ns > $now - $longest_run AND (jobs.end_ns IS NULL OR jobs.end_ns > $now)
    AND (told.made_ns IS NULL
         OR told.made_ns < $now - least($rarest, greatest($every, ($now - jobs.start_ns) // 10)))
ORDER BY told.made_ns NULLS FIRST, jobs.start_ns DESC LIMIT $most
"""


def select_due_running_jobs(
    lake: Tables, now_ns: int, *, every_ns: int = EVERY_NS, most: int = MOST_RUNNING
) -> list[Mapping[str, Any]]:
    """Rows of `jobs` that run and whose summary is missing or old. Raises LakeError."""
    found = lake.query(
        _DUE,
        {
            "now": now_ns,
            "every": every_ns,
            "rarest": max(LONGEST_NS, every_ns),
            "longest_run": LONGEST_RUN_NS,
            "most": most,
            "first_day": max(now_ns - LONGEST_RUN_NS, 0) // DAY_NS,
        },
    )
    return [job for job in found.to_pylist() if is_account_running(job, now_ns)]


def build_running_summaries(lake: Tables, jobs: Sequence[Mapping[str, Any]], now_ns: int) -> list[Row]:
    """A row of JOB_SUMMARY for each of `jobs`, as of `now_ns`. A few queries for all. Raises LakeError."""
    if not jobs:
        return []
    first = min(int(job["start_ns"]) for job in jobs)
    names = [str(job["job_id"]) for job in jobs]
    sums = ", ".join(
        f"TRY_CAST(sum({value}) AS BIGINT) AS {name}"
        for name, value in ((n, n if n != "metadata_ops" else _METADATA) for n in SERIES)
    )
    counted = lake.query(
        f"SELECT id, ts_ns, layer, {sums} FROM rollup WHERE kind = 'job' AND interval_ns = {_HOUR_NS}"
        f" AND ts_ns > $from AND ts_ns <= $now AND id IN (SELECT unnest($names)) AND"
        f" {build_day_condition(first, now_ns)}"
        " GROUP BY id, ts_ns, layer",
        {"from": first - _HOUR_NS, "now": now_ns, "names": names},
    )
    series = _by_job(counted)
    volumes = read_job_volumes(lake, build_volume_runs(jobs), now_ns).to_pylist()
    served = _served(lake, names, first, now_ns)
    rows = []
    for job, volume in zip(jobs, volumes, strict=True):
        name = str(job["job_id"])
        mine = series.get(name, counted.slice(0, 0))
        mine = mine.filter(pc.greater(mine["ts_ns"], int(job["start_ns"]) - _HOUR_NS))
        rows.append(
            build_running_job_summary(
                JobData(
                    job=job,
                    series=mine,
                    nodes_traffic=_one(job, volume) if volume["layer"] == ESTIMATE else None,
                    volume=volume,
                    forwarders=served.get((name, "forwarder")),
                    targets=served.get((name, "target")),
                ),
                now_ns,
            )
        )
    return rows


_METADATA = "CASE WHEN layer <> 'target' THEN metadata_ops END"


def _by_job(counted: pa.Table) -> dict[str, pa.Table]:
    ordered = counted.sort_by("id")
    runs = pc.run_end_encode(ordered["id"].cast(pa.string()).combine_chunks()) if ordered.num_rows else None
    if runs is None:
        return {}
    ends = runs.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    return {
        name: ordered.slice(low, high - low)
        for name, low, high in zip(runs.values.to_pylist(), starts, ends, strict=True)
    }


def _one(job: Mapping[str, Any], volume: Mapping[str, Any]) -> pa.Table:
    columns = {name: pa.array([volume[name]], pa.int64()) for name in SERIES}
    return pa.table({"ts_ns": pa.array([job["start_ns"]], pa.int64()), "layer": [ESTIMATE], **columns})


def _served(lake: Tables, names: Sequence[str], first_ns: int, now_ns: int) -> dict[tuple[str, str], list[str]]:
    found = lake.query(
        "SELECT DISTINCT job_id, kind, id FROM rollup WHERE kind IN (SELECT unnest($kinds))"
        f" AND interval_ns = {_HOUR_NS} AND job_id IN (SELECT unnest($names)) AND ts_ns > $from AND ts_ns <= $now"
        f" AND {build_day_condition(first_ns, now_ns)}",
        {"kinds": ["forwarder", "target"], "names": list(names), "from": first_ns - _HOUR_NS, "now": now_ns},
    )
    served: dict[tuple[str, str], list[str]] = {}
    for row in found.to_pylist():
        served.setdefault((row["job_id"], row["kind"]), []).append(row["id"])
    return served
