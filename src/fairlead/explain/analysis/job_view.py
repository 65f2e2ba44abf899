"""All that is known of one job, ready for analysis: counters, reduced operations, heat map, layouts, what is missing.

Built by `assemble_view` from the items of any source, streaming: operations are reduced as they arrive and never held.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from fairlead.core.model.job import Job
from fairlead.core.model.missing import DAMAGED, Missing
from fairlead.core.model.tables import FILE_COUNTERS, FILES, HEATMAP, LAYOUTS, OPS
from fairlead.core.model.unit_formats import format_bytes, format_count
from fairlead.explain.analysis.counters import Counters, IntArray
from fairlead.explain.analysis.operations import OperationReducer, OperationTotals

SYSTEM_FOLDERS = ("/proc/", "/sys/", "/dev/")


@dataclass(frozen=True)
class JobView:
    """One job as analysis sees it.

    `counters` holds one row per file × rank × interface, recorded or reduced from operations;
    `operations` maps an interface to what its operations add up to (absent when only counters were recorded);
    `heatmap` is the recorded bytes per rank and bin; `layouts` the striping, both possibly empty tables.
    """

    job: Job
    counters: Counters
    paths: dict[int, str]
    file_systems: dict[int, str]
    operations: dict[str, OperationTotals]
    heatmap: pa.Table
    layouts: pa.Table
    missing: list[Missing] = field(default_factory=list)
    counters_recorded: bool = True

    @property
    def processes(self) -> int:
        """Processes of the job; at least the ranks seen."""
        seen = int(self.counters.rank.max(initial=-1)) + 1
        return max(self.job.processes or 0, seen, 1)


def assemble_view(items: Iterable[pa.RecordBatch | Job | Missing]) -> JobView:
    """Reduce the items of all inputs of one job to a view.

    Records without a job get one of unknown number, which is said. Raises LookupError when there is neither a job nor
    an I/O record.
    """
    jobs: list[Job] = []
    missing: list[Missing] = []
    kept: dict[str, list[pa.RecordBatch]] = {FILE_COUNTERS.name: [], FILES.name: [], HEATMAP.name: [], LAYOUTS.name: []}
    reducer = OperationReducer()
    system = _SystemFiles()
    for item in items:
        if isinstance(item, Job):
            jobs.append(item)
        elif isinstance(item, Missing):
            missing.append(item)
        else:
            name = (item.schema.metadata or {}).get(b"fairlead.table", b"").decode()
            if name == OPS.name:
                reducer.push(item if kept[FILE_COUNTERS.name] else system.without(item))
            elif name in kept:
                kept[name].append(item)
                if name == FILES.name:
                    system.learn(item)
    paths, systems = _names(kept[FILES.name])
    recorded = _table(kept[FILE_COUNTERS.name], FILE_COUNTERS.schema)
    operations = reducer.finish()
    if not jobs:
        jobs, unknown = _unnamed(operations, recorded)
        missing.append(unknown)
    job = _merge_jobs(jobs)
    if job.processes is None and operations:
        job = msgspec.structs.replace(job, processes=reducer.processes)
    counters = Counters(_counters_of(recorded, operations), paths)
    missing += reducer.missing + system.missing()
    return JobView(
        job=job,
        counters=counters,
        paths=paths,
        file_systems=systems,
        operations=operations,
        heatmap=_table(kept[HEATMAP.name], HEATMAP.schema),
        layouts=_table(kept[LAYOUTS.name], LAYOUTS.schema),
        missing=_once(missing),
        counters_recorded=recorded.num_rows > 0 or not operations,
    )


def _unnamed(operations: dict[str, OperationTotals], recorded: pa.Table) -> tuple[list[Job], Missing]:
    if not operations and not recorded.num_rows:
        raise LookupError("neither a job nor an I/O record")
    start = min((t.start_ns for t in operations.values()), default=None)
    end = max((t.end_ns for t in operations.values()), default=None)
    unknown = Missing(
        kind="job_unknown",
        what="the job",
        why="the input does not name its job",
        remedy="give the scheduler's accounting beside it",
    )
    return [Job(job_id="unknown", start_ns=start, end_ns=end)], unknown


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    if not batches:
        return schema.empty_table()
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _names(batches: list[pa.RecordBatch]) -> tuple[dict[int, str], dict[int, str]]:
    paths: dict[int, str] = {}
    systems: dict[int, str] = {}
    for batch in batches:
        ids = batch.column("file_id").to_pylist()
        paths.update(zip(ids, batch.column("path").to_pylist(), strict=True))
        systems.update(zip(ids, batch.column("fs").to_pylist(), strict=True))
    return paths, systems


def _counters_of(recorded: pa.Table, operations: dict[str, OperationTotals]) -> pa.Table:
    """Recorded counters are exact and win; interfaces seen only as operations are reduced to the same columns."""
    present = set(recorded.column("interface").to_pylist()) if recorded.num_rows else set()
    reduced = [totals.counters for name, totals in operations.items() if name not in present]
    tables = [recorded, *reduced] if recorded.num_rows or not reduced else reduced
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _merge_jobs(jobs: list[Job]) -> Job:
    """One job from what several files of it say: the widest time span, the largest process count, the first names."""
    first = jobs[0]
    if len(jobs) == 1:
        return first
    starts = [j.start_ns for j in jobs if j.start_ns is not None]
    ends = [j.end_ns for j in jobs if j.end_ns is not None]
    processes = [j.processes for j in jobs if j.processes is not None]
    nodes = sorted({n for j in jobs for n in j.nodes or []})
    return msgspec.structs.replace(
        first,
        start_ns=min(starts, default=None),
        end_ns=max(ends, default=None),
        processes=max(processes, default=None),
        nodes=nodes or None,
        program=next((j.program for j in jobs if j.program), None),
        user=next((j.user for j in jobs if j.user), None),
        name=next((j.name for j in jobs if j.name), None),
    )


class _SystemFiles:
    """Takes operations on the kernel's pseudo files out of a stream: they are no storage.

    Darshan leaves them out by itself, so logs with counters pass untouched.
    """

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._bytes = 0
        self._operations = 0

    def learn(self, files: pa.RecordBatch) -> None:
        """Note which of these files are pseudo files."""
        for file, path in zip(files.column("file_id").to_pylist(), files.column("path").to_pylist(), strict=True):
            if path.startswith(SYSTEM_FOLDERS) and not path.startswith("/dev/shm/"):  # noqa: S108
                self._ids.add(file)

    def without(self, ops: pa.RecordBatch) -> pa.RecordBatch:
        """The operations on other files."""
        if not self._ids:
            return ops
        out = np.isin(_numbers(ops, "file_id"), np.fromiter(self._ids, np.int64))
        count = _numbers(ops, "count")[out]
        self._operations += int(count.sum())
        self._bytes += int((np.maximum(_numbers(ops, "size")[out], 0) * count).sum())
        return ops.filter(pa.array(~out)) if out.any() else ops

    def missing(self) -> list[Missing]:
        """What was taken out."""
        if not self._operations:
            return []
        return [
            Missing(
                kind="kept_apart",
                what="files below /proc, /sys and /dev",
                why=f"they are not storage: {format_count(self._operations)} operations and "
                f"{format_bytes(self._bytes)} "
                "on them are left out of everything",
            )
        ]


def _numbers(batch: pa.RecordBatch, name: str) -> IntArray:
    return np.asarray(batch.column(name).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _once(missing: list[Missing]) -> list[Missing]:
    """What many files of one job say alike, once, in order of appearance; damage is kept per file."""
    seen: dict[tuple[str, str, str | None], list[Missing]] = {}
    for item in missing:
        place = item.where if item.kind in DAMAGED else None
        seen.setdefault((item.kind, item.what, place), []).append(item)
    return [
        items[0]
        if len({i.why for i in items}) == 1
        else msgspec.structs.replace(items[0], why=f"{items[0].why} (and likewise in {len(items) - 1} more)")
        for items in seen.values()
    ]
