"""Messages on stderr, silent with `--quiet`, and JSON on stdout. Errors are raised instead."""

from __future__ import annotations

import click


def is_printing_quiet() -> bool:
    """Return whether the command line asked for silence (`fairlead --quiet ...`). False outside a command."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("quiet"))


def print_message(text: str) -> None:
    """Print one line for a person on stderr."""
    if not is_printing_quiet():
        click.echo(text, err=True)


def print_json(document: object) -> None:
    """Print a document on stdout as JSON, indented."""
    import msgspec

    from fairlead.core.safe_text import escape_undecodable_text

    click.echo(msgspec.json.format(msgspec.json.encode(escape_undecodable_text(document)), indent=2).decode())


def print_lines(*lines: str) -> None:
    """Print lines on stdout, without control characters."""
    from fairlead.core.safe_text import escape_text

    for line in lines:
        click.echo(escape_text(line))
