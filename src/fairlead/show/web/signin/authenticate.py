"""Says who asks, for every request: by token, link, portal or session. One or two look-ups in SQLite, no cache, so that
an account that is disabled, here or by the command, is out at once.

Not here: how somebody comes by these (`password_sign_in`, `routes`), tokens made with the server's key
(`web.token_authentication`).
"""

from __future__ import annotations

import sqlite3

from starlette.requests import Request

from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.visible_lake import is_job_visible
from fairlead.show.web.guard.client_address import find_client_cookie, list_client_headers
from fairlead.show.web.identity import ACT, ADMIN, READ, SCOPES, Person, RefusedError, Role
from fairlead.show.web.people import credentials
from fairlead.show.web.people.credentials import LINK, TOKEN, TOUCH_NS, CredentialHolder
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.trusted_header import Portal
from fairlead.show.web.token_authentication import TokenDoor

SCOPES_OF: dict[Role, tuple[str, ...]] = {"user": (READ, ACT), "support": (READ, ACT), "admin": SCOPES}
_LONGEST = 4096
_CHALLENGE = {"www-authenticate": 'Bearer realm="fairlead"'}
_OVER = "it may have expired, or its account is disabled: make a new one"


class FrontDoor:
    """The door of the pages and the API."""

    def __init__(self, office: Office, tokens: TokenDoor) -> None:
        self._office, self._tokens = office, tokens
        self._portal = Portal(office, office.places)
        self._touched: dict[bytes, int] = {}

    def identify_person(self, request: Request) -> Person:
        """Who sent this request; may be asked again while its answer streams. Raises RefusedError 401, 403, 503."""
        try:
            return self._person(request)
        except sqlite3.Error:
            raise RefusedError(503, "accounts cannot be read now", "try again later") from None

    def _person(self, request: Request) -> Person:
        told = list_client_headers(request.scope, b"authorization")
        if told:
            kind, _, secret = told[0].partition(" ")
            secret = secret.strip()
            if len(told) > 1 or len(secret) > _LONGEST:
                raise RefusedError(401, "more than one token", "send Authorization: Bearer TOKEN once", _CHALLENGE)
            if kind.lower() == "bearer" and secret.startswith(TOKEN):
                return self._by_token(secret)
            if kind.lower() == "bearer" and secret.startswith(LINK):
                return self._by_link(secret)
            return self._tokens.identify_person(request)
        named = self._portal.read_names(request)
        if named is not None:
            name, role, projects = named
            return Person(
                name=name, role=role, key=f"portal:{name}", projects=projects, scopes=SCOPES_OF[role], how="header"
            )
        held = self.find_session(request)
        if held is not None:
            return Person(
                name=held.name,
                role=held.role,
                key=f"session:{held.hash[:8].hex()}",
                projects=held.projects,
                scopes=SCOPES_OF[held.role],
                how="session",
            )
        raise RefusedError(401, "not signed in", "sign in, or send Authorization: Bearer TOKEN", _CHALLENGE)

    def find_session(self, request: Request) -> CredentialHolder | None:
        """The session this request's cookie belongs to."""
        secret = find_client_cookie(request.scope, self._office.places.find_place(request.scope).cookie)
        if secret is None or len(secret) > _LONGEST:
            return None
        office = self._office
        held = credentials.find_credential_session(
            office.reading, secret, idle_ns=office.idle_ns, longest_ns=office.longest_ns
        )
        if held is not None:
            self._touch("session", held)
        return held

    def _by_token(self, secret: str) -> Person:
        held = credentials.find_token_credential(self._office.reading, secret)
        if held is None:
            raise RefusedError(401, "no such API token", _OVER, _CHALLENGE)
        self._touch("token", held)
        scopes = tuple(scope for scope in held.scopes if scope in SCOPES_OF[held.role])
        # Whoever looks at the role alone must not take a token that cannot administer for an administrator's.
        role: Role = "support" if held.role == "admin" and ADMIN not in scopes else held.role
        return Person(
            name=held.name, role=role, key=f"token:{held.id}", projects=held.projects, scopes=scopes, how="token"
        )

    def _by_link(self, secret: str) -> Person:
        held = credentials.find_link_credential(self._office.reading, secret)
        if held is None or not _still_shown(held):
            raise RefusedError(401, "this link is not valid", "it may have expired: ask the sender for a new one", {})
        self._touch("link", held)
        # No account's name has a colon: nothing is ever found to be this reader's own.
        return Person(
            name=f"link:{held.id}", role="user", key=f"link:{held.id}", scopes=(READ,), how="link", only=held.run
        )

    def _touch(self, table: str, held: CredentialHolder) -> None:
        """Writes down that it is used, at most once a minute; looking must not write each time."""
        now = self._office.course.read_now()
        key = held.hash
        if now - max(held.seen_ns or 0, self._touched.get(key, 0)) < TOUCH_NS:
            return
        if len(self._touched) > 10_000:
            self._touched.clear()
        self._touched[key] = now
        self._office.do_later(lambda store: credentials.record_credential_use(store, table, key))


def _still_shown(held: CredentialHolder) -> bool:
    """Whether who made a link may see its run as the account is now: a link shows no more than its maker sees."""
    sight = Sight() if held.role != "user" else Sight(user=held.name, projects=held.projects)
    return is_job_visible({"user": held.user, "project": held.project}, sight)
