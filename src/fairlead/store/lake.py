"""The door to a lake: open it, write to a shard of it, ask it. Paths and rows in, Arrow tables out.

Not here: reading traces (`ingest`), looking after files (`compaction`, `retention`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from fairlead.core.errors import LakeError, UsageError
from fairlead.store import query
from fairlead.store.checksums import open_checked_files, parse_file_day
from fairlead.store.days_and_tiers import format_day
from fairlead.store.flush import Derive, Regroup
from fairlead.store.lake_folder import Place, create_lake_folder, open_lake_folder
from fairlead.store.snapshot import Snapshots, View, WantedRows
from fairlead.store.stored_tables import DAY_NS, SPECS, conform_stored_table
from fairlead.store.writer import REMEMBER_NS, Writer

DEFAULT_SHARD = "main"
_NO_COMMON_SIGHT = 3
_TIES = {"ops": ("end_ns", "file_id", "offset")}


class Lake:
    """One lake, for reading by any number of threads and processes, and for writing by one process a shard."""

    def __init__(self, place: Place, *, memory: str | None = None, timeout_s: float | None = None) -> None:
        """`memory` bounds what queries of this process use (`2GB`); default `$FAIRLEAD_LAKE_MEMORY`, else 2 GB. A query
        that says no time of its own is ended after `timeout_s`."""
        self.place = place
        self._memory = memory or os.environ.get("FAIRLEAD_LAKE_MEMORY") or query.DEFAULT_MEMORY
        self._timeout_s = timeout_s
        self._snapshots = Snapshots(place)
        self._checked = open_checked_files(place.root)

    @classmethod
    def open(
        cls, root: Path, *, create: bool = False, memory: str | None = None, timeout_s: float | None = None
    ) -> Lake:
        """The lake in `root`. Raises LakeError when there is none (unless `create`) or it is of a newer format."""
        return cls(create_lake_folder(root) if create else open_lake_folder(root), memory=memory, timeout_s=timeout_s)

    def open_writer(
        self,
        shard: str = DEFAULT_SHARD,
        *,
        wait_s: float = 0.0,
        derive: Derive | None = None,
        regroup: Regroup | None = None,
        remember_ns: int = REMEMBER_NS,
        carry_later: bool = False,
    ) -> Writer:
        """The writer of a shard (see `Writer`). Raises LakeBusyError when another process (or this one) has it."""
        return Writer(
            self.place,
            shard,
            wait_s=wait_s,
            derive=derive,
            regroup=regroup,
            remember_ns=remember_ns,
            carry_later=carry_later,
        )

    @property
    def engine(self) -> query.Engine:
        """The query engine this lake shares with everyone in the process."""
        return query.open_query_engine(self.place.root, self._memory)

    def _check_files(
        self,
        views: Iterable[View],
        sql: str,
        parameters: query.Parameters,
        tables: Mapping[str, pa.Table] | None,
    ) -> None:
        """Checks the files a query reads, if it is their first time in this process. Raises DamagedLakeError."""
        views = list(views)
        new = self._checked.list_unchecked(path for view in views for group in view.groups for path in group.paths)
        if new:
            days = query.find_query_days(self.engine, views, sql, parameters, tables)
            self._checked.check(path for path in new if days is None or parse_file_day(path) in days)

    def query(
        self,
        sql: str,
        parameters: query.Parameters = None,
        *,
        between: tuple[int, int] | None = None,
        began: tuple[int, int] | None = None,
        numbers: Collection[str] | None = None,
        waiting: bool = True,
        tables: Mapping[str, pa.Table] | None = None,
        timeout_s: float | None = None,
    ) -> pa.Table:
        """Runs one SELECT over the record tables (`ops`, `jobs`, ...; each has `day`, a date, besides its columns).

        All tables are seen as of one moment. `parameters` fill `?` (a sequence) or `$name` (a mapping). `between`
        (from, to; ns) promises that the query wants of every series it names (`tables.SERIES`) only rows dated in
        that time: files that hold none are not opened; the query still has to say so itself. `began` and `numbers`
        promise the like of tables of jobs (`tables.OF_JOBS`): only rows dated in that time, only of these job numbers.
        `waiting` False: rows of the log that are not in the tables yet are left out: nothing is derived of them.
        `tables`: more tables, known to this query alone. A query that takes longer than `timeout_s` is ended. Raises
        UsageError for wrong SQL, LakeError.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        wanted = WantedRows(between, began, numbers, waiting)
        for attempt in range(_NO_COMMON_SIGHT):
            views = self._snapshots.take_snapshot(query.find_query_tables(sql), wanted)
            try:
                self._check_files(views.values(), sql, parameters, tables)
                return query.run_query(self.engine, views.values(), sql, parameters, timeout_s=timeout_s, tables=tables)
            except LakeError:
                # A file may have been vacuumed between the look and the read when vacuum was told not to wait.
                if attempt + 1 == _NO_COMMON_SIGHT or not _lost_files(views.values()):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def read(
        self,
        table: str,
        *,
        job_id: str | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of one table as `model.tables` has them (dictionaries restored), in the table's sort order.

        Of one job; with times in [from_ns, to_ns), which leaves out rows without a time. Raises UsageError for an
        unknown table or column.
        """
        if table not in SPECS:
            raise UsageError(f"there is no table {table!r}", remedy=f"one of {', '.join(SPECS)}")
        spec = SPECS[table]
        wanted = list(columns) if columns is not None else spec.schema.names
        unknown = set(wanted) - set(spec.schema.names)
        if unknown:
            raise UsageError(f"{table} has no column {sorted(unknown)[0]!r}", remedy="fairlead lake info --columns")
        where, parameters = _conditions(table, job_id, from_ns, to_ns)
        chosen = ", ".join(query.quote_query_name(name) for name in wanted)
        # Operations that begin together keep a fixed order too.
        order = ", ".join(
            f"{query.quote_query_name(name)} NULLS LAST" for name in (*spec.sort_by, *_TIES.get(table, ()))
        )
        sql = f"SELECT {chosen} FROM {query.quote_query_name(table)}{where}{f' ORDER BY {order}' if order else ''}"  # noqa: S608
        between = (-(1 << 63) if from_ns is None else from_ns, (1 << 63) - 1 if to_ns is None else to_ns)
        found = self.query(sql, parameters, between=None if from_ns is None and to_ns is None else between)
        if columns is not None:
            schema = pa.schema([spec.schema.field(name) for name in wanted], metadata=spec.schema.metadata)
            return pa.Table.from_arrays([_as(found.column(f.name), f.type) for f in schema], schema=schema)
        return conform_stored_table(found, spec, strict=True)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)


def _conditions(
    table: str, job_id: str | None, from_ns: int | None, to_ns: int | None
) -> tuple[str, dict[str, object]]:
    spec = SPECS[table]
    conditions: list[str] = []
    parameters: dict[str, object] = {}
    if job_id is not None:
        if "job_id" not in spec.schema.names:
            raise UsageError(f"{table} knows no jobs")
        conditions.append("job_id = $job_id")
        parameters["job_id"] = job_id
    for name, value, sign in (("from_ns", from_ns, ">="), ("to_ns", to_ns, "<")):
        if value is None:
            continue
        if spec.time_column is None:
            raise UsageError(f"{table} knows no times")
        # The second condition says the same of the folder's day, so that other days' files are not even opened.
        conditions.append(f"{spec.time_column} {sign} ${name}")
        conditions.append(f"day {sign[0]}= DATE '{format_day(value // DAY_NS)}'")
        parameters[name] = value
    return (" WHERE " + " AND ".join(conditions) if conditions else ""), parameters


def _lost_files(views: object) -> bool:
    return any(not Path(p).exists() for view in views for group in view.groups for p in group.paths)  # type: ignore[attr-defined]
