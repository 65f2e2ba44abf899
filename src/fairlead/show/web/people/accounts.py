"""Accounts: who there is, what each may, whose jobs besides his own he sees. Not here: proof of who somebody is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from fairlead.core.errors import UsageError
from fairlead.show.web.identity import Role
from fairlead.show.web.people.store import ConflictError, NobodyError, Store

Way = Literal["local", "ldap", "oidc", "header"]
ROLES: tuple[Role, ...] = ("user", "support", "admin")
_NAME = re.compile(r"[^\W][\w.@+-]{0,127}")
_MOST_PROJECTS = 1000
_COLUMNS = "name, role, way, subject, password IS NOT NULL, projects, disabled, made_ns, signed_in_ns"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody. `way`: how he signs in; `subject`: what the OpenID provider knows him by."""

    name: str
    role: Role
    way: Way
    subject: str
    has_password: bool
    projects: tuple[str, ...]
    disabled: bool
    made_ns: int
    signed_in_ns: int | None


def check_account_name(name: str) -> str:
    """The name as it is kept. Raises UsageError for what can be none: it must be the one jobs are known by."""
    text = unicodedata.normalize("NFC", name)
    if not _NAME.fullmatch(text):
        raise UsageError("not a valid account name", remedy="letters, digits and . _ @ + -, at most 128")
    return text


def _check_projects(projects: Sequence[str]) -> tuple[str, ...]:
    """Projects without repeats. Raises UsageError for what can be none."""
    kept = tuple(dict.fromkeys(projects))
    if len(kept) > _MOST_PROJECTS or any(not p.strip() or len(p) > 128 or not p.isprintable() for p in kept):
        raise UsageError("not a valid project name", remedy=f"at most {_MOST_PROJECTS} names of 1 to 128 characters")
    return kept


def list_accounts(store: Store) -> list[Account]:
    """All of them, by name."""
    return [_account(row) for row in store.select_rows(f"SELECT {_COLUMNS} FROM account ORDER BY name")]  # noqa: S608


def find_account(store: Store, name: str) -> Account | None:
    """One of them."""
    found = store.select_rows(f"SELECT {_COLUMNS} FROM account WHERE name = ?", (name,))  # noqa: S608
    return _account(found[0]) if found else None


def has_no_usable_account(store: Store) -> bool:
    """Whether there is no account yet that is of elsewhere or has a password: only a welcome key lets in."""
    return not store.select_rows("SELECT 1 FROM account WHERE password IS NOT NULL OR way <> 'local' LIMIT 1")


def find_account_password_hash(store: Store, name: str) -> str | None:
    """The hash of a local account's password; None where there is none to compare with."""
    found = store.select_rows("SELECT password FROM account WHERE name = ? AND way = 'local'", (name,))
    return found[0][0] if found else None


def add_account(
    store: Store,
    name: str,
    *,
    role: Role = "user",
    way: Way = "local",
    projects: Sequence[str] = (),
    password: str | None = None,
    subject: str = "",
) -> Account:
    """A new account; `password` is a hash. Raises UsageError, ConflictError when the name is taken."""
    row = (check_account_name(name), _proper_role(role), way, subject, password, _listed(projects), store.now)
    with store.change():
        done = store.execute("INSERT OR IGNORE INTO account VALUES (?, ?, ?, ?, ?, ?, 0, ?, NULL)", row)
        if not done:
            raise ConflictError(f"account {row[0]!r} already exists", remedy="fairlead account list")
        return get_account(store, row[0])


def get_account(store: Store, name: str) -> Account:
    """The account of this name. Raises NobodyError where there is none."""
    found = find_account(store, name)
    if found is None:
        raise NobodyError(f"there is no account {name!r}", remedy="fairlead account list")
    return found


def change_account(
    store: Store,
    name: str,
    *,
    role: Role | None = None,
    projects: Sequence[str] | None = None,
    disabled: bool | None = None,
    way: Way | None = None,
) -> Account:
    """Changes what is given. Disabling ends sessions, tokens and links at once. Raises UsageError, ConflictError."""
    with store.change():
        before = get_account(store, name)
        if role is not None:
            store.execute("UPDATE account SET role = ? WHERE name = ?", (_proper_role(role), name))
        if projects is not None:
            store.execute("UPDATE account SET projects = ? WHERE name = ?", (_listed(projects), name))
        if way is not None and way != before.way:  # the next to come that way under this name is who it is
            store.execute("UPDATE account SET way = ?, subject = '', password = NULL WHERE name = ?", (way, name))
            _end_all(store, name)
        if disabled is not None:
            store.execute("UPDATE account SET disabled = ? WHERE name = ?", (int(disabled), name))
            if disabled:
                _end_all(store, name)
        if before.role == "admin" and not before.disabled:
            _one_administrator_left(store)
        return get_account(store, name)


def set_account_password(store: Store, name: str, password: str, *, keep: bytes | None = None) -> None:
    """Gives a local account the password of this hash; ends its welcome keys, and its sessions but the one of the hash
    `keep`."""
    with store.change():
        if get_account(store, name).way != "local":
            raise ConflictError(f"{name} has no local password", remedy="change it where the account comes from")
        store.execute("UPDATE account SET password = ? WHERE name = ?", (password, name))
        store.execute("DELETE FROM session WHERE account = ? AND hash IS NOT ?", (name, keep))
        store.execute("DELETE FROM welcome WHERE account = ?", (name,))


def rehash_account_password(store: Store, name: str, old: str, new: str) -> None:
    """The same password by newer parameters, unless it was changed meanwhile."""
    with store.change():
        store.execute("UPDATE account SET password = ? WHERE name = ? AND password = ?", (new, name, old))


def remove_account(store: Store, name: str) -> None:
    """Removes it with all that is its own. Raises UsageError, ConflictError for the last administrator."""
    with store.change():
        before = get_account(store, name)
        store.execute("DELETE FROM account WHERE name = ?", (name,))
        store.execute("DELETE FROM welcome WHERE account = ?", (name,))
        if before.role == "admin" and not before.disabled:
            _one_administrator_left(store)


def admit_account(
    store: Store,
    name: str,
    way: Way,
    *,
    subject: str = "",
    role: Role | None = None,
    projects: Sequence[str] | None = None,
) -> Account:
    """The account of somebody the directory, the provider or the portal vouches for, made when it is the first time.
    `role` and `projects` where groups say them. Raises UsageError for a name that can be none, ConflictError when it is
    somebody else's."""
    name = check_account_name(name)
    with store.change():
        found = find_account(store, name)
        if found is None:
            found = add_account(store, name, way=way, subject=subject)
        if found.way != way or (found.subject and found.subject != subject):
            raise ConflictError(
                f"the name {name!r} is taken", remedy="an administrator may change how the account signs in"
            )
        if subject != found.subject:
            store.execute("UPDATE account SET subject = ? WHERE name = ?", (subject, name))
        if role is not None and role != found.role:
            store.execute("UPDATE account SET role = ? WHERE name = ?", (role, name))
        if projects is not None and tuple(projects) != found.projects:
            store.execute("UPDATE account SET projects = ? WHERE name = ?", (_listed(projects), name))
        return get_account(store, name)


def _end_all(store: Store, name: str) -> None:
    """Ends sessions, tokens, links and welcome keys of an account."""
    with store.change():
        for table in ("session", "token", "link", "welcome"):
            store.execute(f"DELETE FROM {table} WHERE account = ?", (name,))  # noqa: S608


def _one_administrator_left(store: Store) -> None:
    if not store.select_rows("SELECT 1 FROM account WHERE role = 'admin' AND disabled = 0 LIMIT 1"):
        raise ConflictError("the last administrator cannot be removed", remedy="make another administrator first")


def _proper_role(role: str) -> str:
    if role not in ROLES:
        raise UsageError(f"unknown role: {role!r}", remedy=f"one of {', '.join(ROLES)}")
    return role


def _listed(projects: Sequence[str]) -> str:
    return msgspec.json.encode(_check_projects(projects)).decode()


def parse_account_projects(text: str) -> tuple[str, ...]:
    """Projects as the file keeps them."""
    return msgspec.json.decode(text, type=tuple[str, ...])


def _account(row: tuple[Any, ...]) -> Account:
    return Account(
        name=row[0],
        role=row[1],
        way=row[2],
        subject=row[3],
        has_password=bool(row[4]),
        projects=parse_account_projects(row[5]),
        disabled=bool(row[6]),
        made_ns=row[7],
        signed_in_ns=row[8],
    )
