"""Everything people sign in with, put together of the settings: a door, routes and guards for the application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import BaseRoute

from fairlead.core.clock import now_ns
from fairlead.explain.questions.lake_queries import Tables
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.guard.csrf import NoForgery
from fairlead.show.web.guard.headers import SafeHeaders
from fairlead.show.web.guard.rate_limit import Budget
from fairlead.show.web.identity import Door
from fairlead.show.web.signin.authenticate import FrontDoor
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.password_sign_in import Ways
from fairlead.show.web.signin.people_routes import PeopleRoutes
from fairlead.show.web.signin.responses import OPERATIONS, SIGN_ON
from fairlead.show.web.signin.session_routes import SessionRoutes
from fairlead.show.web.signin.single_sign_on import SingleSignOn
from fairlead.show.web.token_authentication import TokenDoor
from fairlead.show.web.web_settings import Web


@dataclass(frozen=True)
class Entrance:
    """What the application takes."""

    door: Door
    routes: Sequence[BaseRoute]
    guards: Sequence[Middleware]
    described: Sequence[Operation]
    """What the routes are."""
    noted: Callable[[Request, str, str, str], Awaitable[None]]
    """Writes a line of the audit log: the request, who, the act, on what."""
    close: Callable[[], None] = lambda: None
    """Writes what waits and lets go of the file: for tests; a process may just end."""


def build_sign_in_app(state: Path, web: Web, key: bytes, lake: Tables, *, wall: Callable[[], int] = now_ns) -> Entrance:
    """The entrance of a server whose state is in this folder; `key` is the one tokens are made with. Raises
    ConfigError, LakeError, MissingDependencyError."""
    tokens = TokenDoor(key, wall)
    office = Office(state, web, key, wall)
    guards = [
        Middleware(SafeHeaders, places=office.places, portal=bool(web.header.name)),
        Middleware(Budget, places=office.places, each=web.requests_per_minute, address=web.address_requests_per_minute),
        Middleware(NoForgery, places=office.places, key=key, portal=web.header.name),
    ]
    if not web.on:
        return Entrance(tokens, [], guards, [], office.note, office.close)
    door = FrontDoor(office, tokens)
    routes = [
        *SessionRoutes(office, door, Ways(office)).list_routes(),
        *PeopleRoutes(office, door, lake).list_routes(),
    ]
    described = OPERATIONS
    if web.oidc.issuer:
        routes += SingleSignOn(office).list_routes()
        described += SIGN_ON
    return Entrance(door, routes, guards, described, office.note, office.close)
