"""Makes rollup rows, summaries and a scope for tests of findings about the whole system."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fairlead.core.model.finding_incident_rows import StoredFinding
from fairlead.core.model.tables import JOB_SUMMARY, ROLLUP, TableSpec, build_table_batch
from fairlead.explain.analysis.system.scope import SystemFindings
from fairlead.explain.analysis.system.system_findings import SystemLimits, find_system_findings
from fairlead.explain.analysis.system.system_site import SystemSite

S = 10**9
MINUTE, HOUR = 60 * S, 3600 * S
T0 = 20_000 * 24 * HOUR
GIB, MIB = 1 << 30, 1 << 20
Row = dict[str, object]


def table(spec: TableSpec, rows: Sequence[Row]) -> pa.Table:
    names = sorted({name for row in rows for name in row})
    if not rows:
        return spec.schema.empty_table()
    return pa.Table.from_batches([build_table_batch(spec, {name: [row.get(name) for row in rows] for name in names})])


def minutes(
    kind: str, layer: str, name: str, *, first: int = 0, last: int = 60, job: str | None = None, **sums: object
) -> list[Row]:
    """The same sums in each minute of [first, last)."""
    row = {"interval_ns": MINUTE, "kind": kind, "layer": layer, "id": name, "job_id": job, **sums}
    return [{"ts_ns": T0 + k * MINUTE, **row} for k in range(first, last)]


def summary(job: str, **more: object) -> Row:
    return {
        "job_id": job,
        "start_ns": T0,
        "end_ns": T0 + HOUR,
        "user": f"user{job}",
        "program": f"prog{job}",
        "made_ns": T0 + HOUR,
        "analysis_version": 1,
    } | more


def look(
    rollup: Sequence[Row] = (),
    jobs: Sequence[Row] = (),
    *,
    site: SystemSite | None = None,
    hours: int = 1,
    limits: SystemLimits | None = None,
    **tables: pa.Table,
) -> SystemFindings:
    given = {"rollup": table(ROLLUP, rollup), "job_summary": table(JOB_SUMMARY, jobs), **tables}
    return find_system_findings(given, site or SystemSite(), T0, T0 + hours * HOUR, limits)


def only(found: SystemFindings, word: str) -> StoredFinding:
    """The one finding of a rule."""
    [told] = [one for one in found.told if one.finding.rule == f"system.{word}"]
    return told


def words(found: SystemFindings) -> set[str]:
    return {one.finding.category for one in found.told}


def measured(told: StoredFinding, metric: str) -> float:
    return next(float(one.value) for one in told.finding.evidence if one.metric == metric)  # type: ignore[arg-type]
