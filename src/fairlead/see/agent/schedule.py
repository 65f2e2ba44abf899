"""When things are due: steady grids and stepping clocks. Pure; times are arguments. Not here: what is done then."""

from typing import Optional
from zlib import crc32

SECOND_NS = 10**9
STEP_NS = SECOND_NS // 2
"""A wall clock that moves this much against the monotonic one was set; less is a clock being disciplined."""


class Grid:
    """Ticks `period_ns` apart. One that is missed is skipped and counted, never made up for."""

    def __init__(self, first_ns: int, period_ns: int) -> None:
        self.next_ns = first_ns
        self.missed = 0
        self._period_ns = period_ns

    def is_due(self, now_ns: int) -> bool:
        """Whether its tick has come."""
        return now_ns >= self.next_ns

    def take_tick(self, now_ns: int) -> None:
        """The tick is taken: the next one lies on the grid after `now_ns`."""
        passed = (now_ns - self.next_ns) // self._period_ns
        self.missed += passed
        self.next_ns += (passed + 1) * self._period_ns

    def delay_next(self, now_ns: int, wait_ns: int) -> None:
        """The next tick is the first on the grid after `wait_ns` from now; what lies between is not missed."""
        ahead = max(now_ns + wait_ns - self.next_ns, 0)
        self.next_ns += -(-ahead // self._period_ns) * self._period_ns


def align_schedule(mono_ns: int, wall_ns: int, period_ns: int, phase_ns: int = 0) -> int:
    """The next monotonic time at which the wall clock is a multiple of the period, plus a phase.

    Nodes whose clocks agree look at their counters at the same moment: what is one job's on many nodes is seen side by
    side, and a parallel program is disturbed once and not by every node at another time.
    """
    return mono_ns + (phase_ns - wall_ns) % period_ns


def find_schedule_phase(node: str, period_ns: int) -> int:
    """Where in a period a node sends: spread evenly over nodes, the same at every start."""
    return crc32(node.encode("utf-8", "surrogateescape")) * period_ns >> 32


class Steps:
    """Sees when the wall clock was set."""

    def __init__(self) -> None:
        self._ahead_ns: Optional[int] = None

    def look(self, mono_ns: int, wall_ns: int) -> int:
        """By how much the wall clock was set since the look before; 0 when it was not."""
        ahead, before = wall_ns - mono_ns, self._ahead_ns
        moved = 0 if before is None else ahead - before
        # A slow drift is followed, so that it never adds up to a step.
        self._ahead_ns = ahead
        return moved if abs(moved) >= STEP_NS else 0
