"""What commands that ask a question share: a lake here or a server there, a time span, the form of the answer.

The same question goes either way, and the same struct comes back. Not here: drawing, what a page shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead.cli.options import FILE, add_lake_option, add_options, html_option
from fairlead.cli.printing import print_json
from fairlead.core.errors import InputError, NoAnswerError, RefusedError, ServerError, UsageError

if TYPE_CHECKING:
    import msgspec
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Answer

    Parts = Callable[[Any, int], Sequence[RenderableType]]

F = TypeVar("F", bound=Callable[..., Any])
_TIMEOUT_S = 40.0
_MAX_ANSWER = 256 << 20
_WHERE = (
    add_lake_option("Ask this lake. Default: $FAIRLEAD_LAKE, else fairlead/lake in your data folder."),
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
        type=FILE,
        metavar="FILE",
        envvar="FAIRLEAD_TOKEN_FILE",
        show_envvar=True,
        help="File with your reader token for the server.",
    ),
    click.option(
        "--ca",
        "authority",
        type=FILE,
        metavar="FILE",
        help="Certificates (PEM) to verify the server with. Default: the system's.",
    ),
)
_WHEN = (
    click.option(
        "--last", default="", metavar="AGE", help="Length of the time span, up to now, --to or --at: 90s, 5m, 2h, 7d."
    ),
    click.option(
        "--from",
        "from_",
        default="",
        metavar="TIME",
        help="Start: 2026-11-21, 2026-11-21T08:00 (UTC, or with a zone), -2h, or seconds since 1970.",
    ),
    click.option("--to", default="", metavar="TIME", help="End. Default: now."),
    click.option("--at", default="", metavar="TIME", help="State at this time (with --last: the span that ends then)."),
)
where_options = add_options(_WHERE)
"""--lake, --server, --token, --ca."""


@dataclass(frozen=True)
class Request:
    """Whom to ask, about which time, and in which form to show the answer."""

    asker: Asker
    when: dict[str, str]
    as_json: bool
    html: Path | None = None

    def show(
        self,
        question: str,
        name: str = "",
        *,
        parts: Parts,
        page: Callable[[Any], str] | None = None,
        **words: object,
    ) -> None:
        """Ask a question of the catalogue and show the answer: `parts` on a terminal, `page` as HTML.

        Raises what `Asker.ask` raises, and UsageError if the HTML page cannot be written.
        """
        print_asked_answer(
            self.asker.ask(question, name, **words, **self.when), parts, page, self.html, as_json=self.as_json
        )


def add_ask_options(*, timed: bool = True, html: bool = False) -> Callable[[F], F]:
    """Return a decorator with the options of a question: --html, where, when, --json.

    The command gets them as one `Request`, its first argument. `timed=False` is for questions without a time span.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def run(
            root: Path | None,
            server: str | None,
            token: Path | None,
            authority: Path | None,
            as_json: bool,
            html: Path | None = None,
            **words: Any,
        ) -> None:
            when: dict[str, str] = {name: words.pop(name) for name in ("last", "from_", "to", "at") if name in words}
            command(Request(Asker(root, server, token, authority), when, as_json, html), **words)

        json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
        chosen = [*([html_option] if html else []), *_WHERE, *(_WHEN if timed else []), json]
        return add_options(chosen)(run)  # type: ignore[return-value]

    return decorate


class Asker:
    """Asks a lake in this process, or a server."""

    def __init__(
        self, root: Path | None, server: str | None, token: Path | None, authority: Path | None = None
    ) -> None:
        """`root` overrides `server`. Raises UsageError, InputError; LakeError with the first question."""
        if root is not None and server and os.environ.get("FAIRLEAD_API") != server:
            raise UsageError("--lake and --server exclude each other", remedy="give one of them")
        self._root = root
        self._server = None if root is not None else server
        self._token = _read_token(token) if self._server and token is not None else ""
        self._authority = authority
        self._asking: Any = None

    def ask(self, question: str, name: str = "", **words: object) -> Answer:
        """Return the answer to a question of `questions.question_catalog`; `words` that are empty or None are left out.

        Raises UsageError (also for an unknown name), LakeError, NoAnswerError, RefusedError, ServerError.
        """
        from fairlead.explain.questions.question_catalog import parse_question_parameters

        given = {key.rstrip("_"): _format_word(value) for key, value in words.items() if value not in ("", None, False)}
        asked = parse_question_parameters(question, given)
        if self._server is not None:
            return self._ask_server(self._server, question, name, given)
        return self._ask_lake(question, name, asked)

    def _ask_lake(self, question: str, name: str, asked: msgspec.Struct) -> Answer:
        from fairlead.core import clock
        from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
        from fairlead.explain.questions.question import Asking
        from fairlead.explain.questions.question_catalog import answer_question
        from fairlead.store.lake import Lake
        from fairlead.store.lake_folder import find_default_lake_folder

        if self._asking is None:
            self._asking = Asking(Lake.open(self._root or find_default_lake_folder()))
        try:
            return answer_question(self._asking, question, name, asked, Sight(), clock.now_ns())
        except UnknownNameError as unknown:
            raise UsageError(str(unknown), remedy=_suggest(unknown.near, question)) from None

    def _ask_server(self, server: str, question: str, name: str, words: dict[str, str]) -> Answer:
        import msgspec

        from fairlead.explain.questions.question_catalog import list_questions

        url = _build_url(server, list_questions()[question].path, question, name, words)
        body = self._get(url)
        try:
            return msgspec.json.decode(body, type=list_questions()[question].answer)
        except msgspec.DecodeError as error:
            raise ServerError(
                f"not a fairlead response: {error}", where=url, remedy="check --server, or upgrade fairlead"
            ) from error

    def _get(self, url: str) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPSHandler, Request, build_opener

        from fairlead.core.access.redirects import NoRedirect
        from fairlead.core.access.tls import build_tls_client_context

        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        handlers = [HTTPSHandler(context=build_tls_client_context(self._authority))] if url.startswith("https:") else []
        opener = build_opener(*handlers, NoRedirect())
        try:
            with opener.open(Request(url, headers=headers), timeout=_TIMEOUT_S) as reply:  # noqa: S310 (checked: http or https)
                return _decompress(reply.read(_MAX_ANSWER), reply.headers.get("Content-Encoding", ""))
        except HTTPError as error:
            with error:
                raise _read_refusal(error.code, error.read(65536), url) from None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise NoAnswerError(
                f"the server does not respond: {reason}",
                where=url.partition("/api/")[0],
                remedy="check --server, and that the server is running",
            ) from error


def _read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "not text"
        raise InputError(f"the token cannot be read: {what}", where=str(path), remedy="give --token FILE") from error


def _format_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _build_url(server: str, path: str, question: str, name: str, words: dict[str, str]) -> str:
    from urllib.parse import quote, urlencode, urlsplit

    parts = urlsplit(server if "//" in server else f"https://{server}")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"not a server address: {server!r}", remedy="write https://host:port")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    below = path.format(name=quote(name, safe="")) if "{name}" in path else path
    if question == "mds" and name:
        below = f"{path}/{quote(name, safe='')}"
    return f"{base}/api/v1/{below}" + (f"?{urlencode(words)}" if words else "")


def _decompress(data: bytes, encoding: str) -> bytes:
    if encoding != "gzip":
        return data
    import zlib

    return zlib.decompressobj(31).decompress(data, _MAX_ANSWER)


def _read_refusal(status: int, body: bytes, url: str) -> Exception:
    """Return the error for a refused request."""
    import json

    try:
        answer = json.loads(body)
        what, remedy = str(answer["error"]), str(answer.get("remedy") or "") or None
    except (ValueError, KeyError, TypeError):
        what, remedy = f"the server returned {status}", "check --server: this is not the fairlead API"
    where = url.partition("/api/")[0]
    if status in (401, 403):
        return RefusedError(what, where=where, remedy=remedy or "give a reader token with --token FILE")
    if status in (400, 404):
        return UsageError(what, remedy=remedy)
    if status in (429, 503):
        return NoAnswerError(what, where=where, remedy=remedy)
    return ServerError(what, where=where, remedy=remedy)


def _suggest(names: list[str], question: str) -> str:
    if names:
        return f"similar names: {', '.join(names)}"
    return {
        "job": "fairlead job list --last 7d",
        "why": "fairlead job list --last 7d",
        "component_health": "fairlead component list --all",
        "finding": "fairlead finding list --last 7d",
        "target": "fairlead target list",
        "mds": "fairlead mds show",
        "forwarder": "fairlead forwarder list",
    }.get(question, "fairlead system show")


def print_asked_answer(
    answer: Any, parts: Parts, page: Callable[[Any], str] | None, html: Path | None, *, as_json: bool
) -> None:
    """Write the answer as a page to the file `html` and as JSON, as asked for; else print `parts` for the terminal.

    Raises UsageError if the file cannot be written.
    """
    if html is not None and page is not None:
        _save_page(html, page(answer))
    if as_json:
        print_json(answer)
    if not as_json and html is None:
        from fairlead.cli.pictures import build_picture_console

        console = build_picture_console()
        for part in parts(answer, console.width):
            console.print(part)


def _save_page(path: Path, text: str) -> None:
    """Write a page to a file, whole or not at all. Raises UsageError if it cannot be written."""
    from fairlead.cli.printing import print_message
    from fairlead.cli.report import write_report_file
    from fairlead.core.safe_text import escape_text

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_report_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise UsageError(f"cannot be written: {what}", where=str(path), remedy="name another file") from fault
    print_message(f"page: {escape_text(str(path))}")
