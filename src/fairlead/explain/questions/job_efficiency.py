"""How a job used what it had, as its stored summary and account say: two rows are read, so it takes milliseconds.

The figures are those of `fairlead job show` (the summary's). Not here: its course over time (`job_detail`).
"""

from __future__ import annotations

from fairlead.explain.questions.answers import JobEfficiency, JobSummary, Sums
from fairlead.explain.questions.job_accounts import build_account_row, build_unknown_job_error, read_run_accounts
from fairlead.explain.questions.job_detail import read_job_detail_summary
from fairlead.explain.questions.lake_queries import Sight, Tables
from fairlead.explain.questions.visible_lake import is_job_visible

_CPU = "CPU time: the accounting that fairlead reads has none"
_MEMORY = "memory: the accounting that fairlead reads has none"
_SUMMARY = "I/O: the job has no summary yet"


def describe_job_efficiency(
    lake: Tables, job_id: str, sight: Sight, now_ns: int, *, cluster: str = ""
) -> JobEfficiency:
    """The latest run of this number (of `cluster`). Raises UnknownNameError for one that is not known or not this
    reader's."""
    mine = [run for run in read_run_accounts(lake, job_id, cluster or None) if is_job_visible(run, sight)]
    if not mine:
        raise build_unknown_job_error(lake, job_id)
    account = mine[0]
    summary = read_job_detail_summary(lake, account)
    sums, layer = (summary.sums, summary.basis) if summary is not None else (Sums(), None)
    job = build_account_row(account, now_ns, sums=sums, layer=layer)
    end_ns = job.end_ns if job.end_ns is not None else now_ns if job.running else None
    elapsed_s = (end_ns - job.start_ns) / 1e9 if end_ns is not None and job.start_ns is not None else None
    return JobEfficiency(
        job=job,
        summary=summary,
        elapsed_s=elapsed_s,
        io_share=_compute_io_share(summary, elapsed_s),
        final=summary is not None and not summary.so_far,
        other_runs=len(mine) - 1,
        missing=[_CPU, _MEMORY, *([_SUMMARY] if summary is None else [])],
    )


def _compute_io_share(summary: JobSummary | None, elapsed_s: float | None) -> float | None:
    """Share of its processes' time in requests; None where times were not counted, or requests ran side by side."""
    if summary is None or not elapsed_s or not summary.io_processes:
        return None
    sums = summary.sums
    parts = (
        (summary.read_time_ns, sums.read_bytes),
        (summary.write_time_ns, sums.write_bytes),
        (summary.metadata_time_ns, sums.metadata_ops),
    )
    if any(time is None and moved != 0 for time, moved in parts):
        return None
    share = sum(time or 0 for time, _ in parts) / 1e9 / (elapsed_s * summary.io_processes)
    return share if share <= 1 else None
