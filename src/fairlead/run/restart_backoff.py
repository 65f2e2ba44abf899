"""When a child that ended is started again: soon when it was killed, after pauses that grow when it fails by itself.
Time is an argument.

A kill comes from outside (a person, the kernel short of memory) and says nothing against another start. A child that
fails by itself would fail again at once and burn a core: its pauses double.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
WELL_S = 30.0
"""A child that ran so long before it ended begins with the first pause again."""
KILLS = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
"""Exit codes of a child that somebody else ended."""


@dataclass(slots=True)
class Restarts:
    """Of one child."""

    count: int = 0
    """Ends so far that were not asked for."""
    _pause_s: float = FIRST_PAUSE_S

    def pause_s(self, ran_s: float, code: int) -> float:
        """The pause before it is started again, having run for `ran_s` and ended with `code` (negative: a signal)."""
        self.count += 1
        if code in KILLS:
            return FIRST_PAUSE_S
        if ran_s >= WELL_S:
            self._pause_s = FIRST_PAUSE_S
        pause_s = self._pause_s
        self._pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        return pause_s
