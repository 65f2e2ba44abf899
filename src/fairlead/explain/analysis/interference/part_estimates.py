"""Parts by job of components that count nobody apart: each job's own traffic, spread over the components it uses. Pure.

An estimate, and marked so (`Component.counted` stays False).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.interference.load_arrays import Component, Loads, Measures, cap_load_parts
from fairlead.explain.analysis.interference.scene import Victim

_LISTS = {"forwarder": "forwarders", "target": "targets", "mds": "mds"}
_NOT_SPREAD = ("wait_s", "waits", "queue", "busy_s")


def add_part_estimates(loads: Loads, victim: Victim, neighbours: pa.Table) -> tuple[Loads, list[str]]:
    """The same with parts where a component has none and it is known which jobs used it; and what was estimated."""
    bare = [one for one in loads.components if not one.counted]
    if not bare:
        return loads, []
    users = _users(loads, victim, neighbours)
    made, told = [], []
    for one in loads.components:
        spread = None if one.counted else _spread(loads, one, users)
        made.append(one if spread is None else replace(one, parts=spread))
        if spread is not None:
            told.append(f"{one.id} has no counters by job: shares are estimated from the jobs' own traffic")
    return replace(loads, components=tuple(made)), told


def _users(loads: Loads, victim: Victim, neighbours: pa.Table) -> dict[str, dict[str, set[int]]]:
    """By kind: the names each component has, and which jobs (by place) use it."""
    place = {name: number for number, name in enumerate(loads.jobs)}
    found: dict[str, dict[str, set[int]]] = {kind: {} for kind in _LISTS}
    for kind, column in _LISTS.items():
        for name in getattr(victim, column):
            found[kind].setdefault(name, set()).add(0)
        if column not in neighbours.schema.names:
            continue
        for job, names in zip(neighbours["job_id"].to_pylist(), neighbours[column].to_pylist(), strict=True):
            for name in names or ():
                if job in place:
                    found[kind].setdefault(name, set()).add(place[job])
    return found


def _spread(loads: Loads, one: Component, users: Mapping[str, Mapping[str, set[int]]]) -> Measures | None:
    mine = users[one.kind].get(one.id, set())
    if not mine:
        return None
    share = np.zeros(len(loads.jobs))
    for job in mine:
        share[job] = 1.0 / sum(job in jobs for jobs in users[one.kind].values())
    blank = np.full((len(loads.jobs), loads.axis.count), np.nan)
    parts = {
        name: blank if name in _NOT_SPREAD else np.nan_to_num(getattr(loads.own, name)) * share[:, None]
        for name in Measures.__dataclass_fields__
    }
    return cap_load_parts(Measures(**parts), one.whole)
