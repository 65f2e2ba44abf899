"""POSIX locks of clients, as locks of open file descriptions on the backing files: one description for each file and
owner, so that owners exclude each other, other forwarders of the tree and local programs on it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from errno import EACCES, EPERM, EROFS, ETXTBSY
from struct import Struct

from fairlead.steer.fs.trees.base import Lock
from fairlead.steer.fs.trees.thread_identity import forwarder_identity

_GETLK = 36
_SETLK = 37
_FLOCK = Struct("hhqqi4x")
"""l_type, l_whence, l_start, l_len, l_pid."""
_LAST = (1 << 63) - 1
_NO_WRITING = (EACCES, EPERM, EROFS, ETXTBSY)
_FREE = int(fcntl.F_UNLCK)


def _packed(lock: Lock) -> bytes:
    # A length of 0 reaches to the end of the file, however long it grows.
    length = 0 if lock.end >= _LAST else lock.end - lock.start + 1
    return _FLOCK.pack(lock.kind, os.SEEK_SET, lock.start, length, 0)


class _Holder:
    """The description an owner locks a file through, and what it was granted (to name a holder's process)."""

    __slots__ = ("fd", "granted")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.granted: list[Lock] = []

    def __del__(self) -> None:
        os.close(self.fd)


class Locks:
    """POSIX locks of one tree by (node, owner). Thread-safe."""

    def __init__(self) -> None:
        self._holders: dict[tuple[int, int], _Holder] = {}
        self._guard = threading.Lock()

    def set(self, fd: int, node: int, owner: int, lock: Lock) -> None:
        """Takes or gives back a lock of the file open as `fd`; BlockingIOError if another owner holds it."""
        key = (node, owner)
        with self._guard:
            holder = self._holders.get(key)
            if holder is None:
                if lock.kind == _FREE:
                    return
                holder = _Holder(_description(fd))
            fcntl.fcntl(holder.fd, _SETLK, _packed(lock))
            holder.granted = [old for old in holder.granted if old.start < lock.start or old.end > lock.end]
            if lock.kind != _FREE:
                holder.granted.append(lock)
                self._holders[key] = holder
            elif lock.start == 0 and lock.end >= _LAST:
                self._holders.pop(key, None)

    def find_conflict(self, fd: int, node: int, owner: int, lock: Lock) -> Lock | None:
        """The lock that is in the way of `lock`, or None."""
        with self._guard:
            holder = self._holders.get((node, owner))
            # The description of reads and writes holds no lock itself: through it those of all are seen.
            answer = fcntl.fcntl(fd if holder is None else holder.fd, _GETLK, _packed(lock))
            kind, _, start, length, pid = _FLOCK.unpack(answer)
            if kind == _FREE:
                return None
            end = _LAST if length == 0 else start + length - 1
            return Lock(start, end, kind, pid if pid > 0 else self._process(node, owner, start, end))

    def _process(self, node: int, asking: int, start: int, end: int) -> int:
        """The process that took a lock through this forwarder; 0 if it was another one's."""
        for (locked, owner), holder in self._holders.items():
            if locked == node and owner != asking:
                for lock in holder.granted:
                    if lock.start <= end and lock.end >= start:
                        return lock.pid
        return 0

    def release(self, node: int, owner: int) -> None:
        """Gives back all locks of an owner on a file."""
        if self._holders:
            with self._guard:
                holder = self._holders.pop((node, owner), None)
            if holder is not None:
                fcntl.fcntl(holder.fd, _SETLK, _packed(Lock(0, _LAST, _FREE, 0)))

    def close(self) -> None:
        """Gives back everything."""
        with self._guard:
            self._holders.clear()


def _description(fd: int) -> int:
    """Another open file description of the same file, for writing if possible: exclusive locks need that."""
    path = f"/proc/self/fd/{fd}"
    with forwarder_identity:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NO_WRITING:
                raise
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
