"""What the commands that ask have in common: a lake here or a server there, when, and as JSON. Not here: drawing.

The same question goes either way, and the same struct comes back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead.core.errors import InputError, NoAnswerError, RefusedError, ServerError, UsageError

if TYPE_CHECKING:
    import msgspec

    from fairlead.explain.questions.answers import Answer

F = TypeVar("F", bound=Callable[..., Any])
_TIMEOUT_S = 40.0
_MAX_ANSWER = 256 << 20
_WHERE = (
    click.option(
        "--lake",
        "root",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Ask this lake. Default: $FAIRLEAD_LAKE, else fairlead/lake in your data folder.",
    ),
    click.option(
        "--server",
        metavar="URL",
        envvar="FAIRLEAD_API",
        show_envvar=True,
        help="Ask a server (https://host:port) instead of a lake.",
    ),
    click.option(
        "--token",
        "token",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="FAIRLEAD_TOKEN_FILE",
        show_envvar=True,
        help="File with your reader's token for the server.",
    ),
    click.option(
        "--ca",
        "authority",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Certificates (PEM) the server's is checked with. Default: the system's.",
    ),
)
_WHEN = (
    click.option("--last", default="", metavar="AGE", help="So long, up to now or to --to or --at: 90s, 5m, 2h, 7d."),
    click.option(
        "--from",
        "from_",
        default="",
        metavar="TIME",
        help="From then on: 2026-11-21, 2026-11-21T08:00 (UTC, or with a zone), -2h, or seconds since 1970.",
    ),
    click.option("--to", default="", metavar="TIME", help="Until then. Default: now."),
    click.option("--at", default="", metavar="TIME", help="As it was then (with --last: that long before it)."),
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def where_options(command: F) -> F:
    """--lake, --server, --token, --ca."""
    for option in reversed(_WHERE):
        command = option(command)
    return command


def asking_options(command: F) -> F:
    """The options every question takes: where, when, --json."""
    command = _json_option(command)
    for option in reversed(_WHEN):
        command = option(command)
    return where_options(command)


class Asker:
    """Asks a lake in this process, or a server."""

    def __init__(
        self, root: Path | None, server: str | None, token: Path | None, authority: Path | None = None
    ) -> None:
        """`root` counts over `server`. Raises UsageError, InputError; LakeError with the first question."""
        if root is not None and server and os.environ.get("FAIRLEAD_API") != server:
            raise UsageError("--lake and --server both say whom to ask", remedy="give one of them")
        self._root = root
        self._server = None if root is not None else server
        self._token = _token(token) if self._server and token is not None else ""
        self._authority = authority
        self._asking: Any = None

    def ask(self, question: str, name: str = "", **words: object) -> Answer:
        """The answer to a question of `questions.catalog`; `words` that are empty or None are left out.

        Raises UsageError (also for a name nobody knows), LakeError, NoAnswerError, RefusedError, ServerError.
        """
        from fairlead.explain.questions.catalog import asked_of

        given = {key.rstrip("_"): _word(value) for key, value in words.items() if value not in ("", None, False)}
        asked = asked_of(question, given)
        if self._server is not None:
            return self._ask_server(self._server, question, name, given)
        return self._ask_lake(question, name, asked)

    def _ask_lake(self, question: str, name: str, asked: msgspec.Struct) -> Answer:
        from fairlead.core import clock
        from fairlead.explain.questions.catalog import ask
        from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
        from fairlead.explain.questions.question import Asking
        from fairlead.store.folder import find_default_lake
        from fairlead.store.lake import Lake

        if self._asking is None:
            self._asking = Asking(Lake.open(self._root or find_default_lake()))
        try:
            return ask(self._asking, question, name, asked, Sight(), clock.now_ns())
        except UnknownNameError as unknown:
            raise UsageError(str(unknown), remedy=_like(unknown.near, question)) from None

    def _ask_server(self, server: str, question: str, name: str, words: dict[str, str]) -> Answer:
        import msgspec

        from fairlead.explain.questions.catalog import QUESTIONS

        url = _url(server, QUESTIONS[question].path, question, name, words)
        body = self._get(url)
        try:
            return msgspec.json.decode(body, type=QUESTIONS[question].answer)
        except msgspec.DecodeError as error:
            raise ServerError(
                f"the answer is none of fairlead's: {error}", where=url, remedy="check --server, or upgrade fairlead"
            ) from error

    def _get(self, url: str) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPSHandler, Request, build_opener

        from fairlead.core.access.redirects import NoRedirect
        from fairlead.core.access.tls import client_context

        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        handlers = [HTTPSHandler(context=client_context(self._authority))] if url.startswith("https:") else []
        opener = build_opener(*handlers, NoRedirect())
        try:
            with opener.open(Request(url, headers=headers), timeout=_TIMEOUT_S) as reply:  # noqa: S310 (checked: http or https)
                return _body(reply.read(_MAX_ANSWER), reply.headers.get("Content-Encoding", ""))
        except HTTPError as error:
            with error:
                raise _refused(error.code, error.read(65536), url) from None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise NoAnswerError(
                f"no server answers: {reason}",
                where=url.partition("/api/")[0],
                remedy="check --server, and that it runs",
            ) from error


def _token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "not text"
        raise InputError(f"the token cannot be read: {what}", where=str(path), remedy="give --token FILE") from error


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _url(server: str, path: str, question: str, name: str, words: dict[str, str]) -> str:
    from urllib.parse import quote, urlencode, urlsplit

    parts = urlsplit(server if "//" in server else f"https://{server}")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"no server: {server!r}", remedy="write https://host:port")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    below = path.format(name=quote(name, safe="")) if "{name}" in path else path
    if question == "mds" and name:
        below = f"{path}/{quote(name, safe='')}"
    return f"{base}/api/v1/{below}" + (f"?{urlencode(words)}" if words else "")


def _body(data: bytes, encoding: str) -> bytes:
    if encoding != "gzip":
        return data
    import zlib

    return zlib.decompressobj(31).decompress(data, _MAX_ANSWER)


def _refused(status: int, body: bytes, url: str) -> Exception:
    """The error that a refusal of the server stands for."""
    import json

    try:
        told = json.loads(body)
        what, remedy = str(told["error"]), str(told.get("remedy") or "") or None
    except (ValueError, KeyError, TypeError):
        what, remedy = f"the server answers {status}", "check --server: this is no API of fairlead"
    where = url.partition("/api/")[0]
    if status in (401, 403):
        return RefusedError(what, where=where, remedy=remedy or "give a reader's token with --token FILE")
    if status in (400, 404):
        return UsageError(what, remedy=remedy)
    if status in (429, 503):
        return NoAnswerError(what, where=where, remedy=remedy)
    return ServerError(what, where=where, remedy=remedy)


def _like(names: list[str], question: str) -> str:
    if names:
        return f"names like it: {', '.join(names)}"
    return {
        "job": "fairlead jobs --last 7d lists what is known",
        "why": "fairlead jobs --last 7d lists what is known",
        "component_health": "fairlead health --all lists what is known",
        "finding": "fairlead findings --last 7d lists what is known",
        "target": "fairlead target lists what is known",
        "mds": "fairlead mds lists what is known",
        "forwarder": "fairlead forwarders lists what is known",
    }.get(question, "fairlead system shows what is known")


def show_json(answer: Answer) -> None:
    """The answer on stdout, indented."""
    import msgspec

    from fairlead.core.safe_text import encodable_within

    click.echo(msgspec.json.format(msgspec.json.encode(encodable_within(answer)), indent=2).decode())
