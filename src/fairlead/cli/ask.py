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

from fairlead.cli.options import add_lake_option, add_options, add_server_options, html_option
from fairlead.cli.printing import print_json
from fairlead.core.access.server_variables import ADDRESS_VARIABLES
from fairlead.core.errors import ServerError, UsageError

if TYPE_CHECKING:
    import msgspec
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import Answer

    Parts = Callable[[Any, int], Sequence[RenderableType]]

F = TypeVar("F", bound=Callable[..., Any])
_WHERE = (
    add_lake_option("Ask this lake. Default: $FAIRLEAD_LAKE, else fairlead/lake in your data folder."),
    add_server_options(),
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
        if root is not None and server and server not in map(os.environ.get, ADDRESS_VARIABLES):
            raise UsageError("--lake and --server exclude each other", remedy="give one of them")
        from fairlead.core.access.server_client import read_server_token

        self._root = root
        self._server = None if root is not None else server
        self._token = read_server_token(token) if self._server else ""
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

        from fairlead.core.access.server_client import request_server
        from fairlead.explain.questions.question_catalog import list_questions

        path = _build_path(list_questions()[question].path, question, name, words)
        body = request_server(server, path, token=self._token, authority=self._authority)
        try:
            return msgspec.json.decode(body, type=list_questions()[question].answer)
        except msgspec.DecodeError as error:
            raise ServerError(
                f"not a fairlead response: {error}", where=server, remedy="check --server, or upgrade fairlead"
            ) from error


def _format_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _build_path(path: str, question: str, name: str, words: dict[str, str]) -> str:
    from urllib.parse import quote, urlencode

    below = path.format(name=quote(name, safe="")) if "{name}" in path else path
    if question == "mds" and name:
        below = f"{path}/{quote(name, safe='')}"
    return f"/api/v1/{below}" + (f"?{urlencode(words)}" if words else "")


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
