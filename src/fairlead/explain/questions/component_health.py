"""The health of components: their states just now (or then), sick ones, open and past incidents, how long they lasted.

An idle component is idle and an unheard one unknown, never healthy. Not here: how watching goes
(`machine.list_probe_health`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.core.model.finding_incident_rows import parse_incident_rows
from fairlead.core.model.incident import DURATIONS_H, Incident
from fairlead.explain.analysis.health.assess import assess_health
from fairlead.explain.analysis.health.class_peaks import Peak
from fairlead.explain.analysis.health.durations import count_durations
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.questions.answers_diagnosis import ComponentHealth, ComponentState, Course, Durations, LayerHealth
from fairlead.explain.questions.component_loads import read_component_loads
from fairlead.explain.questions.evidence_series import build_peak_evidence_series
from fairlead.explain.questions.findings import list_findings
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    query_lake,
)
from fairlead.explain.questions.redaction import redact_incidents
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.explain.questions.visible_lake import narrow_visible_lake, require_visible_component

STATES_NS = 15 * MINUTE_NS
"""States are those of the last so many minutes of the span: the last that is known of each component."""
PAST_NS = 30 * DAY_NS
"""Past incidents of at least so long before are listed and counted."""
MOST = 200
_STATE = {"ok": "healthy"}
_LAYERS = ("forwarder", "target", "mds", "port", "device", "client")
_ORDER = ("dead", "sick", "unknown", "idle", "healthy")


def describe_component_health(
    lake: Tables,
    span: Span,
    sight: Sight,
    now_ns: int,
    *,
    component: str = "",
    everything: bool = False,
    peaks: Mapping[str, float] | None = None,
) -> ComponentHealth:
    """Components at the end of the span; incidents of it (and of the 30 days before). `component`: this one only.
    `everything`: healthy, idle and unknown ones are listed too. Raises UnknownNameError."""
    end = min(span.to_ns, now_ns)
    if component:
        require_visible_component(lake, "any", component, span, "component")
    incidents = _incidents(lake, Span(min(span.from_ns, end - PAST_NS), end))
    known: dict[tuple[str, str], Peak | float] = {(kind, ""): value for kind, value in (peaks or {}).items()}
    # What was seen in an incident would be the best of the last minutes, where nobody used it since.
    for one in incidents:
        if one.peak and (one.layer, "") not in known:
            known[str(one.layer), one.component] = one.peak
    given = read_component_loads(lake, Span(end - STATES_NS, end))
    seen = assess_health(
        given.loads,
        given.interval_ns,
        known,
        given.events,
        now_ns=end,
        limits=HealthLimits(),
        servers=given.servers,
        nodes=given.nodes,
        canaries=given.canaries,
    )
    open_ = [one for one in incidents if one.to_ns is None or one.to_ns > end]
    states = _states(seen.states.to_pylist(), open_)
    if component:
        names = sorted({one.component for one in states} | {one.component for one in incidents})
        if component not in names:
            states = _counted_before(lake, component, Span(min(span.from_ns, end - 7 * DAY_NS), end))
            if not states:
                raise UnknownNameError("component", component, find_similar_names(component, names))
        states = [one for one in states if one.component == component]
        incidents = [one for one in incidents if one.component == component]
        open_ = [one for one in open_ if one.component == component]
    past = [one for one in incidents if one.to_ns is not None and one.to_ns <= end and one.to_ns >= span.from_ns]
    shown = states if component or everything else [one for one in states if one.state in ("sick", "dead")]
    return ComponentHealth(
        from_ns=span.from_ns,
        to_ns=end,
        layers=_layers(states),
        components=shown,
        open=redact_incidents(lake, open_, sight)[:MOST],
        past=redact_incidents(lake, past, sight)[-MOST:],
        durations=_durations(incidents, end),
        courses=_courses(lake, states, incidents, span, component, now_ns),
        findings=list_findings(lake, span, sight, component=component, limit=MOST).findings if component else [],
        missing=_missing(seen.missing, states),
    )


def _counted_before(lake: Tables, component: str, span: Span) -> list[ComponentState]:
    """A component that counters named in the span, though not in the last minutes: how it is now is not known."""
    wide = span.align_to(HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT DISTINCT kind FROM rollup WHERE interval_ns = {HOUR_NS} AND id = $id AND job_id IS NULL"
        f" AND kind IN (SELECT unnest($kinds)) AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND"
        f" {build_day_filter(wide)}",
        {"id": component, "kinds": [one for one in _LAYERS if one != "client"]},
        within=wide,
    )
    why = "no data in the last minutes"
    kinds = sorted(found.column("kind").to_pylist())
    return [ComponentState(layer=kind, component=component, state="unknown", why=why) for kind in kinds]


def _incidents(lake: Tables, span: Span) -> list[Incident]:
    found = query_lake(
        narrow_visible_lake(lake, span),
        f"SELECT detail FROM incident WHERE from_ns < {span.to_ns} AND coalesce(to_ns, {span.to_ns}) >= {span.from_ns}"
        " AND NOT coalesce(withdrawn, false) ORDER BY from_ns, id",
    )
    return parse_incident_rows(found)


def _states(rows: Sequence[Mapping[str, Any]], open_: Sequence[Incident]) -> list[ComponentState]:
    """The last known state of each component: sick while an incident is open, or in the last window, and healthy after
    windows in which it was, though nobody asked anything of it since."""
    last: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in sorted(rows, key=lambda row: row["ts_ns"]):
        key = (one["layer"], one["component"])
        if key not in last or one["state"] not in ("unknown", "idle") or last[key]["state"] not in _STATE:
            last[key] = one
    sick: dict[tuple[str, str], Incident] = {(one.layer, one.component): one for one in open_}
    made = []
    for key in sorted({*last, *sick}):
        row, incident = last.get(key), sick.get(key)
        state = _STATE.get(row["state"], row["state"]) if row is not None else "unknown"
        if incident is not None:
            state = "dead" if incident.kind == "dead" else "sick"
        made.append(
            ComponentState(
                layer=key[0],
                component=key[1],
                state=state,
                share_of_peak=row["share_of_peak"] if row is not None else None,
                measured=row["measured"] if row is not None else None,
                peak=incident.peak if incident is not None else None,
                since_ns=incident.from_ns if incident is not None else None,
                incident=incident.id if incident is not None else None,
                why=(row["why"] or "") if row is not None else "no data",
            )
        )
    return sorted(made, key=lambda one: (_ORDER.index(one.state), _LAYERS.index(one.layer), one.component))


def _layers(states: Sequence[ComponentState]) -> list[LayerHealth]:
    made = []
    for layer in _LAYERS:
        mine = Counter(one.state for one in states if one.layer == layer)
        if mine:
            made.append(LayerHealth(layer=layer, components=mine.total(), states=dict(sorted(mine.items()))))
    return made


def _durations(incidents: Sequence[Incident], now_ns: int) -> list[Durations]:
    classes = [f"{low:g}-{high:g} h" if high != float("inf") else f"{low:g} h and more" for low, high in DURATIONS_H]
    return [
        Durations(layer=row.layer, classes=classes, counts=list(row.counts))
        for row in count_durations(incidents, now_ns)
    ]


def _courses(
    lake: Tables,
    states: Sequence[ComponentState],
    incidents: Sequence[Incident],
    span: Span,
    component: str,
    now_ns: int,
) -> list[Course]:
    """Of one component that is asked about: its load against its peak over the span, incidents marked."""
    if not component or not (states or incidents):
        return []
    layer = states[0].layer if states else incidents[0].layer
    kind = "node" if layer == "client" else layer
    mine = [one for one in incidents if one.from_ns < span.to_ns and (one.to_ns is None or one.to_ns > span.from_ns)]
    peak = next((one.peak for one in mine if one.peak is not None), None)
    marked = [(max(one.from_ns, span.from_ns), one.to_ns if one.to_ns is not None else span.to_ns) for one in mine]
    first = min((one.from_ns for one in mine), default=span.from_ns)
    wide = Span(max(span.from_ns, first - HOUR_NS) if mine else span.from_ns, span.to_ns)
    course = build_peak_evidence_series(lake, (kind, component), wide, marked, peak, now_ns, limit=HealthLimits().share)
    return [course] if course is not None else []


def _missing(missing: Sequence[str], states: Sequence[ComponentState]) -> list[str]:
    if not states:
        return ["components: no forwarder, target or server reported in the last minutes of this time"]
    return list(missing)
