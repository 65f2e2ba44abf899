"""Files of a spool as a source: batches that mounts, forwarders and agents wrote become the tables they are of.

Not here: the bytes of a batch (`fairlead.batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from fairlead.batches import MAGIC, Batch, Column, Header, Lists, Words, batches, headers
from fairlead.errors import CorruptInputError, UnsupportedVersionError
from fairlead.model.job import Job
from fairlead.model.missing import Missing
from fairlead.model.tables import OPS, TABLES, TableSpec, batch_of
from fairlead.sources.base import Item, Origin

CLIENT = "client"
_SAME_RUN_NS = 86_400 * 10**9
"""Steps of one batch job follow each other within a day; the same number later is another job."""


class SpoolSource:
    """`Source` of spool files. A file holds what one writer recorded in a few seconds, and of a client, of one job."""

    name = "spool"
    ranks_per_log = False

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether `head` begins a batch, of whatever version."""
        return head.startswith(MAGIC[:-1])

    def origin(self, path: Path, head: bytes) -> Origin:  # noqa: ARG002
        """The job a client's file is of, or the server it is of; headers are read only. Raises as `read`."""
        first = self._first(path)
        if first.layer != CLIENT:
            return Origin(f"{first.layer}/{first.writer}@{first.node}", None, None, 0)
        job = _job_of(first)
        if job is None:
            return Origin(None, first.first_ns, first.last_ns, _SAME_RUN_NS)
        return Origin(f"{job.cluster or ''}/{job.job_id}", first.first_ns, first.last_ns, _SAME_RUN_NS)

    def serves_many(self, path: Path) -> bool:
        """Whether the file was written by a server, whose records are of many jobs. Raises as `read`."""
        return self._first(path).layer != CLIENT

    def _first(self, path: Path) -> Header:
        with path.open("rb") as stream:
            for header in headers(stream, str(path)):
                return header
        raise CorruptInputError("the file is empty", where=str(path), remedy="copy it again from its spool")

    def read(self, path: Path) -> Iterator[Item]:
        """The job a client's file is of, then every batch as rows of its table, and a `Missing` for what is not
        understood or cut off.

        Raises CorruptInputError, UnsupportedVersionError when nothing can be used.
        """
        where = str(path)
        known = False
        read = 0
        with path.open("rb") as stream:
            try:
                for batch in batches(stream, where):
                    job = _job_of(batch.header)
                    if job is not None and not known:
                        known = True
                        yield job
                    yield from _rows(batch, where)
                    read += 1
            except (CorruptInputError, UnsupportedVersionError) as fault:
                if not read:
                    raise
                yield Missing(
                    kind="truncated", what="the rest of the file", why=fault.what, remedy=fault.remedy, where=where
                )


def _job_of(header: Header) -> Job | None:
    if header.job is None:
        return None
    try:
        return msgspec.convert(header.job, Job)
    except msgspec.ValidationError:
        return None


def _rows(batch: Batch, where: str) -> Iterator[Item]:
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
