"""`fairlead system`: the whole system in one view. Not here: one component (`node`, `target`, `mds`), drawing."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.ask import Request, question_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import limit_option, name_option


@click.group(cls=Noun)
def system() -> None:
    """The whole system: layers, space, network, devices."""


@system.command("show")
@question_options()
def show_system(request: Request) -> None:
    """Show volumes of each layer by day, amplification between layers, jobs, silent sources, events.

    A lower layer that reads several times what the one above asked for is thrashing a cache or reading ahead too far.
    """
    from fairlead.cli.system_parts import system_parts

    request.show("system", parts=system_parts)


@system.command("space")
@name_option("--fs", "Only this file system.")
@name_option("--target", "Only this target.")
@click.option(
    "--owners", "kind", type=click.Choice(["user", "group", "project"]), default=None, help="Only owners of this kind."
)
@limit_option("How many of each to list.")
@question_options()
def show_space(request: Request, **words: Any) -> None:
    """Show how full targets are, who holds most space, who grew (the last day), who is near a limit."""
    from fairlead.cli.system_parts import space_parts

    request.show("usage", parts=space_parts, **words)


@system.command("network")
@limit_option("How many ports and jobs to list.")
@question_options()
def show_network(request: Request, limit: int) -> None:
    """Show switch ports (the last hour), and jobs that use theirs unevenly."""
    from fairlead.cli.system_parts import network_parts

    request.show("ports", parts=network_parts, limit=limit)


@system.command("devices")
@name_option("--node", "Only devices of this node.")
@limit_option("How many devices to list.")
@question_options()
def show_devices(request: Request, **words: Any) -> None:
    """Show devices by hour of the day (the last 7 days)."""
    from fairlead.cli.system_parts import device_parts

    request.show("devices", parts=device_parts, **words)
