"""What a frame of the write-ahead log means: rows by table, files of rows already written, which batches they are.

Rows wait here between the acknowledgement of their batch and the commit to their Delta table. A frame holds either one
input as Arrow, or batches from the wire exactly as they were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.batches import bulk
from fairlead.core.batches.bulk import Small
from fairlead.core.batches.decoding import decode_body_headers
from fairlead.core.batches.rows import DecodedBatch, decode_batch_rows
from fairlead.core.model.job import Job
from fairlead.core.model.tables import JOBS, TableSpec, build_table_batch
from fairlead.store.days_and_tiers import compute_days
from fairlead.store.part_files import Part
from fairlead.store.received_batches import hash_received_stream
from fairlead.store.stored_tables import BATCHES, SPECS, WIRE, conform_stored_table
from fairlead.store.wal import Frame

_NOTE_BYTES = 512
"""What the name of a batch takes in memory until its segment is carried over."""
_SMALL_FRAME = 64 << 20

Rows = tuple[pa.Table, NDArray[np.int32]]
"""Rows of one table (its schema in `model.tables`) and the day of each."""


class FrameRows(msgspec.Struct, frozen=True):
    """Rows of one table inside a frame: `length` bytes of Arrow IPC."""

    table: str
    rows: int
    length: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The meta of a frame of one input: which batch it is, when it was taken in, what its body and its files hold."""

    stream: str
    seq: int
    key: int
    taken_ns: int
    source: str = ""
    path: str = ""
    fallback_ns: int | None = None
    held: list[FrameRows] = []
    parts: dict[str, list[Part]] = {}


class Note(NamedTuple):
    """One batch taken in: a row of `_batches` before ranges are joined."""

    stream: str
    seq: int
    key: int
    taken_ns: int
    source: str
    path: str
    rows: int


class Piece(NamedTuple):
    """Rows of one table from one batch. Rows without a time are of the day of `fallback_ns`; all known times lie in
    [first_ns, last_ns] (None: no row has one)."""

    rows: pa.Table
    fallback_ns: int | None
    first_ns: int | None
    last_ns: int | None


@dataclass(slots=True)
class Load:
    """What one frame holds. `nbytes` is about the memory its rows take."""

    notes: list[Note]
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    nbytes: int = 0


def pack_wal_batch(batch: Batch, tables: Mapping[str, pa.Table]) -> tuple[dict[str, Any], list[memoryview]]:
    """Meta and bodies of the frame that carries `batch` with these rows."""
    held, bodies = [], []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table.unify_dictionaries())
        body = memoryview(sink.getvalue())
        held.append(FrameRows(name, table.num_rows, len(body)))
        bodies.append(body)
    return msgspec.to_builtins(msgspec.structs.replace(batch, held=held)), bodies


def build_wal_rows_meta(taken_ns: int) -> dict[str, Any]:
    """Meta of a frame whose body is batches as they were sent: all else they say themselves."""
    return {WIRE: 1, "taken_ns": taken_ns}


def load_wal_tables(batch: Batch, tables: Mapping[str, pa.Table], *, nbytes: int | None = None) -> Load:
    """One input with these rows."""
    rows = sum(t.num_rows for t in tables.values()) + sum(p.rows for parts in batch.parts.values() for p in parts)
    note = Note(batch.stream, batch.seq, batch.key, batch.taken_ns, batch.source, batch.path, rows)
    pieces = {
        name: [build_wal_rows_piece(table, SPECS[name], batch.fallback_ns)]
        for name, table in tables.items()
        if name in SPECS
    }
    size = sum(table.nbytes for table in tables.values()) if nbytes is None else nbytes
    return Load([note], pieces, dict(batch.parts), size)


def load_wal_small_batches(
    batches: Sequence[Small], keys: Sequence[int], tables: Mapping[str, pa.RecordBatch], taken_ns: int
) -> Load:
    """Small batches whose rows are `tables`: a piece a table, however many they are."""
    load = Load([])
    jobs: dict[bytes, Job] = {}
    for one, key in zip(batches, keys, strict=True):
        header = one.header
        load.notes.append(Note(one.stream, header.seq, key, taken_ns, WIRE, header.writer, header.rows))
        load.nbytes += _NOTE_BYTES + len(one.raw)
        if header.job is not None:
            _note_job(header.job, jobs)
    for name, rows in tables.items():
        load.pieces[name] = [build_wal_rows_piece(pa.Table.from_batches([rows]), SPECS[name], None)]
    _add_jobs(jobs, load)
    return load


def load_wal_wire_batches(batches: Iterable[DecodedBatch], taken_ns: int) -> Load:
    """Batches from the wire. Those of a table this fairlead does not know are noted and have no rows. The jobs they
    say they are of become rows of `jobs`."""
    load = Load([])
    jobs: dict[bytes, Job] = {}
    for one in batches:
        header = one.header
        load.notes.append(
            Note(one.stream, header.seq, hash_received_stream(one.stream), taken_ns, WIRE, header.writer, header.rows)
        )
        load.nbytes += _NOTE_BYTES + one.raw_bytes
        if one.rows is not None and one.rows.num_rows:
            table = pa.Table.from_batches([one.rows])
            load.pieces.setdefault(header.table, []).append(
                build_wal_rows_piece(table, SPECS[header.table], header.first_ns)
            )
        if header.job is not None:
            _note_job(header.job, jobs)
    _add_jobs(jobs, load)
    return load


def _add_jobs(jobs: Mapping[bytes, Job], load: Load) -> None:
    if jobs:
        columns = {name: [getattr(job, name) for job in jobs.values()] for name in JOBS.schema.names}
        load.pieces.setdefault(JOBS.name, []).append(
            build_wal_rows_piece(pa.Table.from_batches([build_table_batch(JOBS, dict(columns))]), JOBS, None)
        )


def _note_job(said: Mapping[str, object], jobs: dict[bytes, Job]) -> None:
    try:
        key = msgspec.json.encode(said)
        if key not in jobs:
            jobs[key] = msgspec.convert(said, Job)
    except (msgspec.ValidationError, msgspec.EncodeError, UnicodeError):
        return  # a job told wrongly takes nothing away from the rows


def build_wal_rows_piece(table: pa.Table, spec: TableSpec, fallback_ns: int | None) -> Piece:
    """A piece of these rows."""
    if spec.time_column is None:
        return Piece(table, fallback_ns, None, None)
    times = table.column(spec.time_column)
    if times.null_count:
        times = times.drop_null()
    if not len(times):
        return Piece(table, fallback_ns, None, None)
    values = times.to_numpy()
    return Piece(table, fallback_ns, int(values.min()), int(values.max()))


def load_wal_frame(frame: Frame, *, strict: bool) -> Load:
    """What `frame` holds, decoded. `strict` refuses columns of a newer fairlead (LakeError), else they are left out."""
    if WIRE in frame.meta:
        taken_ns = int(frame.meta["taken_ns"])
        small = _small(frame)
        if small is not None:
            keys = [hash_received_stream(one.stream) for one in small[0]]
            return load_wal_small_batches(small[0], keys, small[1], taken_ns)
        return load_wal_wire_batches(decode_batch_rows(frame.body, "the write-ahead log", 1 << 40), taken_ns)
    batch = msgspec.convert(frame.meta, Batch)
    tables: dict[str, pa.Table] = {}
    at = 0
    for held in batch.held:
        if held.table in SPECS:
            with pa.ipc.open_stream(pa.py_buffer(frame.body[at : at + held.length])) as reader:
                tables[held.table] = conform_stored_table(reader.read_all(), SPECS[held.table], strict=strict)
        at += held.length
    return load_wal_tables(batch, tables)


def _small(frame: Frame) -> tuple[list[Small], dict[str, pa.RecordBatch]] | None:
    """Small batches and their rows, when the frame holds nothing else."""
    batches = bulk.parse_bulk_batches(bytes(frame.body)) if len(frame.body) <= _SMALL_FRAME else None
    tables = bulk.build_bulk_rows(batches) if batches else None
    return (batches, tables) if batches and tables is not None else None


def count_wal_rows(frame: Frame) -> tuple[dict[str, int], int]:
    """Rows by table in `frame`, whatever table they are of, and how many batches it is; nothing is decoded."""
    rows: dict[str, int] = {}
    if WIRE in frame.meta:
        batches = 0
        for header, _, _ in decode_body_headers(frame.body, "the write-ahead log"):
            rows[header.table] = rows.get(header.table, 0) + header.rows
            batches += 1
        return rows, batches
    batch = msgspec.convert(frame.meta, Batch)
    for held in batch.held:
        rows[held.table] = rows.get(held.table, 0) + held.rows
    for name, parts in batch.parts.items():
        rows[name] = rows.get(name, 0) + sum(part.rows for part in parts)
    return rows, 1


def list_wal_batches(frame: Frame) -> tuple[set[str], list[tuple[int, int]]]:
    """Tables that `frame` has rows of, and its batches as (key, number); nothing is decoded."""
    if WIRE not in frame.meta:
        batch = msgspec.convert(frame.meta, Batch)
        return {held.table for held in batch.held} | batch.parts.keys(), [(batch.key, batch.seq)]
    names: set[str] = set()
    batches = []
    keys: dict[str, int] = {}
    for header, _, _ in decode_body_headers(frame.body, "the write-ahead log"):
        names.add(header.table)
        stream = f"{header.node}/{header.boot_id}/{header.table}"
        key = keys.get(stream)
        if key is None:
            key = keys[stream] = hash_received_stream(stream)
        batches.append((key, header.seq))
    return names, batches


def _is_wire(frame: Frame) -> bool:
    """Whether a frame holds batches as they were sent."""
    return WIRE in frame.meta


def list_wal_parts(frame: Frame) -> dict[str, list[Part]]:
    """Files of its rows that a frame names, by table."""
    return {} if _is_wire(frame) else msgspec.convert(frame.meta, Batch).parts


def list_job_wal_rows(frame: Frame) -> tuple[str, ...]:
    """The table of jobs, when batches in the frame say whose they are."""
    if not _is_wire(frame):
        return ()
    said = any(header.job is not None for header, _, _ in decode_body_headers(frame.body, "the write-ahead log"))
    return (JOBS.name,) if said else ()


def build_wal_rows_notes(loads: Sequence[Load]) -> pa.Table:
    """Rows of `_batches`, a row a batch."""
    notes = [note for load in loads for note in load.notes]
    names = ("stream", "seq", "key", "taken_ns", "source", "path", "rows")
    columns: dict[str, object] = dict(zip(names, zip(*notes, strict=True), strict=True)) if notes else {}
    columns = {name: list(values) for name, values in columns.items()}  # type: ignore[call-overload]
    return pa.Table.from_batches(
        [build_table_batch(BATCHES, columns | {"first_seq": columns.get("seq", []), "batches": [1] * len(notes)})]
    )


def gather_wal_rows(pieces: Sequence[Piece], spec: TableSpec) -> Rows | None:
    """All rows of `pieces` and the day of each; None when there are none."""
    if not pieces:
        return None
    days = [compute_days(piece.rows, spec, piece.fallback_ns) for piece in pieces]
    return pa.concat_tables([piece.rows for piece in pieces]), np.concatenate(days)


def sort_wal_specs(names: Iterable[str]) -> list[TableSpec]:
    """The specs of `names` that this fairlead knows, `_batches` last: it is what says that the rest has arrived."""
    specs = [SPECS[name] for name in sorted(names) if name in SPECS]
    return sorted(specs, key=lambda spec: spec.name == BATCHES.name)
