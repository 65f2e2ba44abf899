"""One letter for a run: what share of it was lost to I/O beyond what is usual. The limits are those of a report.

Not here: how much was lost (`why`, `pages.mine`).
"""

from __future__ import annotations

from fairlead.explain.analysis.grade import LIMITS


def grade_lost_time(lost_s: float | None, start_ns: int | None, end_ns: int | None) -> str | None:
    """A to F by the share of [start_ns, end_ns] that was lost; None where either is not known."""
    if lost_s is None or start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    share = max(lost_s, 0.0) / ((end_ns - start_ns) / 1e9)
    return next((letter for below, letter in LIMITS if share < below), "F")
