"""`fairlead demo`: three jobs through a forwarding plane, a drawn fault, a judge who sees the records only.

Not here: the play (`fairlead.kit.demo`), the judgement (`fairlead.explain.analysis.culprits`), the page
(`fairlead.show.report.path`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

import click

from fairlead.cli.options import FILE, FOLDER
from fairlead.cli.printing import print_json, print_message
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from fairlead.kit.demo.play import Outcome

_PAGE = Path("fairlead-demo.html")


@click.command()
@click.option(
    "--seed", type=int, metavar="N", help="Repeat the run with this seed. Default: a different run each time."
)
@click.option(
    "--html", type=FILE, metavar="FILE", default=_PAGE, show_default=True, help="Write the HTML page to this file."
)
@click.option("--keep", type=FOLDER, metavar="DIR", help="Keep the records, the lake and the logs in this directory.")
@click.option("--no-fuse", is_flag=True, help="Use the library client instead of mounts, for hosts without FUSE.")
@click.option(
    "--pages/--no-pages",
    default=None,
    help="Serve the web pages on the records of this run until Ctrl-C. Default: ask, on a terminal.",
)
@click.option("--open", "browser", is_flag=True, help="With --pages: open them in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print what was injected, recorded and found as JSON.")
def demo(
    seed: int | None, html: Path, keep: Path | None, no_fuse: bool, pages: bool | None, browser: bool, as_json: bool
) -> None:
    """Run real I/O on this machine, inject a fault and find it: a slow target, a job that disturbs others, or nothing.

    Takes half a minute, needs no privileges and leaves nothing but the page. The seed decides what is injected; it is
    shown at the end. The diagnosis runs in another process, which sees only the records.
    """
    import msgspec

    from fairlead.kit.demo.plan import draw_demo_plan
    from fairlead.kit.demo.play import perform_demo_play

    for folder, option in ((html.parent, "--html"), (keep, "--keep")):
        _must_be_writable(folder, option)
    chosen = int.from_bytes(os.urandom(2), "little") if seed is None else seed
    play = draw_demo_plan(chosen)
    fuse = not no_fuse and _fuse_works()
    signal.signal(signal.SIGTERM, _as_interrupt)
    from fairlead.cli import demo_pages
    from fairlead.cli.report import write_report_file

    asked = True if browser and pages is None else pages
    with _held(keep, for_pages=demo_pages.are_demo_pages_wanted(asked)) as held:
        outcome = perform_demo_play(play, fuse=fuse, keep=held, say=print_message)
        write_report_file(html, _page(outcome).encode())
        kept, told = outcome.kept, outcome if keep is not None else msgspec.structs.replace(outcome, kept=None)
        if as_json:
            print_json(told)
        else:
            _show(told, html)
        if kept is not None and demo_pages.are_demo_pages_wanted(asked) and demo_pages.ask_for_demo_pages(asked):
            demo_pages.serve_demo_pages(Path(kept) / "lake", _worst_first(outcome), browser=browser)


@contextmanager
def _held(keep: Path | None, *, for_pages: bool) -> Iterator[Path | None]:
    """Where the run is kept: as asked; for pages, in a folder that goes away."""
    if keep is not None or not for_pages:
        yield keep
        return
    with TemporaryDirectory(prefix="fairlead-demo-") as folder:
        yield Path(folder)


def _worst_first(outcome: Outcome) -> list[str]:
    """The jobs of a run: first the one that was judged to have lost most."""
    hurt = [
        name
        for verdict in outcome.judgement.get("verdicts", [])
        for name in verdict.get("victims", [])
        if isinstance(name, str) and name in outcome.saw
    ]
    return list(dict.fromkeys([*hurt, *outcome.saw]))


def _must_be_writable(folder: Path | None, option: str) -> None:
    """Said before half a minute is played, not after."""
    if folder is None:
        return
    try:
        if option == "--keep":
            folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what = f"cannot be written: {(error.strerror or str(error)).lower()}"
        raise UsageError(what, where=str(folder), remedy=f"use another place with {option}") from error


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _fuse_works() -> bool:
    """Whether a mount can be made here; a word about it where not."""
    why = None
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        why = f"/dev/fuse cannot be opened ({(error.strerror or '').lower()})"
    if why is None and os.geteuid() != 0 and which("fusermount3") is None:
        why = "there is no fusermount3 (package fuse3)"
    if why is not None:
        print_message(f"{why}: the jobs use the library instead of mounts")
    return why is None


def _page(outcome: Outcome) -> str:
    from fairlead.show.report.path.path_page import render_path_page

    lead = f"fairlead demo, seed {outcome.seed}: three jobs did real I/O through two forwarders on four targets."
    missing = []
    if outcome.lost_without_fuse:
        missing.append({"what": "a mount", "why": outcome.lost_without_fuse})
    return render_path_page(
        {
            "judgement": outcome.judgement,
            "paths": outcome.paths,
            "charts": outcome.charts,
            "saw": outcome.saw,
            "played": outcome.told,
            "about": {"lead": lead},
            "missing": missing,
        }
    )


def _show(outcome: Outcome, html: Path) -> None:
    from fairlead.cli.demo_terminal import show_demo_in_terminal

    show_demo_in_terminal(outcome)
    click.echo(f"page: {html}")
    click.echo(f"the same again: fairlead demo --seed {outcome.seed}")
    if outcome.kept:
        click.echo(f"kept: {outcome.kept}")
