"""Phases in the lake: those a phase is compared with (earlier ones of the same programs and users, a bounded number of
each, one query whatever the number of jobs), and those of a job.

Not here: categories and what is usual (`analysis.history`), phases of jobs that just ended (`explain.diagnosing`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import PHASE, build_empty_table
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.store.stored_tables import conform_stored_table

MOST_RUNS = 200
"""So many earlier phases of one program, user and kind are compared with: the latest ones."""
MOST_FETCHED = 2000
"""So many are fetched, as jobs of a step lie apart in time."""
REACH_NS = 120 * DAY_NS
"""Phases that began earlier than this before those that are judged are not looked at."""
LATEST = "made_ns = max(made_ns) OVER (PARTITION BY cluster, job_id, job_start_ns)"
"""Condition (QUALIFY) on rows of `phase`: when a job's phases were made again and are fewer, those left over go."""
_COLUMNS = ", ".join(f'"{name}"' for name in PHASE.schema.names)
Run = tuple[object, ...]


def read_past_phases(lake: Tables, phases: pa.Table, *, most: int = MOST_RUNS, reach_ns: int = REACH_NS) -> pa.Table:
    """Phases the lake holds of the programs and of the users of `phases`, that began before the last of these, without
    those of the same jobs (which are being made again). Schema PHASE, in a fixed order. Raises LakeError."""
    if not phases.num_rows:
        return build_empty_table(PHASE)
    starts = pc.min_max(phases["start_ns"]).as_py()
    span = Span(int(starts["min"]) - reach_ns, int(starts["max"]) + 1)
    named = {name: pc.unique(phases[name].drop_null()).to_pylist() for name in ("program", "user")}
    found = query_lake(
        lake,
        f"SELECT {_COLUMNS} FROM (SELECT * FROM phase WHERE (program IN (SELECT unnest($programs)) OR"
        f' "user" IN (SELECT unnest($users))) AND start_ns >= {span.from_ns} AND start_ns < {span.to_ns} AND'
        f" {build_day_filter(span)} QUALIFY {LATEST})"
        f' QUALIFY row_number() OVER (PARTITION BY program, "user", kind'
        f" ORDER BY start_ns DESC, cluster, job_id, number) <= {int(most)}"
        " ORDER BY start_ns, cluster, job_id, kind, number",
        {"programs": named["program"], "users": named["user"]},
        began=span,
    )
    again = set(_iterate_runs(phases))
    others = pa.array([run not in again for run in _iterate_runs(found)], pa.bool_())
    return conform_stored_table(found.filter(others), PHASE, strict=True)


class History:
    """Phases that jobs are compared with, each job with those that began before it did: whatever other jobs are asked
    for with it, it is compared with the same ones."""

    def __init__(self, lake: Tables, phases: pa.Table) -> None:
        """`phases`: rows of PHASE, of one job after the other, that the lake need not hold yet. Raises LakeError."""
        self._phases = phases
        pool = pa.concat_tables([read_past_phases(lake, phases, most=MOST_FETCHED), phases]).unify_dictionaries()
        self._pool = _sort_phases(pool)
        self._starts = self._pool["start_ns"].to_numpy()
        self._named = {name: self._pool[name].combine_chunks() for name in ("program", "user")}
        kind = self._pool["kind"].cast(pa.string())
        self._group = _codes([self._pool["program"], self._pool["user"], kind])

    def iterate_jobs(self) -> Iterator[pa.Table]:
        """The phases asked for, job by job."""
        runs = list(_iterate_runs(self._phases))
        first = 0
        for at in range(1, len(runs) + 1):
            if at == len(runs) or runs[at] != runs[first]:
                yield self._phases.slice(first, at - first)
                first = at

    def select_before(self, mine: pa.Table) -> pa.Table:
        """The latest phases of one job's program and of its user that began before its last one, and its own."""
        low = int(np.searchsorted(self._starts, int(pc.max(mine["start_ns"]).as_py()), side="right"))
        alike = np.zeros(low, np.bool_)
        for name, column in self._named.items():
            value = mine[name][0].as_py()
            if value is not None:
                same = pc.equal(column.slice(0, low), value).fill_null(False)
                alike |= np.asarray(same.to_numpy(zero_copy_only=False))
        rows = np.flatnonzero(alike)[::-1]
        # How many of its group come after each row: the latest ones stay.
        _, group = np.unique(self._group[rows], return_inverse=True)
        order = np.argsort(group, kind="stable")
        firsts = np.searchsorted(group[order], group[order], side="left")
        rank = np.empty(len(rows), np.int64)
        rank[order] = np.arange(len(rows)) - firsts
        return self._pool.take(pa.array(np.sort(rows[rank < MOST_RUNS])))


def _sort_phases(phases: pa.Table) -> pa.Table:
    """Rows of PHASE in a fixed order: by when they began, then by job, kind and number."""
    names = ("start_ns", "cluster", "job_id", "kind", "number")
    words = {name: phases[name].cast(pa.string()) if name in ("cluster", "kind") else phases[name] for name in names}
    return phases.take(pc.sort_indices(pa.table(words), [(name, "ascending") for name in names]))


def _codes(columns: list[pa.ChunkedArray]) -> np.ndarray:
    """One number for each combination of values."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = column.combine_chunks().dictionary_encode()
        values = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1
        _, key = np.unique(key * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
    return key


def _iterate_runs(phases: pa.Table) -> Iterator[Run]:
    """Of each row of PHASE what names its job: cluster, number, start."""
    return zip(*(phases[name].to_pylist() for name in ("cluster", "job_id", "job_start_ns")), strict=True)


def read_job_phases(lake: Tables, cluster: str | None, job_id: str, start_ns: int, end_ns: int | None) -> pa.Table:
    """Rows of PHASE of one run, in the order of time."""
    span = Span(start_ns - DAY_NS, (end_ns if end_ns is not None else start_ns + 400 * DAY_NS) + DAY_NS)
    found = query_lake(
        lake,
        f"SELECT {_COLUMNS} FROM phase WHERE job_id = $job AND cluster IS NOT DISTINCT FROM $cluster"
        f" AND job_start_ns = {start_ns} AND {build_day_filter(span)} QUALIFY {LATEST} ORDER BY start_ns, kind, number",
        {"job": job_id, "cluster": cluster},
        began=span,
        numbers=[job_id],
    )
    return conform_stored_table(found, PHASE, strict=True)
