"""`fairlead forwarders [NAME]`: a day of all forwarders as a heat map, or one and who uses it. Not here: serving
(`forwarder`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json
from fairlead.cli.messages import say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import ComponentPage, HeatMap


@click.command()
@click.argument("name", required=False, default="")
@click.option(
    "--peak",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    metavar="BYTES_PER_S",
    help="A forwarder's full load. Default: the highest minute seen.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=60,
    show_default=True,
    help="How many forwarders to draw, the busiest first; of one, how many jobs to list.",
)
@asking_options
def forwarders(
    name: str,
    peak: float | None,
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
    """Show forwarders by hour (the last day): the busiest minute of each, as a share of full load.

    - idle (below 10 %), l low (below 50 %), m mid (below 90 %), H high; a dot is no data.
    """
    asker = Asker(root, server, token, authority)
    when = {"last": last, "from_": from_, "to": to, "at": at}
    answer = asker.ask("forwarder", name, limit=limit, **when) if name else asker.ask("heatmap", peak=peak, **when)
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen
    from fairlead.cli.target import component_page

    console = screen()
    if name:
        parts = component_page(cast("ComponentPage", answer), console.width)
    else:
        parts = _heatmap(cast("HeatMap", answer), limit, console.width)
    for part in parts:
        console.print(part)


def _heatmap(answer: HeatMap, limit: int, width: int) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.pictures import LEVEL_LETTER, LEVEL_STYLE, axis, heat
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    if not answer.rows:
        say("no counter of a forwarder in this time")
        return []
    rows = sorted(answer.rows, key=lambda row: (-sum(v or 0.0 for v in row.peak_share), row.id))
    labels = min(20, max(len(row.id) for row in rows))
    cell = max(1, min(3, (width - labels - 2) // answer.columns))
    shown = min(answer.columns, (width - labels - 2) // cell)
    counts = ", ".join(f"{name} {count:,}" for name, count in answer.levels.items() if count)
    peak = f"full load {units.format_bandwidth(answer.peak_bytes_per_s)} ({answer.peak_basis})"
    legend = Text("  ").join(
        [Text(f"{LEVEL_LETTER[name]} {name}", style=LEVEL_STYLE[name]) for name in LEVEL_STYLE]
        + [Text(f"{LEVEL_LETTER[None]} no data", style="dim")]
    )
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=labels, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="crop")
    for row in rows[:limit]:
        table.add_row(Text(inert(row.id)), heat(row.level[-shown:], cell))
    first_ns = answer.from_ns + (answer.columns - shown) * answer.step_ns
    table.add_row(Text(""), axis(first_ns, answer.from_ns + answer.columns * answer.step_ns, shown * cell))
    parts: list[RenderableType] = [
        Text(f"{len(rows)} forwarders; {peak}; hours: {counts}", style="bold"),
        legend,
        table,
    ]
    if len(rows) > limit:
        parts.append(Text(f"and {len(rows) - limit} less busy ones (--limit)", style="dim"))
    return parts
