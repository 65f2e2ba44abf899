"""Small requests: which share of jobs and of operations works in pieces far below what file systems are made for.

Beacon (Yang et al., ACM TOS 2023, section 7) draws bandwidth against operations a second and tells the share of jobs
below 1 KB a request. A request costs a server about the same whether it carries 1 KB or 64 KB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.model.unit_formats import KIB, format_bytes, format_count, format_percent
from fairlead.explain.analysis.overview.request_statistics import compute_mean_request_bytes
from fairlead.explain.analysis.system.scope import (
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    grade_finding_severity,
    report_missing_findings,
)
from fairlead.explain.analysis.table_columns import read_float_column


@dataclass(frozen=True)
class RequestLimits:
    """A job counts with at least `fewest_ops` reads and writes. Told when the jobs below `small_bytes` made `ops_share`
    of all operations of at least `fewest_jobs` jobs; 1 KB is Beacon's line."""

    tiny_bytes: float = 1.0 * KIB
    small_bytes: float = 64.0 * KIB
    fewest_ops: int = 10_000
    fewest_jobs: int = 5
    ops_share: float = 0.5
    high_share: float = 0.8


def find_small_requests(scope: Scope, limits: RequestLimits) -> SystemFindings:
    """At most one finding: the share, and the jobs that make most small requests."""
    jobs = scope.jobs
    size = compute_mean_request_bytes(jobs)
    ops = np.nan_to_num(read_float_column(jobs, "read_ops")) + np.nan_to_num(read_float_column(jobs, "write_ops"))
    counted = ~np.isnan(size) & (ops >= limits.fewest_ops)
    if not jobs.num_rows:
        return report_missing_findings("system.small_requests: no summaries of jobs")
    if np.isnan(size).all():
        return report_missing_findings("system.small_requests: no requests are counted by job")
    if int(counted.sum()) < limits.fewest_jobs:
        return report_missing_findings()
    total = float(ops[counted].sum())
    small, tiny = counted & (size < limits.small_bytes), counted & (size < limits.tiny_bytes)
    share = float(ops[small].sum()) / total
    if share < limits.ops_share:
        return report_missing_findings()
    order = np.flatnonzero(small)[np.argsort(-ops[small], kind="stable")]
    ids = jobs["job_id"].take(order[:8]).to_pylist()
    evidence = [
        build_finding_evidence(
            "ops_share",
            round(share, 4),
            None,
            f"{format_percent(share)} of {format_count(total)} reads and writes come from jobs whose mean request "
            f"is below {format_bytes(limits.small_bytes)}",
        ),
        build_finding_evidence(
            "jobs_below_64K",
            round(float(small.sum() / counted.sum()), 4),
            None,
            f"{int(small.sum())} of {int(counted.sum())} jobs",
        ),
        build_finding_evidence(
            "jobs_below_1K",
            round(float(tiny.sum() / counted.sum()), 4),
            None,
            f"{int(tiny.sum())} of them below {format_bytes(limits.tiny_bytes)}",
        ),
        *(
            build_finding_evidence(
                "request_bytes",
                round(float(size[k]), 1),
                "bytes",
                f"{scope.format_job(name)}: {format_count(float(ops[k]))} of {format_bytes(float(size[k]))}",
            )
            for name, k in zip(ids[:3], order[:3].tolist(), strict=True)
        ),
    ]
    unknown = int(np.isnan(size).sum())
    return scope.build_finding(
        "small_requests",
        title=f"{format_percent(share)} of all requests come from jobs with small requests",
        severity=grade_finding_severity(share, limits.ops_share, limits.high_share),
        confidence=0.9,
        evidence=evidence,
        culprits=build_finding_subjects("job", ids),
        missing=[f"requests of {unknown} of {jobs.num_rows} jobs are not counted"] if unknown else [],
        facts={"small_share": share, "request_bytes": float(size[order[0]]), "job": ids[0]},
    )
