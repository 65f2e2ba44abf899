"""`fairlead forwarder`: serves a tree of files to mounts; forwarders as they were counted.

Not here: the serving (`steer.forwarding.forwarder`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.ask import Request, add_ask_options
from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE, FOLDER, add_limit_option, add_peak_option
from fairlead.cli.printing import is_printing_quiet, print_message
from fairlead.cli.quantities import Seconds, Size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import HeatMap


@click.group(cls=Noun)
def forwarder() -> None:
    """Forwarders: run one, load by hour, who uses one."""


@forwarder.command("run")
@click.option(
    "--export",
    required=True,
    metavar="DIR|targets:FILE",
    help="What to serve: a directory, or a tree striped over storage targets.",
)
@click.option(
    "--listen",
    multiple=True,
    required=True,
    metavar="ADDRESS",
    help="unix:PATH, tls:HOST:PORT, tcp:HOST:PORT on the loopback or, in plain text, tcp+plain:HOST:PORT "
    "(repeatable). Port 0: any free one.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    metavar="N",
    help="Maximum number of requests executed at the same time.",
)
@click.option(
    "--discipline",
    default="job-fair",
    show_default=True,
    metavar="SPEC",
    help="Order of requests: fifo (order of arrival), metadata-first, share:P (metadata with probability "
    "P), job-fair (jobs in turn), set-10 (short iterations first) or exclusive (one job at a time); "
    "then limits on workers, bytes or operations per second, such as "
    "job-fair,cap-job:0.5,rate-job:100M,rate-job:lammps=200ops.",
)
@click.option(
    "--job-settings", type=FILE, metavar="FILE", help="Read-ahead, cache and rates of individual jobs (TOML)."
)
@click.option(
    "--token-key",
    type=FILE,
    metavar="FILE",
    help="Clients on a network must present a token made with this key (fairlead token).",
)
@click.option(
    "--job-key",
    type=FILE,
    metavar="FILE",
    help="Believe job ids a prolog has signed with this key (fairlead token issue --role job).",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["any-user", "root", "job-environment"]),
    help="What is refused unless it is spelled out (repeatable): tokens for any user; that tokens act as root; job ids "
    "of other machines that neither a cgroup nor a signature proves.",
)
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Certificate for tls: addresses (PEM).")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Key of the certificate (PEM).")
@click.option(
    "--spool",
    type=FOLDER,
    metavar="DIR",
    help="Write records of served requests to this directory, for `fairlead ingest`.",
)
@click.option(
    "--read-ahead",
    type=Size("1G"),
    default="0",
    metavar="SIZE",
    help="Read this far ahead of sequential readers, such as 256K or 4M (powers of 1024). Default: not at all.",
)
@click.option(
    "--cache",
    type=Size("1T"),
    default="0",
    metavar="SIZE",
    help="Memory for read-ahead and for data read again, such as 512M or 4G. Default: none, or 64M with --read-ahead.",
)
@click.option(
    "--sole",
    is_flag=True,
    help="Nothing else changes this tree: cached data is served without checking it, and mounts may cache (--cache).",
)
@click.option(
    "--descriptors",
    is_flag=True,
    help="Pass descriptors of open files to clients on this machine that ask for them, so that their data bypasses "
    "the forwarder.",
)
@click.option(
    "--grace",
    "grace_s",
    type=Seconds(3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long open files and locks are kept after a connection is lost.",
)
@click.option("--name", default="", metavar="NAME", help="Name in records. Default: host and process.")
def run_forwarder(listen: tuple[str, ...], **words: Any) -> None:
    """Serve a tree of files to mounts, until SIGTERM.

    Runs in the foreground. Prints one line `ready ADDRESS` on stderr for each address once clients can connect. On a
    unix socket clients act as their own user; clients on other machines need a token.
    """
    from fairlead.steer.forwarding.forwarder import run

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.ERROR if is_printing_quiet() else logging.INFO)
    options = run.Options(listen=listen, **words)
    run.run_forwarder(options, lambda address: print_message(f"ready {address}"))


@forwarder.command("list")
@add_peak_option("Full load of a forwarder. Default: its highest minute measured.")
@add_limit_option("How many forwarders to draw, the busiest first.", 60)
@add_ask_options()
def list_forwarders(request: Request, peak: float | None, limit: int) -> None:
    """List forwarders by hour (the last day): the busiest minute of each hour, as a share of full load.

    - idle (below 10 %), l low (below 50 %), m mid (below 90 %), H high; a dot is no data.
    """

    def parts(answer: HeatMap, width: int) -> Sequence[RenderableType]:
        return _draw_heatmap(answer, limit, width)

    request.show("heatmap", parts=parts, peak=peak)


@forwarder.command("show")
@click.argument("name")
@add_limit_option("How many jobs to list.", 60)
@add_ask_options()
def show_forwarder(request: Request, name: str, limit: int) -> None:
    """Show one forwarder (the last hour) and who uses it."""
    from fairlead.cli.target import render_target_parts

    request.show("forwarder", name, parts=render_target_parts, limit=limit)


def _draw_heatmap(answer: HeatMap, limit: int, width: int) -> list[RenderableType]:
    """Return the heat map of the `limit` busiest forwarders."""
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.pictures import LEVEL_LETTER, LEVEL_STYLE, draw_axis_picture, draw_heat_picture
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    if not answer.rows:
        print_message("no forwarder counters in this time")
        return []
    rows = sorted(answer.rows, key=lambda row: (-sum(v or 0.0 for v in row.peak_share), row.id))
    labels = min(20, max(len(row.id) for row in rows))
    cell = max(1, min(3, (width - labels - 2) // answer.columns))
    shown = min(answer.columns, (width - labels - 2) // cell)
    counts = ", ".join(f"{name} {count:,}" for name, count in answer.levels.items() if count)
    peak = f"full load {unit_formats.format_bandwidth(answer.peak_bytes_per_s)} ({answer.peak_basis})"
    legend = Text("  ").join(
        [Text(f"{LEVEL_LETTER[name]} {name}", style=LEVEL_STYLE[name]) for name in LEVEL_STYLE]
        + [Text(f"{LEVEL_LETTER[None]} no data", style="dim")]
    )
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=labels, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="crop")
    for row in rows[:limit]:
        table.add_row(Text(escape_text(row.id)), draw_heat_picture(row.level[-shown:], cell))
    first_ns = answer.from_ns + (answer.columns - shown) * answer.step_ns
    table.add_row(Text(""), draw_axis_picture(first_ns, answer.from_ns + answer.columns * answer.step_ns, shown * cell))
    parts: list[RenderableType] = [
        Text(f"{len(rows)} forwarders; {peak}; hours: {counts}", style="bold"),
        legend,
        table,
    ]
    if len(rows) > limit:
        parts.append(Text(f"and {len(rows) - limit} less busy ones (--limit)", style="dim"))
    return parts
