"""`/api/v1/signin` and `/api/v1/session`: which ways there are, signing in and out, who is signed in, the password.

Not here: checking a password (`password_sign_in`), the OpenID provider (`single_sign_on`), who asks (`authenticate`).
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

import fairlead
from fairlead.show.web.guard.client_address import Place, find_client_cookie, find_client_header
from fairlead.show.web.guard.csrf import derive_csrf_token, derive_portal_csrf_token
from fairlead.show.web.identity import Person, RefusedError
from fairlead.show.web.people.accounts import Account, get_account, has_no_usable_account, set_account_password
from fairlead.show.web.people.credentials import (
    begin_credential_session,
    end_credential_session,
    hash_credential_secret,
)
from fairlead.show.web.people.passwords import check_password
from fairlead.show.web.people.store import Store
from fairlead.show.web.signin.authenticate import SCOPES_OF, FrontDoor
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.password_sign_in import Ways as LetIn
from fairlead.show.web.signin.request_bodies import (
    NewPassword,
    SignIn,
    check_request_parameters,
    handle_request_refusals,
    read_body,
    send_json_body,
)
from fairlead.show.web.signin.responses import PasswordChange, RunShown, Session, SignedOut, Ways, WayTold

ROOT = "/api/v1"


class SessionRoutes:
    """Made once."""

    def __init__(self, office: Office, door: FrontDoor, ways: LetIn) -> None:
        self._office, self._door, self._ways = office, door, ways

    def list_routes(self) -> list[BaseRoute]:
        """The routes."""
        return [
            Route(f"{ROOT}/signin", handle_request_refusals(self.handle_offered), methods=["GET"]),
            Route(f"{ROOT}/session", handle_request_refusals(self.serve_session), methods=["GET", "POST", "DELETE"]),
            Route(f"{ROOT}/session/password", handle_request_refusals(self.serve_password), methods=["POST"]),
        ]

    async def handle_offered(self, request: Request) -> Response:
        """How one can sign in; anybody may ask."""
        check_request_parameters(request)
        web = self._office.web
        ways: list[WayTold] = []
        if web.header.name:
            ways.append(WayTold(kind="header", title="Portal"))
        if web.oidc.issuer:
            ways.append(WayTold(kind="oidc", title=web.oidc.title, url=f"{ROOT}/signin/oidc"))
        if web.ldap.url:
            ways.append(WayTold(kind="ldap", title=web.ldap.title))
        if web.local:
            ways.append(WayTold(kind="local", title="Account of this server"))
        return send_json_body(
            Ways(
                ways=ways,
                simulated=web.simulated,
                version=fairlead.__version__,
                first_run=has_no_usable_account(self._office.reading),
            )
        )

    async def serve_session(self, request: Request) -> Response:
        """Who is signed in; signs in; signs out."""
        check_request_parameters(request)
        if request.method == "POST":
            return await self._sign_in(request)
        if request.method == "DELETE":
            return await self._sign_out(request)
        return send_json_body(self._told(request, self._door.identify_person(request)))

    async def _sign_in(self, request: Request) -> Response:
        asked = await read_body(request, SignIn)
        found = await self._ways.admit_person(request, asked)
        secret = await begin_session_route(self._office, request, found, "welcome" if asked.welcome else found.way)
        place = self._office.places.find_place(request.scope)
        expires_ns = self._office.course.wall() + min(self._office.idle_ns, self._office.longest_ns)
        told = Session(
            name=found.name,
            role=found.role,
            projects=found.projects,
            scopes=SCOPES_OF[found.role],
            how="session",
            csrf=derive_csrf_token(secret),
            expires_ns=expires_ns,
            has_password=found.has_password,
            way=found.way,
            simulated=self._office.web.simulated,
        )
        return send_json_body(
            told, headers={"set-cookie": build_session_cookie(place, secret, self._office.longest_ns)}
        )

    async def _sign_out(self, request: Request) -> Response:
        held = self._door.find_session(request)
        place = self._office.places.find_place(request.scope)
        if held is not None:
            line = self._office.write_audit_line(request, held.name, "sign out", how=held.how)

            def work(store: Store) -> None:
                end_credential_session(store, held.hash)
                line(store)

            await self._office.write(work)
        headers = {"set-cookie": build_expired_session_cookie(place.cookie, place), "clear-site-data": '"cache"'}
        return send_json_body(SignedOut(signed_out=held is not None), headers=headers)

    def _told(self, request: Request, person: Person) -> Session:
        held = self._door.find_session(request) if person.how == "session" else None
        word = None
        if held is not None:
            word = derive_csrf_token(
                find_client_cookie(request.scope, self._office.places.find_place(request.scope).cookie) or ""
            )
        elif person.how == "header":
            named = find_client_header(request.scope, self._office.web.header.name.lower().encode()) or ""
            word = derive_portal_csrf_token(self._office.key, named)
        run = person.only
        found = get_account(self._office.reading, held.name) if held is not None else None
        return Session(
            name=person.name,
            role=person.role,
            projects=person.projects,
            scopes=person.scopes,
            how=person.how,
            csrf=word,
            expires_ns=self._office.course.to_wall_clock(held.expires_ns) if held is not None else None,
            has_password=found.has_password if found is not None else None,
            way=found.way if found is not None else None,
            run=None if run is None else RunShown(job=run.job_id, cluster=run.cluster, start_ns=run.start_ns),
            simulated=self._office.web.simulated,
        )

    async def serve_password(self, request: Request) -> Response:
        """Changes one's own password; other sessions of the account end."""
        person = self._door.identify_person(request)
        held = self._door.find_session(request)
        if person.how != "session" or held is None:
            raise RefusedError(403, "sign in to change your password", "sign in")
        asked = await read_body(request, NewPassword)
        there = get_account(self._office.reading, held.name)
        if there.way != "local":
            raise RefusedError(409, "the password is not stored here", "change it where the account comes from")
        check_password(asked.new, held.name)
        if there.has_password:
            await self._ways.confirm_password(request, held.name, asked.old)
        kept = await self._office.passwords.hash_in_thread(asked.new)
        line = self._office.write_audit_line(request, held.name, "change password")

        def work(store: Store) -> None:
            set_account_password(store, held.name, kept, keep=held.hash)
            line(store)

        await self._office.write(work)
        return send_json_body(PasswordChange())


async def begin_session_route(office: Office, request: Request, found: Account, how: str) -> str:
    """A new session: never one whose id was known before. What the browser showed until now ends."""
    before = find_client_cookie(request.scope, office.places.find_place(request.scope).cookie)
    line = office.write_audit_line(request, found.name, "sign in", how=how)

    def work(store: Store) -> str:
        if before is not None:
            end_credential_session(store, hash_credential_secret(before))
        line(store)
        return begin_credential_session(store, found.name, how)

    return await office.write(work)


def build_session_cookie(place: Place, secret: str, lasts_ns: int) -> str:
    """The header that makes a browser keep a session."""
    lasts_s = lasts_ns // 10**9
    return f"{place.cookie}={secret}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{_secure(place)}"


def build_expired_session_cookie(name: str, place: Place) -> str:
    """The header that makes it forget one."""
    return f"{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{_secure(place)}"


def _secure(place: Place) -> str:
    return "; Secure" if place.secure else ""
