"""`fairlead component`: the state of forwarders, targets, metadata servers, ports, devices and clients.

Not here: how monitoring itself is (`probe`, `server`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from fairlead.explain.questions.answers_diagnosis import ComponentHealth, ComponentState

STATE_STYLE = {"healthy": "green", "sick": "bold red", "dead": "bold white on red3", "idle": "dim", "unknown": "yellow"}
_NAMES = ("healthy", "sick", "dead", "idle", "unknown")


@click.group(cls=Noun)
def component() -> None:
    """Components of the I/O path: which are sick, since when, and which are unknown."""


@component.command("list")
@click.option("--all", "everything", is_flag=True, help="Also list healthy, idle and unknown components.")
@add_ask_options(html=True)
def list_components(request: Request, everything: bool) -> None:
    """List component states by layer, the sick components, open incidents and those of the last day (or another span).

    A component without requests is idle, one without data is unknown: neither counts as healthy.
    """
    from fairlead.show.report.diagnosis.diagnosis_pages import build_health_diagnosis_page

    request.show("component_health", parts=_render_health, page=build_health_diagnosis_page, all=everything)


@component.command("show")
@click.argument("name", metavar="NAME")
@add_ask_options(html=True)
def show_component(request: Request, name: str) -> None:
    """Show one component: its state, its load against its known peak, its incidents."""
    from fairlead.show.report.diagnosis.diagnosis_pages import build_health_diagnosis_page

    request.show("component_health", parts=_render_health, page=build_health_diagnosis_page, component=name)


def _render_health(answer: ComponentHealth, width: int) -> list[RenderableType]:
    """Return the state of components, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_rendering as shown
    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.cli.finding import build_finding_table
    from fairlead.core.model import unit_formats
    from fairlead.show.report.diagnosis.html_parts import format_html_rate

    sick = sum(one.state in ("sick", "dead") for one in answer.components)
    said = f"{sick:,} sick component{'' if sick == 1 else 's'}" if sick else "No component is known to be sick"
    parts: list[RenderableType] = [Text(f"{said}, {unit_formats.format_time(answer.to_ns)}", style="bold")]

    def state(row: ComponentState) -> Text:
        return Text(row.state, style=STATE_STYLE.get(row.state, ""))

    if answer.layers:
        columns = [Column("layer", lambda r: r.layer), Column("components", lambda r: f"{r.components:,}", right=True)]
        columns += [Column(n, lambda r, n=n: f"{r.states.get(n, 0):,}", right=True) for n in _NAMES]  # type: ignore[misc]
        parts += [Text(""), fit_answer_table(columns, answer.layers, width)]
    if answer.components:
        columns = [
            Column("component", lambda r: f"{r.layer} {r.component}", longest=34),
            Column("state", state),
            Column("of peak", lambda r: unit_formats.format_percent(r.share_of_peak), right=True, spare=1),
            Column(
                "measured",
                lambda r: format_html_rate(r.measured, "metadata" if r.layer == "mds" else "write"),
                right=True,
                spare=3,
            ),
            Column("since", lambda r: unit_formats.format_time(r.since_ns).removesuffix(" UTC"), spare=2),
            Column("why", lambda r: r.why, spare=4, longest=60),
        ]
        parts += [
            shown.render_diagnosis_heading("Components"),
            fit_answer_table(columns, answer.components[:200], width),
        ]
        if len(answer.components) > 200:
            parts.append(Text(f"and {len(answer.components) - 200:,} more (--json has all)", style="dim"))
    parts += shown.render_diagnosis_courses(answer.courses, width)
    if answer.open:
        parts += [
            shown.render_diagnosis_heading("Open incidents"),
            shown.render_diagnosis_incidents(answer.open, answer.to_ns, width),
        ]
    if answer.past:
        parts += [
            shown.render_diagnosis_heading("Past incidents"),
            shown.render_diagnosis_incidents(answer.past, answer.to_ns, width),
        ]
    if answer.durations:
        classes = answer.durations[0].classes
        columns = [Column("layer", lambda r: r.layer)]
        columns += [Column(n, lambda r, k=k: f"{r.counts[k]:,}", right=True) for k, n in enumerate(classes)]  # type: ignore[misc]
        parts += [
            shown.render_diagnosis_heading("How long incidents lasted (30 days)"),
            fit_answer_table(columns, answer.durations, width),
        ]
    if answer.findings:
        parts += [shown.render_diagnosis_heading("Findings"), build_finding_table(answer.findings, width)]
    if answer.missing:
        parts += [shown.render_diagnosis_heading("Not known"), *shown.render_diagnosis_lines(answer.missing)]
    return parts
