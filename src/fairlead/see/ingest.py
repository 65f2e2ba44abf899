"""From paths to rows in a lake: each file is read by its source and taken in whole, once, whatever its name.

Pure composition of `sources`, `compression` and `writer`. A file that fails leaves nothing behind and stops no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.compression.merger import Merger
from fairlead.core.errors import FairleadError, InputError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import EVENTS, JOBS, OPS, build_table_batch, find_table_spec
from fairlead.see.sources import inputs
from fairlead.see.sources.base import Source
from fairlead.see.sources.inputs import set_source_time_zone
from fairlead.see.sources.local_time import check_local_time_zone
from fairlead.store.batch_writer import BatchWriter
from fairlead.store.writer import Writer

_OPS_AT_ONCE = 1 << 18
"""Operations are merged in stretches of at least this many: a merge costs a little even when it has little to do."""
_JOBS_AT_ONCE = 1 << 14
_MINUTE_NS = 60_000_000_000


@dataclass(frozen=True)
class Outcome:
    """What became of one file: `added` with its rows by table, `known` (the lake had its content), or `failed`."""

    path: Path
    source: str | None
    state: Literal["added", "known", "failed"]
    rows: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    """Client operations in the file; `rows["ops"]` is the number of runs they became."""
    missing: int = 0
    error: FairleadError | None = None


def find_ingest_traces(
    paths: Sequence[Path], *, time_zone: str | None = None
) -> tuple[list[inputs.JobInput], list[Outcome]]:
    """The traces under `paths`, gathered by job, and those that could not be used. `time_zone`: of times without an
    offset. Raises UsageError for an unknown one."""
    if time_zone is not None:
        check_local_time_zone(time_zone)
    files, failures = inputs.discover_input_files(paths)
    jobs = [replace(job, source=set_source_time_zone(job.source, time_zone)) for job in inputs.group_input_files(files)]
    return jobs, [Outcome(f.path, None, "failed", error=f.error) for f in failures]


def ingest_jobs(
    writer: Writer,
    jobs: Sequence[inputs.JobInput],
    *,
    exact_times: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Outcome]:
    """Takes in every file, one after the other; each is acknowledged (durable, visible) when its outcome comes.

    `progress` is told about records as they are read. Errors of a file are its outcome; LakeError is raised.
    """
    for job in jobs:
        beside = inputs.assign_input_ranks(job.source, job.files)
        for path in job.files:
            yield _Intake(writer, job.source, path, beside.get(path, 0), exact_times, progress).run()


class _Intake:
    """One file on its way in."""

    def __init__(
        self,
        writer: Writer,
        source: Source,
        path: Path,
        base: int,
        exact_times: bool,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._writer = writer
        self._source = source
        self._path = path
        self._base = base
        # Darshan lists a file's writes before its reads: by time, their order is kept.
        self._merger = Merger(exact_times=exact_times, by_time=True)
        self._progress = progress
        self._ops: list[pa.RecordBatch] = []
        self._waiting = 0
        self._operations = 0
        self._jobs: list[Job] = []
        self._job_count = 0
        self._first_job: Job | None = None
        self._missing: list[Missing] = []

    def run(self) -> Outcome:
        """Reads, merges, commits; on any failure nothing of the file is in the lake."""
        try:
            before = _stamp(self._path)
            name = inputs.name_input_content(self._path, self._source)
            if self._writer.has_batch(name):
                return self._outcome("known")
            batch = self._writer.open_batch(name, source=self._source.name, path=str(self._path))
            try:
                self._fill(batch)
                self._still(before)
                added = batch.commit()
            except BaseException:
                batch.abandon()
                raise
        except InputError as error:
            return Outcome(self._path, self._source.name, "failed", error=_placed(error, self._path))
        return self._outcome("added", batch.rows) if added else self._outcome("known")

    def _still(self, before: tuple[int, int, int]) -> None:
        if _stamp(self._path) != before:
            raise InputError(
                "the file changed while it was read",
                where=str(self._path),
                remedy="ingest it again when its writer has finished",
            )

    def _outcome(self, state: Literal["added", "known"], rows: dict[str, int] | None = None) -> Outcome:
        return Outcome(self._path, self._source.name, state, dict(rows or {}), self._operations, len(self._missing))

    def _fill(self, batch: BatchWriter) -> None:
        for item in self._source.read(self._path):
            if isinstance(item, pa.RecordBatch):
                self._rows(batch, item)
            elif isinstance(item, Job):
                self._job(batch, item)
            else:
                self._missing.append(item)
        self._merge(batch)
        batch.add(self._merger.flush())
        self._flush_jobs(batch)
        if self._missing:
            batch.add(self._missing_events(batch))

    def _rows(self, batch: BatchWriter, rows: pa.RecordBatch) -> None:
        spec = find_table_spec(rows.schema)
        rows = inputs.shift_input_ranks(rows, self._base)
        if self._progress is not None:
            self._progress(rows.num_rows)
        if spec.name != OPS.name:
            batch.add(rows)
            return
        self._ops.append(rows)
        self._waiting += rows.num_rows
        if self._waiting >= _OPS_AT_ONCE:
            self._merge(batch)

    def _merge(self, batch: BatchWriter) -> None:
        if self._waiting:
            ops = pa.Table.from_batches(self._ops)
            self._operations += pc.sum(ops.column("count")).as_py() or 0
            batch.add(self._merger.push(ops))
        self._ops, self._waiting = [], 0

    def _job(self, batch: BatchWriter, job: Job) -> None:
        self._jobs.append(job)
        self._job_count += 1
        if self._job_count == 1:
            self._first_job = job
        # What has no time of its own happened on the day its job began; accounting speaks of many jobs.
        only = self._first_job if self._job_count == 1 else None
        batch.fallback_ns = only.start_ns if only is not None else None
        if len(self._jobs) >= _JOBS_AT_ONCE:
            self._flush_jobs(batch)

    def _flush_jobs(self, batch: BatchWriter) -> None:
        if self._jobs:
            columns = {name: [getattr(job, name) for job in self._jobs] for name in JOBS.schema.names}
            batch.add(build_table_batch(JOBS, dict(columns)))
        self._jobs = []

    def _missing_events(self, batch: BatchWriter) -> pa.RecordBatch:
        """What a trace could not tell is a record too: no data is not zero."""
        job = self._first_job if self._job_count == 1 else None
        first = batch.fallback_ns if batch.fallback_ns is not None else batch.first_ns
        ts = first if first is not None else self._writer.now_ns() // _MINUTE_NS * _MINUTE_NS
        count = len(self._missing)
        return build_table_batch(
            EVENTS,
            {
                "ts_ns": np.full(count, ts),
                "component": [f"job:{job.job_id}" if job is not None else f"input:{self._path.name}"] * count,
                "kind": [f"missing:{missing.kind}" for missing in self._missing],
                "text": [str(missing) for missing in self._missing],
            },
        )


def sum_ingested_rows(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Rows by table over all that was added."""
    sums: Counter[str] = Counter()
    for outcome in outcomes:
        sums.update(outcome.rows)
    return dict(sorted(sums.items()))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as fault:
        raise inputs.explain_unreadable_input(path, fault) from fault
    return found.st_ino, found.st_size, found.st_mtime_ns


def _placed(error: InputError, path: Path) -> InputError:
    if error.where is None:
        error.where = str(path)
    return error
