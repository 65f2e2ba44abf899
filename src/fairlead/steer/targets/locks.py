"""POSIX byte-range locks and flocks of files, in memory. Pure: who waits and for how long is the caller's business."""

from __future__ import annotations

import errno
import fcntl
import threading

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.base import Lock

POSIX, FLOCK, APPEND = 0, 1, 2
"""Spaces of locks: they do not see each other."""
END = (1 << 63) - 1
WHOLE = Lock(0, END, fcntl.F_WRLCK, 0)


class LockTable:
    """Locks by (space, inode). An owner is a number of a forwarder, the `holder`."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], list[tuple[int, Lock, str]]] = {}
        self._guard = threading.Lock()

    def take_lock(self, space: int, ino: int, owner: int, lock: Lock, holder: str = "") -> None:
        """Takes, changes or gives back a range; BlockingIOError when another owner is in the way."""
        with self._guard:
            if lock.kind != fcntl.F_UNLCK and self._conflict(space, ino, (owner, holder), lock) is not None:
                raise build_os_error(errno.EAGAIN)
            rest = []
            for entry in self._held.get((space, ino), ()):
                rest += [entry] if (entry[0], entry[2]) != (owner, holder) else _without(entry, lock.start, lock.end)
            if lock.kind != fcntl.F_UNLCK:
                rest.append((owner, lock, holder))
            self._keep(space, ino, rest)

    def find_conflict(self, space: int, ino: int, owner: int, lock: Lock, holder: str = "") -> Lock | None:
        """The lock in the way, or None."""
        with self._guard:
            return self._conflict(space, ino, (owner, holder), lock)

    def drop_owner(self, space: int, ino: int, owner: int, holder: str = "") -> None:
        """Gives back all of an owner's locks on an inode."""
        with self._guard:
            held = self._held.get((space, ino), ())
            self._keep(space, ino, [entry for entry in held if (entry[0], entry[2]) != (owner, holder)])

    def drop_holder(self, holder: str) -> None:
        """Gives back all locks that came through a forwarder."""
        with self._guard:
            for (space, ino), entries in list(self._held.items()):
                self._keep(space, ino, [entry for entry in entries if entry[2] != holder])

    def list_locks(self) -> list[tuple[int, int, int, Lock]]:
        """Every lock: space, inode, owner, lock."""
        with self._guard:
            return [(space, ino, entry[0], entry[1]) for (space, ino), held in self._held.items() for entry in held]

    def _conflict(self, space: int, ino: int, owner: tuple[int, str], lock: Lock) -> Lock | None:
        for other, held, holder in self._held.get((space, ino), ()):
            if (
                (other, holder) != owner
                and held.start <= lock.end
                and lock.start <= held.end
                and fcntl.F_WRLCK in (held.kind, lock.kind)
            ):
                return held
        return None

    def _keep(self, space: int, ino: int, entries: list[tuple[int, Lock, str]]) -> None:
        if entries:
            self._held[space, ino] = entries
        else:
            self._held.pop((space, ino), None)


def _without(entry: tuple[int, Lock, str], start: int, end: int) -> list[tuple[int, Lock, str]]:
    """What is left of a lock outside [start, end]."""
    owner, held, holder = entry
    left = []
    if held.start < start:
        left.append((owner, held._replace(end=min(held.end, start - 1)), holder))
    if held.end > end:
        left.append((owner, held._replace(start=max(held.start, end + 1)), holder))
    return left
