"""What Prometheus sends to `POST /api/v1/write` (remote-write 1.0), as rows in the lake, each body once.

Not here: HTTP, tokens (the collector's app). `Receiver.take` is given a body and says what became of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import pyarrow as pa

from fairlead import clock
from fairlead.collector.feed import Sink
from fairlead.collector.feeds.prometheus.assembly import Assembly, Counts, Key
from fairlead.collector.feeds.prometheus.mapping import mapping
from fairlead.collector.feeds.prometheus.protobuf import inflated, labels_of, series_of
from fairlead.collector.feeds.settings import RemoteWrite
from fairlead.errors import LakeError

NAME = "remote_write"
_MOST_LEFT = 64
"""Bodies whose rows could not be stored, kept until they are sent again; Prometheus sends from many queues at once."""
_RECENT = 4096
_HEALTH_NS = 10_000_000_000


@dataclass(frozen=True)
class Received:
    """What became of a body: rows stored, or `known` (it was there already)."""

    rows: int = 0
    known: bool = False


class Receiver:
    """Takes bodies from any thread, one after the other. Raises ConfigError for a site's mapping that is wrong."""

    def __init__(self, settings: RemoteWrite, *, began_ns: int | None = None) -> None:
        self.settings = settings
        self._assembly = Assembly(
            mapping(settings.mapping), lambda key: labels_of(cast("bytes", key)), most_series=settings.most_series
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

    def accept(self, body: bytes) -> list[pa.RecordBatch]:
        """The rows of a body: growth since the samples before, gauges as they are. Raises CorruptInputError."""
        with self._lock:
            return self._rows(body)

    def take(self, body: bytes, sink: Sink) -> Received:
        """Stores a body's rows; they are on disk when this returns. Raises CorruptInputError (answer 400: it must not
        be sent again), LakeError (503: it is sent again, and its rows are kept for that)."""
        name = blake2b(body, digest_size=16).digest()
        with self._lock:
            if name in self._recent:
                return Received(known=True)
            left = self._left.get(name)
            if left is None:
                left = (self._seq, self._rows(body))
                self._seq += 1
            seq, rows = left
            try:
                if rows:
                    sink.batch(self._stream, seq, rows, source=NAME)
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
            return Received(count)

    def _rows(self, body: bytes) -> list[pa.RecordBatch]:
        # All of it is read before the first sample counts: a body that is broken at its end changes nothing.
        series = list(series_of(inflated(body, self.settings.most_bytes)))
        return self._assembly.rows(_samples(series))

    def _tell(self, sink: Sink, rows: int) -> None:
        now = clock.now_ns()
        if now - self._told_ns < _HEALTH_NS:
            sink.health(NAME, "ok", self.counts.text(), rows=rows)
            return
        self._told_ns = now
        unknown = self.counts.unknown.total()
        sink.health(NAME, "ok", self.counts.text(), rows=rows, unknown_lines=unknown - self._unknown_told)
        self._unknown_told = unknown


def _samples(series: list[tuple[bytes, list[tuple[int, float]]]]) -> Iterator[tuple[Key, int, float]]:
    for key, samples in series:
        for stamp, value in samples:
            yield key, stamp, value
