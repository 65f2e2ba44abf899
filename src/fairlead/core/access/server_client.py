"""How every command reaches a server: its address, the token, one request. Standard library and small: starts fast.

One definition of what an address looks like and of what a refusal becomes. Not here: the variables that name a server
(`server_variables`), what is asked for (`cli.ask`, `run.server_client`), the collector agents send to (`see.agent`).
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import zlib
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from fairlead.core.access.server_variables import TOKEN_VARIABLES
from fairlead.core.access.tls import build_tls_client_context
from fairlead.core.errors import FairleadError, InputError, NoAnswerError, RefusedError, ServerError, UsageError

TIMEOUT_S = 40.0
_LARGEST = 256 << 20
_HOW_TO_SIGN_IN = (
    f"give --token FILE or ${TOKEN_VARIABLES[0]}; there: fairlead token issue --key server.key --role reader"
)


def request_server(
    address: str,
    path: str,
    *,
    token: str = "",
    authority: Path | None = None,
    method: str = "GET",
    body: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """Return the body of the answer to one request (path with query below `address`); redirects are not followed.

    `address`: https://HOST:PORT, http://HOST:PORT (a path may follow), HOST:PORT (https) or unix:PATH. Raises
    UsageError for another address, 400 and 404; RefusedError (401, 403), NoAnswerError (no response, 429, 503),
    ServerError (anything else).
    """
    connection, base = _open_connection(address, authority, timeout_s)
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, base + path, body, headers)
        answer = connection.getresponse()
        data = answer.read(_LARGEST)
    except ssl.SSLError as error:
        raise NoAnswerError(
            f"its certificate is not trusted: {error.reason or error}", where=address, remedy="give --ca FILE"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAnswerError(
            f"the server does not respond: {what.lower()}",
            where=address,
            remedy="check --server, and that the server is running (fairlead up)",
        ) from error
    finally:
        connection.close()
    if answer.getheader("Content-Encoding", "") == "gzip":
        data = zlib.decompressobj(31).decompress(data, _LARGEST)
    if answer.status != 200:
        raise _build_refusal(address, answer.status, data)
    return data


def read_server_token(file: Path | None) -> str:
    """Return the token in `file`; empty for None. Raises InputError."""
    if file is None:
        return ""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "not text"
        raise InputError(f"the token cannot be read: {what}", where=str(file), remedy="give --token FILE") from error


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path, self._timeout_s = path, timeout_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(self._path)


def _open_connection(address: str, authority: Path | None, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
    """A connection to be opened, and the path in front of every request."""
    if address.startswith("unix:"):
        return _UnixConnection(address.removeprefix("unix:"), timeout_s), ""
    parts = urlsplit(address if "//" in address else f"https://{address}")
    port = _read_port(parts)
    if parts.scheme not in ("http", "https") or not parts.hostname or port < 0 or parts.query or parts.fragment:
        raise UsageError(
            f"not a server address: {address!r}", remedy="write https://HOST:PORT, http://HOST:PORT or unix:PATH"
        )
    base = parts.path.rstrip("/")
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, port or None, timeout=timeout_s), base
    context = build_tls_client_context(authority)
    return http.client.HTTPSConnection(parts.hostname, port or None, timeout=timeout_s, context=context), base


def _read_port(parts: SplitResult) -> int:
    try:
        return parts.port or 0
    except ValueError:
        return -1


def _build_refusal(address: str, status: int, body: bytes) -> FairleadError:
    """The error for a refused request."""
    try:
        answer = json.loads(body)
        what, remedy = str(answer["error"]), str(answer.get("remedy") or "") or None
    except (ValueError, KeyError, TypeError, AttributeError):
        what = f"the server returned {status}"
        remedy = "check --server: it takes the API's address (port 8572 by default)"
    if status == 401:  # what the server advises is for programs and pages
        return RefusedError(what, where=address, remedy=_HOW_TO_SIGN_IN)
    if status == 403:
        return RefusedError(what, where=address, remedy=remedy)
    if status in (400, 404):
        return UsageError(what, where=address, remedy=remedy)
    if status in (429, 503):
        return NoAnswerError(what, where=address, remedy=remedy)
    return ServerError(what, where=address, remedy=remedy)
