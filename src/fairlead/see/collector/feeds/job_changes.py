"""Which rows of a job list say something new: a scheduler is asked again and again, a job is told when it changed.

Not here: asking. The lake keeps one row a job (cluster, number, start), so telling twice is only a waste.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import JOBS
from fairlead.core.model.unit_formats import NS_PER_S

Key = tuple[str | None, str]
_SEEN = ("end_ns", "state", "nodes_count", "cores", "processes", "user", "name")
_MOST_RUNS = 1 << 17
"""Runs remembered; of one that is forgotten the next account is told again, which changes nothing."""
SAME_RUN_NS = 120 * NS_PER_S
"""A start told by a hook and one told by Slurm are of one run when they are this close."""


class JobChanges:
    """The runs of jobs that are known, by what was last told of them. For one thread."""

    def __init__(self, cluster: str = "") -> None:
        self.cluster = cluster or None
        self._told: dict[tuple[str | None, str, int], int] = {}
        self._running: dict[Key, int] = {}
        """Start of the runs that have no end yet."""
        self._guessed: dict[Key, int] = {}
        """Starts that a hook's clock gave, which later rows of the same run are given too."""

    def is_running(self, cluster: str | None, job_id: str) -> bool:
        """Whether a run of this job is known that has not ended."""
        if (cluster, job_id) in self._running:
            return True
        return cluster is None and any(job == job_id for _, job in self._running)

    @property
    def running_count(self) -> int:
        """Runs without an end."""
        return len(self._running)

    def list_runs(self) -> set[Key]:
        """Keys of the runs without an end."""
        return set(self._running)

    def guess(self, cluster: str | None, job_id: str, start_ns: int) -> None:
        """Notes that a run was told with a start of a hook's clock."""
        self._guessed[(self.cluster or cluster, job_id)] = start_ns

    def select_changed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `jobs` that tell a run's beginning, end or another change. Jobs that never began are left out."""
        rows = _settled(self._named(rows))
        starts = rows.column("start_ns").to_pylist()
        clusters, jobs = rows.column("cluster").to_pylist(), rows.column("job_id").to_pylist()
        seen = zip(*(rows.column(name).to_pylist() for name in _SEEN), strict=True)
        keep: list[int] = []
        for at, (cluster, job_id, start, what) in enumerate(zip(clusters, jobs, starts, seen, strict=True)):
            if start is None or what[1] == "COMPLETING":
                continue  # how it ended is told later, with the same end
            known = self._start((cluster, job_id), start)
            starts[at] = known
            mark = hash(what)
            if self._told.get((cluster, job_id, known)) != mark:
                self._note(cluster, job_id, known, mark, ended=what[0] is not None)
                keep.append(at)
        at_column = JOBS.schema.get_field_index("start_ns")
        given = rows.set_column(at_column, JOBS.schema.field(at_column), pa.array(starts, pa.int64()))
        return given.take(pa.array(keep, pa.int64()))

    def _named(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.cluster is None:
            return rows
        at = JOBS.schema.get_field_index("cluster")
        words = pa.DictionaryArray.from_arrays(np.zeros(rows.num_rows, np.int32), pa.array([self.cluster]))
        return rows.set_column(at, JOBS.schema.field(at), words)

    def _start(self, key: Key, start: int) -> int:
        guessed = self._guessed.get(key)
        return guessed if guessed is not None and abs(guessed - start) <= SAME_RUN_NS else start

    def _note(self, cluster: str | None, job_id: str, start: int, mark: int, *, ended: bool) -> None:
        key = (cluster, job_id)
        self._told[(cluster, job_id, start)] = mark
        if not ended:
            self._running[key] = max(start, self._running.get(key, start))
        elif self._running.get(key) == start:
            del self._running[key]
        while len(self._told) > _MOST_RUNS:
            oldest = next(iter(self._told))
            del self._told[oldest]
            self._guessed.pop(oldest[:2], None)
        while len(self._running) > _MOST_RUNS:
            del self._running[next(iter(self._running))]


def _settled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with jobs whose nodes are being made ready as running: a run has one word for that it goes on."""
    at = JOBS.schema.get_field_index("state")
    state = rows.column(at)
    running = pc.if_else(pc.equal(state, "CONFIGURING"), "RUNNING", state)
    return rows.set_column(at, JOBS.schema.field(at), running)
