"""Talk on stderr: silent with `--quiet`. Data goes to stdout and never through here; errors are raised instead."""

from __future__ import annotations

import click


def quiet() -> bool:
    """Whether the command line asked for silence (`fairlead --quiet ...`). False outside a command."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("quiet"))


def say(text: str) -> None:
    """One line for a person, on stderr."""
    if not quiet():
        click.echo(text, err=True)
