"""One letter for a run: what share of it was lost to I/O beyond what is usual.

Not here: how much was lost (`why`, `pages.mine`).
"""

from __future__ import annotations

GRADES = (("A", 0.01), ("B", 0.05), ("C", 0.15), ("D", 0.30))
"""A letter and the share of the run below which it is given; beyond the last: F."""


def grade_of(lost_s: float | None, start_ns: int | None, end_ns: int | None) -> str | None:
    """A to F by the share of [start_ns, end_ns] that was lost; None where either is not known."""
    if lost_s is None or start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    share = max(lost_s, 0.0) / ((end_ns - start_ns) / 1e9)
    return next((letter for letter, below in GRADES if share < below), "F")
