"""`fairlead host`: what this host can do. Not here: the checks (`fairlead.run.doctor`)."""

from __future__ import annotations

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import json_option
from fairlead.cli.printing import print_json
from fairlead.core.errors import MissingDependencyError
from fairlead.run.doctor import Check, Machine, does_doctor_pass, run_doctor_checks
from fairlead.run.doctor.check import STATUSES

SCHEMA = "fairlead.doctor/1"
_MARKS = {"ok": "[green]●[/] ok", "partly": "[yellow]◐[/] partly", "missing": "[dim]○[/] missing"}
_AREAS = {"core": "Core", "storage": "Storage", "site": "Site", "monitoring": "Monitoring", "tools": "Tools"}


@click.group(cls=Noun)
def host() -> None:
    """This host: what fairlead can do here, and what is missing."""


@host.command("check")
@json_option
def check_host(as_json: bool) -> None:
    """Check what this host can do, and print the command that adds what is missing.

    Looks at Python and its packages, processors, memory, FUSE, parallel file systems, cgroups, Slurm, InfiniBand,
    what monitoring needs, trace recorders and optional extras. Changes nothing. Exits with 0 unless the core itself
    cannot work here.
    """
    checks = run_doctor_checks(Machine())
    if as_json:
        print_json({"schema": SCHEMA, "usable": does_doctor_pass(checks), "checks": checks})
    else:
        _print_table(checks)
    if not does_doctor_pass(checks):
        broken = next(check for check in checks if check.area == "core" and check.status == "missing")
        raise MissingDependencyError(
            f"fairlead cannot work here: {broken.name}", where=broken.found, remedy=broken.command or broken.hint
        )


def _print_table(checks: list[Check]) -> None:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.piped_console import PipedConsole

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            table.add_row(f"[bold cyan]{_AREAS[area]}[/]")
        lines = [Text(check.found), Text(f"for {check.enables}", style="dim")]
        if check.command is not None:
            lines.append(Text.from_markup(f"[cyan]→[/] [bold]{escape(check.command)}[/]"))
        if check.hint is not None:
            aside = check.command is not None
            lines.append(Text(f"({check.hint})" if aside else f"→ {check.hint}", style="dim" if aside else "cyan"))
        table.add_row(f"  {_MARKS[check.status]}", check.name, Group(*lines))
    console = PipedConsole(highlight=False)
    console.print(table)
    counts = ", ".join(f"{sum(check.status == status for check in checks)} {status}" for status in STATUSES)
    console.print(f"\n{counts}. Only [bold]Core[/] is required; the rest is optional.")
