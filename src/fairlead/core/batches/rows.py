"""A decoded batch as rows of the table it is of. Not here: its bytes (`decoding`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.core.batches.decoding import Batch, decode_body_batches
from fairlead.core.batches.encoding import Column, Header, Lists, Words
from fairlead.core.errors import CorruptInputError, UnfitError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import OPS, TABLES, TableSpec

BODY_RAW = 512 << 20
"""Bytes of columns one body of batches may unpack to."""
_FEW_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """One batch of a body: what it says of itself, its rows under the schema of their table (None when this fairlead
    does not know the table), where it lies in the body, what of it was not understood."""

    header: Header
    rows: pa.RecordBatch | None
    begin: int
    end: int
    raw_bytes: int
    missing: tuple[Missing, ...] = ()

    @property
    def stream(self) -> str:
        """What its `seq` counts in: node, run of its writer, table."""
        return f"{self.header.node}/{self.header.boot_id}/{self.header.table}"


def decode_batch_rows(
    body: bytes | memoryview, where: str = "the request", limit: int = BODY_RAW
) -> list[DecodedBatch]:
    """All batches of a body, each checked in full; columns are taken over as they lie in memory.

    Raises CorruptInputError, UnsupportedVersionError as `decoding.decode_stream_batches`, UnfitError when rows do not
    fit their table, OversizeError when they unpack to more than `limit` bytes. The global lock is released while it
    unpacks.
    """
    found = []
    for batch in decode_body_batches(body, where, limit):
        rows, missing = None, []
        for item in build_batch_rows(batch, where):
            if isinstance(item, Missing):
                missing.append(item)
            else:
                rows = item
        found.append(DecodedBatch(batch.header, rows, batch.begin, batch.end, batch.raw_bytes, tuple(missing)))
    return found


def build_batch_rows(batch: Batch, where: str) -> Iterator[pa.RecordBatch | Missing]:
    """The rows of a batch under the schema of their table, or a `Missing` for what this fairlead does not understand.

    Raises UnfitError when the batch does not fit its table.
    """
    header = batch.header
    spec = TABLES.get(header.table)
    if spec is None:
        yield Missing(
            kind="unknown_table",
            what=f"{header.rows} rows of a table {header.table!r}",
            why="this version of fairlead does not know it",
            remedy="upgrade fairlead",
            where=where,
        )
        return
    strange = [name for name in batch.columns if name not in spec.schema.names]
    if strange and header.version > spec.version:
        yield Missing(
            kind="unknown_columns",
            what=f"columns {', '.join(sorted(strange))} of {spec.name}",
            why="they are from a newer version of fairlead",
            remedy="upgrade fairlead",
            where=where,
        )
    elif strange:
        raise _unfit(f"{spec.name} has no column {strange[0]!r}", where)
    yield _record_batch(batch, spec, where)


def _record_batch(batch: Batch, spec: TableSpec, where: str) -> pa.RecordBatch:
    arrays = []
    rows = batch.header.rows
    if not batch.columns and rows:
        raise _unfit(f"{spec.name} without columns", where)
    for wanted in spec.schema:
        column = batch.columns.get(wanted.name)
        if column is not None:
            arrays.append(_fitted(column, wanted, spec, where))
        elif wanted.nullable:
            arrays.append(_nulls(wanted.type, rows))
        else:
            raise _unfit(f"{spec.name} lacks {wanted.name!r}", where)
    made = pa.RecordBatch.from_arrays(arrays, schema=spec.schema)
    if spec is OPS and made.num_rows and int(made.column("count").to_numpy().min()) < 1:
        raise _unfit("a run of fewer than one operation", where)
    return made


def _nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """Nulls throughout. Most batches have few rows and lack the same columns: those share their memory."""
    return _shared_nulls(kind).slice(0, rows) if rows <= _FEW_ROWS else pa.nulls(rows, kind)


@lru_cache(maxsize=32)
def _shared_nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_FEW_ROWS, kind)


def _fitted(column: Column, wanted: pa.Field, spec: TableSpec, where: str) -> pa.Array:
    """The column as Arrow, of the type its table wants."""
    try:
        array = _array(column)
        if array.type != wanted.type:
            array = array.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeError) as fault:
        raise _unfit(f"{spec.name}.{wanted.name} cannot hold the values of the batch", where) from fault
    if array.null_count and not wanted.nullable:
        raise _unfit(f"{spec.name}.{wanted.name} is null in a row", where)
    return array


def _array(column: Column) -> pa.Array:
    if isinstance(column, Words):
        codes: Any = column.codes
        # Codes were checked against their words when they were decoded.
        indices = _numbers(codes, codes >= 0 if len(codes) and codes.min() < 0 else None)
        return pa.DictionaryArray.from_arrays(indices, pa.array(column.words, pa.string()), safe=False)
    if isinstance(column, Lists):
        lengths: Any = column.lengths
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(column.values), mask=pa.array(lengths < 0))
    valid = None if column.valid is None else np.frombuffer(column.valid, np.uint8) != 0
    return _numbers(column.values, valid)


def _numbers(values: Any, valid: Any) -> pa.Array:
    """The values as they lie in memory, and which of them are no nulls (None: all)."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bits, pa.py_buffer(values)])


def _unfit(what: str, where: str) -> CorruptInputError:
    return UnfitError(f"a batch does not fit its table: {what}", where=where, remedy="upgrade fairlead")
