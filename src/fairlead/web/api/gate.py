"""Who may ask how much at once: bounded places, a bounded queue, a share of them for each reader. One event loop.

Not here: what is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter


class BusyError(Exception):
    """No place: too many wait (`full`), this reader has its share (`own`), or none came free in time (`late`)."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Gate:
    """Places for questions. One is given back when the work is over, not when somebody stops waiting for its answer."""

    def __init__(self, places: int, waiting: int, wait_s: float, each: int) -> None:
        self._places = asyncio.Semaphore(places)
        self._waiting = 0
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._each = each
        self._held: Counter[str] = Counter()

    async def enter(self, reader: str) -> None:
        """Takes a place for `reader`, waiting for one. `leave` gives it back. Raises BusyError."""
        if self._held[reader] >= self._each:
            raise BusyError("own")
        if self._places.locked() and self._waiting >= self._most_waiting:
            raise BusyError("full")
        self._held[reader] += 1
        self._waiting += 1
        try:
            await asyncio.wait_for(self._places.acquire(), self._wait_s)
        except TimeoutError:
            self._drop(reader)
            raise BusyError("late") from None
        except BaseException:
            self._drop(reader)
            raise
        finally:
            self._waiting -= 1

    def leave(self, reader: str) -> None:
        """Gives a place back."""
        self._places.release()
        self._drop(reader)

    def _drop(self, reader: str) -> None:
        self._held[reader] -= 1
        if self._held[reader] <= 0:
            del self._held[reader]
