"""Likely causes of an incident, from the course of what the component moved and from what happened around it.

Pure. A hint is where to look first, with what speaks for it; it is `unknown` rather than a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.component_flows import Floats

REBUILD = ("raid_rebuild", "raid_rebuilt", "raid_check", "disk_failed")
"""Kinds of events that a RAID array under rebuild writes."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """An incident as hints see it. `share`: of the peak, window by window while more was asked, in order of time;
    `over`: it has ended; `events`: kinds of events of the component and around it meanwhile; `used`: share of its room;
    `missed`: of what was asked, the share the cache did not have (NaN: not known), `missed_before` the same earlier;
    `siblings`: share of the other targets of its server that were sick in the same windows (NaN: it has none, or none
    were asked); `begins`: its beginning was seen; `follows_job`: it was slow with one job and only then; `dead`: it
    moved nothing."""

    share: Floats
    over: bool
    events: frozenset[str] = frozenset()
    used: float = float("nan")
    missed: float = float("nan")
    missed_before: float = float("nan")
    siblings: float = float("nan")
    begins: bool = True
    follows_job: bool = False
    dead: bool = False
    full: float = 0.95


def find_cause_hint(course: Course) -> tuple[str, str]:
    """(hint, what speaks for it). The surest first: what was logged or counted, then the shape of the course."""
    if course.dead:
        return "dead", "It answered no requests."
    if course.events & set(REBUILD):
        return "rebuild", "One of its RAID arrays was being rebuilt or checked."
    if course.used >= course.full:
        return "full_target", f"{course.used:.0%} of its space is used: allocation slows down."
    if "port_errors" in course.events or "link_down" in course.events:
        return "network", "Its port reported errors at that time."
    if course.siblings >= 0.99:
        return "network", "All other targets of its server with requests were as slow: the server or its link."
    if course.missed >= 0.5 and course.missed - course.missed_before >= 0.25:
        return "cache_thrashing", f"Its cache missed {course.missed:.0%} of the requests, far more than before."
    shape = _shape(course.share, begins=course.begins, over=course.over)
    if shape is not None:
        return shape
    if course.follows_job:
        return "one_client", "One job made nearly all requests while it was slow, and without that job it was not slow."
    return "unknown", "The cause is not known."


def _shape(share: Floats, *, begins: bool, over: bool) -> tuple[str, str] | None:
    """Beginnings that sink by steps, and ends that recover by steps."""
    known = share[np.isfinite(share)]
    if len(known) < 6:
        return None
    third = max(len(known) // 3, 2)
    first, middle, last = known[:third], known[third : len(known) - third], known[-third:]
    low = float(np.median(middle)) if len(middle) else float(np.median(known))
    if over and float(last[-1]) >= 1.3 * low and _rises(last):
        return "rebuild", "It recovered in steps towards its end, as an array under rebuild does."
    if begins and float(first[0]) >= 1.3 * low and _rises(-first):
        return "fail_slow", "It degraded in steps, as failing hardware does."
    return None


def _rises(values: Floats) -> bool:
    """Whether most steps go up."""
    steps = np.diff(values)
    return bool((steps > 0).sum() > 0.6 * len(steps)) if len(steps) else False
