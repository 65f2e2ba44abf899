"""The API as an ASGI application: every question under its path, once or followed, and what describes them all.

Everything it answers itself is of `questions.question_catalog`. Not here: listening and TLS (the server), the answers
(`list_openapi_operations`), who asks (`identity`, `signin`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

import fairlead
from fairlead.core.clock import now_ns
from fairlead.core.errors import UsageError
from fairlead.core.safe_text import escape_undecodable_text
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import (
    format_question_parameters,
    list_questions,
    parse_question_parameters,
)
from fairlead.show.web.api import openapi
from fairlead.show.web.api.answers import Answering
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.api.live_stream import Board, parse_live_interval
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.guard.response_sending import Outgoing
from fairlead.show.web.identity import READ, Door, Person, RefusedError, require_identity_scope
from fairlead.show.web.token_authentication import TokenDoor

ROOT = "/api/v1"
_MAX_QUERY = 4096
_MAX_NAME = 256
_DAY_NS = 86_400_000_000_000
_ENCODE = msgspec.json.Encoder()
_SAFE = {"x-content-type-options": "nosniff"}
_LAST_NAME = re.compile(r"\{name\}$")
PING = Operation(method="GET", path="ping", about="Version and time.", open=True, tag="server")
DOCUMENT = Operation(method="GET", path="openapi.json", about="This document.", open=True, tag="server")
Followed = Callable[[Person, str], bytes]
"""Something else that can be followed: the person and the rest of the path to JSON; called in a thread. Raises
RefusedError."""


def build_api_app(
    asking: Asking,
    settings: ApiSettings,
    *,
    clock: Callable[[], int] = now_ns,
    door: Door | None = None,
    more: Sequence[BaseRoute] = (),
    guards: Sequence[Middleware] = (),
    described: Sequence[Operation] = (),
    followed: Mapping[str, Followed] | None = None,
) -> Starlette:
    """The application. `asking` names the lake; `clock` tells the time (epoch ns); `door`: who asks (None: tokens made
    with the key of the settings); `more`: routes of others, `described` what they are; `guards` see every request
    first, the first outermost; `followed`: what can be followed besides questions, by the first word of its path."""
    asking.longest_ns = min(asking.longest_ns, settings.longest_days * _DAY_NS)
    api = _Api(asking, settings, clock, door or TokenDoor(settings.key, clock), followed or {})
    document = _ENCODE.encode(openapi.build_openapi_document(list_api_operations(described), ROOT))

    async def told(request: Request) -> Response:
        return _kept(request, document, 3600)

    routes: list[BaseRoute] = [
        Route(f"{ROOT}/ping", api.ping, methods=["GET"]),
        Route(f"{ROOT}/openapi.json", told, methods=["GET"]),
        Route(f"{ROOT}/live/{{path:path}}", api.follow, methods=["GET"]),
    ]
    pages = [route for route in more if not getattr(route, "path", "").startswith(ROOT)]
    routes += [route for route in more if route not in pages]
    routes += [
        # A name may hold slashes (a port of a switch): only where nothing follows it.
        Route(f"{ROOT}/{_LAST_NAME.sub('{name:path}', question.path)}", api.endpoint(name), methods=["GET"], name=name)
        for name, question in list_questions().items()
    ]
    routes += [
        Route(f"{ROOT}/mds/{{name:path}}", api.endpoint("mds"), methods=["GET"]),
        Route(f"{ROOT}/{{path:path}}", _nothing),
        *pages,
        Route("/{path:path}", _nothing),
    ]
    if settings.warm:
        api.answering.warm()
    compress = Middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    answers = {HTTPException: _of_starlette, RefusedError: _of_refusal}
    return Starlette(routes=routes, middleware=[*guards, Middleware(Outgoing), compress], exception_handlers=answers)  # type: ignore[arg-type]


def list_api_operations(described: Sequence[Operation] = ()) -> list[Operation]:
    """Every operation there is: questions, what follows them, and those of others."""
    return [*openapi.list_openapi_operations(), openapi.FOLLOWING, PING, DOCUMENT, *described]


class _Api:
    def __init__(
        self,
        asking: Asking,
        settings: ApiSettings,
        clock: Callable[[], int],
        door: Door,
        followed: Mapping[str, Followed],
    ) -> None:
        self.answering = Answering(asking, settings, clock)
        self._door = door
        self._settings = settings
        self._clock = clock
        self._followed = followed
        self._board = Board(door, settings.live_at_once, settings.live_each)
        paths = {**{name: question.path for name, question in list_questions().items()}, "mds": "mds/{name}"}
        self._paths = [(name, _pattern(path)) for name, path in paths.items()] + [("mds", _pattern("mds"))]

    async def ping(self, request: Request) -> Response:  # noqa: ARG002
        """Version and time; needs no token."""
        return _json({"schema": "fairlead.ping/1", "version": fairlead.__version__, "now_ns": self._clock()})

    def endpoint(self, question: str) -> Callable[[Request], Awaitable[Response]]:
        """What answers one question."""

        async def answer(request: Request) -> Response:
            person = self._reader(request)
            asked = _asked(question, _words(request))
            name = _named(str(request.path_params.get("name", "")))
            body, past = await self.answering.answer(question, name, asked, person.sight, person.key)
            return _kept(request, body, self._settings.past_s if past else self._settings.live_s)

        return answer

    def _reader(self, request: Request) -> Person:
        person = self._door.identify_person(request)
        require_identity_scope(person, READ)
        return person

    async def follow(self, request: Request) -> Response:
        """The same question, again when its answer changes."""
        if request.method == "HEAD":  # a stream without a body would never end
            raise RefusedError(405, "method not allowed", "GET", {"allow": "GET"})
        person = self._reader(request)
        words = _words(request)
        every_s = parse_live_interval(words.pop("every", None))
        path = str(request.path_params["path"])
        first, _, rest = path.partition("/")
        if first in self._followed:
            call = self._followed[first]
            call(person, rest)  # refused at once rather than in the stream

            async def look() -> bytes:
                return await self.answering.call(lambda: call(person, rest), f"live {person.key}")

            # Who looks is part of the key: what a session may can change while others of it still follow.
            return self._board.follow(request, person, (first, rest, person), look, every_s)
        question, name = self._question(path)
        asked = _asked(question, words)
        sight = person.sight

        async def asking() -> bytes:
            return (await self.answering.answer(question, name, asked, sight, f"live {question} {name}"))[0]

        key = (question, name, tuple(sorted(format_question_parameters(asked).items())), sight, every_s)
        return self._board.follow(request, person, key, asking, every_s)

    def _question(self, path: str) -> tuple[str, str]:
        for question, pattern in self._paths:
            found = pattern.fullmatch(path)
            if found is not None:
                return question, _named(found.groupdict().get("name") or "")
        raise RefusedError(404, "there is no such question to follow", f"{ROOT}/openapi.json lists them")


def _pattern(path: str) -> re.Pattern[str]:
    head, found, tail = path.partition("{name}")
    middle = ("(?P<name>[^/]+)" if tail else "(?P<name>.+)") if found else ""
    return re.compile(re.escape(head) + middle + re.escape(tail))


def _named(name: str) -> str:
    if len(name) > _MAX_NAME:
        raise RefusedError(400, "the name is too long")
    return name


def _words(request: Request) -> dict[str, str]:
    """The parameters as they were sent. Refuses 400."""
    if len(request.url.query) > _MAX_QUERY:
        raise RefusedError(400, "the query string is too long")
    words: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in words:
            raise RefusedError(400, f"the parameter {key!r} is given twice")
        words[key] = value
    return words


def _asked(question: str, words: dict[str, str]) -> msgspec.Struct:
    try:
        return parse_question_parameters(question, words)
    except UsageError as error:
        raise RefusedError(400, error.what, error.remedy or "") from None


def _kept(request: Request, body: bytes, seconds: int) -> Response:
    """An answer a cache of the reader's own may keep; 304 where it is known already."""
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "cache-control": f"private, max-age={seconds}", "vary": "Authorization, Cookie"}
    known = [word.strip().removeprefix("W/") for word in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers | _SAFE)


async def _nothing(request: Request) -> Response:  # noqa: ARG001
    return build_api_refusal(RefusedError(404, "there is no such page", f"{ROOT}/openapi.json lists all questions"))


async def _of_refusal(request: Request, refusal: RefusedError) -> Response:  # noqa: ARG001
    return build_api_refusal(refusal)


async def _of_starlette(request: Request, error: HTTPException) -> Response:  # noqa: ARG001
    headers = dict(error.headers or {})
    what = {405: "method not allowed", 404: "there is no such page"}.get(error.status_code, str(error.detail))
    return build_api_refusal(RefusedError(error.status_code, what, headers=headers))


def build_api_refusal(refusal: RefusedError) -> Response:
    """A refusal as every endpoint sends it."""
    document = {"error": refusal.what, "remedy": refusal.remedy}
    return _json(document, refusal.status, {"cache-control": "no-store", **refusal.headers})


def _json(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = _ENCODE.encode(escape_undecodable_text(document))
    return Response(body, status, media_type="application/json", headers=(headers or {}) | _SAFE)
