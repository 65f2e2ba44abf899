"""Who may subscribe to what: a user to his own jobs, at an address of the site's domains. And the API of it.

`GET`, `POST /api/v1/alerts/subscriptions` and `DELETE .../ID`, as that user; an administrator names the user. Not
here: what a subscriber is told (`messages`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.core.errors import RefusedError, UsageError
from fairlead.core.model.identity import compute_short_identity
from fairlead.show.alerts.alert_settings import ADDRESS, Alerts
from fairlead.show.alerts.state import State, Subscription
from fairlead.show.web import identity as people
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.signin.request_bodies import (
    check_request_parameters,
    handle_request_refusals,
    read_body,
    send_json_body,
)

ROOT = "/api/v1/alerts/subscriptions"
SCHEMA = "fairlead.alerts.subscriptions/1"
_LONGEST = 256


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a subscriber asks for. `user`: whose jobs; only an operator names another than himself. Neither `job` nor
    `program`: all jobs of the user."""

    to: str
    user: str = ""
    job: str = ""
    program: str = ""


class Subscriptions(msgspec.Struct, frozen=True, kw_only=True):
    """Subscriptions there are."""

    schema: str = SCHEMA
    subscriptions: list[Subscription]


class SubscriptionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that was ended."""

    schema: str = SCHEMA
    removed: str


OPERATIONS = (
    Operation(
        method="GET",
        path="alerts/subscriptions",
        about="Mail subscriptions: who, for which jobs.",
        answer=Subscriptions,
        tag="findings",
    ),
    Operation(
        method="POST",
        path="alerts/subscriptions",
        about="Subscribe to mail about own jobs.",
        body=Wish,
        answer=Subscriptions,
        statuses=(413,),
        tag="findings",
    ),
    Operation(
        method="DELETE",
        path="alerts/subscriptions/{name}",
        about="End a subscription.",
        answer=SubscriptionEnd,
        statuses=(404,),
        tag="findings",
    ),
)


def add_subscription(state: State, alerts: Alerts, wish: Wish, now_ns: int) -> Subscription:
    """Adds what is wished for, once. Raises UsageError for what is no address, RefusedError for what the site does not
    allow."""
    if not alerts.subscriptions:
        raise RefusedError("this site has no subscriptions", remedy="its operator sets alerts.subscriptions")
    if not ADDRESS.fullmatch(wish.to):
        raise UsageError("not a mail address", where=wish.to[:_LONGEST], remedy="write name@host")
    domain = wish.to.rpartition("@")[2].lower()
    if domain not in [name.lower() for name in alerts.subscribe_domains]:
        there = ", ".join(alerts.subscribe_domains) or "none"
        raise RefusedError(f"no mail is sent to {domain}", remedy=f"domains (alerts.subscribe_domains): {there}")
    if not wish.user:
        raise UsageError("no user given", remedy="name the user")
    if max(map(len, (wish.user, wish.job, wish.program))) > _LONGEST:
        raise UsageError("a name is too long", remedy=f"at most {_LONGEST} characters")
    name = compute_short_identity("subscription", wish.user, wish.job, wish.program, wish.to)
    one = Subscription(id=name, owner=wish.user, job=wish.job, program=wish.program, address=wish.to, made_ns=now_ns)
    with state.change():
        mine = state.list_subscriptions(wish.user)
        if len(mine) >= alerts.most_subscriptions and name not in [other.id for other in mine]:
            raise RefusedError(f"{wish.user} has {len(mine)} subscriptions", remedy="fairlead alert unsubscribe ID")
        state.subscribe(one)
    return one


def build_subscription_routes(
    folder: Path, alerts: Alerts, door: people.Door, clock: Callable[[], int]
) -> list[BaseRoute]:
    """The API, over the state in `folder`. `clock` tells the time (epoch ns)."""

    def work(method: str, person: people.Person, wish: Wish | None, name: str) -> Subscriptions | SubscriptionEnd:
        owner = None if person.sight.everything else person.name
        with State(folder) as state:
            if method == "DELETE":
                with state.change():
                    if not state.unsubscribe(name, owner):
                        raise people.RefusedError(404, "you have no such subscription", "list them first")
                return SubscriptionEnd(removed=name)
            if wish is None:
                return Subscriptions(subscriptions=state.list_subscriptions(owner))
            try:
                return Subscriptions(subscriptions=[add_subscription(state, alerts, _by(wish, owner), clock())])
            except RefusedError as fault:
                raise people.RefusedError(403, fault.what, fault.remedy or "") from None

    async def serve(request: Request) -> Response:
        person = door.identify_person(request)
        if person.only is not None:
            raise people.RefusedError(403, "a share link shows one job only", "sign in")
        if request.method != "GET" and person.key.startswith("token:"):  # an account's: it has scopes of its own
            people.require_identity_scope(person, people.ACT)
        check_request_parameters(request)
        if request.method != "GET" and person.key.startswith("token:"):  # an API token; a reader's own may subscribe
            people.require_identity_scope(person, people.ACT)
        wish = await read_body(request, Wish) if request.method == "POST" else None
        name = str(request.path_params.get("name", ""))
        return send_json_body(await run_in_threadpool(work, request.method, person, wish, name))

    return [
        Route(ROOT, handle_request_refusals(serve), methods=["GET", "POST"]),
        Route(ROOT + "/{name}", handle_request_refusals(serve), methods=["DELETE"]),
    ]


def _by(wish: Wish, owner: str | None) -> Wish:
    """The wish as of who may have it: others subscribe to their own jobs."""
    if owner is None:
        return wish
    if wish.user not in ("", owner):
        raise people.RefusedError(403, f"you are {owner}, not {wish.user[:_LONGEST]}", "subscribe to jobs of your own")
    return msgspec.structs.replace(wish, user=owner)
