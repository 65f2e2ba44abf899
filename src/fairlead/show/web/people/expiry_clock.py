"""Time for what expires: it follows the clock but never goes back, so that a clock set back keeps nothing alive.

While a process runs it goes on at the steady clock's pace at least; between processes it begins where the file says the
last one was. Not here: times that are shown, which are the clock's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fairlead.core import clock


class ExpiryClock:
    """`now` in epoch ns, at least `begin_ns`. Threads may share one."""

    def __init__(
        self, wall: Callable[[], int], begin_ns: int = 0, steady: Callable[[], int] = clock.monotonic_ns
    ) -> None:
        self.wall, self._steady = wall, steady
        self._lock = threading.Lock()
        self._last, self._at = max(wall(), begin_ns), steady()

    def read_now(self) -> int:
        """The time things are dated and judged by."""
        with self._lock:
            at = self._steady()
            self._last = max(self.wall(), self._last + at - self._at)
            self._at = at
            return self._last

    def to_wall_clock(self, at_ns: int) -> int:
        """A time of this course as the clock on the wall will show it."""
        return at_ns - (self.read_now() - self.wall())
