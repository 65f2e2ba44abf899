"""What the scrub of a shard remembers: which files it checked when, what it found damaged, how far the round is.

One JSON file a shard in `scrub/`, and a lock: one scrub of a shard at a time. Not here: the checking (`scrub`).
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fairlead.core import clock
from fairlead.store.checksums import Seen
from fairlead.store.lake_folder import Place, write_lake_folder_file
from fairlead.store.stored_tables import DAY_NS

ROUND_NS = 7 * DAY_NS
"""A round begins so long after the one before began."""
TRUSTED_NS = 2 * ROUND_NS
"""A file the scrub checked within this time is read by other processes without checking it again."""


class CheckedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that was whole: its size, its time of change, when it was checked (ns)."""

    size: int
    mtime_ns: int
    checked_ns: int


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """A damaged file. `path` is relative to the lake; `kind`: `rows` (a file of a table), `log` (an entry of a table's
    log), `wal` (the write-ahead log). What its table says of it: rows, the time they lie in (None: not known)."""

    path: str
    kind: str
    shard: str
    table: str = ""
    rows: int = 0
    from_ns: int | None = None
    to_ns: int | None = None
    text: str
    found_ns: int
    mtime_ns: int = 0
    """Of the file when it was found: once changed, it is looked at again."""


class Ledger(msgspec.Struct, kw_only=True):
    """The memory of the scrub of one shard."""

    began_ns: int | None = None
    """When the round that runs, or the last one, began."""
    finished_ns: int | None = None
    """When it ended; None: it runs, or none was."""
    files: int = 0
    bytes: int = 0
    """Files of the shard, and their bytes, as last looked."""
    checked_bytes: int = 0
    """Bytes of those that were checked in this round."""
    unverified_files: int = 0
    """Files whose checksum was added after they were written: what happened to them before is not known."""
    unsealed_files: int = 0
    """Files without a checksum yet."""
    logs_ns: int = 0
    """When the logs were looked through."""
    checked: dict[str, CheckedFile] = {}
    damaged: dict[str, Damage] = {}


def build_ledger_path(place: Place, shard: str) -> Path:
    """Where the ledger of a shard lies."""
    return place.root / "scrub" / f"{shard}.json"


def read_scrub_ledger(path: Path) -> Ledger:
    """The ledger at `path`; an empty one when there is none, or when it cannot be read: then all is checked again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ledger)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return Ledger()


def write_scrub_ledger(path: Path, ledger: Ledger) -> None:
    """Writes the ledger. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    write_lake_folder_file(path, msgspec.json.encode(ledger))


@contextmanager
def hold_scrub_lock(place: Place, shard: str, *, wait: bool) -> Iterator[bool]:
    """Whether this is the one scrub of the shard, for the block. Raises OSError."""
    path = build_ledger_path(place, shard).with_suffix(".lock")
    path.parent.mkdir(exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


class TrustedFiles:
    """Files of a lake that the scrub has checked lately. Safe to share among threads."""

    def __init__(self, root: Path) -> None:
        self._place = Place(root)
        self._turn = threading.Lock()
        self._read: dict[str, tuple[int, Ledger]] = {}

    def find(self, path: str) -> Seen | None:
        """Size and time of change of the file at `path` when it was last checked; None: it was not, or long ago."""
        try:
            name = str(Path(path).relative_to(self._place.root))
            shard = Path(name).parts[1]
            at = build_ledger_path(self._place, shard)
            mtime_ns = at.stat().st_mtime_ns
        except (ValueError, IndexError, OSError):
            return None
        with self._turn:
            held = self._read.get(shard)
            if held is None or held[0] != mtime_ns:
                held = self._read[shard] = (mtime_ns, read_scrub_ledger(at))
        found = held[1].checked.get(name)
        if found is None or name in held[1].damaged or clock.now_ns() - found.checked_ns > TRUSTED_NS:
            return None
        return found.size, found.mtime_ns
