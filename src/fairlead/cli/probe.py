"""`fairlead probe`: how monitoring itself is, probe by probe. Not here: the server (`server`), components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from fairlead.explain.questions.answers import Health


@click.group(cls=Noun)
def probe() -> None:
    """Probes of the nodes: which work, which fail or are silent."""


@probe.command("list")
@click.option("--all", "everything", is_flag=True, help="Also list probes without a problem.")
@add_ask_options(timed=False)
def list_probes(request: Request, everything: bool) -> None:
    """List probes that fail, are late or silent, and gaps in the data."""
    request.show("health", parts=_render_probes, all=everything)


def _render_probes(answer: Health, width: int) -> list[RenderableType]:
    """Return counts by state, the probes, and gaps."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word, list_answer_gaps
    from fairlead.core.model import unit_formats
    from fairlead.explain.questions.answers import ProbeHealth

    def state(row: ProbeHealth) -> Text:
        said = "silent" if row.silent else row.state
        return Text(said, style={"ok": "green", "missing": "dim"}.get(said, "bold red"))

    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(answer.states.items())) or "no reports"
    parts: list[RenderableType] = [Text(f"{answer.nodes:,} nodes; probes: {counts}", style="bold")]
    columns = [
        Column("node", lambda r: r.node, longest=32),
        Column("probe", lambda r: r.probe),
        Column("state", state),
        Column(
            "last report", lambda r: unit_formats.format_duration((answer.now_ns - r.ts_ns) / 1e9) + " ago", right=True
        ),
        Column("failures", lambda r: unit_formats.format_count(r.failures), right=True, spare=4),
        Column("unknown lines", lambda r: unit_formats.format_count(r.unknown_lines), right=True, spare=6),
        Column("lost batches", lambda r: unit_formats.format_count(r.lost_batches), right=True, spare=5),
        Column("clock off", lambda r: _offset(r.clock_offset_ns), right=True, spare=3),
        Column("memory", lambda r: unit_formats.format_bytes(r.memory_bytes), right=True, spare=7),
        Column("says", lambda r: format_answer_word(r.text), spare=2, longest=48),
    ]
    if answer.probes:
        parts += [Text(""), fit_answer_table(columns, answer.probes, width)]
    if answer.gaps:
        parts += [Text("\nGaps", style="bold yellow"), *(Text("  ") + gap for gap in list_answer_gaps(answer.gaps, 20))]
    return parts


def _offset(ns: int | None) -> str:
    from fairlead.core.model import unit_formats

    return unit_formats.ABSENT if ns is None else unit_formats.format_duration(ns / 1e9)
