"""One step of diagnosis: jobs whose records were just read → their phases, judged against earlier ones, and findings.

What comes out of a job depends on the lake and on nothing else (`made_ns` apart), not on which jobs a step takes
together. Not here: writing it (`analysis_loop`), components (`health_round`), the system (`system_round`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.core.model.finding_incident_rows import (
    DIAGNOSIS_VERSION,
    StoredFinding,
    build_finding_rows,
    parse_finding_rows,
)
from fairlead.core.model.tables import JOBS, PHASE
from fairlead.explain.analysis.anomalies.detector_output import PhaseJudgement
from fairlead.explain.analysis.anomalies.expectation import CANDIDATES, judge_by_expectation
from fairlead.explain.analysis.history.usual_figures import compute_usual_figures
from fairlead.explain.analysis.interference.accusation_gate import filter_accusation
from fairlead.explain.analysis.interference.attribution import attribute_phase
from fairlead.explain.analysis.interference.scene import Attribution
from fairlead.explain.analysis.job_findings import Advise, build_job_findings
from fairlead.explain.analysis.job_summary import JobData
from fairlead.explain.diagnosing.diagnosis_settings import Limits
from fairlead.explain.diagnosing.job_advice import Advising
from fairlead.explain.diagnosing.lake_phases import detect_lake_phases
from fairlead.explain.diagnosing.phase_scenes import build_phase_scenes, build_scene_victims
from fairlead.explain.diagnosing.serving_components import Tables, build_day_condition
from fairlead.explain.diagnosing.touched_jobs import mark_judged_again
from fairlead.explain.questions.past_phases import History
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.store.stored_tables import conform_stored_table

OF_JOBS = "job."
"""What rules of findings about a job begin with."""
LEAST_UNEXPLAINED = 0.5
"""How sure it must be that a phase was slower than chance makes it to tell of it without a cause; with one less will
do, as evidence speaks for it, too."""
_EDGE_NS = 60_000_000_000
"""A phase may begin before its job does, by as much as intervals and clocks are coarse."""


@dataclass(frozen=True)
class StepResult:
    """What a step came to. `rows`: batches of PHASE and FINDING to be written with the jobs' summaries."""

    phases: pa.Table
    told: Sequence[StoredFinding] = ()
    withdrawn: Sequence[StoredFinding] = ()
    rows: Sequence[pa.RecordBatch | pa.Table] = field(default=())


def run_diagnosis_step(
    lake: Tables,
    looked: Sequence[JobData],
    now_ns: int,
    *,
    limits: Limits | None = None,
    peaks: Mapping[str, float] | None = None,
    again: Sequence[Mapping[str, Any]] | None = None,
) -> StepResult:
    """Phases and findings of these jobs (what is known of each, and its row of `jobs`), and the findings told of them
    before that are not borne out any more. `again`: those that may have been told of before (None: all). Raises
    LakeError."""
    jobs = [data.job for data in looked]
    phases = detect_lake_phases(lake, looked, now_ns)
    return diagnose_phases(lake, phases, jobs, now_ns, limits=limits, peaks=peaks, again=again)


def diagnose_phases(
    lake: Tables,
    phases: pa.Table,
    jobs: Sequence[Mapping[str, Any]],
    now_ns: int,
    *,
    limits: Limits | None = None,
    peaks: Mapping[str, float] | None = None,
    again: Sequence[Mapping[str, Any]] | None = None,
) -> StepResult:
    """The same of phases (PHASE, one job after the other) that are there already."""
    limits = limits or Limits()
    told: list[StoredFinding] = []
    if phases.num_rows:
        history = History(lake, phases)
        said = _judge_jobs(history)
        phases = add_judgement_columns(phases, said)
        advise = Advising(lake, phases, history, load_advice_set())
        told = _told(lake, phases, said, jobs, limits, peaks or {}, advise, history)
        told = mark_judged_again(told, jobs, now_ns)
    withdrawn = _find_obsolete_findings(lake, jobs if again is None else again, {one.finding.id for one in told})
    rows: list[pa.RecordBatch | pa.Table] = [phases] if phases.num_rows else []
    rows += [build_finding_rows(told, now_ns)] if told else []
    rows += [build_finding_rows(withdrawn, now_ns, withdrawn=True)] if withdrawn else []
    return StepResult(phases=phases, told=told, withdrawn=withdrawn, rows=rows)


def _judge_jobs(history: History) -> PhaseJudgement:
    """What is to be said of the phases a history was made for: of each job by itself, against what began before it."""
    parts = [judge_by_expectation(mine, history.select_before(mine), CANDIDATES) for mine in history.iterate_jobs()]
    names = PhaseJudgement.__dataclass_fields__
    return PhaseJudgement(**{name: np.concatenate([getattr(one, name) for one in parts]) for name in names})


def add_judgement_columns(phases: pa.Table, said: PhaseJudgement) -> pa.Table:
    """Rows of PHASE with what a detector says of them; null where it knows nothing."""
    columns = {"expected_s": said.expected_s, "lost_s": said.lost_s, "abnormal": said.confidence}
    made = {name: pa.array(values, pa.float64(), mask=np.isnan(values)) for name, values in columns.items()}
    for name, values in made.items():
        phases = phases.set_column(phases.schema.get_field_index(name), PHASE.schema.field(name), values)
    return conform_stored_table(phases, PHASE, strict=True)


def select_reportable(said: PhaseJudgement, limits: Limits) -> list[int]:
    """Rows that are abnormal, surely enough, and lost enough time for it to matter to a person."""
    lost, expected = np.nan_to_num(said.lost_s), np.nan_to_num(said.expected_s)
    enough = (lost >= limits.least_lost_s) & (lost >= limits.least_lost_share * expected)
    sure = np.nan_to_num(said.confidence) >= limits.confidence
    return [int(row) for row in np.flatnonzero(said.abnormal & enough & sure)]


def _told(
    lake: Tables,
    phases: pa.Table,
    said: PhaseJudgement,
    jobs: Sequence[Mapping[str, Any]],
    limits: Limits,
    peaks: Mapping[str, float],
    advise: Advise,
    history: History,
) -> list[StoredFinding]:
    rows = select_reportable(said, limits)
    if not rows:
        return []
    usual = [compute_usual_figures(phases, row, history.select_before(phases.slice(row, 1))) for row in rows]
    found: dict[int, Attribution] = {}
    for at, scene in build_phase_scenes(lake, build_scene_victims(phases, rows, usual), own=phases, peaks=peaks):
        cause = filter_accusation(scene, attribute_phase(scene))
        if cause.verdict != "unknown" or said.confidence[rows[at]] >= LEAST_UNEXPLAINED:
            found[rows[at]] = cause
    ran = pa.table({name: [job.get(name) for job in jobs] for name in ("cluster", "job_id", "start_ns", "end_ns")})
    told = build_job_findings(phases, said, found, jobs=conform_stored_table(ran, JOBS, strict=True), advise=advise)
    return sorted(told, key=lambda one: one.finding.id)


def _find_obsolete_findings(lake: Tables, jobs: Sequence[Mapping[str, Any]], still: set[str]) -> list[StoredFinding]:
    """Findings of this version that the lake holds of these jobs' own I/O and that are not among `still`."""
    if not jobs:
        return []
    begin, end = min(int(job["start_ns"]) for job in jobs), max(int(job["end_ns"]) for job in jobs)
    found = lake.query(
        "SELECT detail, job_id, cluster, from_ns FROM finding WHERE job_id IN (SELECT unnest($names))"
        " AND starts_with(rule, $of_jobs) AND NOT coalesce(withdrawn, false) AND analysis_version = $version"
        f" AND from_ns >= $from AND from_ns <= $to AND {build_day_condition(begin, end)} ORDER BY id",
        {
            "names": sorted({str(job["job_id"]) for job in jobs}),
            "of_jobs": OF_JOBS,
            "version": DIAGNOSIS_VERSION,
            "from": begin - _EDGE_NS,
            "to": end + _EDGE_NS,
        },
    )
    runs: dict[tuple[object, str], list[tuple[int, int]]] = {}
    for job in jobs:
        span = (int(job["start_ns"]) - _EDGE_NS, int(job["end_ns"]) + _EDGE_NS)
        runs.setdefault((job.get("cluster"), str(job["job_id"])), []).append(span)
    columns = [found[name].to_pylist() for name in ("cluster", "job_id", "from_ns")]
    mine = [
        any(low <= at <= high for low, high in runs.get((cluster, name), ()))
        for cluster, name, at in zip(*columns, strict=True)
    ]
    return [one for one in parse_finding_rows(found.filter(pa.array(mine, pa.bool_()))) if one.finding.id not in still]
