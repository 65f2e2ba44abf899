"""Writing an answer as a single-file page where `--html FILE` asks for it. Not here: what a page shows (`web`)."""

from __future__ import annotations

from pathlib import Path

import click

html_option = click.option("--html", "html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                           help="Write the answer as one HTML page, too.")  # fmt: skip


def save(path: Path, text: str) -> None:
    """The page in a file that is there whole or not at all. Raises UsageError where it cannot be written."""
    from fairlead.cli.report import write_whole
    from fairlead.cli.talk import say
    from fairlead.errors import UsageError
    from fairlead.inert import inert

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise UsageError(f"cannot be written: {what}", where=str(path), remedy="name another file") from fault
    say(f"page: {inert(str(path))}")
