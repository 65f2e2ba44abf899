"""What a collector does besides answering: carry rows to the tables, merge and expire, notice silence, tell its health.

Three threads, off the way of requests. Not here: how rows are carried (`store.writer`), what is merged, which days go
(`lake.maintenance`).
"""

from __future__ import annotations

import logging
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fairlead.core import clock
from fairlead.core.errors import FairleadError
from fairlead.core.safe_text import escape_text
from fairlead.see.collector.feed_threads import Keeper
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.own_rows import OwnRecords
from fairlead.see.collector.settings import Carry
from fairlead.see.collector.source_activity import Sources
from fairlead.store.lake import Lake
from fairlead.store.maintenance import run_lake_maintenance
from fairlead.store.retention import Policy
from fairlead.store.scrub import Pace, StoppedError, check_shard, seal_old_files
from fairlead.store.scrub_ledger import Ledger
from fairlead.store.writer import Writer

TICK_S = 1.0
HEALTH_S = 60.0
BUSY_BYTES = 64 << 20
"""With more than this waiting right after a carrying over, merging is put off, for `PUT_OFF_S` at most."""
PUT_OFF_S = 600.0
SCRUB_S = 30.0
"""So often it is looked which files are due to be checked."""
SETTLED_NS = 3_600_000_000_000
"""Files younger than this are not due: most of them are merged before."""
JOBS_S = 10.0
"""After news of a job rows of it keep coming for so long: agents send at its end, servers within seconds."""
BUSY_SHARE = 4.0
"""Carrying for jobs pauses at least this many times as long as it took."""

log = logging.getLogger("fairlead.see.collector")


@dataclass(slots=True)
class LastCarry:
    """The last time rows were carried to the tables."""

    at_ns: int | None = None
    took_s: float | None = None
    failure: str = ""


class Upkeep:
    """The threads of one collector."""

    def __init__(
        self,
        lake: Lake,
        writer: Writer,
        sources: Sources,
        keeper: Keeper,
        own: OwnRecords,
        metrics: Metrics,
        carry: Carry,
        keep: Policy,
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self.carried = LastCarry()
        self._lake = lake
        self._writer = writer
        self._sources = sources
        self._keeper = keeper
        self._own = own
        self._metrics = metrics
        self._carry = carry
        self._keep = keep
        self._now_ns = now_ns
        self._stop = threading.Event()
        self._first: Callable[[], None] = lambda: None
        self.scrubbed: Ledger | None = None
        """What the scrub of this shard remembers; None: it has not begun."""
        self._threads = [
            threading.Thread(target=self._scrubbing, name="scrubbing", daemon=True),
            threading.Thread(target=self._watching, name="watching", daemon=True),
            threading.Thread(target=self._carrying, name="carrying", daemon=True),
        ]

    def start(self, first: Callable[[], None] = lambda: None) -> None:
        """Starts them; sources are watched after `first`."""
        self._first = first
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float) -> bool:
        """Whether both have ended within `wait_s`."""
        self._stop.set()
        until_s = clock.monotonic_s() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - clock.monotonic_s()))
        return not any(thread.is_alive() for thread in self._threads)

    def watch(self, *, everything: bool) -> None:
        """One look: gaps that opened or closed are written down, and health that changed (all of it: `everything`)."""
        gaps = self._sources.find_gaps(self._now_ns())
        try:
            self._own.write_events(gaps)
        except FairleadError:
            self._sources.undo(gaps)
            raise
        rows = self._keeper.build_rows(everything=everything)
        if everything:
            failure = self.carried.failure
            rows.append(
                {
                    "probe": "collector",
                    "state": "failing" if failure else "ok",
                    "text": failure or None,
                    "interval_ns": int(HEALTH_S * 1e9),
                    "memory_bytes": measure_upkeep_memory(),
                }
            )
            if self.scrubbed is not None:
                damaged = list(self.scrubbed.damaged.values())
                rows.append(
                    {
                        "probe": "scrub",
                        "state": "failing" if damaged else "ok",
                        "text": f"{len(damaged)} damaged files: {damaged[0].path}" if damaged else None,
                        "interval_ns": int(HEALTH_S * 1e9),
                    }
                )
        self._own.write_health(rows)

    def _watching(self) -> None:
        self._try("recovering", self._first)
        next_s = clock.monotonic_s()
        while not self._stop.wait(TICK_S):
            everything = clock.monotonic_s() >= next_s
            if everything:
                next_s = clock.monotonic_s() + HEALTH_S
            self._try("watching", self.watch, everything=everything)

    def _carrying(self) -> None:
        carry = self._carry
        if self._writer.left_segments:
            self._try("carrying", self._flush)
        next_s = clock.monotonic_s() + carry.maintain_every_s
        tick_s = min(carry.soon_s, carry.every_s)
        carried_s, jobs_until_s = clock.monotonic_s(), 0.0
        while not self._stop.wait(tick_s):
            now_s = clock.monotonic_s()
            if self._writer.heard_jobs.is_set():
                self._writer.heard_jobs.clear()
                jobs_until_s = now_s + JOBS_S
            pause_s = carry.every_s
            if now_s < jobs_until_s:
                pause_s = min(pause_s, BUSY_SHARE * (self.carried.took_s or 0.0))
            # A tick may come a little early.
            if now_s - carried_s < pause_s - tick_s / 4:
                continue
            carried_s = now_s
            if not self._try("carrying", self._flush):
                continue
            # Merging files can wait while rows arrive faster than they are carried, but not for ever.
            late_s = clock.monotonic_s() - next_s
            if late_s >= 0 and (self._writer.backlog_bytes < BUSY_BYTES or late_s >= PUT_OFF_S):
                self._try("maintaining", self._maintain)
                next_s = clock.monotonic_s() + carry.maintain_every_s

    def _scrubbing(self) -> None:
        """Reads stored files again, slowly; files of an older fairlead get their checksums first."""
        if not self._carry.scrub_bytes_per_s:
            return
        while not self._stop.wait(SCRUB_S):
            self._try("scrubbing", self._scrub)

    def _scrub(self) -> None:
        place, shard = self._writer.place, self._writer.shard
        pace = Pace(self._carry.scrub_bytes_per_s, self._stop)
        with suppress(StoppedError):
            if self.scrubbed is None or self.scrubbed.unsealed_files:
                seal_old_files(place, shard, self._writer.open_table, pace, self._writer.now_ns)
            found = check_shard(place, shard, pace, settled_ns=SETTLED_NS, progress=self._note_scrub)
            if found is not None:
                self._note_scrub(found)

    def _note_scrub(self, ledger: Ledger) -> None:
        self.scrubbed = ledger

    def _try(self, what: str, do: Callable[..., Any], **arguments: Any) -> bool:
        """A round that fails is told and tried again at its next time: what is acknowledged stays in the log."""
        try:
            do(**arguments)
        except FairleadError as error:
            failure = f"{what}: {error.what}"
            log.error("%s", escape_text(f"{what}: {error}"))  # noqa: TRY400  (no defect: its text says all)
        except Exception as error:
            failure = f"{what}: {type(error).__name__}: {error}"
            log.exception("%s failed by a bug in fairlead", what)
        else:
            if self.carried.failure.startswith(f"{what}:"):
                self.carried.failure = ""
            return True
        self.carried.failure = failure
        self._metrics.failures.add(what=what)
        return False

    def _flush(self) -> None:
        began_s = clock.monotonic_s()
        count = self._writer.flush()
        took_s = clock.monotonic_s() - began_s
        self._metrics.carry.observe(took_s)
        self._metrics.carried.add(count)
        self.carried.at_ns, self.carried.took_s = self._now_ns(), took_s

    def _maintain(self) -> None:
        done = run_lake_maintenance(self._lake, self._writer, self._keep)
        for one in done.expired:
            log.info("%s: %d days expired, %d rows", f"{one.table} {one.tier}".rstrip(), one.days, one.rows)


def measure_upkeep_memory() -> int:
    """What this process holds in memory now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
