"""The list of mounts on this machine. Not here: how it is collected (`steer.forwarding.mount.process.control`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.printing import print_json
from fairlead.core.clock import now_ns

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.process.control import ListedMount

SCHEMA = "fairlead.mounts/1"
_STATES = {"serving": "green", "dead": "red", "silent": "red", "foreign": "dim"}


def print_mounts(*, as_json: bool) -> None:
    """List the mounts on this machine: where, from where, by which process, their state."""
    from fairlead.steer.forwarding.mount.process.control import list_mounts

    found = list_mounts()
    if as_json:
        print_json({"schema": SCHEMA, "mounts": found})
    elif found:
        _print_table(found)
    else:
        click.echo("no mounts")


def _print_table(found: list[ListedMount]) -> None:
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.piped_console import PipedConsole
    from fairlead.core.safe_text import escape_text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("folder", "from", "state", "process", "since", "requests"):
        table.add_column(heading, style="bold" if heading == "folder" else "", header_style="dim", overflow="fold")
    now = now_ns()
    for mount in found:
        table.add_row(
            Text(escape_text(mount.mountpoint)),
            Text(escape_text(_place(mount))),
            Text(escape_text(mount.state), style=_STATES.get(mount.state, "yellow")),
            "" if mount.pid is None else str(mount.pid),
            "" if mount.started_ns is None else _span(now - mount.started_ns),
            "" if mount.requests is None else f"{mount.requests:,}",
        )
    PipedConsole(highlight=False).print(table)


def _place(mount: ListedMount) -> str:
    """Where its files come from now: of several forwarders, or after a remap, the one that serves it."""
    return str((mount.status or {}).get("forwarder") or mount.source)


def _span(ns: int) -> str:
    """How long ago, in the two units a person reads."""
    minutes, seconds = divmod(max(ns, 0) // 10**9, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
