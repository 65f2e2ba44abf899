"""A copy of a lake, taken while it is written, as of one moment; and the way back. Never needs the writer.

A backup is a folder of files and a manifest with their checksums, written last: killed at any point, the backup before
is whole. What has not changed since is not copied again. Not here: which rows a copy holds for readers (`snapshot`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fairlead.core import clock
from fairlead.core.errors import CorruptInputError, LakeError, UsageError
from fairlead.core.model.tables import OP_GROUPS, OPS
from fairlead.store import delta_table as delta
from fairlead.store import wal
from fairlead.store import wal_rows as hot
from fairlead.store.checksums import explain_damaged_file, parse_checksum_name
from fairlead.store.lake_folder import Place, open_lake_folder, sync_lake_folder, write_lake_folder_file
from fairlead.store.log_checksums import NAME as LOG_SUMS
from fairlead.store.log_checksums import read_log_checksums

if TYPE_CHECKING:
    from deltalake import DeltaTable

MANIFEST = "backup.json"
SCHEMA = "fairlead.lake.backup/1"
_TRIES = 5
_CHUNK = 1 << 20


class StoredFile(msgspec.Struct, frozen=True):
    """A file of the lake inside a backup: where it lies below the backup's folder, its bytes, and their blake2b-16."""

    path: str
    size: int
    checksum: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds, by path inside the lake."""

    schema: str
    made_ns: int
    lake: str
    files: dict[str, StoredFile]


@dataclass(frozen=True)
class CopyResult:
    """What a backup or a restore did: all files and their bytes, and how many were copied (or linked) now."""

    folder: str
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int


@dataclass(frozen=True)
class _Sight:
    """What of one shard belongs to the copy: files that never change, and small ones as they are now."""

    lasting: list[Path]
    passing: dict[Path, bytes]


class _VanishedError(Exception):
    """A file went while it was looked for: the shard is looked at again."""


def backup_lake(place: Place, folder: Path, *, link: bool = False) -> CopyResult:
    """Copies the lake into `folder`, every shard as of one moment: what was acknowledged before is in it. A backup that
    is there already is brought up to date. With `link` files that never change are linked, not copied, where that can
    be. Raises UsageError for a folder with something else in it, LakeError."""
    before = _manifest_in(folder, place)
    now_ns = clock.now_ns()
    try:
        copy = _Copy(place.root, folder, before.files if before else {}, f"{now_ns:x}", link=link)
        copy.keep(place.root / "lake.toml", (place.root / "lake.toml").read_bytes())
        for shard in place.list_shards():
            copy.shard(place, shard)
        folder.mkdir(parents=True, exist_ok=True)
        copy.settle()
        manifest = Manifest(schema=SCHEMA, made_ns=now_ns, lake=str(place.root), files=copy.files)
        write_lake_folder_file(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    except OSError as error:
        raise LakeError(
            f"the backup cannot be written: {error.strerror or error}",
            where=str(error.filename or folder),
            remedy="make room, then run it again: what is copied stays",
        ) from error
    _drop_others(folder, {stored.path for stored in copy.files.values()})
    total = sum(stored.size for stored in copy.files.values())
    return CopyResult(str(folder), len(copy.files), total, copy.copied_files, copy.copied_bytes)


def restore_lake(folder: Path, root: Path) -> CopyResult:
    """Makes the lake of a backup in `root`, a new or an empty folder, every file checked against its checksum. Raises
    UsageError, CorruptInputError when the backup is damaged (nothing opens as a lake then), LakeError."""
    manifest = _read_manifest(folder)
    if manifest is None:
        raise UsageError("there is no backup here", where=str(folder), remedy="fairlead lake backup DEST makes one")
    if root.exists() and any(root.iterdir()):
        raise UsageError("the folder to restore to is not empty", where=str(root), remedy="name a new folder")
    # The file that makes a folder a lake comes last.
    names = sorted(manifest.files, key=lambda name: name == "lake.toml")
    try:
        for name in names:
            _restore_one(folder, root, name, manifest.files[name])
        for below in {(root / name).parent for name in names}:
            sync_lake_folder(below)
    except OSError as error:
        raise LakeError(
            f"the lake cannot be restored: {error.strerror or error}",
            where=str(error.filename or root),
            remedy="empty the folder and run it again",
        ) from error
    open_lake_folder(root)
    total = sum(stored.size for stored in manifest.files.values())
    return CopyResult(str(root), len(names), total, len(names), total)


def _restore_one(folder: Path, root: Path, name: str, stored: StoredFile) -> None:
    target = root / name
    if not target.resolve().is_relative_to(root.resolve()):
        raise CorruptInputError("the manifest names a file outside the lake", where=str(folder / MANIFEST))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        size, checksum = _copied(folder / stored.path, target)
    except FileNotFoundError as error:
        raise CorruptInputError("a file of the backup is missing", where=str(folder / stored.path)) from error
    if (size, checksum) != (stored.size, stored.checksum):
        raise CorruptInputError(
            "a file of the backup is damaged", where=str(folder / stored.path), remedy="restore another backup"
        )


def find_backup_file(folder: Path, name: str) -> Path | None:
    """Where file `name` of a lake lies in `folder`: a backup, or the folder of a lake. Raises LakeError."""
    manifest = _read_manifest(folder)
    if manifest is None:
        return folder / name
    stored = manifest.files.get(name)
    return None if stored is None else folder / stored.path


class _Copy:
    """A backup being filled."""

    def __init__(self, root: Path, folder: Path, before: dict[str, StoredFile], mark: str, *, link: bool) -> None:
        self.files: dict[str, StoredFile] = {}
        self.copied_files = self.copied_bytes = 0
        self._root = root
        self._folder = folder
        self._before = before
        self._mark = mark
        self._link = link
        self._folders: set[Path] = set()

    def shard(self, place: Place, shard: str) -> None:
        """Takes one shard in, as of one moment."""
        for _ in range(_TRIES):
            try:
                sight = _look(place, shard)
                for path in sight.lasting:
                    self._keep_lasting(path)
            except (_VanishedError, FileNotFoundError):
                continue  # merged and removed, or carried over, while it was looked for
            for path, content in sight.passing.items():
                self.keep(path, content)
            return
        raise LakeError("the shard changes faster than it can be copied", where=str(place.root), remedy="try again")

    def keep(self, path: Path, content: bytes) -> None:
        """Keeps a file that may change as it is now, under a name of its own: the backup before keeps its own."""
        name = str(path.relative_to(self._root))
        checksum = blake2b(content, digest_size=16).hexdigest()
        held = self._before.get(name)
        if held is not None and held.checksum == checksum and (self._folder / held.path).is_file():
            self.files[name] = held
            return
        stored = f"{name}.{self._mark}"
        target = self._place_for(stored)
        target.write_bytes(content)
        _sync(target)
        self._count(name, StoredFile(stored, len(content), checksum))

    def settle(self) -> None:
        """Makes the names of what was copied durable."""
        for below in self._folders:
            sync_lake_folder(below)

    def _keep_lasting(self, path: Path) -> None:
        name = str(path.relative_to(self._root))
        if name in self.files:
            return
        held = self._before.get(name)
        if held is not None and (self._folder / held.path).is_file():
            self.files[name] = held
            return
        target = self._place_for(name)
        target.unlink(missing_ok=True)
        if self._link:
            try:
                os.link(path, target)
            except FileNotFoundError:
                raise
            except OSError:
                size, checksum = _copied(path, target)
            else:
                size, checksum = _summed(target)
        else:
            size, checksum = _copied(path, target)
        named = parse_checksum_name(name)
        if named is not None and named[0] != checksum:
            target.unlink(missing_ok=True)
            raise explain_damaged_file(path)
        self._count(name, StoredFile(name, size, checksum))

    def _place_for(self, stored: str) -> Path:
        target = self._folder / stored
        target.parent.mkdir(parents=True, exist_ok=True)
        self._folders.add(target.parent)
        return target

    def _count(self, name: str, stored: StoredFile) -> None:
        self.files[name] = stored
        self.copied_files += 1
        self.copied_bytes += stored.size


def _look(place: Place, shard: str) -> _Sight:
    """The files that make up a shard now: the log first, the tables after, as a reader looks."""
    folder = place.build_wal_path(shard)
    listed = wal.list_wal_segments(folder)
    growing = listed[-1][0] if listed else None
    passing: dict[Path, bytes] = {}
    ahead: list[tuple[int, str, Path]] = []
    for number, path in listed:
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # carried over since it was listed: its rows are in the tables
            continue
        contents = wal.read_wal_frames(memoryview(content), 0)
        passing[path] = content[: len(content) - contents.torn]
        for frame in contents.frames:
            named = hot.list_wal_parts(frame)
            ahead += [
                (number, name, place.build_table_path(shard, name) / p.path)
                for name, parts in named.items()
                for p in parts
            ]
    for path in wal.list_damaged_wal_segments(folder):
        passing[path] = path.read_bytes()
    lasting: list[Path] = []
    carried: dict[str, int] = {}
    # Groups after the operations that left for them, as `snapshot` says.
    for name in sorted(place.list_tables(shard), key=lambda name: name == OP_GROUPS.name):
        below = place.build_table_path(shard, name)
        bounds = [growing, carried[OPS.name] + 1 if name == OP_GROUPS.name and OPS.name in carried else None]
        bound = min((b for b in bounds if b is not None), default=None)
        table = delta.open_delta(below)
        if table is not None and bound is not None and delta.find_delta_segment(table) >= bound:
            table = delta.find_delta_version_before(below, table, bound)
        if table is None:
            continue
        carried[name] = delta.find_delta_segment(table)
        lasting += [below / part.path for part in delta.list_delta_parts(table)]
        lasting += _log_of(below, table)
        sums = read_log_checksums(below)
        held = [f"{entry} {sums[entry]}\n" for entry in sums if int(entry[:20]) <= table.version()]
        if held:
            passing[below / LOG_SUMS] = "".join(held).encode()
        pointer = _checkpoint_of(below, table)
        if pointer is not None:
            passing[below / "_delta_log" / "_last_checkpoint"] = pointer
    for number, name, path in ahead:
        if number > carried.get(name, 0):
            if not path.exists():
                raise _VanishedError
            lasting.append(path)
    if growing is None and wal.list_wal_segments(folder):
        raise _VanishedError
    return _Sight(lasting, passing)


def _log_of(below: Path, table: DeltaTable) -> Iterator[Path]:
    """Entries of a table's log up to its version."""
    for path in sorted((below / "_delta_log").iterdir()):
        number, _, kind = path.name.partition(".")
        if number.isdigit() and int(number) <= table.version() and kind in ("json", "checkpoint.parquet"):
            yield path


def _checkpoint_of(below: Path, table: DeltaTable) -> bytes | None:
    """What points to the newest checkpoint, when that is not beyond the version."""
    try:
        content = (below / "_delta_log" / "_last_checkpoint").read_bytes()
        said = msgspec.json.decode(content, type=dict[str, object])
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    version = said.get("version")
    return content if isinstance(version, int) and version <= table.version() else None


def _manifest_in(folder: Path, place: Place) -> Manifest | None:
    """The backup in `folder`; None when it is new. Refuses a folder with anything else in it."""
    if folder.resolve().is_relative_to(place.root):
        raise UsageError("a backup cannot lie inside its lake", where=str(folder), remedy="name another folder")
    found = _read_manifest(folder)
    if found is None and folder.exists():
        foreign = [p.name for p in folder.iterdir() if p.name not in ("shards", "wal") and "lake.toml" not in p.name]
        foreign = [name for name in foreign if MANIFEST not in name]
        if foreign:
            raise UsageError(
                f"the folder holds something else ({foreign[0]!r})", where=str(folder), remedy="name a new folder"
            )
    return found


def _read_manifest(folder: Path) -> Manifest | None:
    path = folder / MANIFEST
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LakeError(f"the backup cannot be read: {error.strerror}", where=str(path)) from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptInputError(f"no manifest of a backup: {error}", where=str(path)) from error
    if found.schema != SCHEMA:
        raise LakeError(f"a backup of another kind: {found.schema}", where=str(path), remedy="upgrade fairlead")
    return found


def _drop_others(folder: Path, kept: set[str]) -> None:
    """Removes what no manifest names any more."""
    for part in ("shards", "wal"):
        for path in (folder / part).rglob("*"):
            if path.is_file() and str(path.relative_to(folder)) not in kept:
                path.unlink(missing_ok=True)
    for path in folder.glob("lake.toml.*"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _copied(source: Path, target: Path) -> tuple[int, str]:
    """Copies durably; (size, checksum) of what was read."""
    digest = blake2b(digest_size=16)
    size = 0
    with source.open("rb") as reading, target.open("wb") as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            size += writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())
    shutil.copystat(source, target)
    return size, digest.hexdigest()


def _summed(path: Path) -> tuple[int, str]:
    digest = blake2b(digest_size=16)
    size = 0
    with path.open("rb") as reading:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
