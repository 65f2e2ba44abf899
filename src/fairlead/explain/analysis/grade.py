"""One letter for a job's I/O: the share of its run time that the causes found cost it. Stated, not tuned per job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.core.model.finding import Finding
from fairlead.core.model.unit_formats import format_duration, format_percent
from fairlead.explain.analysis.profile import JobProfile

LIMITS = ((0.02, "A"), (0.05, "B"), (0.15, "C"), (0.30, "D"))
"""Upper bounds of the share of run time lost; beyond the last is F."""

IO_BOUND_SHARE = 0.5
"""A job that spends more of its run in I/O is at best a B, however few faults were found."""

GOOD_SHARE = 0.1
"""Up to this share of the run time in I/O, an A is called good; beyond it only that no costly fault was found."""

_READ = ("small_reads", "random_reads", "repeated_reads", "modify_reads", "sieved_reads", "reads")
_WRITE = ("small_writes", "random_writes", "repeated_writes", "shared_file_writes", "writes")
_BALANCE = ("imbalance", "serial")
_METADATA = ("metadata", "long_metadata")


class Grade(msgspec.Struct, frozen=True):
    """`letter` A to F, or None with the `reason` why there is none. `lost_s` seconds of the run, as far as known."""

    letter: str | None
    reason: str
    lost_s: float | None


def compute_graded_loss(profile: JobProfile, findings: Sequence[Finding], causes: dict[str, str]) -> float:
    """Seconds lost to the causes of `findings`: the dearest per kind of work (costs within one kind overlap), summed
    and capped at the I/O time of the slowest process. `causes` maps a rule to its cause."""
    found: dict[str, float] = {}
    for finding in findings:
        cause = causes.get(finding.rule)
        if cause and finding.cost_s and finding.severity not in ("ok", "info"):
            found[cause] = max(found.get(cause, 0.0), finding.cost_s)
    kinds = (_READ, _WRITE, _BALANCE, _METADATA, ("stdio",), ("small_requests",))
    total = sum(max((found.get(c, 0.0) for c in kind), default=0.0) for kind in kinds)
    return min(max(total, found.get("io", 0.0)), profile.times.slowest_s)


def grade_job(profile: JobProfile, findings: Sequence[Finding], causes: dict[str, str]) -> Grade:
    """The grade of a job. No letter without a run time or without any I/O on record."""
    run_time = profile.view.job.run_time_s
    metrics = profile.metrics
    if not metrics["data_ops"] and not metrics["metadata_ops"]:
        return Grade(None, "the trace holds no I/O of this job", None)
    lost = compute_graded_loss(profile, findings, causes)
    if run_time is None:
        return Grade(None, "the run time is unknown, and so is any share of it", lost)
    if run_time == 0:
        return Grade(None, "the recorded run time is zero, so shares of it cannot be given", lost)
    part = lost / run_time
    letter = next((name for limit, name in LIMITS if part < limit), "F")
    parts = f"{format_duration(lost)} of {format_duration(run_time)} ({format_percent(part)})"
    reason = f"about {parts} lost to the causes below"
    if lost == 0:
        reason = "no cause found that costs this job measurable time"
    share = metrics["io_time_share"]
    if letter == "A" and isinstance(share, float) and share > IO_BOUND_SHARE:
        letter, reason = "B", f"{reason}; yet the job spends {format_percent(share)} of its run in I/O"
    unpriced = [f for f in findings if f.severity in ("critical", "high") and f.cost_s is None]
    if unpriced and letter == "A":
        letter, reason = (
            "B",
            f"{reason}; {len(unpriced)} serious finding(s) whose cost cannot be estimated from this trace",
        )
    if any(m.kind in ("partial_module", "truncated", "operations_incomplete") for m in profile.missing):
        reason += "; based on what was recorded: the trace is incomplete"
    return Grade(letter, reason, lost)


def format_grade_headline(profile: JobProfile, findings: Sequence[Finding], result: Grade) -> str:
    """The verdict in one plain sentence."""
    bad = [f for f in findings if f.severity not in ("ok", "info")]
    share = profile.metrics["io_time_share"]
    if result.letter is None and not profile.metrics["data_ops"]:
        return "This job did no I/O that the trace recorded."
    words = {
        "A": "The I/O is good",
        "B": "The I/O is fine",
        "C": "The I/O costs noticeable time",
        "D": "The I/O is slow",
        "F": "The I/O holds this job back",
        None: "The I/O cannot be graded",
    }
    text = words[result.letter]
    if result.letter in ("A", "B") and isinstance(share, float) and share > IO_BOUND_SHARE:
        text = f"No {'costly ' if bad else ''}fault was found in the I/O, yet the job waits for it"
    elif result.letter == "A" and isinstance(share, float) and share > GOOD_SHARE:
        text = f"No {'costly ' if bad else ''}fault was found in the I/O"
    if isinstance(share, float):
        text += f": {format_percent(share)} of the run time goes into it"
    if bad and result.letter != "A":
        first = bad[0].title[0].lower() + bad[0].title[1:] if bad[0].title[1:2].islower() else bad[0].title
        text += f"; fix first: {first}"
    return text + "."


def grade_lost_time(lost_s: float | None, start_ns: int | None, end_ns: int | None) -> str | None:
    """A to F by the share of [start_ns, end_ns] that was lost; None where either is not known."""
    if lost_s is None or start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    share = max(lost_s, 0.0) / ((end_ns - start_ns) / 1e9)
    return next((letter for below, letter in LIMITS if share < below), "F")
