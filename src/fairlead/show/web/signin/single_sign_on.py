"""`/api/v1/signin/oidc`: sends a browser to the OpenID provider, and lets in who comes back from there.

What belongs to one sign-in is made of a cookie of that browser: an answer that another browser was given is worth
nothing here. Not here: what the provider says (`openid_provider`).
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections import OrderedDict
from hashlib import blake2b
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from fairlead.core.errors import UsageError
from fairlead.show.web.guard.client_address import Place, find_client_cookie
from fairlead.show.web.identity import RefusedError
from fairlead.show.web.people.accounts import admit_account
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.group_roles import map_group_projects, map_group_role, strip_group_domain
from fairlead.show.web.signin.id_token import ForgedError
from fairlead.show.web.signin.openid_provider import Provider, ProviderError
from fairlead.show.web.signin.request_bodies import handle_request_refusals
from fairlead.show.web.signin.session_routes import (
    ROOT,
    begin_session_route,
    build_expired_session_cookie,
    build_session_cookie,
)

_LOG = logging.getLogger("fairlead.people")
PATH = f"{ROOT}/signin/oidc"
_LASTS_S = 600
_MOST_USED = 10_000
_LONGEST = 2048


class SingleSignOn:
    """Made once of the settings."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._provider = Provider(office.web.oidc, office.web.origin, office.key, office.course.wall)
        self._used: OrderedDict[str, None] = OrderedDict()

    def list_routes(self) -> list[BaseRoute]:
        """The routes."""
        return [
            Route(PATH, handle_request_refusals(self.leave), methods=["GET"]),
            Route(f"{PATH}/callback", handle_request_refusals(self.serve_return), methods=["GET"]),
        ]

    async def leave(self, request: Request) -> Response:
        """To the provider. `next`: the page to show afterwards."""
        place = self._office.places.find_place(request.scope)
        if not place.private or not place.at_origin:
            raise RefusedError(403, "sign-in must start at the server's own address", self._office.web.origin)
        begun = self._office.course.read_now() // 10**9
        target = clean_sign_on_path(request.query_params.get("next", "/"))
        kept = f"{secrets.token_urlsafe(32)}.{begun}.{quote(target, safe='')}"
        try:
            address = await self._provider.build_address(kept)
        except ProviderError as fault:
            _LOG.warning("the OpenID provider: %s", fault)
            raise RefusedError(503, "the provider does not respond", "try again later", {"retry-after": "5"}) from None
        sent = f"{kept}.{self._seal(kept)}"
        headers = {
            "set-cookie": f"{_name(place)}={sent}; Path=/; Max-Age={_LASTS_S}; HttpOnly; SameSite=Lax"
            + ("; Secure" if place.secure else ""),
            "cache-control": "no-store",
        }
        return RedirectResponse(address, 303, headers)

    async def serve_return(self, request: Request) -> Response:
        """From the provider. A refusal ends at the page to sign in, with a word of why."""
        place = self._office.places.find_place(request.scope)
        kept = self._opened(find_client_cookie(request.scope, _name(place)))
        # Who began nothing here (a page elsewhere may make browsers come) does not keep out those who did.
        stranger = f"\0oidc {'nobody ' if kept is None else ''}{place.address}"
        if self._office.attempts.begin(stranger, place.address) > 0:
            return RedirectResponse("/signin?refused=wait", 303, {"cache-control": "no-store"})
        if kept is None:
            return await self._back(request, place, "forged", "no sign-in was started in this browser, or too long ago")
        try:
            secret = await self._let_in(request, kept)
            self._office.attempts.record_success(stranger, place.address)
        except ForgedError as fault:
            return await self._back(request, place, "forged", str(fault))
        except ProviderError as fault:
            return await self._back(request, place, "provider", str(fault))
        except UsageError as fault:
            return await self._back(request, place, "account", fault.what)
        target = clean_sign_on_path(unquote(kept.split(".", 2)[2]))
        answer = RedirectResponse(target, 303, {"cache-control": "no-store"})
        answer.raw_headers.append(
            (b"set-cookie", build_session_cookie(place, secret, self._office.longest_ns).encode())
        )
        answer.raw_headers.append((b"set-cookie", build_expired_session_cookie(_name(place), place).encode()))
        return answer

    async def _let_in(self, request: Request, kept: str) -> str:
        words = dict(request.query_params.multi_items())
        if len(words) != len(request.query_params.multi_items()) or len(request.url.query) > 8192:
            raise ForgedError("a parameter is given twice, or too much of it")
        mark = kept.partition(".")[0]
        if mark in self._used:
            raise ForgedError("this answer was already used")
        self._used[mark] = None
        while len(self._used) > _MOST_USED:
            self._used.popitem(last=False)
        who = await self._provider.verify_return(kept, words)
        mapping = self._office.web.oidc
        role, projects = map_group_role(mapping, who.groups), map_group_projects(mapping, who.groups)
        subject = f"{mapping.issuer} {who.subject}"
        found = await self._office.write(
            lambda store: admit_account(
                store, strip_group_domain(mapping, who.name), "oidc", subject=subject, role=role, projects=projects
            )
        )
        if found.disabled:
            raise UsageError("the account is disabled")
        return await begin_session_route(self._office, request, found, "oidc")

    async def _back(self, request: Request, place: Place, why: str, told: str) -> Response:
        _LOG.warning("sign-in by the OpenID provider: %s", told)
        await self._office.note(request, "", "sign in", told, how="oidc", done=False)
        headers = {"set-cookie": build_expired_session_cookie(_name(place), place), "cache-control": "no-store"}
        return RedirectResponse(f"/signin?refused={why}", 303, headers)

    def _seal(self, kept: str) -> str:
        return blake2b(kept.encode(), key=self._office.key[:64], digest_size=24, person=b"oidc-cookie").hexdigest()

    def _opened(self, sent: str | None) -> str | None:
        """What a cookie of ours that is not too old keeps."""
        kept, _, seal = (sent or "").rpartition(".")
        if not kept or not hmac.compare_digest(seal.encode("latin-1", "replace"), self._seal(kept).encode()):
            return None
        return kept if self._office.course.read_now() // 10**9 - int(kept.split(".")[1]) <= _LASTS_S else None


def _name(place: Place) -> str:
    return f"{place.cookie}-oidc"


def clean_sign_on_path(target: str) -> str:
    """A path of these pages; `/` for what would lead elsewhere."""
    fine = (
        target.startswith("/")
        and not target.startswith(("//", "/\\", "/api/"))
        and target.isprintable()
        and "\\" not in target
        and len(target) <= _LONGEST
        and target.isascii()
    )
    return target if fine else "/"
