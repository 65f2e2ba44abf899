"""How long components were sick: Beacon's table of durations by layer, and the persistence of an incident.

Pure. Durations: (0,1) [1,4) [4,12) [12,96) [96,inf) hours (TOS 2023, section 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fairlead.core.model.incident import DURATIONS_H, Incident

_HOUR_S = 3600.0


@dataclass(frozen=True)
class DurationRow:
    """Incidents of one layer by duration class (DURATIONS_H); `open` of them have not ended."""

    layer: str
    counts: tuple[int, ...]
    open: int


def classify_duration(seconds: float) -> int:
    """Return the index of a duration (seconds) in DURATIONS_H."""
    hours = seconds / _HOUR_S
    return next(place for place, (low, high) in enumerate(DURATIONS_H) if low <= max(hours, 0.0) < high)


def count_durations(incidents: Sequence[Incident], now_ns: int) -> list[DurationRow]:
    """Return one row for each layer with incidents, by name. An open incident counts with its duration so far."""
    rows = []
    for layer in sorted({one.layer for one in incidents}):
        mine = [one for one in incidents if one.layer == layer]
        counts = [0] * len(DURATIONS_H)
        for one in mine:
            counts[classify_duration(one.compute_duration_s(now_ns))] += 1
        rows.append(DurationRow(layer, tuple(counts), sum(one.to_ns is None for one in mine)))
    return rows


def set_incident_persistence(one: Incident, earlier: int, now_ns: int) -> Incident:
    """Return the incident with its persistence: recurrent if the component had `earlier` ones, persistent from an hour
    on, else transient."""
    word = "recurrent" if earlier else "persistent" if one.compute_duration_s(now_ns) >= _HOUR_S else "transient"
    return msgspec.structs.replace(one, persistence=word)
