"""`fairlead server`: how a running server is: collector, sources, failing probes, unknown input.

Not here: running it (`up`), the request (`run.server_client`), what health is (`see.collector.health`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FOLDER, add_server_options

if TYPE_CHECKING:
    from fairlead.see.collector.health import ScrubHealth, ServerHealth

SHOWN = 20
DEGRADED = 4
_TROUBLED = ("failing", "late", "lost")


@click.group(cls=Noun)
def server() -> None:
    """State of a running server and its sources. `fairlead up` runs a server."""


@server.command("status")
@add_server_options("The API or the collector of a server; without any, the server of this machine.")
@click.option("--lake", type=FOLDER, metavar="DIR", help="Ask this lake instead of a server.")
@click.option("--all", "everything", is_flag=True, help=f"All sources, not only the first {SHOWN} that need attention.")
@click.option("--json", "as_json", is_flag=True, help="Print the document of GET /api/v1/server.")
def show_server_status(
    server: str | None, token: Path | None, authority: Path | None, lake: Path | None, everything: bool, as_json: bool
) -> int:
    """Show the state of the server and its sources. Exits with 4 if something needs attention."""
    from fairlead.core.access.server_client import read_server_token
    from fairlead.core.clock import now_ns
    from fairlead.run.lake_health import read_lake_health
    from fairlead.run.server_client import find_local_server, request_server_health
    from fairlead.see.collector.health import ALL, TROUBLED

    found = (
        read_lake_health(lake, now_ns())
        if lake is not None
        else request_server_health(
            server or find_local_server(),
            read_server_token(token),
            authority,
            which=ALL if everything or as_json else TROUBLED,
        )
    )
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(found).decode())
    else:
        _show(found, everything)
    return 0 if found.state == "ok" else DEGRADED


def _show(found: ServerHealth, everything: bool) -> None:
    from fairlead.core.model.unit_formats import format_bytes
    from fairlead.core.safe_text import escape_text

    collector = found.collector
    click.echo(f"{found.state}: fairlead {collector.version}, shard {collector.shard}")
    if collector.started_ns:
        carried = "" if collector.carried_ns is None else f", carried {_ago(found.now_ns - collector.carried_ns)} ago"
        up, memory = _ago(found.now_ns - collector.started_ns), format_bytes(collector.memory_bytes)
        click.echo(f"collector  up {up}, {memory} memory, {collector.connections} connections{carried}")
    click.echo(
        f"log        {format_bytes(collector.backlog_bytes)} not yet in tables, "
        f"{format_bytes(collector.free_bytes)} free on the disk"
    )
    if collector.scrub is not None:
        click.echo(f"scrub      {_describe_scrub(collector.scrub, found.now_ns)}")
    for problem in collector.problems:
        click.echo(f"  ! {escape_text(problem)}")
    for what, count in collector.not_understood.items():
        click.echo(f"  ? newer agents send {escape_text(what)}: left out ({count} batches)")
    told = ", ".join(f"{count} {state}" for state, count in sorted(found.states.items())) or "none yet"
    click.echo(f"sources    {told}")
    if found.agents:
        click.echo(
            "agents     " + ", ".join(f"{n} × {escape_text(version)}" for version, n in sorted(found.agents.items()))
        )
    for feed in found.feeds:
        click.echo(
            f"feed       {escape_text(feed.feed)}: {feed.state}{f', {escape_text(feed.text)}' if feed.text else ''}"
        )
    _show_sources(found, everything)


def _describe_scrub(scrub: ScrubHealth, now_ns: int) -> str:
    from fairlead.core.model.unit_formats import format_bytes

    share = scrub.checked_bytes / scrub.bytes if scrub.bytes else 1.0
    state = f"{share:.0%} of {format_bytes(scrub.bytes)} checked"
    if scrub.finished_ns is not None:
        state += f", last round ended {_ago(now_ns - scrub.finished_ns)} ago"
    state += f", {scrub.damaged_files} damaged"
    return state + (f", {scrub.unverified_files} unverified before their checksums" if scrub.unverified_files else "")


def _show_sources(found: ServerHealth, everything: bool) -> None:
    from fairlead.core.safe_text import escape_text

    troubled = [one for one in found.sources if one.needs_attention]
    chosen = found.sources if everything else troubled[:SHOWN]
    if not chosen:
        return
    click.echo()
    for one in chosen:
        offset = (
            ""
            if one.clock_offset_ns is None or abs(one.clock_offset_ns) < 2_000_000_000
            else (f", clock off by {one.clock_offset_ns / 1e9:+.1f} s")
        )
        lost = f", {one.lost_batches} batches lost there" if one.lost_batches else ""
        click.echo(
            f"{escape_text(one.node)}: {one.state}, last seen {_ago(found.now_ns - one.last_seen_ns)} ago{offset}{lost}"
        )
        for probe in one.probes:
            if probe.state in _TROUBLED:
                click.echo(
                    f"  {escape_text(probe.probe)} {probe.state}: {escape_text(probe.text) or 'no reason given'}"
                )
            if probe.unknown_lines:
                click.echo(f"  {escape_text(probe.probe)}: {probe.unknown_lines} lines not understood")
    if len(troubled) > len(chosen):
        click.echo(f"... and {len(troubled) - len(chosen)} more: --all")


def _ago(ns: int) -> str:
    seconds = max(0, ns) / 1e9
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
