"""SQL over a snapshot: DuckDB reads the files a snapshot lists and the waiting rows, as views named like the tables.

Read-only and shut in: one instance a lake and process, with a memory limit and a spill folder, that may read the
lake's files and nothing else. Not here: what a snapshot is (`snapshot`).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from fairlead.core.errors import LakeError, UsageError
from fairlead.core.model.tables import JOBS, OP_GROUPS, OPS, TableSpec
from fairlead.store import op_groups as grouped
from fairlead.store import spill_folder as spilling
from fairlead.store.checksums import parse_file_day
from fairlead.store.delta_table import RESTORE
from fairlead.store.job_merging import select_merged_jobs
from fairlead.store.snapshot import Group, View
from fairlead.store.stored_tables import (
    DAY,
    IDENTITY,
    OPS_STORED,
    SPECS,
    TIERS,
    WITHDRAWABLE,
    flatten_stored_table_type,
)

DEFAULT_MEMORY = "2GB"
Parameters = Sequence[object] | Mapping[str, object] | None

Sight = tuple[object, ...]
"""What tells views of one moment from those of another: their files."""
_READY = 12

_WORD = re.compile(r"\w+")
_engines: dict[tuple[int, Path], Engine] = {}
_engines_turn = threading.Lock()


class Engine:
    """One DuckDB instance that can read below `root` only, and write only its own spill folder."""

    def __init__(self, root: Path, memory: str) -> None:
        """`memory` as DuckDB writes it (`2GB`). Raises UsageError when it cannot be read."""
        import duckdb

        self._root = root
        self._turn = threading.Lock()
        self._ready: OrderedDict[Sight, list[Any]] = OrderedDict()
        self._spill = spilling.make_spill_folder()
        try:
            self._instance = duckdb.connect(":memory:", config={"memory_limit": memory})
        except duckdb.Error as error:
            raise UsageError(f"not a memory limit: {memory!r}", remedy="write it as 2GB or 512MB") from error
        settings = {
            "temp_directory": _text(str(self._spill)),
            "allowed_directories": f"[{_text(f'{root}/')}, {_text(f'{self._spill}/')}]",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "preserve_insertion_order": "false",
            "parquet_metadata_cache": "true",
            "enable_progress_bar": "false",
            "enable_external_access": "false",
            "lock_configuration": "true",
        }
        for name, value in settings.items():
            self._instance.execute(f"SET {name} = {value}")

    def is_about_file(self, message: str) -> bool:
        """Whether an error is about a file of the lake, not about the query."""
        return f"File '{self._root}/" in message

    def open_cursor(self) -> Any:
        """A connection of its own: its temporary views are seen by nobody else."""
        return self._instance.cursor()

    def take_connection(self, sight: Sight) -> Any | None:
        """A connection that knows the tables of `sight` from a query before, for the caller alone."""
        with self._turn:
            held = self._ready.get(sight)
            if not held:
                return None
            cursor = held.pop()
            if not held:
                del self._ready[sight]
            return cursor

    def keep(self, sight: Sight, cursor: Any) -> None:
        """Keeps a connection for a later query of the same sight: to make views is a large part of a small query."""
        gone = []
        with self._turn:
            self._ready.setdefault(sight, []).append(cursor)
            self._ready.move_to_end(sight)
            while len(self._ready) > _READY:
                gone += self._ready.popitem(last=False)[1]
        for one in gone:
            one.close()


def open_query_engine(root: Path, memory: str = DEFAULT_MEMORY) -> Engine:
    """The engine of this process for the lake in `root`; `memory` counts when it is the first call."""
    with _engines_turn:
        key = (os.getpid(), root)
        if key not in _engines:
            _engines[key] = Engine(root, memory)
        return _engines[key]


def find_query_tables(sql: str) -> list[str]:
    """Tables a query may read: those whose name occurs in it as a word."""
    words = {word.lower() for word in _WORD.findall(sql)}
    if OPS_STORED in words:
        words.add(OPS.name)
    if OPS.name in words:
        words.add(OP_GROUPS.name)  # some of its rows may lie there
    return [name for name in SPECS if name in words]


def run_query(
    engine: Engine,
    views: Iterable[View],
    sql: str,
    parameters: Parameters = None,
    *,
    timeout_s: float | None = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> pa.Table:
    """The result of one reading statement over `views`, and over `tables` that are known to it alone. Raises UsageError
    for SQL that is wrong or would write, LakeError when memory, a file or (`timeout_s`) time is wanting."""
    import duckdb

    views = list(views)
    sight = _sight(views)
    cursor = engine.take_connection(sight) if sight is not None else None
    defined, good = cursor is not None, False
    cursor = cursor or engine.open_cursor()
    late = threading.Event()

    def end() -> None:
        late.set()
        cursor.interrupt()

    watch = None if timeout_s is None else threading.Timer(timeout_s, end)
    try:
        _refuse_writing(cursor, sql)
        if not defined:
            _define_all(cursor, views)
        for name, table in (tables or {}).items():
            cursor.register(name, table)
        if watch is not None:
            watch.start()
        relation = cursor.sql(sql, params=parameters) if parameters else cursor.sql(sql)
        found = relation.to_arrow_table()
        del relation
        for name in tables or {}:
            cursor.unregister(name)
        good = True
    except duckdb.Error as error:
        if late.is_set():
            raise LakeError(
                f"the query took longer than {timeout_s:g} s", remedy="ask for fewer days or columns"
            ) from error
        raise _told(engine, error) from error
    else:
        return found
    finally:
        if watch is not None:
            watch.cancel()
        if good and sight is not None and not late.is_set():
            engine.keep(sight, cursor)
        else:
            cursor.close()


def find_query_days(
    engine: Engine,
    views: Iterable[View],
    sql: str,
    parameters: Parameters = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> frozenset[str] | None:
    """The days whose files one reading statement opens, as the engine plans it (`2026-11-21`; "" for none); None: of
    all days, or it cannot be told. May name more days than are opened, never fewer."""
    import duckdb

    views = list(views)
    days = sorted({parse_file_day(path) for view in views for group in view.groups for path in group.paths})
    cursor = engine.open_cursor()
    try:
        _refuse_writing(cursor, sql)
        _define_all(cursor, views)
        for name, table in (tables or {}).items():
            cursor.register(name, table)
        explain = f"EXPLAIN (FORMAT json) {sql}"
        found = (cursor.execute(explain, parameters) if parameters else cursor.execute(explain)).fetchall()
        filters = set(_list_file_filters(json.loads(found[0][1])))
        if not filters or None in filters:
            return None
        wanted = " OR ".join(f"({one})" for one in filters)
        kept = cursor.execute(
            f"SELECT day::VARCHAR FROM (SELECT unnest(?::DATE[]) AS {DAY}) WHERE {wanted}",  # noqa: S608 (the engine's)
            [[day for day in days if day]],
        ).fetchall()
    except (duckdb.Error, ValueError, KeyError, IndexError, TypeError, UsageError):
        return None  # what is wrong the query itself says
    finally:
        cursor.close()
    return frozenset({"", *(str(day) for (day,) in kept)})


def _list_file_filters(plan: Any) -> Iterator[str | None]:
    """What each scan of files in a plan wants of their day; None for one that wants all."""
    for node in plan if isinstance(plan, list) else [plan]:
        if "PARQUET" in node["name"]:
            yield node.get("extra_info", {}).get("File Filters")
        yield from _list_file_filters(node.get("children", []))


def _told(engine: Engine, error: Exception) -> Exception:
    """What DuckDB said, as an error of ours."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return LakeError(
            f"the query needs more memory than it may use: {_first_line(error)}",
            remedy="ask for fewer days or columns, or raise the limit (FAIRLEAD_LAKE_MEMORY=4GB)",
        )
    if isinstance(error, duckdb.IOException) or engine.is_about_file(str(error)):
        return LakeError(f"a file of the lake cannot be read: {_first_line(error)}", remedy=RESTORE)
    what = f"the query cannot be run: {_first_line(error)}"
    return UsageError(what, remedy="fairlead lake info --columns names tables and columns")


def _sight(views: Sequence[View]) -> Sight | None:
    """What the views are made of; None when rows wait in memory: those change all the time."""
    if any(view.waiting for view in views):
        return None
    return tuple(
        (view.spec.name, view.spec.version, tuple((tuple(g.paths), g.columns, g.tier) for g in view.groups))
        for view in views
    )


def _refuse_writing(cursor: Any, sql: str) -> None:
    import duckdb

    reading = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
    statements = cursor.extract_statements(sql)
    if len(statements) != 1 or statements[0].type not in reading:
        raise UsageError("a query is one SELECT: the lake is only read", remedy="write one SELECT")


def _define_all(cursor: Any, views: Iterable[View]) -> None:
    """Makes tables known to `cursor`. `ops` has the rows that lie in groups too; `ops_stored` has the others."""
    known = {view.spec.name: view for view in views}
    for name, view in known.items():
        if name != OPS.name:
            define_query_view(cursor, view, name)
    if OPS.name not in known:
        return
    define_query_view(cursor, known[OPS.name], OPS_STORED)
    groups = known.get(OP_GROUPS.name)
    rows = f"SELECT * FROM {OPS_STORED}"  # noqa: S608 (our own names)
    if groups is not None and (groups.groups or groups.waiting):
        rows += f" UNION ALL {grouped.select_op_groups()}"
    cursor.execute(f"CREATE TEMP VIEW {OPS.name} AS {rows}")


def define_query_view(cursor: Any, view: View, called: str) -> None:
    """Makes the table of `view` known to `cursor` as `called`."""
    sources = [_files(view.spec, group) for group in view.groups]
    for number, table in enumerate(view.waiting):
        name = f"waiting_{view.spec.name}_{number}"
        cursor.register(name, table)
        columns = ", ".join(
            f"{quote_query_name(f.name)}::{find_query_type(f.type)} AS {quote_query_name(f.name)}"
            for f in view.spec.schema
        )
        sources.append(f"SELECT {columns}, {DAY} FROM {name}")  # noqa: S608 (our own names)
    if not sources:
        nothing = ", ".join(f"NULL::{find_query_type(f.type)} AS {quote_query_name(f.name)}" for f in view.spec.schema)
        sources.append(f"SELECT {nothing}, NULL::DATE AS {DAY} WHERE false")
    rows = " UNION ALL ".join(sources)
    if view.spec is JOBS:
        shown = select_merged_jobs(rows, lambda select: _select_once(JOBS, select), [*JOBS.schema.names, DAY])
    else:
        shown = _select_once(view.spec, rows)
        if view.spec.name in WITHDRAWABLE:
            shown = f"SELECT * FROM ({shown}) WHERE withdrawn IS NOT TRUE"  # noqa: S608 (our own names)
    cursor.execute(f"CREATE TEMP VIEW {quote_query_name(called)} AS {shown}")


def _select_once(spec: TableSpec, select: str) -> str:
    """`select`, and of rows about the same thing only the one that counts."""
    if spec.name not in IDENTITY:
        return select
    same, best = IDENTITY[spec.name]
    keys = ", ".join(quote_query_name(name) for name in same)
    return f"SELECT * FROM ({select}) QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {best}) = 1"  # noqa: S608 (our own names)


def _files(spec: TableSpec, group: Group) -> str:
    fixed = {}
    if group.tier:
        # Said as a constant: a question about another interval does not open these files.
        fixed = {TIERS[spec.name]: f"{group.tier[1:]}000000000::BIGINT"}
    chosen = []
    for column in spec.schema:
        name = quote_query_name(column.name)
        known = name if column.name in group.columns else f"NULL::{find_query_type(column.type)}"
        chosen.append(f"{fixed.get(column.name) or known} AS {name}")
    return f"SELECT {', '.join(chosen)}, {DAY} FROM {build_query_scan(group.paths)}"  # noqa: S608 (our own names)


def build_query_scan(paths: Sequence[str]) -> str:
    """The table function over files of equal columns, `day` from their folders."""
    listed = ", ".join(_text(path) for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = true, hive_types = {{'{DAY}': DATE}})"


def quote_query_name(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def find_query_type(kind: pa.DataType) -> str:
    """DuckDB's name of an Arrow type a record table uses."""
    kind = flatten_stored_table_type(kind)
    if pa.types.is_list(kind):
        return f"{find_query_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({find_query_type(kind.key_type)}, {find_query_type(kind.item_type)})"
    named = {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}
    return {**named, pa.bool_(): "BOOLEAN"}[kind]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
