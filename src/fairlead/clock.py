"""The only module that reads a clock. Everything else takes its times as arguments."""

from __future__ import annotations

import time


def now_ns() -> int:
    """Wall-clock time, integer nanoseconds since the Unix epoch, UTC."""
    return time.time_ns()


def monotonic_s() -> float:
    """Seconds of a clock that never goes back; only differences mean something."""
    return time.monotonic()


def sleep_s(seconds: float) -> None:
    """Waits that many seconds."""
    time.sleep(seconds)
