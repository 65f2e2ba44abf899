"""The LMDB files of a metadata store: opening, committing, and what survives a power failure. Not here: what the
records mean (`namespace`).

Commits are not synced (a killed process loses nothing). A sync makes all of them durable and pins that state: a read
transaction keeps its pages from being reused, and a copy of LMDB's two meta pages leads back to it.
See docs/decisions/0010.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import lmdb

from fairlead.core.errors import ConfigError, ForwardingError

T = TypeVar("T")
NAMES = (b"inodes", b"names", b"attributes", b"orphans", b"facts", b"replies")
SYNC_EVERY_S = 5.0
SYNC_EVERY_COMMITS = 2048
"""Pages are used again only after a sync: it bounds the growth of the file."""
log = logging.getLogger("fairlead.forwarding.targets")
_FULL_BYTES = 1 << 20
_BOOT = "/proc/sys/kernel/random/boot_id"


class Environment:
    """An open store. `write` and `read` run a function in a transaction."""

    def __init__(self, folder: str, *, map_size: int = 64 << 30, readonly: bool = False) -> None:
        self.folder = folder
        self.readonly = readonly
        self._data = os.path.join(folder, "data.mdb")
        self._claim = -1
        try:
            if not readonly:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                self._claim = _claim(folder)
                self._recover()
            self.env = lmdb.open(
                folder,
                map_size=map_size,
                max_dbs=len(NAMES),
                sync=False,
                metasync=False,
                max_readers=1024,
                readonly=readonly,
                create=not readonly,
                mode=0o600,
            )
            self.env.reader_check()
            self.dbs: dict[bytes, Any] = {name: self.env.open_db(name, create=not readonly) for name in NAMES}
        except (OSError, lmdb.Error) as fault:
            if self._claim >= 0:
                os.close(self._claim)
            raise ConfigError(
                f"no metadata store: {fault}", where=folder, remedy="check the path and its rights"
            ) from fault
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._commits = 0
        self._synced = -1
        self._pinned: Any = None
        self._ended = False
        self._wanted = threading.Event()
        if not readonly:
            self.sync()
            threading.Thread(target=self._sync_now_and_then, name="metadata-sync", daemon=True).start()

    def read(self, act: Callable[[Any], T]) -> T:
        """Runs `act` in a read transaction."""
        try:
            with self.env.begin() as txn:
                return act(txn)
        except lmdb.Error as fault:
            raise self._answer(fault) from fault

    def _answer(self, fault: lmdb.Error) -> OSError:
        """What a caller gets for an error of the store: ENOSPC where the map or the disk is full, else EIO."""
        found = os.statvfs(self.folder)
        # A write that a full disk cuts short is an I/O error to LMDB.
        if isinstance(fault, lmdb.MapFullError) or found.f_bavail * found.f_frsize < _FULL_BYTES:
            return OSError(errno.ENOSPC, "the metadata store is full")
        log.error("the metadata store in %s: %s", self.folder, fault)
        return OSError(errno.EIO, f"the metadata store: {fault}")

    def write(self, act: Callable[[Any], T]) -> T:
        """Runs `act` in a write transaction; an exception undoes it. A full map is ENOSPC."""
        try:
            with self.env.begin(write=True) as txn:
                result = act(txn)
        except lmdb.Error as fault:
            raise self._answer(fault) from fault
        self._commits += 1
        if self._commits - self._synced > SYNC_EVERY_COMMITS:
            self._wanted.set()
        return result

    def sync(self) -> None:
        """Makes every commit so far durable. Callers that come while one runs share the next."""
        wanted = self._commits
        with self._lock:
            if self._synced >= wanted or self.readonly:
                return
            reached = self._commits
            self._pin()
            self._synced = reached

    def _pin(self) -> None:
        self.env.sync(True)  # most of the work, while others still commit
        # Between the last sync and the copy no commit may come: the write transaction keeps others out.
        guard = self.env.begin(write=True)
        try:
            self.env.sync(True)
            with open(self._data, "rb") as file:
                pages = file.read(2 * self.env.stat()["psize"])
            pinned = self.env.begin()
        finally:
            guard.abort()
        try:
            _replace(os.path.join(self.folder, "synced.meta"), pages)
        except BaseException:
            pinned.abort()
            raise
        old, self._pinned = self._pinned, pinned
        if old is not None:
            old.abort()

    def _recover(self) -> None:
        """After a reboot without a clean end, goes back to the last sync: unsynced pages may be half on disk."""
        state = os.path.join(self.folder, "boot")
        boot = _read(_BOOT)
        before = _read(state)
        meta = _read(os.path.join(self.folder, "synced.meta"))
        if before not in (b"", b"clean", boot) and meta and os.path.exists(self._data):
            rewind_lmdb_pages(self.folder)
        if before != boot:
            _replace(state, boot)

    def _sync_now_and_then(self) -> None:
        while not self._ended:
            self._wanted.wait(SYNC_EVERY_S)
            self._wanted.clear()
            with self._closing:
                if not self._ended:
                    self._try_to_sync()

    def _try_to_sync(self) -> bool:
        try:
            self.sync()
        except (OSError, lmdb.Error) as fault:
            log.error("the metadata store in %s cannot be synced: %s", self.folder, fault)  # noqa: TRY400
            return False
        return True

    def close(self) -> None:
        """Syncs and closes; the next open need not look for damage."""
        with self._closing:
            if self._ended:
                return
            self._ended = True
            self._wanted.set()
            if not self.readonly:
                synced = self._try_to_sync()
                if self._pinned is not None:
                    self._pinned.abort()
                if synced:
                    _replace(os.path.join(self.folder, "boot"), b"clean")
            self.env.close()
        if self._claim >= 0:
            os.close(self._claim)


def rewind_lmdb_pages(folder: str) -> None:
    """Puts the meta pages of the last sync back."""
    meta = _read(os.path.join(folder, "synced.meta"))
    descriptor = os.open(os.path.join(folder, "data.mdb"), os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, meta, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(folder: str) -> int:
    descriptor = os.open(os.path.join(folder, "claim"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        os.close(descriptor)
        raise ForwardingError(
            "another process has this metadata store open",
            where=folder,
            remedy="end it, or share the store: fairlead tree serve-metadata, and `service` in the targets file",
        ) from fault
    return descriptor


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _replace(path: str, content: bytes) -> None:
    with open(path + ".new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
