"""A file of any format fairlead reads, as batches a sink takes: read by its source, runs merged, told once.

Not here: where files come from (`drop_folder`, `darshan_watch`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core import clock
from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.rows import build_batch_rows
from fairlead.core.compression.merger import Merger
from fairlead.core.errors import CorruptInputError, InputError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import EVENTS, JOBS, OPS, build_table_batch, find_table_spec
from fairlead.see.collector.feed import Sink
from fairlead.see.sources.base import Source
from fairlead.see.sources.inputs import explain_unreadable_input, name_input_content

PIECE_BYTES = 64 << 20
"""Rows of one file that are held at once; what is more goes in several batches."""
_OPS_AT_ONCE = 1 << 18
_JOBS_AT_ONCE = 1 << 14
_MINUTE_NS = 60_000_000_000


@dataclass
class ImportedFile:
    """What became of a file: its rows, of which kinds nothing could be told, and whether the lake had it already."""

    rows: int = 0
    known: bool = False
    missing: list[Missing] = field(default_factory=list)


class CollectorStop(Exception):  # noqa: N818
    """The collector ends: what is being read is left for the next time."""


def read_import_stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file does. Raises InputError."""
    try:
        found = path.stat()
    except OSError as fault:
        raise explain_unreadable_input(path, fault) from fault
    return found.st_ino, found.st_size, found.st_mtime_ns


def import_file(sink: Sink, source: Source, path: Path, stop: threading.Event) -> ImportedFile:
    """Reads a whole file into the sink; the lake has all of it when this returns. Raises InputError (nothing can be
    used, or it changed while it was read), LakeError, Stopped."""
    if source.name == "spool":
        return _take_batches(sink, path, stop)
    before = read_import_stamp(path)
    name = name_input_content(path, source)
    if sink.has_batch(name, 0):
        return ImportedFile(known=True)
    taken = ImportedFile()
    pieces = _Pieces(sink, name, source.name, str(path))
    for rows in _records(source, path, taken):
        if stop.is_set():
            raise CollectorStop
        pieces.add(rows)
    if read_import_stamp(path) != before:
        raise InputError(
            "the file changed while it was read", where=str(path), remedy="it is read again when it no longer changes"
        )
    taken.known = not pieces.end()
    taken.rows = pieces.rows
    return taken


class _Pieces:
    """Batches of one file: the last one has number 0 and says that all are there; those before count from 1."""

    def __init__(self, sink: Sink, stream: str, source: str, path: str) -> None:
        self.rows = 0
        self._sink, self._stream, self._source, self._path = sink, stream, source, path
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._seq = 0

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._bytes > PIECE_BYTES:
            self._seq += 1
            self._send(self._seq)

    def end(self) -> bool:
        return self._send(0)

    def _send(self, seq: int) -> bool:
        held, self._held, self._bytes = self._held, [], 0
        return self._sink.store_batch(self._stream, seq, held, source=self._source, path=self._path)


def _records(source: Source, path: Path, taken: ImportedFile) -> Iterator[pa.RecordBatch]:
    """Rows of a file: operations merged into runs, its job as a row, what is missing as events."""
    merger = Merger(by_time=True)
    ops: list[pa.RecordBatch] = []
    jobs: list[Job] = []
    first_ns: int | None = None
    waiting = count = 0
    for item in source.read(path):
        if isinstance(item, Missing):
            taken.missing.append(item)
        elif isinstance(item, Job):
            jobs.append(item)
            count += 1
            first_ns = item.start_ns if count == 1 else None
            if len(jobs) >= _JOBS_AT_ONCE:
                yield _build_job_batch(jobs)
                jobs = []
        elif find_table_spec(item.schema).name == OPS.name:
            ops.append(item)
            waiting += item.num_rows
            if waiting >= _OPS_AT_ONCE:
                yield from merger.push(pa.Table.from_batches(ops)).to_batches()
                ops, waiting = [], 0
        else:
            yield item
    if ops:
        yield from merger.push(pa.Table.from_batches(ops)).to_batches()
    yield from merger.flush().to_batches()
    if taken.missing:
        yield _missing_events(taken.missing, path, jobs[0] if count == 1 and jobs else None, first_ns)
    if jobs:
        yield _build_job_batch(jobs)


def _build_job_batch(jobs: list[Job]) -> pa.RecordBatch:
    """Jobs as rows of their table."""
    return build_table_batch(JOBS, {name: [getattr(job, name) for job in jobs] for name in JOBS.schema.names})


def _missing_events(missing: list[Missing], path: Path, job: Job | None, first_ns: int | None) -> pa.RecordBatch:
    """What a file could not tell is a record too: no data is not zero."""
    ts = first_ns if first_ns is not None else clock.now_ns() // _MINUTE_NS * _MINUTE_NS
    return build_table_batch(
        EVENTS,
        {
            "ts_ns": np.full(len(missing), ts),
            "component": [f"job:{job.job_id}" if job is not None else f"input:{path.name}"] * len(missing),
            "kind": [f"missing:{gap.kind}" for gap in missing],
            "text": [str(gap) for gap in missing],
        },
    )


def _take_batches(sink: Sink, path: Path, stop: threading.Event) -> ImportedFile:
    """A file of batches: each is taken under its own name, so that one that came over the network too counts once."""
    where = str(path)
    taken = ImportedFile(known=True)
    try:
        with path.open("rb") as stream:
            for batch in decode_stream_batches(stream, where):
                if stop.is_set():
                    raise CollectorStop
                header = batch.header
                name = f"{header.node}/{header.boot_id}/{header.table}"
                if sink.has_batch(name, header.seq):
                    continue
                rows: list[pa.RecordBatch] = []
                for item in build_batch_rows(batch, where):
                    if isinstance(item, Missing):
                        taken.missing.append(item)
                    else:
                        rows.append(item)
                if rows and sink.store_batch(name, header.seq, rows, source="spool", path=where):
                    taken.known = False
                    taken.rows += sum(one.num_rows for one in rows)
    except OSError as fault:
        raise explain_unreadable_input(path, fault) from fault
    except CorruptInputError as fault:
        if not taken.rows:
            raise
        taken.missing.append(Missing(kind="truncated", what="the rest of the file", why=fault.what, where=where))
    return taken
