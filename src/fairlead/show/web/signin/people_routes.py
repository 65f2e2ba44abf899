"""`/api/v1/links`, `/tokens`, `/accounts`, `/audit`: what somebody shares and holds, and what administrators see to.

Not here: what is kept of it (`people`), who asks (`authenticate`).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.explain.questions.job_accounts import read_run_accounts
from fairlead.explain.questions.lake_queries import Run, Sight, Tables
from fairlead.explain.questions.visible_lake import is_job_visible
from fairlead.show.web.identity import ACT, ADMIN, Person, RefusedError, require_identity_scope
from fairlead.show.web.people import accounts, audit, credentials
from fairlead.show.web.people.accounts import Account
from fairlead.show.web.people.passwords import check_password
from fairlead.show.web.people.store import Store
from fairlead.show.web.signin import responses as told
from fairlead.show.web.signin.authenticate import SCOPES_OF, FrontDoor
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.request_bodies import (
    Changes,
    NewAccount,
    NewLink,
    NewToken,
    check_request_parameters,
    handle_request_refusals,
    parse_request_number,
    read_body,
    send_json_body,
)
from fairlead.show.web.signin.session_routes import ROOT

_DAY_NS = 86_400 * 10**9
_PAGE = 1000
_AGAIN_NS = 60 * 10**9
_Dated = TypeVar("_Dated", credentials.Link, credentials.Token)


class PeopleRoutes:
    """Made once; `lake` is asked which run a link is to."""

    def __init__(self, office: Office, door: FrontDoor, lake: Tables) -> None:
        self._office, self._door, self._lake = office, door, lake
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="links")
        self._refused: dict[tuple[str, str], int] = {}

    def list_routes(self) -> list[BaseRoute]:
        """The routes."""
        return [
            Route(f"{ROOT}/links", handle_request_refusals(self.serve_links), methods=["GET", "POST"]),
            Route(f"{ROOT}/links/{{id}}", handle_request_refusals(self.end), methods=["DELETE"], name="link"),
            Route(f"{ROOT}/tokens", handle_request_refusals(self.serve_tokens), methods=["GET", "POST"]),
            Route(f"{ROOT}/tokens/{{id}}", handle_request_refusals(self.end), methods=["DELETE"], name="token"),
            Route(f"{ROOT}/accounts", handle_request_refusals(self.serve_accounts), methods=["GET", "POST"]),
            Route(
                f"{ROOT}/accounts/{{name}}", handle_request_refusals(self.serve_account), methods=["PATCH", "DELETE"]
            ),
            Route(f"{ROOT}/accounts/{{name}}/welcome", handle_request_refusals(self.serve_welcome), methods=["POST"]),
            Route(f"{ROOT}/audit", handle_request_refusals(self.handle_audit), methods=["GET"]),
        ]

    # Links

    async def serve_links(self, request: Request) -> Response:
        """One's own links (`all`: everybody's, for administrators); makes one."""
        person = self._door.identify_person(request)
        if request.method == "POST":
            return await self._make_link(request, person)
        found = credentials.list_link_credentials(self._office.reading, await self._whose(request, person))
        return send_json_body(told.Links(links=[self._dated(one) for one in found]))

    async def _make_link(self, request: Request, person: Person) -> Response:
        check_request_parameters(request)
        require_identity_scope(person, ACT)
        await self._own(person, "share")
        asked = await read_body(request, NewLink)
        lasts_ns = _lasting(asked.days, self._office.web.link_days, "web.link_days")
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, _run_of, self._lake, asked, person.sight
        )
        if found is None:  # the same words for one that is not there and one that is not this person's
            raise RefusedError(404, f"no job {asked.job!r} is known", "see the list of jobs")
        run, user, project = found
        line = self._office.write_audit_line(request, person.name, "make link", _called(run), how=person.how)

        def work(store: Store) -> tuple[str, credentials.Link]:
            made = credentials.create_link_credential(store, person.name, run, lasts_ns, user=user, project=project)
            line(store)
            return made

        secret, made = await self._office.write(work)
        one = told.LinkMade(
            id=made.id,
            token=secret,
            url=f"/shared#{secret}",
            job=made.job,
            cluster=made.cluster,
            start_ns=made.start_ns,
            expires_ns=self._office.course.to_wall_clock(made.expires_ns),
        )
        return send_json_body(one, 201)

    # Tokens

    async def serve_tokens(self, request: Request) -> Response:
        """One's own API tokens (`all`: everybody's, for administrators); makes one."""
        person = self._door.identify_person(request)
        if request.method == "POST":
            return await self._make_token(request, person)
        found = credentials.list_token_credentials(self._office.reading, await self._whose(request, person))
        return send_json_body(told.Tokens(tokens=[self._dated(one) for one in found]))

    async def _make_token(self, request: Request, person: Person) -> Response:
        check_request_parameters(request)
        if person.how not in ("session", "header"):  # one that leaked must not live on as another
            raise RefusedError(403, "sign in to make tokens", "sign in")
        await self._own(person, "hold tokens")
        asked = await read_body(request, NewToken)
        if not asked.title.strip() or len(asked.title) > 100 or not asked.title.isprintable():
            raise RefusedError(400, "the title is missing or too long", "say what the token is for")
        beyond = [scope for scope in asked.scopes if scope not in SCOPES_OF[person.role]]
        if beyond or not asked.scopes:
            raise RefusedError(403, "the token would have more rights than you", f"{', '.join(SCOPES_OF[person.role])}")
        lasts_ns = _lasting(asked.days, self._office.web.token_days, "web.token_days")
        scopes = tuple(scope for scope in SCOPES_OF[person.role] if scope in asked.scopes)
        line = self._office.write_audit_line(request, person.name, "make token", ", ".join(scopes), how=person.how)

        def work(store: Store) -> tuple[str, credentials.Token]:
            made = credentials.create_token_credential(
                store, person.name, title=asked.title.strip(), scopes=scopes, lasts_ns=lasts_ns
            )
            line(store)
            return made

        secret, made = await self._office.write(work)
        one = told.TokenMade(
            id=made.id,
            token=secret,
            title=made.title,
            scopes=made.scopes,
            expires_ns=self._office.course.to_wall_clock(made.expires_ns),
        )
        return send_json_body(one, 201)

    async def end(self, request: Request) -> Response:
        """Ends a link or a token: one's own, or anybody's for administrators."""
        check_request_parameters(request)
        person = self._door.identify_person(request)
        key = str(request.path_params["id"])
        what = "link" if "/links/" in request.url.path else "token"
        if person.only is not None:
            raise RefusedError(403, "a share link is read-only", "sign in")
        if person.how == "token":
            require_identity_scope(person, ACT)
        name = None if ADMIN in person.scopes else person.name
        ending = credentials.end_link_credential if what == "link" else credentials.end_token_credential

        def work(store: Store) -> str | None:
            owner = ending(store, key, name)
            if owner is not None:
                self._office.write_audit_line(request, person.name, f"end {what}", f"{key} of {owner}", how=person.how)(
                    store
                )
            return owner

        if await self._office.write(work) is None:
            raise RefusedError(404, f"you have no such {what}", f"GET {ROOT}/{what}s lists them")
        return send_json_body(told.CredentialEnd(id=key))

    async def _whose(self, request: Request, person: Person) -> str | None:
        """Whose are listed: one's own, None for everybody's."""
        check_request_parameters(request, "all")
        if person.only is not None:
            raise RefusedError(403, "a share link is read-only", "sign in")
        if request.query_params.get("all") not in ("1", "true"):
            return person.name
        await self._administrator(request, person, f"list {request.url.path.rpartition('/')[2]} of all")
        return None

    async def _own(self, person: Person, what: str) -> None:
        """Raises RefusedError 403 for who has no account: a token made with the server's key, the open door."""
        if person.how == "header":  # its row may still be on its way
            role, projects = person.role, person.projects
            await self._office.write(
                lambda store: accounts.admit_account(store, person.name, "header", role=role, projects=projects)
            )
        elif not person.name or accounts.find_account(self._office.reading, person.name) is None:
            raise RefusedError(403, f"only an account can {what}", "sign in")

    # Accounts

    async def serve_accounts(self, request: Request) -> Response:
        """All accounts; makes one."""
        check_request_parameters(request)
        person = self._door.identify_person(request)
        if request.method == "GET":
            await self._administrator(request, person, "list accounts")
            found = accounts.list_accounts(self._office.reading)
            return send_json_body(told.Accounts(accounts=[self._shown(one) for one in found]))
        await self._administrator(request, person, "add account")
        asked = await read_body(request, NewAccount)
        name = accounts.check_account_name(asked.name)
        kept = await self._hashed(asked.password, name, asked.way)
        line = self._office.write_audit_line(
            request, person.name, "add account", f"{name}: {asked.role}", how=person.how
        )

        def work(store: Store) -> Account:
            made = accounts.add_account(
                store, name, role=asked.role, way=asked.way, projects=asked.projects, password=kept
            )
            line(store)
            return made

        return send_json_body(self._shown(await self._office.write(work)), 201)

    async def serve_account(self, request: Request) -> Response:
        """Changes or removes one."""
        check_request_parameters(request)
        person = self._door.identify_person(request)
        name = str(request.path_params["name"])[:200]
        act = "remove account" if request.method == "DELETE" else "change account"
        await self._administrator(request, person, act, name)
        if request.method == "DELETE":
            line = self._office.write_audit_line(request, person.name, act, name, how=person.how)

            def leave(store: Store) -> None:
                accounts.remove_account(store, name)
                line(store)

            await self._office.write(leave)
            return send_json_body(told.AccountRemoval(name=name))
        asked = await read_body(request, Changes)
        before = accounts.get_account(self._office.reading, name)
        kept = await self._hashed(asked.password, name, asked.way or before.way)
        said = {key: value for key, value in msgspec.to_builtins(asked).items() if value is not None}
        words = ", ".join(key if key == "password" else f"{key} {value}" for key, value in said.items())
        line = self._office.write_audit_line(request, person.name, act, f"{name}: {words}", how=person.how)

        def work(store: Store) -> Account:
            accounts.change_account(
                store, name, role=asked.role, projects=asked.projects, disabled=asked.disabled, way=asked.way
            )
            if kept is not None:
                accounts.set_account_password(store, name, kept)
            line(store)
            return accounts.get_account(store, name)

        return send_json_body(self._shown(await self._office.write(work)))

    async def serve_welcome(self, request: Request) -> Response:
        """An address that lets somebody in once, to choose a password."""
        check_request_parameters(request)
        person = self._door.identify_person(request)
        name = str(request.path_params["name"])[:200]
        await self._administrator(request, person, "welcome", name)
        found = accounts.get_account(self._office.reading, name)
        if found.way != "local" or found.disabled:
            raise RefusedError(
                409, f"{name} cannot sign in with a local password", "see its way, and whether it is disabled"
            )
        line = self._office.write_audit_line(request, person.name, "welcome", name, how=person.how)

        def work(store: Store) -> str:
            accounts.get_account(store, name)  # a key of an account that is not there makes an administrator
            line(store)
            return credentials.create_welcome_credential(store, name)

        secret = await self._office.write(work)
        expires = self._office.course.wall() + credentials.WELCOME_NS
        return send_json_body(told.Welcome(name=name, url=f"/welcome#{secret}", expires_ns=expires), 201)

    async def handle_audit(self, request: Request) -> Response:
        """The audit log, latest first; `before` pages on."""
        check_request_parameters(request, "before", "limit", "who", "act")
        person = self._door.identify_person(request)
        await self._administrator(request, person, "read audit log")
        limit = parse_request_number(request, "limit", 100, 1, _PAGE) or 100
        found = audit.list_audit_entries(
            self._office.reading,
            before=parse_request_number(request, "before", None, 1, 2**62),
            limit=limit,
            who=request.query_params.get("who", "")[:200],
            act=request.query_params.get("act", "")[:200],
        )
        following = found[-1].number if len(found) == limit else None
        return send_json_body(told.AuditPage(entries=found, next=following))

    async def _administrator(self, request: Request, person: Person, act: str, what: str = "") -> None:
        """Raises RefusedError 403, and writes down that it was tried."""
        try:
            require_identity_scope(person, ADMIN)
        except RefusedError:
            now = self._office.course.read_now()
            if len(self._refused) > _PAGE:
                self._refused.clear()
            if now - self._refused.get((person.name, act), 0) > _AGAIN_NS:  # trying for hours must not flood the log
                self._refused[person.name, act] = now
                await self._office.note(request, person.name, act, what, how=person.how, done=False)
            raise

    async def _hashed(self, password: str | None, name: str, way: str) -> str | None:
        if password is None:
            return None
        if way != "local":
            raise RefusedError(409, "only local accounts have a local password", "leave it out")
        return await self._office.passwords.hash_in_thread(check_password(password, name))

    def _shown(self, one: Account) -> told.AccountTold:
        return told.AccountTold(
            name=one.name,
            role=one.role,
            way=one.way,
            projects=one.projects,
            disabled=one.disabled,
            has_password=one.has_password,
            made_ns=self._office.course.to_wall_clock(one.made_ns),
            signed_in_ns=None if one.signed_in_ns is None else self._office.course.to_wall_clock(one.signed_in_ns),
        )

    def _dated(self, one: _Dated) -> _Dated:
        shown = self._office.course.to_wall_clock
        seen = None if one.seen_ns is None else shown(one.seen_ns)
        return msgspec.structs.replace(one, made_ns=shown(one.made_ns), expires_ns=shown(one.expires_ns), seen_ns=seen)


def _lasting(days: float, most: float, setting: str) -> int:
    if not 0 < days <= most:
        raise RefusedError(400, f"days: more than 0 and at most {most:g}", f"{setting} is the limit")
    return int(days * _DAY_NS)


def _run_of(lake: Tables, asked: NewLink, sight: Sight) -> tuple[Run, str | None, str | None] | None:
    """The run that is meant, its user and project, when it may be seen."""
    if len(asked.job) > 256 or len(asked.cluster or "") > 256:
        return None
    for one in read_run_accounts(lake, asked.job, asked.cluster):
        if asked.start_ns in (None, one["start_ns"]) and is_job_visible(one, sight):
            return Run(one["cluster"], one["job_id"], one["start_ns"]), one["user"], one["project"]
    return None


def _called(run: Run) -> str:
    return f"{run.cluster or ''} {run.job_id}".strip()
