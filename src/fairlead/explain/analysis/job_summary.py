"""A job's I/O in one row (Beacon, TOS 2023, section 5: job summary), from its rollups and its recorded operations.

Pure. Figures of one layer only: the client's where it is known, else what servers counted of the job, else an estimate
that says so. Not here: finding jobs and their rows (`diagnosing.ended_jobs`), a verdict (`verdict`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.tables import JOB_SUMMARY
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.modes import classify_mode
from fairlead.explain.analysis.phases import split_phases

ANALYSIS_VERSION = 2
SERIES = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")
BASES = (
    ("client", ("mount",)),
    ("client", ("client",)),
    ("forwarder", ("forwarder",)),
    ("client", ("pfs_client",)),
    ("client", ("osc",)),
    ("job_stats", ("target", "metadata")),
)
"""In this order (`questions.rollup_sums`): what figures are taken from, and the layers of the job's rollup they are
drawn over time of."""
ESTIMATE = "estimate"
MOST_BINS = 2_000_000
"""A series of more seconds (23 days) is not cut into phases."""
Row = dict[str, object]


@dataclass(frozen=True)
class JobData:
    """What is known of a job's I/O.

    `job`: its row of `jobs`. `series`: rows of `ts_ns`, `layer` and SERIES at intervals of `interval_ns`, any number a
    moment: the job's rollup. `io`: by `node`, `rank` and `file_id`, sums of its operations (SERIES, `read_time_ns`,
    `write_time_ns`, `metadata_time_ns`); None where none were recorded. `nodes_traffic`: rows like `series` of what
    the nodes it ran on moved by counters that know no jobs, already shared out. `forwarders` and `targets`:
    what served it; None where nothing says so.
    """

    job: Mapping[str, object]
    series: pa.Table
    interval_ns: int = NS_PER_S
    io: pa.Table | None = None
    nodes_traffic: pa.Table | None = None
    io_nodes: int | None = None
    forwarders: Sequence[str] | None = None
    targets: Sequence[str] | None = None
    volume: Mapping[str, object] | None = None
    """What the job moved (a row of `questions.job_volumes`): SERIES, bounds, `shared`. None: the sums of `series`."""
    estimated: Sequence[str] = field(default=())
    """Columns besides the traffic that were not counted (`forwarders` known from a static table only)."""


def build_job_summary(data: JobData, made_ns: int) -> Row:
    """One row of JOB_SUMMARY. What is not known is null; a job without any I/O recorded has zeros only where something
    that would have counted it was there."""
    row, basis, series, sums = _begun(data, made_ns)
    row |= _rates(series, data.interval_ns, sums)
    estimated = list(data.estimated)
    if basis == ESTIMATE:
        estimated += [name for name in _FROM_SERIES if row.get(name) is not None]
    row |= build_operation_summary(data)
    row["io_nodes"] = row["io_nodes"] if row["io_nodes"] is not None else data.io_nodes
    row["estimated"] = sorted(set(estimated)) or None
    return row


def build_running_job_summary(data: JobData, made_ns: int) -> Row:
    """The row of a job that still runs: `end_ns` is null, sums are those up to `made_ns`, and rates, phases, modes and
    files are not known before the end."""
    row, basis, _, sums = _begun(data, made_ns)
    row["end_ns"] = None
    estimated = list(data.estimated)
    if basis == ESTIMATE:
        estimated += [name for name in SERIES if sums[name] is not None]
    row["estimated"] = sorted(set(estimated)) or None
    return row


def _begun(data: JobData, made_ns: int) -> tuple[Row, str | None, pa.Table, dict[str, int | None]]:
    """What a row of either kind holds; the layer its figures are of, the rows of that, their sums."""
    row: Row = dict.fromkeys(JOB_SUMMARY.schema.names)
    for name in ("cluster", "job_id", "start_ns", "end_ns", "user", "project", "program", "nodes_count", "cores"):
        row[name] = data.job.get(name)
    row |= {"made_ns": made_ns, "analysis_version": ANALYSIS_VERSION, "processes": data.job.get("processes")}
    basis, series = select_summary_layer(data)
    row["basis"] = basis
    sums = {name: _sum(series, name) for name in SERIES}
    if data.volume is not None:
        sums = {name: _whole(data.volume[name]) for name in SERIES}
        row |= {name: data.volume[name] for name in ("shared", *_BOUNDS)}
    row |= sums
    for name in ("forwarders", "targets"):
        known = getattr(data, name)
        row[name] = None if known is None else sorted(set(known))
    return row, basis, series, sums


_BOUNDS = tuple(f"{way}_bytes_{end}" for way in ("read", "write") for end in ("low", "high"))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


_FROM_SERIES = (
    *SERIES,
    "read_bandwidth_bytes_per_s",
    "write_bandwidth_bytes_per_s",
    "peak_read_bytes_per_s",
    "peak_write_bytes_per_s",
    "iops",
    "mdops_in_phases",
    "phases",
)


def select_summary_layer(data: JobData) -> tuple[str | None, pa.Table]:
    """The best layer that has rows of the job, and these."""
    layer = data.series["layer"].cast(pa.string())
    for basis, layers in BASES:
        rows = data.series.filter(pc.is_in(layer, pa.array(layers)))
        if rows.num_rows and any(rows[name].null_count < rows.num_rows for name in SERIES):
            return basis, rows
    if data.nodes_traffic is not None and data.nodes_traffic.num_rows:
        return ESTIMATE, data.nodes_traffic
    return None, data.series.slice(0, 0)


def _sum(series: pa.Table, name: str) -> int | None:
    value = pc.sum(series[name]).as_py() if series.num_rows else None
    return None if value is None else round(value)


def _rates(series: pa.Table, interval_ns: int, sums: Mapping[str, int | None]) -> Row:
    """Averages over the intervals in which something moved, peaks, phases."""
    if not series.num_rows:
        return {}
    first, bins, by = build_summary_series(series, interval_ns)
    seconds = interval_ns / NS_PER_S
    row: Row = {}
    for way in ("read", "write"):
        moved = sums[f"{way}_bytes"]
        values = by[f"{way}_bytes"]
        active = float((values > 0).sum()) * seconds
        row[f"{way}_bandwidth_bytes_per_s"] = None if moved is None or not active else moved / active
        row[f"peak_{way}_bytes_per_s"] = None if moved is None or not active else float(values.max()) / seconds
    operations = by["read_ops"] + by["write_ops"]
    busy = float((operations > 0).sum()) * seconds
    if busy and sums["read_ops"] is not None:
        row["iops"] = float(operations.sum()) / busy
    if bins <= MOST_BINS and (sums["read_bytes"] is not None or sums["write_bytes"] is not None):
        row |= _phases(by, first, interval_ns, known=sums["metadata_ops"] is not None)
    return row


def build_summary_series(series: pa.Table, interval_ns: int) -> tuple[int, int, dict[str, NDArray[np.float64]]]:
    """The first moment of rows like `JobData.series`, the intervals up to the last one, and SERIES by interval. Where
    these are more than `MOST_BINS`, only intervals that have rows are there, and the arrays are shorter than told."""
    ts = series["ts_ns"].to_numpy()
    first = int(ts.min())
    bins = (int(ts.max()) - first) // interval_ns + 1
    at = (ts - first) // interval_ns
    length = bins
    if bins > MOST_BINS:
        _, at = np.unique(at, return_inverse=True)
        length = int(at.max()) + 1
    by = {name: np.bincount(at, pc.fill_null(series[name], 0).to_numpy(), length).astype(np.float64) for name in SERIES}
    return first, bins, by


def _phases(by: Mapping[str, NDArray[np.float64]], first: int, interval_ns: int, *, known: bool) -> Row:
    """How many phases of reading and writing there are, and metadata operations per second inside them."""
    inside = np.zeros(len(by["read_bytes"]), np.bool_)
    count = 0
    ways: tuple[Literal["read", "write"], ...] = ("read", "write")
    for way in ways:
        values = by[f"{way}_bytes"]
        if not (values > 0).any():
            continue
        found = split_phases(np.rint(values).astype(np.int64), first, interval_ns, kind=way).phases
        count += len(found)
        for phase in found:
            low, high = (phase.start_ns - first) // interval_ns, -(-(phase.end_ns - first) // interval_ns)
            inside[max(low, 0) : high] = True
    length_s = float(inside.sum()) * interval_ns / NS_PER_S
    mdops = float(by["metadata_ops"][inside].sum()) / length_s if known and length_s else None
    return {"phases": count, "mdops_in_phases": mdops}


def build_operation_summary(data: JobData) -> Row:
    """Processes, nodes, files, times and modes, which only operations tell."""
    row: Row = dict.fromkeys(
        (
            "io_processes",
            "io_nodes",
            "files",
            "read_time_ns",
            "write_time_ns",
            "metadata_time_ns",
            "read_mode",
            "write_mode",
        )
    )
    io = data.io
    if io is None or not io.num_rows:
        return row
    for name in ("read_time_ns", "write_time_ns", "metadata_time_ns"):
        row[name] = _sum(io, name)
    moved = {way: pc.fill_null(io[f"{way}_bytes"], 0).to_numpy().astype(np.int64) for way in ("read", "write")}
    node = _codes(io["node"])
    rank = pc.fill_null(io["rank"], -1).to_numpy().astype(np.int64)
    # A rank names a process in its job; where none is told, a node counts as one.
    process = np.where(rank >= 0, rank, -2 - node)
    doing = (moved["read"] + moved["write"]) > 0
    row["io_processes"] = len(np.unique(process[doing]))
    row["io_nodes"] = len(np.unique(node[doing & (node >= 0)])) or None
    known = np.asarray(io["file_id"].is_valid())
    _, file = np.unique(pc.fill_null(io["file_id"], 0).to_numpy(), return_inverse=True)
    row["files"] = len(np.unique(file[known]))
    processes = data.job.get("processes")
    whole = int(processes) if isinstance(processes, int) else len(np.unique(process))  # the lower bound there is
    for way in ("read", "write"):
        mine = known & (moved[way] > 0)
        if not moved[way].any() or not mine.any():
            row[f"{way}_mode"] = "none" if not moved[way].any() else None
            continue
        by_file = np.bincount(file[mine], moved[way][mine]).astype(np.int64)
        doing_it = len(np.unique(process[moved[way] > 0]))
        row[f"{way}_mode"] = classify_mode(by_file[by_file > 0], whole, doing_it)[0]
    return row


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    indices = coded.indices if isinstance(coded, pa.DictionaryArray) else coded.chunk(0).indices
    return np.asarray(indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def build_job_summary_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table of JOB_SUMMARY."""
    return pa.Table.from_pylist([dict(row) for row in rows], JOB_SUMMARY.schema)
