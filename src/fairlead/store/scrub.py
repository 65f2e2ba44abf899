"""Looks through a shard's files, slowly: every checksum again, a round a week, going on where it was after a stop.

It changes nothing but its own memory; files of before checksums get theirs (`seal_old_files`). Not here: the checks
before a read (`checksums`), repair and loss (`scrub_repair`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fairlead.core import clock
from fairlead.core.errors import DamagedLakeError, LakeError
from fairlead.core.model.tables import TableSpec
from fairlead.store import delta_table as delta
from fairlead.store import wal
from fairlead.store.checksums import add_checksum_name, compute_file_checksum, parse_checksum_name
from fairlead.store.flush import check_flush_plan
from fairlead.store.lake_folder import Place, sync_lake_folder
from fairlead.store.log_checksums import (
    complete_log_checksums,
    find_damaged_entries,
    list_log_entries,
    read_log_checksums,
)
from fairlead.store.part_files import Part
from fairlead.store.scrub_ledger import (
    ROUND_NS,
    CheckedFile,
    Damage,
    Ledger,
    build_ledger_path,
    hold_scrub_lock,
    read_scrub_ledger,
    write_scrub_ledger,
)
from fairlead.store.stored_tables import DAY_NS, SPECS

if TYPE_CHECKING:
    from deltalake import DeltaTable

BYTES_PER_S = 8 << 20
"""How fast a collector reads its files again."""
_SAVE_BYTES = 256 << 20
"""After so much the memory is written, and after each second in which something was checked."""
_SAVE_S = 10.0
_SEALED_AT_ONCE = 64

OpenTable = Callable[[TableSpec], AbstractContextManager["DeltaTable"]]


class StoppedError(Exception):
    """The scrub was asked to stop."""


@dataclass(frozen=True)
class ScrubFile:
    """A file of a table, as its table names it. `name`: its path relative to the lake."""

    name: str
    path: Path
    table: str
    part: Part


class Pace:
    """Waits so that no more than `bytes_per_s` are read (None: as fast as it goes), until `stop` is set."""

    def __init__(self, bytes_per_s: float | None, stop: threading.Event | None = None) -> None:
        self._rate = bytes_per_s
        self._stop = stop or threading.Event()
        self.read = 0

    def __call__(self, count: int) -> None:
        """After `count` bytes. Raises StoppedError."""
        self.read += count
        if self._stop.wait(count / self._rate if self._rate else 0):
            raise StoppedError


def check_shard(
    place: Place,
    shard: str,
    pace: Pace,
    *,
    again: bool = False,
    settled_ns: int = 0,
    progress: Callable[[Ledger], None] = lambda _: None,
) -> Ledger | None:
    """Checks the files of `shard` that are due; returns what is remembered. None: another scrub of it runs. Files that
    are gone meanwhile are no damage. `again`: a new round begins when the one before has ended, however lately.
    `settled_ns`: files changed less than so long ago wait. Raises StoppedError; the next call goes on where it was."""
    path = build_ledger_path(place, shard)
    try:
        with hold_scrub_lock(place, shard, wait=False) as held:
            if not held:
                return None
            ledger = read_scrub_ledger(path)
            try:
                _scrub(place, shard, ledger, pace, again=again, settled_ns=settled_ns, progress=progress)
            finally:
                write_scrub_ledger(path, ledger)
            return ledger
    except OSError as error:
        raise LakeError(f"the scrub cannot go on: {error.strerror or error}", where=str(path)) from error


def list_shard_files(place: Place, shard: str) -> list[ScrubFile]:
    """All files of the tables of `shard` as of now. Raises LakeError."""
    found = []
    for name in place.list_tables(shard):
        folder = place.build_table_path(shard, name)
        table = delta.open_delta(folder)
        for part in delta.list_delta_parts(table, SPECS.get(name)) if table is not None else []:
            path = folder / part.path
            found.append(ScrubFile(str(path.relative_to(place.root)), path, name, part))
    return found


def _scrub(
    place: Place,
    shard: str,
    ledger: Ledger,
    pace: Pace,
    *,
    again: bool,
    settled_ns: int,
    progress: Callable[[Ledger], None],
) -> None:
    now_ns = clock.now_ns()
    ended = ledger.finished_ns is not None or ledger.began_ns is None
    if ended and (again or ledger.began_ns is None or now_ns - ledger.began_ns >= ROUND_NS):
        ledger.began_ns, ledger.finished_ns = now_ns, None
    if again or now_ns - ledger.logs_ns >= DAY_NS:  # thousands of small files: not at each look
        ledger.damaged = {name: one for name, one in ledger.damaged.items() if one.kind == "rows"}
        _scrub_logs(place, shard, ledger, pace)
        ledger.logs_ns = now_ns
    files = [file for table in _readable_tables(place, shard, ledger) for file in table]
    _count(ledger, files)
    saved_s, saved_bytes = clock.monotonic_s(), pace.read
    for file in _order_due(files, ledger, now_ns - settled_ns if settled_ns else None, again=again):
        _check_file(file, shard, ledger, pace)
        if clock.monotonic_s() - saved_s >= _SAVE_S or pace.read - saved_bytes >= _SAVE_BYTES:
            _count(ledger, files)
            write_scrub_ledger(build_ledger_path(place, shard), ledger)
            saved_s, saved_bytes = clock.monotonic_s(), pace.read
            progress(ledger)
    _count(ledger, files)
    if ledger.finished_ns is None:
        ledger.finished_ns = clock.now_ns()
    progress(ledger)


def _readable_tables(place: Place, shard: str, ledger: Ledger) -> Iterator[list[ScrubFile]]:
    for name in place.list_tables(shard):
        folder = place.build_table_path(shard, name)
        try:
            table = delta.open_delta(folder)
        except LakeError as error:
            where = Path(error.where) if isinstance(error, DamagedLakeError) and error.where else folder
            at = str(where.relative_to(place.root))
            if at not in ledger.damaged:
                ledger.damaged[at] = Damage(
                    path=at, kind="log", shard=shard, table=name, text=error.what, found_ns=clock.now_ns()
                )
            continue
        if table is not None:
            parts = delta.list_delta_parts(table, SPECS.get(name))
            below = str(folder.relative_to(place.root))
            yield [ScrubFile(f"{below}/{part.path}", folder / part.path, name, part) for part in parts]


def _scrub_logs(place: Place, shard: str, ledger: Ledger, pace: Pace) -> None:
    """Entries of the tables' logs, and the write-ahead log."""

    def note(path: Path, kind: str, table: str, text: str) -> None:
        name = str(path.relative_to(place.root))
        found = Damage(path=name, kind=kind, shard=shard, table=table, text=text, found_ns=clock.now_ns())
        ledger.damaged[name] = found

    for table in place.list_tables(shard):
        folder = place.build_table_path(shard, table)
        known = read_log_checksums(folder)
        for path in find_damaged_entries(list_log_entries(folder), known, pace):
            note(path, "log", table, "an entry of the table's log is damaged: its checksum is wrong")
    below = place.build_wal_path(shard)
    for _, path in wal.list_wal_segments(below):
        try:
            contents = wal.read_wal_segment(path)
        except FileNotFoundError:
            continue
        if contents.damaged or (contents.torn and wal.has_hidden_wal_frames(path, contents.torn)):
            note(path, "wal", "", f"the write-ahead log is damaged: {max(1, contents.damaged)} frames")
    for path in wal.list_damaged_wal_segments(below):
        note(path, "wal", "", "a damaged segment of the write-ahead log was set aside")
    for _, path in wal.list_wal_plans(below):
        try:
            check_flush_plan(path)
        except FileNotFoundError:
            continue
        except LakeError as error:
            note(path, "wal", "", error.what)


def _order_due(
    files: list[ScrubFile], ledger: Ledger, settled_before_ns: int | None, *, again: bool
) -> list[ScrubFile]:
    """Damaged ones first (they may be repaired), then those never checked, then by when they were."""
    due = []
    for file in files:
        known = ledger.checked.get(file.name)
        if known is not None and known.checked_ns >= (ledger.began_ns or 0):
            continue
        damage = ledger.damaged.get(file.name)
        if damage is not None and not again and damage.mtime_ns == _mtime_ns(file.path):
            continue
        if damage is None and settled_before_ns is not None and _mtime_ns(file.path) > settled_before_ns:
            continue
        if parse_checksum_name(file.name) is not None:
            due.append((file.name not in ledger.damaged, known.checked_ns if known else 0, file.name, file))
    return [file for *_, file in sorted(due, key=lambda one: one[:3])]


def _mtime_ns(path: Path) -> int:
    """Time of change; 0 for a file that is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _check_file(file: ScrubFile, shard: str, ledger: Ledger, pace: Pace) -> None:
    named = parse_checksum_name(file.name)
    assert named is not None  # noqa: S101  (chosen so)
    try:
        found = file.path.stat()
        whole = compute_file_checksum(file.path, pace) == named[0]
        text = "the checksum of the file is wrong"
    except FileNotFoundError:
        whole, text = False, "the file is gone"
    except OSError as error:
        whole, text = False, f"the file cannot be read: {error.strerror}"
    ledger.checked.pop(file.name, None)
    if whole:
        ledger.damaged.pop(file.name, None)
        ledger.checked[file.name] = CheckedFile(found.st_size, found.st_mtime_ns, clock.now_ns())
        return
    part = file.part
    before = ledger.damaged.get(file.name)
    ledger.damaged[file.name] = Damage(
        path=file.name,
        kind="rows",
        shard=shard,
        table=file.table,
        rows=part.rows,
        from_ns=part.first_ns,
        to_ns=part.last_ns,
        text=text,
        found_ns=before.found_ns if before is not None else clock.now_ns(),
        mtime_ns=_mtime_ns(file.path),
    )


def _count(ledger: Ledger, files: list[ScrubFile]) -> None:
    names = {file.name for file in files}
    ledger.checked = {name: one for name, one in ledger.checked.items() if name in names}
    ledger.damaged = {name: one for name, one in ledger.damaged.items() if one.kind != "rows" or name in names}
    ledger.files, ledger.bytes = len(files), sum(file.part.size for file in files)
    began_ns = ledger.began_ns or 0
    ledger.checked_bytes = sum(one.size for one in ledger.checked.values() if one.checked_ns >= began_ns)
    sums = [parse_checksum_name(file.name) for file in files]
    ledger.unsealed_files = sum(one is None for one in sums)
    ledger.unverified_files = sum(one is not None and one[1] for one in sums)


def seal_old_files(place: Place, shard: str, open_table: OpenTable, pace: Pace, now_ns: Callable[[], int]) -> int:
    """Gives files of before checksums theirs: a second name that holds it, put in the place of the first in one commit.
    Their rows and bytes stay; what happened to them before is not known. Returns how many. Raises LakeError,
    StoppedError."""
    done = 0
    for name in place.list_tables(shard):
        spec = SPECS.get(name)
        if spec is None:
            continue
        folder = place.build_table_path(shard, name)
        complete_log_checksums(folder)
        with open_table(spec) as table:
            old = [part for part in delta.list_delta_parts(table, spec) if parse_checksum_name(part.path) is None]
        for first in range(0, len(old), _SEALED_AT_ONCE):
            some = old[first : first + _SEALED_AT_ONCE]
            pairs = [(part, sealed) for part in some if (sealed := _seal(folder, part, pace))]
            with open_table(spec) as table:
                there = {part.path for part in delta.list_delta_parts(table)}
                pairs = [pair for pair in pairs if pair[0].path in there]  # others were merged meanwhile
                if pairs:
                    before, after = zip(*pairs, strict=True)
                    delta.swap_delta_parts(folder, table, spec, before, after, changes_data=False, now_ns=now_ns())
                    done += len(pairs)
    return done


def _seal(folder: Path, part: Part, pace: Pace) -> Part | None:
    path = folder / part.path
    try:
        sealed = add_checksum_name(path, compute_file_checksum(path, pace), late=True)
        if not sealed.exists():
            os.link(path, sealed)
        sync_lake_folder(sealed.parent)
    except FileNotFoundError:
        return None  # what is gone the scrub tells
    except OSError as error:
        raise LakeError(f"a file cannot get a second name: {error.strerror}", where=str(path)) from error
    return msgspec.structs.replace(part, path=str(sealed.relative_to(folder)))
