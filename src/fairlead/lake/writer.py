"""The one writer of a shard: takes batches in, acknowledges them from the write-ahead log, carries them to the tables.

Killed at any point, the next writer carries over what was acknowledged, once. Not here: maintenance (`compaction`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead import clock
from fairlead.errors import InputError, LakeError
from fairlead.lake import delta, hot, wal
from fairlead.lake.parts import Part, write_parts
from fairlead.lake.place import Place, ShardLock
from fairlead.lake.tables import BATCHES, MAX_DAYS, SPECS, conform, days_of, first_time, spec_of
from fairlead.model.tables import TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

SPILL_BYTES = 64 << 20
"""A batch that holds more than this of one table writes it to Parquet at once: no input has to fit in memory."""
ROLL_BYTES = 128 << 20
"""Uncompressed rows after which a segment is carried over to the tables."""


def stream_key(stream: str) -> int:
    """int64 of blake2b-8 over the name of a stream."""
    return int.from_bytes(blake2b(stream.encode(), digest_size=8).digest(), "little", signed=True)


class Writer:
    """Writes one shard until closed. `batch`, `known` and committing batches may be used from many threads."""

    def __init__(
        self, place: Place, shard: str, *, wait_s: float = 0.0, now_ns: Callable[[], int] = clock.now_ns
    ) -> None:
        """Takes the shard's lock and carries over what a writer before left behind. Raises LakeBusyError, LakeError."""
        self.place = place
        self.shard = shard
        self.now_ns = now_ns
        self.damaged: list[Path] = []
        """Segments set aside while opening because a frame in them failed its checksum."""
        self._turn = threading.Lock()
        self._flushing = threading.Lock()
        self._lock = ShardLock(place, shard, wait_s=wait_s)
        self._closed = False
        try:
            self._folder = place.wal(shard)
            self._tables: dict[str, DeltaTable] = {}
            self._seen: dict[int, int] = {}
            self._old: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
            self._segment = self._next_segment()
            self._held_bytes = 0
            self._carry_over_older()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=kind is None)

    def batch(self, stream: str, seq: int = 0, *, source: str = "", path: str = "") -> BatchWriter:
        """A batch to fill and commit. `stream` and `seq` identify it: of a stream, only ever higher numbers are taken
        (an agent's boot counts up; a file's content is a stream of one batch)."""
        key = stream_key(stream)
        return BatchWriter(self, hot.Batch(stream=stream, seq=seq, key=key, taken_ns=0, source=source, path=path))

    def known(self, stream: str, seq: int = 0) -> bool:
        """Whether this batch, or a later one of its stream, has been taken in."""
        with self._turn:
            return self._is_known(stream_key(stream), seq)

    def flush(self) -> int:
        """Carries every acknowledged batch to its tables; returns how many. Readers see no difference. Raises
        LakeError; nothing is lost then, and the next flush begins where this one failed."""
        with self._flushing:
            with self._turn:
                done = self._segment
                if done.frames:
                    # Under the lock: a batch sent twice must not be called known before its first copy is on disk.
                    done.settle(done.size)
                    self._segment = wal.Segment(self._folder, done.number + 1)
                    self._held_bytes = 0
                    done.close()
            self._carry_over_older()
            return done.frames

    def close(self, *, flush: bool = True) -> None:
        """Flushes and lets the next writer in. Without `flush` the rows stay in the log for that writer."""
        if self._closed:
            return
        self._closed = True
        try:
            if flush:
                self.flush()
            self._segment.close()
        finally:
            self._lock.release()

    def take(self, batch: hot.Batch, tables: dict[str, pa.Table]) -> bool:
        """Appends one batch and returns when it is on disk: True, or False when it was known. Raises LakeError."""
        meta, bodies = hot.pack(batch, tables)
        with self._turn:
            segment = self._segment
            known = self._is_known(batch.key, batch.seq)
            if not known:
                offset = segment.append(meta, bodies)
                self._seen[batch.key] = batch.seq
                self._held_bytes += sum(table.nbytes for table in tables.values())
            else:
                offset = segment.size
            full = self._held_bytes > ROLL_BYTES
        segment.settle(offset)
        if full:
            self.flush()
        return not known

    def table(self, spec: TableSpec) -> DeltaTable:
        """The shard's Delta table of `spec` at its newest version, made if there is none. Raises LakeError."""
        known = self._tables.get(spec.name)
        self._tables[spec.name] = delta.create_or_grow(self.place.table(self.shard, spec.name), spec, known)
        return self._tables[spec.name]

    def _is_known(self, key: int, seq: int) -> bool:
        if key in self._seen:
            return self._seen[key] >= seq
        if self._old is None:
            self._old = self._taken_before()
        keys, seqs = self._old
        at = int(np.searchsorted(keys, key, side="right")) - 1
        return at >= 0 and int(keys[at]) == key and int(seqs[at]) >= seq

    def _taken_before(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Keys and numbers in the table `_batches`, sorted by both."""
        from pyarrow import parquet

        folder = self.place.table(self.shard, BATCHES.name)
        table = delta.open_delta(folder)
        if table is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        paths = [folder / part.path for part in delta.active(table)]
        read = [parquet.read_table(path, columns=["key", "seq"], partitioning=None) for path in paths]
        if not read:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys, seqs = (np.concatenate([rows.column(name).to_numpy() for rows in read]) for name in ("key", "seq"))
        order = np.lexsort((seqs, keys))
        return keys[order], seqs[order]

    def _next_segment(self) -> wal.Segment:
        """A new segment. Its number exceeds every number ever used, even if the log's folder was deleted by hand."""
        numbers = [number for number, _ in wal.segments(self._folder)]
        folders = [self.place.table(self.shard, name) for name in self.place.tables(self.shard)]
        numbers += [delta.carried(delta.open_delta(folder)) for folder in folders]
        return wal.Segment(self._folder, max(numbers, default=0) + 1)

    def _carry_over_older(self) -> None:
        """Oldest first, never one before its predecessor: tables remember the highest number only."""
        for number, path in wal.segments(self._folder):
            if number < self._segment.number:
                self._carry_over(number, path)

    def _carry_over(self, number: int, path: Path) -> None:
        contents = wal.read_segment(path)
        for spec in hot.known_tables(_all_known(hot.tables_of(contents.frames), path)):
            self._commit(contents.frames, spec, number)
        if contents.damaged:
            aside = path.with_name(path.name + ".damaged")
            path.replace(aside)
            self.damaged.append(aside)
        else:
            path.unlink()

    def _commit(self, frames: list[wal.Frame], spec: TableSpec, number: int) -> None:
        folder = self.place.table(self.shard, spec.name)
        table = self.table(spec)
        if delta.carried(table) >= number:
            return
        parts = hot.parts_of(frames, spec.name)
        rows = hot.rows_of(frames, spec, strict=True)
        if rows is not None:
            parts += write_parts(folder, spec, *rows)
        delta.commit(folder, table, spec, parts, number, self.now_ns())


class BatchWriter:
    """One batch being filled, by one thread. `fallback_ns` dates rows without a time; unset, the earliest time in
    the batch does. Either `commit` or `abandon` ends it."""

    def __init__(self, writer: Writer, batch: hot.Batch) -> None:
        self.fallback_ns: int | None = None
        self.rows: dict[str, int] = {}
        """Rows added so far, by table."""
        self.first_ns: int | None = None
        """Earliest time of any row added so far."""
        self._writer = writer
        self._batch = batch
        self._held: dict[str, list[pa.Table]] = {}
        self._bytes: dict[str, int] = {}
        self._parts: dict[str, list[Part]] = {}
        self._days: set[int] = set()

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Rows of the table that their schema names. Raises LakeError when they do not fit it, InputError when their
        times make no sense."""
        spec = spec_of(rows)
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if table.num_rows == 0:
            return
        table = conform(table, spec, strict=True)
        _check(table, spec)
        self._note_times(table, spec)
        self.rows[spec.name] = self.rows.get(spec.name, 0) + table.num_rows
        self._held.setdefault(spec.name, []).append(table)
        self._bytes[spec.name] = self._bytes.get(spec.name, 0) + table.nbytes
        if self._bytes[spec.name] > SPILL_BYTES:
            self._spill(spec)

    def commit(self) -> bool:
        """Returns when the batch is on disk and every reader will see it: True; False when the lake had it already.
        Raises LakeError; the batch is then not in the lake."""
        held = {name: pa.concat_tables(tables) for name, tables in self._held.items()}
        batch = hot.Batch(
            stream=self._batch.stream,
            seq=self._batch.seq,
            key=self._batch.key,
            taken_ns=self._writer.now_ns(),
            source=self._batch.source,
            path=self._batch.path,
            fallback_ns=self._fallback(),
            parts=self._parts,
        )
        taken = self._writer.take(batch, held)
        if not taken:
            self.abandon()
        return taken

    def abandon(self) -> None:
        """Forgets the batch and removes files it wrote ahead."""
        for name, parts in self._parts.items():
            for part in parts:
                (self._writer.place.table(self._writer.shard, name) / part.path).unlink(missing_ok=True)
        self._held, self._parts = {}, {}

    def _fallback(self) -> int | None:
        return self.first_ns if self.fallback_ns is None else self.fallback_ns

    def _note_times(self, table: pa.Table, spec: TableSpec) -> None:
        first = first_time(table, spec)
        if first is not None:
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
            self._days.update(np.unique(days_of(table, spec, first)).tolist())
        if len(self._days) > MAX_DAYS:
            raise InputError(
                f"its times lie on more than {MAX_DAYS:,} different days",
                remedy="the clock it was written with is broken",
            )

    def _spill(self, spec: TableSpec) -> None:
        rows = pa.concat_tables(self._held.pop(spec.name))
        self._bytes[spec.name] = 0
        folder = self._writer.place.table(self._writer.shard, spec.name)
        parts = write_parts(folder, spec, rows, days_of(rows, spec, self._fallback()))
        self._parts.setdefault(spec.name, []).extend(parts)


def _all_known(names: set[str], path: Path) -> set[str]:
    unknown = sorted(names - SPECS.keys())
    if unknown:
        raise LakeError(
            f"a newer fairlead left rows of the table {unknown[0]!r} in the write-ahead log",
            where=str(path),
            remedy="upgrade this fairlead, or let the newer one finish: fairlead lake compact",
        )
    return names


def _check(table: pa.Table, spec: TableSpec) -> None:
    """What is acknowledged must be storable: no nulls where there must be a value, no broken text."""
    for column, field in zip(table.columns, spec.schema, strict=True):
        if not field.nullable and column.null_count:
            raise LakeError(
                f"{spec.name}.{field.name} must not be null", remedy="report the source that made these rows"
            )
        if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise LakeError(f"{spec.name}.{field.name} holds text that is not UTF-8") from error
