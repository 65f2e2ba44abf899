"""Asks a server over HTTP or a unix socket, as `fairlead server status` does. Standard library and small.

Not here: what is shown of the answer (`cli.server`).
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from fairlead.core.access.tls import build_tls_client_context
from fairlead.core.errors import InputError, NoAnswerError, ServerError, UsageError
from fairlead.see.collector.health import ALL, Health
from fairlead.see.collector.listen_address import format_listen_url as url_of
from fairlead.store.lake_folder import find_default_lake_folder

TIMEOUT_S = 10.0
DEFAULT_URL = "http://127.0.0.1:8571"
_LARGEST = 256 << 20


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def find_server_url(state: Path | None = None) -> str:
    """`$FAIRLEAD_URL`; else where the server of the default lake says it listens; else the default address."""
    named = os.environ.get("FAIRLEAD_URL")
    if named:
        return named
    folder = state or find_default_lake_folder().absolute().parent
    try:
        told = msgspec.json.decode((folder / "addresses.json").read_bytes())
        return url_of(sorted(told["collector"], key=lambda one: not one.startswith("unix:"))[0])
    except (OSError, msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError):
        return DEFAULT_URL


def read_server_token(file: Path | None) -> str:
    """The token in a file, or of `$FAIRLEAD_TOKEN_FILE`; empty when there is none. Raises InputError."""
    named = file or (Path(os.environ["FAIRLEAD_TOKEN_FILE"]) if os.environ.get("FAIRLEAD_TOKEN_FILE") else None)
    if named is None:
        return ""
    try:
        return named.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("the token cannot be read", where=str(named), remedy="check the path") from error


def request_server_health(url: str, token: str, authority: Path | None = None, *, which: str = ALL) -> Health:
    """What the server says of itself; `which` sources one by one (`collector.health`). Raises NoAnswerError,
    ServerError."""
    status, body = _get(url, f"/api/v1/health?sources={which}", token, authority)
    if status != 200:
        raise build_server_refusal(url, status, body)
    try:
        return msgspec.json.decode(body, type=Health)
    except msgspec.DecodeError as error:
        raise ServerError("it responds, but not as a fairlead server", where=url) from error


def _get(url: str, path: str, token: str, authority: Path | None = None) -> tuple[int, bytes]:
    """Status and body of one GET. `url`: http://HOST:PORT, https://HOST:PORT or unix:PATH. Raises NoAnswerError."""
    return exchange_with_server(url, "GET", path, token, authority)


def exchange_with_server(
    url: str, method: str, path: str, token: str, authority: Path | None = None, body: bytes | None = None
) -> tuple[int, bytes]:
    """As `get`, with any method and a body."""
    connection = _connection(url, authority)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST)
    except ssl.SSLError as error:
        raise NoAnswerError(
            f"its certificate is not trusted: {error.reason or error}", where=url, remedy="give --ca FILE"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAnswerError(
            f"no response: {what.lower()}", where=url, remedy="start it (fairlead up), or choose another: --server URL"
        ) from error
    finally:
        connection.close()


def _connection(url: str, authority: Path | None) -> http.client.HTTPConnection:
    if url.startswith("unix:"):
        return _UnixConnection(url.removeprefix("unix:"))
    parts = urlsplit(url if "//" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise UsageError(f"not a server address: {url!r}", remedy="write http://HOST:PORT, https://... or unix:PATH")
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            parts.hostname, port or 8571, timeout=TIMEOUT_S, context=build_tls_client_context(authority)
        )
    return http.client.HTTPConnection(parts.hostname, port or 8571, timeout=TIMEOUT_S)


def build_server_refusal(url: str, status: int, body: bytes) -> ServerError:
    """The error for an answer that is none."""
    try:
        told = msgspec.json.decode(body)
        what, remedy = str(told["error"]), str(told.get("remedy") or "")
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        what, remedy = f"status {status}", ""
    if status in (401, 403):
        remedy = "give --token FILE; to make one: fairlead token issue --key FILE --role reader"
    return ServerError(f"it refused ({status}): {what}", where=url, remedy=remedy or None)
