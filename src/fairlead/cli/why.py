"""`fairlead why JOB`: what a job got, what it usually gets, who or what took the difference. Not here: lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options
from fairlead.cli.pages import give, html_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers_diagnosis import Why


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--cluster", default="", metavar="NAME", help="The job of this cluster, where several use the number.")
@html_option
@asking_options
def why(
    job_id: str,
    cluster: str,
    html: Path | None,
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
    last: str,
    from_: str,
    to: str,
    at: str,
    as_json: bool,
) -> None:
    """Show one job: what it got, what runs like it get, who or what took the difference, and what to do about it.

    Also when nothing is wrong, and when it cannot be told: then it says what was missing. Of several runs with one
    number the latest is shown, or the one that ran at --at.
    """
    answer = cast(
        "Why",
        Asker(root, server, token, authority).ask("why", job_id, cluster=cluster, last=last, from_=from_, to=to, at=at),
    )
    from fairlead.show.report.diagnosis.page import why_page

    give(answer, page, why_page, html, as_json=as_json)


def page(answer: Why, width: int) -> list[RenderableType]:
    """The page, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_parts as shown
    from fairlead.cli.answer_tables import Column, fitted, program_of
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert
    from fairlead.show.report.diagnosis.page import VERDICTS, runs_line
    from fairlead.show.report.diagnosis.parts import known_by, lost, rate, when

    word, severity = VERDICTS.get(answer.verdict, (answer.verdict, "info"))
    style = {"high": "bold red", "warning": "bold yellow", "ok": "bold green"}.get(severity, "bold")
    job = answer.job
    about = " · ".join(inert(part) for part in (job.user, job.project, program_of(job.program, job.name)) if part)
    parts: list[RenderableType] = [
        Text.assemble(
            (word, style), "  ", (inert(answer.headline), "bold"), f"\n{about}\n{when(job.start_ns, job.end_ns)}"
        )
    ]
    if answer.phases:
        took = units.format_duration(sum(line.seconds for line in answer.phases))
        parts.append(
            Text(f"\nI/O took {took}; usually {units.format_duration(answer.expected_s)}; lost {lost(answer.lost_s)}")
        )
        columns = [
            Column("phase", lambda r: f"{r.kind} {r.number + 1}"),
            Column("began", lambda r: units.format_time(r.start_ns).removesuffix(" UTC"), spare=3),
            Column("took", lambda r: units.format_duration(r.seconds), right=True),
            Column(
                "amount",
                lambda r: units.format_count(r.amount) if r.kind == "metadata" else units.format_bytes(r.amount),
                right=True,
                spare=2,
            ),
            Column("rate", lambda r: rate(r.rate_per_s, r.kind), right=True, spare=1),
            Column("usually", lambda r: units.format_duration(r.expected_s), right=True),
            Column("lost", lambda r: lost(r.lost_s), right=True),
            Column("mode", lambda r: r.mode or units.ABSENT, spare=4),
        ]
        parts.append(fitted(columns, answer.phases[:20], width))
        if len(answer.phases) > 20:
            parts.append(Text(f"and {len(answer.phases) - 20} more (--json has all)", style="dim"))
    if answer.taken:
        columns = [
            Column("who", lambda r: r.who, longest=40),
            Column("time", lambda r: units.format_duration(r.seconds), right=True),
            Column("sure", lambda r: units.format_percent(r.confidence), right=True, spare=2),
            Column("finding", lambda r: r.finding, spare=1),
        ]
        parts += [shown.heading("Who or what took the difference"), fitted(columns, answer.taken, width)]
    if answer.hurt:
        columns = [
            Column("whom", lambda r: r.who or "another job", longest=40),
            Column("time", lambda r: units.format_duration(r.seconds), right=True),
            Column("sure", lambda r: units.format_percent(r.confidence), right=True, spare=2),
            Column("finding", lambda r: r.finding or units.ABSENT, spare=1),
        ]
        parts += [shown.heading("Whom it hurt"), fitted(columns, answer.hurt, width)]
    for told in answer.findings[:3]:
        parts += [shown.heading(inert(known_by(told, answer.headline))), *shown.evidence(told.finding.evidence)]
    parts += shown.courses(answer.courses, width)
    if answer.usual:
        parts += [shown.heading("What it usually gets"), *shown.usual(answer.usual, width)]
    if answer.runs is not None:
        parts += [shown.heading("Runs of its program"), Text(f"  {runs_line(answer.runs)}")]
    if answer.alike:
        columns = [
            Column("job", lambda r: r.job_id or "another job"),
            Column(
                "who",
                lambda r: " ".join(part for part in (r.user, r.program) if part) or units.ABSENT,
                longest=40,
                spare=2,
            ),
            Column("began", lambda r: units.format_time(r.start_ns).removesuffix(" UTC"), spare=3),
            Column("took", lambda r: units.format_duration(r.seconds), right=True),
            Column("how", lambda r: r.how, spare=1),
        ]
        parts += [shown.heading("Runs like this one"), fitted(columns, answer.alike, width)]
    if answer.advice:
        parts += [shown.heading("What to do"), *shown.advice(answer.advice)]
    if answer.missing:
        parts += [shown.heading("Not known"), *shown.lines(answer.missing)]
    if answer.other_runs:
        parts.append(Text(f"\n{answer.other_runs} more with this number; choose with --at or --cluster", style="dim"))
    return parts
