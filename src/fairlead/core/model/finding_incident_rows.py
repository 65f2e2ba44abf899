"""Findings and incidents as rows of their tables and back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from fairlead.core.model.finding import Finding, Subject
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import FINDING, INCIDENT, build_table_batch

DIAGNOSIS_VERSION = 1
"""Version of everything that is derived by diagnosis. Raised with every change of what comes out."""
FINDING_SCHEMA = "fairlead.finding/1"


class ShownPrecision(msgspec.Struct, frozen=True, kw_only=True):
    """How often accusations with such records were right on held-out seasons of the labelled machine: `right` of
    `count`. `view`: what was recorded, by layer and interval."""

    view: str
    right: int
    count: int


class JudgedAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Why a finding was made again: an incident that touches the job became known after the first time."""

    at_ns: int
    incident: str


class StoredFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as it is kept: with whose job it concerns (None: nobody's) and the components that play a part.
    `active`: jobs at the same components at the time, listed where nobody is accused. `precision`: of an accusation.
    `judged_again`: when it was made a second time."""

    schema: str = FINDING_SCHEMA
    finding: Finding
    cluster: str | None = None
    job_id: str | None = None
    user: str | None = None
    components: list[Subject] = []
    active: list[Subject] = []
    precision: ShownPrecision | None = None
    judged_again: JudgedAgain | None = None


def build_finding_rows(told: Sequence[StoredFinding], made_ns: int, *, withdrawn: bool = False) -> pa.RecordBatch:
    """Rows of FINDING. A finding without a time is dated `made_ns`."""
    names = FINDING.schema.names
    columns: dict[str, list[object]] = {name: [] for name in names}
    for one in told:
        finding = one.finding
        row = {
            "id": finding.id,
            "rule": finding.rule,
            "title": finding.title,
            "subject_kind": finding.subject.kind,
            "subject_id": finding.subject.id,
            "cluster": one.cluster,
            "job_id": one.job_id,
            "user": one.user,
            "from_ns": made_ns if finding.from_ns is None else finding.from_ns,
            "to_ns": finding.to_ns,
            "severity": finding.severity,
            "confidence": finding.confidence,
            "category": finding.category,
            "culprits": [f"{who.kind}:{who.id}" for who in finding.culprits],
            "components": [f"{what.kind}:{what.id}" for what in one.components],
            "cost_s": finding.cost_s,
            "detail": msgspec.json.encode(one).decode(),
            "made_ns": made_ns,
            "analysis_version": DIAGNOSIS_VERSION,
            "withdrawn": withdrawn,
        }
        for name in names:
            columns[name].append(row[name])
    return build_table_batch(FINDING, dict(columns), len(told))


def parse_finding_rows(rows: pa.Table) -> list[StoredFinding]:
    """Findings of rows that have the column `detail`."""
    return [msgspec.json.decode(text, type=StoredFinding) for text in rows.column("detail").to_pylist()]


def build_incident_rows(incidents: Sequence[Incident], made_ns: int, *, withdrawn: bool = False) -> pa.RecordBatch:
    """Rows of INCIDENT."""
    plain = (
        "id",
        "layer",
        "component",
        "from_ns",
        "to_ns",
        "kind",
        "share_of_peak",
        "peak",
        "measured",
        "persistence",
        "hint",
        "confidence",
    )
    columns: dict[str, object] = {name: [getattr(one, name) for one in incidents] for name in plain}
    count = len(incidents)
    columns |= {
        "detail": [msgspec.json.encode(one).decode() for one in incidents],
        "made_ns": [made_ns] * count,
        "analysis_version": [DIAGNOSIS_VERSION] * count,
        "withdrawn": [withdrawn] * count,
    }
    return build_table_batch(INCIDENT, columns, count)


def parse_incident_rows(rows: pa.Table) -> list[Incident]:
    """Incidents of rows that have the column `detail`."""
    return [msgspec.json.decode(text, type=Incident) for text in rows.column("detail").to_pylist()]
