"""Ends sessions: closing a file may take as long as the file system likes, and nobody shall wait for it."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from fairlead.steer.forwarding.forwarder.client_sessions import Session


class SessionCloser:
    """One thread that ends what it is given, one after the other."""

    def __init__(self, end: Callable[[Session], None]) -> None:
        self._end = end
        self._queue: SimpleQueue[Session | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="closer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self, session: Session) -> None:
        """Ends a session soon."""
        self._queue.put(session)

    def stop(self, timeout_s: float) -> None:
        """Ends the thread after what it was given."""
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while (session := self._queue.get()) is not None:
            self._end(session)
