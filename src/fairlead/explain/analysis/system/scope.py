"""The input of the system rules (tables, site, time window) and how their findings are built.

Sums come from the rollup and stay unknown where nothing was counted. Pure. Not here: the rules (one module each),
reading the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.finding import Evidence, Finding, Severity, Subject
from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION, StoredFinding
from fairlead.core.model.identity import compute_short_identity
from fairlead.core.model.tables import ROLLUP, TABLES
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.advice import AdviceSet, Gain, build_advice
from fairlead.explain.analysis.overview.job_population import select_latest_population_jobs
from fairlead.explain.analysis.system.system_site import SystemSite

MINUTE_NS = 60 * NS_PER_S
HOUR_NS = 3600 * NS_PER_S
MOST_NAMED = 8
"""Culprits and components a finding names."""
_SUMS = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "wait_ns", "waits")


@dataclass(frozen=True)
class SystemFindings:
    """The findings, and what could not be checked because no data is there."""

    told: list[StoredFinding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def __add__(self, other: SystemFindings) -> SystemFindings:
        """Join both; each missing item is listed once."""
        return SystemFindings([*self.told, *other.told], list(dict.fromkeys([*self.missing, *other.missing])))


def report_missing_findings(*missing: str) -> SystemFindings:
    """Return no finding, and what was missing for the check."""
    return SystemFindings([], list(missing))


@dataclass(frozen=True)
class Scope:
    """One window of one cluster. `tables`: by name, in the schemas of `model.tables` (rows of other times are
    ignored); an absent table is unknown. With empty `advice` findings come without advice."""

    tables: Mapping[str, pa.Table]
    site: SystemSite
    from_ns: int
    to_ns: int
    cluster: str | None = None
    advice: AdviceSet = field(default_factory=dict)
    gains: Sequence[Gain] = ()

    @property
    def hours(self) -> float:
        """Length of the window."""
        return (self.to_ns - self.from_ns) / HOUR_NS

    @property
    def minutes(self) -> int:
        """Minutes of the window, those begun counted."""
        return -(-(self.to_ns - self.from_ns) // MINUTE_NS)

    def get_table(self, name: str) -> pa.Table:
        """Return a table; an empty one where it is absent."""
        found = self.tables.get(name)
        return TABLES[name].schema.empty_table() if found is None else found

    @cached_property
    def minute_rows(self) -> pa.Table:
        """Rows of the rollup by the minute, in the window."""
        rows = self.get_table("rollup")
        inside = (
            (pc.field("interval_ns") == MINUTE_NS)
            & (pc.field("ts_ns") >= self.from_ns)
            & (pc.field("ts_ns") < self.to_ns)
        )
        rows = rows.filter(inside)
        return pa.table({name: _plain(rows[name]) for name in ROLLUP.schema.names})

    def sum_rollups(
        self, kind: str, layers: Sequence[str], by: Sequence[str] = ("id", "ts_ns"), *, jobs: bool = False
    ) -> pa.Table:
        """Sums by the columns `by` of components of a kind as these layers counted them: of the whole, or (`jobs`) of
        its parts by job. Columns: `by`, then sums, `queue_len_max`, `used_bytes_max`, `capacity_bytes`."""
        rows = self.minute_rows
        chosen = (pc.field("kind") == kind) & pc.field("layer").isin(list(layers))
        chosen &= pc.field("job_id").is_valid() if jobs else pc.field("job_id").is_null()
        largest = ("queue_len_max", "used_bytes_max", "capacity_bytes")
        wanted = [*((name, "sum") for name in _SUMS), *((name, "max") for name in largest)]
        found = rows.filter(chosen).group_by(list(by)).aggregate(wanted)
        found = found.rename_columns([*by, *_SUMS, *largest])
        return found.sort_by([(name, "ascending") for name in by])

    @cached_property
    def jobs(self) -> pa.Table:
        """Summaries of jobs that ran in the window, of each run the latest, by job and start."""
        rows = self.get_table("job_summary")
        inside = (pc.field("start_ns") < self.to_ns) & (
            pc.field("end_ns").is_null() | (pc.field("end_ns") >= self.from_ns)
        )
        return select_latest_population_jobs(rows.filter(inside))

    def describe_jobs(self, job_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return user, program and nodes of jobs by number, as far as their summaries know."""
        wanted = list(job_ids)
        rows = self.jobs.filter(pc.is_in(self.jobs["job_id"], pa.array(wanted, pa.string())))
        names = ("job_id", "user", "program", "nodes_count", "processes")
        return {row["job_id"]: row for row in rows.select(list(names)).to_pylist()}

    def format_job(self, job_id: str) -> str:
        """Format a job: `job 7 (alice, wrf)`."""
        row = self.describe_jobs([job_id]).get(job_id) or {}
        told = ", ".join(str(row[name]) for name in ("user", "program") if row.get(name))
        return f"job {job_id} ({told})" if told else f"job {job_id}"

    def build_finding(
        self,
        word: str,
        *,
        title: str,
        severity: Severity,
        confidence: float,
        evidence: Sequence[Evidence],
        components: Sequence[Subject] = (),
        culprits: Sequence[Subject] = (),
        missing: Sequence[str] = (),
        facts: Mapping[str, object] | None = None,
        part: str = "",
        layer: str | None = None,
    ) -> SystemFindings:
        """Build the finding `system.<word>` about its component where there is one, else about the system. `part` makes
        several findings of one rule and window distinct."""
        rule = f"system.{word}"
        subject = components[0] if len(components) == 1 else Subject("system", self.cluster or self.site.name)
        known = {"component": subject.id} | dict(facts or {})
        finding = Finding(
            id=compute_short_identity(rule, self.cluster, part, self.from_ns, self.to_ns),
            rule=rule,
            title=title,
            subject=subject,
            from_ns=self.from_ns,
            to_ns=self.to_ns,
            severity=severity,
            confidence=round(confidence, 3),
            category=word,
            culprits=list(culprits[:MOST_NAMED]),
            evidence=list(evidence),
            missing=list(missing),
            advice=build_advice(self.advice, rule, word, known, layer=layer, gains=self.gains),
            analysis_version=str(DIAGNOSIS_VERSION),
        )
        one = StoredFinding(finding=finding, cluster=self.cluster, components=list(components[:MOST_NAMED]))
        return SystemFindings([one], [])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def build_finding_subjects(kind: str, ids: Iterable[str]) -> list[Subject]:
    """Return components or jobs of one kind as subjects."""
    return [Subject(kind, one) for one in ids]


def build_finding_evidence(metric: str, value: float | int | str, unit: str | None, text: str) -> Evidence:
    """Return one measured fact as evidence."""
    return Evidence(text=text, metric=metric, value=value, unit=unit)


def grade_finding_severity(value: float, warning: float, high: float) -> Severity:
    """Return `info` below `warning`, `high` from `high` on, else `warning`."""
    return "high" if value >= high else "warning" if value >= warning else "info"
