"""`GET /api/v1/server`: how this server is, as its collector says; from the lake when the collector does not respond.

One address answers every command then. For support and administrators: texts of probes name what others do. Not here:
the document (`collector.health`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.core.access.tokens import OPERATOR, Claims, issue_token
from fairlead.core.errors import FairleadError
from fairlead.run.config import Config
from fairlead.run.lake_health import read_lake_health
from fairlead.run.server_client import find_local_server, request_server_health
from fairlead.see.collector.health import ALL, PATH, TROUBLED, WHICH, ServerHealth
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.identity import READ, Door, RefusedError, require_identity_scope

_TIMEOUT_S = 10.0
_VALID_S = 60


class ServerAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Which sources are listed one by one: all, troubled or none."""

    sources: str = ALL


OPERATIONS = (
    Operation(
        method="GET",
        path="server",
        answer=ServerHealth,
        asked=ServerAsked,
        tag="server",
        about="How the server is: its collector, sources, feeds, and what it does not understand.",
    ),
)


def build_server_routes(config: Config, key: bytes, door: Door, clock: Callable[[], int]) -> list[BaseRoute]:
    """The route. `config` is resolved; `key` is the collector's."""

    def inspect(which: str) -> ServerHealth:
        url = find_local_server(Path(config.server.state))
        token = issue_token(key, Claims(clock() // 10**9 + _VALID_S, role=OPERATOR)) if key else ""
        certificate = config.collector.tls_certificate
        try:
            return request_server_health(
                url, token, Path(certificate) if certificate else None, which=which, timeout_s=_TIMEOUT_S
            )
        except FairleadError as error:
            found = read_lake_health(Path(config.server.lake), clock())
            problem = f"the collector did not say how it is ({error.what}): this is from the lake"
            chosen = [one for one in found.sources if which == ALL or (which == TROUBLED and one.needs_attention)]
            collector = msgspec.structs.replace(found.collector, problems=[problem])
            return msgspec.structs.replace(found, state="degraded", collector=collector, sources=chosen)

    async def answer(request: Request) -> Response:
        person = door.identify_person(request)
        require_identity_scope(person, READ)
        if not person.sight.everything:
            raise RefusedError(403, "the state of the server is shown to support and administrators only", "ask them")
        which = request.query_params.get("sources", ALL)
        if which not in WHICH:
            raise RefusedError(400, f"sources={which[:40]}", f"one of {', '.join(WHICH)}")
        return Response(
            msgspec.json.encode(await run_in_threadpool(inspect, which)),
            media_type="application/json",
            headers={"cache-control": "no-store", "vary": "Authorization, Cookie"},
        )

    return [Route(PATH, answer, methods=["GET"])]
