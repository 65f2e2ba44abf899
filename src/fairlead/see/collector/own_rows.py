"""Rows the collector itself writes: events it saw, and its health and its feeds', as batches of a stream of its own.

Not here: what is worth writing (`upkeep`, `feed_threads`).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

from fairlead.core.model.tables import EVENTS, HEALTH, build_table_batch
from fairlead.see.probes.base import Event
from fairlead.store.writer import Writer

SOURCE = "collector"


class OwnRecords:
    """The collector's stream of this run. Safe to use from many threads."""

    def __init__(self, writer: Writer, now_ns: Callable[[], int]) -> None:
        self.node = socket.gethostname()
        self._writer = writer
        self._now_ns = now_ns
        self._stream = f"{self.node}/collector-{os.urandom(16).hex()}"
        self._turn = threading.Lock()
        self._seq = 0

    def write_events(self, events: Sequence[Event]) -> None:
        """Writes them, durably. Raises LakeError, InputError."""
        if events:
            columns: dict[str, object] = {name: [getattr(event, name) for event in events] for name in Event._fields}
            self._write("events", build_table_batch(EVENTS, columns))

    def write_health(self, rows: Sequence[dict[str, object]]) -> None:
        """Writes rows of `health` about this collector (columns that lack are null; `ts_ns` and `node` are added)."""
        if rows:
            now_ns = self._now_ns()
            columns: dict[str, object] = {
                name: [row.get(name) for row in rows]
                for name in HEALTH.schema.names
                if any(name in row for row in rows)
            }
            columns |= {"ts_ns": [now_ns] * len(rows), "node": [self.node] * len(rows)}
            self._write("health", build_table_batch(HEALTH, columns))

    def _write(self, table: str, rows: pa.RecordBatch) -> None:
        with self._turn:
            self._seq += 1
            seq = self._seq
        batch = self._writer.open_batch(f"{self._stream}/{table}", seq, source=SOURCE)
        batch.add(rows)
        batch.commit()
