"""What alerting remembers, on disk: concerns seen, notices to send and sent, silences, acknowledgements, subscriptions.

One SQLite file of the server's state folder, used by the server and by `fairlead alert` at the same time. What was
committed survives the process and the machine. Not here: what is told (`rules`, `alert_evaluation`), sending
(`route_sender`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairlead.core.errors import ConfigError, LakeError
from fairlead.show.alerts.alert_subject import Concern

FILE = "alerts.sqlite"
_VERSION = 2
_PATIENCE_S = 20.0
_SCHEMA = """
CREATE TABLE concern (id TEXT PRIMARY KEY, detail TEXT NOT NULL, made_ns INTEGER NOT NULL, from_ns INTEGER NOT NULL,
    open INTEGER NOT NULL, severity TEXT NOT NULL, rule TEXT NOT NULL);
CREATE INDEX concern_open ON concern (open);
CREATE INDEX concern_made ON concern (made_ns);
CREATE TABLE notice (number INTEGER PRIMARY KEY AUTOINCREMENT, route TEXT NOT NULL, recipient TEXT NOT NULL,
    concern TEXT NOT NULL, kind TEXT NOT NULL, level INTEGER NOT NULL, severity TEXT NOT NULL, rule TEXT NOT NULL,
    body TEXT NOT NULL, made_ns INTEGER NOT NULL, state TEXT NOT NULL, batch TEXT, done_ns INTEGER,
    UNIQUE (route, recipient, concern, kind, level));
CREATE INDEX notice_state ON notice (state, route, recipient);
CREATE INDEX notice_concern ON notice (concern);
CREATE TABLE batch (id TEXT PRIMARY KEY, route TEXT NOT NULL, recipient TEXT NOT NULL, made_ns INTEGER NOT NULL,
    attempts INTEGER NOT NULL, due_ns INTEGER NOT NULL, error TEXT NOT NULL, untold INTEGER NOT NULL);
CREATE TABLE untold (route TEXT NOT NULL, recipient TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (route, recipient));
CREATE TABLE held (key TEXT PRIMARY KEY, concern TEXT NOT NULL, at_ns INTEGER NOT NULL);
CREATE TABLE silence (id TEXT PRIMARY KEY, match TEXT NOT NULL, until_ns INTEGER NOT NULL, who TEXT NOT NULL,
    why TEXT NOT NULL, made_ns INTEGER NOT NULL);
CREATE TABLE subscription (id TEXT PRIMARY KEY, owner TEXT NOT NULL, job TEXT NOT NULL, program TEXT NOT NULL,
    address TEXT NOT NULL, made_ns INTEGER NOT NULL, UNIQUE (owner, job, program, address));
CREATE TABLE mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_ACKNOWLEDGEMENTS = """
CREATE TABLE acknowledgement (id TEXT PRIMARY KEY, who TEXT NOT NULL, why TEXT NOT NULL, at_ns INTEGER NOT NULL,
    owner TEXT NOT NULL, from_ns INTEGER NOT NULL, to_ns INTEGER, site INTEGER NOT NULL);
CREATE INDEX acknowledgement_from ON acknowledgement (from_ns);
"""
_FROM_1 = """
INSERT INTO acknowledgement SELECT id, json_extract(acknowledged, '$.who'), json_extract(acknowledged, '$.why'),
    json_extract(acknowledged, '$.at_ns'), '', from_ns, NULL, 1 FROM concern WHERE acknowledged IS NOT NULL;
UPDATE concern SET acknowledged = NULL;
"""
"""Acknowledgements were once kept with concerns: only what had been looked at could be acknowledged."""
_ACKNOWLEDGED_KEPT_NS = 400 * 86400 * 10**9

Kind = Literal["firing", "worse", "resolved", "digest"]


class Acknowledged(msgspec.Struct, frozen=True):
    """Who took a finding or incident on, and why. `owner`: of the job it is about (empty: of none); `from_ns`, `to_ns`:
    when that was (None: not over). `site`: an operator did, so that alerts are told no more; a user's own does not
    keep them from operators."""

    who: str
    why: str
    at_ns: int
    owner: str = ""
    from_ns: int = 0
    to_ns: int | None = None
    site: bool = True


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """What fits `match` (field → pattern) is not told until `until_ns`."""

    id: str
    match: dict[str, str]
    until_ns: int
    who: str
    why: str
    made_ns: int


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """`address` is told of jobs of `owner` (empty: of anybody's), of one job or program where they are named."""

    id: str
    owner: str
    job: str
    program: str
    address: str
    made_ns: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a message: about a concern, or a digest. `level`: 0, then the steps of escalation. `rule`: name of
    the alert rule. `state`: waiting, sent, given_up, or counted (too many waited)."""

    number: int = 0
    route: str
    recipient: str = ""
    concern: str
    kind: Kind = "firing"
    level: int = 0
    severity: str
    rule: str
    body: str
    made_ns: int
    state: str = "waiting"


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Notices that go as one message; the same ones under the same `id` however often it is tried. `untold`: how many
    more there were, or were given up."""

    id: str
    route: str
    recipient: str
    made_ns: int
    attempts: int
    due_ns: int
    error: str
    untold: int
    notices: list[Notice] = []


_NOTICE = "number, route, recipient, concern, kind, level, severity, rule, body, made_ns, state"
_BATCH = "id, route, recipient, made_ns, attempts, due_ns, error, untold"


class State:
    """The file, opened by one thread. Raises LakeError when it cannot be used, ConfigError for one of a newer
    fairlead."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self.path = folder / FILE
        try:
            if create:
                folder.mkdir(parents=True, exist_ok=True)
                # Only where it is not there: closing it would take away the locks this process has on it by SQLite.
                with suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            elif not self.path.is_file():
                raise LakeError(
                    "no alerts were sent from here yet", where=str(self.path), remedy="name it with --state"
                )
            self._base = sqlite3.connect(self.path, timeout=_PATIENCE_S, isolation_level=None)
            self._base.execute("PRAGMA synchronous = EXTRA")
            if self._version() != _VERSION:
                with self.change():
                    self._prepare()
        except (OSError, sqlite3.Error) as fault:
            raise LakeError(
                f"cannot be used: {fault}", where=str(self.path), remedy="check folder and owner"
            ) from fault

    def _version(self) -> int:
        return int(self._rows("PRAGMA user_version")[0][0])

    def _prepare(self) -> None:
        version = self._version()
        if version == _VERSION:  # another process was first
            return
        if version > _VERSION:
            raise ConfigError("is from a newer version of fairlead", where=str(self.path), remedy="use that version")
        for statement in (f"{_ACKNOWLEDGEMENTS}{_FROM_1}" if version else f"{_SCHEMA}{_ACKNOWLEDGEMENTS}").split(";"):
            self._base.execute(statement)
        self._base.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Lets go of the file."""
        self._base.close()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All of what is done inside, on disk when it ends; or nothing of it."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._base.execute(sql, values).fetchall()

    # Concerns

    def find_made_ns(self, ids: Iterable[str]) -> dict[str, int]:
        """`made_ns` of those of these concerns that are known."""
        return {
            str(row[0]): int(row[1])
            for name in ids
            for row in self._rows("SELECT id, made_ns FROM concern WHERE id = ?", (name,))
        }

    def keep(self, concerns: Iterable[Concern]) -> None:
        """Writes concerns down, over older looks at the same."""
        self._base.executemany(
            "INSERT INTO concern (id, detail, made_ns, from_ns, open, severity, rule) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET detail = excluded.detail, made_ns = excluded.made_ns,"
            " open = excluded.open, severity = excluded.severity WHERE excluded.made_ns >= concern.made_ns",
            (
                (
                    one.id,
                    msgspec.json.encode(one).decode(),
                    one.made_ns,
                    one.from_ns,
                    int(one.lasting and not one.over),
                    one.severity,
                    one.rule,
                )
                for one in concerns
            ),
        )

    def open_concerns(self) -> list[Concern]:
        """What is not over."""
        return [_concern(text) for (text,) in self._rows("SELECT detail FROM concern WHERE open = 1 ORDER BY id")]

    def list_unresolved(self, since_ns: int) -> list[Concern]:
        """What lasted, is over, was made since then and sent, and whose end was not sent."""
        sql = (
            "SELECT detail FROM concern WHERE open = 0 AND made_ns >= ? AND id IN (SELECT concern FROM notice"
            " WHERE kind = 'firing' EXCEPT SELECT concern FROM notice WHERE kind = 'resolved') ORDER BY id"
        )
        return [one for (text,) in self._rows(sql, (since_ns,)) if (one := _concern(text)).over]

    def move_notices(self, concern: str, to: str) -> None:
        """What was sent of one concern was sent of another, unless the same was."""
        self._base.execute("UPDATE OR IGNORE notice SET concern = ? WHERE concern = ?", (to, concern))
        self._base.execute("DELETE FROM notice WHERE concern = ? AND state = 'sent'", (concern,))
        self._base.execute("UPDATE held SET concern = ? WHERE concern = ?", (to, concern))

    def find_concern(self, name: str) -> Concern | None:
        """One of them by its id."""
        found = self._rows("SELECT detail FROM concern WHERE id = ?", (name,))
        return _concern(found[0][0]) if found else None

    def list_concerns(self, from_ns: int, to_ns: int) -> list[Concern]:
        """Those made in [from_ns, to_ns), and those that are not over, earliest first."""
        sql = "SELECT detail FROM concern WHERE made_ns >= ? AND made_ns < ? OR open = 1 ORDER BY from_ns, id"
        return [_concern(text) for (text,) in self._rows(sql, (from_ns, to_ns))]

    # Acknowledgements

    def acknowledge(self, name: str, by: Acknowledged | None) -> bool:
        """Writes down who takes something on (None: nobody any more, False when nobody had)."""
        if by is None:
            return self._base.execute("DELETE FROM acknowledgement WHERE id = ?", (name,)).rowcount > 0
        self._base.execute(
            "INSERT OR REPLACE INTO acknowledgement (id, who, why, at_ns, owner, from_ns, to_ns, site)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (name, *msgspec.structs.astuple(by)),
        )
        return True

    def list_acknowledged(
        self, from_ns: int = 0, to_ns: int = (1 << 63) - 1, *, owner: str | None = None, site: bool = False
    ) -> dict[str, Acknowledged]:
        """What is taken on → by whom: all, or what touches [from_ns, to_ns), about one owner's jobs, by operators."""
        found = self._rows(
            "SELECT id, who, why, at_ns, owner, from_ns, to_ns, site FROM acknowledgement WHERE from_ns < ?"
            " AND coalesce(to_ns, ?) >= ? AND (? IS NULL OR owner = ?) AND site >= ? ORDER BY id",
            (to_ns, from_ns, from_ns, owner, owner, int(site)),
        )
        return {row[0]: _acknowledged(row[1:]) for row in found}

    def find_acknowledged(self, name: str) -> Acknowledged | None:
        """Of one."""
        found = self._rows(
            "SELECT who, why, at_ns, owner, from_ns, to_ns, site FROM acknowledgement WHERE id = ?", (name,)
        )
        return _acknowledged(found[0]) if found else None

    # Notices

    def enqueue_notices(self, notices: Iterable[Notice], most_waiting: int) -> int:
        """Adds those that are not there yet; returns how many. Beyond `most_waiting` of a route they are counted."""
        waiting = {
            row[0]: row[1]
            for row in self._rows("SELECT route, count(*) FROM notice WHERE state = 'waiting' GROUP BY route")
        }
        added = 0
        for one in notices:
            counted = waiting.get(one.route, 0) >= most_waiting and one.kind != "digest"
            done = self._base.execute(
                "INSERT OR IGNORE INTO notice (route, recipient, concern, kind, level, severity, rule, body, made_ns,"
                " state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    one.route,
                    one.recipient,
                    one.concern,
                    one.kind,
                    one.level,
                    one.severity,
                    one.rule,
                    "" if counted else one.body,
                    one.made_ns,
                    "counted" if counted else "waiting",
                ),
            ).rowcount
            if done > 0:
                added += 1
                if counted:
                    self.count_untold(one.route, one.recipient, 1)
                else:
                    waiting[one.route] = waiting.get(one.route, 0) + 1
        return added

    def list_told(self, concern: str) -> list[Notice]:
        """Notices about a concern, earliest first."""
        return self._notices("concern = ? ORDER BY number", (concern,))

    def list_notices(self, limit: int) -> list[Notice]:
        """The latest."""
        return self._notices("1 ORDER BY number DESC LIMIT ?", (limit,))

    def _notices(self, where: str, values: Sequence[Any]) -> list[Notice]:
        names = _NOTICE.split(", ")
        return [
            Notice(**dict(zip(names, row, strict=True)))
            for row in self._rows(f"SELECT {_NOTICE} FROM notice WHERE {where}", values)  # noqa: S608
        ]

    def count_untold(self, route: str, recipient: str, count: int) -> None:
        """So many more that are not told one by one."""
        self._base.execute(
            "INSERT INTO untold VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (route, recipient, count),
        )

    def take_next_batch(self, route: str, now_ns: int, group_ns: int, new_id: str) -> Batch | None:
        """What is to be sent now: a batch that was tried and is due; else a new one (`new_id`) of all that waits for
        one recipient, when the first of it has waited `group_ns`. Fixed on disk before it is returned."""
        with self.change():
            found = self._batches("route = ? ORDER BY due_ns LIMIT 1", (route,), due_ns=now_ns)
            if found:
                return found[0]
            # One batch at a time for a recipient: what comes while it is retried waits, and goes as one.
            ready = self._rows(
                "SELECT recipient FROM notice WHERE state = 'waiting' AND route = ? AND batch IS NULL"
                " AND recipient NOT IN (SELECT recipient FROM batch WHERE route = ?)"
                " GROUP BY recipient HAVING min(made_ns) <= ? ORDER BY min(number) LIMIT 1",
                (route, route, now_ns - group_ns),
            )
            if not ready:
                return None
            recipient = ready[0][0]
            # A digest is a message of its own.
            (first,) = self._rows(
                "SELECT kind, number FROM notice WHERE state = 'waiting' AND route = ? AND recipient = ?"
                " AND batch IS NULL ORDER BY number LIMIT 1",
                (route, recipient),
            )
            which = ("number = ?", (first[1],)) if first[0] == "digest" else ("kind <> 'digest' AND ? = ?", (0, 0))
            untold = self._rows("SELECT count FROM untold WHERE route = ? AND recipient = ?", (route, recipient))
            self._base.execute(
                f"UPDATE notice SET batch = ? WHERE state = 'waiting' AND route = ? AND recipient = ?"  # noqa: S608
                f" AND batch IS NULL AND {which[0]}",
                (new_id, route, recipient, *which[1]),
            )
            self._base.execute("DELETE FROM untold WHERE route = ? AND recipient = ?", (route, recipient))
            self._base.execute(
                "INSERT INTO batch VALUES (?, ?, ?, ?, 0, ?, '', ?)",
                (new_id, route, recipient, now_ns, now_ns, untold[0][0] if untold else 0),
            )
            return self._batches("id = ?", (new_id,))[0]

    def list_batches(self) -> list[Batch]:
        """Those under way, tried or not."""
        return self._batches("1 ORDER BY due_ns", ())

    def _batches(self, where: str, values: Sequence[Any], due_ns: int | None = None) -> list[Batch]:
        names = _BATCH.split(", ")
        if due_ns is not None:
            where, values = f"due_ns <= ? AND {where}", (due_ns, *values)
        return [
            Batch(**dict(zip(names, row, strict=True)), notices=self._notices("batch = ? ORDER BY number", (row[0],)))
            for row in self._rows(f"SELECT {_BATCH} FROM batch WHERE {where}", values)  # noqa: S608
        ]

    def mark_sent(self, batch: Batch, now_ns: int) -> None:
        """It was confirmed: none of it is ever sent again."""
        with self.change():
            self._done(batch, "sent", now_ns)

    def postpone_batch(self, batch: Batch, due_ns: int, error: str) -> None:
        """It is tried again at `due_ns`."""
        with self.change():
            self._base.execute(
                "UPDATE batch SET attempts = attempts + 1, due_ns = ?, error = ? WHERE id = ?",
                (due_ns, error, batch.id),
            )

    def mark_abandoned(self, batch: Batch, now_ns: int) -> None:
        """It will not be tried again; the next message says that so many were not told."""
        with self.change():
            self.count_untold(batch.route, batch.recipient, len(batch.notices) + batch.untold)
            self._done(batch, "given_up", now_ns)

    def _done(self, batch: Batch, state: str, now_ns: int) -> None:
        self._base.execute("UPDATE notice SET state = ?, done_ns = ? WHERE batch = ?", (state, now_ns, batch.id))
        self._base.execute("DELETE FROM batch WHERE id = ?", (batch.id,))

    def count_notices(self) -> dict[str, dict[str, int]]:
        """Route → state of its notices → how many."""
        found: dict[str, dict[str, int]] = {}
        for route, state, count in self._rows("SELECT route, state, count(*) FROM notice GROUP BY route, state"):
            found.setdefault(route, {})[state] = count
        return found

    # Hold-off, marks, silences, subscriptions

    def find_held(self, key: str) -> tuple[str, int] | None:
        """Which concern was told last under this key, and when."""
        found = self._rows("SELECT concern, at_ns FROM held WHERE key = ?", (key,))
        return (str(found[0][0]), int(found[0][1])) if found else None

    def hold(self, key: str, concern: str, at_ns: int) -> None:
        """It was told now."""
        self._base.execute("INSERT OR REPLACE INTO held VALUES (?, ?, ?)", (key, concern, at_ns))

    def mark(self, name: str) -> int | None:
        """A number that was kept."""
        found = self._rows("SELECT value FROM mark WHERE name = ?", (name,))
        return int(found[0][0]) if found else None

    def set_mark(self, name: str, value: int) -> None:
        """Keeps a number."""
        self._base.execute("INSERT OR REPLACE INTO mark VALUES (?, ?)", (name, value))

    def list_silences(self) -> list[Silence]:
        """All that are kept, those that have ended too."""
        return [
            Silence(
                id=row[0], match=msgspec.json.decode(row[1]), until_ns=row[2], who=row[3], why=row[4], made_ns=row[5]
            )
            for row in self._rows("SELECT * FROM silence ORDER BY made_ns, id")
        ]

    def silence(self, one: Silence) -> None:
        """Adds one."""
        match = msgspec.json.encode(one.match).decode()
        self._base.execute(
            "INSERT OR REPLACE INTO silence VALUES (?, ?, ?, ?, ?, ?)",
            (one.id, match, one.until_ns, one.who, one.why, one.made_ns),
        )

    def unsilence(self, name: str) -> bool:
        """Takes one away; False when there is none."""
        return self._base.execute("DELETE FROM silence WHERE id = ?", (name,)).rowcount > 0

    def list_subscriptions(self, owner: str | None = None) -> list[Subscription]:
        """All, or those of one owner."""
        names = ("id", "owner", "job", "program", "address", "made_ns")
        sql = "SELECT * FROM subscription WHERE ? IS NULL OR owner = ? ORDER BY made_ns, id"
        return [Subscription(**dict(zip(names, row, strict=True))) for row in self._rows(sql, (owner, owner))]

    def subscribe(self, one: Subscription) -> bool:
        """Adds one; False when the same is there already."""
        return (
            self._base.execute(
                "INSERT OR IGNORE INTO subscription VALUES (?, ?, ?, ?, ?, ?)",
                (one.id, one.owner, one.job, one.program, one.address, one.made_ns),
            ).rowcount
            > 0
        )

    def unsubscribe(self, name: str, owner: str | None = None) -> bool:
        """Takes one away (of that owner only); False when there is none."""
        sql = "DELETE FROM subscription WHERE id = ? AND (? IS NULL OR owner = ?)"
        return self._base.execute(sql, (name, owner, owner)).rowcount > 0

    def forget(self, before_ns: int) -> None:
        """Drops what was told and is over before then."""
        with self.change():
            self._base.execute(
                "DELETE FROM notice WHERE state <> 'waiting' AND made_ns < ? AND concern NOT IN"
                " (SELECT id FROM concern WHERE open = 1)",
                (before_ns,),
            )
            self._base.execute(
                "DELETE FROM concern WHERE open = 0 AND made_ns < ? AND id NOT IN (SELECT concern FROM notice)",
                (before_ns,),
            )
            self._base.execute("DELETE FROM held WHERE at_ns < ?", (before_ns,))
            self._base.execute("DELETE FROM silence WHERE until_ns < ?", (before_ns,))
            self._base.execute("DELETE FROM acknowledgement WHERE at_ns < ?", (before_ns - _ACKNOWLEDGED_KEPT_NS,))


def _acknowledged(row: Sequence[Any]) -> Acknowledged:
    return msgspec.convert(dict(zip(Acknowledged.__struct_fields__, row, strict=True)), Acknowledged, strict=False)


def _concern(text: str) -> Concern:
    return msgspec.json.decode(text, type=Concern)
