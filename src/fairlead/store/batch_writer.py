"""One batch being filled with rows, for a writer to take in whole. Not here: the log, the tables (`writer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from fairlead.core.errors import InputError, LakeError
from fairlead.core.model.tables import TableSpec
from fairlead.store import wal_rows as hot
from fairlead.store.days_and_tiers import compute_days
from fairlead.store.lake_folder import Place
from fairlead.store.part_files import Part, write_part_files
from fairlead.store.stored_tables import MAX_DAYS, conform_stored_table, find_stored_table_spec, find_stored_table_time

SPILL_BYTES = 64 << 20
"""A batch that holds more than this of one table writes it to Parquet at once: no input has to fit in memory."""


class Takes(Protocol):
    """What takes a batch in: the shard's writer."""

    place: Place
    shard: str
    now_ns: Callable[[], int]

    def take_batch(self, batch: hot.Batch, tables: dict[str, pa.Table]) -> bool:
        """Whether the batch was new; it is on disk then."""
        ...


class BatchWriter:
    """One batch being filled, by one thread. `fallback_ns` dates rows without a time; unset, the earliest time in
    the batch does. Either `commit` or `abandon` ends it."""

    def __init__(self, writer: Takes, batch: hot.Batch) -> None:
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
        spec = find_stored_table_spec(rows)
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if table.num_rows == 0:
            return
        table = conform_stored_table(table, spec, strict=True)
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
        taken = self._writer.take_batch(batch, held)
        if not taken:
            self.abandon()
        return taken

    def abandon(self) -> None:
        """Forgets the batch and removes files it wrote ahead."""
        for name, parts in self._parts.items():
            for part in parts:
                (self._writer.place.build_table_path(self._writer.shard, name) / part.path).unlink(missing_ok=True)
        self._held, self._parts = {}, {}

    def _fallback(self) -> int | None:
        return self.first_ns if self.fallback_ns is None else self.fallback_ns

    def _note_times(self, table: pa.Table, spec: TableSpec) -> None:
        first = find_stored_table_time(table, spec)
        if first is not None:
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
            self._days.update(np.unique(compute_days(table, spec, first)).tolist())
        if len(self._days) > MAX_DAYS:
            raise InputError(
                f"its times lie on more than {MAX_DAYS:,} different days",
                remedy="the clock it was written with is broken",
            )

    def _spill(self, spec: TableSpec) -> None:
        rows = pa.concat_tables(self._held.pop(spec.name))
        self._bytes[spec.name] = 0
        folder = self._writer.place.build_table_path(self._writer.shard, spec.name)
        parts = write_part_files(folder, spec, rows, compute_days(rows, spec, self._fallback()))
        self._parts.setdefault(spec.name, []).extend(parts)


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
