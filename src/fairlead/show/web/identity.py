"""Who asks, and what that person may do: the same for a token, a session, a portal's header and a share link.

Not here: how somebody shows who he is (`signin`), what of the lake he sees (`questions.visible_lake`).
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec
from starlette.requests import Request

from fairlead.explain.questions.lake_queries import Run, Sight

Role = Literal["user", "support", "admin"]
READ, ACT, ADMIN = "read", "act", "admin"
SCOPES = (READ, ACT, ADMIN)
"""Ask questions; acknowledge, silence, share, simulate; accounts, tokens of others and the audit log."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was let in. `key` tells apart who shares a name (tokens, sessions): places and limits are given by
    it."""

    name: str
    role: Role
    key: str
    projects: tuple[str, ...] = ()
    scopes: tuple[str, ...] = (READ,)
    how: str = "token"
    """token, session, header, link or open (no key is set)."""
    only: Run | None = None

    @property
    def sight(self) -> Sight:
        """What of the lake is shown. Support and administrators see all. Raises RefusedError 403 for a user without a
        name."""
        if self.only is not None:
            return Sight(only=self.only)
        if self.role == "user" and not self.name:
            raise RefusedError(403, "this sign-in has no user, so it has no own jobs", "ask an administrator")
        return Sight() if self.role != "user" else Sight(user=self.name, projects=self.projects)


class RefusedError(Exception):
    """A request that is not answered: status, what, and the next step."""

    def __init__(self, status: int, what: str, remedy: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(what)
        self.status, self.what, self.remedy, self.headers = status, what, remedy, headers or {}


class Door(Protocol):
    """Says who asks."""

    def identify_person(self, request: Request) -> Person:
        """Who sent this request. Raises RefusedError 401, 403."""
        ...


def require_identity_scope(person: Person, scope: str) -> None:
    """Raises RefusedError 403 when this person may not do what `scope` names."""
    if scope not in person.scopes:
        raise RefusedError(403, f"this needs the right to {_SAID[scope]}", "ask an administrator")


_SAID = {READ: "read", ACT: "act on findings, share and simulate", ADMIN: "administer"}
