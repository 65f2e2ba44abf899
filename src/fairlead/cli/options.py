"""Options that several commands share, one form and one text for each. Not here: whom to ask, and when (`ask`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from fairlead.core.access.server_variables import ADDRESS_VARIABLES, AUTHORITY_VARIABLES, TOKEN_VARIABLES

F = TypeVar("F", bound=Callable[..., Any])
FILE: click.Path[Path] = click.Path(path_type=Path, dir_okay=False)
FOLDER: click.Path[Path] = click.Path(path_type=Path, file_okay=False)
PATH: click.Path[Path] = click.Path(path_type=Path)


def add_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Return a decorator that adds `options` to a command, in this order in its help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def add_limit_option(text: str, default: int = 20, most: int = 1000) -> Callable[[F], F]:
    """Return `--limit`, from 1 to `most`."""
    return click.option("--limit", type=click.IntRange(1, most), default=default, show_default=True, help=text)


def add_offset_option(text: str = "How many to skip first.") -> Callable[[F], F]:
    """Return `--offset`, from 0."""
    return click.option("--offset", type=click.IntRange(min=0), default=0, help=text)


def add_name_option(flag: str, text: str, metavar: str = "NAME") -> Callable[[F], F]:
    """Return an option with a name as its value; empty by default, which asks for all."""
    return click.option(flag, default="", metavar=metavar, help=text)


def add_peak_option(text: str) -> Callable[[F], F]:
    """Return `--peak` in bytes per second, above 0."""
    return click.option(
        "--peak", type=click.FloatRange(min=0, min_open=True), default=None, metavar="BYTES_PER_S", help=text
    )


def add_wait_option(text: str) -> Callable[[F], F]:
    """Return `--wait` in seconds (`wait_s`), none by default."""
    return click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help=text)


def add_lake_option(text: str) -> Callable[[F], F]:
    """Return `--lake` (`root`): the folder of a lake."""
    return click.option("--lake", "root", type=PATH, metavar="DIR", help=text)


def add_site_option(text: str) -> Callable[[F], F]:
    """Return `--site` (`site_file`)."""
    return click.option("--site", "site_file", type=FILE, metavar="FILE", help=text)


def add_server_options(text: str = "Ask a server (https://host:port) instead of a lake.") -> Callable[[F], F]:
    """Return `--server` (`server`), `--token` (`token`) and `--ca` (`authority`), the same for every command.

    Each is its option, else its environment variable.
    """
    variable = f"Default: ${ADDRESS_VARIABLES[0]}."
    return add_options(
        (
            click.option("--server", metavar="URL", envvar=ADDRESS_VARIABLES, help=f"{text} {variable}"),
            click.option(
                "--token",
                type=FILE,
                metavar="FILE",
                envvar=TOKEN_VARIABLES,
                help=f"File with your reader token for the server. Default: ${TOKEN_VARIABLES[0]}.",
            ),
            click.option(
                "--ca",
                "authority",
                type=FILE,
                metavar="FILE",
                envvar=AUTHORITY_VARIABLES,
                help="Certificates (PEM) to verify the server with. "
                f"Default: ${AUTHORITY_VARIABLES[0]}, else the system's.",
            ),
        )
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
lake_option = add_lake_option("The lake. Default: $FAIRLEAD_LAKE, else fairlead/lake in your data folder.")
html_option = click.option(
    "--html", "html", type=FILE, metavar="FILE", help="Write the answer as one HTML page to this file."
)
cluster_option = click.option(
    "--cluster", default="", metavar="NAME", help="The job of this cluster, if several clusters use the number."
)
site_option = add_site_option("The site file: peaks, routes, counts, pools, reserved components.")
