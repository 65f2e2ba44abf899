"""What Prometheus sends to `POST /api/v1/write` (remote-write 1.0), as rows in the lake, each body once.

Not here: HTTP, tokens (the collector's app), protocol 2.0 (it is refused with 415, and Prometheus is told to send 1.0).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import pyarrow as pa

from fairlead.core import clock
from fairlead.core.errors import LakeError
from fairlead.see.collector.feed import Sink
from fairlead.see.collector.feeds.prometheus.assembly import AHEAD_MS, Assembly, Counts, Key
from fairlead.see.collector.feeds.prometheus.mapping import load_mapping
from fairlead.see.collector.feeds.prometheus.protobuf import (
    inflate_protobuf_body,
    parse_protobuf_labels,
    parse_protobuf_series,
)
from fairlead.see.collector.feeds.settings import RemoteWrite

NAME = "remote_write"
_MOST_LEFT = 64
"""Bodies whose rows could not be stored, kept until they are sent again; Prometheus sends from many queues at once."""
_RECENT = 4096
_HEALTH_NS = 10_000_000_000


@dataclass(frozen=True)
class WriteResult:
    """What became of a body: rows stored, or `known` (it was there already)."""

    rows: int = 0
    known: bool = False


class RemoteWriteFeed:
    """A `Receiver`: takes bodies from any thread, one after the other. Raises ConfigError for a site's mapping that is
    wrong."""

    name = NAME
    path = "/api/v1/write"

    def __init__(self, settings: RemoteWrite, *, began_ns: int | None = None) -> None:
        self.settings = settings
        self.most_bytes = settings.most_bytes
        self._assembly = Assembly(
            load_mapping(settings.mapping),
            lambda key: parse_protobuf_labels(cast("bytes", key)),
            most_series=settings.most_series,
        )
        self._stream = f"{NAME}:{clock.now_ns() if began_ns is None else began_ns}"
        self._seq = 0
        self._left: OrderedDict[bytes, tuple[int, list[pa.RecordBatch]]] = OrderedDict()
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        self._told_ns = 0
        self._unknown_told = 0
        self._lock = threading.Lock()

    @property
    def counts(self) -> Counts:
        """What happened to samples so far."""
        return self._assembly.counts

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Waits: Prometheus sends. Bodies that could not be stored are stored when it sends them again."""
        sink.report_health(NAME, "ok")
        while not stop.wait(0.5):
            pass

    def receive(self, body: bytes, headers: Mapping[str, str], sink: Sink) -> tuple[int, str]:
        """204 when the rows are on disk, 415 for protocol 2.0. Raises as `take`."""
        if "write.v2" in headers.get("content-type", ""):
            return 415, "protocol 2.0 is not supported: send 1.0 (protobuf_message: prometheus.WriteRequest)\n"
        self.store_body(body, sink)
        return 204, ""

    def accept(self, body: bytes) -> list[pa.RecordBatch]:
        """The rows of a body: growth since the samples before, gauges as they are. Raises CorruptInputError."""
        with self._lock:
            return self._rows(body)

    def store_body(self, body: bytes, sink: Sink) -> WriteResult:
        """Stores a body's rows; they are on disk when this returns. Raises CorruptInputError (answer 400: it must not
        be sent again), LakeError (503: it is sent again, and its rows are kept for that)."""
        name = blake2b(body, digest_size=16).digest()
        with self._lock:
            if name in self._recent:
                return WriteResult(known=True)
            left = self._left.get(name)
            if left is None:
                left = (self._seq, self._rows(body))
                self._seq += 1
            seq, rows = left
            try:
                if rows:
                    sink.store_batch(self._stream, seq, rows, source=NAME)
            except LakeError:
                self._left[name] = left
                while len(self._left) > _MOST_LEFT:
                    self._left.popitem(last=False)
                raise
            self._left.pop(name, None)
            self._recent[name] = None
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
            count = sum(one.num_rows for one in rows)
            self._tell(sink, count)
            return WriteResult(count)

    def _rows(self, body: bytes) -> list[pa.RecordBatch]:
        # All of it is read before the first sample counts: a body that is broken at its end changes nothing.
        series = list(parse_protobuf_series(inflate_protobuf_body(body, self.settings.most_bytes)))
        return self._assembly.build_rows(_samples(series), clock.now_ns() // 1_000_000 + AHEAD_MS)

    def _tell(self, sink: Sink, rows: int) -> None:
        now = clock.now_ns()
        if now - self._told_ns < _HEALTH_NS:
            sink.report_health(NAME, "ok", self.counts.format_text(), rows=rows)
            return
        self._told_ns = now
        unknown = self.counts.unknown.total()
        sink.report_health(NAME, "ok", self.counts.format_text(), rows=rows, unknown_lines=unknown - self._unknown_told)
        self._unknown_told = unknown


def _samples(series: list[tuple[bytes, list[tuple[int, float]]]]) -> Iterator[tuple[Key, int, float]]:
    for key, samples in series:
        for stamp, value in samples:
            yield key, stamp, value
