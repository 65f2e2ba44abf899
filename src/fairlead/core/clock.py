"""The only module that reads a clock. Everything else takes its times as arguments, or these functions."""

from __future__ import annotations

import time

now_ns = time.time_ns
"""Wall-clock time, integer nanoseconds since the Unix epoch, UTC."""

monotonic_ns = time.monotonic_ns
"""Nanoseconds of a clock that never goes back; only differences mean something."""

monotonic_s = time.monotonic
"""Seconds of the same clock."""

sleep_s = time.sleep
"""Waits that many seconds."""
