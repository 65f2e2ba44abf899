"""`fairlead system`: the whole system in one view. Not here: one component (`node`, `target`, `mds`), drawing."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import add_limit_option, add_name_option


@click.group(cls=Noun)
def system() -> None:
    """The whole system: layers, space, network, devices."""


@system.command("show")
@add_ask_options()
def show_system(request: Request) -> None:
    """Show volumes of each layer by day, amplification between layers, jobs, silent sources, events.

    A lower layer that reads several times what the one above asked for is thrashing a cache or reading ahead too far.
    """
    from fairlead.cli.system_rendering import render_system

    request.show("system", parts=render_system)


@system.command("space")
@add_name_option("--fs", "Only this file system.")
@add_name_option("--target", "Only this target.")
@click.option(
    "--owners", "kind", type=click.Choice(["user", "group", "project"]), default=None, help="Only owners of this kind."
)
@add_limit_option("How many of each to list.")
@add_ask_options()
def show_system_space(request: Request, **words: Any) -> None:
    """Show how full targets are, who holds most space, who grew (the last day), who is near a limit."""
    from fairlead.cli.system_rendering import render_system_space

    request.show("usage", parts=render_system_space, **words)


@system.command("network")
@add_limit_option("How many ports and jobs to list.")
@add_ask_options()
def show_system_network(request: Request, limit: int) -> None:
    """Show switch ports (the last hour), and jobs that use theirs unevenly."""
    from fairlead.cli.system_rendering import render_system_network

    request.show("ports", parts=render_system_network, limit=limit)


@system.command("devices")
@add_name_option("--node", "Only devices of this node.")
@add_limit_option("How many devices to list.")
@add_ask_options()
def show_system_devices(request: Request, **words: Any) -> None:
    """Show devices by hour of the day (the last 7 days)."""
    from fairlead.cli.system_rendering import render_system_devices

    request.show("devices", parts=render_system_devices, **words)
