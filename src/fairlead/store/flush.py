"""From a segment of the write-ahead log to the tables: files first, then the plan that names them, then the commits.

Killed anywhere, the same segment is carried over again and its rows are in each table once: files no plan names count
for nothing, a plan is followed to the letter, and a table that names the segment's number has its rows. So what is
derived from the rows (rollups, groups) is exact too, even when another version of fairlead finishes the work.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from fairlead.core.errors import DamagedLakeError, LakeError
from fairlead.core.model.tables import OP_GROUPS, OPS, TableSpec
from fairlead.store import delta_table as delta
from fairlead.store import received_batches as taken
from fairlead.store import wal
from fairlead.store import wal_rows as hot
from fairlead.store.checksums import DIGEST_BYTES, open_checked_files
from fairlead.store.days_and_tiers import compute_days
from fairlead.store.lake_folder import Place, write_lake_folder_file
from fairlead.store.part_files import Part, measure_part_file, write_part_files
from fairlead.store.stored_tables import BATCHES, SPECS, conform_stored_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

Derive = Callable[[Mapping[str, pa.Table]], Mapping[str, pa.Table]]
"""Rows by table in, rows of further tables out (`model.tables` schemas). Pure: rows may come in stretches, and what
is derived from stretches must add up."""
Regroup = Callable[[pa.Table], tuple[pa.Table, pa.Table]]
"""Rows of `ops` in; those that stay, and rows of `op_groups` for the others (none when it does not pay), out. Pure."""
_STRETCH = 1 << 20
_MANY_ROWS = 200_000
"""Rows of `ops` in a segment from which on it matters what looking for groups costs."""
_PAYS = 0.25
"""Part of the bytes on disk that groups must save to be worth their cost."""
_MOST_PAUSE = 8

Plan = dict[str, list[Part]]


class Carrier:
    """The tables of one shard and how rows get there. `carry` by one thread at a time."""

    def __init__(
        self,
        place: Place,
        shard: str,
        now_ns: Callable[[], int],
        derive: Derive | None = None,
        regroup: Regroup | None = None,
    ) -> None:
        self.place = place
        self.shard = shard
        self._now_ns = now_ns
        self._derive = derive
        self._regroup = regroup
        self._folder = place.build_wal_path(shard)
        self._tables: dict[str, DeltaTable] = {}
        self._turn = threading.RLock()
        self._pool: ThreadPoolExecutor | None = None
        self._paused = self._pause = self._looks = 0
        self.underived_rows = 0
        """Rows nothing could be derived of because their numbers make no sense."""

    @contextmanager
    def open_table(self, spec: TableSpec) -> Iterator[DeltaTable]:
        """The shard's Delta table of `spec` at its newest version, made if there is none; nobody else of this process
        reads or commits it meanwhile. Raises LakeError."""
        with self._turn:
            known = self._tables.get(spec.name)
            self._tables[spec.name] = delta.prepare_delta_table(
                self.place.build_table_path(self.shard, spec.name), spec, known
            )
            yield self._tables[spec.name]

    def carry(self, number: int, loads: Sequence[hot.Load]) -> None:
        """Carries the rows of segment `number` to the tables, once. Raises LakeError; call it again then."""
        plan = self._planned(number)
        if plan is None:
            plan = self._written(number, loads)
            write_lake_folder_file(wal.build_wal_plan_path(self._folder, number), pack_flush_plan(plan))
        for spec in hot.sort_wal_specs(plan):
            with self.open_table(spec) as table:
                if delta.find_delta_segment(table) < number:
                    folder = self.place.build_table_path(self.shard, spec.name)
                    delta.commit_delta_parts(folder, table, spec, plan[spec.name], number, self._now_ns())

    def remove_finished_plans(self) -> None:
        """Removes plans whose segment is gone: they have been followed."""
        left = {number for number, _ in wal.list_wal_segments(self._folder)}
        for number, path in wal.list_wal_plans(self._folder):
            if number not in left:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends its threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _planned(self, number: int) -> Plan | None:
        path = wal.build_wal_plan_path(self._folder, number)
        try:
            plan = check_flush_plan(path)
        except FileNotFoundError:
            return None
        except DamagedLakeError:
            if any(self._has(SPECS[name], number) for name in self.place.list_tables(self.shard) if name in SPECS):
                raise  # a part of it is carried out, and what the rest is cannot be told
            return None  # nothing names its files yet: they are written again
        unknown = sorted(plan.keys() - SPECS.keys())
        if unknown:
            raise explain_newer_flush(unknown[0], path)
        return plan

    def _written(self, number: int, loads: Sequence[hot.Load]) -> Plan:
        """Writes the files of every table that lacks the segment, and of what is derived from its rows."""
        names = {BATCHES.name, *(name for load in loads for name in (*load.pieces, *load.parts))}
        plan: Plan = {name: [part for load in loads for part in load.parts.get(name, [])] for name in names}
        derived: dict[str, list[pa.Table]] = {}
        held: dict[str, hot.Rows] = {}
        for name in sorted(names - {BATCHES.name}):
            rows = hot.gather_wal_rows([piece for load in loads for piece in load.pieces.get(name, [])], SPECS[name])
            if rows is not None:
                held[name] = rows
        derived = self._derived(held, plan)
        for name, rows in held.items():
            spec = SPECS[name]
            if self._has(spec, number):
                continue
            left: hot.Rows | None = rows
            if spec is OPS and self._regroup is not None:
                left = self._regrouped(rows, derived)
            if left is not None:
                plan[name] += self._files(spec, left)
        for name, tables in derived.items():
            spec = SPECS[name]
            made = hot.gather_wal_rows(
                [hot.build_wal_rows_piece(conform_stored_table(t, spec, strict=True), spec, None) for t in tables], spec
            )
            if made is not None and made[0].num_rows and not self._has(spec, number):
                plan.setdefault(name, []).extend(self._files(spec, made))
        if not self._has(BATCHES, number):
            noted = taken.merge_received_rows(hot.build_wal_rows_notes(loads))
            plan[BATCHES.name] += self._files(BATCHES, (noted, compute_days(noted, BATCHES, None)))
        return plan

    def _has(self, spec: TableSpec, number: int) -> bool:
        with self.open_table(spec) as table:
            return delta.find_delta_segment(table) >= number

    def _files(self, spec: TableSpec, rows: hot.Rows) -> list[Part]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(2, "lake-files")
        return write_part_files(self.place.build_table_path(self.shard, spec.name), spec, *rows, pool=self._pool)

    def _derived(self, held: Mapping[str, hot.Rows], plan: Plan) -> dict[str, list[pa.Table]]:
        derived: dict[str, list[pa.Table]] = {}
        if self._derive is None:
            return derived
        ahead = ({name: rows} for name, parts in plan.items() for rows in self._rows_in(SPECS[name], parts))
        for tables in ({name: rows for name, (rows, _) in held.items()}, *ahead):
            for made in self._made_of(self._derive, tables):
                for name, rows in made.items():
                    derived.setdefault(name, []).append(rows)
        return derived

    def _made_of(self, derive: Derive, tables: Mapping[str, pa.Table]) -> Iterator[Mapping[str, pa.Table]]:
        """What is derived of rows. Numbers a node made up (sums beyond 64 bits) cost the rows of its batch their sums,
        never the other nodes theirs, and never the raw rows."""
        whole = _or_none(derive, tables)
        if whole is not None:
            yield whole
            return
        for name, rows in tables.items():
            for batch in rows.to_batches():
                made = _or_none(derive, {name: pa.Table.from_batches([batch])})
                if made is None:
                    self.underived_rows += batch.num_rows
                else:
                    yield made

    def _rows_in(self, spec: TableSpec, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """Rows of files an input wrote ahead, in stretches."""
        from pyarrow import parquet

        folder = self.place.build_table_path(self.shard, spec.name)
        for part in parts:
            open_checked_files(self.place.root).check([str(folder / part.path)])
            with parquet.ParquetFile(folder / part.path) as file:
                for batch in file.iter_batches(_STRETCH):
                    yield conform_stored_table(pa.Table.from_batches([batch]), spec, strict=True)

    def _regrouped(self, rows: hot.Rows, derived: dict[str, list[pa.Table]]) -> hot.Rows | None:
        assert self._regroup is not None  # noqa: S101  (asked before)
        table, days = rows
        if table.num_rows >= _MANY_ROWS and not self._may_pay(table, self._regroup):
            return table, days
        rest, groups = self._regroup(table)
        if not groups.num_rows:
            return table, days
        derived.setdefault(OP_GROUPS.name, []).append(groups)
        if not rest.num_rows:
            return None
        rest = conform_stored_table(rest, OPS, strict=True)
        return rest, compute_days(rest, OPS, None)

    def _may_pay(self, table: pa.Table, regroup: Regroup) -> bool:
        """Whether to look for groups among many rows, which costs about as much as all else that is done: told
        by the rows of some jobs, other ones each time. Where there were none, the next segments are stored as they are:
        one, then two, four, up to `_MOST_PAUSE`."""
        if self._pause > 0:
            self._pause -= 1
            return False
        self._looks += 1
        some = _of_some_jobs(table, self._looks)
        rest, groups = regroup(some)
        size = measure_part_file(OPS, conform_stored_table(rest, OPS, strict=True)) + measure_part_file(
            OP_GROUPS, conform_stored_table(groups, OP_GROUPS, strict=True)
        )
        pays = size <= (1 - _PAYS) * measure_part_file(OPS, some)
        self._paused = 0 if pays else min(_MOST_PAUSE, 2 * self._paused or 1)
        self._pause = self._paused
        return pays


def _of_some_jobs(table: pa.Table, turn: int) -> pa.Table:
    """About an eighth of the rows, of whole jobs; which ones, depends on `turn`."""
    chunks = table.unify_dictionaries().column("job_id").chunks
    codes = np.concatenate([chunk.indices.fill_null(-1).to_numpy() for chunk in chunks]) + 1
    counts = np.bincount(codes)
    order = np.roll(np.flatnonzero(counts), -turn * 7)
    needed = int(np.searchsorted(np.cumsum(counts[order]), table.num_rows // 8)) + 1
    chosen = np.zeros(len(counts), bool)
    chosen[order[:needed]] = True
    return table.filter(pa.array(chosen[codes]))


def _or_none(derive: Derive, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table] | None:
    try:
        return derive(tables)
    except (ArithmeticError, ValueError):  # pyarrow's refusals of numbers are ValueErrors
        return None


def pack_flush_plan(plan: Plan) -> bytes:
    """A plan as it is written: one line of JSON, and its checksum."""
    text = msgspec.json.encode(plan)
    return b"%s\n%s\n" % (text, blake2b(text, digest_size=DIGEST_BYTES).hexdigest().encode())


def check_flush_plan(path: Path) -> Plan:
    """The plan at `path`; those of before checksums have one line. Raises DamagedLakeError, FileNotFoundError."""
    text, _, checksum = path.read_bytes().partition(b"\n")
    if checksum and checksum.strip() != blake2b(text, digest_size=DIGEST_BYTES).hexdigest().encode():
        raise DamagedLakeError("the plan of a segment is damaged", where=str(path), remedy=delta.RESTORE)
    try:
        return msgspec.json.decode(text, type=Plan)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DamagedLakeError("the plan of a segment is damaged", where=str(path), remedy=delta.RESTORE) from error


def explain_newer_flush(table: str, where: Path) -> LakeError:
    """The error for rows of a table this fairlead does not know."""
    return LakeError(
        f"a newer fairlead left rows of the table {table!r} in the write-ahead log",
        where=str(where),
        remedy="upgrade this fairlead, or let the newer one finish: fairlead lake compact",
    )


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # not every C library has it
        return None


def release_flushed_memory() -> None:
    """Returns freed memory to the system: rows come and go by the hundred MiB, in small pieces that would stay."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)
