"""`fairlead target [NAME]`: load, space and imbalance of storage targets, one of them, their distribution.

Not here: metadata targets (`mds`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json
from fairlead.cli.messages import say
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Cdf, ComponentPage, Targets


@click.command()
@click.argument("name", required=False, default="")
@click.option("--cdf", "distribution", is_flag=True, help="How busy targets are, as a distribution (the last day).")
@click.option(
    "--peak",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    metavar="BYTES_PER_S",
    help="With --cdf: a target's full load. Default: the highest minute seen.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many jobs to list.")
@asking_options
def target(
    name: str,
    distribution: bool,
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
    """Show storage targets (OSTs): all of them (the last 5 minutes), or one and who uses it (the last hour)."""
    if name and distribution:
        raise UsageError("--cdf is of all targets", remedy="leave out the name")
    asker = Asker(root, server, token, authority)
    when = {"last": last, "from_": from_, "to": to, "at": at}
    if distribution:
        answer = asker.ask("cdf", peak=peak, **when)
    elif name:
        answer = asker.ask("target", name, limit=limit, **when)
    else:
        answer = asker.ask("targets", **when)
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen

    console = screen()
    if distribution:
        parts = _distribution(cast("Cdf", answer), console.width)
    elif name:
        parts = component_page(cast("ComponentPage", answer), console.width)
    else:
        parts = _all(cast("Targets", answer), console.width)
        if not cast("Targets", answer).targets:
            say("no counter of a storage target in this time")
    for part in parts:
        console.print(part)


def _all(answer: Targets, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import component_table
    from fairlead.core.model import units

    if not answer.targets:
        return []
    seconds = (answer.to_ns - answer.from_ns) / 1e9
    said = [f"{len(answer.targets)} targets", f"{answer.idle} idle"]
    if answer.imbalance is not None:
        said.append(f"busiest moves {answer.imbalance:.2f} times the mean")
    if answer.fullness_spread is not None:
        said.append(f"fullest and emptiest are {units.format_percent(answer.fullness_spread)} apart")
    return [Text(", ".join(said), style="bold"), component_table(answer.targets, seconds, width, "target")]


def component_page(answer: ComponentPage, width: int) -> list[RenderableType]:
    """One target or forwarder: load over time, space, who."""
    from rich.text import Text

    from fairlead.cli.answer_tables import component_table, gap_lines, share_table, timeline_picture
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    seconds = (answer.to_ns - answer.from_ns) / 1e9
    times = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [
        Text.assemble((f"{answer.kind} {inert(answer.id)}", "bold"), (f"  {times}\n", "dim")),
        component_table([answer.row], seconds, width, answer.kind),
        Text(""),
        timeline_picture(answer.timeline, width),
    ]
    if answer.who:
        parts += [Text("\nWho", style="bold"), share_table(answer.who, width)]
    elif not answer.hidden:
        parts.append(Text("\nno counter splits its load by job", style="dim"))
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in gap_lines(answer.gaps))]
    return parts


def _distribution(answer: Cdf, width: int) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.pictures import WRITE, bar
    from fairlead.core.model import units

    known = f"{answer.minutes:,} target-minutes of {answer.components} targets"
    unknown = f", {answer.minutes_unknown:,} not known" if answer.minutes_unknown else ""
    peak = f"full load {units.format_bandwidth(answer.peak_bytes_per_s)} ({answer.peak_basis})"
    parts: list[RenderableType] = [Text(f"{known}{unknown}; {peak}", style="bold")]
    if not answer.minutes:
        return parts
    table = Table.grid(padding=(0, 2, 0, 0))
    at = dict(zip(answer.utilisation, answer.share, strict=True))
    for below in (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        share = at[below]
        name = "idle" if below == 0 else f"up to {below * 100:g} % busy"
        table.add_row(Text(name), Text(f"{share * 100:.1f} %", justify="right"), bar(share, max(10, width - 40), WRITE))
    return [*parts, table]
