"""What a frame of the write-ahead log means: one input's rows by table, and files of its rows already written.

Rows wait here between the acknowledgement of their batch and the commit to their Delta table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.lake.parts import Part
from fairlead.lake.tables import BATCHES, SPECS, conform, days_of
from fairlead.lake.wal import Frame
from fairlead.model.tables import TableSpec, batch_of

Rows = tuple[pa.Table, NDArray[np.int32]]
"""Rows of one table (its schema in `model.tables`) and the day of each."""


class Held(msgspec.Struct, frozen=True):
    """Rows of one table inside a frame: `length` bytes of Arrow IPC."""

    table: str
    rows: int
    length: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The meta of a frame: which batch it is, when it was taken in, what its body and its files hold."""

    stream: str
    seq: int
    key: int
    taken_ns: int
    source: str = ""
    path: str = ""
    fallback_ns: int | None = None
    held: list[Held] = []
    parts: dict[str, list[Part]] = {}

    def rows(self) -> int:
        """All its rows, in memory or in files."""
        return sum(h.rows for h in self.held) + sum(p.rows for parts in self.parts.values() for p in parts)


def pack(batch: Batch, tables: Mapping[str, pa.Table]) -> tuple[dict[str, Any], list[memoryview]]:
    """Meta and bodies of the frame that carries `batch` with these rows."""
    held, bodies = [], []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table.unify_dictionaries())
        body = memoryview(sink.getvalue())
        held.append(Held(name, table.num_rows, len(body)))
        bodies.append(body)
    return msgspec.to_builtins(msgspec.structs.replace(batch, held=held)), bodies


def batch_of_frame(frame: Frame) -> Batch:
    """The meta of `frame`."""
    return msgspec.convert(frame.meta, Batch)


def tables_of(frames: Sequence[Frame]) -> set[str]:
    """Names of the tables that `frames` hold rows of, `_batches` among them when there is any frame."""
    names = {BATCHES.name} if frames else set()
    for frame in frames:
        batch = batch_of_frame(frame)
        names.update(h.table for h in batch.held)
        names.update(batch.parts)
    return names


def rows_of(frames: Sequence[Frame], spec: TableSpec, *, strict: bool) -> Rows | None:
    """Rows of one table in `frames` with their days; None when there are none. `strict` refuses columns of a newer
    fairlead (LakeError), else they are left out."""
    if spec.name == BATCHES.name:
        table = _taken([batch_of_frame(frame) for frame in frames])
        return (table, days_of(table, spec, None)) if frames else None
    tables, days = [], []
    for frame in frames:
        batch = batch_of_frame(frame)
        at = 0
        for held in batch.held:
            if held.table == spec.name:
                with pa.ipc.open_stream(pa.py_buffer(frame.body[at : at + held.length])) as reader:
                    table = conform(reader.read_all(), spec, strict=strict)
                tables.append(table)
                days.append(days_of(table, spec, batch.fallback_ns))
            at += held.length
    return (pa.concat_tables(tables), np.concatenate(days)) if tables else None


def parts_of(frames: Sequence[Frame], table: str) -> list[Part]:
    """Files of one table that `frames` name."""
    return [part for frame in frames for part in batch_of_frame(frame).parts.get(table, [])]


def known_tables(names: set[str]) -> list[TableSpec]:
    """The specs of `names` that this fairlead knows, `_batches` last: it is what says that the rest has arrived."""
    specs = [SPECS[name] for name in sorted(names) if name in SPECS]
    return sorted(specs, key=lambda spec: spec.name == BATCHES.name)


def _taken(batches: Sequence[Batch]) -> pa.Table:
    columns: dict[str, object] = {
        "stream": [b.stream for b in batches],
        "seq": [b.seq for b in batches],
        "key": [b.key for b in batches],
        "taken_ns": [b.taken_ns for b in batches],
        "source": [b.source for b in batches],
        "path": [b.path for b in batches],
        "rows": [b.rows() for b in batches],
    }
    return pa.Table.from_batches([batch_of(BATCHES, columns)])
