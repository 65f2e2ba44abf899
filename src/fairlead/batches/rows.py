"""A decoded batch as rows of the table it is of. Not here: its bytes (`decoding`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fairlead.batches.decoding import Batch
from fairlead.batches.encoding import Column, Lists, Words
from fairlead.errors import CorruptInputError
from fairlead.model.missing import Missing
from fairlead.model.tables import OPS, TABLES, TableSpec, batch_of


def rows_of(batch: Batch, where: str) -> Iterator[pa.RecordBatch | Missing]:
    """The rows of a batch under the schema of their table, or a `Missing` for what this fairlead does not understand.

    Raises CorruptInputError when the batch does not fit its table.
    """
    header = batch.header
    spec = TABLES.get(header.table)
    if spec is None:
        yield Missing(
            kind="unknown_table", what=f"{header.rows} rows of a table {header.table!r}",
            why="this fairlead does not know it", remedy="upgrade fairlead", where=where,
        )  # fmt: skip
        return
    strange = [name for name in batch.columns if name not in spec.schema.names]
    if strange and header.version > spec.version:
        yield Missing(
            kind="unknown_columns", what=f"columns {', '.join(sorted(strange))} of {spec.name}",
            why="they are of a newer fairlead", remedy="upgrade fairlead", where=where,
        )  # fmt: skip
    elif strange:
        raise _unfit(f"{spec.name} has no column {strange[0]!r}", where)
    yield _record_batch(batch, spec, where)


def _record_batch(batch: Batch, spec: TableSpec, where: str) -> pa.RecordBatch:
    columns: dict[str, object] = {}
    for wanted in spec.schema:
        column = batch.columns.get(wanted.name)
        if column is None and not wanted.nullable:
            raise _unfit(f"{spec.name} lacks {wanted.name!r}", where)
        if column is not None:
            columns[wanted.name] = _fitted(column, wanted, spec, where)
    made = batch_of(spec, columns, batch.header.rows)
    if spec is OPS and made.num_rows and int(made.column("count").to_numpy().min()) < 1:
        raise _unfit("a run of fewer than one operation", where)
    return made


def _fitted(column: Column, wanted: pa.Field, spec: TableSpec, where: str) -> pa.Array:
    """The column as Arrow, of the type its table wants."""
    try:
        array = _array(column).cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeError) as fault:
        raise _unfit(f"{spec.name}.{wanted.name} cannot hold what the batch gives it", where) from fault
    if array.null_count and not wanted.nullable:
        raise _unfit(f"{spec.name}.{wanted.name} is null in a row", where)
    return array


def _array(column: Column) -> pa.Array:
    if isinstance(column, Words):
        codes = np.frombuffer(column.codes, np.int32)
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32(), mask=codes < 0), pa.array(column.words, pa.string())
        )
    if isinstance(column, Lists):
        lengths = np.frombuffer(column.lengths, np.int32)
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
        values = pa.array(np.frombuffer(column.values, np.int64))
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(lengths < 0))
    values = np.frombuffer(column.values, np.float64 if column.values.typecode == "d" else np.int64)
    mask = None if column.valid is None else np.frombuffer(column.valid, np.uint8) == 0
    return pa.array(values, mask=mask)


def _unfit(what: str, where: str) -> CorruptInputError:
    return CorruptInputError(f"a batch does not fit its table: {what}", where=where, remedy="upgrade fairlead")
