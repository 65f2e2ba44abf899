"""An I/O phase: a stretch of a run in which data is read or written, set apart by silence. Found by `analysis`."""

from __future__ import annotations

from typing import Literal

import msgspec

NS_PER_S = 1_000_000_000


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of one kind, [start_ns, end_ns). Its edges are edges of time bins, so a short one looks up to two bins
    longer than it was and its bandwidth is a lower bound.

    `bytes` is all that moved between the edges, `bandwidth_bytes_per_s` that over the length of the phase,
    `active_ns` the time in bins that hold data (pauses inside the phase excluded).
    """

    kind: Literal["read", "write"]
    start_ns: int
    end_ns: int
    bytes: int
    bandwidth_bytes_per_s: float
    active_ns: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return (self.end_ns - self.start_ns) / NS_PER_S
