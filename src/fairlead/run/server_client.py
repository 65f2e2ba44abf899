"""Asks a server how it is, as `fairlead server status` does. The API and the collector both answer.

Not here: the request itself (`access.server_client`), what is shown of the answer (`cli.server`).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fairlead.core.access.server_client import request_server
from fairlead.core.errors import ServerError
from fairlead.see.collector.health import ALL, PATH, ServerHealth
from fairlead.see.collector.listen_address import format_listen_url as url_of
from fairlead.store.lake_folder import find_default_lake_folder

DEFAULT_URL = "http://127.0.0.1:8571"


def find_local_server(state: Path | None = None) -> str:
    """Where the server of this state folder (that of the default lake) says it listens; else the default address."""
    folder = state or find_default_lake_folder().absolute().parent
    try:
        told = msgspec.json.decode((folder / "addresses.json").read_bytes())
        return url_of(sorted(told["collector"], key=lambda one: not one.startswith("unix:"))[0])
    except (OSError, msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError):
        return DEFAULT_URL


def request_server_health(
    url: str, token: str, authority: Path | None = None, *, which: str = ALL, timeout_s: float = 20.0
) -> ServerHealth:
    """What the server says of itself; `which` sources one by one (`collector.health`). Raises what `request_server`
    raises, ServerError for an answer of something else."""
    body = request_server(url, f"{PATH}?sources={which}", token=token, authority=authority, timeout_s=timeout_s)
    try:
        return msgspec.json.decode(body, type=ServerHealth)
    except msgspec.DecodeError as error:
        raise ServerError("it responds, but not as a fairlead server", where=url) from error
