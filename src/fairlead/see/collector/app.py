"""The collector's HTTP: batches in, its health and figures out (docs/reference/monitoring-http.md tells every status).

Not here: connections and their limits (`client_connections`), checks and the log (`intake`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import fairlead
from fairlead.core.access.tokens import Claims
from fairlead.core.batches.encoding import FORMAT
from fairlead.core.clock import now_ns
from fairlead.core.errors import InputError, LakeError
from fairlead.core.model.tables import TABLES
from fairlead.see.collector import metrics as exposition
from fairlead.see.collector.admission import ASKERS, SENDERS, Admission, Complaints, Room
from fairlead.see.collector.feed import Receiver, Sink
from fairlead.see.collector.group_commit import Arrival, Gathering
from fairlead.see.collector.health import ALL, PATH, WHICH, ServerHealth
from fairlead.see.collector.intake import IntakeAnswer
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.refusal import Refusal, build_lake_refusal, build_refusal
from fairlead.see.collector.settings import Limits

BATCHES = "/v1/batches"
JSON = b"application/json"
_AGENT_LONG = 64

log = logging.getLogger("fairlead.see.collector")

Answer = tuple[int, bytes, bytes]
"""Status, content type, body."""


class Takes(Protocol):
    """What an app needs of an intake."""

    def must_have_room(self, size: int) -> None:
        """Raises Refusal 429, 507."""
        ...

    def take_all(self, arrivals: Sequence[Arrival]) -> Sequence[IntakeAnswer | Exception]:
        """An answer, or a Refusal, for each."""
        ...


class Door:
    """Everything a request passes. `stopping`: nothing more is taken. All of it runs in one event loop; bodies are
    taken, and receivers run, in threads."""

    def __init__(
        self,
        intake: Takes,
        admission: Admission,
        metrics: Metrics,
        complaints: Complaints,
        limits: Limits,
        health: Callable[[str], ServerHealth],
    ) -> None:
        self.stopping = False
        self.room = Room(limits.in_flight_bytes)
        self._intake = intake
        self._admission = admission
        self._metrics = metrics
        self._complaints = complaints
        self._limits = limits
        self._health = health
        self._gathering = Gathering(intake.take_all, limits.checking_threads)
        self._threads = ThreadPoolExecutor(limits.checking_threads, thread_name_prefix="checking")

    def build_application(self, receivers: Sequence[Receiver] = (), sink: Sink | None = None) -> ASGIApp:
        """The ASGI application."""
        routes = [
            self._route("/v1/ping", "GET", self._ping),
            self._route("/healthz", "GET", self._healthz),
            self._route("/metrics", "GET", self._page),
            self._route(PATH, "GET", self._server_health),
            self._route("/api/v1/health", "GET", self._server_health),
        ]
        if sink is not None:
            routes += [self._route(one.path, "POST", self._receiving(one, sink)) for one in receivers]
        others = Starlette(routes=routes)

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            # Nearly all requests are of this path: they go no detour.
            if scope["type"] == "http" and scope["path"] == BATCHES:
                await self.answer(scope, receive, send, "POST", self._batches)
            else:
                await others(scope, receive, send)

        return application

    def close(self) -> None:
        """Waits for threads that check."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._gathering.close()

    def _route(self, path: str, method: str, ask: Callable[[_Request], Awaitable[Answer]]) -> Route:
        return Route(path, _Endpoint(self, method, ask))

    async def answer(self, scope: Scope, receive: Receive, send: Send, method: str, ask: Any) -> None:
        """One request from its headers to its answer."""
        request = _Request(scope, receive)
        headers: list[tuple[bytes, bytes]] = []
        try:
            if scope["method"] not in (method, "HEAD" if method == "GET" else method):
                headers.append((b"allow", method.encode()))
                raise Refusal(405, f"only {method} is allowed here")  # noqa: TRY301  (answered like any other)
            status, kind, body = await ask(request)
        except _GoneError:
            self._metrics.requests.add(status="gone")
            return
        except Refusal as refusal:
            status, kind, body = refusal.status, JSON, msgspec.json.encode(refusal.told)
            headers += refusal.headers
            self._complaints.tell(request.who, str(status), f"{scope['path'][:80]} refused ({status}): {refusal}")
        except Exception:
            log.exception("%s: a request ended by a bug in fairlead", request.who)
            self._metrics.defects.add()
            status, kind, body = 500, JSON, b'{"error":"a bug in the server","where":"","remedy":""}'
        self._metrics.requests.add(status=str(status))
        headers += [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        if request.size > 4 * self._limits.body_bytes:  # too much to read it all and throw it away
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def check_claims(self, request: _Request, roles: Sequence[str]) -> Claims:
        """Who asks. Raises Refusal 401, 403."""
        return self._admission.check_claims(request.header(b"authorization"), roles, trusted=request.trusted)

    async def _batches(self, request: _Request) -> Answer:
        claims = self.check_claims(request, SENDERS)
        agent = request.header(b"fairlead-agent")[:_AGENT_LONG]
        with self._admitted(request, self._limits.body_bytes):
            body = await request.body()
            taken = await self._gathering.await_answer(Arrival(body, claims.node, agent))
        return 200, JSON, msgspec.json.encode(taken)

    def _admitted(self, request: _Request, most_bytes: int) -> Any:
        """Room for the body of a request. Raises Refusal 411, 413, 429, 503, 507."""
        if self.stopping:
            raise Refusal(503, "the server is stopping", remedy="try again", retry_s=2)
        if request.size < 0:
            raise Refusal(411, "Content-Length is needed")
        if request.size > most_bytes:
            raise Refusal(
                413,
                f"a body of {request.size} bytes",
                where="Content-Length",
                remedy=f"send {most_bytes} bytes at most at a time",
            )
        self._intake.must_have_room(request.size)
        return self.room.hold(request.size)

    def _receiving(self, receiver: Receiver, sink: Sink) -> Callable[[_Request], Awaitable[Answer]]:
        def receive(body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
            try:
                return receiver.receive(body, headers, sink)
            except InputError as error:
                raise build_refusal(error, 400) from error
            except LakeError as error:
                raise build_lake_refusal(error) from error

        async def ask(request: _Request) -> Answer:
            self.check_claims(request, SENDERS)
            with self._admitted(request, receiver.most_bytes):
                body = await request.body()
                loop = asyncio.get_running_loop()
                status, text = await loop.run_in_executor(self._threads, receive, body, request.headers)
            return status, b"text/plain; charset=utf-8", text.encode()

        return ask

    async def _ping(self, _: _Request) -> Answer:
        told = {
            "server": "fairlead",
            "version": fairlead.__version__,
            "formats": [FORMAT],
            "now_ns": now_ns(),
            "tables": {spec.name: spec.version for spec in TABLES.values()},
            "body_bytes": self._limits.body_bytes,
        }
        return 200, JSON, msgspec.json.encode(told)

    async def _healthz(self, _: _Request) -> Answer:
        if self.stopping:
            raise Refusal(503, "the server is stopping", retry_s=2)
        return 200, JSON, b'{"ok":true}'

    async def _page(self, _: _Request) -> Answer:
        return 200, exposition.CONTENT_TYPE.encode(), self._metrics.page().encode()

    async def _server_health(self, request: _Request) -> Answer:
        if self.check_claims(request, ASKERS).user:  # texts of probes name what others do
            raise Refusal(403, "the token is limited to one user", remedy="ask with an operator's token")
        which = dict(parse_qsl(request.query)).get("sources", ALL)
        if which not in WHICH:
            raise Refusal(400, f"sources={which[:40]}", remedy=f"one of {', '.join(WHICH)}")
        loop = asyncio.get_running_loop()
        return 200, JSON, await loop.run_in_executor(None, lambda: msgspec.json.encode(self._health(which)))


class _Endpoint:
    """One path: an ASGI application, so that Starlette hands the request over as it is."""

    def __init__(self, door: Door, method: str, ask: Callable[[_Request], Awaitable[Answer]]) -> None:
        self._door = door
        self._method = method
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.answer(scope, receive, send, self._method, self._ask)


class _GoneError(Exception):
    """The client went away before its body was there."""


class _Request:
    """Headers at once, the body when asked for."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        # Of a header that is there twice the first counts.
        self._named = dict(reversed(scope["headers"]))
        length = self.header(b"content-length")
        self.size = int(length) if length.isdigit() else -1
        """Bytes of the body; -1: not said."""

    @property
    def who(self) -> str:
        """The client's address."""
        client = self._scope.get("client")
        return str(client[0]) if client else "unix socket"

    @property
    def trusted(self) -> bool:
        """Whether it is a process of the server's own user."""
        return bool(self._scope.get("state", {}).get("trusted"))

    @property
    def headers(self) -> dict[str, str]:
        """All of them, names in lower case."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._scope["headers"]}

    @property
    def query(self) -> str:
        """What follows the question mark."""
        return bytes(self._scope["query_string"]).decode("latin-1")

    def header(self, name: bytes) -> str:
        """One of them, empty when it is not there."""
        return bytes(self._named.get(name, b"")).decode("latin-1")

    async def body(self) -> bytes:
        """All of it. Raises _GoneError."""
        parts: list[bytes] = []
        while True:
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            parts.append(message["body"])
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)
