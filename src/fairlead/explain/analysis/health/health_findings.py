"""Incidents as findings: `component.degraded` and `component.dead`, with evidence, who was served, and what to do.

Pure. How urgent one is depends on how long it lasts and on who is hit (Beacon, TOS 2023, section 6: mail at 96 hours,
at once for a large job); work that was announced is information and never an alarm. Not here: who is sick (`watch`),
what advice there is (it comes as a function).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from fairlead.core.model.finding import Advice, Evidence, Finding, Severity, Subject
from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION, StoredFinding
from fairlead.core.model.identity import compute_short_identity
from fairlead.core.model.incident import Incident
from fairlead.core.model.unit_formats import format_duration
from fairlead.core.safe_text import escape_text
from fairlead.explain.analysis.health.incidents import SEEN, is_maintenance_incident
from fairlead.explain.analysis.health.limits import HealthLimits

Advise = Callable[[str, str, Mapping[str, object], str | None], Sequence[Advice]]
"""(rule, verdict, facts, layer or None) → what to do: `analysis.advice.build_advice` over a set of advice."""
SUBJECTS = {"client": "node"}
"""Layer → kind of the subject, where they differ."""
_PLAIN = {
    "forwarder": "Forwarder",
    "target": "Target",
    "mds": "Metadata server",
    "port": "Port",
    "device": "Device",
    "client": "Node",
}
_STATE = {"degraded": "is slow", "dead": "does not respond", "flapping": "is intermittently slow"}
_PAST = {"degraded": "was slow", "dead": "did not respond", "flapping": "was intermittently slow"}
_SHOWN_JOBS = 10


def build_health_findings(
    incidents: Sequence[Incident],
    now_ns: int,
    *,
    cluster: str | None = None,
    jobs: pa.Table | None = None,
    limits: HealthLimits | None = None,
    advise: Advise | None = None,
) -> list[StoredFinding]:
    """Findings of incidents, in their order. `now_ns` only tells how long an open one has lasted; `jobs`: rows of JOBS,
    which tell how large the jobs are that were served."""
    limits = limits or HealthLimits()
    sizes: dict[str, int] = {}
    if jobs is not None and jobs.num_rows:
        for job, nodes in zip(jobs["job_id"].to_pylist(), jobs["nodes_count"].to_pylist(), strict=True):
            sizes[job] = max(sizes.get(job, 0), nodes or 0)
    return [_told(one, now_ns, cluster, sizes, limits, advise) for one in incidents]


def grade_health_severity(one: Incident, now_ns: int, largest_job_nodes: int, limits: HealthLimits) -> Severity:
    """How urgent an incident is."""
    if is_maintenance_incident(one):
        return "info"
    long = one.compute_duration_s(now_ns) >= limits.urgent_s
    large = largest_job_nodes >= limits.large_job_nodes
    if one.kind == "dead":
        return "critical" if one.to_ns is None else "high"
    if long or (large and one.to_ns is None):
        return "critical" if long and large else "high"
    if one.to_ns is not None and one.persistence == "transient":
        return "info"
    return "warning"


def _told(
    one: Incident,
    now_ns: int,
    cluster: str | None,
    sizes: Mapping[str, int],
    limits: HealthLimits,
    advise: Advise | None,
) -> StoredFinding:
    rule = "component.dead" if one.kind == "dead" else "component.degraded"
    largest = max((sizes.get(job, 0) for job in one.jobs), default=0)
    subject = Subject(SUBJECTS.get(one.layer, one.layer), one.component)
    facts = {
        "component": one.component,
        "share_of_peak": one.share_of_peak,
        "job": one.jobs[0] if one.hint == "one_client" and one.jobs else None,
    }
    finding = Finding(
        # One finding an incident, also when a degraded component is dead later.
        id=compute_short_identity("component.degraded", cluster, subject.kind, subject.id, one.id),
        rule=rule,
        title=_title(one),
        subject=subject,
        from_ns=one.from_ns,
        to_ns=one.to_ns,
        severity=grade_health_severity(one, now_ns, largest, limits),
        confidence=one.confidence,
        category=one.hint,
        evidence=_evidence(one),
        missing=list(one.missing),
        advice=list(
            advise(rule, one.hint, {name: value for name, value in facts.items() if value is not None}, one.layer)
        )
        if advise is not None
        else [],
        analysis_version=str(DIAGNOSIS_VERSION),
    )
    return StoredFinding(finding=finding, cluster=cluster, components=[subject])


def _title(one: Incident) -> str:
    """In the present while it goes on, and then without a duration, which would change all the time."""
    words = _STATE if one.to_ns is None else _PAST
    title = f"{_PLAIN[one.layer]} {escape_text(one.component)} {words[one.kind]}"
    if one.share_of_peak is not None and one.kind != "dead":
        title += f": {one.share_of_peak:.0%} of its peak"
    if one.to_ns is not None:
        title += f", for {format_duration((one.to_ns - one.from_ns) / 1e9)}"
    return title + (", during announced maintenance" if is_maintenance_incident(one) else "")


def _evidence(one: Incident) -> list[Evidence]:
    facts = [fact for fact in one.evidence if fact.metric != SEEN]
    if one.jobs:
        names = ", ".join(escape_text(job) for job in one.jobs[:_SHOWN_JOBS])
        more = f" and {len(one.jobs) - _SHOWN_JOBS} more" if len(one.jobs) > _SHOWN_JOBS else ""
        facts.append(Evidence(text=f"Jobs it served at that time: {names}{more}.", metric="jobs", value=len(one.jobs)))
    return facts
