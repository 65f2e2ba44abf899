"""How often jobs go wrong, and why: abnormal jobs by cause.

From stored findings (Beacon: Yang et al., ACM TOS 2023, section 6: about 4.8 % of jobs with non-trivial I/O abnormal,
over 90 % of these by interference).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.explain.analysis.overview.job_population import (
    mark_nontrivial_population_jobs,
    select_latest_population_jobs,
)

OF_JOBS = ("job.interference", "job.slow_component", "job.slow_unexplained", "job.own_change")


def _select_current_rows(rows: pa.Table) -> pa.Table:
    """Rows of FINDING or INCIDENT that count: of each id the highest version, then the latest, if not withdrawn."""
    order = [("id", "ascending"), ("analysis_version", "ascending"), ("made_ns", "ascending")]
    rows = rows.sort_by(order)
    kept = _select_last_of_runs(rows, ("id",))
    return kept.filter(pc.invert(pc.fill_null(kept["withdrawn"], False)))


def count_abnormal_jobs(findings: pa.Table, jobs: pa.Table) -> pa.Table:
    """By `cause` (a verdict's word, most first, then the sum as `all`): `jobs`, `share` of non-trivial jobs,
    `of_abnormal` and `lost_s`. A job with several findings counts for the one that cost it most. Shares are null
    without any non-trivial job."""
    some = select_latest_population_jobs(jobs)
    some = some.filter(pa.array(mark_nontrivial_population_jobs(some)))
    rows = _select_current_rows(findings)
    rows = rows.filter(pc.is_in(rows["rule"].cast(pa.string()), pa.array(OF_JOBS)))
    rows = rows.filter(pc.is_in(rows["job_id"], some["job_id"].combine_chunks()))
    by_job: dict[str, tuple[float, str]] = {}
    lost: dict[str, float] = {}
    for row in rows.select(["job_id", "category", "cost_s", "id"]).sort_by("id").to_pylist():
        cost = row["cost_s"] or 0.0
        lost[row["category"]] = lost.get(row["category"], 0.0) + cost
        if row["job_id"] not in by_job or cost > by_job[row["job_id"]][0]:
            by_job[row["job_id"]] = (cost, row["category"])
    causes = [cause for _, cause in by_job.values()]
    counted = sorted({cause: causes.count(cause) for cause in causes}.items(), key=lambda one: (-one[1], one[0]))
    total, many = len(by_job), some.num_rows
    rows_out = [
        {
            "cause": cause,
            "jobs": n,
            "share": n / many if many else None,
            "of_abnormal": n / total if total else None,
            "lost_s": lost[cause] if cause in lost else sum(lost.values()),
        }
        for cause, n in [*counted, ("all", total)]
    ]
    return pa.Table.from_pylist(rows_out, schema=_CAUSES)


_CAUSES = pa.schema(
    [
        ("cause", pa.string()),
        ("jobs", pa.int64()),
        ("share", pa.float64()),
        ("of_abnormal", pa.float64()),
        ("lost_s", pa.float64()),
    ]
)


def _select_last_of_runs(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return the last row of each run of rows with equal `keys`; the table must be sorted by them."""
    if not table.num_rows:
        return table
    change = np.zeros(table.num_rows - 1, np.bool_)
    for name in keys:
        codes = table[name].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        change |= codes[1:] != codes[:-1]
    return table.filter(pa.array(np.append(change, True)))
