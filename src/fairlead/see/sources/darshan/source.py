"""Darshan logs as a source: the job first, then its records, then what the log does not say.

Reads the format itself (3.00 to 3.41), without libdarshan. Not here: how records of one module look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.errors import InputError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import FILE_COUNTERS, FILES, HEATMAP, LAYOUTS, OPS, find_table_spec
from fairlead.see.sources.base import Item, Origin
from fairlead.see.sources.darshan import dxt
from fairlead.see.sources.darshan.container import (
    Header,
    JobRecord,
    ModuleInfo,
    is_darshan_container,
    read_container_header,
    read_container_job,
)
from fairlead.see.sources.darshan.counters import read_darshan_counters
from fairlead.see.sources.darshan.gaps import Gaps
from fairlead.see.sources.darshan.heatmap import read_heatmap
from fairlead.see.sources.darshan.layouts import load_darshan_layouts
from fairlead.see.sources.darshan.lustre import read_darshan_lustre
from fairlead.see.sources.darshan.names import FileIds, parse_darshan_names
from fairlead.see.sources.darshan.records import Placing, Tally
from fairlead.see.sources.darshan.regions import DamagedRegionError, LogFile, limit_region_bytes, read_region_blocks

_SAME_RUN_NS = 86_400 * 10**9
"""Steps of one batch job follow each other within a day; the same number later is another job (without a scheduler
Darshan takes the process id, which comes round again)."""

_HELD_BYTES = 8 << 20
"""A trace region up to this size stays inflated between finding its hosts and decoding; a larger one is read twice."""

_VERSIONS = {"LUSTRE": 2, "HEATMAP": 1, "DXT_POSIX": 2, "DXT_MPIIO": 3}


@dataclass(frozen=True)
class DarshanLog:
    """A whole log in memory. `tables` holds `files`, `file_counters`, `layouts`, `heatmap` and `ops`, maybe empty.

    `names` maps record ids (unsigned 64-bit) to names, `mounts` lists (mount point, file system type), the longest
    first; `modules` describes every module with data, read or not.
    """

    version: str
    job: Job
    executable: str
    metadata: dict[str, str]
    mounts: list[tuple[str, str]]
    names: dict[int, str]
    modules: dict[str, ModuleInfo]
    tables: dict[str, pa.Table]
    missing: list[Missing]


class DarshanSource:
    """`Source` of Darshan logs."""

    name = "darshan"
    ranks_per_log = True

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether `head` carries Darshan's magic number."""
        return is_darshan_container(head)

    def find_origin(self, path: Path, head: bytes) -> Origin:  # noqa: ARG002
        """User and job number, and when it ran. Reads the job record only; raises as `read`."""
        with _open(path) as log:
            record = read_container_job(log, read_container_header(log))
        return Origin(f"{record.uid}/{record.job_id}", record.start_ns, record.end_ns, _SAME_RUN_NS)

    def read(self, path: Path) -> Iterator[Item]:
        """The job, then `files`, `file_counters`, `layouts`, `heatmap` and `ops` as they are decoded, with a
        `Missing` for everything damaged, partial or not understood.

        Raises UnknownFormatError, UnsupportedVersionError, CorruptInputError or InputError when nothing can be used.
        """
        with _open(path) as log:
            yield from _Reading(log).items()


def read_darshan_source(path: Path) -> DarshanLog:
    """A whole log at once. Raises as `DarshanSource.read`."""
    with _open(path) as log:
        reading = _Reading(log)
        items = list(reading.items())
    specs = (FILES, FILE_COUNTERS, LAYOUTS, HEATMAP, OPS)
    kept: dict[str, list[pa.RecordBatch]] = {spec.name: [] for spec in specs}
    for item in items:
        if isinstance(item, pa.RecordBatch):
            kept[find_table_spec(item.schema).name].append(item)
    header, record = reading.header, reading.record
    return DarshanLog(
        version=f"{header.version[0]}.{header.version[1]:02d}",
        job=next(item for item in items if isinstance(item, Job)),
        executable=record.executable,
        metadata=record.metadata,
        mounts=list(record.mounts),
        names=reading.names,
        modules={module.name: module for module in header.modules},
        tables={spec.name: _table(kept[spec.name], spec.schema) for spec in specs},
        missing=[item for item in items if isinstance(item, Missing)],
    )


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """One table; the words of dictionary columns may differ from batch to batch and are unified."""
    if not batches:
        return schema.empty_table()
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches]).unify_dictionaries()


@contextmanager
def _open(path: Path) -> Iterator[LogFile]:
    try:
        with path.open("rb") as file:
            yield LogFile(file.fileno(), file.seek(0, 2), str(path))
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror or error}", where=str(path), remedy="check that it is a readable file"
        ) from error


class _Trace:
    """A DXT region, walked once for its hosts and ranks and once for its segments."""

    def __init__(self, module: ModuleInfo, regions: Iterable[bytes], order: str, held: bool) -> None:
        self.module = module
        self.hosts: set[str] = set()
        self.ranks: set[int] = set()
        self.held: list[dxt.Block] | None = [] if held else None
        self.damage: DamagedRegionError | None = None
        words = dxt.count_dxt_segment_words(module.name, module.version)
        try:
            for block in dxt.walk_dxt_segments(regions, order, words):
                self.hosts.update(dxt.list_dxt_hosts(block.headers)[1])
                self.ranks.update(np.unique(block.headers["rank"]).tolist())
                if self.held is not None:
                    self.held.append(block)
        except DamagedRegionError as error:
            self.damage = error


class _Reading:
    """One pass over one open log."""

    def __init__(self, log: LogFile) -> None:
        self.log = log
        self.header: Header = read_container_header(log)
        self.record: JobRecord = read_container_job(log, self.header)
        self.names: dict[int, str] = {}
        self.gaps = Gaps(log.where)

    def items(self) -> Iterator[Item]:
        header, record = self.header, self.record
        traces = [self._trace(module) for module in header.modules if module.name in dxt.INTERFACES]
        job = self._job([trace for trace in traces if trace is not None])
        yield job
        yield from self.gaps.list_job_gaps(header.version, record)
        yield from self._read_names()
        files = FileIds(self.names, [path for path, _ in record.mounts])
        if files.paths:
            yield files.build_batch(record.start_ns)
        placing = Placing(header.order, record.start_ns or 0, job.job_id, files, record.processes)
        for module in header.modules:
            if module.name not in dxt.INTERFACES:
                yield from self._module(module, placing)
        for trace in traces:
            if trace is not None:
                yield from self._segments(trace, placing)
        for module in header.modules:
            if module.name in dxt.INTERFACES and not self._readable(module):
                yield self.gaps.build_version_gap(module)
        if files.nameless:
            yield files.build_nameless_batch(record.start_ns)
            yield self.gaps.build_nameless_gap(len(files.nameless))

    def _readable(self, module: ModuleInfo) -> bool:
        if module.name in _VERSIONS:
            return 1 <= module.version <= _VERSIONS[module.name]
        return module.version in load_darshan_layouts().get(module.name, {})

    def _regions(self, module: ModuleInfo) -> Iterator[bytes]:
        limit = limit_region_bytes(module.compressed_bytes, self.record.processes or 0)
        return read_region_blocks(self.log, module.offset, module.compressed_bytes, self.header.compression, limit)

    def _trace(self, module: ModuleInfo) -> _Trace | None:
        if not self._readable(module):
            return None
        held = module.compressed_bytes <= _HELD_BYTES
        return _Trace(module, self._regions(module), self.header.order, held)

    def _job(self, traces: list[_Trace]) -> Job:
        record = self.record
        ranks: set[int] = set().union(*(trace.ranks for trace in traces))
        hosts: set[str] = set().union(*(trace.hosts for trace in traces)) - {""}
        # Every rank has to be seen: a rank that moved no data leaves no host behind.
        everywhere = len(ranks) == record.processes and min(ranks) == 0 and max(ranks) == record.processes - 1
        nodes = sorted(hosts) if hosts and everywhere else None
        # The metadata's `h` holds the hints Darshan writes its own log with (DARSHAN_LOGHINTS), not the job's.
        return Job(
            job_id=record.job_id,
            user=str(record.uid),
            program=record.executable or None,
            start_ns=record.start_ns,
            end_ns=record.end_ns,
            processes=record.processes,
            nodes=nodes,
            nodes_count=len(nodes) if nodes else None,
        )

    def _read_names(self) -> Iterator[Missing]:
        offset, length = self.header.names
        if not length:
            return
        limit = limit_region_bytes(length, self.record.processes or 0)
        regions = read_region_blocks(self.log, offset, length, self.header.compression, limit)
        try:
            parse_darshan_names(regions, self.header.order, self.header.version < (3, 10), self.names)
        except DamagedRegionError as error:
            yield self.gaps.describe_damaged_names(error, len(self.names))

    def _module(self, module: ModuleInfo, placing: Placing) -> Iterator[Item]:
        known = load_darshan_layouts().get(module.name)
        if known is None and module.name not in _VERSIONS:
            yield self.gaps.describe_unread_module(module)
            return
        if not self._readable(module):
            yield self.gaps.build_version_gap(module)
            return
        tally = Tally()
        regions = self._regions(module)
        damage: DamagedRegionError | None = None
        try:
            if known is not None:
                yield from read_darshan_counters(module.name, known[module.version], regions, placing, tally)
            elif module.name == "LUSTRE":
                yield from read_darshan_lustre(regions, module.version, placing, tally)
            else:
                yield from read_heatmap(regions, self.names, placing, tally)
        except DamagedRegionError as error:
            damage = error
        yield from self.gaps.list_module_gaps(module, tally, damage, "record")

    def _segments(self, trace: _Trace, placing: Placing) -> Iterator[Item]:
        module, tally, damage = trace.module, Tally(), trace.damage
        words = dxt.count_dxt_segment_words(module.name, module.version)
        walk: Iterable[dxt.Block] = (
            trace.held if trace.held is not None else dxt.walk_dxt_segments(self._regions(module), placing.order, words)
        )
        try:
            for block in walk:
                yield dxt.build_dxt_batch(block, module.name, module.version, placing, tally)
        except DamagedRegionError as error:
            damage = error
        yield from self.gaps.list_module_gaps(module, tally, damage, "segment")
