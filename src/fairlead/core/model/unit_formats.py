"""Human formatting of sizes, rates, times and counts, in one place.

Sizes are binary (KiB, MiB, GiB: powers of 1024); bandwidths follow them (GiB/s). `decimal=True` gives GB (powers of
1000), as vendors and `df -H` do. A missing value is shown as an em dash, never as zero.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

NS_PER_S = 1_000_000_000
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
ABSENT = "—"

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_COUNTS = ("", " k", " M", " G", " T")


def _scaled(value: float, base: float, last: int) -> tuple[float, int]:
    power = 0
    # 999.95 would print as "1000.0": step up before rounding does.
    limit = base - 0.05 if base == 1000 else base - 0.5
    while abs(value) >= limit and power < last:
        value /= base
        power += 1
    return value, power


def _digits(value: float) -> str:
    text = f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
    return text.removesuffix(".0")


def _absent(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def format_bytes(value: float | None, *, decimal: bool = False) -> str:
    """`1536` → `1.5 KiB` (or `1.5 kB` with `decimal`); None or NaN → an em dash."""
    if value is None or _absent(value):
        return ABSENT
    names = _DECIMAL if decimal else _BINARY
    scaled, power = _scaled(float(value), 1000.0 if decimal else 1024.0, len(names) - 1)
    return f"{_digits(scaled)} {names[power]}"


def format_bandwidth(value: float | None, *, decimal: bool = False) -> str:
    """Bytes per second → `1.5 GiB/s`."""
    text = format_bytes(value, decimal=decimal)
    return text if text == ABSENT else f"{text}/s"


def format_count(value: float | None) -> str:
    """`1234567` → `1.2 M`; whole numbers below 10,000 are exact."""
    if value is None or _absent(value):
        return ABSENT
    if abs(value) < 10_000 and float(value).is_integer():
        return f"{int(value):,}"
    scaled, power = _scaled(float(value), 1000.0, len(_COUNTS) - 1)
    return f"{_digits(scaled)}{_COUNTS[power]}"


def format_ratio(value: float | None) -> str:
    """`0.0312` → `0.0312`, `16.52` → `16.5`, `2048` → `2,048`: three digits, never an exponent for large ones."""
    if value is None or _absent(value):
        return ABSENT
    return format_count(round(value)) if abs(value) >= 1000 else f"{value:.3g}"


def format_percent(fraction: float | None) -> str:
    """`0.1234` → `12 %`; small shares keep a digit."""
    if fraction is None or _absent(fraction):
        return ABSENT
    percent = fraction * 100
    return f"{percent:.0f} %" if abs(percent) >= 10 or percent == 0 else f"{percent:.1f} %"


def format_duration(seconds: float | None) -> str:
    """Seconds → `830 µs`, `12 ms`, `3.4 s`, `2 min 05 s`, `3 h 10 min`, `2 d 4 h`."""
    if seconds is None or _absent(seconds):
        return ABSENT
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 1e-6:
        return f"{seconds * 1e9:.0f} ns"
    if seconds < 999.5e-6:
        return f"{_digits(seconds * 1e6)} µs"
    if seconds < 0.9995:
        return f"{_digits(seconds * 1e3)} ms"
    if seconds < 99.95:
        return f"{_digits(seconds)} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def format_time(ns: int | None) -> str:
    """Epoch nanoseconds → `2018-02-25 10:00:12 UTC`."""
    if ns is None:
        return ABSENT
    try:
        return datetime.fromtimestamp(ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns since 1970"
