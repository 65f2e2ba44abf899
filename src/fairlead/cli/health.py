"""`fairlead health`: the state of forwarders, targets, metadata servers, ports, devices and clients.

Not here: how watching itself goes (`fairlead system --health`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options
from fairlead.cli.pages import give, html_option

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from fairlead.explain.questions.answers_diagnosis import ComponentHealth, ComponentState

STATE_STYLE = {"healthy": "green", "sick": "bold red", "dead": "bold white on red3", "idle": "dim", "unknown": "yellow"}
_NAMES = ("healthy", "sick", "dead", "idle", "unknown")


@click.command()
@click.argument("component", metavar="[COMPONENT]", default="")
@click.option("--all", "everything", is_flag=True, help="List components in order, idle ones and unknown ones, too.")
@html_option
@asking_options
def health(
    component: str,
    everything: bool,
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
    """Show how the components are: by layer, the sick ones, open incidents and those of the last day (or another time).

    A component that nobody asks anything of is idle, and one that nothing was heard of is unknown: neither is called
    healthy. With COMPONENT: that one, its load against its known peak, its incidents.
    """
    answer = cast(
        "ComponentHealth",
        Asker(root, server, token, authority).ask(
            "component_health", component=component, all=everything, last=last, from_=from_, to=to, at=at
        ),
    )
    from fairlead.show.report.diagnosis.page import health_page

    give(answer, page, health_page, html, as_json=as_json)


def page(answer: ComponentHealth, width: int) -> list[RenderableType]:
    """The page, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_parts as shown
    from fairlead.cli.answer_tables import Column, fitted
    from fairlead.cli.findings import finding_table
    from fairlead.core.model import units
    from fairlead.show.report.diagnosis.parts import rate

    sick = sum(one.state in ("sick", "dead") for one in answer.components)
    said = f"{sick:,} sick component{'' if sick == 1 else 's'}" if sick else "No component is known to be sick"
    parts: list[RenderableType] = [Text(f"{said}, {units.format_time(answer.to_ns)}", style="bold")]

    def state(row: ComponentState) -> Text:
        return Text(row.state, style=STATE_STYLE.get(row.state, ""))

    if answer.layers:
        columns = [Column("layer", lambda r: r.layer), Column("components", lambda r: f"{r.components:,}", right=True)]
        columns += [Column(n, lambda r, n=n: f"{r.states.get(n, 0):,}", right=True) for n in _NAMES]  # type: ignore[misc]
        parts += [Text(""), fitted(columns, answer.layers, width)]
    if answer.components:
        columns = [
            Column("component", lambda r: f"{r.layer} {r.component}", longest=34),
            Column("state", state),
            Column("of peak", lambda r: units.format_percent(r.share_of_peak), right=True, spare=1),
            Column(
                "measured", lambda r: rate(r.measured, "metadata" if r.layer == "mds" else "write"), right=True, spare=3
            ),
            Column("since", lambda r: units.format_time(r.since_ns).removesuffix(" UTC"), spare=2),
            Column("why", lambda r: r.why, spare=4, longest=60),
        ]
        parts += [shown.heading("Components"), fitted(columns, answer.components[:200], width)]
        if len(answer.components) > 200:
            parts.append(Text(f"and {len(answer.components) - 200:,} more (--json has all)", style="dim"))
    parts += shown.courses(answer.courses, width)
    if answer.open:
        parts += [shown.heading("Open incidents"), shown.incident_table(answer.open, answer.to_ns, width)]
    if answer.past:
        parts += [shown.heading("Past incidents"), shown.incident_table(answer.past, answer.to_ns, width)]
    if answer.durations:
        classes = answer.durations[0].classes
        columns = [Column("layer", lambda r: r.layer)]
        columns += [Column(n, lambda r, k=k: f"{r.counts[k]:,}", right=True) for k, n in enumerate(classes)]  # type: ignore[misc]
        parts += [shown.heading("How long incidents lasted (30 days)"), fitted(columns, answer.durations, width)]
    if answer.findings:
        parts += [shown.heading("Findings"), finding_table(answer.findings, width)]
    if answer.missing:
        parts += [shown.heading("Not known"), *shown.lines(answer.missing)]
    return parts
