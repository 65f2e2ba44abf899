"""Where things lie in a lake's folder, its format version, and the lock that gives a shard one writer.

Not here: what the tables hold (`stored_tables`), how rows get in (`writer`) or out (`snapshot`, `query`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import tomllib
from dataclasses import dataclass
from pathlib import Path

import fairlead
from fairlead.core.clock import monotonic_s, now_ns, sleep_s
from fairlead.core.errors import LakeBusyError, LakeError, UsageError
from fairlead.core.model.unit_formats import format_time

FORMAT = 1
"""Raised when an older fairlead could no longer read the folder. New columns and tables do not raise it."""

_LAKE_TOML = "lake.toml"
_SHARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOCK_POLL_S = 0.05


@dataclass(frozen=True)
class Place:
    """The folder of one lake: `lake.toml`, `shards/SHARD/TABLE/` (Delta tables), `wal/SHARD/` (segments, lock)."""

    root: Path

    def list_shards(self) -> list[str]:
        """Names of the shards that exist, sorted."""
        found = {p.name for part in ("shards", "wal") for p in _folders(self.root / part)}
        return sorted(found)

    def list_tables(self, shard: str) -> list[str]:
        """Names of the tables a shard holds on disk, sorted. Internal ones begin with an underscore."""
        return sorted(p.name for p in _folders(self.root / "shards" / shard) if (p / "_delta_log").is_dir())

    def build_table_path(self, shard: str, table: str) -> Path:
        """Folder of one Delta table."""
        return self.root / "shards" / shard / table

    def build_wal_path(self, shard: str) -> Path:
        """Folder of a shard's write-ahead segments and its lock."""
        return self.root / "wal" / shard


def find_default_lake_folder() -> Path:
    """`$FAIRLEAD_LAKE`, else `fairlead/lake` in the user's data folder (`$XDG_DATA_HOME` or ~/.local/share)."""
    named = os.environ.get("FAIRLEAD_LAKE")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "fairlead" / "lake"


def open_lake_folder(root: Path) -> Place:
    """The lake in `root`. Raises LakeError when there is none or its format is newer than this fairlead."""
    try:
        text = (root / _LAKE_TOML).read_text(encoding="utf-8")
    except FileNotFoundError:
        remedy = f"make one: fairlead up --lake {root}, or fairlead ingest PATH --lake {root}; elsewhere: --server URL"
        raise LakeError("there is no lake here", where=str(root), remedy=remedy) from None
    except OSError as error:
        raise LakeError(f"the lake cannot be read: {error.strerror}", where=str(root)) from error
    _check_format(text, root / _LAKE_TOML)
    return Place(root.resolve())


def create_lake_folder(root: Path) -> Place:
    """The lake in `root`, made if there is none. Refuses a folder that holds anything else."""
    if not (root / _LAKE_TOML).is_file():
        _make(root)
    return open_lake_folder(root)


def _check_format(text: str, path: Path) -> None:
    try:
        version = tomllib.loads(text).get("format")
    except tomllib.TOMLDecodeError as error:
        raise LakeError(f"not valid TOML: {error}", where=str(path)) from error
    if not isinstance(version, int) or version < 1:
        raise LakeError("the setting `format` is missing or no positive number", where=str(path))
    if version > FORMAT:
        raise LakeError(
            f"this lake has format {version}, this fairlead reads up to {FORMAT}",
            where=str(path),
            remedy="upgrade fairlead: pip install --upgrade fairlead",
        )


def _make(root: Path) -> None:
    if set(str(root.resolve())) & set("[]*?"):
        raise UsageError("the path of a lake cannot hold any of [ ] * ?", where=str(root), remedy="choose another path")
    try:
        root.mkdir(parents=True, exist_ok=True)
        foreign = [p.name for p in root.iterdir() if not p.name.startswith((f".{_LAKE_TOML}", _LAKE_TOML))]
        if foreign:
            raise LakeError(
                f"the folder is not empty and is no lake (it holds {foreign[0]!r})",
                where=str(root),
                remedy="name a new or an empty folder",
            )
        text = (
            "# A fairlead lake: Delta tables in shards/, rows on their way there in wal/.\n"
            f'format = {FORMAT}\ncreated_by = "fairlead {fairlead.__version__}"\n'
        )
        write_lake_folder_file(root / _LAKE_TOML, text.encode())
    except OSError as error:
        raise LakeError(f"the lake cannot be created: {error.strerror}", where=str(root)) from error


def write_lake_folder_file(path: Path, content: bytes) -> None:
    """Puts `content` at `path` so that after a crash there is all of it or what was there before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
    sync_lake_folder(path.parent)


def sync_lake_folder(folder: Path) -> None:
    """Makes the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_shard_folder(name: str) -> str:
    """`name` itself. Raises UsageError when it cannot be a shard."""
    if not _SHARD_NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a shard", remedy="use letters, digits, dot, dash and underscore")
    return name


class ShardLock:
    """Held by the one writer of a shard, released by the kernel when its process ends, however it ends."""

    def __init__(self, place: Place, shard: str, *, wait_s: float = 0.0) -> None:
        """Takes the lock; waits up to `wait_s` seconds. Raises LakeBusyError naming who holds it."""
        folder = place.build_wal_path(check_shard_folder(shard))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LakeError(f"the shard cannot be written: {error.strerror}", where=str(folder)) from error
        try:
            self._take(shard, place, monotonic_s() + wait_s)
        except BaseException:
            os.close(self._handle)
            raise
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since_ns": now_ns()}
        # On a full disk the lock holds all the same: only its holder's name is not told.
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps(holder).encode(), 0)

    def _take(self, shard: str, place: Place, until_s: float) -> None:
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic_s() < until_s:
                    sleep_s(_LOCK_POLL_S)
                    continue
                raise LakeBusyError(
                    f"shard {shard!r} is being written by {self._holder()}",
                    where=str(place.root),
                    remedy="try again when it has ended (--wait SECONDS), or write to another shard (--shard NAME)",
                ) from None
            except OSError as error:
                raise LakeError(
                    f"the file system cannot lock files: {error.strerror}",
                    where=str(place.root),
                    remedy="keep the lake on a file system with flock",
                ) from error
            else:
                return

    def _holder(self) -> str:
        try:
            holder = json.loads(os.pread(self._handle, 4096, 0))
            return f"process {holder['pid']} on {holder['host']} since {format_time(holder['since_ns'])}"
        except (ValueError, KeyError, TypeError):  # it has the lock but has not written its name yet
            return "another process"

    def release(self) -> None:
        """Lets the next writer in."""
        os.close(self._handle)


def _folders(parent: Path) -> list[Path]:
    try:
        return [p for p in parent.iterdir() if p.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
