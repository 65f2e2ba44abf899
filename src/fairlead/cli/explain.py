"""`fairlead explain FINDING`: the chain of evidence of one finding, with pictures. Not here: lists (`findings`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, where_options
from fairlead.cli.pages import give, html_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers_diagnosis import Explanation


@click.command()
@click.argument("finding", metavar="FINDING")
@html_option
@where_options
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def explain(
    finding: str,
    html: Path | None,
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
    as_json: bool,
) -> None:
    """Show why something was found: the evidence step by step, what the job got and what went on at the components it
    shared over the same time, what is usual, what to do, and what was missing.

    FINDING is an id of `fairlead findings`, or its beginning.
    """
    answer = cast("Explanation", Asker(root, server, token, authority).ask("finding", finding))
    from fairlead.show.report.diagnosis.page import explanation_page

    give(answer, page, explanation_page, html, as_json=as_json)


def page(answer: Explanation, width: int) -> list[RenderableType]:
    """The explanation, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_parts as shown
    from fairlead.cli.findings import SEVERITY_STYLE, finding_table
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert
    from fairlead.show.report.diagnosis.parts import when

    finding = answer.told.finding
    facts = [when(finding.from_ns, finding.to_ns), f"{finding.confidence:.0%} sure"]
    facts += [f"cost {units.format_duration(finding.cost_s)}"] if finding.cost_s is not None else []
    style = SEVERITY_STYLE.get(finding.severity, "")
    parts: list[RenderableType] = [
        Text.assemble((finding.severity, style), "  ", (inert(finding.title), "bold"), f"\n{', '.join(facts)}"),
    ]
    if answer.withdrawn:
        parts.append(Text("withdrawn: a later look did not bear it out", style="bold yellow"))
    if finding.evidence:
        parts += [shown.heading("Evidence"), *shown.evidence(finding.evidence)]
    parts += shown.courses(answer.courses, width)
    if answer.usual:
        parts += [shown.heading("What is usual"), *shown.usual(answer.usual, width)]
    if answer.incidents:
        parts += [shown.heading("Incidents"), shown.incident_table(answer.incidents, answer.made_ns, width)]
    if finding.advice:
        parts += [shown.heading("What to do"), *shown.advice(finding.advice)]
    if finding.missing or answer.missing:
        parts += [shown.heading("What was missing"), *shown.lines([*finding.missing, *answer.missing])]
    if answer.related:
        parts += [shown.heading("Also found"), finding_table(answer.related, width)]
    return parts
