"""Phases and findings of past jobs made again, with this version of the analysis, in a shard of their own.

Twice over the time: first the phases of every hour, then, when all are there, what is to be said of them; so what a
phase is compared with does not depend on which worker was faster. Each hour is a batch of its own name: a run that was
killed goes on where it stopped. Not here: summaries (`reanalysis`), jobs that just ended (`ended_jobs`).
"""
# ruff: noqa: S608  (conditions are numbers of ours)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

import fairlead
from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION
from fairlead.core.model.tables import PHASE, build_empty_table
from fairlead.explain.batch.reanalysis import find_reanalysis_stretches
from fairlead.explain.batch.span_pieces import open_piece_lake
from fairlead.explain.batch.workers import Workers
from fairlead.explain.diagnosing.diagnosis_step import diagnose_phases
from fairlead.explain.diagnosing.ended_jobs import LAG_NS
from fairlead.explain.diagnosing.lake_phases import detect_lake_phases
from fairlead.explain.diagnosing.recorded_io import read_recorded_io
from fairlead.explain.questions.lake_queries import build_day_filter, list_query_rows
from fairlead.explain.questions.past_phases import LATEST
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.store.stored_tables import conform_stored_table

SHARD = "rediagnosis"


class Rediagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `kept`: jobs whose phases were left as they were, because records they were made of are gone."""

    schema: str = "fairlead.rediagnosis/1"
    from_ns: int
    to_ns: int
    label: str
    shard: str
    stretches: int
    done_before: int
    jobs: int
    phases: int
    findings: int
    withdrawn: int
    kept: int


@dataclass(frozen=True)
class DiagnosisBatch:
    """Rows of one hour's jobs, by table, and counts."""

    tables: tuple[pa.Table, ...]
    jobs: int = 0
    findings: int = 0
    withdrawn: int = 0
    kept: int = 0


def _label_of_this() -> str:
    """The label of a run that is to be done once by each version."""
    return f"{fairlead.__version__}-{DIAGNOSIS_VERSION}"


def run_rediagnosis(
    workers: Workers,
    root: str,
    span: Span,
    now_ns: int,
    *,
    shard: str = SHARD,
    label: str = "",
    memory: str | None = None,
    wait_s: float = 0.0,
    done: Callable[[int, int], None] | None = None,
) -> Rediagnosis:
    """Makes phases and findings of all jobs that began in `span` and have ended, where this was not done under `label`
    (the version, unless given). `done` is told pieces done and pieces in all.

    Raises LakeBusyError when another run writes `shard`, LakeError, and what workers raise.
    """
    label = label or _label_of_this()
    lake = open_piece_lake(root, memory)
    counts = {"jobs": 0, "phases": 0, "findings": 0, "withdrawn": 0, "kept": 0}
    with lake.open_writer(shard, wait_s=wait_s) as writer:
        cut = find_reanalysis_stretches(lake, span)
        before = 0
        for half, (name, work) in enumerate((("phases", _detect_stretch_phases), ("findings", _judge_stretch_phases))):
            wanted = [one for one in cut if not writer.has_batch(_stream_of(name, label, one))]
            before = len(cut) - len(wanted)
            count = half * len(cut) + before
            if done is not None:
                done(count, 2 * len(cut))
            for one, made in workers.run_each(work, wanted, root=root, memory=memory, now_ns=now_ns + half):
                batch = writer.open_batch(_stream_of(name, label, one), source="rediagnosis", path=label)
                batch.fallback_ns = one.from_ns
                for table in made.tables:
                    batch.add(table)
                batch.commit()
                count += 1
                counts["phases"] += sum(t.num_rows for t in made.tables) if name == "phases" else 0
                for key in ("jobs", "findings", "withdrawn", "kept"):
                    counts[key] += getattr(made, key)
                if done is not None:
                    done(count, 2 * len(cut))
            writer.flush()  # what is compared with each other lies in tables then
    return Rediagnosis(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        label=label,
        shard=shard,
        stretches=len(cut),
        done_before=before,
        jobs=counts["jobs"],
        phases=counts["phases"],
        findings=counts["findings"],
        withdrawn=counts["withdrawn"],
        kept=counts["kept"],
    )


def _stream_of(what: str, label: str, stretch: Span) -> str:
    """What names a piece's batch for ever."""
    return f"rediagnosis/{what}/{label}/{stretch.from_ns}/{stretch.to_ns}"


def _detect_stretch_phases(stretch: Span, *, root: str, memory: str | None, now_ns: int) -> DiagnosisBatch:
    """Phases of the jobs that began in one stretch, not judged yet. Runs where a worker is."""
    lake = open_piece_lake(root, memory)
    jobs = _jobs(lake, stretch, now_ns)
    made = detect_lake_phases(lake, read_recorded_io(lake, jobs), now_ns) if jobs else build_empty_table(PHASE)
    there = {_run(row) for row in _phases(lake, stretch).select(["cluster", "job_id", "job_start_ns"]).to_pylist()}
    new = {_run(row) for row in made.select(["cluster", "job_id", "job_start_ns"]).to_pylist()}
    return DiagnosisBatch((made,) if made.num_rows else (), kept=len(there - new))


def _judge_stretch_phases(stretch: Span, *, root: str, memory: str | None, now_ns: int) -> DiagnosisBatch:
    """What is to be said of the phases of the jobs that began in one stretch. Runs where a worker is."""
    lake = open_piece_lake(root, memory)
    jobs = _jobs(lake, stretch, now_ns)
    if not jobs:
        return DiagnosisBatch(())
    phases = _phases(lake, stretch)
    for name, value in (("made_ns", now_ns), ("analysis_version", DIAGNOSIS_VERSION)):
        column = pa.array([value] * phases.num_rows, pa.int64())
        phases = phases.set_column(phases.schema.get_field_index(name), PHASE.schema.field(name), column)
    found = diagnose_phases(lake, phases, jobs, now_ns)
    tables = tuple(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]) for rows in found.rows)
    return DiagnosisBatch(tables, len(jobs), len(found.told), len(found.withdrawn))


def _jobs(lake: Any, stretch: Span, now_ns: int) -> list[dict[str, Any]]:
    return list_query_rows(
        lake.query(
            f"SELECT * EXCLUDE (day) FROM jobs WHERE start_ns >= {stretch.from_ns} AND start_ns < {stretch.to_ns}"
            f" AND {build_day_filter(stretch)} AND end_ns >= start_ns AND end_ns <= {now_ns - LAG_NS}"
            " ORDER BY start_ns, cluster, job_id"
        )
    )


def _phases(lake: Any, stretch: Span) -> pa.Table:
    """Rows of PHASE of the jobs that began in the stretch, job by job."""
    around = Span(stretch.from_ns - DAY_NS, stretch.to_ns + 400 * DAY_NS)
    found = lake.query(
        f"SELECT * EXCLUDE (day) FROM phase WHERE job_start_ns >= {stretch.from_ns} AND job_start_ns < {stretch.to_ns}"
        f" AND {build_day_filter(around)} QUALIFY {LATEST} ORDER BY job_start_ns, cluster, job_id, start_ns,"
        f" kind, number"
    )
    return conform_stored_table(found, PHASE, strict=True)


def _run(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["cluster"], row["job_id"], row["job_start_ns"]
