"""The file `people.sqlite` of the server's state folder, used by the server and by `fairlead account` at the same time.

What was committed survives the process and the machine. Readers never wait for writers. Not here: what the rows mean
(`accounts`, `credentials`, `audit`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairlead.core.clock import now_ns
from fairlead.core.errors import ConfigError, LakeError, UsageError
from fairlead.show.web.people.expiry_clock import ExpiryClock

FILE = "people.sqlite"
_VERSION = 2
_PATIENCE_S = 20.0
_SCHEMA = """
CREATE TABLE account (name TEXT PRIMARY KEY, role TEXT NOT NULL, way TEXT NOT NULL, subject TEXT NOT NULL,
    password TEXT, projects TEXT NOT NULL, disabled INTEGER NOT NULL, made_ns INTEGER NOT NULL, signed_in_ns INTEGER);
CREATE TABLE session (hash BLOB PRIMARY KEY, account TEXT NOT NULL REFERENCES account ON DELETE CASCADE,
    how TEXT NOT NULL, begun_ns INTEGER NOT NULL, seen_ns INTEGER NOT NULL);
CREATE INDEX session_account ON session (account);
CREATE TABLE token (hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, account TEXT NOT NULL REFERENCES account
    ON DELETE CASCADE, title TEXT NOT NULL, scopes TEXT NOT NULL, made_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL,
    seen_ns INTEGER);
CREATE INDEX token_account ON token (account);
CREATE TABLE link (hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, account TEXT NOT NULL REFERENCES account
    ON DELETE CASCADE, cluster TEXT, job TEXT NOT NULL, start_ns INTEGER, made_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL, seen_ns INTEGER, user TEXT, project TEXT);
CREATE INDEX link_account ON link (account);
CREATE TABLE welcome (hash BLOB PRIMARY KEY, account TEXT NOT NULL, expires_ns INTEGER NOT NULL);
CREATE TABLE audit (number INTEGER PRIMARY KEY AUTOINCREMENT, at_ns INTEGER NOT NULL, who TEXT NOT NULL,
    how TEXT NOT NULL, address TEXT NOT NULL, act TEXT NOT NULL, what TEXT NOT NULL, done INTEGER NOT NULL);
CREATE INDEX audit_at ON audit (at_ns);
CREATE TABLE mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_SECOND = ("ALTER TABLE link ADD COLUMN user TEXT", "ALTER TABLE link ADD COLUMN project TEXT")
"""What the second version adds to the first: whose a shared run is."""


class ConflictError(UsageError):
    """What is asked for does not go with what there is: a name is taken, the last administrator would be gone."""


class NobodyError(UsageError):
    """There is no account, token or link of this name."""


class Store:
    """The file, opened by one thread (`any_thread`: handed between threads, used by one at a time). Raises LakeError
    when it cannot be used, ConfigError for one of a newer fairlead."""

    def __init__(
        self,
        folder: Path,
        *,
        wall: Callable[[], int] = now_ns,
        course: ExpiryClock | None = None,
        create: bool = True,
        any_thread: bool = False,
    ) -> None:
        self.path = folder / FILE
        try:
            if create:
                folder.mkdir(parents=True, exist_ok=True)
                # Only where it is not there: closing it would take away the locks this process has on it by SQLite,
                # and another process would then remove the log that is read here.
                with suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            elif not self.path.is_file():
                raise LakeError("there are no accounts yet", where=str(self.path), remedy="fairlead account add NAME")
            self._base = sqlite3.connect(
                self.path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=not any_thread
            )
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._base.execute(f"PRAGMA {setting}")
            if self._version() != _VERSION:
                self._base.execute("BEGIN IMMEDIATE")
                self._prepare()
                self._base.execute("COMMIT")
        except (OSError, sqlite3.Error) as fault:
            raise LakeError(
                f"cannot be used: {fault}", where=str(self.path), remedy="check folder and owner"
            ) from fault
        found = self.select_rows("SELECT value FROM mark WHERE name = 'latest_ns'")
        self.course = course or ExpiryClock(wall, int(found[0][0]) if found else 0)

    def _version(self) -> int:
        return int(self.select_rows("PRAGMA user_version")[0][0])

    def _prepare(self) -> None:
        version = self._version()
        if version > _VERSION:
            raise ConfigError("is from a newer version of fairlead", where=str(self.path), remedy="use that version")
        if version == _VERSION:  # another process was first
            return
        for statement in _SECOND if version else _SCHEMA.split(";"):
            self._base.execute(statement)
        self._base.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Lets go of the file."""
        self._base.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def now(self) -> int:
        """The time things expire by."""
        return self.course.read_now()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All of what is done inside, on disk when it ends; or nothing of it. Inside another, it is part of that."""
        if self._base.in_transaction:
            yield
            return
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute(
                "INSERT INTO mark VALUES ('latest_ns', ?) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
                (self.now,),
            )
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def select_rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a SELECT finds."""
        return self._base.execute(sql, values).fetchall()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Runs one statement; returns how many rows it changed."""
        return self._base.execute(sql, values).rowcount
