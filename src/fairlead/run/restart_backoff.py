"""When a child that ended is started again: soon at first, then after pauses that grow. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
WELL_S = 30.0
"""A child that ran so long before it ended begins with the first pause again."""


@dataclass(slots=True)
class Restarts:
    """Of one child."""

    count: int = 0
    """Ends so far that were not asked for."""
    _pause_s: float = FIRST_PAUSE_S

    def pause_s(self, ran_s: float) -> float:
        """The pause before it is started again, having run for `ran_s`."""
        self.count += 1
        if ran_s >= WELL_S:
            self._pause_s = FIRST_PAUSE_S
        pause_s = self._pause_s
        self._pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
        return pause_s
