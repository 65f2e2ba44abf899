"""What may be told: a finding or an incident in one form, with what rules look at. From rows of the lake.

Not here: whether it is told (`rules`), in which words (`messages`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from fairlead.core.model.finding import Advice, Severity
from fairlead.core.model.finding_incident_rows import StoredFinding
from fairlead.core.model.incident import Incident
from fairlead.explain.analysis.advice import AdviceSet, build_advice

LAYERS = {"forwarder", "target", "mds", "port", "device", "client"}
_MOST_LINES = 6


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that may be told. `id` is that of the finding or incident. `lasting`: it goes on until `to_ns` is
    known; a finding about a job only happened. `about` is what hold-off counts by. `nodes`: of the largest job hit,
    None when unknown. `withdrawn`: a later look did not bear it out."""

    id: str
    lasting: bool
    rule: str
    category: str
    title: str
    severity: Severity
    confidence: float
    cost_s: float | None = None
    from_ns: int
    to_ns: int | None = None
    layers: list[str] = []
    components: list[str] = []
    job: str | None = None
    user: str | None = None
    program: str | None = None
    nodes: int | None = None
    jobs: list[str] = []
    evidence: list[str] = []
    missing: list[str] = []
    advice: list[Advice] = []
    withdrawn: bool = False
    made_ns: int

    @property
    def over(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.withdrawn or (self.lasting and self.to_ns is not None)

    def is_before(self, ns: int) -> bool:
        """Whether nothing of it reaches to `ns`. What lasts does."""
        return (not self.lasting or self.to_ns is not None) and (self.to_ns or self.from_ns) < ns

    @property
    def about(self) -> str:
        """The component it is about; for jobs the user and program; without either, the rule alone."""
        who = "\0".join(self.components) if self.lasting or not self.job else f"{self.user}\0{self.program or self.job}"
        return f"{self.rule}\0{who}"


class JobFacts(msgspec.Struct, frozen=True):
    """What rules want of a job beyond its finding."""

    program: str | None
    nodes: int | None


def build_finding_subjects(rows: pa.Table, jobs: Mapping[str, JobFacts]) -> list[Concern]:
    """Concerns of rows of `finding` (columns `detail`, `made_ns`, `withdrawn`). Findings on components (`component.*`)
    are left out: their incidents tell the same, and when it ends. A row that is of no known form is left out, too."""
    found: list[Concern] = []
    for text, made_ns, withdrawn in _details(rows):
        try:
            told = msgspec.json.decode(text, type=StoredFinding)
        except msgspec.DecodeError:
            continue
        one = told.finding
        if one.rule.startswith("component."):
            continue
        parts = [*told.components, *([] if one.subject.kind == "job" else [one.subject])]
        facts = jobs.get(told.job_id or "", JobFacts(None, None))
        found.append(
            Concern(
                id=one.id,
                lasting=False,
                rule=one.rule,
                category=one.category,
                title=one.title,
                severity=one.severity,
                confidence=one.confidence,
                cost_s=one.cost_s,
                from_ns=made_ns if one.from_ns is None else one.from_ns,
                to_ns=one.to_ns,
                layers=sorted({part.kind for part in parts if part.kind in LAYERS}),
                components=sorted({part.id for part in parts}),
                job=told.job_id,
                user=told.user,
                program=facts.program,
                nodes=facts.nodes,
                evidence=[line.text for line in one.evidence[:_MOST_LINES]],
                missing=one.missing[:_MOST_LINES],
                advice=one.advice,
                withdrawn=withdrawn,
                made_ns=made_ns,
            )
        )
    return found


def build_incident_subjects(rows: pa.Table, jobs: Mapping[str, JobFacts], advice: AdviceSet) -> list[Concern]:
    """Concerns of rows of `incident` (columns `detail`, `made_ns`, `withdrawn`)."""
    found: list[Concern] = []
    for text, made_ns, withdrawn in _details(rows):
        try:
            one = msgspec.json.decode(text, type=Incident)
        except msgspec.DecodeError:
            continue
        rule = "component.dead" if one.kind == "dead" else "component.degraded"
        sizes = [jobs[job].nodes for job in one.jobs if job in jobs]
        facts = {"component": one.component, "share_of_peak": one.share_of_peak}
        found.append(
            Concern(
                id=one.id,
                lasting=True,
                rule=rule,
                category=one.hint,
                title=_title(one),
                severity=_severity(one),
                confidence=one.confidence,
                from_ns=one.from_ns,
                to_ns=one.to_ns,
                layers=[one.layer],
                components=[one.component],
                nodes=max((size for size in sizes if size is not None), default=None),
                jobs=one.jobs,
                evidence=[line.text for line in one.evidence[:_MOST_LINES]],
                missing=one.missing[:_MOST_LINES],
                advice=build_advice(advice, rule, one.hint, facts, layer=one.layer),
                withdrawn=withdrawn,
                made_ns=made_ns,
            )
        )
    return found


def list_subject_jobs(findings: pa.Table, incidents: pa.Table) -> list[str]:
    """Ids of the jobs these rows speak of, whose facts `build_finding_subjects` and `build_incident_subjects` want."""
    names = {str(name) for name in findings.column("job_id").to_pylist() if name}
    for text, _, _ in _details(incidents):
        try:
            names.update(msgspec.json.decode(text, type=_JobsOf).jobs)
        except msgspec.DecodeError:
            continue
    return sorted(names)


class _JobsOf(msgspec.Struct):
    jobs: list[str] = []


def _details(rows: pa.Table) -> Sequence[tuple[str, int, bool]]:
    columns = (rows.column(name).to_pylist() for name in ("detail", "made_ns", "withdrawn"))
    return [(text, made, bool(withdrawn)) for text, made, withdrawn in zip(*columns, strict=True)]


def _severity(incident: Incident) -> Severity:
    """Dead is critical; degraded is high unless it comes and goes."""
    if incident.kind == "dead":
        return "critical"
    return "warning" if incident.persistence == "transient" and incident.to_ns is not None else "high"


def _title(incident: Incident) -> str:
    if incident.kind == "dead":
        return f"{incident.layer} {incident.component} does not respond"
    share = incident.share_of_peak
    at = "" if share is None else f" at {share * 100:.0f} % of its peak"
    likely = "" if incident.hint == "unknown" else f", likely {incident.hint.replace('_', ' ')}"
    word: Literal["is degraded", "is intermittent"] = (
        "is intermittent" if incident.kind == "flapping" else "is degraded"
    )
    return f"{incident.layer} {incident.component} {word}{at}{likely}"
