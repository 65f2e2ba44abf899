"""Views of `fairlead system` beside the path of requests: space and its owners, switch ports, devices by hour.

Not here: the machine's layers (`system`), asking (`ask`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import PortImbalance, PortVolume
    from fairlead.explain.questions.answers_site import Devices, Ports, Usage


def space(answer: Usage, width: int) -> list[RenderableType]:
    """Fullness of targets, who holds most, who grew, who is near a limit."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted, word
    from fairlead.core.model import units

    times = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble(("space", "bold"), (f"  {times}", "dim"))]
    if answer.targets:
        columns = [
            Column("target", lambda r: r.id),
            Column("used", lambda r: units.format_bytes(r.used_bytes), right=True),
            Column("of", lambda r: units.format_bytes(r.capacity_bytes), right=True, spare=2),
            Column("full", lambda r: units.format_percent(r.fullness), right=True),
            Column("inodes", lambda r: units.format_count(r.inodes_used), right=True, spare=1),
            Column("of them", lambda r: units.format_percent(r.inodes_fullness), right=True, spare=1),
            Column("grown", lambda r: units.format_bytes(r.grown_bytes), right=True, spare=1),
        ]
        parts += [Text(""), fitted(columns, answer.targets[:20], width)]
        if len(answer.targets) > 20:
            parts.append(Text(f"and {len(answer.targets) - 20} more (--json has all)", style="dim"))
    owners = [
        Column("owner", lambda r: f"{r.owner_kind} {r.owner}", longest=40),
        Column("on", lambda r: word(r.fs), spare=2),
        Column("holds", lambda r: units.format_bytes(r.used_bytes), right=True),
        Column("inodes", lambda r: units.format_count(r.inodes), right=True, spare=1),
        Column("grown", lambda r: units.format_bytes(r.grown_bytes), right=True),
        Column("inodes grown", lambda r: units.format_count(r.grown_inodes), right=True, spare=3),
        Column("of limit", lambda r: units.format_percent(r.limit_share), right=True, spare=1),
    ]
    for heading, rows in (("Holding most", answer.most), ("Grown most", answer.grown), ("Near a limit", answer.near)):
        if rows:
            parts += [Text(f"\n{heading}", style="bold"), fitted(owners, rows, width)]
    if answer.told_ns is None:
        parts.append(Text("\nowners: nobody told of them (probe usage, on servers)", style="yellow"))
    return parts


def network(answer: Ports, width: int) -> list[RenderableType]:
    """The busiest ports, and jobs by how unevenly they use theirs."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted, word
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    times = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [Text.assemble((f"{answer.total} ports", "bold"), (f"  {times}", "dim"))]
    if answer.ports:
        parts += [Text(""), port_table(answer.ports, width)]
    if answer.jobs:
        columns = [
            Column("job", lambda r: r.job_id),
            Column("user", lambda r: word(r.user), spare=2),
            Column("program", lambda r: word(r.program), spare=3),
            Column("ports", lambda r: units.format_count(r.ports), right=True),
            Column("received", lambda r: units.format_bytes(r.received_bytes), right=True, spare=1),
            Column("sent", lambda r: units.format_bytes(r.sent_bytes), right=True, spare=1),
            Column("busiest over mean", lambda r: units.format_ratio(r.highest_over_mean), right=True),
        ]
        parts += [Text("\nJobs by imbalance", style="bold"), fitted(columns, answer.jobs, width)]
    return [*parts, *(Text(inert(text), style="yellow") for text in answer.missing)]


def port_table(ports: list[PortVolume], width: int) -> RenderableType:
    """Ports with the node behind each; bytes in its view."""
    from fairlead.cli.answer_tables import Column, fitted, word
    from fairlead.core.model import units

    columns = [
        Column("port", lambda r: r.port, longest=40),
        Column("node", lambda r: word(r.node)),
        Column("received", lambda r: units.format_bytes(r.received_bytes), right=True),
        Column("sent", lambda r: units.format_bytes(r.sent_bytes), right=True),
        Column("of rate", lambda r: units.format_percent(r.peak_share), right=True, spare=1),
        Column("shared", lambda r: units.format_bytes(r.shared_bytes) if r.shared_bytes else "", right=True, spare=2),
    ]
    return fitted(columns, ports, width)


def unevenness(found: PortImbalance) -> str:
    """One line on how evenly a job uses its ports."""
    from fairlead.core.model import units

    return f"busiest of {found.ports} ports moved {units.format_ratio(found.highest_over_mean)} times the mean"


def devices(answer: Devices, width: int) -> list[RenderableType]:
    """Each device's hours of the day."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fitted
    from fairlead.core.model import units

    times = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    parts: list[RenderableType] = [
        Text.assemble((f"{answer.total} devices by hour of the day (UTC)", "bold"), (f"  {times}", "dim"))
    ]
    if answer.devices:
        columns = [
            Column("device", lambda r: r.id, longest=40),
            Column("hour", lambda r: f"{r.hour:02d}", right=True),
            Column("read", lambda r: units.format_bandwidth(r.read_bytes_per_s), right=True),
            Column("write", lambda r: units.format_bandwidth(r.write_bytes_per_s), right=True),
            Column("busy", lambda r: units.format_percent(r.busy_share), right=True, spare=1),
            Column("hours", lambda r: units.format_count(r.hours), right=True, spare=2),
        ]
        parts += [Text(""), fitted(columns, answer.devices, width)]
    else:
        parts.append(Text("no counter of a device in this time", style="yellow"))
    return parts
