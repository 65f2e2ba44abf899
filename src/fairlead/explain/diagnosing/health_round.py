"""One look at the components: states of the last hours, incidents that began, go on or ended, as rows of the lake.

The lake is its only memory: what was told before is read from it. Not here: when it looks (`rounds`), what is sick
(`analysis.health`).
"""
# ruff: noqa: S608  (conditions are numbers of ours)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from fairlead.explain.analysis.health.incident_copies import merge_incident_copies
from fairlead.explain.analysis.health.incidents import LAPSED
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.spells import REJOIN_SILENT_NS
from fairlead.explain.diagnosing.component_peaks import read_past_peaks
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.looked_time import find_looked_end, mark_looked_time
from fairlead.explain.diagnosing.serving_components import Tables
from fairlead.explain.questions.component_loads import ComponentLoads, read_component_loads
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, MINUTE_NS, Span
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.store.stored_tables import conform_stored_table

BEYOND_NS = 10 * MINUTE_NS
"""A look reaches back as long as an incident must last, and this much more."""
STRIDE_NS = 3 * HOUR_NS
"""Time that nobody looked at is caught up with in pieces of this length ..."""
MOST_STRIDES = 8
"""... so many a round."""
REACH_BACK_NS = 7 * DAY_NS
"""The beginning of an incident is looked for in this time."""
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
    changed_ns: int | None = None,
) -> int:
    """Looks once and writes what changed; returns its rows. `peaks`: what the site says, by kind; `past`:
    `read_past_peaks` before `compute_health_learning_end`, read here unless given; `span`: what is looked at (default:
    `_compute_health_span`, and all the time before it that nobody looked at, a bounded part a round). `changed_ns`:
    records since then are looked at again. Raises LakeError."""
    limits = build_health_round_limits(settings)
    if span is not None:
        return _look_at_span(lake, writer, now_ns, limits, peaks, past, span)
    usual = _compute_health_span(now_ns, limits)
    ends = _list_ends(find_looked_end(writer, usual.to_ns), changed_ns, usual.to_ns)
    written, begin = 0, ends[0]
    for stride, end in enumerate(ends[1 : MOST_STRIDES + 1]):
        spanned = Span(min(begin, end) - usual.length_ns, end) if end > begin else usual
        now = now_ns - MOST_STRIDES + stride  # Of two rows of an incident the one made later counts.
        written += _look_at_span(lake, writer, now, limits, peaks, past if end == usual.to_ns else None, spanned)
        mark_looked_time(writer, end)
        begin = end
    return written


def _list_ends(looked_ns: int | None, changed_ns: int | None, end_ns: int) -> list[int]:
    """Times between which to look one after the other, from what was looked at or has changed since up to `end_ns`."""
    begin = end_ns if looked_ns is None else looked_ns
    begin = min(begin, end_ns if changed_ns is None else changed_ns // STRIDE_NS * STRIDE_NS)
    return [*range(begin, end_ns, STRIDE_NS), end_ns] if begin < end_ns else [end_ns, end_ns]


def _look_at_span(
    lake: Tables,
    writer: Any,
    now_ns: int,
    limits: HealthLimits,
    peaks: Mapping[str, float] | None,
    past: Mapping[tuple[str, str], Peak] | None,
    span: Span,
) -> int:
    end = span.to_ns
    if past is None:
        past = read_past_peaks(lake, span.from_ns // HOUR_NS * HOUR_NS)
    told_peaks = {(kind, ""): value for kind, value in (peaks or {}).items()}
    known_peaks: dict[tuple[str, str], Peak | float] = {
        **{at: one for at, one in past.items() if (at[0], "") not in told_peaks},
        **told_peaks,
    }
    stored = _read_known_incidents(lake, span.from_ns, end)
    known, copies = merge_incident_copies(stored)

    def assess(span: Span) -> tuple[Health, ComponentLoads]:
        given = read_component_loads(lake, span)
        health = assess_health(
            given.loads,
            given.interval_ns,
            known_peaks,
            given.events,
            now_ns=end,
            open_incidents=known,
            limits=limits,
            servers=given.servers,
            nodes=given.nodes,
            canaries=given.canaries,
        )
        return health, given

    health, given = assess(span)
    limit_ns = end - REACH_BACK_NS
    while (begin := _find_earlier_begin(health, known, span, limits)) is not None and span.from_ns > limit_ns:
        span = Span(max(begin, limit_ns), end)
        wider, loads = assess(span)
        if not {one.component for one in health.begun} <= {one.component for one in wider.incidents}:
            break  # It is only seen by the second, and there are too many of these: what is known of it is kept.
        health, given = wider, loads
    looked = {one.id for one in (*health.incidents, *health.withdrawn)}
    current = [*health.incidents, *(one for one in known if one.id not in looked)]
    before = {one.id: one for one in stored}
    changed = [one for one in current if one != before.get(one.id)]
    findings = build_health_findings(changed, end, limits=limits, jobs=_sizes(given.nodes), advise=_advise)
    return _write_health(writer, now_ns, end, changed, findings, [*health.withdrawn, *copies])


def _find_earlier_begin(health: Health, known: Sequence[Incident], span: Span, limits: HealthLimits) -> int | None:
    """Return from when on to look instead, where a new incident was sick at the beginning of the span already, or may
    be the same as one that ended in silence; None where its beginning was seen."""
    edge_ns = span.from_ns + int(max(limits.reopen_s, (limits.recovered + 1) * limits.window_s) * NS_PER_S)
    begins: list[int] = []
    for one in health.begun:
        if one.from_ns < edge_ns:
            begins.append(span.from_ns - span.length_ns)
        silent = [
            old.to_ns - int(limits.minimum_s * NS_PER_S)
            for old in known
            if (old.layer, old.component) == (one.layer, one.component)
            and LAPSED in old.missing
            and old.to_ns is not None
            and one.from_ns - REJOIN_SILENT_NS <= old.to_ns < span.from_ns
        ]
        begins += silent
    return min(begins, default=None)


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
    writer: Any,
    now_ns: int,
    end_ns: int,
    changed: Sequence[Incident],
    findings: Sequence[StoredFinding],
    withdrawn: Sequence[Incident],
) -> int:
    """Rows of what is new or says something else than before, with its finding, and of what is withdrawn."""
    if not changed and not withdrawn:
        return 0
    batch = writer.open_batch(f"health/{now_ns}/{end_ns}", source="analysis")
    if changed:
        batch.add(build_incident_rows(changed, now_ns))
        batch.add(build_finding_rows(findings, now_ns))
    if withdrawn:
        batch.add(build_incident_rows(withdrawn, now_ns, withdrawn=True))
        batch.add(build_finding_rows(build_health_findings(withdrawn, now_ns), now_ns, withdrawn=True))
    batch.commit()
    return len(changed) + len(withdrawn)
