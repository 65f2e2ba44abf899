"""The state of components at one moment: sick or dead by an open incident, silent, unknown, idle or healthy.

An idle component is idle and an unheard one unknown, never healthy. Not here: how sick ones are found
(`questions.component_health`)."""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.core.model.finding_incident_rows import parse_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.explain.questions.component_hosts import find_component_hosts
from fairlead.explain.questions.coverage import PERIODS, find_coverage_gaps
from fairlead.explain.questions.lake_queries import Sight, Tables, build_day_filter, query_lake
from fairlead.explain.questions.redaction import redact_incidents
from fairlead.explain.questions.span import MINUTE_NS, Span

WORST_FIRST = ("dead", "sick", "silent", "unknown", "healthy", "idle")
_HEARD_NS = (PERIODS + 2) * MINUTE_NS


@dataclass(frozen=True)
class Trouble:
    """What is known beside counters: open incidents by component, machines that fell silent and those that are well."""

    incidents: Mapping[str, Incident] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    """Component → why."""
    well: frozenset[str] = frozenset()


def list_component_incidents(lake: Tables, at_ns: int, sight: Sight, layer: str = "") -> list[Incident]:
    """Incidents that are open at a moment (of one layer), the latest first."""
    chosen = " AND layer = $layer" if layer else ""
    found = query_lake(
        lake,
        f"SELECT detail FROM incident WHERE from_ns <= {at_ns} AND coalesce(to_ns, {at_ns} + 1) > {at_ns}"
        f" AND NOT coalesce(withdrawn, false){chosen} ORDER BY from_ns DESC, id",
        {"layer": layer} if layer else None,
    )
    return redact_incidents(lake, parse_incident_rows(found), sight)


def find_component_trouble(
    lake: Tables, kind: str, names: Sequence[str], at_ns: int, incidents: Sequence[Incident]
) -> Trouble:
    """What is known of these components of one kind at a moment."""
    return find_component_troubles(lake, {kind: names}, at_ns, incidents)[kind]


def find_component_troubles(
    lake: Tables, names: Mapping[str, Sequence[str]], at_ns: int, incidents: Sequence[Incident]
) -> dict[str, Trouble]:
    """What is known of components at a moment, by kind."""
    back = Span(at_ns - _HEARD_NS, at_ns + MINUTE_NS)
    hosts = {kind: find_component_hosts(lake, kind, of, back) for kind, of in names.items()}
    silent, well = _machines(lake, sorted({one for of in hosts.values() for one in of.values()}), at_ns, back)
    return {
        kind: Trouble(
            {one.component: one for one in reversed(incidents) if one.layer == kind},
            {name: silent[host] for name, host in of.items() if host in silent},
            frozenset(name for name, host in of.items() if host in well),
        )
        for kind, of in hosts.items()
    }


def _machines(lake: Tables, names: Sequence[str], at_ns: int, back: Span) -> tuple[dict[str, str], set[str]]:
    """Machines that are silent, and why; those whose agent was well."""
    if not names:
        return {}, set()
    silent = {
        gap.source: gap.why
        for gap in find_coverage_gaps(lake, names, Span(at_ns - 1, at_ns + 1))
        if gap.to_ns is None or gap.to_ns > at_ns
    }
    heard = query_lake(
        lake,
        "SELECT DISTINCT node FROM health WHERE probe = 'agent' AND state = 'ok' AND node IN (SELECT unnest($names))"
        f" AND ts_ns >= {back.from_ns} AND ts_ns < {back.to_ns} AND {build_day_filter(back)}",
        {"names": list(names)},
        within=back,
    )
    return silent, set(heard.column("node").to_pylist()) - silent.keys()


def get_component_state(name: str, moved: float | None, trouble: Trouble) -> tuple[str, str | None, str]:
    """State, id of the open incident, and why: of a component that moved so much (None: nothing was counted)."""
    incident = trouble.incidents.get(name)
    if incident is not None:
        return "dead" if incident.kind == "dead" else "sick", incident.id, _why(incident)
    if name in trouble.silent:
        return "silent", None, trouble.silent[name]
    if moved:
        return "healthy", None, ""
    if moved is not None or name in trouble.well:
        return "idle", None, ""
    return "unknown", None, "no data, and no agent reports why"


def _why(incident: Incident) -> str:
    if incident.kind == "dead":
        return "it does not respond"
    if incident.share_of_peak is not None:
        return f"it reaches {incident.share_of_peak:.0%} of its peak"
    return incident.kind
