"""What-if runs over HTTP: for support and administrators, as they are about everybody's jobs.

Not here: the runs (`queue`), who asks (`web.identity`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.core.errors import FairleadError, UsageError
from fairlead.core.safe_text import escape_undecodable_text
from fairlead.explain.questions.answers_whatif_runs import (
    WhatIfAsked,
    WhatIfPolicies,
    WhatIfRun,
    WhatIfRunPage,
    WhatIfRuns,
)
from fairlead.run.whatif.queue import CrowdedError, Runs
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.identity import ACT, Door, Person, RefusedError, require_identity_scope
from fairlead.show.web.signin.request_bodies import read_body

ROOT = "/api/v1"
_LOG = logging.getLogger("fairlead.api")
OPERATIONS = (
    Operation(
        method="GET",
        path="whatif",
        about="What-if runs: yours, or everybody's for administrators.",
        answer=WhatIfRuns,
        tag="whatif",
    ),
    Operation(
        method="POST",
        path="whatif",
        about="Replay the past under other policies or capacities.",
        body=WhatIfAsked,
        answer=WhatIfRun,
        status=202,
        statuses=(413,),
        tag="whatif",
    ),
    Operation(
        method="GET",
        path="whatif/policies",
        about="What can be replayed, one sentence each.",
        answer=WhatIfPolicies,
        tag="whatif",
    ),
    Operation(
        method="GET",
        path="whatif/{name}",
        about="One run: its progress, and its answer when done.",
        answer=WhatIfRunPage,
        statuses=(404,),
        tag="whatif",
    ),
    Operation(
        method="DELETE",
        path="whatif/{name}",
        about="Cancel a queued or running run; delete a finished one.",
        answer=WhatIfRun,
        statuses=(404,),
        tag="whatif",
    ),
    Operation(
        method="GET",
        path="live/whatif/{name}",
        about="One run, sent again when it changes.",
        statuses=(404,),
        media="text/event-stream",
        tag="whatif",
    ),
)
Answering = Callable[[Request, Person], Awaitable[Response]]
Noted = Callable[[Request, str, str, str], Awaitable[None]]
"""The audit log: the request, who, what was done, to what."""


def build_whatif_routes(runs: Runs, door: Door, *, noted: Noted | None = None) -> list[BaseRoute]:
    """The endpoints. `noted` writes down what was done."""
    web = _Web(runs, door, noted)
    found: list[BaseRoute] = []
    for path, methods in (
        ("whatif", {"GET": web.all, "POST": web.begin}),
        ("whatif/policies", {"GET": web.policies}),
        ("whatif/{name}", {"GET": web.one, "DELETE": web.drop}),
    ):
        found += [Route(f"{ROOT}/{path}", web.guarded(do), methods=[method]) for method, do in methods.items()]
    return found


class _Web:
    def __init__(self, runs: Runs, door: Door, noted: Noted | None) -> None:
        self._runs, self._door, self._noted = runs, door, noted

    def guarded(self, do: Answering) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint of somebody who may; refusals as JSON."""

        async def answer(request: Request) -> Response:
            try:
                person = self._door.identify_person(request)
                _may(person)
                return await do(request, person)
            except RefusedError as refusal:
                document = {"error": refusal.what, "remedy": refusal.remedy}
                return _json(document, refusal.status, refusal.headers)
            except CrowdedError as crowded:
                return _json(
                    {"error": str(crowded), "remedy": "wait for one, or cancel one"}, 429, {"retry-after": "10"}
                )
            except UsageError as error:
                return _json({"error": error.what, "remedy": error.remedy or ""}, 400)
            except FairleadError as error:
                _LOG.warning("what if: %s", error)
                return _json({"error": "runs cannot be kept now", "remedy": "see the server's log"}, 503)

        return answer

    async def all(self, request: Request, person: Person) -> Response:
        """The list."""
        del request
        return _json(await run_in_threadpool(self._runs.list_runs, _whose(person)))

    async def policies(self, request: Request, person: Person) -> Response:
        """What there is to choose."""
        del request, person
        from fairlead.decide.whatif.whatif_policies import list_whatif_policies

        return _json(await run_in_threadpool(list_whatif_policies))

    async def begin(self, request: Request, person: Person) -> Response:
        """A new run."""
        asked = await read_body(request, WhatIfAsked)
        begun = await run_in_threadpool(self._runs.ask, person.name, asked)
        await self._note(request, person, "replay", begun.command)
        return _json(begun, 202)

    async def one(self, request: Request, person: Person) -> Response:
        """A run and its answer."""
        return Response(await self._page(request, person), 200, _HEADERS, media_type="application/json")

    async def drop(self, request: Request, person: Person) -> Response:
        """Cancels or forgets."""
        name = _name(request)
        await self._page(request, person)  # 404 before anything is done
        gone = await run_in_threadpool(self._runs.drop, name, _whose(person))
        await self._note(request, person, "take back a replay", gone.command)
        return _json(gone)

    async def _note(self, request: Request, person: Person, act: str, what: str) -> None:
        if self._noted is not None:
            await self._noted(request, person.name, act, what)

    async def _page(self, request: Request, person: Person) -> bytes:
        return await run_in_threadpool(_page_of, self._runs, person, _name(request))


def build_whatif_follower(runs: Runs) -> Callable[[Person, str], bytes]:
    """What is told of a run again and again: for `live/whatif/NAME`."""

    def look(person: Person, name: str) -> bytes:
        _may(person)
        return _page_of(runs, person, name)

    return look


def _page_of(runs: Runs, person: Person, name: str) -> bytes:
    """The document of a run. Raises RefusedError 404."""
    try:
        return msgspec.json.encode(runs.page(name, _whose(person)))
    except UsageError as error:
        raise RefusedError(404, error.what, error.remedy or "") from None


def _may(person: Person) -> None:
    """Raises RefusedError 403."""
    if person.role == "user" or person.only is not None:
        raise RefusedError(403, "a replay covers everybody's jobs", "ask the support staff of this machine")
    require_identity_scope(person, ACT)


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def _name(request: Request) -> str:
    return str(request.path_params.get("name", ""))


def _whose(person: Person) -> str | None:
    """Whose runs somebody may see: None is everybody's."""
    return None if person.role == "admin" else person.name


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode(escape_undecodable_text(document))
    return Response(body, status, {**_HEADERS, **(headers or {})}, media_type="application/json")
