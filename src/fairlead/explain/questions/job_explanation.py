"""One job on one page: what it got, what it usually gets, who or what took the difference, whom it hurt, what to do.

Also when nothing is wrong, and when it cannot be told: then what was missing. Not here: one finding (`explain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fairlead.core.model.finding import Advice
from fairlead.core.model.finding_incident_rows import StoredFinding
from fairlead.core.model.unit_formats import format_duration
from fairlead.explain.analysis.grade import grade_lost_time
from fairlead.explain.questions import findings as kept
from fairlead.explain.questions.answers import JobSummary, Sums
from fairlead.explain.questions.answers_diagnosis import Course, Hurt, LostTime, PhaseLine, Why
from fairlead.explain.questions.evidence_series import build_job_evidence_series
from fairlead.explain.questions.finding_detail import build_finding_courses, compute_finding_span, find_finding_phase
from fairlead.explain.questions.job_accounts import (
    build_account_row,
    build_unknown_job_error,
    is_account_running,
    read_run_accounts,
)
from fairlead.explain.questions.job_detail import read_job_detail_summary
from fairlead.explain.questions.lake_queries import Sight, Tables
from fairlead.explain.questions.past_phases import read_job_phases
from fairlead.explain.questions.similar_runs import list_similar_runs, read_program_profile
from fairlead.explain.questions.span import MINUTE_NS, Span
from fairlead.explain.questions.usual_performance import compare_with_usual
from fairlead.explain.questions.visible_lake import is_job_visible

MOST_FINDINGS = 20
MOST_RUNS = 50
SLOWED = ("job.interference", "job.slow_component")
WORTH_SAYING = 0.01
"""Of the time I/O usually takes: what is lost beyond it, where it is less, is not told in figures."""
CHANGED, SLOW = "job.own_change", "job.slow_unexplained"


def explain_job(
    lake: Tables, job_id: str, sight: Sight, now_ns: int, *, cluster: str = "", at: Span | None = None
) -> Why:
    """The page of the latest run of this number (of `cluster`; the one that ran in `at`). Raises UnknownNameError."""
    runs = read_run_accounts(lake, job_id, cluster or None)
    mine = [run for run in runs if is_job_visible(run, sight)]
    if at is not None:
        mine = [
            run
            for run in mine
            if run["start_ns"] is not None
            and run["start_ns"] < at.to_ns
            and (run["end_ns"] is None or run["end_ns"] >= at.from_ns)
        ] or mine
    if not mine:
        raise build_unknown_job_error(lake, job_id)
    account = mine[0]
    others = [run for run in runs if run is not account and is_job_visible(run, sight)]
    summary = read_job_detail_summary(lake, account)
    running = is_account_running(account, now_ns)
    phases, told = _looked_at(lake, account, now_ns, sight)
    verdict = _verdict(running, phases, told)
    lines = [_line(row) for row in phases.to_pylist()]
    known = [line for line in lines if line.expected_s is not None]
    expected = sum(line.expected_s for line in known if line.expected_s is not None) if known else None
    lost = sum(line.lost_s for line in known if line.lost_s is not None) if known else None
    courses, usual = _drawn(lake, phases, told, sight, now_ns)
    job = build_account_row(
        account, now_ns, sums=summary.sums if summary else Sums(), layer=summary.basis if summary else None
    )
    return Why(
        job=job,
        verdict=verdict,
        headline=_build_headline(verdict, job_id, told, lost, expected),
        summary=summary,
        phases=lines,
        expected_s=expected,
        lost_s=lost,
        usual=usual,
        taken=_rank_losses(told),
        findings=told,
        advice=_advice(told),
        hurt=_hurt(lake, account, now_ns),
        runs=read_program_profile(
            lake, account, phases["program"][0].as_py() if phases.num_rows else account["program"]
        ),
        alike=list_similar_runs(lake, account, sight),
        courses=courses,
        missing=_missing(account, running, phases, told, summary),
        other_runs=len(mine) - 1,
        grade=grade_lost_time(lost, account["start_ns"], now_ns if running else account["end_ns"]),
        same_number=[build_account_row(run, now_ns) for run in others[:MOST_RUNS]],
    )


def _looked_at(
    lake: Tables, account: Mapping[str, Any], now_ns: int, sight: Sight
) -> tuple[pa.Table, list[StoredFinding]]:
    start, end = account["start_ns"], account["end_ns"]
    if start is None:
        return read_job_phases(lake, account["cluster"], account["job_id"], 0, 0), []
    phases = read_job_phases(lake, account["cluster"], account["job_id"], start, end)
    life = Span(start - MINUTE_NS, (end if end is not None else now_ns) + MINUTE_NS)
    return phases, kept.list_job_findings(lake, account["cluster"], account["job_id"], life, sight)[:MOST_FINDINGS]


def _hurt(lake: Tables, account: Mapping[str, Any], now_ns: int) -> list[Hurt]:
    start, end = account["start_ns"], account["end_ns"]
    if start is None:
        return []
    life = Span(start, (end if end is not None else now_ns) + MINUTE_NS)
    return [
        Hurt(
            who=f"job {told.job_id}",
            start_ns=told.finding.from_ns,
            seconds=told.finding.cost_s if len(told.finding.culprits) == 1 else None,
            confidence=told.finding.confidence,
            finding=told.finding.id,
        )
        for told in kept.list_blaming_findings(lake, account["cluster"], account["job_id"], life)[:MOST_FINDINGS]
    ]


def _verdict(running: bool, phases: pa.Table, told: Sequence[StoredFinding]) -> str:
    rules = {one.finding.rule for one in told}
    if rules & set(SLOWED):
        return "slowed"
    if SLOW in rules:
        return "slow"
    if CHANGED in rules:
        return "changed"
    if running and not phases.num_rows:
        return "running"
    judged = phases.num_rows - phases["expected_s"].null_count
    return "usual" if judged else "unknown"


def _build_headline(
    verdict: str, job_id: str, told: Sequence[StoredFinding], lost: float | None, expected: float | None
) -> str:
    """The page in one line."""
    if verdict in ("slowed", "slow", "changed"):
        return told[0].finding.title
    if verdict == "running":
        return f"Job {job_id} is still running: what it got is known when it has ended"
    if verdict == "unknown":
        return f"Job {job_id}: what it usually gets is not known"
    if lost is not None and expected and lost < WORTH_SAYING * expected:
        return f"Job {job_id} ran as usual: its I/O took {format_duration(expected + lost)}, as it usually does"
    if lost is not None and expected:
        return f"Job {job_id} ran as usual: {format_duration(lost)} beyond the usual {format_duration(expected)} of I/O"
    return f"Job {job_id} ran as usual"


def _rank_losses(told: Sequence[StoredFinding]) -> list[LostTime]:
    """Who or what took time, the most first; what cannot be told in seconds last."""
    rows = []
    for one in told:
        finding = one.finding
        who = ", ".join(f"{c.kind} {c.id}" if not c.id.startswith("another") else c.id for c in finding.culprits)
        rows.append(
            LostTime(
                who=who or ("the job itself" if finding.rule == CHANGED else "not known"),
                what=finding.title,
                seconds=finding.cost_s,
                confidence=finding.confidence,
                finding=finding.id,
            )
        )
    return sorted(rows, key=lambda row: (row.seconds is None, -(row.seconds or 0.0), row.finding))


def _line(row: Mapping[str, Any]) -> PhaseLine:
    return PhaseLine(
        kind=row["kind"],
        number=row["number"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        seconds=row["active_ns"] / 1e9,
        amount=row["metadata_ops"] if row["kind"] == "metadata" else row["bytes"],
        rate_per_s=row["rate_per_s"],
        mode=row["mode"],
        expected_s=row["expected_s"],
        lost_s=row["lost_s"],
        abnormal=row["abnormal"],
        missing=row["missing"] or [],
    )


def _drawn(
    lake: Tables, phases: pa.Table, told: Sequence[StoredFinding], sight: Sight, now_ns: int
) -> tuple[list[Course], list[Any]]:
    """Pictures of the costliest finding, or of what the job got where there is none."""
    usual = compare_with_usual(lake, phases)
    for one in told:
        phase = find_finding_phase(lake, one, *compute_finding_span(one, now_ns))
        courses = build_finding_courses(lake, one, phase, sight, now_ns)
        if courses:
            return courses, usual
    if not phases.num_rows:
        return [], usual
    rows = sorted(phases.to_pylist(), key=lambda row: -row["active_ns"])
    longest = rows[0]
    amount = longest["metadata_ops"] if longest["kind"] == "metadata" else longest["bytes"]
    per_s = amount / longest["expected_s"] if amount and longest["expected_s"] else None
    span = (longest["start_ns"], longest["end_ns"])
    course = build_job_evidence_series(lake, longest["job_id"], longest["kind"], span, now_ns, usual_per_s=per_s)
    return ([course] if course is not None else []), usual


def _advice(told: Sequence[StoredFinding]) -> list[Advice]:
    """Of all findings, each once, in their order."""
    return list(dict.fromkeys(advice for one in told for advice in one.finding.advice))


def _missing(
    account: Mapping[str, Any],
    running: bool,
    phases: pa.Table,
    told: Sequence[StoredFinding],
    summary: JobSummary | None,
) -> list[str]:
    """What would have made this page surer, each once."""
    missing = [text for one in told for text in one.finding.missing]
    if account["start_ns"] is None:
        missing.append("start: the scheduler has not reported when it began")
    if not phases.num_rows and not running:
        if summary is None:
            missing.append("analysis: this job has not been analysed yet")
        elif summary.phases:
            missing.append("phases: it was analysed before phases were kept; `fairlead history diagnose` computes them")
        else:
            missing.append("phases: no counter or trace names this job, or it did too little I/O for phases")
    if phases.num_rows and phases["expected_s"].null_count == phases.num_rows:
        missing.append("history: no similar earlier run is known; one is enough for a comparison")
    words = {
        "edges": "edges: its phases are shorter than the counters' intervals",
        "mode": "mode: it is not known whether its processes shared files (a trace or a mount shows it)",
        "forwarders": "forwarders: it is not known which ones served it",
        "targets": "targets: it is not known which ones served it",
        "mds": "mds: it is not known which metadata servers served it",
        "traffic": "traffic: not counted by job, but split among the jobs on its nodes",
        "operations": "operations: the counters have bytes, not requests",
    }
    short = sorted({name for names in phases["missing"].to_pylist() for name in names or ()})
    return list(dict.fromkeys([*missing, *(words.get(name, name) for name in short)]))
