"""What a feed is: a thread of the collector that brings rows in from elsewhere than an agent (a folder, Slurm, ...).

Not here: the feeds (`feeds`), the thread that runs one and starts it again (`feed_threads`).

`fairlead.see.collector.feeds` offers two names that the runtime uses, imported only when asked for:

- `Feeds`: a strict msgspec struct (frozen, kw_only, forbid_unknown_fields), all fields with defaults, no
  feed on by default: the `[feeds]` table of the server's TOML file is decoded into it.
- `made(settings: Feeds) -> list[Feed]`: the feeds it asks for. Raises ConfigError.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa


class Sink(Protocol):
    """Where a feed puts what it finds. Safe to use from many threads."""

    def store_batch(
        self, stream: str, seq: int, tables: list[pa.RecordBatch], *, source: str = "", path: str = ""
    ) -> bool:
        """Rows of any record tables, as one batch: True when they are on disk, False when the lake had this batch
        (stream, seq) already. All of it or nothing. `source` and `path` are kept beside the batch. Raises LakeError
        (nothing was taken; try again later) and InputError (these rows will never be taken)."""
        ...

    def has_batch(self, stream: str, seq: int) -> bool:
        """Whether the lake has this batch: what needs no second reading."""
        ...

    def record_event(
        self, component: str, kind: str, text: str, *, ts_ns: int | None = None, end_ns: int | None = None
    ) -> None:
        """A row of `events`, now unless `ts_ns` says otherwise."""
        ...

    def report_health(self, probe: str, state: str, text: str = "", *, rows: int = 0, unknown_lines: int = 0) -> None:
        """How the feed is: `ok`, `missing` (its source is not there), `failing`, `late`. `probe` is the feed's name, or
        `NAME:part`. Shown at once in `/api/v1/health`, kept in `health` when it changes and every minute. `rows` and
        `unknown_lines` are added up between."""
        ...


class Feed(Protocol):
    """One place records come from. `run` returns when `stop` is set (look at it at least twice a second:
    `stop.wait(seconds)`); an exception ends it and it is run again after a pause that grows from 1 s to 60 s, its text
    shown as the feed's health. What it must remember between two runs it asks the lake (`Sink.known`), or keeps in the
    object."""

    name: str

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Brings rows in until `stop`."""
        ...


class Receiver(Feed, Protocol):
    """A feed that is sent to over HTTP (Prometheus remote-write). The collector checks the token (roles agent and
    operator), the size and back-pressure, then calls `receive` in a worker thread; `run` may just wait for `stop`."""

    path: str
    """Where requests are taken: `POST` here."""
    most_bytes: int
    """Largest body as sent."""

    def receive(self, body: bytes, headers: Mapping[str, str], sink: Sink) -> tuple[int, str]:
        """Returns status and text of the answer (empty with 204) when what `body` holds is on disk. Header names
        are in lower case. InputError becomes 400, LakeError 503 or 507."""
        ...
