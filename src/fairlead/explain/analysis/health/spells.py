"""Runs of sick windows of one component (spells): when each begins, continues, recurs and ends.

Pure. One fault is one spell, however often and in whatever pieces its time is looked at:

    none ──sick──► open ──`recovered` windows ok──► over ──sick again, see `_rejoin_spell`──► open
                    └──silent for too long──► over (lapsed)

Silence neither ends nor extends a spell. It continues when the component is seen sick again; after too long a silence
it ends at the last sick observation. A spell that an earlier round reported is continued with its id and start. Not
here: what a spell is called and what shows it (`incidents`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairlead.explain.analysis.component_flows import Axis
from fairlead.explain.analysis.health.health_states import FLAPS, OK, SICK, UNKNOWN, Windows
from fairlead.explain.analysis.health.limits import HealthLimits

REJOIN_SILENT_NS = 86_400 * 1_000_000_000
"""A component that was sick before and after a silence of at most so long was sick throughout, when nothing in between
shows otherwise."""


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
    proven_over: bool = False
    """Whether it was seen well after it."""


@dataclass(frozen=True)
class KnownIncidents:
    """A spell as an earlier round reported it."""

    id: str
    from_ns: int
    to_ns: int | None
    last_ns: int
    lapsed: bool = False
    """It ended because no more data came."""


def find_spells(
    windows: Windows, place: int, axis: Axis, per: int, limits: HealthLimits, now_ns: int, known: list[KnownIncidents]
) -> list[Spell]:
    """Return the spells of one component in order of time. `per`: intervals of the axis in a window. A spell that
    continues a known one keeps its id and its start; known ones do not overlap (`merge_incident_copies`)."""
    found: list[Spell] = []
    now: Spell | None = None
    over: Spell | None = None
    well = 0
    state = windows.state[place]
    length_ns = per * axis.window_ns
    carried = sorted(known, key=lambda one: one.from_ns)
    for w in range(len(state)):
        begins = axis.start_ns + w * length_ns
        ends = begins + length_ns
        while carried and carried[0].from_ns < ends:
            one = carried.pop(0)
            told = Spell(one.from_ns, max(one.last_ns, one.from_ns), one.id, begun_before=one.from_ns < axis.start_ns)
            if one.to_ns is not None and one.to_ns <= begins:
                told.to_ns = one.to_ns
                # What lay between is known only where it was examined.
                told.proven_over = not one.lapsed or one.to_ns < axis.start_ns - length_ns
                over = told
            elif now is None:
                now, well = told, 0
            elif now.id is None:
                # It was sick before it was first reported to be: records of that came late.
                now.id, now.last_ns = one.id, max(now.last_ns, told.last_ns)
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
            now.last_ns = max(now.last_ns, axis.to_ns(last) if last >= 0 else ends)
            well = 0
            if over is not None and _rejoin_spell(over, now, length_ns, axis, limits):
                found = [one for one in found if one is not over]
                over = None
        elif state[w] == OK or (now is not None and _relieved(windows, place, w, now, limits)):
            if over is not None:
                over.proven_over = True
            if now is None:
                continue
            well += 1
            now.ok += 1
            if well >= limits.recovered:
                now.to_ns, now.proven_over = now.last_ns, True
                found.append(now)
                over = now if now.id is not None or is_lasting_spell(now, per, axis, limits) else over
                now, well = None, 0
        elif now is not None and ends - now.last_ns > limits.silent_s * 1e9:
            now.to_ns, now.lapsed = now.last_ns, True
            found.append(now)
            over = now if now.id is not None or is_lasting_spell(now, per, axis, limits) else over
            now, well = None, 0
    if now is not None:
        if now_ns - now.last_ns > limits.silent_s * 1e9:
            now.to_ns, now.lapsed = now.last_ns, True
        found.append(now)
    return found


def _rejoin_spell(over: Spell, now: Spell, length_ns: int, axis: Axis, limits: HealthLimits) -> bool:
    """Make `now` the continuation of `over`, a reported spell, when that was not really over: the component was well
    for at most `reopen_s`, and since then was sick for at least as long as the pause; or nothing showed it well in
    between. Return whether it is."""
    if now.id is not None or over.to_ns is None:
        return False
    pause_ns = axis.start_ns + now.sick[0] * length_ns - over.to_ns
    if over.proven_over:
        if pause_ns > limits.reopen_s * 1e9 or len(now.sick) * length_ns < pause_ns:
            return False
    elif pause_ns > REJOIN_SILENT_NS:
        return False
    now.id, now.from_ns, now.begun_before = over.id, over.from_ns, over.begun_before
    now.sick = [*over.sick, *now.sick]
    now.flaps += over.flaps
    now.ok += over.ok
    now.turns += over.turns + 1
    return True


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
