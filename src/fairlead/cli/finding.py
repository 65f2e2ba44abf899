"""`fairlead finding`: what diagnosis found, and the evidence of one finding. Not here: one job (`job explain`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import add_limit_option, add_name_option, add_offset_option
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from fairlead.core.model.finding_incident_rows import StoredFinding
    from fairlead.explain.questions.answers_diagnosis import Explanation, Findings

SEVERITY_STYLE = {
    "critical": "bold white on red3",
    "high": "bold red",
    "warning": "yellow",
    "info": "dim",
    "ok": "green",
}


@click.group(cls=Noun)
def finding() -> None:
    """Findings: slowed jobs and who slowed them, sick components, system-wide faults."""


@finding.command("list")
@add_name_option("--job", "About this job, or blaming it.", "ID")
@add_name_option("--component", "Involving this forwarder, target, server or port.")
@add_name_option("--user", "About jobs of this user.")
@click.option(
    "--severity",
    type=click.Choice(["critical", "high", "warning", "info", "ok"]),
    default=None,
    help="At least this severity.",
)
@add_name_option("--rule", "Only of this rule: job.interference, component.degraded, ...", "RULE")
@add_limit_option("How many findings to list.", 50)
@add_offset_option()
@click.option("--since", default="", metavar="TIME", help="The same as --from; an age (2h, 7d) is the same as --last.")
@add_ask_options(html=True)
def list_findings(request: Request, since: str, offset: int, **words: Any) -> None:
    """List what was found: slowed jobs and who slowed them, sick components, system-wide faults.

    Covers the last day unless you ask for another time. `fairlead finding show ID` shows the evidence.
    """
    from fairlead.show.report.diagnosis.diagnosis_pages import build_findings_diagnosis_page

    if since and (request.when["last"] or request.when["from_"]):
        raise UsageError("--since, --last and --from all set the start", remedy="give one of them")
    if since:
        request.when["last" if since[0].isdigit() and since[-1].isalpha() else "from_"] = since
    request.show("findings", parts=_render_list, page=build_findings_diagnosis_page, offset=offset or None, **words)


@finding.command("show")
@click.argument("name", metavar="FINDING")
@add_ask_options(timed=False, html=True)
def show_finding(request: Request, name: str) -> None:
    """Show one finding: the evidence step by step, what the job got, what happened meanwhile at the components it
    shared, what is usual, what to do, and what data was missing.

    FINDING is an id from `fairlead finding list`, or the first characters of one.
    """
    from fairlead.show.report.diagnosis.diagnosis_pages import build_finding_diagnosis_page

    request.show("finding", name, parts=_render_finding, page=build_finding_diagnosis_page)


def _render_list(answer: Findings, width: int) -> list[RenderableType]:
    """Return the list, part by part."""
    from rich.text import Text

    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text
    from fairlead.show.report.diagnosis.diagnosis_pages import format_older_diagnosis_findings

    count = f"{answer.total:,} finding{'' if answer.total == 1 else 's'}"
    span = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text(f"{count}, {span}", style="bold")]
    if answer.findings:
        parts += ["", build_finding_table(answer.findings, width)]
    if answer.total > len(answer.findings):
        parts.append(Text(f"and {answer.total - len(answer.findings):,} more (--limit, --offset)", style="dim"))
    if answer.older:
        parts.append(Text(format_older_diagnosis_findings(answer.older), style="yellow"))
    if answer.missing:
        parts.append(Text("\nNot known", style="bold yellow"))
        parts += [Text(f"  {escape_text(text)}") for text in answer.missing]
    return parts


def build_finding_table(rows: Sequence[StoredFinding], width: int) -> RenderableType:
    """Return a table with one line per finding."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.core.model import unit_formats

    columns = [
        Column("id", lambda r: r.finding.id, longest=14),
        Column(
            "severity", lambda r: Text(r.finding.severity, style=SEVERITY_STYLE.get(r.finding.severity, "")), spare=2
        ),
        Column("what", lambda r: r.finding.title, longest=200, wraps=True),
        Column("since", lambda r: unit_formats.format_time(r.finding.from_ns).removesuffix(" UTC"), spare=3),
        Column("cost", lambda r: unit_formats.format_duration(r.finding.cost_s), right=True, spare=1),
        Column("sure", lambda r: unit_formats.format_percent(r.finding.confidence), right=True, spare=4),
    ]
    return fit_answer_table(columns, rows, width)


def _render_finding(answer: Explanation, width: int) -> list[RenderableType]:
    """Return one finding with its evidence, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_rendering as shown
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text
    from fairlead.show.report.diagnosis.html_parts import format_html_span

    finding = answer.told.finding
    facts = [format_html_span(finding.from_ns, finding.to_ns), f"{finding.confidence:.0%} sure"]
    facts += [f"cost {unit_formats.format_duration(finding.cost_s)}"] if finding.cost_s is not None else []
    style = SEVERITY_STYLE.get(finding.severity, "")
    parts: list[RenderableType] = [
        Text.assemble((finding.severity, style), "  ", (escape_text(finding.title), "bold"), f"\n{', '.join(facts)}"),
    ]
    if answer.withdrawn:
        parts.append(Text("withdrawn: later analysis did not confirm it", style="bold yellow"))
    if finding.evidence:
        parts += [shown.render_diagnosis_heading("Evidence"), *shown.render_diagnosis_evidence(finding.evidence)]
    parts += shown.render_diagnosis_courses(answer.courses, width)
    if answer.usual:
        parts += [shown.render_diagnosis_heading("What is usual"), *shown.render_diagnosis_usual(answer.usual, width)]
    if answer.incidents:
        parts += [
            shown.render_diagnosis_heading("Incidents"),
            shown.render_diagnosis_incidents(answer.incidents, answer.made_ns, width),
        ]
    if finding.advice:
        parts += [shown.render_diagnosis_heading("What to do"), *shown.render_diagnosis_advice(finding.advice)]
    if finding.missing or answer.missing:
        parts += [
            shown.render_diagnosis_heading("What was missing"),
            *shown.render_diagnosis_lines([*finding.missing, *answer.missing]),
        ]
    if answer.related:
        parts += [shown.render_diagnosis_heading("Also found"), build_finding_table(answer.related, width)]
    return parts
