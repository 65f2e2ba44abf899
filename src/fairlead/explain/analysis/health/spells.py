"""Runs of sick windows of one component (spells): when each begins, continues, recurs and ends.

Pure. Silence neither ends nor extends a spell. It continues when the component is seen sick again; after too long a
silence it ends at the last sick observation. Not here: what a spell is called and what shows it (`incidents`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairlead.explain.analysis.component_flows import Axis
from fairlead.explain.analysis.health.health_states import FLAPS, OK, SICK, UNKNOWN, Windows
from fairlead.explain.analysis.health.limits import HealthLimits


@dataclass
class Spell:
    """A run of sick windows. Times in ns. `last_ns`: the end of what was seen sick last; `to_ns` None: not over.
    `begun_before`: it began before the analysed span; `lapsed`: it ended because no more data came."""

    from_ns: int
    last_ns: int
    id: str | None = None
    to_ns: int | None = None
    sick: list[int] = field(default_factory=list)
    flaps: int = 0
    ok: int = 0
    turns: int = 0
    """How often it recovered for at least one window and became sick again."""
    lapsed: bool = False
    begun_before: bool = False


@dataclass(frozen=True)
class KnownIncidents:
    """A spell as an earlier round reported it."""

    id: str
    from_ns: int
    to_ns: int | None
    last_ns: int


def find_spells(
    windows: Windows, place: int, axis: Axis, per: int, limits: HealthLimits, now_ns: int, known: list[KnownIncidents]
) -> list[Spell]:
    """Return the spells of one component in order of time. `per`: intervals of the axis in a window. A spell that
    continues a known one keeps its id and its start."""
    found: list[Spell] = []
    now: Spell | None = None
    well = 0
    state = windows.state[place]
    length_ns = per * axis.window_ns
    carried = sorted(known, key=lambda one: one.from_ns)
    for w in range(len(state)):
        begins = axis.start_ns + w * length_ns
        ends = begins + length_ns
        if now is None and carried and carried[0].from_ns < ends:
            one = carried.pop(0)
            if one.to_ns is None or one.to_ns > begins:
                now = Spell(
                    one.from_ns, max(one.last_ns, one.from_ns), one.id, begun_before=one.from_ns < axis.start_ns
                )
                well = 0
        if state[w] in (SICK, FLAPS):
            first, last = int(windows.first[place, w]), int(windows.last[place, w])
            if now is None and state[w] == FLAPS:
                continue
            if now is None:
                now = Spell(axis.from_ns(first) if first >= 0 else begins, begins)
            if well:
                now.turns += 1
            now.sick.append(w)
            now.flaps += int(state[w] == FLAPS)
            now.last_ns = axis.to_ns(last) if last >= 0 else ends
            well = 0
        elif now is None:
            continue
        elif state[w] == OK or _relieved(windows, place, w, now, limits):
            well += 1
            now.ok += 1
            if well >= limits.recovered:
                now.to_ns = now.last_ns
                found.append(now)
                now, well = None, 0
        else:
            if ends - now.last_ns > limits.silent_s * 1e9:
                now.to_ns, now.lapsed = now.last_ns, True
                found.append(now)
                now, well = None, 0
    if now is not None:
        if now_ns - now.last_ns > limits.silent_s * 1e9:
            now.to_ns, now.lapsed = now.last_ns, True
        found.append(now)
    return found


def _relieved(windows: Windows, place: int, w: int, now: Spell, limits: HealthLimits) -> bool:
    """Whether it moves far more than while it was sick, although nothing waits."""
    if windows.state[place, w] != UNKNOWN or not now.sick:
        return False
    while_sick = windows.share[place, now.sick]
    if not np.isfinite(while_sick).any():
        return False
    return bool(windows.top[place, w] > max(limits.relief * float(np.nanmedian(while_sick)), 0.02))


def is_lasting_spell(spell: Spell, per: int, axis: Axis, limits: HealthLimits) -> bool:
    """Whether a spell is long enough to report: at least the minimum in all, seen sick for a quarter of the minimum, in
    at least two windows, and in at least as many windows as it was seen well."""
    window_s = per * axis.window_s
    seen = len(spell.sick) * window_s
    first = spell.sick[0] * window_s if spell.sick else 0.0
    long = bool(spell.sick) and (spell.sick[-1] + 1) * window_s - first >= limits.minimum_s
    throughout = len(spell.sick) - spell.flaps
    enough = throughout >= 2 and seen >= 0.25 * limits.minimum_s
    return long and enough and len(spell.sick) >= spell.ok - limits.recovered
