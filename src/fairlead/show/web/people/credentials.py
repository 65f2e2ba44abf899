"""What somebody holds who was let in: sessions, API tokens, share links, welcome keys. Only hashes of them are kept.

Each is 256 bits of chance, so that a plain hash is enough. Not here: passwords (`passwords`), cookies (`signin`).
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

import msgspec

from fairlead.explain.questions.lake_queries import Run
from fairlead.show.web.identity import Role
from fairlead.show.web.people.accounts import add_account, find_account, parse_account_projects
from fairlead.show.web.people.store import ConflictError, Store

TOKEN, LINK, SESSION, WELCOME = "fla_", "flk_", "fls_", "flw_"
"""What they begin with."""
TOUCH_NS = 60 * 10**9
"""When something was last used is written at most this often."""
WELCOME_NS = 3600 * 10**9
_MOST = {"session": 100, "token": 50, "link": 500}


class CredentialHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a credential, as the account is now. `hash` names it; `how` the session was begun; `scopes` of a token;
    `run` of a link, whose `id` it is, with the `user` and `project` of that run."""

    hash: bytes
    name: str
    role: Role
    projects: tuple[str, ...]
    begun_ns: int
    expires_ns: int
    seen_ns: int | None
    how: str = ""
    id: str = ""
    scopes: tuple[str, ...] = ()
    run: Run | None = None
    user: str | None = None
    project: str | None = None


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """An API token as its owner sees it afterwards."""

    id: str
    owner: str
    title: str
    scopes: tuple[str, ...]
    made_ns: int
    expires_ns: int
    seen_ns: int | None


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A share link as its maker sees it afterwards."""

    id: str
    owner: str
    cluster: str | None
    job: str
    start_ns: int | None
    made_ns: int
    expires_ns: int
    seen_ns: int | None


def hash_credential_secret(secret: str) -> bytes:
    """What is kept of a secret."""
    return blake2b(secret.encode("utf-8", "surrogateescape"), digest_size=32, person=b"fairlead").digest()


def _new(kind: str) -> str:
    return kind + secrets.token_urlsafe(32)


def begin_credential_session(store: Store, name: str, how: str) -> str:
    """Lets an account in; returns what its browser keeps. Sessions beyond the most there may be end, oldest first."""
    secret = _new(SESSION)
    with store.change():
        _purge(store, "session", name)
        store.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?)",
            (hash_credential_secret(secret), name, how, store.now, store.now),
        )
        store.execute("UPDATE account SET signed_in_ns = ? WHERE name = ?", (store.now, name))
    return secret


def find_credential_session(store: Store, secret: str, *, idle_ns: int, longest_ns: int) -> CredentialHolder | None:
    """Whose session it is; None for one that is unknown, over, or of an account that is disabled."""
    if not secret.startswith(SESSION):
        return None
    key = hash_credential_secret(secret)
    found = store.select_rows(
        "SELECT a.name, a.role, a.projects, s.begun_ns, s.seen_ns, s.how FROM session s JOIN account a"
        " ON a.name = s.account WHERE s.hash = ? AND a.disabled = 0",
        (key,),
    )
    if not found:
        return None
    name, role, projects, begun, seen, how = found[0]
    expires = min(begun + longest_ns, seen + idle_ns)
    if store.now >= expires:
        return None
    return CredentialHolder(
        hash=key,
        name=name,
        role=role,
        projects=parse_account_projects(projects),
        begun_ns=begun,
        expires_ns=expires,
        seen_ns=seen,
        how=how,
    )


def record_credential_use(store: Store, table: str, key: bytes) -> None:
    """Writes down that it was used now. `table`: session, token or link."""
    with store.change():
        store.execute(f"UPDATE {table} SET seen_ns = ? WHERE hash = ?", (store.now, key))  # noqa: S608


def end_credential_session(store: Store, key: bytes) -> None:
    """Ends it."""
    with store.change():
        store.execute("DELETE FROM session WHERE hash = ?", (key,))


def remove_expired_credentials(store: Store, *, idle_ns: int, longest_ns: int) -> None:
    """Removes what is over."""
    with store.change():
        now = store.now
        store.execute("DELETE FROM session WHERE begun_ns <= ? OR seen_ns <= ?", (now - longest_ns, now - idle_ns))
        for table in ("token", "link", "welcome"):
            store.execute(f"DELETE FROM {table} WHERE expires_ns <= ?", (now,))  # noqa: S608


def _purge(store: Store, table: str, name: str) -> None:
    """Makes room for one more session."""
    store.execute(
        f"DELETE FROM {table} WHERE account = ? AND hash NOT IN (SELECT hash FROM {table} WHERE account = ?"  # noqa: S608
        " ORDER BY seen_ns DESC LIMIT ?)",
        (name, name, _MOST[table] - 1),
    )


def _room(store: Store, table: str, name: str) -> None:
    store.execute(f"DELETE FROM {table} WHERE expires_ns <= ?", (store.now,))  # noqa: S608
    held = store.select_rows(f"SELECT count(*) FROM {table} WHERE account = ?", (name,))[0][0]  # noqa: S608
    if held >= _MOST[table]:
        raise ConflictError(f"{name} has {held} {table}s, the maximum", remedy="end one that is no longer needed")


# API tokens


def create_token_credential(
    store: Store, name: str, *, title: str, scopes: tuple[str, ...], lasts_ns: int
) -> tuple[str, Token]:
    """A token of an account: the secret, told once, and what is kept. Raises ConflictError when there are too many."""
    secret, key = _new(TOKEN), secrets.token_hex(6)
    with store.change():
        _room(store, "token", name)
        now = store.now
        made = Token(
            id=key, owner=name, title=title, scopes=scopes, made_ns=now, expires_ns=now + lasts_ns, seen_ns=None
        )
        store.execute(
            "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (hash_credential_secret(secret), key, name, title, ",".join(scopes), now, made.expires_ns),
        )
    return secret, made


def find_token_credential(store: Store, secret: str) -> CredentialHolder | None:
    """Whose API token it is; None for one that is unknown, over, or of an account that is disabled."""
    key = hash_credential_secret(secret)
    found = store.select_rows(
        "SELECT a.name, a.role, a.projects, t.made_ns, t.expires_ns, t.seen_ns, t.id, t.scopes FROM token t"
        " JOIN account a ON a.name = t.account WHERE t.hash = ? AND a.disabled = 0",
        (key,),
    )
    if not found or store.now >= found[0][4]:
        return None
    name, role, projects, made, expires, seen, number, scopes = found[0]
    return CredentialHolder(
        hash=key,
        name=name,
        role=role,
        projects=parse_account_projects(projects),
        begun_ns=made,
        expires_ns=expires,
        seen_ns=seen,
        id=number,
        scopes=tuple(scopes.split(",")),
    )


def list_token_credentials(store: Store, name: str | None) -> list[Token]:
    """Those of an account, or of all, latest first."""
    found = store.select_rows(
        "SELECT id, account, title, scopes, made_ns, expires_ns, seen_ns FROM token WHERE expires_ns > ?"
        " AND (account = ? OR ? IS NULL) ORDER BY made_ns DESC, id",
        (store.now, name, name),
    )
    names = ("id", "owner", "title", "scopes", "made_ns", "expires_ns", "seen_ns")
    return [Token(**{**dict(zip(names, row, strict=True)), "scopes": tuple(row[3].split(","))}) for row in found]


def end_token_credential(store: Store, number: str, name: str | None) -> str | None:
    """Ends a token (of this account only, where one is named); whose it was, None where there is none."""
    return _end(store, "token", number, name)


# Share links


def create_link_credential(
    store: Store, name: str, run: Run, lasts_ns: int, *, user: str | None = None, project: str | None = None
) -> tuple[str, Link]:
    """A link to one run (of this user and project): the secret, told once, and what is kept. Raises ConflictError when
    there are too many."""
    secret, key = _new(LINK), secrets.token_hex(6)
    with store.change():
        _room(store, "link", name)
        now = store.now
        made = Link(
            id=key,
            owner=name,
            cluster=run.cluster,
            job=run.job_id,
            start_ns=run.start_ns,
            made_ns=now,
            expires_ns=now + lasts_ns,
            seen_ns=None,
        )
        store.execute(
            "INSERT INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)",
            (
                hash_credential_secret(secret),
                key,
                name,
                run.cluster,
                run.job_id,
                run.start_ns,
                now,
                made.expires_ns,
                user,
                project,
            ),
        )
    return secret, made


def find_link_credential(store: Store, secret: str) -> CredentialHolder | None:
    """What a link shows, and who made it; None for one that is unknown, over, or of an account that is disabled."""
    key = hash_credential_secret(secret)
    found = store.select_rows(
        "SELECT a.name, a.role, k.made_ns, k.expires_ns, k.seen_ns, k.id, k.cluster, k.job, k.start_ns, a.projects,"
        " k.user, k.project FROM link k JOIN account a ON a.name = k.account WHERE k.hash = ? AND a.disabled = 0",
        (key,),
    )
    if not found or store.now >= found[0][3]:
        return None
    name, role, made, expires, seen, number, cluster, job, start, projects, user, project = found[0]
    return CredentialHolder(
        hash=key,
        name=name,
        role=role,
        projects=parse_account_projects(projects),
        begun_ns=made,
        expires_ns=expires,
        seen_ns=seen,
        id=number,
        run=Run(cluster, job, start),
        user=user,
        project=project,
    )


def list_link_credentials(store: Store, name: str | None) -> list[Link]:
    """Those of an account, or of all, latest first."""
    found = store.select_rows(
        "SELECT id, account, cluster, job, start_ns, made_ns, expires_ns, seen_ns FROM link WHERE expires_ns > ?"
        " AND (account = ? OR ? IS NULL) ORDER BY made_ns DESC, id",
        (store.now, name, name),
    )
    names = ("id", "owner", "cluster", "job", "start_ns", "made_ns", "expires_ns", "seen_ns")
    return [Link(**dict(zip(names, row, strict=True))) for row in found]


def end_link_credential(store: Store, number: str, name: str | None) -> str | None:
    """Ends a link (of this account only, where one is named); whose it was, None where there is none."""
    return _end(store, "link", number, name)


def _end(store: Store, table: str, number: str, name: str | None) -> str | None:
    with store.change():
        found = store.select_rows(
            f"SELECT account FROM {table} WHERE id = ? AND (account = ? OR ? IS NULL)",  # noqa: S608
            (number, name, name),
        )
        if not found:
            return None
        store.execute(f"DELETE FROM {table} WHERE id = ?", (number,))  # noqa: S608
        return str(found[0][0])


def create_welcome_credential(store: Store, name: str) -> str:
    """A key good for one sign-in as this account within the hour; an earlier one of it ends."""
    secret = _new(WELCOME)
    with store.change():
        store.execute("DELETE FROM welcome WHERE account = ? OR expires_ns <= ?", (name, store.now))
        store.execute(
            "INSERT INTO welcome VALUES (?, ?, ?)", (hash_credential_secret(secret), name, store.now + WELCOME_NS)
        )
    return secret


def use_welcome_credential(store: Store, secret: str) -> str | None:
    """The account a key is for, made as an administrator's where it is not there yet; the key is used up by it. None
    for one that is unknown, over or of an account that is disabled."""
    with store.change():
        found = store.select_rows(
            "SELECT account, expires_ns FROM welcome WHERE hash = ?", (hash_credential_secret(secret),)
        )
        if not found:
            return None
        store.execute("DELETE FROM welcome WHERE hash = ?", (hash_credential_secret(secret),))
        name, expires = found[0]
        if store.now >= expires:
            return None
        there = find_account(store, name)
        if there is None:
            add_account(store, name, role="admin")
        elif there.disabled:
            return None
        return str(name)
