"""A whole collector in this process: writer, feeds, upkeep and HTTP, from settings and bound sockets, until SIGTERM.

Not here: binding and restarting (`run.supervisor`).
"""

from __future__ import annotations

import gc
import logging
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairlead
from fairlead.core import clock
from fairlead.core.access.tokens import read_token_key
from fairlead.core.errors import FairleadError
from fairlead.see.collector.admission import Admission, Complaints
from fairlead.see.collector.app import Door
from fairlead.see.collector.client_connections import Crowd, build_client_connection
from fairlead.see.collector.feed import Feed, Receiver
from fairlead.see.collector.feed_threads import Keeper
from fairlead.see.collector.health import ALL, TROUBLED, CollectorHealth, ScrubHealth, ServerHealth
from fairlead.see.collector.intake import Intake
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.own_rows import OwnRecords
from fairlead.see.collector.server import Server
from fairlead.see.collector.serving import Bound, build_server_listeners, renew_server_certificates
from fairlead.see.collector.settings import Carry, Collector
from fairlead.see.collector.source_activity import Sources
from fairlead.see.collector.source_recovery import recover_sources
from fairlead.see.collector.unknown_tables import FOLDER, Aside
from fairlead.see.collector.upkeep import Upkeep, measure_upkeep_memory
from fairlead.store.lake import Lake
from fairlead.store.retention import Policy
from fairlead.store.scrub_ledger import Ledger
from fairlead.store.stored_tables import DAY_NS
from fairlead.store.writer import Writer

STOP_S = 2.0
FLUSHED_AT_END = 64 << 20
"""With more than this in the log at the end it is left for the next start: ending must not take long."""
_NEW_OBJECTS = 50_000
"""Objects after which the garbage collector looks. Requests leave hardly a cycle, and looking costs a tenth of them."""
_DAMAGES_TOLD = 20
LOCK_WAIT_S = 20.0
"""A collector that was killed may be followed before the kernel has let go of its lock."""

log = logging.getLogger("fairlead.see.collector")


@dataclass(frozen=True)
class Order:
    """What a collector is asked to be."""

    lake: Path
    collector: Collector
    carry: Carry
    keep: Policy
    feeds: Callable[[], Sequence[Feed]]
    token_key: Path
    memory: str = "1GB"


class Running:
    """The parts of a collector that runs, tied together."""

    def __init__(self, order: Order, lake: Lake, writer: Writer) -> None:
        settings = order.collector
        self.started_ns = clock.now_ns()
        self.order = order
        self.writer = writer
        self.metrics = Metrics()
        self.sources = Sources(
            started_ns=self.started_ns,
            silent_periods=settings.silent_periods,
            period_ns=int(settings.health_period_s * 1e9),
        )
        self.aside = Aside(lake.place.build_wal_path(settings.shard) / FOLDER, settings.limits.aside_bytes)
        self.intake = Intake(writer, self.aside, self.sources, self.metrics, settings.limits)
        self.own = OwnRecords(writer, clock.now_ns)
        self.keeper = Keeper(writer, self.own, order.feeds())
        self.upkeep = Upkeep(lake, writer, self.sources, self.keeper, self.own, self.metrics, order.carry, order.keep)
        self.admission = Admission(read_token_key(order.token_key), clock.now_ns)
        self.complaints = Complaints(clock.now_ns)
        self.crowd = Crowd(settings.limits, self.metrics, self.complaints)
        self.door = Door(self.intake, self.admission, self.metrics, self.complaints, settings.limits, self.build_health)
        self._tell_gauges()
        self._lake = lake

    def recover(self) -> None:
        """Reads who sent before this collector began, and takes in what was kept aside. Requests are answered
        meanwhile: it is no reason to let them wait."""
        try:
            known = recover_sources(self._lake, self.sources, self.started_ns)
            again = self.intake.retry_unknown()
            log.info("shard %s: %d sources known, %d stored batches ingested", self.writer.shard, known, again)
        except FairleadError as error:  # no reason to refuse what arrives
            log.warning("the saved state of sources cannot be read: %s", error)

    def build_health(self, which: str = ALL) -> ServerHealth:
        """The document of now, with `which` of the sources one by one."""
        now_ns = clock.now_ns()
        sources = self.sources.list_sources(now_ns)
        states: dict[str, int] = {}
        agents: dict[str, int] = {}
        for one in sources:
            states[one.state] = states.get(one.state, 0) + 1
            agents[one.agent or "unknown"] = agents.get(one.agent or "unknown", 0) + 1
        feeds = self.keeper.list_states()
        collector = CollectorHealth(
            shard=self.writer.shard,
            version=fairlead.__version__,
            started_ns=self.started_ns,
            backlog_bytes=self.writer.backlog_bytes,
            in_flight_bytes=self.door.room.held,
            connections=self.crowd.count,
            free_bytes=self.intake.free_bytes(),
            memory_bytes=measure_upkeep_memory(),
            carried_ns=self.upkeep.carried.at_ns,
            carry_s=self.upkeep.carried.took_s,
            aside_batches={name: count for name, count in sorted(self.aside.tables.items()) if count},
            not_understood=dict(self.intake.newer),
            scrub=_tell_scrub(self.upkeep.scrubbed),
            problems=self._problems(),
        )
        fine = not collector.problems and not states.keys() & {"silent", "failing"}
        fine = fine and all(feed.state == "ok" for feed in feeds)
        return ServerHealth(
            now_ns=now_ns,
            state="ok" if fine else "degraded",
            collector=collector,
            feeds=feeds,
            states=states,
            agents=agents,
            sources=[one for one in sources if which == ALL or (which == TROUBLED and one.needs_attention)],
        )

    def renew(self) -> str:
        """Reads the token key again; returns why it could not be, empty when it could."""
        try:
            self.admission.renew(read_token_key(self.order.token_key))
        except FairleadError as error:
            return str(error)
        return ""

    def _problems(self) -> list[str]:
        found = []
        limits = self.order.collector.limits
        if self.intake.free_bytes() < limits.free_bytes:
            found.append("the disk is full: no batches are accepted")
        if self.writer.backlog_bytes > limits.backlog_bytes:
            found.append("the tables are behind the log: no batches are accepted")
        if self.upkeep.carried.failure:
            found.append(self.upkeep.carried.failure)
        if self.writer.trouble is not None:
            found.append(f"carrying: {self.writer.trouble.what}")
        found += [f"a damaged segment was set aside: {path.name}" for path in self.writer.damaged]
        scrubbed = self.upkeep.scrubbed
        if scrubbed is not None:
            found += [
                f"damaged: {one.path}: {one.text}. Repair it: fairlead lake scrub --from BACKUP"
                for one in list(scrubbed.damaged.values())[:_DAMAGES_TOLD]
            ]
        found += [
            f"{count} batches of the unknown table {name} are kept aside: upgrade fairlead"
            for name, count in sorted(self.aside.tables.items())
            if count
        ]
        return found

    def _tell_gauges(self) -> None:
        gauge = self.metrics.add_gauge
        gauge(
            "backlog_bytes",
            "Acknowledged rows not yet in the tables, in memory.",
            lambda: float(self.writer.backlog_bytes),
        )
        gauge("in_flight_bytes", "Bodies being received or checked.", lambda: float(self.door.room.held))
        gauge("connections", "Connections.", lambda: float(self.crowd.count))
        gauge("free_bytes", "Room on the lake's file system.", lambda: float(self.intake.free_bytes()))
        gauge("memory_bytes", "Resident memory of the collector.", lambda: float(measure_upkeep_memory()))
        gauge("aside_bytes", "Batches of tables not known yet.", lambda: float(self.aside.held_bytes))
        gauge("start_time_seconds", "Start time of the collector.", lambda: self.started_ns / 1e9)
        gauge("wal_segment", "Number of the growing segment of the log.", lambda: float(self._segment()))
        gauge(
            "sources",
            "Sources by state.",
            lambda: [((("state", state),), count) for state, count in sorted(self.sources.count_states().items())],
        )
        gauge(
            "feeds",
            "Feeds by name: 1 when ok.",
            lambda: [((("feed", one.feed),), float(one.state == "ok")) for one in self.keeper.list_states()],
        )

    def _segment(self) -> int:
        from fairlead.store.wal import list_wal_segments

        found = list_wal_segments(self.writer.place.build_wal_path(self.writer.shard))
        return found[-1][0] if found else 0


def _tell_scrub(ledger: Ledger | None) -> ScrubHealth | None:
    if ledger is None:
        return None
    return ScrubHealth(
        began_ns=ledger.began_ns,
        finished_ns=ledger.finished_ns,
        bytes=ledger.bytes,
        checked_bytes=ledger.checked_bytes,
        damaged_files=len(ledger.damaged),
        unverified_files=ledger.unverified_files,
        unsealed_files=ledger.unsealed_files,
    )


def run_collector(
    order: Order,
    sockets: Sequence[Bound],
    *,
    on_ready: Callable[[], None] = lambda: None,
    on_beat: Callable[[], None] = lambda: None,
) -> None:
    """Serves until SIGTERM. `sockets`: bound, with whether TLS is spoken there. Raises FairleadError when it cannot
    begin."""
    _many_files()
    gc.set_threshold(_NEW_OBJECTS, 20, 50)
    settings = order.collector
    listeners = build_server_listeners(settings, sockets)
    lake = Lake.open(order.lake, create=True, memory=order.memory)
    remember_ns = int(settings.limits.remembered_days * DAY_NS)
    # What a killed collector left in the log is carried over while this one answers.
    writer = lake.open_writer(
        settings.shard, wait_s=LOCK_WAIT_S, remember_ns=remember_ns, carry_later=True, **_derived(order.carry)
    )
    flush = False
    try:
        running = Running(order, lake, writer)

        def renew() -> None:
            failed = [text for text in (running.renew(), renew_server_certificates(settings, listeners)) if text]
            log.info("reloaded tokens and certificates%s", f": {'; '.join(failed)}" if failed else "")

        def stop() -> None:
            running.door.stopping = True

        receivers: list[Receiver] = [feed for feed in running.keeper.feeds if hasattr(feed, "receive")]  # type: ignore[misc]
        server = Server(
            running.door.build_application(receivers, running.keeper),
            build_client_connection(running.crowd),
            listeners,
            settings.limits,
            on_ready=on_ready,
            on_beat=on_beat,
            on_stop=stop,
            on_hup=renew,
        )
        running.keeper.start()
        running.upkeep.start(first=running.recover)
        try:
            server.run()
        finally:
            left = running.keeper.stop(STOP_S)
            if left:
                log.warning("did not end in time: %s", ", ".join(left))
            ended = running.upkeep.stop(STOP_S)
            running.door.close()
        flush = ended and writer.backlog_bytes < FLUSHED_AT_END
    finally:
        writer.close(flush=flush)


def _derived(carry: Carry) -> dict[str, Any]:
    """What else is made of rows when they are carried over."""
    from fairlead.core.compression.node_groups import merge_node_groups
    from fairlead.store.rollups import derive_rollups

    return {"derive": derive_rollups, "regroup": merge_node_groups if carry.merge_nodes else None}


def _many_files() -> None:
    """A connection is a file: as many as this user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
