"""Who may ask how much at once: bounded places, a bounded queue, a share of them for each reader. One event loop.

Not here: what is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque


class BusyError(Exception):
    """No place: too many wait (`full`), this reader has its share (`own`), or none came free in time (`late`)."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Gate:
    """Places for questions. One is given back when the work is over, not when somebody stops waiting for its answer."""

    def __init__(self, places: int, waiting: int, wait_s: float, each: int) -> None:
        self._free = places
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._each = each
        self._held: Counter[str] = Counter()
        self._queue: deque[asyncio.Future[None]] = deque()

    async def enter(self, reader: str) -> None:
        """Takes a place for `reader`, waiting for one. `leave` gives it back. Raises BusyError."""
        if self._held[reader] >= self._each:
            raise BusyError("own")
        if not self._free and len(self._queue) >= self._most_waiting:
            raise BusyError("full")
        self._held[reader] += 1
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await asyncio.wait_for(turn, self._wait_s)
        except BaseException as end:
            if turn.done() and not turn.cancelled():  # it came free while its waiter was being told to stop
                self._next()
            elif turn in self._queue:
                self._queue.remove(turn)
            self._drop(reader)
            if isinstance(end, TimeoutError):
                raise BusyError("late") from None
            raise

    def leave(self, reader: str) -> None:
        """Gives a place back."""
        self._drop(reader)
        self._next()

    def _next(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _drop(self, reader: str) -> None:
        self._held[reader] -= 1
        if self._held[reader] <= 0:
            del self._held[reader]
