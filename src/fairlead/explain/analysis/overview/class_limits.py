"""Bounds and classes of the published statistics (Beacon: Yang et al., ACM TOS 2023, sections 5 to 7)."""

from __future__ import annotations

NONTRIVIAL_BYTES = 200_000_000
"""A job that moved more has non-trivial I/O."""
CORE_HOURS = ((1_000, "(0,1K]"), (10_000, "(1K,10K]"), (100_000, "(10K,100K]"), (1_000_000, "(100K,1000K]"))
"""Upper edge in core-hours (inclusive) and name of a class of jobs; above is `LARGEST`."""
LARGEST = ">1000K"
LEVELS = (("idle", 0.1), ("low", 0.5), ("mid", 0.9), ("high", float("inf")))
"""Level of a forwarder's hour and the share of the peak its busiest minute ends below."""
MODES = ("N-N", "N-M", "N-1", "1-1")


def classify_share_by_limits(share: float | None) -> str | None:
    """idle, low, mid or high; None stays unknown."""
    return None if share is None else next((name for name, below in LEVELS if share < below), LEVELS[-1][0])
