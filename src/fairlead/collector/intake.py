"""From the bytes of a request to the lake: checked, written to the log, synced, then counted. Runs in worker threads.

Not here: HTTP (`app`), what makes a batch sound (`checking`), the log (`lake.writer`).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fairlead import clock
from fairlead.collector.aside import Aside
from fairlead.collector.checking import Checked, check, check_all, scan
from fairlead.collector.metrics import Metrics
from fairlead.collector.refusal import NO_ROOM, Refusal, no_room, of_error, of_lake
from fairlead.collector.settings import Limits
from fairlead.collector.sources import Sources
from fairlead.errors import InputError, LakeError
from fairlead.lake.writer import Writer
from fairlead.model.missing import Missing
from fairlead.model.tables import HEALTH, TABLES

SOURCE = "agent"
_LOOK_EVERY_S = 0.5
_MISSING_KEPT = 100


class Taken(msgspec.Struct, frozen=True, kw_only=True):
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
            raise no_room()
        if backlog_bytes(self._writer) > self._limits.backlog_bytes:
            raise Refusal(429, "the tables are behind the log", remedy="keep the batches and try again", retry_s=10)

    def free_bytes(self) -> int:
        """Room on the file system of the lake, as of half a second ago at most."""
        now_s = clock.monotonic_s()
        with self._turn:
            if now_s - self._free[0] > _LOOK_EVERY_S:
                self._free = (now_s, free_bytes(self._writer.place.root))
            return self._free[1]

    def take(self, body: bytes, *, node: str, agent: str) -> Taken:
        """Returns when every batch of `body` is on disk. `node`: the only one it may be of; empty: any. Raises Refusal:
        then none of it was taken, or (507, 503) what was is known when it is sent again."""
        began_s = clock.monotonic_s()
        now_ns = self._now_ns()
        new, old = check_all(body, self._limits, node=node, known=self._knows, now_ns=now_ns)
        checked_s = clock.monotonic_s()
        taken = self._keep(new, agent)
        self._metrics.checking.observe(checked_s - began_s)
        self._metrics.durable.observe(clock.monotonic_s() - checked_s)
        self._metrics.bytes.add(len(body))
        self._count(new, taken, len(old))
        now_ns = self._now_ns()
        self._note(new, [found.node for found in old], agent, now_ns)
        return Taken(taken=sum(taken), known=len(old) + len(new) - sum(taken), now_ns=now_ns)

    def retake_aside(self) -> int:
        """Takes in what was kept aside and is understood by now; returns how many batches. Raises LakeError."""
        done = 0
        for path, data in list(self._aside.files()):
            limits = msgspec.structs.replace(self._limits, remembered_days=1 << 30)
            try:
                found = scan(data, limits, "", self._now_ns())[0]
                if found.table not in TABLES:
                    continue
                batch = check(data, found, limits, self._now_ns())
            except Refusal:  # as before: not understood
                continue
            self._keep([batch], "")
            self._aside.taken(path)
            done += 1
        return done

    def _knows(self, stream: str, seq: int) -> bool:
        table = stream.rpartition("/")[2]
        if table not in TABLES:
            return self._aside.holds(table, stream, seq)
        return self._writer.known(stream, seq)

    def _keep(self, new: Sequence[Checked], agent: str) -> list[bool]:
        try:
            strange = [batch for batch in new if batch.rows is None]
            results = dict(zip(map(id, strange), map(self._aside.keep, strange), strict=True))
            usual = [batch for batch in new if batch.rows is not None]
            results |= zip(map(id, usual), self._write(usual, agent), strict=True)
        except LakeError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_ROOM:
                with self._turn:
                    self._free = (clock.monotonic_s(), 0)
            raise of_lake(error) from error
        except InputError as error:
            raise of_error(error, 422) from error
        return [results[id(batch)] for batch in new]

    def _write(self, new: Sequence[Checked], agent: str) -> list[bool]:
        filled = []
        for batch in new:
            one = self._writer.batch(batch.found.stream, batch.found.seq, source=SOURCE, path=agent)
            one.add(batch.rows)
            filled.append(one)
        return [one.commit() for one in filled]

    def _count(self, new: Sequence[Checked], taken: Sequence[bool], known: int) -> None:
        metrics = self._metrics
        fresh = [batch for batch, first in zip(new, taken, strict=True) if first]
        if fresh:
            metrics.batches.add(len(fresh), result="taken")
        if known + len(new) - len(fresh):
            metrics.batches.add(known + len(new) - len(fresh), result="known")
        rows: Counter[str] = Counter()
        for batch in fresh:
            rows[batch.found.table if batch.rows is not None else "unknown"] += batch.found.rows
            for missing in batch.missing:
                self._note_missing(missing)
        for table, count in rows.items():
            metrics.rows.add(count, table=table)

    def _note_missing(self, missing: Missing) -> None:
        what = missing.what if missing.kind != "unknown_table" else f"table {missing.what.rpartition(' ')[2]}"
        if what in self.newer or len(self.newer) < _MISSING_KEPT:
            self.newer[what] += 1

    def _note(self, new: Sequence[Checked], nodes: Sequence[str], agent: str, now_ns: int) -> None:
        """Tells `sources` who was here. A batch that was sent again says no more than that its sender lives."""
        by_node: dict[str, list[Checked]] = {node: [] for node in nodes}
        for batch in new:
            by_node.setdefault(batch.found.node, []).append(batch)
        for node, batches in by_node.items():
            times = [batch.header.last_ns for batch in batches if batch.header.last_ns is not None]
            self._sources.seen(
                node, now_ns, batches=len(batches), rows=sum(batch.found.rows for batch in batches),
                last_ns=max(times, default=None), agent=agent,
            )  # fmt: skip
            for batch in batches:
                if batch.rows is not None and batch.found.table == HEALTH.name:
                    self._sources.heard(batch.rows)


def free_bytes(folder: Path) -> int:
    """Bytes that can still be written to the file system of `folder` by a user."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def backlog_bytes(writer: Writer) -> int:
    """Bytes of the log not yet in the tables."""
    return int(getattr(writer, "backlog_bytes", 0))
