"""The verdict of one job as a stable, versioned record (`fairlead.report/1`): what `--json` prints and pages show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.core.model.finding import Finding
from fairlead.core.model.missing import Missing
from fairlead.core.model.phase import Phase
from fairlead.explain.analysis.grade import format_grade_headline, grade_job
from fairlead.explain.analysis.metric_docs import Value
from fairlead.explain.analysis.modes import DirectionMode
from fairlead.explain.analysis.profile import JobProfile

SCHEMA = "fairlead.report/1"


class JobPart(msgspec.Struct, frozen=True, kw_only=True):
    """Who ran what, when. `nodes` is a count when only that is known."""

    id: str
    user: str | None
    program: str | None
    cluster: str | None
    start_ns: int | None
    end_ns: int | None
    run_time_s: float | None
    processes: int
    nodes: list[str] | int | None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """File bytes and operations at the lowest interface (POSIX plus STDIO); standard streams are in `stream_bytes`."""

    read_bytes: int
    write_bytes: int
    read_ops: int
    write_ops: int
    metadata_ops: int
    stream_bytes: int


class Modes(msgspec.Struct, frozen=True):
    """I/O mode per direction: N-N, N-M, N-1, 1-1 or none."""

    read: str
    write: str


class Processes(msgspec.Struct, frozen=True):
    """Processes doing I/O per direction; None when the trace cannot tell."""

    read: int | None
    write: int | None


class UndecidedRule(msgspec.Struct, frozen=True):
    """A rule that could not be decided, and the metrics it lacked."""

    rule: str
    title: str
    unknown: list[str]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One job's report. `findings` are ordered by cost; `summary` holds the job summary of Beacon plus the rest of
    the figures pages show; `metrics` every metric with None where the trace cannot tell."""

    schema: str
    fairlead_version: str
    analysis_version: str
    inputs: list[str]
    source: str
    job: JobPart
    totals: Totals
    io_mode: Modes
    io_mode_mpiio: Modes | None
    io_processes: Processes
    grade: str | None
    grade_reason: str
    lost_s: float | None
    headline: str
    summary: dict[str, Value | dict[str, float]]
    phases: list[Phase]
    findings: list[Finding]
    undecided: list[UndecidedRule]
    missing: list[Missing]
    metrics: dict[str, Value]


def build_verdict(
    profile: JobProfile,
    findings: Sequence[Finding],
    undecided: Sequence[UndecidedRule],
    causes: dict[str, str],
    *,
    inputs: Sequence[str],
    source: str,
    version: str,
) -> Verdict:
    """Compose the verdict. `causes` maps a rule to the cause it prices."""
    from fairlead.explain.analysis import ANALYSIS_VERSION

    job, metrics = profile.view.job, profile.metrics
    result = grade_job(profile, findings, causes)
    above = profile.modes_mpiio
    differs = metrics["mpiio_used"] and any(above[d].mode != profile.modes[d].mode for d in above)
    return Verdict(
        schema=SCHEMA,
        fairlead_version=version,
        analysis_version=ANALYSIS_VERSION,
        inputs=list(inputs),
        source=source,
        job=JobPart(
            id=job.job_id,
            user=job.user,
            program=job.program,
            cluster=job.cluster,
            start_ns=job.start_ns,
            end_ns=job.end_ns,
            run_time_s=job.run_time_s,
            processes=profile.view.processes,
            nodes=job.nodes if job.nodes is not None else job.nodes_count,
        ),
        totals=Totals(
            **{
                n: int(metrics[n] or 0)
                for n in ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "stream_bytes")
            }
        ),
        io_mode=_modes(profile.modes),
        io_mode_mpiio=_modes(above) if differs else None,
        io_processes=Processes(profile.modes["read"].processes, profile.modes["write"].processes),
        grade=result.letter,
        grade_reason=result.reason,
        lost_s=result.lost_s,
        headline=format_grade_headline(profile, findings, result),
        summary=_summary(profile),
        phases=profile.phases,
        findings=list(findings),
        undecided=list(undecided),
        missing=profile.missing,
        metrics=metrics,
    )


def _modes(modes: dict[str, DirectionMode]) -> Modes:
    return Modes(modes["read"].mode, modes["write"].mode)


def _summary(profile: JobProfile) -> dict[str, Value | dict[str, float]]:
    names = (
        "run_time_s",
        "io_time_s",
        "io_time_mean_s",
        "io_time_share",
        "read_time_s",
        "write_time_s",
        "meta_time_s",
        "read_bandwidth_bytes_per_s",
        "write_bandwidth_bytes_per_s",
        "read_peak_bytes_per_s",
        "write_peak_bytes_per_s",
        "average_iops",
        "metadata_ops",
        "metadata_ops_per_s",
        "processes",
        "io_processes",
        "files",
        "non_trivial",
        "read_pattern",
        "write_pattern",
        "overlap_share",
    )
    out: dict[str, Value | dict[str, float]] = {name: profile.metrics[name] for name in names}
    for d, period in profile.periods.items():
        out[f"{d}_period"] = None if period is None else {"period_s": period.period_s, "confidence": period.confidence}
    return out
