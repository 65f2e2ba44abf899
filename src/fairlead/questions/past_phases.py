"""Phases in the lake: those a phase is compared with (earlier ones of the same programs and users, a bounded number of
each, one query whatever the number of jobs), and those of a job.

Not here: categories and what is usual (`analysis.history`), phases of jobs that just ended (`runtime.diagnosing`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.lake.tables import conform
from fairlead.model.tables import PHASE, empty
from fairlead.questions.asking import Tables, days, select
from fairlead.questions.span import DAY_NS, Span

MOST_RUNS = 200
"""So many earlier phases of one program, user and kind are compared with: the latest ones."""
REACH_NS = 120 * DAY_NS
"""Phases that began earlier than this before those that are judged are not looked at."""
LATEST = "made_ns = max(made_ns) OVER (PARTITION BY cluster, job_id, job_start_ns)"
"""Condition (QUALIFY) on rows of `phase`: when a job's phases were made again and are fewer, those left over go."""
_COLUMNS = ", ".join(f'"{name}"' for name in PHASE.schema.names)
Run = tuple[object, ...]


def history_of(lake: Tables, phases: pa.Table, *, most: int = MOST_RUNS, reach_ns: int = REACH_NS) -> pa.Table:
    """Phases the lake holds of the programs and of the users of `phases`, that began before the last of these, without
    those of the same jobs (which are being made again). Schema PHASE, in a fixed order. Raises LakeError."""
    if not phases.num_rows:
        return empty(PHASE)
    starts = pc.min_max(phases["start_ns"]).as_py()
    span = Span(int(starts["min"]) - reach_ns, int(starts["max"]) + 1)
    named = {name: pc.unique(phases[name].drop_null()).to_pylist() for name in ("program", "user")}
    found = select(
        lake,
        f"SELECT {_COLUMNS} FROM (SELECT * FROM phase WHERE (program IN (SELECT unnest($programs)) OR"
        f' "user" IN (SELECT unnest($users))) AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND'
        f" {days(span)} QUALIFY {LATEST})"
        f' QUALIFY row_number() OVER (PARTITION BY program, "user", kind'
        f" ORDER BY start_ns DESC, cluster, job_id, number) <= {int(most)}"
        " ORDER BY start_ns, cluster, job_id, kind, number",
        {"programs": named["program"], "users": named["user"]},
    )
    again = set(runs_of(phases))
    others = pa.array([run not in again for run in runs_of(found)], pa.bool_())
    return conform(found.filter(others), PHASE, strict=True)


def runs_of(phases: pa.Table) -> Iterator[Run]:
    """Of each row of PHASE what names its job: cluster, number, start."""
    return zip(*(phases[name].to_pylist() for name in ("cluster", "job_id", "job_start_ns")), strict=True)


def phases_of_job(lake: Tables, cluster: str | None, job_id: str, start_ns: int, end_ns: int | None) -> pa.Table:
    """Rows of PHASE of one run, in the order of time."""
    span = Span(start_ns - DAY_NS, (end_ns if end_ns is not None else start_ns + 400 * DAY_NS) + DAY_NS)
    found = select(
        lake,
        f"SELECT {_COLUMNS} FROM phase WHERE job_id = $job AND cluster IS NOT DISTINCT FROM $cluster"
        f" AND job_start_ns = {start_ns} AND {days(span)} QUALIFY {LATEST} ORDER BY start_ns, kind, number",
        {"job": job_id, "cluster": cluster},
    )
    return conform(found, PHASE, strict=True)
