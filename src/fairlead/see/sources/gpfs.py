"""Kept output of `mmperfmon query` (IBM Storage Scale): file systems as clients see them, NSD disks, network ports.

Not here: the text's grammar (`probes.gpfs`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.errors import CorruptInputError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import PFS_CLIENT, PORT, TARGET, TableSpec, build_table_batch, build_table_word_column
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.probes.gpfs import Parser, Value
from fairlead.see.sources.base import Item
from fairlead.see.sources.line_blocks import read_line_blocks
from fairlead.see.sources.local_time import check_local_time_zone, convert_local_to_utc_ns

_TABLES: dict[str, tuple[TableSpec, dict[str, str]]] = {
    "GPFSFilesystem": (
        PFS_CLIENT,
        {
            "gpfs_fs_bytes_read": "read_bytes",
            "gpfs_fs_bytes_written": "write_bytes",
            "gpfs_fs_read_ops": "read_ops",
            "gpfs_fs_write_ops": "write_ops",
        },
    ),
    "GPFSNSDDisk": (
        TARGET,
        {
            "gpfs_nsdds_bytes_read": "read_bytes",
            "gpfs_nsdds_bytes_written": "write_bytes",
            "gpfs_nsdds_read_ops": "read_rpcs",
            "gpfs_nsdds_write_ops": "write_rpcs",
        },
    ),
    "Network": (
        PORT,
        {"net_r": "rx_bytes", "net_s": "tx_bytes", "netdev_bytes_r": "rx_bytes", "netdev_bytes_s": "tx_bytes"},
    ),
}
"""By sensor: the table, and its column for each metric."""
_KEYS = {"pfs_client": ("node", "fs"), "target": ("server", "target"), "port": ("switch", "port")}


@dataclass(frozen=True, kw_only=True)
class GpfsSource:
    """Reads mmperfmon's text. `time_zone`: of its times; None assumes UTC and says so. Raises UsageError."""

    name = "gpfs"
    time_zone: str | None = None

    def __post_init__(self) -> None:
        if self.time_zone is not None:
            check_local_time_zone(self.time_zone)

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether the content begins with mmperfmon's legend."""
        legend, _, rest = head.lstrip().partition(b"\n")
        return legend.startswith(b"Legend:") and b"|" in rest.partition(b"\n")[0]

    def read(self, path: Path) -> Iterator[Item]:
        """`pfs_client`, `target` and `port` rows of each bucket. Raises InputError, CorruptInputError."""
        where = str(path)
        parser = Parser()
        rows = _Rows()
        for block in read_line_blocks(path):
            for value in parser.parse_values((block.data + block.cut).decode("utf-8", "replace").split("\n")):
                rows.take(value)
        if not rows.values:
            raise CorruptInputError("it holds no values", where=where, remedy="write it again with mmperfmon query")
        yield from rows.batches(self.time_zone or "UTC")
        yield from _gaps(parser, rows, self.time_zone, where)


class _Rows:
    """Values gathered into rows: by table, key and time, a value for each column."""

    def __init__(self) -> None:
        self.values = 0
        self.other: dict[str, int] = defaultdict(int)
        """Values that no table holds, by sensor."""
        self._tables: dict[str, dict[tuple[str, str, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))

    def take(self, value: Value) -> None:
        self.values += 1
        spec, columns = _TABLES.get(value.sensor, (None, {}))
        column = columns.get(value.metric)
        if spec is None or column is None or not value.names:
            self.other[value.sensor] += 1
        elif value.value is not None:
            self._tables[spec.name][(value.host, value.names[-1], value.local_s)][column] = value.value

    def batches(self, zone: str) -> Iterator[pa.RecordBatch]:
        """One batch a table; a column that was never there is null."""
        for spec, _ in _TABLES.values():
            rows = self._tables.get(spec.name)
            if rows:
                yield _batch(spec, rows, zone)


def _batch(spec: TableSpec, rows: dict[tuple[str, str, int], dict[str, float]], zone: str) -> pa.RecordBatch:
    hosts, names, local = zip(*rows, strict=True)
    local_s = np.array(local, np.int64)
    steps = np.diff(np.unique(local_s))
    columns: dict[str, object] = {"ts_ns": convert_local_to_utc_ns(local_s, zone)}
    if len(steps):
        columns["interval_ns"] = np.full(len(local_s), int(np.median(steps)) * NS_PER_S)
    host, name = _KEYS[spec.name]
    columns |= {host: list(hosts), name: list(names)}
    for column in sorted({column for row in rows.values() for column in row}):
        found = [row.get(column) for row in rows.values()]
        columns[column] = pa.array([None if value is None else round(value) for value in found], pa.int64())
    if "source" in spec.schema.names:
        columns["source"] = build_table_word_column("gpfs", len(local_s))
    return build_table_batch(spec, columns)


def _gaps(parser: Parser, rows: _Rows, zone: str | None, where: str) -> Iterator[Missing]:
    if parser.unknown:
        yield Missing(
            kind="unreadable_lines",
            what=f"{parser.unknown} lines",
            why=f"not understood; the first is {parser.unknown_example!r}",
            where=where,
        )
    for sensor, count in sorted(rows.other.items()):
        yield Missing(
            kind="not_kept",
            what=f"{count} values of the sensor {sensor}",
            why="no record table holds them",
            where=where,
        )
    if zone is None:
        yield Missing(
            kind="time_zone_assumed",
            what="the time zone of the times",
            why="mmperfmon prints local times without an offset; they are read as UTC",
            remedy="give the time zone of that node: fairlead ingest --time-zone ZONE, time_zone of a feed",
            where=where,
        )
