"""`fairlead findings`: what diagnosis found, the gravest first. Not here: one of them (`explain`), a job (`why`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options
from fairlead.cli.pages import give, html_option
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from fairlead.core.model.diagnosis import Told
    from fairlead.explain.questions.answers_diagnosis import Findings

SEVERITY_STYLE = {
    "critical": "bold white on red3",
    "high": "bold red",
    "warning": "yellow",
    "info": "dim",
    "ok": "green",
}


@click.command()
@click.option("--job", default="", metavar="ID", help="About this job, or blaming it.")
@click.option(
    "--component", default="", metavar="NAME", help="In which this forwarder, target, server or port plays a part."
)
@click.option("--user", default="", metavar="NAME", help="About jobs of this user.")
@click.option(
    "--severity",
    type=click.Choice(["critical", "high", "warning", "info", "ok"]),
    default=None,
    help="So grave, or graver.",
)
@click.option("--rule", default="", metavar="RULE", help="Of this rule only: job.interference, component.degraded, ...")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many to list.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="How many of the first to leave out.")
@click.option("--since", default="", metavar="TIME", help="The same as --from; an age (2h, 7d) is the same as --last.")
@html_option
@asking_options
def findings(
    job: str,
    component: str,
    user: str,
    severity: str | None,
    rule: str,
    limit: int,
    offset: int,
    since: str,
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
    """List what was found: slowed jobs and who slowed them, sick components, faults of the whole system.

    Of the last day, unless another time is asked for. `fairlead explain ID` shows the evidence of one.
    """
    if since and (last or from_):
        raise UsageError("--since says when it begins, as --last and --from do", remedy="give one of them")
    if since:
        last, from_ = (since, "") if since[0].isdigit() and since[-1].isalpha() else ("", since)
    answer = cast(
        "Findings",
        Asker(root, server, token, authority).ask(
            "findings",
            job=job,
            component=component,
            user=user,
            severity=severity,
            rule=rule,
            limit=limit,
            offset=offset or None,
            last=last,
            from_=from_,
            to=to,
            at=at,
        ),
    )
    from fairlead.show.report.diagnosis.page import findings_page

    give(answer, page, findings_page, html, as_json=as_json)


def page(answer: Findings, width: int) -> list[RenderableType]:
    """The list, part by part."""
    from rich.text import Text

    from fairlead.core.model import units
    from fairlead.core.safe_text import inert
    from fairlead.show.report.diagnosis.page import older_line

    count = f"{answer.total:,} finding{'' if answer.total == 1 else 's'}"
    span = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text(f"{count}, {span}", style="bold")]
    if answer.findings:
        parts += ["", finding_table(answer.findings, width)]
    if answer.total > len(answer.findings):
        parts.append(Text(f"and {answer.total - len(answer.findings):,} more (--limit, --offset)", style="dim"))
    if answer.older:
        parts.append(Text(older_line(answer.older), style="yellow"))
    if answer.missing:
        parts.append(Text("\nNot known", style="bold yellow"))
        parts += [Text(f"  {inert(text)}") for text in answer.missing]
    return parts


def finding_table(rows: Sequence[Told], width: int) -> RenderableType:
    """A line a finding."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted
    from fairlead.core.model import units

    columns = [
        Column("id", lambda r: r.finding.id, longest=14),
        Column(
            "severity", lambda r: Text(r.finding.severity, style=SEVERITY_STYLE.get(r.finding.severity, "")), spare=2
        ),
        Column("what", lambda r: r.finding.title, longest=200, wraps=True),
        Column("since", lambda r: units.format_time(r.finding.from_ns).removesuffix(" UTC"), spare=3),
        Column("cost", lambda r: units.format_duration(r.finding.cost_s), right=True, spare=1),
        Column("sure", lambda r: units.format_percent(r.finding.confidence), right=True, spare=4),
    ]
    return fitted(columns, rows, width)
