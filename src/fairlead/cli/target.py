"""`fairlead target`: load, space and imbalance of storage targets. Not here: metadata targets (`mds`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import add_limit_option, add_peak_option
from fairlead.cli.printing import print_message

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Cdf, ComponentPage, Targets


@click.group(cls=Noun)
def target() -> None:
    """Storage targets (OSTs): load, space, imbalance, who uses one."""


@target.command("list")
@add_ask_options()
def list_targets(request: Request) -> None:
    """List all storage targets (the last 5 minutes): load, space, imbalance."""
    request.show("targets", parts=_render_list)


@target.command("show")
@click.argument("name")
@add_limit_option("How many jobs to list.")
@add_ask_options()
def show_target(request: Request, name: str, limit: int) -> None:
    """Show one storage target (the last hour) and who uses it."""
    request.show("target", name, parts=render_target_parts, limit=limit)


@target.command("utilisation")
@add_peak_option("Full load of a target. Default: its highest minute measured.")
@add_ask_options()
def show_target_utilisation(request: Request, peak: float | None) -> None:
    """Show how busy targets are, as a distribution (the last day)."""
    request.show("cdf", parts=_render_utilisation, peak=peak)


def _render_list(answer: Targets, width: int) -> list[RenderableType]:
    """Return the targets as a table."""
    from rich.text import Text

    from fairlead.cli.answer_tables import build_answer_component_table
    from fairlead.core.model import unit_formats

    if not answer.targets:
        print_message("no storage target counters in this time")
        return []
    seconds = (answer.to_ns - answer.from_ns) / 1e9
    said = [f"{len(answer.targets)} targets", f"{answer.idle} idle"]
    if answer.imbalance is not None:
        said.append(f"busiest moves {answer.imbalance:.2f} times the mean")
    if answer.fullness_spread is not None:
        said.append(f"fullest and emptiest are {unit_formats.format_percent(answer.fullness_spread)} apart")
    return [Text(", ".join(said), style="bold"), build_answer_component_table(answer.targets, seconds, width, "target")]


def render_target_parts(answer: ComponentPage, width: int) -> list[RenderableType]:
    """Return one target or forwarder: load over time, space, who uses it."""
    from rich.text import Text

    from fairlead.cli.answer_tables import (
        build_answer_component_table,
        build_answer_share_table,
        draw_answer_timeline,
        list_answer_gaps,
        render_answer_latencies,
    )
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    seconds = (answer.to_ns - answer.from_ns) / 1e9
    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [
        Text.assemble((f"{answer.kind} {escape_text(answer.id)}", "bold"), (f"  {times}\n", "dim")),
        build_answer_component_table([answer.row], seconds, width, answer.kind),
        Text(""),
        draw_answer_timeline(answer.timeline, width),
        *render_answer_latencies(answer.latencies, width),
    ]
    if answer.who:
        parts += [Text("\nWho", style="bold"), build_answer_share_table(answer.who, width)]
    elif not answer.hidden:
        parts.append(Text("\nno counter splits its load by job", style="dim"))
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in list_answer_gaps(answer.gaps))]
    return parts


def _render_utilisation(answer: Cdf, width: int) -> list[RenderableType]:
    """Return the share of minutes below each utilisation."""
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.pictures import WRITE, draw_bar_picture
    from fairlead.core.model import unit_formats

    known = f"{answer.minutes:,} target-minutes of {answer.components} targets"
    unknown = f", {answer.minutes_unknown:,} not known" if answer.minutes_unknown else ""
    peak = f"full load {unit_formats.format_bandwidth(answer.peak_bytes_per_s)} ({answer.peak_basis})"
    parts: list[RenderableType] = [Text(f"{known}{unknown}; {peak}", style="bold")]
    if not answer.minutes:
        return parts
    table = Table.grid(padding=(0, 2, 0, 0))
    at = dict(zip(answer.utilisation, answer.share, strict=True))
    for below in (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        share = at[below]
        name = "idle" if below == 0 else f"up to {below * 100:g} % busy"
        table.add_row(
            Text(name),
            Text(f"{share * 100:.1f} %", justify="right"),
            draw_bar_picture(share, max(10, width - 40), WRITE),
        )
    return [*parts, table]
