"""`fairlead mds`: metadata load, and where it comes from. Not here: storage targets (`target`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import add_limit_option
from fairlead.cli.printing import print_message

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Mds


@click.group(cls=Noun)
def mds() -> None:
    """Metadata servers: their load, who makes it, from where."""


@mds.command("show")
@click.argument("name", required=False, default="")
@add_limit_option("How many of each to list.", 10)
@add_ask_options()
def show_mds(request: Request, name: str, limit: int) -> None:
    """Show metadata load (the last 5 minutes): by server, operation, class of client, client and job.

    NAME is one metadata target or server (MDT0002). Operations and clients are counted over at most the last 6 hours
    of the time span.
    """
    request.show("mds", name, parts=_render_mds, limit=limit)


def _render_mds(answer: Mds, width: int) -> list[RenderableType]:
    """Return load over time, then who makes it."""
    from rich.text import Text

    from fairlead.cli.answer_tables import (
        build_answer_op_table,
        draw_answer_timeline,
        list_answer_gaps,
        render_answer_latencies,
    )
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    if not answer.servers:
        print_message("no metadata operations in this time")
    title = f"metadata of {escape_text(answer.server)}" if answer.server else "metadata"
    load = (
        f"{unit_formats.format_count(round(answer.per_s, 1))} ops/s" if answer.per_s is not None else "load not known"
    )
    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [
        Text.assemble((f"{title}: {load}", "bold"), (f"  {times}", "dim")),
        Text(""),
        draw_answer_timeline(answer.timeline, width),
        *render_answer_latencies(answer.latencies, width),
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
            parts += [Text(""), build_answer_op_table(rows, heading, width, owner=heading == "job")]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in list_answer_gaps(answer.gaps))]
    return parts
