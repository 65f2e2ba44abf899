"""The trusted header: a portal in front has let somebody in and names him. Believed from the portal's address alone."""

from __future__ import annotations

import hmac

from starlette.requests import Request

from fairlead.core.errors import UsageError
from fairlead.show.web.guard.client_address import Places, list_client_headers
from fairlead.show.web.identity import RefusedError, Role
from fairlead.show.web.people.accounts import admit_account, check_account_name, find_account
from fairlead.show.web.signin.context import Office
from fairlead.show.web.signin.group_roles import map_group_projects, map_group_role, strip_group_domain
from fairlead.show.web.web_settings import read_web_secret

_MOST_BYTES = 16384
_AGAIN_NS = 60 * 10**9
SECRET = b"x-fairlead-portal"


class Portal:
    """Made once of the settings. Raises ConfigError when its secret cannot be read."""

    def __init__(self, office: Office, places: Places) -> None:
        self._office, self._places = office, places
        self._header = office.web.header
        self._name = self._header.name.lower().encode()
        self._groups = self._header.groups.lower().encode()
        file = self._header.secret_file
        self._secret = read_web_secret(file, "web.header.secret_file").encode() if file else b""
        self._written: dict[str, tuple[int, Role | None, tuple[str, ...] | None]] = {}

    def read_names(self, request: Request) -> tuple[str, Role, tuple[str, ...]] | None:
        """Name, role and projects of who the portal says asks; None where no portal of ours says anything. Raises
        RefusedError."""
        told = list_client_headers(request.scope, self._name) if self._name else []
        if not told:
            return None
        place = self._places.find_place(request.scope)
        if not place.by_proxy:
            return None  # anybody may write a header
        if self._secret:
            proof = list_client_headers(request.scope, SECRET)
            if len(proof) != 1 or not hmac.compare_digest(proof[0].encode("latin-1"), self._secret):
                raise RefusedError(403, "the portal did not send its secret", "see web.header.secret_file")
        if not place.at_origin:
            raise RefusedError(403, "the portal was asked under another address", "see web.origin")
        groups = ",".join(list_client_headers(request.scope, self._groups)) if self._groups else ""
        if len(told) != 1 or len(told[0]) + len(groups) > _MOST_BYTES:
            raise RefusedError(403, "the portal does not name one user", "it must replace this header from its clients")
        held = [_text(group).strip() for group in groups.split(",") if group.strip()]
        try:
            name = check_account_name(strip_group_domain(self._header, _text(told[0]).strip()))
        except UsageError as error:
            raise RefusedError(403, error.what, error.remedy or "") from None
        return name, *self._account(name, map_group_role(self._header, held), map_group_projects(self._header, held))

    def _account(self, name: str, role: Role | None, projects: tuple[str, ...] | None) -> tuple[Role, tuple[str, ...]]:
        """What the account adds; it is made, or brought up to date, where it is not as the portal says."""
        found = find_account(self._office.reading, name)
        if found is not None and (found.disabled or found.way != "header"):
            what = "the account is disabled" if found.disabled else "the name is that of another account"
            raise RefusedError(403, what, "ask an administrator")
        given_role: Role = role or (found.role if found else "user")
        given = projects if projects is not None else found.projects if found else ()
        if found is None or found.role != given_role or found.projects != given:
            self._write(name, role, projects)
        return given_role, given

    def _write(self, name: str, role: Role | None, projects: tuple[str, ...] | None) -> None:
        now = self._office.course.read_now()
        at, *was = self._written.get(name, (0, None, None))
        if now - at < _AGAIN_NS and was == [role, projects]:
            return
        if len(self._written) > 10_000:
            self._written.clear()
        self._written[name] = (now, role, projects)
        self._office.do_later(lambda store: admit_account(store, name, "header", role=role, projects=projects))


def _text(value: str) -> str:
    """Headers travel as Latin-1; portals write UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value
