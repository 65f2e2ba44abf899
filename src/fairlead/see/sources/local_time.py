"""Local wall-clock seconds, as logs and accounting write them, to epoch nanoseconds in UTC; whole columns at a time.

Where a clock was set back the earlier instant is taken, where it jumped ahead the instant after the jump.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.core.model.unit_formats import NS_PER_S

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
_KNOWN_OFFSETS = {"UTC": 0, "GMT": 0, "Z": 0, "Asia/Shanghai": 8 * 3600}
"""Zones read without the system's time zone data (Shanghai has kept UTC+8 since 1992)."""

_LAST_TABLED_S = 2_114_380_800
"""2037: Arrow knows the tables of zones, which end there, not the rules behind them."""


def parse_local_offset(zone: str) -> int | None:
    """Seconds east of UTC when `zone` is `UTC`, `+08:00` or the like; None when it names a region."""
    if zone in _KNOWN_OFFSETS:
        return _KNOWN_OFFSETS[zone]
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    sign, hours, minutes = match.groups()
    return (-1 if sign == "-" else 1) * (int(hours) * 3600 + int(minutes or 0) * 60)


def convert_local_to_utc_ns(local_s: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """Seconds since 1970-01-01T00:00:00 local time → epoch nanoseconds. Raises UsageError for an unknown zone."""
    offset = parse_local_offset(zone)
    if offset is not None:
        return (local_s - offset) * NS_PER_S
    stamps = pa.array(local_s, pa.int64()).cast(pa.timestamp("s"))
    try:
        aware = pc.assume_timezone(stamps, zone, ambiguous="earliest", nonexistent="latest")
    except (pa.ArrowInvalid, pa.ArrowKeyError) as fault:
        raise _unknown(zone) from fault
    seconds = np.array(aware.cast(pa.int64()))
    far = np.flatnonzero(local_s >= _LAST_TABLED_S)
    if len(far):
        seconds[far] = [_one_utc_s(int(s), zone) for s in local_s[far]]
    return seconds * NS_PER_S


def _one_utc_s(local_s: int, zone: str) -> int:
    """One time by the rule that continues a zone's table."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=local_s)
    return int(wall.replace(tzinfo=ZoneInfo(zone)).timestamp())


def check_local_time_zone(zone: str) -> str:
    """`zone` itself when it can be used. Raises UsageError."""
    convert_local_to_utc_ns(np.zeros(1, np.int64), zone)
    return zone


def _unknown(zone: str) -> UsageError:
    return UsageError(
        f"unknown time zone {zone!r}",
        remedy="use a name such as Europe/Berlin (needs the system's tzdata) or an offset such as +08:00",
    )
