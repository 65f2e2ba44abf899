"""LMT: the database of the Lustre Monitoring Tool kept as SQLite; counters of OSTs and MDTs become interval deltas.

Not here: a live LMT (its MySQL). Its times are local ones without an offset.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.errors import CorruptInputError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import METADATA, TARGET, build_table_batch, build_table_word_column
from fairlead.see.sources.base import Item
from fairlead.see.sources.beacon.series import Series
from fairlead.see.sources.local_time import check_local_time_zone, convert_local_to_utc_ns
from fairlead.see.sources.sqlite_file import has_sqlite_tables, open_sqlite_database

Ints = NDArray[np.int64]
_AT_ONCE = 1 << 17
"""Samples read from the database at once: a day of a large system has tens of millions."""
_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class LmtSource:
    """Reads an LMT database. `time_zone`: of its times; None assumes UTC and says so. Raises UsageError for an unknown
    zone."""

    name = "lmt"
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if self.time_zone is not None:
            check_local_time_zone(self.time_zone)

    def accepts(self, head: bytes, path: Path) -> bool:
        """Whether the content is a SQLite database with LMT's tables."""
        return has_sqlite_tables(head, path, "TIMESTAMP_INFO", "OST_DATA", "MDS_OPS_DATA")

    def read(self, path: Path) -> Iterator[Item]:
        """`target` rows of OSTs (bytes) and MDTs (space), `metadata` rows by operation, dated by the end of their
        interval. Raises CorruptInputError."""
        where = str(path)
        with open_sqlite_database(path) as database:
            times = _times(database, self.time_zone, where)
            resets = yield from _osts(database, times)
            yield from _mdts(database, times)
            resets += yield from _operations(database, times)
        if resets:
            yield Missing(
                kind="counter_resets",
                what=f"{resets} intervals",
                why="a counter was reset in them: its server restarted",
                where=where,
            )
        if self.time_zone is None:
            yield Missing(
                kind="time_zone_assumed",
                what="the time zone of the times",
                why="LMT keeps local times without an offset; they are read as UTC",
                remedy="give the time zone of the LMT server: fairlead ingest --time-zone ZONE, time_zone of a feed",
                where=where,
            )
        yield Missing(
            kind="not_kept", what="processor and memory load of servers", why="no record table holds them", where=where
        )


@dataclass(frozen=True)
class _Times:
    """Instants by `TS_ID`, sorted by it."""

    ids: Ints
    ns: Ints

    def of(self, ids: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Epoch ns of each id, and whether it is known."""
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return self.ns[at], self.ids[at] == ids


def _times(database: sqlite3.Connection, zone: str | None, where: str) -> _Times:
    rows = database.execute("SELECT TS_ID, TIMESTAMP FROM TIMESTAMP_INFO ORDER BY TS_ID").fetchall()
    texts = pa.array([str(row[1]) for row in rows], pa.string())
    seconds = pc.strptime(texts, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True).cast(pa.int64())
    if not rows or seconds.null_count:
        raise CorruptInputError(
            "it has no times, or invalid ones", where=where, remedy="copy it again from the LMT server"
        )
    return _Times(np.array([int(row[0]) for row in rows]), convert_local_to_utc_ns(np.asarray(seconds), zone or "UTC"))


def _names(database: sqlite3.Connection, query: str) -> dict[int, tuple[str, ...]]:
    return {int(row[0]): tuple(str(text) for text in row[1:]) for row in database.execute(query)}


def _whole_numbers(database: sqlite3.Connection, query: str, times: _Times) -> Iterator[tuple[Ints, Ints]]:
    """Rows of integers (-1: none) of which the second column is a known `TS_ID`, and their epoch ns; some at a time."""
    cursor = database.execute(query)
    while rows := cursor.fetchmany(_AT_ONCE):
        whole = np.array([[value if isinstance(value, int) else -1 for value in row] for row in rows], np.int64)
        ns, known = times.of(whole[:, 1])
        yield whole[known], ns[known]


def _osts(database: sqlite3.Connection, times: _Times) -> Generator[Item, None, int]:
    """Bytes as deltas, space as it stood at the interval's end. Returns how many intervals held a reset."""
    names = _names(database, "SELECT OST_ID, OST_NAME, HOSTNAME FROM OST_INFO")
    series = Series(2)
    resets = 0
    query = (
        "SELECT OST_ID, TS_ID, READ_BYTES, WRITE_BYTES, KBYTES_FREE, KBYTES_USED, INODES_FREE, INODES_USED"
        " FROM OST_DATA ORDER BY TS_ID"
    )
    for found, stamps in _whole_numbers(database, query, times):
        counted = (found[:, 2:4] >= 0).all(axis=1)
        whole, ns = found[counted], stamps[counted]
        deltas = series.compute_deltas(whole[:, 0], ns, whole[:, 2:4])
        resets += deltas.resets
        at = deltas.rows
        labels = [names.get(int(ost), (f"OST_ID {ost}", "")) for ost in whole[at, 0]]
        yield build_table_batch(
            TARGET,
            {
                "ts_ns": ns[at],
                "interval_ns": deltas.interval_ns,
                "server": [server or None for _, server in labels],
                "target": [name for name, _ in labels],
                "read_bytes": deltas.values[:, 0],
                "write_bytes": deltas.values[:, 1],
                **_space(whole[at, 4:8]),
                "source": build_table_word_column("lmt", len(at)),
            },
        )
    return resets


def _space(columns: Ints) -> dict[str, object]:
    """KiB free and used, inodes free and used → capacity and use; a negative number is unknown."""
    free, used, inodes_free, inodes_used = columns.T
    return {
        "capacity_bytes": pa.array((free + used) * _KIB, mask=(free < 0) | (used < 0)),
        "used_bytes": pa.array(used * _KIB, mask=used < 0),
        "inodes": pa.array(inodes_free + inodes_used, mask=(inodes_free < 0) | (inodes_used < 0)),
        "inodes_used": pa.array(inodes_used, mask=inodes_used < 0),
    }


def _mdts(database: sqlite3.Connection, times: _Times) -> Iterator[Item]:
    names = _names(database, "SELECT MDS_ID, MDS_NAME, HOSTNAME FROM MDS_INFO")
    query = "SELECT MDS_ID, TS_ID, KBYTES_FREE, KBYTES_USED, INODES_FREE, INODES_USED FROM MDS_DATA ORDER BY TS_ID"
    for whole, ns in _whole_numbers(database, query, times):
        labels = [names.get(int(mds), (f"MDS_ID {mds}", "")) for mds in whole[:, 0]]
        yield build_table_batch(
            TARGET,
            {
                "ts_ns": ns,
                "server": [server or None for _, server in labels],
                "target": [name for name, _ in labels],
                **_space(whole[:, 2:6]),
                "source": build_table_word_column("lmt", len(ns)),
            },
        )


def _operations(database: sqlite3.Connection, times: _Times) -> Generator[Item, None, int]:
    """Operations counted since the last sample; intervals without one have no row, as in every `metadata` source.
    Returns how many intervals held a reset."""
    servers = _names(database, "SELECT MDS_ID, MDS_NAME, HOSTNAME FROM MDS_INFO")
    operations = _names(database, "SELECT OPERATION_ID, OPERATION_NAME FROM OPERATION_INFO")
    series = Series(1)
    resets = 0
    query = "SELECT MDS_ID, TS_ID, OPERATION_ID, SAMPLES FROM MDS_OPS_DATA ORDER BY TS_ID"
    for found, stamps in _whole_numbers(database, query, times):
        counted = found[:, 3] >= 0
        whole, ns = found[counted], stamps[counted]
        deltas = series.compute_deltas((whole[:, 0] << 32) | whole[:, 2], ns, whole[:, 3:4])
        resets += deltas.resets
        happened = deltas.values[:, 0] > 0
        at = deltas.rows[happened]
        labels = [servers.get(int(mds), (f"MDS_ID {mds}", "")) for mds in whole[at, 0]]
        yield build_table_batch(
            METADATA,
            {
                "ts_ns": ns[at],
                "interval_ns": deltas.interval_ns[happened],
                "server": [server or None for _, server in labels],
                "target": [name for name, _ in labels],
                "op": [operations.get(int(op), (f"operation {op}",))[0] for op in whole[at, 2]],
                "count": deltas.values[happened, 0],
                "source": build_table_word_column("lmt", len(at)),
            },
        )
    return resets
