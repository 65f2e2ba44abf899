"""Copies of one incident: incidents of one component whose times overlap are one, the earliest.

Pure. A lake of an earlier version may hold many copies of one fault, each with a start of its own. Not here: how an
incident is continued without a copy (`spells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from fairlead.core.model.incident import Incident
from fairlead.explain.analysis.health.incidents import MOST_JOBS


def merge_incident_copies(incidents: Sequence[Incident]) -> tuple[list[Incident], list[Incident]]:
    """Return the incidents with each group of overlapping ones of a component merged, in order of time, and the copies
    that are no longer needed. A merged one has the id and the start of the earliest, goes on until the last is over,
    and says what the latest says."""
    kept: list[Incident] = []
    copies: list[Incident] = []
    order = sorted(incidents, key=lambda one: (one.layer, one.component, one.from_ns, one.id))
    for _, mine in groupby(order, lambda one: (one.layer, one.component)):
        last: Incident | None = None
        for one in mine:
            if last is None or (last.to_ns is not None and last.to_ns < one.from_ns):
                kept.append(one)
                last = one
                continue
            copies.append(one)
            ends = (last.to_ns, one.to_ns)
            last = msgspec.structs.replace(
                one,
                id=last.id,
                from_ns=last.from_ns,
                to_ns=None if None in ends else max(end for end in ends if end is not None),
                jobs=sorted({*last.jobs, *one.jobs})[:MOST_JOBS],
            )
            kept[-1] = last
    return sorted(kept, key=lambda one: (one.from_ns, one.id)), copies
