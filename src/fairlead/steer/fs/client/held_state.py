"""What a mount holds at its forwarder, so that it can be had again at another: open handles and locks.

Pure: fed with requests that succeeded, asked after a failover.
"""

from __future__ import annotations

import os
from typing import NamedTuple

F_RDLCK, F_WRLCK, F_UNLCK = 0, 1, 2
_NEVER_AGAIN = os.O_CREAT | os.O_EXCL | os.O_TRUNC
"""Flags a second opening must not have."""


class Handle(NamedTuple):
    """An open file or directory: its node, the flags to open it again with, whether it is a directory."""

    node: int
    flags: int
    directory: bool


class HeldLock(NamedTuple):
    """A lock that was granted, as the body of SETLK has it. `flock`: of the handle, else of (node, owner)."""

    node: int
    handle: int
    owner: int
    start: int
    end: int
    kind: int
    pid: int
    flock: bool


class Holdings:
    """Open handles by number, and the locks held through them."""

    def __init__(self) -> None:
        self.handles: dict[int, Handle] = {}
        self.ranges: dict[tuple[int, int], list[HeldLock]] = {}
        """POSIX locks by node and owner."""
        self._flocks: dict[int, HeldLock] = {}

    def record_open(self, handle: int, node: int, flags: int, *, directory: bool = False) -> None:
        """OPEN, CREATE, TMPFILE or OPENDIR succeeded."""
        self.handles[handle] = Handle(node, flags & ~_NEVER_AGAIN, directory)

    def record_release(self, handle: int) -> Handle | None:
        """The handle is gone, and a flock of it."""
        self._flocks.pop(handle, None)
        return self.handles.pop(handle, None)

    def record_flush(self, node: int, owner: int) -> None:
        """The owner closed the file: its ranges are given back."""
        if self.ranges:
            self.ranges.pop((node, owner), None)

    def record_lock(self, lock: HeldLock) -> None:
        """A lock, or the end of one (F_UNLCK), was granted."""
        if lock.flock:
            if lock.kind == F_UNLCK:
                self._flocks.pop(lock.handle, None)
            else:
                self._flocks[lock.handle] = lock
            return
        key = (lock.node, lock.owner)
        kept: list[HeldLock] = []
        for held in self.ranges.get(key, ()):
            if held.end < lock.start or held.start > lock.end:
                kept.append(held)
                continue
            if held.start < lock.start:
                kept.append(held._replace(end=lock.start - 1))
            if held.end > lock.end:
                kept.append(held._replace(start=lock.end + 1))
        if lock.kind != F_UNLCK:
            kept.append(lock)
        if kept:
            self.ranges[key] = kept
        else:
            self.ranges.pop(key, None)

    def list_locks(self) -> list[HeldLock]:
        """All locks held now, flocks first."""
        return [*self._flocks.values(), *(lock for held in self.ranges.values() for lock in held)]

    def find_handle(self, node: int) -> int | None:
        """Some open handle of the node."""
        return next((number for number, held in self.handles.items() if held.node == node), None)
