"""`fairlead system`: the machine at a glance, and how watching goes. Not here: one component (`node`, `mds`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from fairlead.questions.answers import Amplification, Health, System


@click.command()
@click.option("--health", "watching", is_flag=True, help="Show how every source is watched instead.")
@click.option("--all", "everything", is_flag=True, help="With --health: probes in order too.")
@asking_options
def system(
    watching: bool, everything: bool,
    root: Path | None, server: str | None, token: Path | None, authority: Path | None,
    last: str, from_: str, to: str, at: str, as_json: bool,
) -> None:  # fmt: skip
    """Show the machine: volumes of each layer by day, amplification between layers, jobs, silent sources, events.

    A lower layer that reads several times what the one above asked for is thrashing a cache or reading ahead too far.
    """
    asker = Asker(root, server, token, authority)
    if watching:
        answer = asker.ask("health", all=everything)
    else:
        answer = asker.ask("system", last=last, from_=from_, to=to, at=at)
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen

    console = screen()
    shown = _health(cast("Health", answer), console.width) if watching else _page(cast("System", answer), console.width)
    for part in shown:
        console.print(part)


def _page(answer: System, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted, gap_lines, sum_columns, timeline_picture
    from fairlead.inert import inert
    from fairlead.model import units

    head = Text.assemble(
        (f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}", "bold"),
        f"\n{units.format_count(answer.jobs_running)} jobs running, {units.format_count(answer.jobs_ended)} ended, "
        f"{units.format_count(answer.sources)} sources",
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

    from fairlead.model import units

    text = f"  for each byte of {one.upper}, {one.lower} read {units.format_ratio(one.read)}"
    style = "yellow" if max(one.read or 0, one.write or 0) > 1.5 else ""
    return Text(f"{text} and wrote {units.format_ratio(one.write)}", style=style)


def _health(answer: Health, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted, gap_lines, word
    from fairlead.model import units
    from fairlead.questions.answers import ProbeHealth

    def state(row: ProbeHealth) -> Text:
        said = "silent" if row.silent else row.state
        return Text(said, style={"ok": "green", "missing": "dim"}.get(said, "bold red"))

    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(answer.states.items())) or "no word of health"
    parts: list[RenderableType] = [Text(f"{answer.nodes:,} nodes; probes: {counts}", style="bold")]
    columns = [
        Column("node", lambda r: r.node, longest=32), Column("probe", lambda r: r.probe), Column("state", state),
        Column("last word", lambda r: units.format_duration((answer.now_ns - r.ts_ns) / 1e9) + " ago", right=True),
        Column("failures", lambda r: units.format_count(r.failures), right=True, spare=4),
        Column("unknown lines", lambda r: units.format_count(r.unknown_lines), right=True, spare=6),
        Column("lost batches", lambda r: units.format_count(r.lost_batches), right=True, spare=5),
        Column("clock off", lambda r: _offset(r.clock_offset_ns), right=True, spare=3),
        Column("memory", lambda r: units.format_bytes(r.memory_bytes), right=True, spare=7),
        Column("says", lambda r: word(r.text), spare=2, longest=48),
    ]  # fmt: skip
    if answer.probes:
        parts += [Text(""), fitted(columns, answer.probes, width)]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in gap_lines(answer.gaps, 20))]
    return parts


def _offset(ns: int | None) -> str:
    from fairlead.model import units

    return units.ABSENT if ns is None else units.format_duration(ns / 1e9)
