"""Giving an answer as it is asked for: on the terminal, as JSON, as a single-file page where `--html FILE` says so.

Not here: what a page shows (`web`), what the terminal does (the commands).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from fairlead.cli.ask import show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Answer

A = TypeVar("A", bound="Answer")

html_option = click.option(
    "--html",
    "html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the answer as one HTML page, too.",
)


def give(
    answer: A,
    parts: Callable[[A, int], Sequence[RenderableType]],
    page: Callable[[A], str],
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """The answer as a page in the file `html` and as JSON, where asked for; with neither its `parts` on the terminal,
    made for its width. Raises UsageError where the file cannot be written."""
    if html is not None:
        save(html, page(answer))
    if as_json:
        show_json(answer)
    if as_json or html is not None:
        return
    from fairlead.cli.pictures import screen

    console = screen()
    for part in parts(answer, console.width):
        console.print(part)


def save(path: Path, text: str) -> None:
    """The page in a file that is there whole or not at all. Raises UsageError where it cannot be written."""
    from fairlead.cli.messages import say
    from fairlead.cli.report import write_whole
    from fairlead.core.errors import UsageError
    from fairlead.core.safe_text import inert

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise UsageError(f"cannot be written: {what}", where=str(path), remedy="name another file") from fault
    say(f"page: {inert(str(path))}")
