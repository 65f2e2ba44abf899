"""Job summaries of a past span made again, with this version of the analysis, and written to a shard of their own.

Workers read and compute, one writer commits. Each stretch of time is a batch of its own name, so that a run that was
killed goes on where it stopped, and one that is done adds nothing. Not here: summaries of jobs that just ended
(`ended_jobs`).
"""
# ruff: noqa: S608  (conditions are numbers of ours)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

import fairlead
from fairlead.explain.analysis.job_summary import ANALYSIS_VERSION, SERIES, Row, build_job_summary_table
from fairlead.explain.batch.span_pieces import open_piece_lake, split_span_into_pieces
from fairlead.explain.batch.workers import Workers
from fairlead.explain.diagnosing.ended_jobs import LAG_NS, build_ended_job_summaries
from fairlead.explain.questions.lake_queries import build_day_filter, list_query_rows
from fairlead.explain.questions.span import HOUR_NS, Span
from fairlead.store.lake import Lake

SHARD = "reanalysis"
STRETCH_NS = HOUR_NS
"""Jobs that began in the same hour are one piece and one batch."""
_ABOUT = ("cluster", "job_id", "start_ns", "made_ns", "analysis_version", "basis", "estimated", "end_ns")
"""Columns of a summary that do not tell of I/O that was recorded."""


class Reanalysis(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did. `kept`: jobs whose summary was left as it was, because records it was made of are gone."""

    schema: str = "fairlead.reanalysis/1"
    from_ns: int
    to_ns: int
    label: str
    shard: str
    stretches: int
    done_before: int
    jobs: int
    kept: int


@dataclass(frozen=True)
class SummaryBatch:
    """Summaries of the jobs that began in one stretch (a table of JOB_SUMMARY)."""

    rows: pa.Table
    kept: int


def _label_of_this() -> str:
    """The label of a run that is to be done once by each version."""
    return f"{fairlead.__version__}-{ANALYSIS_VERSION}"


def run_reanalysis(
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
) -> Reanalysis:
    """Makes the summaries of all jobs that began in `span` and have ended, where this was not done under `label` (the
    version, unless given). Summaries are as of `now_ns`, and later ones count over them. `done` is told stretches done
    and stretches in all.

    Raises LakeBusyError when another run writes `shard`, LakeError, and what workers raise.
    """
    label = label or _label_of_this()
    lake = open_piece_lake(root, memory)
    with lake.open_writer(shard, wait_s=wait_s) as writer:
        cut = find_reanalysis_stretches(lake, span)
        wanted = [one for one in cut if not writer.has_batch(name_reanalysis_stream(label, one))]
        count, jobs, kept = len(cut) - len(wanted), 0, 0
        if done is not None:
            done(count, len(cut))
        for one, made in workers.run_each(reanalyse_stretch, wanted, root=root, memory=memory, now_ns=now_ns):
            batch = writer.open_batch(name_reanalysis_stream(label, one), source="reanalysis", path=label)
            batch.fallback_ns = one.from_ns
            batch.add(made.rows)
            batch.commit()
            count, jobs, kept = count + 1, jobs + made.rows.num_rows, kept + made.kept
            if done is not None:
                done(count, len(cut))
    return Reanalysis(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        label=label,
        shard=shard,
        stretches=len(cut),
        done_before=len(cut) - len(wanted),
        jobs=jobs,
        kept=kept,
    )


def name_reanalysis_stream(label: str, stretch: Span) -> str:
    """What names a stretch's batch for ever."""
    return f"reanalysis/{label}/{stretch.from_ns}/{stretch.to_ns}"


def find_reanalysis_stretches(lake: Lake, span: Span) -> list[Span]:
    """The stretches of the span in which jobs began."""
    found = lake.query(
        f"SELECT DISTINCT start_ns // {STRETCH_NS} AS stretch FROM jobs WHERE end_ns >= start_ns"
        f" AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND {build_day_filter(span)}"
    )
    busy = set(found.column("stretch").to_pylist())
    return [one for one in split_span_into_pieces(span, STRETCH_NS) if one.from_ns // STRETCH_NS in busy]


def reanalyse_stretch(stretch: Span, *, root: str, memory: str | None, now_ns: int) -> SummaryBatch:
    """Summaries of the jobs that began in one stretch and ended long enough ago. Runs where a worker is."""
    lake = open_piece_lake(root, memory)
    begun = f"start_ns >= {stretch.from_ns} AND start_ns < {stretch.to_ns} AND {build_day_filter(stretch)}"
    jobs = list_query_rows(
        lake.query(
            f"SELECT * EXCLUDE (day) FROM jobs WHERE {begun} AND end_ns >= start_ns AND end_ns <= $until",
            {"until": now_ns - LAG_NS},
        )
    )
    told = list_query_rows(lake.query(f"SELECT * EXCLUDE (day) FROM job_summary WHERE {begun}"))
    before = {_key(row): row for row in told}
    rows = build_ended_job_summaries(lake, jobs, now_ns)
    good = [row for row in rows if not is_less_complete_summary(row, before.get(_key(row)))]
    return SummaryBatch(build_job_summary_table(good), len(rows) - len(good))


def _key(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["cluster"], row["job_id"], row["start_ns"]


def is_less_complete_summary(row: Row, before: Mapping[str, Any] | None) -> bool:
    """Whether a summary made now knows less than the one there is: raw records are kept for days, summaries for ever.
    It lacks a figure that was known, or counts less traffic by the same layer."""
    if before is None:
        return False
    if any(row[name] is None and before[name] is not None for name in row if name not in _ABOUT):
        return True
    if row["basis"] is None or row["basis"] != before["basis"]:
        return row["basis"] is None and before["basis"] is not None
    return any((before[name] or 0) > (row[name] or 0) for name in SERIES)  # type: ignore[operator]
