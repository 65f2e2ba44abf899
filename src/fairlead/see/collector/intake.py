"""From the bytes of a request to the lake: checked, written to the log, synced, then counted. Runs in worker threads.

Not here: HTTP (`app`), what makes a batch sound (`batch_checks`), the log (`store.writer`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fairlead.core import clock
from fairlead.core.batches.bulk import Small, parse_bulk_batches
from fairlead.core.batches.encoding import Header
from fairlead.core.batches.rows import DecodedBatch
from fairlead.core.errors import InputError, LakeError, TooOldError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import HEALTH
from fairlead.core.safe_text import escape_text
from fairlead.see.collector.batch_checks import (
    check_batch_sender,
    check_batches,
    split_checked_batches,
)
from fairlead.see.collector.group_commit import Arrival
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.refusal import (
    NO_ROOM,
    Refusal,
    build_full_disk_refusal,
    build_lake_refusal,
    build_refusal,
    find_refusal_status,
)
from fairlead.see.collector.settings import Limits
from fairlead.see.collector.source_activity import Sight, Sources
from fairlead.see.collector.unknown_tables import Aside
from fairlead.store.writer import Ticket, Writer

_LOOK_EVERY_S = 0.5
_MISSING_KEPT = 100
_SMALL_BODY = 64 << 10

log = logging.getLogger("fairlead.see.collector")


class IntakeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer 200: batches taken now, batches the lake had before, and the server's clock."""

    taken: int
    known: int
    now_ns: int


class Intake:
    """The way into one shard. Safe to use from many threads."""

    def __init__(
        self,
        writer: Writer,
        aside: Aside,
        sources: Sources,
        metrics: Metrics,
        limits: Limits,
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._writer = writer
        self._aside = aside
        self._sources = sources
        self._metrics = metrics
        self._limits = limits
        self._now_ns = now_ns
        self._turn = threading.Lock()
        self._free = (0.0, 1 << 62)
        self.newer: Counter[str] = Counter()
        """What of newer agents was not understood, and how often."""

    def must_have_room(self, size: int) -> None:
        """Raises Refusal 507 when the disk is nearly full, 429 when too much waits to be carried to the tables."""
        if self.free_bytes() < self._limits.free_bytes + size:
            raise build_full_disk_refusal()
        if self._writer.backlog_bytes > self._limits.backlog_bytes:
            raise Refusal(429, "the tables are behind the log", remedy="keep the batches and try again", retry_s=2)

    def free_bytes(self) -> int:
        """Room on the file system of the lake, as of half a second ago at most."""
        now_s = clock.monotonic_s()
        with self._turn:
            if now_s - self._free[0] > _LOOK_EVERY_S:
                self._free = (now_s, measure_intake_room(self._writer.place.root))
            return self._free[1]

    def take_body(self, body: bytes, *, node: str, agent: str) -> IntakeAnswer:
        """Returns when every batch of `body` is on disk. `node`: the only one it may be of; empty: any. Raises Refusal:
        then nothing of it was acknowledged, and what can be sent again is taken once."""
        answer = self.take_all([Arrival(body, node, agent)])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take_all(self, arrivals: Sequence[Arrival]) -> list[IntakeAnswer | Exception]:
        """`take` for several bodies with one sync for all; each has its own answer, or the Refusal that is one."""
        began_s = clock.monotonic_s()
        answers: list[IntakeAnswer | Exception | None] = [None] * len(arrivals)
        tickets: list[tuple[Ticket, list[int]]] = []
        sights: list[Sight] = []
        self._take_small(arrivals, answers, tickets, sights)
        for number, arrival in enumerate(arrivals):
            if answers[number] is None:
                try:
                    answers[number], ticket = self._take_one(arrival, sights)
                except Refusal as refusal:
                    answers[number] = refusal
                except Exception as error:  # noqa: BLE001  (a defect, of this body alone)
                    answers[number] = error
                else:
                    tickets += [] if ticket is None else [(ticket, [number])]
        checked_s = clock.monotonic_s()
        self._metrics.checking.observe(checked_s - began_s)
        for ticket, numbers in reversed(tickets):  # the last sync serves those before it
            try:
                self._writer.settle(ticket)
            except LakeError as error:
                for number in numbers:
                    answers[number] = self._lake_refusal(error)
        self._metrics.durable.observe(clock.monotonic_s() - checked_s)
        self._sources.record_sights(sights, self._now_ns())
        return [answer for answer in answers if answer is not None]

    def _take_small(
        self,
        arrivals: Sequence[Arrival],
        answers: list[IntakeAnswer | Exception | None],
        tickets: list[tuple[Ticket, list[int]]],
        sights: list[Sight],
    ) -> None:
        """Appends what is small, new and sound in one go; anything else has no answer after it."""
        numbers: list[int] = []
        bodies: list[tuple[bytes, list[Small]]] = []
        for number, arrival in enumerate(arrivals):
            batches = parse_bulk_batches(arrival.body) if len(arrival.body) <= _SMALL_BODY else None
            if batches and all(check_batch_sender(one.header, arrival.node) for one in batches):
                numbers.append(number)
                bodies.append((arrival.body, batches))
        if not bodies:
            return
        try:
            chosen, ticket, tables = self._writer.append_small(bodies)
        except LakeError as error:
            for number in numbers:
                answers[number] = self._lake_refusal(error)
            return
        if ticket is None:
            return
        now_ns = self._now_ns()
        size = 0
        senders: list[str] = []
        for place in chosen:
            body, batches = bodies[place]
            number = numbers[place]
            answers[number] = IntakeAnswer(taken=len(batches), known=0, now_ns=now_ns)
            size += len(body)
            headers = [one.header for one in batches]
            sights += _sights(headers, arrivals[number].agent, fresh=True)
            for header in headers:
                if header.table == HEALTH.name:
                    senders += [header.node] * header.rows
        tickets.append((ticket, [numbers[place] for place in chosen]))
        self._metrics.bytes.add(size)
        self._metrics.batches.add(sum(len(bodies[place][1]) for place in chosen), result="taken")
        for table, rows in tables.items():
            self._metrics.rows.add(rows.num_rows, table=table)
        if HEALTH.name in tables:
            self._sources.record_health(tables[HEALTH.name], senders)

    def _take_one(self, arrival: Arrival, sights: list[Sight]) -> tuple[IntakeAnswer, Ticket | None]:
        """Appends one body. Raises Refusal."""
        body = arrival.body
        found = check_batches(body, raw_bytes=self._limits.raw_bytes, node=arrival.node)
        taken, known, ticket = self._keep(body, found)
        self._count(len(body), found, taken, known)
        sights += _sights([one.header for one in found], arrival.agent, fresh=taken > 0)
        for one in found:
            if taken and one.rows is not None and one.header.table == HEALTH.name:
                self._sources.record_health(one.rows, one.header.node)
        return IntakeAnswer(taken=taken, known=known, now_ns=self._now_ns()), ticket

    def retry_unknown(self) -> int:
        """Takes in what was kept aside and is understood by now; returns how many batches. Raises LakeError."""
        done = 0
        for path, data in list(self._aside.list_files()):
            try:
                found = check_batches(data, raw_bytes=1 << 30, node="")
                if found[0].rows is not None:
                    self._writer.take_batches(data, found)
            except (Refusal, TooOldError, InputError) as error:  # it stays where it is
                log.warning("%s", escape_text(f"{path}: {error}"))
                continue
            if found[0].rows is not None:
                self._aside.remove_file(path)
                done += 1
        return done

    def _keep(self, body: bytes, found: Sequence[DecodedBatch]) -> tuple[int, int, Ticket | None]:
        """(taken, known before, what is to be settled before that is told)."""
        data, usual, strange = split_checked_batches(body, found)
        try:
            kept = sum([self._aside.keep(one, body[one.begin : one.end]) for one in strange])
            taken, known, ticket = self._writer.append_batches(data, usual) if usual else (0, 0, None)
        except (InputError, TooOldError) as error:
            raise build_refusal(error, find_refusal_status(error)) from error
        except LakeError as error:
            raise self._lake_refusal(error) from error
        return taken + kept, known + len(strange) - kept, ticket

    def _lake_refusal(self, error: LakeError) -> Refusal:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_ROOM:
            with self._turn:
                self._free = (clock.monotonic_s(), 0)
        return build_lake_refusal(error)

    def _count(self, size: int, found: Sequence[DecodedBatch], taken: int, known: int) -> None:
        self._metrics.bytes.add(size)
        if taken:
            self._metrics.batches.add(taken, result="taken")
        if known:
            self._metrics.batches.add(known, result="known")
        if known and taken:  # rarely: a part of a body was sent before; which one, the log knows
            return
        rows: Counter[str] = Counter()
        for one in found if taken else ():
            rows[one.header.table if one.rows is not None else "unknown"] += one.header.rows
            for missing in one.missing:
                self._note_missing(missing)
        for table, count in rows.items():
            self._metrics.rows.add(count, table=table)

    def _note_missing(self, missing: Missing) -> None:
        what = missing.what if missing.kind != "unknown_table" else f"table {missing.what.rpartition(' ')[2]}"
        if what in self.newer or len(self.newer) < _MISSING_KEPT:
            self.newer[what] += 1


def _sights(headers: Sequence[Header], agent: str, *, fresh: bool) -> list[Sight]:
    """Who was here. Batches that were sent again say no more than that their sender lives."""
    by_node: dict[str, list[Header]] = {}
    for header in headers:
        by_node.setdefault(header.node, []).append(header)
    sights = []
    for node, some in by_node.items():
        times = [header.last_ns for header in some if header.last_ns is not None]
        rows = sum([header.rows for header in some])
        sights.append(Sight(node, len(some) if fresh else 0, rows if fresh else 0, max(times, default=None), agent))
    return sights


def measure_intake_room(folder: Path) -> int:
    """Bytes that can still be written to the file system of `folder` by a user."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
