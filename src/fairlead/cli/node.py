"""`fairlead node`: what runs on a node, what it moves, how it is monitored. Not here: targets and servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Request, question_options
from fairlead.cli.noun import Noun

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import NodePage


@click.group(cls=Noun)
def node() -> None:
    """Nodes: their jobs, their I/O, their probes."""


@node.command("show")
@click.argument("name")
@question_options()
def show_node(request: Request, name: str) -> None:
    """Show a node (the last hour): its jobs, its I/O by layer, its own disks, its probes, gaps and events."""
    request.show("node", name, parts=node_parts)


def node_parts(answer: NodePage, width: int) -> list[RenderableType]:
    """Return one node, part by part."""
    from rich.text import Text

    from fairlead.cli.answer_tables import (
        Column,
        component_table,
        fitted,
        gap_lines,
        job_table,
        sum_columns,
        timeline_picture,
        word,
    )
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble((f"node {escape_text(answer.node)}", "bold"), (f"  {times}\n", "dim"))]
    if answer.timeline.series or not answer.devices:
        parts.append(timeline_picture(answer.timeline, width))
    if answer.sums:
        rows = list(answer.sums.items())
        columns = [Column("layer", lambda r: r[0]), *sum_columns(lambda r: r[1])]
        parts += [Text(""), fitted(columns, rows, width)]
    if answer.devices:
        seconds = (answer.to_ns - answer.from_ns) / 1e9
        if len(parts) > 1:
            parts.append(Text(""))
        parts += [Text("Own devices", style="bold"), component_table(answer.devices, seconds, width, "device")]
    if answer.jobs:
        parts += [Text("\nJobs", style="bold"), job_table(answer.jobs, answer.to_ns, width)]
    if answer.probes:
        probes = [
            Column("probe", lambda r: r.probe),
            Column("state", lambda r: "silent" if r.silent else r.state),
            Column("last report", lambda r: unit_formats.format_time(r.ts_ns), spare=1),
            Column("rows", lambda r: unit_formats.format_count(r.rows), right=True, spare=3),
            Column("says", lambda r: word(r.text), spare=2, longest=60),
        ]
        parts += [Text("\nWatched by", style="bold"), fitted(probes, answer.probes, width)]
    if answer.clock is not None:
        from fairlead.cli.job_parts import clock_lines

        parts += [Text("\nClock", style="bold yellow"), *(Text(f"  {line}") for line in clock_lines([answer.clock]))]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in gap_lines(answer.gaps))]
    for event in answer.events[:8]:
        parts.append(
            Text(f"{unit_formats.format_time(event.ts_ns)}  {escape_text(event.kind)}  {escape_text(event.text or '')}")
        )
    return parts
