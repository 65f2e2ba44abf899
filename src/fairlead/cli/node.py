"""`fairlead node`: what runs on a node, what it moves, how it is monitored. Not here: targets and servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import NodePage


@click.group(cls=Noun)
def node() -> None:
    """Nodes: their jobs, their I/O, their probes."""


@node.command("show")
@click.argument("name")
@add_ask_options()
def show_node(request: Request, name: str) -> None:
    """Show a node (the last hour): its jobs, its I/O by layer, its own disks, its probes, gaps and events."""
    request.show("node", name, parts=_render_node)


def _render_node(answer: NodePage, width: int) -> list[RenderableType]:
    """Return one node, part by part."""
    from rich.text import Text

    from fairlead.cli.answer_tables import (
        Column,
        build_answer_component_table,
        build_answer_job_table,
        draw_answer_timeline,
        fit_answer_table,
        format_answer_word,
        list_answer_gaps,
        list_answer_sum_columns,
        render_answer_latencies,
    )
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble((f"node {escape_text(answer.node)}", "bold"), (f"  {times}\n", "dim"))]
    if answer.timeline.series or not answer.devices:
        parts.append(draw_answer_timeline(answer.timeline, width))
    if answer.sums:
        rows = list(answer.sums.items())
        columns = [Column("layer", lambda r: r[0]), *list_answer_sum_columns(lambda r: r[1])]
        parts += [Text(""), fit_answer_table(columns, rows, width)]
    if answer.latencies:
        parts += render_answer_latencies(answer.latencies, width)
    if answer.devices:
        seconds = (answer.to_ns - answer.from_ns) / 1e9
        if len(parts) > 1:
            parts.append(Text(""))
        parts += [
            Text("Own devices", style="bold"),
            build_answer_component_table(answer.devices, seconds, width, "device"),
        ]
    if answer.jobs:
        parts += [Text("\nJobs", style="bold"), build_answer_job_table(answer.jobs, answer.to_ns, width)]
    if answer.probes:
        probes = [
            Column("probe", lambda r: r.probe),
            Column("state", lambda r: "silent" if r.silent else r.state),
            Column("last report", lambda r: unit_formats.format_time(r.ts_ns), spare=1),
            Column("rows", lambda r: unit_formats.format_count(r.rows), right=True, spare=3),
            Column("says", lambda r: format_answer_word(r.text), spare=2, longest=60),
        ]
        parts += [Text("\nWatched by", style="bold"), fit_answer_table(probes, answer.probes, width)]
    if answer.clock is not None:
        from fairlead.cli.job_rendering import render_job_clock_lines

        parts += [
            Text("\nClock", style="bold yellow"),
            *(Text(f"  {line}") for line in render_job_clock_lines([answer.clock])),
        ]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in list_answer_gaps(answer.gaps))]
    for event in answer.events[:8]:
        parts.append(
            Text(f"{unit_formats.format_time(event.ts_ns)}  {escape_text(event.kind)}  {escape_text(event.text or '')}")
        )
    return parts
