"""`fairlead mds [NAME]`: who hammers the metadata servers, with what, from where. Not here: storage targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json
from fairlead.cli.messages import say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Mds


@click.command()
@click.argument("name", required=False, default="")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many of each to list.")
@asking_options
def mds(
    name: str,
    limit: int,
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
    """Show metadata load (the last 5 minutes): by server, operation, class of client, client and job.

    NAME is one metadata target or server (MDT0002). Operations and clients are counted over the last 6 hours of the
    time at most.
    """
    answer = Asker(root, server, token, authority).ask("mds", name, limit=limit, last=last, from_=from_, to=to, at=at)
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen

    found = cast("Mds", answer)
    if not found.servers:
        say("no metadata operation was counted in this time")
    console = screen()
    for part in _page(found, console.width):
        console.print(part)


def _page(answer: Mds, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import gap_lines, op_table, timeline_picture
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    title = f"metadata of {inert(answer.server)}" if answer.server else "metadata"
    load = f"{units.format_count(round(answer.per_s, 1))} ops/s" if answer.per_s is not None else "load not known"
    times = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [
        Text.assemble((f"{title}: {load}", "bold"), (f"  {times}", "dim")),
        Text(""),
        timeline_picture(answer.timeline, width),
    ]
    tables = [
        ("server", answer.servers),
        ("job", answer.jobs),
        ("from", answer.classes),
        ("client", answer.clients),
        ("operation", answer.ops),
    ]
    for heading, rows in tables:
        if rows and not (heading == "server" and answer.server):
            parts += [Text(""), op_table(rows, heading, width, owner=heading == "job")]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in gap_lines(answer.gaps))]
    return parts
