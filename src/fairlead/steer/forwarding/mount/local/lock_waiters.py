"""Lock requests that wait: tried again until granted or interrupted. Holds no thread and reads no clock.

Whoever takes a request out of here answers it, so each is answered once.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

_REMEMBERED = 256
"""Interrupts kept whose request was not seen yet: another thread may be about to park it."""


class Parked(NamedTuple):
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
        self._waiting: dict[int, Parked] = {}
        self._interrupted: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, request: Parked) -> bool:
        """Keeps the request; false when it was interrupted already (the caller then answers EINTR)."""
        with self._lock:
            if request.unique in self._interrupted:
                del self._interrupted[request.unique]
                return False
            self._waiting[request.unique] = request
            return True

    def interrupt(self, unique: int) -> bool:
        """True when the request was waiting: it is out, and the caller answers EINTR."""
        with self._lock:
            if self._waiting.pop(unique, None) is not None:
                return True
            while len(self._interrupted) >= _REMEMBERED:
                del self._interrupted[next(iter(self._interrupted))]
            self._interrupted[unique] = None
            return False

    def take(self) -> list[Parked]:
        """All of them, out, to be tried again (and parked again if that fails)."""
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
            return taken
