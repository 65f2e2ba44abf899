"""One consistent sight of a lake: which files and which waiting rows make up each table, without a lock.

A reader looks at the write-ahead segments first and at the Delta tables after: rows that were carried over in between
are in both, and the table says so (`delta.carried`), so none is lost and none is seen twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fairlead.lake import delta, hot, wal
from fairlead.lake.parts import Part, version_of
from fairlead.lake.place import Place
from fairlead.lake.tables import BATCHES, SPECS, with_days
from fairlead.model.tables import TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Group:
    """Files of one table with the same columns."""

    paths: list[str]
    columns: frozenset[str]


@dataclass
class View:
    """What one table is made of: files, and rows not yet in any (schema of the table and `day`)."""

    spec: TableSpec
    groups: list[Group] = field(default_factory=list)
    waiting: list[pa.Table] = field(default_factory=list)


@dataclass(frozen=True)
class _Log:
    """The write-ahead log of a shard as it was: whole frames by segment, and the number of the growing segment (None
    when there is no segment)."""

    frames: dict[int, list[wal.Frame]]
    growing: int | None


class Snapshots:
    """Takes snapshots of one lake; remembers open tables between them. Safe to share among threads."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._turn = threading.Lock()
        self._tables: dict[Path, DeltaTable] = {}
        self._parts: dict[Path, tuple[int, list[Part]]] = {}
        self._columns: dict[tuple[Path, str], frozenset[str]] = {}

    def take(self, names: Iterable[str]) -> dict[str, View]:
        """The tables `names` as of now. A batch is in all of them or in none. Raises LakeError."""
        specs = [SPECS[name] for name in names]
        with self._turn:
            while True:
                logs = {shard: _read_log(self._place.wal(shard)) for shard in self._place.shards()}
                views = self._look(specs, logs)
                # A shard without a log is being made right now, or is a copy of the tables alone: once it has a log,
                # it keeps one, so this looks twice at most.
                if not any(log.growing is None and wal.segments(self._place.wal(s)) for s, log in logs.items()):
                    return views

    def _look(self, specs: list[TableSpec], logs: dict[str, _Log]) -> dict[str, View]:
        views = {spec.name: View(spec) for spec in specs}
        for shard, log in logs.items():
            for view in views.values():
                folder = self._place.table(shard, view.spec.name)
                table = self._open(folder)
                if table is not None and log.growing is not None and delta.carried(table) >= log.growing:
                    # Carried over since the log was read: other tables may not know that segment yet.
                    table = delta.before(folder, table, log.growing)
                carried = delta.carried(table)
                parts = self._active(folder, table) if table is not None else []
                frames = [f for number, held in log.frames.items() if number > carried for f in held]
                loads = [hot.load_of_frame(frame, strict=False) for frame in frames]
                ahead = [part for load in loads for part in load.parts.get(view.spec.name, [])]
                self._fill(view, folder, parts + ahead, loads)
        return views

    def _fill(self, view: View, folder: Path, parts: list[Part], loads: list[hot.Load]) -> None:
        by_version: dict[str, list[str]] = {}
        for part in parts:
            version = version_of(part.path)
            # Files of unknown making may differ among themselves: each is its own group.
            by_version.setdefault(version or part.path, []).append(str(folder / part.path))
        for version, paths in sorted(by_version.items()):
            view.groups.append(Group(paths, self._columns_of(folder, version, paths[0])))
        if view.spec.name == BATCHES.name and loads:
            noted = hot.notes_table(loads)
            view.waiting.append(with_days(noted, hot.days_of(noted, BATCHES, None)))
        rows = hot.rows_of([piece for load in loads for piece in load.pieces.get(view.spec.name, [])], view.spec)
        if rows is not None:
            view.waiting.append(with_days(*rows))

    def _open(self, folder: Path) -> DeltaTable | None:
        table = self._tables.get(folder)
        if table is not None:
            delta.refresh(table)
            return table
        if not (folder / "_delta_log").is_dir():
            return None
        table = delta.open_delta(folder)
        if table is not None:
            self._tables[folder] = table
        return table

    def _active(self, folder: Path, table: DeltaTable) -> list[Part]:
        version = table.version()
        held = self._parts.get(folder)
        if held is None or held[0] != version:
            held = (version, delta.active(table))
            self._parts[folder] = held
        return held[1]

    def _columns_of(self, folder: Path, version: str, path: str) -> frozenset[str]:
        key = (folder, version)
        if key not in self._columns:
            from pyarrow import parquet

            self._columns[key] = frozenset(parquet.read_schema(path).names)
        return self._columns[key]


def _read_log(folder: Path) -> _Log:
    listed = wal.segments(folder)
    frames: dict[int, list[wal.Frame]] = {}
    for number, path in listed:
        try:
            frames[number] = wal.read_segment(path).frames
        except FileNotFoundError:  # carried over since it was listed: its rows are in the tables
            continue
    return _Log(frames, listed[-1][0] if listed else None)
