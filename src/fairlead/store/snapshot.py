"""One consistent sight of a lake: which files and which waiting rows make up each table, without a lock.

A reader looks at the write-ahead segments first and at the Delta tables after: rows that were carried over in between
are in both, and the table says so (`delta_table.find_delta_segment`), so none is lost and none is seen twice.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fairlead.core.model.tables import OP_GROUPS, OPS, TableSpec
from fairlead.store import delta_table as delta
from fairlead.store import wal
from fairlead.store.checksums import open_checked_files
from fairlead.store.job_files import JobFiles
from fairlead.store.lake_folder import Place
from fairlead.store.part_files import Part, parse_part_tier, parse_part_version
from fairlead.store.stored_tables import DAY_NS, OF_JOBS, REACH_NS, SERIES, SPECS
from fairlead.store.wal_follower import Span, Tail

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Group:
    """Files of one table with the same columns, and of one tier ("" when the table has none)."""

    paths: list[str]
    columns: frozenset[str]
    tier: str = ""


@dataclass
class View:
    """What one table is made of: files, and rows not yet in any (schema of the table and `day`)."""

    spec: TableSpec
    groups: list[Group] = field(default_factory=list)
    waiting: list[pa.Table] = field(default_factory=list)


@dataclass(frozen=True)
class WantedRows:
    """What a query promises to want no rows beside. `between`: of a series (`tables.SERIES`), dated in [from, to).
    `began`, `numbers`: of a table of jobs (`tables.OF_JOBS`), dated in [from, to), and of these job numbers. `waiting`:
    False where rows that are not in the tables yet, and of which nothing is derived yet, do not count."""

    between: Span | None = None
    began: Span | None = None
    numbers: Collection[str] | None = None
    waiting: bool = True


_File = tuple[Part, str, tuple[str, str]]
"""A file, its path, and what files of equal columns and tier have in common."""


@dataclass(frozen=True)
class _TableVersion:
    """One version of a table: the last segment it has rows of, and its files."""

    version: int
    carried: int
    files: list[_File]


class Snapshots:
    """Takes snapshots of one lake; remembers open tables, their files and the log between them. Safe to share among
    threads."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._turn = threading.Lock()
        self._tables: dict[Path, DeltaTable] = {}
        self._listed: dict[Path, _TableVersion] = {}
        self._columns: dict[tuple[Path, str], frozenset[str]] = {}
        self._tails: dict[str, Tail] = {}
        self._checked = open_checked_files(place.root)
        self._job_files = JobFiles(self._checked)

    def take_snapshot(self, names: Iterable[str], wanted: WantedRows | None = None) -> dict[str, View]:
        """The tables `names` as of now; their files are not checked. A batch is in all of them or in none. Files and
        batches that hold nothing of what is wanted are left out. Raises LakeError."""
        specs, wanted = [SPECS[name] for name in names], wanted or WantedRows()
        with self._turn:
            while True:
                shards = self._place.list_shards()
                growing = {shard: self._tail(shard).look() for shard in shards}
                views = self._look(specs, growing, wanted)
                # A shard without a log is being made right now, or is a copy of the tables alone: once it has a log,
                # it keeps one, so this looks twice at most.
                if not any(
                    last is None and wal.list_wal_segments(self._place.build_wal_path(s)) for s, last in growing.items()
                ):
                    return views

    def _look(self, specs: list[TableSpec], growing: dict[str, int | None], wanted: WantedRows) -> dict[str, View]:
        # Rows of `ops` that were put into groups have left `ops` with the same segment, whose groups are committed
        # first: looked at last, they are never behind, and what is ahead is not looked at.
        views = {spec.name: View(spec) for spec in sorted(specs, key=lambda spec: spec is OP_GROUPS)}
        for shard, last in growing.items():
            carried: dict[str, int] = {}
            for name, view in views.items():
                folder = self._place.build_table_path(shard, name)
                table = self._open(folder)
                bounds = [last, carried[OPS.name] + 1 if name == OP_GROUPS.name and OPS.name in carried else None]
                bound = min((b for b in bounds if b is not None), default=None)
                listed = self._list(folder, table, view.spec, bound)
                carried[name] = listed.carried
                span = wanted.between if name in SERIES else None
                tail = self._tail(shard)
                ahead = tail.list_parts(name, listed.carried)
                files = listed.files + [_file(folder, part) for part in ahead] if ahead else listed.files
                if span is not None:
                    files = [file for file in files if _overlaps(file[0], span, REACH_NS.get(name, 0))]
                if name in OF_JOBS:
                    files = self._of_jobs(files, wanted)
                self._fill(view, folder, files)
                reach = None if span is None else (span[0] - REACH_NS.get(name, 0), span[1])
                if wanted.waiting:
                    view.waiting += tail.read_rows(name, listed.carried, reach)
        return views

    def _of_jobs(self, files: list[_File], wanted: WantedRows) -> list[_File]:
        if wanted.began is not None:
            files = [file for file in files if _overlaps(file[0], wanted.began, DAY_NS, DAY_NS)]
        if wanted.numbers is not None:
            holding = self._job_files.select_holding((path for _, path, _ in files), wanted.numbers)
            files = [file for file in files if file[1] in holding]
        return files

    def _tail(self, shard: str) -> Tail:
        if shard not in self._tails:
            self._tails[shard] = Tail(self._place.build_wal_path(shard))
        return self._tails[shard]

    def _fill(self, view: View, folder: Path, files: list[_File]) -> None:
        alike: dict[tuple[str, str], list[str]] = {}
        for _, path, kind in files:
            alike.setdefault(kind, []).append(path)
        for (version, tier), paths in sorted(alike.items()):
            view.groups.append(Group(paths, self._columns_of(folder, version, paths[0]), tier))

    def _open(self, folder: Path) -> DeltaTable | None:
        table = self._tables.get(folder)
        if table is not None:
            if delta.has_newer_delta_version(folder, table):
                delta.refresh_table(table)
            return table
        if not (folder / "_delta_log").is_dir():
            return None
        table = delta.open_delta(folder)
        if table is not None:
            self._tables[folder] = table
        return table

    def _list(self, folder: Path, table: DeltaTable | None, spec: TableSpec, bound: int | None) -> _TableVersion:
        if table is None:
            return _TableVersion(-1, 0, [])
        held = self._listed.get(folder)
        if held is None or held.version != table.version():
            held = _listing(folder, table, spec)
            self._listed[folder] = held
        if bound is not None and held.carried >= bound:
            # Carried over since the log was read: other tables may not know that segment yet.
            return _listing(folder, delta.find_delta_version_before(folder, table, bound), spec)
        return held

    def _columns_of(self, folder: Path, version: str, path: str) -> frozenset[str]:
        key = (folder, version)
        if key not in self._columns:
            from pyarrow import ArrowException, parquet

            self._checked.check([path])
            try:
                self._columns[key] = frozenset(parquet.read_schema(path).names)
            except (OSError, ArrowException) as error:
                raise delta.explain_damaged_delta(path, error) from error
        return self._columns[key]


def _listing(folder: Path, table: DeltaTable, spec: TableSpec) -> _TableVersion:
    files = [_file(folder, part) for part in delta.list_delta_parts(table, spec)]
    return _TableVersion(table.version(), delta.find_delta_segment(table), files)


def _file(folder: Path, part: Part) -> _File:
    # Files of unknown making may differ among themselves: each is its own group.
    return part, f"{folder}/{part.path}", (parse_part_version(part.path) or part.path, parse_part_tier(part.path))


def _overlaps(part: Part, between: Span, reach_ns: int, before_ns: int = 0) -> bool:
    if part.first_ns is None or part.last_ns is None:
        return True
    return part.first_ns - before_ns < between[1] and part.last_ns + reach_ns >= between[0]
