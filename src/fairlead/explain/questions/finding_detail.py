"""One finding explained: its evidence, and the courses, runs and incidents that show it. Not here: a job
(`job_explanation`)."""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow.compute as pc

from fairlead.core.model.finding import Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, parse_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.explain.questions import findings as kept
from fairlead.explain.questions.answers_diagnosis import Course, Explanation
from fairlead.explain.questions.evidence_series import (
    build_component_evidence_series,
    build_job_evidence_series,
    build_peak_evidence_series,
    widen_evidence_span,
)
from fairlead.explain.questions.lake_queries import Sight, Tables, query_lake
from fairlead.explain.questions.past_phases import read_job_phases
from fairlead.explain.questions.redaction import ANOTHER_JOB, redact_findings, redact_incidents
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.explain.questions.usual_performance import compare_with_usual
from fairlead.explain.questions.visible_lake import narrow_visible_lake

COMPONENTS = ("forwarder", "target", "mds", "port", "device")
MOST_COMPONENTS = 3
MOST_CULPRITS = 3


def explain_finding(lake: Tables, name: str, sight: Sight, now_ns: int) -> Explanation:
    """The finding of this id. Raises UnknownNameError."""
    whole, row = kept.find_finding(lake, name)
    [told] = redact_findings(lake, [whole], sight)
    begin, end = compute_finding_span(whole, now_ns)
    parts = _list_components(whole)
    incidents = _read_incidents_at(lake, [part.id for part in parts], Span(begin, end))
    courses: list[Course] = []
    usual = []
    missing: list[str] = []
    if whole.job_id is not None:
        phase = find_finding_phase(lake, whole, begin, end)
        courses = build_finding_courses(lake, whole, phase, sight, now_ns)
        if phase is None:
            missing.append("phase: the phase this was found in is no longer in the lake")
        else:
            usual = compare_with_usual(lake, phase["table"])
    else:
        courses = _build_component_peak_courses(lake, parts, incidents, (begin, end), now_ns)
    if not courses:
        missing.append("courses: sums by second or minute of that time are no longer in the lake")
    return Explanation(
        told=told,
        withdrawn=bool(row["withdrawn"]),
        made_ns=_int(row["made_ns"]),
        analysis_version=_int(row["analysis_version"]),
        courses=courses,
        usual=usual,
        incidents=redact_incidents(lake, incidents, sight),
        related=_related(lake, whole, Span(begin, end), sight),
        missing=missing,
    )


def _int(value: object) -> int:
    return int(value)  # type: ignore[call-overload, no-any-return]


def compute_finding_span(told: StoredFinding, now_ns: int) -> tuple[int, int]:
    """When it was: an open finding lasts till now."""
    finding = told.finding
    begin = finding.from_ns if finding.from_ns is not None else now_ns - HOUR_NS
    return begin, max(begin + 1, finding.to_ns if finding.to_ns is not None else now_ns)


def _list_components(told: StoredFinding) -> list[Subject]:
    """The components that play a part, those accused first."""
    finding = told.finding
    named = [*([finding.subject] if finding.subject.kind in COMPONENTS else []), *finding.culprits, *told.components]
    return list(dict.fromkeys(one for one in named if one.kind in COMPONENTS))


def find_finding_phase(lake: Tables, told: StoredFinding, begin: int, end: int) -> dict[str, Any] | None:
    """The phase it was found in: of those of the job at that time the one that lost most."""
    found = query_lake(
        lake,
        "SELECT DISTINCT job_start_ns FROM phase WHERE job_id = $job AND cluster IS NOT DISTINCT FROM $cluster"
        f" AND start_ns < {end} AND end_ns > {begin} ORDER BY 1 DESC LIMIT 1",
        {"job": told.job_id, "cluster": told.cluster},
        numbers=[told.job_id or ""],
    )
    if not found.num_rows or told.job_id is None:
        return None
    phases = read_job_phases(lake, told.cluster, told.job_id, found["job_start_ns"][0].as_py(), end)
    mine = phases.filter(pc.and_(pc.less(phases["start_ns"], end), pc.greater(phases["end_ns"], begin)))
    if not mine.num_rows:
        return None
    lost = pc.fill_null(mine["lost_s"], -1.0).to_numpy()
    best = int(lost.argmax())
    return {**mine.slice(best, 1).to_pylist()[0], "table": mine.slice(best, 1)}


def build_finding_courses(
    lake: Tables, told: StoredFinding, phase: Mapping[str, Any] | None, sight: Sight, now_ns: int
) -> list[Course]:
    """What the victim got, and what went on at the components it shared, over one time axis."""
    if told.job_id is None or phase is None:
        return []
    span = (phase["start_ns"], phase["end_ns"])
    amount = phase["metadata_ops"] if phase["kind"] == "metadata" else phase["bytes"]
    usual = amount / phase["expected_s"] if amount and phase["expected_s"] else None
    first = build_job_evidence_series(lake, told.job_id, phase["kind"], span, now_ns, usual_per_s=usual)
    culprits = [who.id for who in told.finding.culprits if who.kind == "job"][:MOST_CULPRITS]
    name = _namer(lake, told, culprits, sight)
    courses = [first] if first is not None else []
    for part in _list_components(told)[:MOST_COMPONENTS]:
        courses += build_component_evidence_series(
            lake, (part.kind, part.id), phase["kind"], told.job_id, culprits, span, now_ns, name=name
        )
    return courses


def _namer(lake: Tables, told: StoredFinding, culprits: list[str], sight: Sight) -> Callable[[str], str]:
    """What lines of jobs are called: those this reader may not see have no number."""
    if sight.everything or not culprits:
        return str
    [heard] = redact_findings(lake, [told], sight)
    shown = {who.id for who in heard.finding.culprits if who.kind == "job"} | {told.job_id}
    return lambda text: text if text.removeprefix("job ") in shown else ANOTHER_JOB


def _build_component_peak_courses(
    lake: Tables, parts: list[Subject], incidents: list[Incident], span: tuple[int, int], now_ns: int
) -> list[Course]:
    """The course of each component against its known peak, with its incidents marked."""
    courses = []
    for part in parts[:MOST_COMPONENTS]:
        mine = [one for one in incidents if one.component == part.id]
        peak = next((one.peak for one in mine if one.peak is not None), None)
        marked = [(one.from_ns, one.to_ns if one.to_ns is not None else span[1]) for one in mine] or [span]
        course = build_peak_evidence_series(
            lake, (part.kind, part.id), widen_evidence_span(*span), marked, peak, now_ns
        )
        courses += [course] if course is not None else []
    return courses


def _read_incidents_at(lake: Tables, components: list[str], span: Span) -> list[Incident]:
    """Incidents of these components that touch the span, in the order of time."""
    if not components:
        return []
    found = query_lake(
        narrow_visible_lake(lake, span),
        "SELECT detail FROM incident WHERE component IN (SELECT unnest($names))"
        f" AND from_ns < {span.to_ns} AND coalesce(to_ns, {span.to_ns}) > {span.from_ns}"
        " AND NOT coalesce(withdrawn, false) ORDER BY from_ns, id LIMIT 200",
        {"names": components},
    )
    return parse_incident_rows(found)


def _related(lake: Tables, told: StoredFinding, span: Span, sight: Sight) -> list[StoredFinding]:
    if told.job_id is not None:
        near = kept.list_job_findings(
            lake, told.cluster, told.job_id, Span(span.from_ns - DAY_NS, span.to_ns + DAY_NS), sight
        )
    else:
        near = kept.list_findings(lake, span, sight, component=told.finding.subject.id, limit=20).findings
    return [one for one in near if one.finding.id != told.finding.id][:20]
