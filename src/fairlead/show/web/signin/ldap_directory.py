"""Names and passwords checked by a directory (LDAP): bind as the person, read who that is and in which groups.

What somebody typed is data in every DN and filter. Blocking: for a thread. Not here: what groups mean (`group_roles`).
"""

from __future__ import annotations

import logging
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from fairlead.core.errors import MissingDependencyError
from fairlead.show.web.web_settings import Ldap, read_web_secret

if TYPE_CHECKING:
    from ldap3 import Connection, Server

_LOG = logging.getLogger("fairlead.people")
_MOST_GROUPS = 2000


class DirectoryError(Exception):
    """The directory cannot be asked now; the log says why."""


class DirectoryEntry(msgspec.Struct, frozen=True):
    """Somebody who showed the right password: the name of his entry, and his groups."""

    name: str
    groups: tuple[str, ...]


class Directory:
    """The directory of the settings. Raises ConfigError, MissingDependencyError."""

    def __init__(self, ldap: Ldap) -> None:
        _import_ldap3()
        self._ldap = ldap
        self._password = read_web_secret(ldap.bind_password_file, "web.ldap.bind_password_file") if ldap.bind else ""
        self._server = _server(ldap)

    def check(self, name: str, password: str) -> DirectoryEntry | None:
        """Who it is; None for a wrong name or password. Raises DirectoryError."""
        from ldap3.core.exceptions import LDAPException

        # An empty password is an anonymous bind, which succeeds for everybody; a NUL would cut the name short.
        if not name or not password or "\0" in name or "\0" in password or len(name) > 256:
            return None
        try:
            return self._check(name, password)
        except (LDAPException, OSError, DirectoryError) as fault:
            _LOG.warning("the directory %s: %s", self._ldap.url, fault)
            raise DirectoryError from fault

    def _check(self, name: str, password: str) -> DirectoryEntry | None:
        from ldap3.utils.dn import escape_rdn

        if self._ldap.user:
            place = self._ldap.user.replace("{name}", escape_rdn(name))
        else:
            found = self._searched(name)
            if found is None:
                return None
            place = found
        with self._open(place, password) as bound:
            if not bound.bind():
                if bound.result["description"] in ("invalidCredentials", "invalidDNSyntax", "noSuchObject"):
                    return None
                raise DirectoryError(bound.result["description"])
            if self._ldap.bind:
                with self._searching() as searching:
                    return self._found(searching, place)
            return self._found(bound, place)

    def _searched(self, name: str) -> str | None:
        """The DN of the one person of this name; None where there is none, or more than one."""
        with self._searching() as searching:
            asked = _filter(self._ldap.filter, name=name)
            searching.search(self._ldap.base, asked, attributes=["1.1"], size_limit=2, time_limit=10)
            places = _entries(searching)
        return str(places[0]["dn"]) if len(places) == 1 else None

    @contextmanager
    def _searching(self) -> Iterator[Connection]:
        with self._open(self._ldap.bind or None, self._password or None) as connection:
            if not connection.bind():
                why = connection.result["description"]
                raise DirectoryError(f"{self._ldap.bind or 'nobody'} may not search: {why}")
            yield connection

    @contextmanager
    def _open(self, place: str | None, password: str | None) -> Iterator[Connection]:
        """A connection that is encrypted where it is to be, and not bound yet."""
        from ldap3 import ANONYMOUS, SIMPLE, Connection

        connection = Connection(
            self._server,
            user=place,
            password=password,
            authentication=SIMPLE if place else ANONYMOUS,
            receive_timeout=max(1, round(self._ldap.timeout_s)),
            auto_referrals=False,
            raise_exceptions=False,
            read_only=True,
        )
        try:
            connection.open()
            if self._ldap.url.startswith("ldap:") and self._ldap.start_tls and not connection.start_tls():
                raise DirectoryError("it does not do StartTLS")
            yield connection
            connection.unbind()
        finally:
            if connection.socket is not None:  # ldap3 leaves it open where something fails
                connection.socket.close()

    def _found(self, asking: Connection, place: str) -> DirectoryEntry | None:
        ldap = self._ldap
        asking.search(place, "(objectClass=*)", "BASE", attributes=[ldap.name, "memberOf"], time_limit=10)
        entries = _entries(asking)
        if len(entries) != 1:
            raise DirectoryError(f"the entry {place} cannot be read")
        held = entries[0]["attributes"]
        names = _values(held, ldap.name)
        if len(names) != 1:  # which of them jobs are known by cannot be told
            _LOG.warning("the entry %s has %d values of %s: one is wanted", place, len(names), ldap.name)
            return None
        if not ldap.group_base:
            return DirectoryEntry(names[0], tuple(_first(group) for group in _values(held, "memberOf")[:_MOST_GROUPS]))
        asked = _filter(ldap.group_filter, name=names[0], dn=place)
        asking.search(ldap.group_base, asked, attributes=[ldap.group_name], size_limit=_MOST_GROUPS, time_limit=10)
        groups = [value for entry in _entries(asking) for value in _values(entry["attributes"], ldap.group_name)]
        return DirectoryEntry(names[0], tuple(groups))


def _import_ldap3() -> None:
    """Imports ldap3, which complains about what it is made of. Raises MissingDependencyError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import ldap3  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "a directory needs ldap3", where="web.ldap.url", remedy="pip install 'fairlead[signin]'"
        ) from None


def _server(ldap: Ldap) -> Server:
    from ldap3 import NONE, Server, Tls

    parts = urlsplit(ldap.url)
    host = parts.hostname or ""
    encrypted = parts.scheme == "ldaps"
    context = ssl.create_default_context(cafile=ldap.ca or None)

    class Checked(Tls):  # type: ignore[misc]
        """TLS as Python does it: ldap3's own check of names is of a Python that is gone."""

        def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:  # noqa: ARG002
            connection.socket = context.wrap_socket(connection.socket, server_hostname=host)

    return Server(
        host,
        port=parts.port or (636 if encrypted else 389),
        use_ssl=encrypted,
        tls=Checked(),
        get_info=NONE,
        connect_timeout=ldap.timeout_s,
    )


def _filter(text: str, **words: str) -> str:
    from ldap3.utils.conv import escape_filter_chars

    for word, value in words.items():
        text = text.replace(f"{{{word}}}", escape_filter_chars(value))
    return text


def _entries(connection: Connection) -> list[dict[str, Any]]:
    return [one for one in connection.response or () if one.get("type") == "searchResEntry"]


def _values(held: Any, name: str) -> list[str]:
    """Values of an attribute, whatever case its name is written in."""
    for key, value in held.items():
        if key.lower() == name.lower():
            listed = value if isinstance(value, list) else [value]
            return [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in listed]
    return []


def _first(place: str) -> str:
    """The name of a group by its DN (`cn=staff,ou=...`: staff)."""
    from ldap3.utils.dn import parse_dn

    return str(parse_dn(place)[0][1])
