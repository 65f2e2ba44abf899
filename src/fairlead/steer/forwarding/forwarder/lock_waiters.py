"""Requests that wait for a lock. They hold no worker; they are tried again when a lock is given back here, and from
time to time, since another forwarder of the tree may have given it back."""

from __future__ import annotations

from threading import Lock

from fairlead.steer.forwarding.forwarder.request import Request

FIRST_NS = 2_000_000
LONGEST_NS = 100_000_000
MOST = 65536
"""Requests that may be parked; above it a client is told that there are no locks (ENOLCK)."""


class ParkedRequests:
    """All parked requests of a forwarder; any thread."""

    def __init__(self) -> None:
        self._waiting: set[Request] = set()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def park(self, request: Request, now_ns: int) -> bool:
        """Keeps it until it is due. False when it was interrupted meanwhile, or there is no room."""
        with self._lock:
            if request.interrupted or len(self._waiting) >= MOST:
                return False
            request.delay_ns = min(LONGEST_NS, max(FIRST_NS, request.delay_ns * 2))
            request.due_ns = now_ns + request.delay_ns
            self._waiting.add(request)
            connection = request.connection
            connection.pending.pop(request.number, None)
            connection.parked[request.number] = request
            return True

    def interrupt(self, request: Request) -> bool:
        """Takes it out because it was interrupted; when it is not here, it will not be parked any more."""
        with self._lock:
            request.interrupted = True
            return self._take(request)

    def take_due(self, now_ns: int) -> list[Request]:
        """Takes out those to be tried again now."""
        if not self._waiting:
            return []
        with self._lock:
            return [request for request in list(self._waiting) if request.due_ns <= now_ns and self._take(request)]

    def take_unlocked(self, node: int | None) -> list[Request]:
        """Takes out those that wait for a lock on this node (None: on any)."""
        if not self._waiting:
            return []
        with self._lock:
            return [
                request
                for request in list(self._waiting)
                if (node is None or request.node == node) and self._take(request)
            ]

    def drop(self, requests: list[Request]) -> None:
        """Forgets them: their client is gone."""
        with self._lock:
            for request in requests:
                self._waiting.discard(request)

    def find_next_ns(self) -> int | None:
        """When the next one is due."""
        if not self._waiting:
            return None
        with self._lock:
            return min((request.due_ns for request in self._waiting), default=None)

    def _take(self, request: Request) -> bool:
        if request not in self._waiting:
            return False
        self._waiting.discard(request)
        connection = request.connection
        connection.parked.pop(request.number, None)
        connection.pending[request.number] = request
        return True
