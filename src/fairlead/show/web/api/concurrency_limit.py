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
    """Places for questions. A reader holds at most `each` of them; what more the reader asks waits its turn, so that a
    page may ask all it needs at once. A place is given back when the work is over, not when somebody stops waiting for
    its answer."""

    def __init__(self, places: int, waiting: int, wait_s: float, each: int, waiting_each: int) -> None:
        self._free = places
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._each = each
        self._waiting_each = waiting_each
        self._held: Counter[str] = Counter()
        self._queue: deque[tuple[str, asyncio.Future[None]]] = deque()

    async def enter(self, reader: str) -> None:
        """Takes a place for `reader`, waiting for one. `leave` gives it back. Raises BusyError."""
        if self._free and self._held[reader] < self._each:
            self._free -= 1
            self._held[reader] += 1
            return
        if sum(who == reader for who, _ in self._queue) >= self._waiting_each:
            raise BusyError("own")
        if len(self._queue) >= self._most_waiting:
            raise BusyError("full")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((reader, turn))
        try:
            await asyncio.wait_for(turn, self._wait_s)
        except BaseException as end:
            if turn.done() and not turn.cancelled():  # it came free while its waiter was being told to stop
                self.leave(reader)
            elif (reader, turn) in self._queue:
                self._queue.remove((reader, turn))
            if isinstance(end, TimeoutError):
                raise BusyError("late") from None
            raise

    def leave(self, reader: str) -> None:
        """Gives a place back: to who waits longest of those who may hold one more."""
        self._held[reader] -= 1
        if self._held[reader] <= 0:
            del self._held[reader]
        self._free += 1
        for one in list(self._queue):
            if not self._free:
                return
            who, turn = one
            if turn.done():
                self._queue.remove(one)
            elif self._held[who] < self._each:
                self._queue.remove(one)
                self._free -= 1
                self._held[who] += 1
                turn.set_result(None)
