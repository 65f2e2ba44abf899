"""One look at the components: states of the last hours, incidents that began, go on or ended, as rows of the lake.

The lake is its only memory: what was told before is read from it. Not here: when it looks (`rounds`), what is sick
(`analysis.health`).
"""
# ruff: noqa: S608  (conditions are numbers of ours)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from fairlead.core.model.finding import Advice
from fairlead.core.model.finding_incident_rows import (
    DIAGNOSIS_VERSION,
    StoredFinding,
    build_finding_rows,
    build_incident_rows,
    parse_incident_rows,
)
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOBS
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.advice import build_advice
from fairlead.explain.analysis.health.assess import Health, assess_health
from fairlead.explain.analysis.health.class_peaks import Peak
from fairlead.explain.analysis.health.health_findings import build_health_findings
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.diagnosing.component_peaks import read_past_peaks
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.serving_components import Tables
from fairlead.explain.questions.component_loads import read_component_loads
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.store.stored_tables import conform_stored_table

BEYOND_NS = 10 * MINUTE_NS
"""A look reaches back as long as an incident must last, and this much more."""
REACH_NS = 30 * DAY_NS
"""Incidents told of so long ago may come back: they are known to the look."""
LEAST_WINDOW_S = 5.0
"""No window is shorter, however short an incident may be: in less there is too little to tell a rate by."""


def build_health_round_limits(settings: Diagnosis) -> HealthLimits:
    """The limits of a site's settings. An incident is seen in two windows at least, so windows are no longer than half
    of the least duration."""
    minimum_s = settings.least_minutes * 60.0
    window_s = min(HealthLimits.window_s, max(minimum_s // 2, LEAST_WINDOW_S))
    return HealthLimits(share=settings.share, minimum_s=minimum_s, window_s=window_s)


def _compute_health_span(now_ns: int, limits: HealthLimits) -> Span:
    """What a look at this time looks at: whole windows."""
    window_ns = int(limits.window_s * NS_PER_S)
    end = now_ns // window_ns * window_ns
    return Span(end - int(limits.minimum_s * NS_PER_S) - BEYOND_NS, end)


def compute_health_learning_end(now_ns: int, settings: Diagnosis) -> int:
    """What a look at this time knows of the days before ends here: the whole hour before it begins."""
    return _compute_health_span(now_ns, build_health_round_limits(settings)).from_ns // HOUR_NS * HOUR_NS


def run_health_round(
    lake: Tables,
    writer: Any,
    now_ns: int,
    settings: Diagnosis,
    peaks: Mapping[str, float] | None = None,
    *,
    past: Mapping[tuple[str, str], Peak] | None = None,
    span: Span | None = None,
) -> int:
    """Looks once and writes what changed, in one batch; returns its rows. `peaks`: what the site says, by kind; `past`:
    `read_past_peaks` before `compute_health_learning_end`, read here unless given; `span`: what is looked at (default:
    `_compute_health_span`). Raises LakeError."""
    limits = build_health_round_limits(settings)
    before = compute_health_learning_end(now_ns, settings) if span is None else span.from_ns // HOUR_NS * HOUR_NS
    span = _compute_health_span(now_ns, limits) if span is None else span
    end = span.to_ns
    if past is None:
        past = read_past_peaks(lake, before)
    told_peaks = {(kind, ""): value for kind, value in (peaks or {}).items()}
    known = _read_known_incidents(lake, span.from_ns, end)
    given = read_component_loads(lake, span)
    health = assess_health(
        given.loads,
        given.interval_ns,
        {**{at: one for at, one in past.items() if (at[0], "") not in told_peaks}, **told_peaks},
        given.events,
        now_ns=end,
        open_incidents=known,
        limits=limits,
        servers=given.servers,
        nodes=given.nodes,
        canaries=given.canaries,
    )
    told = build_health_findings(health.incidents, end, limits=limits, jobs=_sizes(given.nodes), advise=_advise)
    return _write_health(
        writer, now_ns, health, known, dict(zip((one.id for one in health.incidents), told, strict=True))
    )


def _sizes(nodes: Mapping[str, int]) -> pa.Table:
    """Sizes of jobs as rows of JOBS."""
    rows = pa.table(
        {"job_id": list(nodes), "nodes_count": list(nodes.values())},
        pa.schema([("job_id", pa.string()), ("nodes_count", pa.int64())]),
    )
    return conform_stored_table(rows, JOBS, strict=True)


def _read_known_incidents(lake: Tables, begin: int, end: int) -> list[Incident]:
    """Incidents told before: open ones, and those of the last weeks."""
    found = lake.query(
        f"SELECT detail FROM incident WHERE NOT coalesce(withdrawn, false) AND from_ns < {end}"
        f" AND (to_ns IS NULL OR to_ns > {begin - REACH_NS}) AND analysis_version = {DIAGNOSIS_VERSION}"
        " ORDER BY from_ns, id"
    )
    return parse_incident_rows(found)


def _advise(rule: str, verdict: str, facts: Mapping[str, object], layer: str | None) -> list[Advice]:
    return build_advice(load_advice_set(), rule, verdict, facts, layer=layer)


def _write_health(
    writer: Any, now_ns: int, health: Health, known: Sequence[Incident], told: Mapping[str, StoredFinding]
) -> int:
    """Rows of what is new or says something else than before, with its finding; nothing is written twice."""
    before = {one.id: msgspec.json.encode(one) for one in known}
    changed = [one for one in health.incidents if before.get(one.id) != msgspec.json.encode(one)]
    withdrawn = list(health.withdrawn)
    if not changed and not withdrawn:
        return 0
    batch = writer.open_batch(f"health/{now_ns}", source="analysis")
    if changed:
        batch.add(build_incident_rows(changed, now_ns))
        batch.add(build_finding_rows([told[one.id] for one in changed], now_ns))
    if withdrawn:
        batch.add(build_incident_rows(withdrawn, now_ns, withdrawn=True))
        batch.add(build_finding_rows(build_health_findings(withdrawn, now_ns), now_ns, withdrawn=True))
    batch.commit()
    return len(changed) + len(withdrawn)
