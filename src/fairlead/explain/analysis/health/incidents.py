"""A spell of sickness as an incident: how sick, how sure, whose jobs, what shows it and what may be the cause.

Pure. Not here: when a spell begins and ends (`spells`), what a person is advised (`told`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.finding import Evidence
from fairlead.core.model.identity import compute_short_identity
from fairlead.core.model.incident import Incident
from fairlead.core.model.unit_formats import format_bandwidth, format_count
from fairlead.explain.analysis.component_flows import Axis, Bools, Floats
from fairlead.explain.analysis.health.cause_hints import Course, find_cause_hint
from fairlead.explain.analysis.health.class_peaks import CANARY, GIVEN, Peak
from fairlead.explain.analysis.health.health_states import OK, PEERS, Windows
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.load_cells import LAYERS, Cells, build_load_cells
from fairlead.explain.analysis.health.spells import Spell

SEEN = "seen_last_ns"
"""Metric of the evidence that says until when an incident was seen."""
MAINTENANCE = "maintenance"
UNHEARD = "no requests or no data since it was last seen: whether it continues is not known"
LAPSED = "no more data: it ends where it was last seen"
MOST_JOBS = 50
_EVENTS_SHOWN = 8
_NEARLY_ALL = 0.95
"""Share of the requests from which one job made nearly all."""
_SHOWN_WINDOWS = 3
"""Least windows with a job, and without it, that show whether a component follows it."""
_THROUGHOUT = 0.9
"""Share of the time it was asked in which a component that is simply degraded is below the limit, at least."""


@dataclass(frozen=True)
class IncidentContext:
    """What all incidents of one round share: time, limits, events, and which parts belong together.

    `pairs`: the device of a target; `found`: the windows by kind."""

    axis: Axis
    per: int
    limits: HealthLimits
    now_ns: int
    events: pa.Table | None
    servers: Mapping[str, str]
    pairs: Mapping[str, str]
    nodes: Mapping[str, int]
    found: Mapping[str, Windows]
    loads: pa.Table

    def list_names(self, component: str) -> set[str]:
        """Return the names under which events may mention a component: its own, its server, its device as in logs."""
        out = {component}
        device = self.pairs.get(component)
        server = self.servers.get(component) or (device.partition("/")[0] if device else None)
        return out | {name for name in (device, server) if name} | ({device.replace("/", ":")} if device else set())

    def find_server(self, target: str) -> str | None:
        """Return the server of a target, as configured or by its device; None if unknown."""
        device = self.pairs.get(target)
        return self.servers.get(target) or (device.partition("/")[0] if device else None)


def get_incident_end_ns(one: Incident) -> int:
    """Return the time an incident was last seen (ns)."""
    seen = [fact.value for fact in one.evidence if fact.metric == SEEN and isinstance(fact.value, int)]
    return seen[0] if seen else one.to_ns if one.to_ns is not None else one.from_ns


def is_maintenance_incident(one: Incident) -> bool:
    """Whether maintenance was announced for that time."""
    return any(fact.metric == MAINTENANCE for fact in one.evidence)


def build_health_incident(
    around: IncidentContext, kind: str, windows: Windows, place: int, spell: Spell, old: Incident | None
) -> Incident | None:
    """Return the incident of a spell, None when the evidence is not enough. `old`: as an earlier round reported it."""
    name, limits = windows.asked.cells.names[place], around.limits
    by_peers = bool(spell.sick) and bool((windows.why[place, spell.sick] == PEERS).all())
    jobs_against = _jobs_against(windows, place, spell)
    if kind == "node" and len(jobs_against) < limits.client_jobs and old is None:
        return None
    if not spell.sick and old is not None:
        return _gone_on(old, spell)
    parts = build_load_cells(around.loads, kind, around.axis, parts=True)
    jobs = _jobs_at(parts, name, spell, around.per)
    share = windows.share[place, spell.sick]
    measured, mean = _median(windows.measured[place, spell.sick]), _median(share)
    if old is None and mean is not None and mean >= limits.share:
        return None
    peak = windows.asked.peaks[place]
    dead = mean is not None and mean < limits.dead and not by_peers
    events = _events(around, name, spell)
    course = Course(
        share=share,
        over=spell.to_ns is not None,
        events=frozenset(kind_ for kind_, _, _ in events),
        used=_used(windows, place),
        siblings=_siblings(around, name, spell),
        begins=not spell.begun_before and bool(spell.sick) and spell.sick[0] > 0,
        follows_job=_follows_one_job(parts, windows, place, spell, around.per),
        dead=dead,
        full=limits.full,
        **_missed(windows, place, spell, around.per),
    )
    hint, why = find_cause_hint(course)
    evidence = [
        _main_evidence(windows, place, spell, kind, mean, measured, peak, by_peers=by_peers),
        Evidence(text=f"Likely cause: {hint.replace('_', ' ')}. {why}", metric="hint", value=hint),
        Evidence(text="Until when it was seen.", metric=SEEN, value=spell.last_ns, unit="ns"),
    ]
    evidence += [
        Evidence(text=text, metric=MAINTENANCE if word == MAINTENANCE else "event", value=word)
        for word, text, _ in events[:_EVENTS_SHOWN]
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = windows.low[place, spell.sick] / windows.considered[place, spell.sick]
    on_and_off = np.isfinite(part).any() and float(np.nanmedian(part)) < _THROUGHOUT
    flapping = spell.turns >= 2 or 2 * spell.flaps > len(spell.sick) or on_and_off
    return Incident(
        id=spell.id or compute_short_identity("incident", LAYERS[kind], name, spell.from_ns),
        layer=LAYERS[kind],  # type: ignore[arg-type]
        component=name,
        from_ns=spell.from_ns,
        to_ns=spell.to_ns,
        kind="dead" if dead else "flapping" if flapping else "degraded",
        measured=measured,
        peak=_main(peak, kind),
        share_of_peak=None if mean is None else round(mean, 4),
        hint=hint,
        confidence=_confidence(windows, place, spell, peak, mean, limits, by_peers=by_peers),
        jobs=sorted({*jobs, *(old.jobs if old is not None else [])})[:MOST_JOBS],
        evidence=evidence,
        missing=_missing(spell, around),
    )


def _gone_on(old: Incident, spell: Spell) -> Incident:
    """A known incident of which nothing new was seen: it is over, or goes on in silence."""
    missing = old.missing if UNHEARD in old.missing else [*old.missing, UNHEARD]
    return msgspec.structs.replace(old, to_ns=spell.to_ns, missing=old.missing if spell.ok else missing)


def _main(peak: Peak, kind: str) -> float | None:
    value = peak.ops_per_s if kind == "mds" else peak.bytes_per_s
    return None if value is None else float(value)


def _main_evidence(
    windows: Windows,
    place: int,
    spell: Spell,
    kind: str,
    mean: float | None,
    measured: float | None,
    peak: Peak,
    *,
    by_peers: bool,
) -> Evidence:
    many = len(spell.sick)
    if by_peers:
        jobs = len(_jobs_against(windows, place, spell))
        share = f"{mean:.0%}" if mean is not None else "a fraction"
        text = f"In {many} windows it gave {share} of what its peers gave the same jobs ({jobs} of them)."
        return Evidence(text=text, metric="share_of_peers", value=mean)
    show = (lambda value: f"{format_count(value)} operations/s") if kind == "mds" else format_bandwidth
    low = int(windows.low[place, spell.sick].sum())
    of = int(windows.considered[place, spell.sick].sum())
    text = (
        f"It moved {show(measured)}, {'an unknown share' if mean is None else f'{mean:.0%}'} of its peak"
        f" ({show(_main(peak, kind))}, {peak.basis}), in {many} windows, while {windows.asked.evidence}:"
        f" below the limit in {low} of {of} intervals."
    )
    return Evidence(text=text, metric="share_of_peak", value=None if mean is None else round(mean, 4))


def _median(values: Floats) -> float | None:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


def _jobs_against(windows: Windows, place: int, spell: Spell) -> set[int]:
    """Jobs, by place, that found it slower than its peers in the spell."""
    if windows.compared is None:
        return set()
    sick = set(spell.sick)
    return {job for where, w, job in windows.compared.who if where == place and w in sick}


def _inside(cells: Cells, spell: Spell, per: int) -> Bools:
    return np.isin(cells.at // per, spell.sick)


def _jobs_at(parts: Cells | None, name: str, spell: Spell, per: int) -> list[str]:
    """Jobs it served in its sick windows, those with most operations first."""
    if parts is None or name not in parts.names:
        return []
    rows = (parts.component == parts.names.index(name)) & _inside(parts, spell, per)
    ops = np.bincount(parts.job[rows], np.nan_to_num(parts.ops[rows]), len(parts.jobs))
    order = [job for job in np.argsort(-ops, kind="stable").tolist() if ops[job] > 0]
    return [parts.jobs[job] for job in order[:MOST_JOBS]]


def _follows_one_job(parts: Cells | None, windows: Windows, place: int, spell: Spell, per: int) -> bool:
    """Whether it was slow while one job made nearly all requests, never without that job, and delivered its share for
    others before and after. That a job was alone there shows nothing: it may be the only one that found it slow."""
    name = windows.asked.cells.names[place]
    if parts is None or name not in parts.names or len(spell.sick) < _SHOWN_WINDOWS:
        return False
    mine = parts.component == parts.names.index(name)
    count = windows.state.shape[1]
    at = parts.at[mine] // per
    inside = at < count
    ops = np.zeros((len(parts.jobs), count))
    np.add.at(ops, (parts.job[mine][inside], at[inside]), np.nan_to_num(parts.ops[mine][inside]))
    sick = np.zeros(count, np.bool_)
    sick[spell.sick] = True
    job = int(np.argmax(ops[:, sick].sum(axis=1)))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = ops[job] / ops.sum(axis=0)
    others_fine = np.flatnonzero((windows.state[place] == OK) & (share < 1 - _NEARLY_ALL))
    return bool(
        (share[sick] >= _NEARLY_ALL).all()
        and not ((windows.state[place] == OK) & (share >= _NEARLY_ALL)).any()
        and len(others_fine) >= _SHOWN_WINDOWS
        and others_fine[0] < spell.sick[-1]
        and others_fine[-1] > spell.sick[0]
    )


def _used(windows: Windows, place: int) -> float:
    cells = windows.asked.cells
    used = cells.used[cells.component == place]
    return float(np.nanmax(used)) if np.isfinite(used).any() else float("nan")


def _missed(windows: Windows, place: int, spell: Spell, per: int) -> dict[str, float]:
    cells = windows.asked.cells
    mine = (cells.component == place) & np.isfinite(cells.missed)
    during = mine & _inside(cells, spell, per)
    before = mine & ~during & (cells.at < min(spell.sick, default=0) * per)
    value = {"missed": during, "missed_before": before}
    return {name: float(cells.missed[rows].mean()) if rows.any() else float("nan") for name, rows in value.items()}


def _siblings(around: IncidentContext, name: str, spell: Spell) -> float:
    """Share of the windows, of its server's other targets that were asked, in which they were sick, too."""
    windows = around.found.get("target")
    server = around.find_server(name)
    if windows is None or server is None:
        return float("nan")
    names = windows.asked.cells.names
    others = [i for i, other in enumerate(names) if other != name and around.find_server(other) == server]
    if not others:
        return float("nan")
    sick = windows.sick[others][:, spell.sick]
    told = sick | (windows.state[others][:, spell.sick] == OK)
    return float(sick.sum() / told.sum()) if int(told.sum()) >= 2 else float("nan")


def _events(around: IncidentContext, name: str, spell: Spell) -> list[tuple[str, str, int]]:
    """(kind, text, ts_ns) of what happened to it meanwhile, or up to one window before, in order of time."""
    table = around.events
    if table is None or not table.num_rows:
        return []
    end = spell.to_ns if spell.to_ns is not None else around.now_ns
    ended = pc.coalesce(table["end_ns"], table["ts_ns"])
    early = spell.from_ns - around.per * around.axis.window_ns
    names = pa.array(sorted(around.list_names(name)))
    rows = table.filter(
        pc.and_(
            pc.is_in(table["component"].cast(pa.string()), names),
            pc.and_(pc.less_equal(table["ts_ns"], end), pc.greater_equal(ended, early)),
        )
    )
    kinds, texts, times = (
        rows["kind"].cast(pa.string()).to_pylist(),
        rows["text"].to_pylist(),
        rows["ts_ns"].to_pylist(),
    )
    found = {(kind, f"{kind}: {text}", ts) for kind, text, ts in zip(kinds, texts, times, strict=True)}
    return sorted(found, key=lambda one: (one[0] != MAINTENANCE, one[2], one[1]))


def _confidence(
    windows: Windows, place: int, spell: Spell, peak: Peak, mean: float | None, limits: HealthLimits, *, by_peers: bool
) -> float:
    """In [0, 1]: more windows, a deeper fall, a peak that was given and more of the time below the limit make it
    surer; where only peers tell, it stays below 0.8."""
    duration = min(1.0, len(spell.sick) / 10)
    depth = 0.0 if mean is None else float(np.clip(1 - mean / limits.share, 0, 1))
    considered = int(windows.considered[place, spell.sick].sum())
    steady = int(windows.low[place, spell.sick].sum()) / considered if considered else 0.5
    basis = 1.0 if peak.basis in (GIVEN, CANARY) else 0.5
    sure = 0.55 + 0.44 * (0.3 * duration + 0.3 * depth + 0.2 * steady + 0.2 * basis)
    well = spell.ok / max(spell.ok + len(spell.sick), 1)
    sure *= 1 - 0.5 * well
    return round(min(sure, 0.8) if by_peers else sure, 2)


def _missing(spell: Spell, around: IncidentContext) -> list[str]:
    out = []
    if spell.lapsed:
        out.append(LAPSED)
    elif spell.to_ns is None and around.now_ns - spell.last_ns > 2 * around.per * around.axis.window_ns:
        out.append(UNHEARD)
    if spell.begun_before or (spell.sick and spell.sick[0] == 0 and spell.id is None):
        out.append("it began before the time examined")
    return out
