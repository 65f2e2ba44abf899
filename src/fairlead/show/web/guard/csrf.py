"""Requests that another site's page makes a browser send: refused where the browser adds the proof of who asks itself.

What changes something needs the word of the page (`X-CSRF-Token`) besides the cookie; a token in `Authorization` no
browser adds by itself. Not here: whether the session is good (`signin.authenticate`).
"""

from __future__ import annotations

import hmac
from hashlib import blake2b

from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead.show.web.guard.client_address import (
    Place,
    Places,
    find_client_cookie,
    find_client_header,
    list_client_headers,
)
from fairlead.show.web.guard.error_response import send_error_response

HEADER = b"x-csrf-token"
SIGN_IN = "/api/v1/session"
_SAFE = ("GET", "HEAD", "OPTIONS")
_REMEDY = "reload the page; programs send Authorization: Bearer TOKEN"


def derive_csrf_token(secret: str) -> str:
    """The word a page sends with what it changes, made of the session's cookie; it does not tell the cookie."""
    return blake2b(secret.encode("utf-8", "surrogateescape"), digest_size=20, person=b"fairlead-csrf").hexdigest()


def derive_portal_csrf_token(key: bytes, name: str) -> str:
    """The same for somebody a portal names."""
    return blake2b(
        name.encode("utf-8", "surrogateescape"), key=key[:64], digest_size=20, person=b"csrf-portal"
    ).hexdigest()


class NoForgery:
    """Checks what is not a mere look. `portal`: the header a portal names people in; `key`: the server's."""

    def __init__(self, app: ASGIApp, places: Places, *, key: bytes, portal: str = "") -> None:
        self._app, self._places, self._key = app, places, key
        self._portal = portal.lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["method"] not in _SAFE:
            wrong = self._wrong(scope)
            if wrong:
                await send_error_response(send, 403, wrong, _REMEDY)
                return
        await self._app(scope, receive, send)

    def _wrong(self, scope: Scope) -> str:
        place = self._places.find_place(scope)
        if not _from_here(scope, place):
            return "the request came from a page of another site"
        if list_client_headers(scope, b"authorization"):
            return ""
        name = find_client_header(scope, self._portal) if self._portal and place.by_proxy else None
        if name is not None:
            expected = derive_portal_csrf_token(self._key, name)
        else:
            secret = find_client_cookie(scope, place.cookie)
            if secret is None or (scope["path"] == SIGN_IN and scope["method"] == "POST"):
                return ""
            expected = derive_csrf_token(secret)
        told = find_client_header(scope, HEADER) or ""
        if not hmac.compare_digest(told.encode("latin-1", "replace"), expected.encode()):
            return "X-CSRF-Token is missing or not from this session"
        return ""


def _from_here(scope: Scope, place: Place) -> bool:
    """Whether the browser, if it is one, says that a page of this origin asks."""
    site = list_client_headers(scope, b"sec-fetch-site")
    if site and site != ["same-origin"] and site != ["none"]:
        return False
    origin = list_client_headers(scope, b"origin")
    return not origin or (len(origin) == 1 and origin[0].lower() == place.origin)
