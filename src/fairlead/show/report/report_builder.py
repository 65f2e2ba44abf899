"""Composes a report: source → view → profile → findings → verdict → page. The seam between rooms, with no thinking.

The command line, and later the server, call this; it holds what a report needs and nothing about terminals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa

import fairlead
from fairlead.core.errors import ConfigError, CorruptInputError, FairleadError, InputError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import DAMAGED, Missing
from fairlead.core.model.platform import Platform
from fairlead.core.safe_text import escape_undecodable_text
from fairlead.explain.analysis.job_view import assemble_view
from fairlead.explain.analysis.profile import JobProfile, build_profile
from fairlead.explain.analysis.verdict import UndecidedRule, Verdict, build_verdict
from fairlead.explain.analysis.verdict_comparison import Comparison, compare_verdicts
from fairlead.explain.rules.rule import Rule
from fairlead.explain.rules.rule_engine import evaluate_rules
from fairlead.explain.rules.rule_set import load_rule_set
from fairlead.see.sources import inputs
from fairlead.see.sources.base import Item, LayeredSource
from fairlead.see.sources.inputs import Failure, JobInput

ACCOUNTING = "slurm"
_SAME_RUN_NS = 86_400 * 10**9
"""How far a trace may begin outside a run of the same job number and still be of it: clocks and time zones differ by
less than a day, schedulers reuse numbers later than that."""
_LONGEST_SLUG = 100


REPORTS_SCHEMA = "fairlead.reports/1"
COMPARISON_SCHEMA = "fairlead.comparison/1"


class ReportList(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of several jobs."""

    schema: str = REPORTS_SCHEMA
    reports: Sequence[Verdict]


class ComparedReports(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of two runs side by side: both reports, then what changed."""

    schema: str = COMPARISON_SCHEMA
    before: Verdict
    after: Verdict
    comparison: Comparison


class Watch(Protocol):
    """Told how far a long reading has come."""

    def note_rows(self, count: int) -> None:
        """`count` more records."""

    def note_job(self) -> None:
        """One more job."""


@dataclass(frozen=True)
class Setup:
    """What all reports of a call share."""

    rules: dict[str, Rule]
    platform: Platform | None


@dataclass(frozen=True)
class Report:
    """One job's report: the profile it came from and the verdict on it."""

    profile: JobProfile
    verdict: Verdict

    @property
    def slug(self) -> str:
        """A file name part that tells this job from others."""
        job = self.verdict.job
        return re.sub(r"[^A-Za-z0-9._-]+", "_", f"{job.id[:_LONGEST_SLUG]}-{job.start_ns or 0}")


def load_report_setup(rules: Path | None = None, platform: Path | None = None) -> Setup:
    """Load the rules and the site's description. Raises ConfigError."""
    return Setup(load_rule_set(rules), read_report_platform(platform) if platform else None)


def read_report_platform(path: Path) -> Platform:
    """A platform from TOML. Raises ConfigError naming the key."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError("not a regular file", where=str(path), remedy="give a TOML file")
        return msgspec.toml.decode(path.read_bytes(), type=Platform)
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise ConfigError(f"cannot be read: {what}", where=str(path), remedy="check the path") from fault
    except RecursionError as fault:
        raise ConfigError("nested too deeply", where=str(path), remedy="see the page on the platform file") from fault
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise ConfigError(str(fault), where=str(path), remedy="see the reference page of the platform file") from fault


def split_report_accounting(jobs: list[JobInput]) -> tuple[list[JobInput], list[JobInput]]:
    """Scheduler accounting, which only fills in who ran a job, apart from traces. Beside traces of jobs, what servers
    recorded of many jobs is left to the lake."""
    accounts = [j for j in jobs if j.source.name == ACCOUNTING]
    traces = [j for j in jobs if j.source.name != ACCOUNTING]
    of_jobs = [j for j in traces if not _of_a_server(j)]
    return accounts, of_jobs or traces


def _of_a_server(job: JobInput) -> bool:
    if not isinstance(job.source, LayeredSource):
        return False
    try:
        return job.source.serves_many(job.files[0])
    except (FairleadError, OSError):  # said when it is read
        return False


def _nothing_of_a_job(job: JobInput) -> InputError:
    where = str(job.files[0])
    if _of_a_server(job):
        remedy = "add the spool of a mount; what servers record of many jobs goes into a lake: fairlead ingest"
        return InputError("a server wrote it: it has no operations of processes", where=where, remedy=remedy)
    remedy = "check that its writer finished; a trace of a job without I/O has nothing to report"
    return CorruptInputError("it has no job and no I/O record", where=where, remedy=remedy)


def read_report_accounting(accounts: list[JobInput], failures: list[Failure]) -> dict[str, list[Job]]:
    """Runs by job number from accounting files; a number may have been used more than once."""
    found: dict[str, list[Job]] = {}
    for one in accounts:
        missing = []
        for item in inputs.read_job_inputs(one, failures):
            if isinstance(item, Missing):
                missing.append(item)
            elif isinstance(item, pa.RecordBatch) and (item.schema.metadata or {}).get(b"fairlead.table") == b"jobs":
                for row in item.to_pylist():
                    job = Job(**{k: v for k, v in row.items() if v is not None})
                    found.setdefault(job.job_id, []).append(job)
        failures += _damage(missing)
    return found


def build_report(
    job: JobInput, setup: Setup, accounts: dict[str, list[Job]], failures: list[Failure], watch: Watch | None = None
) -> Report | None:
    """The report of one job, or None when none of its files could be read (they are among the failures then)."""
    failed = len(failures)
    try:
        view = assemble_view(_joined(inputs.read_job_inputs(job, failures), accounts, watch))
    except LookupError as fault:
        if type(fault) is not LookupError:  # a missing key or index is a defect, not an empty input
            raise
        if len(failures) == failed:
            failures.append(Failure(job.files[0], _nothing_of_a_job(job)))
        return None
    finally:
        if watch is not None:
            watch.note_job()
    failures += _damage(view.missing)
    derived = build_profile(view, setup.platform)
    findings, open_rules = evaluate_rules(setup.rules, derived)
    result = build_verdict(
        derived,
        findings,
        [UndecidedRule(u.rule, u.title, u.unknown) for u in open_rules],
        {rule.id: rule.cost for rule in setup.rules.values() if rule.cost},
        inputs=[str(p) for p in job.files],
        source=job.source.name,
        version=fairlead.__version__,
    )
    # A file name need not be UTF-8, what is printed and sent has to be.
    return Report(derived, escape_undecodable_text(result))


def _damage(missing: list[Missing]) -> list[Failure]:
    """Inputs that were reported as far as they could be read."""
    worst: dict[str, Missing] = {}
    for item in missing:
        if item.kind in DAMAGED and item.where:
            worst.setdefault(item.where, item)
    return [
        Failure(
            Path(where),
            CorruptInputError(f"damaged, reported as far as readable: {m.what}: {m.why}", where=where, remedy=m.remedy),
        )
        for where, m in worst.items()
    ]


def _joined(items: Iterator[Item], accounts: dict[str, list[Job]], watch: Watch | None) -> Iterator[Item]:
    """Fill what the trace does not know of its job from accounting, and count records."""
    for item in items:
        known = _run_of(item, accounts) if isinstance(item, Job) else None
        if isinstance(item, Job) and known is not None:
            empty = {n: getattr(known, n) for n in item.__struct_fields__ if getattr(item, n) is None}
            # A trace knows users by number; accounting knows the name.
            yield msgspec.structs.replace(item, **(empty | ({"user": known.user} if known.user else {})))
        else:
            if watch is not None and isinstance(item, pa.RecordBatch):
                watch.note_rows(item.num_rows)
            yield item


def _run_of(job: Job, accounts: dict[str, list[Job]]) -> Job | None:
    """The accounted run that a trace is of: of its number, begun before it and nearest; None when all are far off."""
    best: Job | None = None
    nearest = _SAME_RUN_NS
    for run in accounts.get(job.job_id, []):
        if job.start_ns is None or run.start_ns is None:
            away = 0
        else:
            after_its_end = job.start_ns - run.end_ns if run.end_ns is not None else 0
            away = max(run.start_ns - job.start_ns, after_its_end, 0)
        if away <= nearest:
            best, nearest = run, away
    return best


def build_report_page(report: Report, after: Report | None = None) -> str:
    """The single-file page of a report, beside a second one when given."""
    from fairlead.explain.analysis.charts import build_charts
    from fairlead.show.report.job.job_page import render_job_page

    data: dict[str, object] = {
        "verdict": report.verdict,
        "charts": build_charts(report.profile, report.verdict),
        "compare": None,
    }
    if after is not None:
        other = {"verdict": after.verdict, "charts": build_charts(after.profile, after.verdict)}
        data["compare"] = msgspec.to_builtins(compare_reports(report, after)) | {"other": other}
    return render_job_page(data)


def compare_reports(before: Report, after: Report) -> Comparison:
    """Two runs side by side."""
    return compare_verdicts(before.verdict, after.verdict)


def serialise_reports(verdicts: Sequence[Verdict], after: Verdict | None = None) -> bytes:
    """One verdict as it is; several, or a comparison, in an envelope of its own schema."""
    value: msgspec.Struct
    if after is not None:
        value = ComparedReports(before=verdicts[0], after=after, comparison=compare_verdicts(verdicts[0], after))
    elif len(verdicts) == 1:
        value = verdicts[0]
    else:
        value = ReportList(reports=verdicts)
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
