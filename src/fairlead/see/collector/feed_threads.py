"""Runs feeds, each in a thread of its own, again after a pause when one fails, and knows how each is.

Not here: what a feed does (`feeds`), what it may ask of the collector (`feed`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fairlead.core import clock
from fairlead.core.errors import FairleadError
from fairlead.core.safe_text import escape_text
from fairlead.see.collector.feed import Feed
from fairlead.see.collector.health import FeedHealth
from fairlead.see.collector.own_rows import OwnRecords
from fairlead.see.probes.base import Event
from fairlead.store.writer import Writer

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_WELL_S = 120.0
"""A feed that ran this long before it failed is started again after the first pause."""

log = logging.getLogger("fairlead.see.collector")


@dataclass(slots=True)
class _State:
    state: str
    text: str
    since_ns: int
    rows: int = 0
    unknown_lines: int = 0
    told_rows: int = 0
    told_unknown: int = 0
    changed: bool = True


class Keeper:
    """The feeds of one collector; the `Sink` they are given."""

    def __init__(
        self,
        writer: Writer,
        own: OwnRecords,
        feeds: Sequence[Feed],
        *,
        now_ns: Callable[[], int] = clock.now_ns,
        monotonic_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self.feeds = list(feeds)
        self._writer = writer
        self._own = own
        self._now_ns = now_ns
        self._monotonic_s = monotonic_s
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._states: dict[str, _State] = {}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Starts every feed."""
        for feed in self.feeds:
            self.report_health(feed.name, "ok", "starting")
            thread = threading.Thread(target=self._keep, args=(feed,), name=f"feed:{feed.name}"[:15], daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, wait_s: float) -> list[str]:
        """Tells every feed to end; returns names of threads that have not within `wait_s`."""
        self._stop.set()
        until_s = self._monotonic_s() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - self._monotonic_s()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def store_batch(
        self, stream: str, seq: int, tables: list[pa.RecordBatch], *, source: str = "", path: str = ""
    ) -> bool:
        """See `feed.Sink`."""
        batch = self._writer.open_batch(stream, seq, source=source, path=path)
        try:
            for rows in tables:
                batch.add(rows)
            return batch.commit()
        except BaseException:
            batch.abandon()
            raise

    def has_batch(self, stream: str, seq: int) -> bool:
        """See `feed.Sink`."""
        return self._writer.has_batch(stream, seq)

    def record_event(
        self, component: str, kind: str, text: str, *, ts_ns: int | None = None, end_ns: int | None = None
    ) -> None:
        """See `feed.Sink`."""
        now_ns = self._now_ns() if ts_ns is None else ts_ns
        self._own.write_events([Event(now_ns, component, kind, escape_text(text), end_ns)])

    def report_health(self, probe: str, state: str, text: str = "", *, rows: int = 0, unknown_lines: int = 0) -> None:
        """See `feed.Sink`."""
        with self._turn:
            one = self._states.get(probe)
            if one is None:
                one = self._states[probe] = _State(state, text, self._now_ns())
            if state != one.state:
                one.since_ns, one.changed = self._now_ns(), True
            one.state, one.text = state, escape_text(text)
            one.rows += rows
            one.unknown_lines += unknown_lines

    def list_states(self) -> list[FeedHealth]:
        """How every feed is."""
        with self._turn:
            return [
                FeedHealth(
                    feed=name,
                    state=one.state,
                    text=one.text,
                    since_ns=one.since_ns,
                    rows=one.rows,
                    unknown_lines=one.unknown_lines,
                )
                for name, one in sorted(self._states.items())
            ]

    def build_rows(self, *, everything: bool) -> list[dict[str, object]]:
        """Rows of `health` about feeds: all, or those whose state has changed since they were last asked for."""
        with self._turn:
            told: list[dict[str, object]] = []
            for name, one in sorted(self._states.items()):
                if not everything and not one.changed:
                    continue
                told.append(
                    {
                        "probe": f"feed:{name}",
                        "state": one.state,
                        "text": one.text or None,
                        "rows": one.rows - one.told_rows,
                        "unknown_lines": one.unknown_lines - one.told_unknown,
                    }
                )
                one.told_rows, one.told_unknown, one.changed = one.rows, one.unknown_lines, False
            return told

    def _keep(self, feed: Feed) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            began_s = self._monotonic_s()
            try:
                feed.run(self, self._stop)
                if self._stop.is_set():
                    return
                why = "it ended by itself"
            except FairleadError as error:
                why = str(error)
                log.warning("%s", escape_text(f"feed {feed.name}: {error}"))
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                log.exception("feed %s ended by a bug in fairlead", feed.name)
            if self._monotonic_s() - began_s > _WELL_S:
                pause_s = FIRST_PAUSE_S
            self.report_health(feed.name, "failing", f"{why}; restarting in {pause_s:.0f} s")
            self._stop.wait(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
