"""`fairlead system`: the machine at a glance, and how watching goes. Not here: one component (`node`, `mds`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from fairlead.explain.questions.answers import Amplification, Health, System
    from fairlead.explain.questions.answers_site import Devices, Ports, Usage


@click.command()
@click.option("--health", "watching", is_flag=True, help="Show how every source is watched instead.")
@click.option("--all", "everything", is_flag=True, help="With --health: probes in order too.")
@click.option(
    "--space",
    "usage",
    is_flag=True,
    help="Show space instead: targets, who holds most, who grew (the last day), who is near a limit.",
)
@click.option("--network", is_flag=True, help="Show switch ports instead, and jobs that use theirs unevenly (1 hour).")
@click.option("--devices", is_flag=True, help="Show devices by hour of the day instead (the last 7 days).")
@click.option("--fs", default="", metavar="NAME", help="With --space: this file system.")
@click.option("--target", default="", metavar="NAME", help="With --space: this target.")
@click.option(
    "--owners",
    type=click.Choice(["user", "group", "project"]),
    default=None,
    help="With --space: owners of this kind only.",
)
@click.option("--node", default="", metavar="NAME", help="With --devices: those of this node.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="With --space, --network, --devices: how many of each to list.",
)
@asking_options
def system(
    watching: bool,
    everything: bool,
    usage: bool,
    network: bool,
    devices: bool,
    fs: str,
    target: str,
    owners: str | None,
    node: str,
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
    """Show the machine: volumes of each layer by day, amplification between layers, jobs, silent sources, events.

    A lower layer that reads several times what the one above asked for is thrashing a cache or reading ahead too far.
    """
    asker = Asker(root, server, token, authority)
    if watching + usage + network + devices > 1:
        raise UsageError("--health, --space, --network and --devices are views of their own", remedy="give one of them")
    when = {"last": last, "from_": from_, "to": to, "at": at}
    if watching:
        answer = asker.ask("health", all=everything)
    elif usage:
        answer = asker.ask("usage", fs=fs, target=target, kind=owners, limit=limit, **when)
    elif network:
        answer = asker.ask("ports", limit=limit, **when)
    elif devices:
        answer = asker.ask("devices", node=node, limit=limit, **when)
    else:
        answer = asker.ask("system", **when)
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen

    console = screen()
    from fairlead.cli import beside

    if usage:
        shown = beside.space(cast("Usage", answer), console.width)
    elif network:
        shown = beside.network(cast("Ports", answer), console.width)
    elif devices:
        shown = beside.devices(cast("Devices", answer), console.width)
    else:
        system_wide = cast("System", answer)
        shown = _health(cast("Health", answer), console.width) if watching else _page(system_wide, console.width)
    for part in shown:
        console.print(part)


def _page(answer: System, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted, gap_lines, sum_columns, timeline_picture
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    head = Text.assemble(
        (f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}", "bold"),
        f"\n{units.format_count(answer.jobs_running)} jobs running, {units.format_count(answer.jobs_ended)} ended, "
        f"{units.format_count(answer.sources)} source{'' if answer.sources == 1 else 's'}",
        (f", {len(answer.silent)} silent" if answer.silent else "", "bold yellow"),
    )
    parts: list[RenderableType] = [head, Text(""), timeline_picture(answer.timeline, width)]
    if answer.layers:
        columns = [Column("day", lambda r: r.day), Column("layer", lambda r: r.layer), *sum_columns()]
        parts += [Text("\nVolume by day and layer", style="bold"), fitted(columns, answer.layers, width)]
    lines = [_amplified(one) for one in answer.amplification if one.read is not None or one.write is not None]
    if lines:
        parts += [Text("\nAmplification", style="bold"), *lines]
    if answer.silent:
        parts += [Text("\nSilent sources", style="bold yellow"), *(Text("  ") + g for g in gap_lines(answer.silent))]
    if answer.events:
        parts.append(Text("\nEvents", style="bold"))
        for event in answer.events[:12]:
            when, kind = (units.format_time(event.ts_ns), "dim"), (inert(event.kind), "bold")
            said, where = f"  {inert(event.text or '')}", f"  {inert(event.component)}  "
            parts.append(Text.assemble(when, where, kind, said, overflow="ellipsis", no_wrap=True))
    return parts


def _amplified(one: Amplification) -> Text:
    from rich.text import Text

    from fairlead.core.model import units

    text = f"  for each byte of {one.upper}, {one.lower} read {units.format_ratio(one.read)}"
    style = "yellow" if max(one.read or 0, one.write or 0) > 1.5 else ""
    return Text(f"{text} and wrote {units.format_ratio(one.write)}", style=style)


def _health(answer: Health, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted, gap_lines, word
    from fairlead.core.model import units
    from fairlead.explain.questions.answers import ProbeHealth

    def state(row: ProbeHealth) -> Text:
        said = "silent" if row.silent else row.state
        return Text(said, style={"ok": "green", "missing": "dim"}.get(said, "bold red"))

    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(answer.states.items())) or "no word of health"
    parts: list[RenderableType] = [Text(f"{answer.nodes:,} nodes; probes: {counts}", style="bold")]
    columns = [
        Column("node", lambda r: r.node, longest=32),
        Column("probe", lambda r: r.probe),
        Column("state", state),
        Column("last word", lambda r: units.format_duration((answer.now_ns - r.ts_ns) / 1e9) + " ago", right=True),
        Column("failures", lambda r: units.format_count(r.failures), right=True, spare=4),
        Column("unknown lines", lambda r: units.format_count(r.unknown_lines), right=True, spare=6),
        Column("lost batches", lambda r: units.format_count(r.lost_batches), right=True, spare=5),
        Column("clock off", lambda r: _offset(r.clock_offset_ns), right=True, spare=3),
        Column("memory", lambda r: units.format_bytes(r.memory_bytes), right=True, spare=7),
        Column("says", lambda r: word(r.text), spare=2, longest=48),
    ]
    if answer.probes:
        parts += [Text(""), fitted(columns, answer.probes, width)]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in gap_lines(answer.gaps, 20))]
    return parts


def _offset(ns: int | None) -> str:
    from fairlead.core.model import units

    return units.ABSENT if ns is None else units.format_duration(ns / 1e9)
