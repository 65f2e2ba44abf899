"""The API as an ASGI application: checks the token and the parameters, asks in a thread, answers JSON.

Everything it serves is of `questions.catalog`. Not here: listening and TLS (the server), the answers (`questions`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

import fairlead
from fairlead.access.tokens import OPERATOR, READER, Claims, RoleError, check
from fairlead.clock import now_ns
from fairlead.errors import FairleadError, LakeError, UsageError
from fairlead.inert import encodable_within
from fairlead.questions.asking import Sight, UnknownNameError
from fairlead.questions.catalog import QUESTIONS, Asking, ask, asked_of
from fairlead.web.api.gate import BusyError, Gate
from fairlead.web.api.settings import ApiSettings

ROOT = "/api/v1"
_LOG = logging.getLogger("fairlead.api")
_MAX_QUERY = 4096
_DAY_NS = 86_400_000_000_000
_ENCODE = msgspec.json.Encoder()
_EVERYONE = Claims(expires_s=0, role=OPERATOR)
_BUSY = {
    "own": (429, "you have as many questions under way as one reader may"),
    "full": (429, "too many questions wait already"),
    "late": (503, "no place came free in time"),
}


class _RefusedError(Exception):
    """A request that is not answered: status, what, and the next step."""

    def __init__(self, status: int, what: str, remedy: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(what)
        self.status, self.what, self.remedy, self.headers = status, what, remedy, headers or {}


def application(
    asking: Asking, settings: ApiSettings, *, clock: Callable[[], int] = now_ns, more: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application. `asking` names the lake; `clock` tells the time (epoch ns); `more`: pages of others."""
    asking.longest_ns = min(asking.longest_ns, settings.longest_days * _DAY_NS)
    api = _Api(asking, settings, clock)
    routes: list[BaseRoute] = [
        Route(f"{ROOT}/{question.path}", api.endpoint(name), methods=["GET"], name=name)
        for name, question in QUESTIONS.items()
    ]
    routes += [
        Route(f"{ROOT}/mds/{{name}}", api.endpoint("mds"), methods=["GET"]),
        Route(f"{ROOT}/ping", api.ping, methods=["GET"]),
        *more,
        Route("/{path:path}", _nothing, methods=["GET"]),
    ]
    if settings.warm:
        api.warm()
    compress = Middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    return Starlette(routes=routes, middleware=[compress])


class _Api:
    def __init__(self, asking: Asking, settings: ApiSettings, clock: Callable[[], int]) -> None:
        self._asking = asking
        self._settings = settings
        self._clock = clock
        each = settings.user_at_once if settings.key is not None else settings.at_once + settings.waiting
        self._gate = Gate(settings.at_once, settings.waiting, settings.wait_s, each)
        self._threads = ThreadPoolExecutor(settings.at_once, thread_name_prefix="question")

    def warm(self) -> None:
        """Asks once, in a thread, what is kept between questions."""
        for question in ("heatmap", "cdf"):
            self._threads.submit(self._ask, question, "", asked_of(question, {}), Sight(), self._clock())

    async def ping(self, request: Request) -> Response:  # noqa: ARG002
        """Version and time; needs no token."""
        return _json({"schema": "fairlead.ping/1", "version": fairlead.__version__, "now_ns": self._clock()})

    def endpoint(self, question: str) -> Callable[[Request], object]:
        """What answers one question."""

        async def answer(request: Request) -> Response:
            try:
                return await self._answer(question, request)
            except _RefusedError as refusal:
                return _refusal(refusal)

        return answer

    async def _answer(self, question: str, request: Request) -> Response:
        claims, reader = self._claims(request)
        asked = _asked(question, request)
        name = str(request.path_params.get("name", ""))
        if len(name) > 256:
            raise _RefusedError(400, "the name is too long")
        sight = Sight(claims.user if claims.role == READER else "")
        moment = self._clock()
        body, past = await self._work(question, name, asked, sight, moment, reader)
        return self._reply(request, body, past=past)

    def _claims(self, request: Request) -> tuple[Claims, str]:
        """Whose token it is, and a name for who holds it. Refuses 401, 403."""
        if self._settings.key is None:
            return _EVERYONE, "everyone"
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            token = token.strip() if kind.lower() == "bearer" else ""
            claims = check(self._settings.key, token, self._clock(), (READER, OPERATOR))
        except RoleError as error:
            raise _RefusedError(
                403, str(error), "ask for a reader's token: fairlead token issue --role reader"
            ) from None
        except ValueError as error:
            headers = {"www-authenticate": 'Bearer realm="fairlead"'}
            raise _RefusedError(401, str(error), "send Authorization: Bearer TOKEN", headers) from None
        return claims, blake2b(token.encode(), digest_size=8).hexdigest()

    async def _work(
        self, question: str, name: str, asked: msgspec.Struct, sight: Sight, moment: int, reader: str
    ) -> tuple[bytes, bool]:
        """The answer as JSON, and whether it is of the past only. Refuses 400, 404, 429, 503, 500."""
        try:
            await self._gate.enter(reader)
        except BusyError as busy:
            status, what = _BUSY[busy.why]
            raise _RefusedError(status, what, "ask again later", {"retry-after": "1"}) from None
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._ask, question, name, asked, sight, moment)
        work.add_done_callback(lambda done: self._done(done, reader))
        try:
            return await asyncio.wait_for(asyncio.shield(work), self._settings.answer_s)
        except TimeoutError:
            what = f"the answer takes longer than {self._settings.answer_s:g} s"
            raise _RefusedError(503, what, "ask about less time", {"retry-after": "5"}) from None
        except UnknownNameError as unknown:
            like = f"names like it: {', '.join(unknown.near)}" if unknown.near else ""
            raise _RefusedError(404, str(unknown), like) from None
        except UsageError as error:
            raise _RefusedError(400, error.what, error.remedy or "") from None
        except FairleadError as error:
            _LOG.warning("%s: %s", question, error)
            status = 503 if isinstance(error, LakeError) else 500
            raise _RefusedError(status, "the lake cannot answer this now", "ask about less, or later") from None

    def _done(self, work: asyncio.Future[tuple[bytes, bool]], reader: str) -> None:
        self._gate.leave(reader)
        if not work.cancelled():
            work.exception()  # told to whoever still waits; nobody may

    def _ask(self, question: str, name: str, asked: msgspec.Struct, sight: Sight, moment: int) -> tuple[bytes, bool]:
        answer = ask(self._asking, question, name, asked, sight, moment)
        to_ns = getattr(answer, "to_ns", moment)
        return _ENCODE.encode(encodable_within(answer)), to_ns < moment - 600 * 10**9

    def _reply(self, request: Request, body: bytes, *, past: bool) -> Response:
        tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
        kept = self._settings.past_s if past else self._settings.live_s
        headers = {"etag": tag, "cache-control": f"private, max-age={kept}", "vary": "Authorization"}
        known = [word.strip().removeprefix("W/") for word in request.headers.get("if-none-match", "").split(",")]
        if tag in known:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers | _SAFE)


_SAFE = {"x-content-type-options": "nosniff"}


def _asked(question: str, request: Request) -> msgspec.Struct:
    """The parameters of the request. Refuses 400."""
    if len(request.url.query) > _MAX_QUERY:
        raise _RefusedError(400, "the query string is too long")
    words: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in words:
            raise _RefusedError(400, f"the parameter {key!r} is given twice")
        words[key] = value
    try:
        return asked_of(question, words)
    except UsageError as error:
        raise _RefusedError(400, error.what, error.remedy or "") from None


async def _nothing(request: Request) -> Response:  # noqa: ARG001
    return _refusal(_RefusedError(404, "there is no such page", f"{ROOT}/ has {', '.join(_paths())}"))


def _paths() -> list[str]:
    return [question.path for question in QUESTIONS.values()]


def _refusal(refusal: _RefusedError) -> Response:
    document = {"error": refusal.what, "remedy": refusal.remedy}
    headers = {"cache-control": "no-store", **refusal.headers}
    return _json(document, refusal.status, headers)


def _json(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = _ENCODE.encode(encodable_within(document))
    return Response(body, status, media_type="application/json", headers=(headers or {}) | _SAFE)
