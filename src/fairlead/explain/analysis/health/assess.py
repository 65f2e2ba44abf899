"""Component health: forwarders, targets, metadata servers, ports, devices and clients, watched as it goes.

Pure. After Beacon (TOS 2023, section 6): a component is sick when it stays below a share of its known peak for long
enough *while requests queue there or peers of the same job run faster*; else nothing can be told. Loads in, states and
incidents out; the same loads give the same incidents, and a look at a later span goes on with those told before. Not
here: what a person is told (`told`), where loads come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa

from fairlead.core.model.incident import Incident
from fairlead.explain.analysis.component_flows import Axis
from fairlead.explain.analysis.health import demand
from fairlead.explain.analysis.health.canaries import compute_canary_rates, find_canary_peaks
from fairlead.explain.analysis.health.class_peaks import Peak, Peaks
from fairlead.explain.analysis.health.durations import set_incident_persistence
from fairlead.explain.analysis.health.health_states import (
    STATES,
    Windows,
    build_health_states_table,
    judge_health_states,
)
from fairlead.explain.analysis.health.incidents import (
    LAPSED,
    IncidentContext,
    build_health_incident,
    get_incident_end_ns,
)
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.load_cells import LAYERS, build_load_cell_axis, build_load_cells
from fairlead.explain.analysis.health.peers import compare_peers
from fairlead.explain.analysis.health.spells import KnownIncidents, find_spells, is_lasting_spell

__all__ = ["Health", "HealthLimits", "Peak", "assess_health"]


@dataclass(frozen=True, kw_only=True)
class Health:
    """What was seen. `states` has the schema STATES. `begun`: incidents not known before (one may be over already),
    `continued`: known ones that go on, `ended`: known ones that are over, `withdrawn`: known ones that the same time,
    looked at again, does not bear out. `peaks`: what was taken as each component's best, to be given to the next
    look. `missing`: what was not counted and would have told more."""

    states: pa.Table = field(default_factory=STATES.empty_table)
    begun: list[Incident] = field(default_factory=list)
    continued: list[Incident] = field(default_factory=list)
    ended: list[Incident] = field(default_factory=list)
    withdrawn: list[Incident] = field(default_factory=list)
    peaks: dict[tuple[str, str], Peak] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def incidents(self) -> list[Incident]:
        """All that is or was, in order of time."""
        return sorted([*self.begun, *self.continued, *self.ended], key=lambda one: (one.from_ns, one.id))


def assess_health(
    loads: pa.Table,
    interval_ns: int,
    peaks: Peaks,
    events: pa.Table | None,
    *,
    now_ns: int,
    open_incidents: Sequence[Incident] = (),
    limits: HealthLimits | None = None,
    servers: Mapping[str, str] | None = None,
    nodes: Mapping[str, int] | None = None,
    canaries: Mapping[str, pa.Table] | None = None,
) -> Health:
    """States and incidents of a span.

    `loads`: rows of ROLLUP at `interval_ns` (1 s is what this is made for; a longer one hides bursts and finds less),
    wholes and parts of jobs, of any kinds; kind `job` tells of metadata. `peaks`: by (kind, component) or (kind, ""),
    bytes/s or operations/s or `Peak`. `events`: rows of EVENTS. `open_incidents`: what earlier looks told, open or
    over. `servers`: the server of each target; `nodes`: of each job, how many. `canaries`: rows of `target` and
    `metadata` that canaries made. Windows not over by `now_ns` are left out.
    """
    limits = limits or HealthLimits()
    window_ns = max(round(limits.window_s * 1e9) // interval_ns, 1) * interval_ns
    axis = build_load_cell_axis(loads, interval_ns, window_ns, now_ns)
    if axis is None:
        return _unheard(open_incidents, limits, now_ns)
    per = window_ns // interval_ns
    peaks = {**find_canary_peaks(canaries or {}), **peaks}
    found: dict[str, Windows] = {}
    missing: list[str] = []
    for kind in LAYERS:
        windows = _windows(loads, kind, axis, per, peaks, limits, servers or {}, nodes, canaries)
        if windows is None:
            continue
        found[kind] = windows
        if not windows.asked.queues_known and kind in ("forwarder", "target", "mds"):
            missing.append(f"queues of {LAYERS[kind]}s: without them only same-job peers and canaries show sickness")
    pairs = _without_their_devices(found)
    around = IncidentContext(axis, per, limits, now_ns, events, servers or {}, pairs, nodes or {}, found, loads)
    health = Health(
        states=build_health_states_table(found, axis, window_ns, LAYERS),
        missing=missing,
        peaks={
            (kind, name): peak
            for kind, windows in found.items()
            for name, peak in zip(windows.asked.cells.names, windows.asked.peaks, strict=True)
            if peak.bytes_per_s or peak.ops_per_s
        },
    )
    seen: set[str] = set()
    for kind, windows in found.items():
        for place in _worth_a_look(windows, kind, open_incidents):
            seen |= _of_component(health, around, kind, windows, place, open_incidents)
    absent = [one for one in open_incidents if one.id not in seen and one.to_ns is None]
    rest = _unheard(absent, limits, now_ns)
    health.continued.extend(rest.continued)
    health.ended.extend(rest.ended)
    return health


def _windows(
    loads: pa.Table,
    kind: str,
    axis: Axis,
    per: int,
    peaks: Peaks,
    limits: HealthLimits,
    servers: Mapping[str, str],
    nodes: Mapping[str, int] | None,
    canaries: Mapping[str, pa.Table] | None,
) -> Windows | None:
    asked = demand.judge_demand(loads, kind, axis, peaks, limits, servers)
    if asked is None:
        return None
    parts = None if asked.queues_known else build_load_cells(loads, kind, axis, parts=True)
    peers = None
    if parts is not None:
        peers = compare_peers(parts.renumber(asked.cells.names), per, axis.count // per, limits, nodes)
    canary = compute_canary_rates(canaries or {}, kind, asked.cells.names, axis, per)
    return judge_health_states(asked, peers, limits, canary)


def _without_their_devices(found: dict[str, Windows]) -> dict[str, str]:
    """The device of each target that has one. Such a device shows what its target is like: it is not told of twice."""
    pairs = found["target"].asked.pairs if "target" in found else {}
    if pairs:
        names = found["device"].asked.cells.names
        held = frozenset(place for place, name in enumerate(names) if name in pairs.values())
        found["device"] = replace(found["device"], hidden=held)
    return pairs


def _worth_a_look(windows: Windows, kind: str, known: Sequence[Incident]) -> list[int]:
    """Components that were sick in some window or are known to be."""
    told = {one.component for one in known if one.layer == LAYERS[kind]}
    sick = np.flatnonzero(windows.sick.any(axis=1)).tolist()
    return sorted(
        {place for place in sick if place not in windows.hidden}
        | {place for place, name in enumerate(windows.asked.cells.names) if name in told}
    )


def _of_component(
    health: Health, around: IncidentContext, kind: str, windows: Windows, place: int, known: Sequence[Incident]
) -> set[str]:
    """Files the incidents of one component into `health`; ids of the known ones that were looked at."""
    name, axis, limits = windows.asked.cells.names[place], around.axis, around.limits
    mine = [one for one in known if one.layer == LAYERS[kind] and one.component == name]
    earlier = [
        KnownIncidents(one.id, one.from_ns, one.to_ns, get_incident_end_ns(one), LAPSED in one.missing) for one in mine
    ]
    by_id = {one.id: one for one in mine}
    told: set[str] = set()
    before = len([one for one in mine if one.to_ns is not None and one.to_ns <= axis.start_ns])
    for spell in find_spells(windows, place, axis, around.per, limits, around.now_ns, earlier):
        old = by_id.get(spell.id) if spell.id is not None else None
        if old is not None:
            told.add(old.id)
            if not spell.sick and old.from_ns >= axis.start_ns:
                health.withdrawn.append(old)
                continue
            if old.to_ns is not None and spell.last_ns <= old.to_ns:
                continue  # It is over, and was reported when more of it could be seen.
        elif not is_lasting_spell(spell, around.per, axis, limits):
            continue
        one = build_health_incident(around, kind, windows, place, spell, old)
        if one is None:
            continue
        one = set_incident_persistence(one, before, around.now_ns)
        before += 1
        (health.begun if old is None else health.continued if one.to_ns is None else health.ended).append(one)
    return told


def _unheard(known: Sequence[Incident], limits: HealthLimits, now_ns: int) -> Health:
    """Open incidents of components nothing was counted of: they go on, until no report for too long."""
    health = Health()
    for one in known:
        if one.to_ns is not None:
            continue
        seen = get_incident_end_ns(one)
        if now_ns - seen > limits.silent_s * 1e9:
            health.ended.append(msgspec.structs.replace(one, to_ns=seen, missing=[*one.missing, LAPSED]))
        else:
            health.continued.append(one)
    return health
