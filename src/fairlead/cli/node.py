"""`fairlead node NAME`: what runs on a node, what it moves, how it is watched. Not here: targets and servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import NodePage


@click.command()
@click.argument("name")
@asking_options
def node(
    name: str,
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
    """Show a node (the last hour): its jobs, its I/O by layer, its own disks, its probes, gaps and events."""
    answer = Asker(root, server, token, authority).ask("node", name, last=last, from_=from_, to=to, at=at)
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen

    console = screen()
    for part in _page(cast("NodePage", answer), console.width):
        console.print(part)


def _page(answer: NodePage, width: int) -> list[RenderableType]:
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
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    times = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble((f"node {inert(answer.node)}", "bold"), (f"  {times}\n", "dim"))]
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
        parts += [Text("Its own", style="bold"), component_table(answer.devices, seconds, width, "device")]
    if answer.jobs:
        parts += [Text("\nJobs", style="bold"), job_table(answer.jobs, answer.to_ns, width)]
    if answer.probes:
        probes = [
            Column("probe", lambda r: r.probe),
            Column("state", lambda r: "silent" if r.silent else r.state),
            Column("last word", lambda r: units.format_time(r.ts_ns), spare=1),
            Column("rows", lambda r: units.format_count(r.rows), right=True, spare=3),
            Column("says", lambda r: word(r.text), spare=2, longest=60),
        ]
        parts += [Text("\nWatched by", style="bold"), fitted(probes, answer.probes, width)]
    if answer.clock is not None:
        from fairlead.cli.job import clock_lines

        parts += [Text("\nClock", style="bold yellow"), *(Text(f"  {line}") for line in clock_lines([answer.clock]))]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in gap_lines(answer.gaps))]
    for event in answer.events[:8]:
        parts.append(Text(f"{units.format_time(event.ts_ns)}  {inert(event.kind)}  {inert(event.text or '')}"))
    return parts
