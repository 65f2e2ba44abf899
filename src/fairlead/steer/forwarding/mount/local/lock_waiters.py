"""Lock requests that wait: tried again until granted or interrupted. Blocks no thread and reads no clock.

    refused --> parked --take--> tried: granted (answered) or parked again
                  |
                  +--interrupt--> answered with EINTR

A request leaves this place before it is answered, so each is answered once.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

_REMEMBERED = 256
"""Interrupts of requests not parked yet: another thread may be about to park one."""


class ParkedLock(NamedTuple):
    """A SETLKW that was not granted yet: the kernel's number of it, whose it is, its message."""

    unique: int
    node: int
    uid: int
    gid: int
    job: int
    started_ns: int
    message: bytes


class WaitingLocks:
    """Requests by the kernel's number, in the order they came. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[int, ParkedLock] = {}
        self._interrupted: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, request: ParkedLock) -> bool:
        """Keeps the request; false if it was interrupted already (the caller answers EINTR)."""
        with self._lock:
            if request.unique in self._interrupted:
                del self._interrupted[request.unique]
                return False
            self._waiting[request.unique] = request
            return True

    def interrupt(self, unique: int) -> bool:
        """True if the request was waiting: the caller answers it with EINTR."""
        with self._lock:
            if self._waiting.pop(unique, None) is not None:
                return True
            while len(self._interrupted) >= _REMEMBERED:
                del self._interrupted[next(iter(self._interrupted))]
            self._interrupted[unique] = None
            return False

    def take_locks(self) -> list[ParkedLock]:
        """Removes and returns all requests, to be tried again (and parked again if that fails)."""
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
            return taken
