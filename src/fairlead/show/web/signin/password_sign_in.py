"""Names and passwords: an account of fairlead's own, or one the directory knows. And welcome keys.

Every attempt is counted, takes the same work whether the name is known or not, and is written into the audit log. Not
here: the cookie (`session_routes`).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request

from fairlead.core.errors import UsageError
from fairlead.show.web.identity import RefusedError
from fairlead.show.web.people.accounts import (
    Account,
    admit_account,
    find_account,
    find_account_password_hash,
    rehash_account_password,
)
from fairlead.show.web.people.credentials import use_welcome_credential
from fairlead.show.web.people.passwords import LONGEST
from fairlead.show.web.people.store import ConflictError, Store
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.group_roles import map_group_projects, map_group_role, strip_group_domain
from fairlead.show.web.signin.ldap_directory import Directory, DirectoryError
from fairlead.show.web.signin.request_bodies import SignIn

_WRONG = RefusedError(401, "name or password is wrong", "try again, or ask an administrator")
_ASKING = 4


class Ways:
    """Made once of the settings. Raises ConfigError, MissingDependencyError."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._directory = Directory(office.web.ldap) if office.web.ldap.url else None
        self._threads = ThreadPoolExecutor(_ASKING, thread_name_prefix="directory")

    async def admit_person(self, request: Request, asked: SignIn) -> Account:
        """The account of who asks. Raises RefusedError 401, 403, 429, 503, CrowdedError."""
        place = self._office.places.find_place(request.scope)
        if not place.private:
            raise RefusedError(
                403,
                "passwords are not accepted unencrypted from another machine",
                "serve with tls:, or set web.origin to the https: address of the proxy in front",
            )
        if asked.welcome:
            return await self._welcome(request, asked.welcome)
        if not asked.name or not asked.password or len(asked.name) > 256 or len(asked.password) > LONGEST:
            raise RefusedError(400, "name or password is missing or too long", "send both")
        name = self._kept_name(asked)
        await self._begin(request, name)
        found = await self._checked(request, asked, name)
        if found is None:
            await self._failed(request, name)
            raise _WRONG
        self._office.attempts.record_success(name, place.address)
        if found.disabled:  # only who knows the password is told
            await self._office.note(request, found.name, "sign in", "the account is disabled", done=False)
            raise RefusedError(403, "the account is disabled", "ask an administrator")
        return found

    def _kept_name(self, asked: SignIn) -> str:
        return (
            strip_group_domain(self._office.web.ldap, asked.name)
            if self._directory and asked.way == "ldap"
            else asked.name
        )

    async def confirm_password(self, request: Request, name: str, password: str) -> None:
        """Checks the password of somebody who is signed in, before it is changed. Raises RefusedError."""
        await self._begin(request, name)
        good, _ = await self._office.passwords.check_in_thread(
            find_account_password_hash(self._office.reading, name), password
        )
        if not good:
            await self._failed(request, name, "change password")
            raise RefusedError(403, "the old password is wrong", "try again")
        self._office.attempts.record_success(name, self._office.places.find_place(request.scope).address)

    async def _begin(self, request: Request, name: str) -> None:
        wait_s = self._office.attempts.begin(name, self._office.places.find_place(request.scope).address)
        if wait_s > 0:
            again = {"retry-after": str(int(wait_s) + 1)}
            raise RefusedError(429, "too many attempts failed", f"wait {int(wait_s) + 1} s", again)

    async def _failed(self, request: Request, name: str, act: str = "sign in") -> None:
        # People type passwords where the name goes: only names that are known are written down.
        there = find_account(self._office.reading, name) is not None
        await self._office.note(request, name if there else "", act, "" if there else "an unknown name", done=False)

    async def _checked(self, request: Request, asked: SignIn, name: str) -> Account | None:
        office = self._office
        there = find_account(office.reading, name)
        ways = [asked.way] if asked.way else [there.way] if there is not None else ["ldap", "local"]
        if "ldap" in ways and self._directory is not None:
            return await self._by_directory(request, asked.name, asked.password)
        kept = find_account_password_hash(office.reading, name) if "local" in ways and office.web.local else None
        good, newer = await office.passwords.check_in_thread(kept, asked.password)
        if not good or there is None or kept is None:
            return None
        if newer is not None:
            await office.write(lambda store: rehash_account_password(store, name, kept, newer))
        return find_account(office.reading, name)

    async def _by_directory(self, request: Request, name: str, password: str) -> Account | None:
        assert self._directory is not None  # noqa: S101  (asked before)
        office, mapping = self._office, self._office.web.ldap
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._directory.check, strip_group_domain(mapping, name), password
            )
        except DirectoryError:
            await office.note(request, "", "sign in", "the directory does not respond", how="ldap", done=False)
            raise RefusedError(503, "the directory does not respond", "try again later", {"retry-after": "5"}) from None
        if found is None:
            return None
        role, projects = map_group_role(mapping, found.groups), map_group_projects(mapping, found.groups)
        try:
            return await office.write(
                lambda store: admit_account(
                    store, strip_group_domain(mapping, found.name), "ldap", role=role, projects=projects
                )
            )
        except UsageError as error:
            await office.note(request, found.name, "sign in", error.what, how="ldap", done=False)
            raise RefusedError(403, error.what, error.remedy or "") from None

    async def _welcome(self, request: Request, key: str) -> Account:
        # Keys are not guessed: of a name that all share, one who tries would keep everybody out.
        stranger = f"\0welcome {self._office.places.find_place(request.scope).address}"
        await self._begin(request, stranger)

        def use(store: Store) -> Account | None:
            name = use_welcome_credential(store, key) if len(key) <= 256 else None
            return find_account(store, name) if name is not None else None

        try:
            found = await self._office.write(use)
        except ConflictError as error:
            raise RefusedError(409, error.what, error.remedy or "") from None
        if found is None:
            await self._office.note(request, "", "sign in", "a used or expired welcome key", done=False)
            raise RefusedError(
                401, "this welcome address was used or has expired", "ask for a new one: fairlead account welcome"
            )
        self._office.attempts.record_success(stranger, self._office.places.find_place(request.scope).address)
        return found
