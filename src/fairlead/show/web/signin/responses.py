"""What the routes of people answer, one struct each, and the table of these routes for the API's description."""

from __future__ import annotations

import msgspec

from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.identity import Role
from fairlead.show.web.people.accounts import Way
from fairlead.show.web.people.audit import Entry
from fairlead.show.web.people.credentials import Link, Token
from fairlead.show.web.signin.request_bodies import Changes, NewAccount, NewLink, NewPassword, NewToken, SignIn


class _Response(msgspec.Struct, frozen=True, kw_only=True):
    pass


class WayTold(_Response, frozen=True, kw_only=True):
    """One way to sign in: `url` is where a browser goes for it, where that is not the form."""

    kind: str
    title: str
    url: str | None = None


class Ways(_Response, frozen=True, kw_only=True):
    """`fairlead.signin/1`. `first_run`: nobody can sign in yet but by a welcome address."""

    schema: str = "fairlead.signin/1"
    ways: list[WayTold]
    simulated: bool
    version: str
    first_run: bool


class RunShown(_Response, frozen=True, kw_only=True):
    """The one run a share link shows."""

    job: str
    cluster: str | None
    start_ns: int | None


class Session(_Response, frozen=True, kw_only=True):
    """`fairlead.session/1`. `how`: session, header, link, token or open; `csrf` goes with every change (X-CSRF-Token);
    `way` and `has_password` where there is a session."""

    schema: str = "fairlead.session/1"
    name: str
    role: Role
    projects: tuple[str, ...]
    scopes: tuple[str, ...]
    how: str
    csrf: str | None
    expires_ns: int | None
    simulated: bool
    way: Way | None = None
    has_password: bool | None = None
    run: RunShown | None = None


class SignedOut(_Response, frozen=True, kw_only=True):
    """Whether there was somebody to sign out."""

    schema: str = "fairlead.signed-out/1"
    signed_out: bool


class PasswordChange(_Response, frozen=True, kw_only=True):
    """The password is another one now."""

    schema: str = "fairlead.changed/1"
    changed: bool = True


class Links(_Response, frozen=True, kw_only=True):
    """`fairlead.links/1`."""

    schema: str = "fairlead.links/1"
    links: list[Link]


class LinkMade(_Response, frozen=True, kw_only=True):
    """A new link; `token` and `url` are told this once."""

    schema: str = "fairlead.link/1"
    id: str
    token: str
    url: str
    job: str
    cluster: str | None
    start_ns: int | None
    expires_ns: int


class Tokens(_Response, frozen=True, kw_only=True):
    """`fairlead.tokens/1`."""

    schema: str = "fairlead.tokens/1"
    tokens: list[Token]


class TokenMade(_Response, frozen=True, kw_only=True):
    """A new API token; `token` is told this once."""

    schema: str = "fairlead.token/1"
    id: str
    token: str
    title: str
    scopes: tuple[str, ...]
    expires_ns: int


class CredentialEnd(_Response, frozen=True, kw_only=True):
    """A link or token that is worth nothing now."""

    schema: str = "fairlead.ended/1"
    id: str
    ended: bool = True


class AccountTold(_Response, frozen=True, kw_only=True):
    """`fairlead.account/1`: an account as administrators see it."""

    schema: str = "fairlead.account/1"
    name: str
    role: Role
    way: Way
    projects: tuple[str, ...]
    disabled: bool
    has_password: bool
    made_ns: int
    signed_in_ns: int | None


class Accounts(_Response, frozen=True, kw_only=True):
    """`fairlead.accounts/1`."""

    schema: str = "fairlead.accounts/1"
    accounts: list[AccountTold]


class AccountRemoval(_Response, frozen=True, kw_only=True):
    """An account that is no more."""

    schema: str = "fairlead.removed/1"
    name: str
    removed: bool = True


class Welcome(_Response, frozen=True, kw_only=True):
    """`fairlead.welcome/1`: an address that lets in once; told this once."""

    schema: str = "fairlead.welcome/1"
    name: str
    url: str
    expires_ns: int


class AuditPage(_Response, frozen=True, kw_only=True):
    """`fairlead.audit/1`, latest first; `next` is `before` of the next page, null at the end."""

    schema: str = "fairlead.audit/1"
    entries: list[Entry]
    next: int | None


class AllAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Whose are listed."""

    all: bool = False
    """Everybody's, for administrators."""


class AuditAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines."""

    before: int | None = None
    limit: int = 100
    who: str = ""
    act: str = ""


def _of(method: str, path: str, about: str, **more: object) -> Operation:
    return Operation(method=method, path=path, about=about, tag="people", **more)  # type: ignore[arg-type]


OPERATIONS: tuple[Operation, ...] = (
    _of("GET", "signin", "Ways to sign in.", answer=Ways, open=True),
    _of(
        "POST",
        "session",
        "Sign in with name and password, or a welcome key.",
        body=SignIn,
        answer=Session,
        statuses=(409, 413),
        open=True,
    ),
    _of("GET", "session", "Who is signed in.", answer=Session),
    _of("DELETE", "session", "Sign out.", answer=SignedOut, open=True),
    _of(
        "POST",
        "session/password",
        "Change one's own password; other sessions end.",
        body=NewPassword,
        answer=PasswordChange,
        statuses=(409, 413),
    ),
    _of("GET", "links", "Share links.", asked=AllAsked, answer=Links),
    _of("POST", "links", "Share one run.", body=NewLink, answer=LinkMade, status=201, statuses=(404, 409, 413)),
    _of("DELETE", "links/{id}", "End a share link.", answer=CredentialEnd, statuses=(404,)),
    _of("GET", "tokens", "API tokens.", asked=AllAsked, answer=Tokens),
    _of("POST", "tokens", "Make an API token.", body=NewToken, answer=TokenMade, status=201, statuses=(409, 413)),
    _of("DELETE", "tokens/{id}", "End an API token.", answer=CredentialEnd, statuses=(404,)),
    _of("GET", "accounts", "Accounts; for administrators.", answer=Accounts),
    _of(
        "POST",
        "accounts",
        "Make an account; for administrators.",
        body=NewAccount,
        answer=AccountTold,
        status=201,
        statuses=(409, 413),
    ),
    _of(
        "PATCH",
        "accounts/{name}",
        "Change an account; for administrators.",
        body=Changes,
        answer=AccountTold,
        statuses=(404, 409, 413),
    ),
    _of(
        "DELETE",
        "accounts/{name}",
        "Remove an account; for administrators.",
        answer=AccountRemoval,
        statuses=(404, 409),
    ),
    _of(
        "POST",
        "accounts/{name}/welcome",
        "An address that signs somebody in once; for administrators.",
        answer=Welcome,
        status=201,
        statuses=(404, 409),
    ),
    _of(
        "GET",
        "audit",
        "Who signed in and what was changed, latest first; for administrators.",
        asked=AuditAsked,
        answer=AuditPage,
    ),
)
SIGN_ON: tuple[Operation, ...] = (
    _of("GET", "signin/oidc", "Sends the browser to the OpenID provider.", status=303, open=True, media="text/plain"),
    _of(
        "GET", "signin/oidc/callback", "Where the provider sends it back to.", status=303, open=True, media="text/plain"
    ),
)
