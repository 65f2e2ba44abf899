"""Who may subscribe to what: a user to his own jobs, at an address of the site's domains. And the API of it.

`GET`, `POST /api/v1/alerts/subscriptions` and `DELETE .../ID`, with a reader's token of that user; an operator names
the user. Not here: what a subscriber is told (`messages`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.access.tokens import OPERATOR, READER, Claims, RoleError, check
from fairlead.alerts.settings import ADDRESS, Alerts
from fairlead.alerts.state import State, Subscription
from fairlead.errors import FairleadError, RefusedError, UsageError
from fairlead.model.diagnosis import identity

ROOT = "/api/v1/alerts/subscriptions"
SCHEMA = "fairlead.alerts.subscriptions/1"
_MOST_BYTES = 4096
_LONGEST = 256


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a subscriber asks for. `user`: whose jobs; only an operator names another than himself. Neither `job` nor
    `program`: all jobs of the user."""

    to: str
    user: str = ""
    job: str = ""
    program: str = ""


def subscribe(state: State, alerts: Alerts, wish: Wish, now_ns: int) -> Subscription:
    """Adds what is wished for, once. Raises UsageError for what is no address, RefusedError for what the site does not
    allow."""
    if not alerts.subscriptions:
        raise RefusedError("this site takes no subscriptions", remedy="its operator sets alerts.subscriptions")
    if not ADDRESS.fullmatch(wish.to):
        raise UsageError("no mail address", where=wish.to[:_LONGEST], remedy="write name@host")
    domain = wish.to.rpartition("@")[2].lower()
    if domain not in [name.lower() for name in alerts.subscribe_domains]:
        there = ", ".join(alerts.subscribe_domains) or "none"
        raise RefusedError(f"no mail goes to {domain}", remedy=f"domains (alerts.subscribe_domains): {there}")
    if not wish.user:
        raise UsageError("whose jobs is not said", remedy="name the user")
    if max(map(len, (wish.user, wish.job, wish.program))) > _LONGEST:
        raise UsageError("a name is too long", remedy=f"at most {_LONGEST} characters")
    name = identity("subscription", wish.user, wish.job, wish.program, wish.to)
    one = Subscription(
        id=name, owner=wish.user, job=wish.job, program=wish.program, address=wish.to, made_ns=now_ns
    )  # fmt: skip
    with state.change():
        mine = state.subscriptions(wish.user)
        if len(mine) >= alerts.most_subscriptions and name not in [other.id for other in mine]:
            raise RefusedError(f"{wish.user} has {len(mine)} subscriptions", remedy="fairlead alerts unsubscribe ID")
        state.subscribe(one)
    return one


def routes(folder: Path, alerts: Alerts, key: bytes, clock: Callable[[], int]) -> list[BaseRoute]:
    """The API, over the state in `folder`. `clock` tells the time (epoch ns)."""

    def work(method: str, claims: Claims, body: bytes, name: str) -> dict[str, Any]:
        restricted = claims.role == READER and bool(claims.user)
        with State(folder) as state:
            if method == "DELETE":
                with state.change():
                    if not state.unsubscribe(name, claims.user if restricted else None):
                        raise UsageError("there is no such subscription of yours")
                return {"schema": SCHEMA, "removed": name}
            if method == "POST":
                wish = _wish(body)
                if restricted:
                    if wish.user not in ("", claims.user):
                        raise RefusedError("the token is of another user")
                    wish = msgspec.structs.replace(wish, user=claims.user)
                found = [subscribe(state, alerts, wish, clock())]
            else:
                found = state.subscriptions(claims.user if restricted else None)
        return {"schema": SCHEMA, "subscriptions": msgspec.to_builtins(found)}

    async def answer(request: Request) -> Response:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            claims = check(key, token.strip() if kind.lower() == "bearer" else "", clock(), (READER, OPERATOR))
        except ValueError as fault:
            return _reply(403 if isinstance(fault, RoleError) else 401, {"error": str(fault)})
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                return _reply(413, {"error": "the request is too large"})
        try:
            name = str(request.path_params.get("name", ""))
            return _reply(200, await run_in_threadpool(work, request.method, claims, body, name))
        except UsageError as fault:
            return _reply(400, {"error": fault.what, "remedy": fault.remedy or ""})
        except RefusedError as fault:
            return _reply(403, {"error": fault.what, "remedy": fault.remedy or ""})
        except FairleadError:
            return _reply(503, {"error": "subscriptions cannot be reached now", "remedy": "try again later"})

    return [
        Route(ROOT, answer, methods=["GET", "POST"]),
        Route(ROOT + "/{name}", answer, methods=["DELETE"]),
    ]


def _wish(body: bytes) -> Wish:
    try:
        return msgspec.json.decode(body, type=Wish)
    except msgspec.DecodeError as fault:
        raise UsageError(f"not a subscription: {fault}", remedy='send {"to": "name@host", "job": "42"}') from fault


def _reply(status: int, document: dict[str, Any]) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")
