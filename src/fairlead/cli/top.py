"""`fairlead top`: who moves most just now, full screen, refreshed. In a pipe, or with --once, one screen and the end.

Not here: drawing a screen (`top_screen`), keys of a terminal (`keys`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import Asker, where_options
from fairlead.cli.options import add_limit_option
from fairlead.cli.quantities import Seconds

if TYPE_CHECKING:
    from rich.console import Console

    from fairlead.cli.top_screen import Board

_KEYS = {"j": "jobs", "o": "targets", "m": "mds"}


@click.command()
@click.option(
    "--by",
    type=click.Choice(("jobs", "targets", "mds")),
    default="jobs",
    show_default=True,
    help="View to start with; the keys j, o and m change it.",
)
@click.option(
    "--last", default="1m", show_default=True, metavar="AGE", help="Rates are means over this long, up to now."
)
@click.option(
    "--interval", type=Seconds(3600), default=2.0, show_default=True, metavar="SECONDS", help="Refresh interval."
)
@click.option("--once", is_flag=True, help="Print one screen and exit (default in a pipe).")
@add_limit_option("How many lines --once shows; a full screen shows what fits.")
@where_options
def top(
    by: str,
    last: str,
    interval: float,
    once: bool,
    limit: int,
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
) -> None:
    """Watch who moves most: jobs, storage targets or metadata load.

    Keys: j jobs, o targets (OSTs), m metadata, s next sort order, up and down scroll, q quits.
    """
    from fairlead.cli.pictures import build_picture_console
    from fairlead.cli.top_screen import Board, render_top_screen_once

    console = build_picture_console()
    board = Board(Asker(root, server, token, authority), by, last)
    board.look()
    if once or not (console.is_terminal and sys.stdin.isatty()):
        console.print(render_top_screen_once(board, console.width, limit))
        return
    _watch(console, board, max(0.2, interval))


def _watch(console: Console, board: Board, interval_s: float) -> None:
    from rich.live import Live

    from fairlead.cli.keys import Keys
    from fairlead.cli.top_screen import draw_top_screen
    from fairlead.core.clock import monotonic_s

    first = draw_top_screen(board, console.width, console.height)
    with Keys(sys.stdin.fileno()) as keys, Live(first, console=console, screen=True, auto_refresh=False) as live:
        due_s = monotonic_s() + interval_s
        while True:
            key = keys.wait(max(0.0, due_s - monotonic_s()))
            if key in ("q", "Q", "\x03", "\x04"):
                return
            if key in _KEYS:
                board.turn(_KEYS[key])
            elif key == "s":
                board.reorder()
            elif key in ("up", "down", "page_up", "page_down", "home"):
                board.scroll(key, max(1, console.height - 6))
            if monotonic_s() >= due_s or key in _KEYS or key == "s":
                board.look()
                due_s = monotonic_s() + interval_s
            live.update(draw_top_screen(board, console.width, console.height), refresh=True)
