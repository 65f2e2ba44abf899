"""Views of the whole system on the terminal: layers, space and its owners, switch ports, devices by hour.

Not here: the commands (`system`), one component (`target`, `component`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from fairlead.explain.questions.answers import Amplification, PortImbalance, PortVolume, System
    from fairlead.explain.questions.answers_site import Devices, Ports, Usage


def render_system(answer: System, width: int) -> list[RenderableType]:
    """Return the layers, amplification, silent sources and events."""
    from rich.text import Text

    from fairlead.cli.answer_tables import (
        Column,
        draw_answer_timeline,
        fit_answer_table,
        list_answer_gaps,
        list_answer_sum_columns,
    )
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    head = Text.assemble(
        (f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}", "bold"),
        f"\n{unit_formats.format_count(answer.jobs_running)} jobs running, "
        f"{unit_formats.format_count(answer.jobs_ended)} ended, "
        f"{unit_formats.format_count(answer.sources)} source{'' if answer.sources == 1 else 's'}",
        (f", {len(answer.silent)} silent" if answer.silent else "", "bold yellow"),
    )
    parts: list[RenderableType] = [head, Text(""), draw_answer_timeline(answer.timeline, width)]
    if answer.layers:
        columns = [Column("day", lambda r: r.day), Column("layer", lambda r: r.layer), *list_answer_sum_columns()]
        parts += [Text("\nVolume by day and layer", style="bold"), fit_answer_table(columns, answer.layers, width)]
    lines = [_amplified(one) for one in answer.amplification if one.read is not None or one.write is not None]
    if lines:
        parts += [Text("\nAmplification", style="bold"), *lines]
    if answer.silent:
        parts += [
            Text("\nSilent sources", style="bold yellow"),
            *(Text("  ") + g for g in list_answer_gaps(answer.silent)),
        ]
    if answer.events:
        parts.append(Text("\nEvents", style="bold"))
        for event in answer.events[:12]:
            when, kind = (unit_formats.format_time(event.ts_ns), "dim"), (escape_text(event.kind), "bold")
            said, where = f"  {escape_text(event.text or '')}", f"  {escape_text(event.component)}  "
            parts.append(Text.assemble(when, where, kind, said, overflow="ellipsis", no_wrap=True))
    return parts


def _amplified(one: Amplification) -> Text:
    from rich.text import Text

    from fairlead.core.model import unit_formats

    text = f"  for each byte of {one.upper}, {one.lower} read {unit_formats.format_ratio(one.read)}"
    style = "yellow" if max(one.read or 0, one.write or 0) > 1.5 else ""
    return Text(f"{text} and wrote {unit_formats.format_ratio(one.write)}", style=style)


def render_system_space(answer: Usage, width: int) -> list[RenderableType]:
    """Return how full targets are, who holds most, who grew, who is near a limit."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word
    from fairlead.core.model import unit_formats

    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble(("space", "bold"), (f"  {times}", "dim"))]
    if answer.targets:
        columns = [
            Column("target", lambda r: r.id),
            Column("used", lambda r: unit_formats.format_bytes(r.used_bytes), right=True),
            Column("of", lambda r: unit_formats.format_bytes(r.capacity_bytes), right=True, spare=2),
            Column("full", lambda r: unit_formats.format_percent(r.fullness), right=True),
            Column("inodes", lambda r: unit_formats.format_count(r.inodes_used), right=True, spare=1),
            Column("of them", lambda r: unit_formats.format_percent(r.inodes_fullness), right=True, spare=1),
            Column("grown", lambda r: unit_formats.format_bytes(r.grown_bytes), right=True, spare=1),
        ]
        parts += [Text(""), fit_answer_table(columns, answer.targets[:20], width)]
        if len(answer.targets) > 20:
            parts.append(Text(f"and {len(answer.targets) - 20} more (--json has all)", style="dim"))
    owners = [
        Column("owner", lambda r: f"{r.owner_kind} {r.owner}", longest=40),
        Column("on", lambda r: format_answer_word(r.fs), spare=2),
        Column("holds", lambda r: unit_formats.format_bytes(r.used_bytes), right=True),
        Column("inodes", lambda r: unit_formats.format_count(r.inodes), right=True, spare=1),
        Column("grown", lambda r: unit_formats.format_bytes(r.grown_bytes), right=True),
        Column("inodes grown", lambda r: unit_formats.format_count(r.grown_inodes), right=True, spare=3),
        Column("of limit", lambda r: unit_formats.format_percent(r.limit_share), right=True, spare=1),
    ]
    for heading, rows in (("Holding most", answer.most), ("Grown most", answer.grown), ("Near a limit", answer.near)):
        if rows:
            parts += [Text(f"\n{heading}", style="bold"), fit_answer_table(owners, rows, width)]
    if answer.told_ns is None:
        parts.append(Text("\nowners: no data (probe usage, on servers)", style="yellow"))
    return parts


def render_system_network(answer: Ports, width: int) -> list[RenderableType]:
    """Return the busiest ports, and jobs by how unevenly they use theirs."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble((f"{answer.total} ports", "bold"), (f"  {times}", "dim"))]
    if answer.ports:
        parts += [Text(""), render_system_port_table(answer.ports, width)]
    if answer.jobs:
        columns = [
            Column("job", lambda r: r.job_id),
            Column("user", lambda r: format_answer_word(r.user), spare=2),
            Column("program", lambda r: format_answer_word(r.program), spare=3),
            Column("ports", lambda r: unit_formats.format_count(r.ports), right=True),
            Column("received", lambda r: unit_formats.format_bytes(r.received_bytes), right=True, spare=1),
            Column("sent", lambda r: unit_formats.format_bytes(r.sent_bytes), right=True, spare=1),
            Column("busiest over mean", lambda r: unit_formats.format_ratio(r.highest_over_mean), right=True),
        ]
        parts += [Text("\nJobs by imbalance", style="bold"), fit_answer_table(columns, answer.jobs, width)]
    return [*parts, *(Text(escape_text(text), style="yellow") for text in answer.missing)]


def render_system_port_table(ports: list[PortVolume], width: int) -> RenderableType:
    """Return ports with the node behind each; bytes as the node counts them."""
    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word
    from fairlead.core.model import unit_formats

    columns = [
        Column("port", lambda r: r.port, longest=40),
        Column("node", lambda r: format_answer_word(r.node)),
        Column("received", lambda r: unit_formats.format_bytes(r.received_bytes), right=True),
        Column("sent", lambda r: unit_formats.format_bytes(r.sent_bytes), right=True),
        Column("of rate", lambda r: unit_formats.format_percent(r.peak_share), right=True, spare=1),
        Column(
            "shared", lambda r: unit_formats.format_bytes(r.shared_bytes) if r.shared_bytes else "", right=True, spare=2
        ),
    ]
    return fit_answer_table(columns, ports, width)


def render_system_imbalance(found: PortImbalance) -> str:
    """Return one line on how evenly a job uses its ports."""
    from fairlead.core.model import unit_formats

    return f"busiest of {found.ports} ports moved {unit_formats.format_ratio(found.highest_over_mean)} times the mean"


def render_system_devices(answer: Devices, width: int) -> list[RenderableType]:
    """Return each device by hour of the day."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.core.model import unit_formats

    times = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [
        Text.assemble((f"{answer.total} devices by hour of the day (UTC)", "bold"), (f"  {times}", "dim"))
    ]
    if answer.devices:
        columns = [
            Column("device", lambda r: r.id, longest=40),
            Column("hour", lambda r: f"{r.hour:02d}", right=True),
            Column("read", lambda r: unit_formats.format_bandwidth(r.read_bytes_per_s), right=True),
            Column("write", lambda r: unit_formats.format_bandwidth(r.write_bytes_per_s), right=True),
            Column("busy", lambda r: unit_formats.format_percent(r.busy_share), right=True, spare=1),
            Column("hours", lambda r: unit_formats.format_count(r.hours), right=True, spare=2),
        ]
        parts += [Text(""), fit_answer_table(columns, answer.devices, width)]
    else:
        parts.append(Text("no device counters in this time", style="yellow"))
    return parts
