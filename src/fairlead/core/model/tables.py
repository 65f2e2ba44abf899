"""The record tables as Arrow schemas with versions (design: one row is ...). Times int64 epoch ns, sizes bytes.

A schema only ever grows: new columns are nullable and raise the version; readers fill what older files lack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

_WORD = pa.dictionary(pa.int32(), pa.string())
_I64 = pa.int64()
_F64 = pa.float64()


@dataclass(frozen=True)
class TableSpec:
    """A table: its name, version, Arrow schema, the column that dates a row, and the sort order on the raw side."""

    name: str
    version: int
    schema: pa.Schema
    time_column: str | None
    sort_by: tuple[str, ...] = field(default=())


def _spec(name: str, version: int, time: str | None, sort_by: tuple[str, ...], columns: list[pa.Field]) -> TableSpec:
    meta = {b"fairlead.table": name.encode(), b"fairlead.schema_version": str(version).encode()}
    return TableSpec(name, version, pa.schema(columns, metadata=meta), time, sort_by)


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _optional(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=True)


_HISTOGRAM = pa.list_(_I64)
SIZE_BINS = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
"""Names of the ten request-size bins of Darshan; edges in `SIZE_BIN_EDGES` (bytes, upper edge inclusive)."""
SIZE_BIN_EDGES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)

OPS = _spec(
    "ops",
    2,
    "start_ns",
    ("node", "start_ns"),
    [
        _required("start_ns", _I64),
        _required("end_ns", _I64),
        _required("busy_ns", _I64),
        _optional("node", _WORD),
        _optional("job_id", _WORD),
        _optional("rank", pa.int32()),
        _required("interface", _WORD),
        _optional("fs", _WORD),
        _required("op", _WORD),
        _optional("file_id", _I64),
        _optional("handle", _I64),
        _optional("offset", _I64),
        _optional("size", _I64),
        _optional("stride", _I64),
        _required("count", _I64),
        _optional("gaps_ns", pa.list_(_I64)),
        _optional("durations_ns", pa.list_(_I64)),
        _optional("cluster", _WORD),
    ],
)
"""A run of client operations: same op, file, handle, size, constant stride. Operation k (0 ≤ k < count) has offset
`offset + k * stride`; `start_ns` is the first start, `end_ns` the last end, `busy_ns` the sum of durations.
Exact times are optional: `durations_ns` of the `count` operations and the `count - 1` idle `gaps_ns` between them.
`cluster`, here and in other tables of records: the cluster that `job_id` is of; null where that was not known."""

FILES = _spec(
    "files",
    1,
    "first_seen_ns",
    ("file_id",),
    [
        _required("file_id", _I64),
        _required("fs", pa.string()),
        _required("path", pa.string()),
        _optional("first_seen_ns", _I64),
    ],
)

_COUNTS = (
    "opens",
    "reads",
    "writes",
    "seeks",
    "stats",
    "mmaps",
    "fsyncs",
    "fdatasyncs",
    "flushes",
    "renames",
    "bytes_read",
    "bytes_written",
    "max_byte_read",
    "max_byte_written",
    "consec_reads",
    "consec_writes",
    "seq_reads",
    "seq_writes",
    "rw_switches",
    "mem_not_aligned",
    "mem_alignment",
    "file_not_aligned",
    "file_alignment",
    "indep_opens",
    "coll_opens",
    "indep_reads",
    "indep_writes",
    "coll_reads",
    "coll_writes",
    "split_reads",
    "split_writes",
    "nb_reads",
    "nb_writes",
    "syncs",
    "hints",
    "views",
    "use_mpiio",
    "use_mpiio_collective",
    "fastest_rank",
    "fastest_rank_bytes",
    "slowest_rank",
    "slowest_rank_bytes",
)
_TIMES = (
    "open_start_ns",
    "open_end_ns",
    "read_start_ns",
    "read_end_ns",
    "write_start_ns",
    "write_end_ns",
    "close_start_ns",
    "close_end_ns",
)
_SECONDS = (
    "read_time_s",
    "write_time_s",
    "meta_time_s",
    "max_read_time_s",
    "max_write_time_s",
    "fastest_rank_time_s",
    "slowest_rank_time_s",
    "variance_rank_time",
    "variance_rank_bytes",
)
_LISTS = ("read_sizes", "write_sizes", "access_sizes", "access_counts", "strides", "stride_counts")

FILE_COUNTERS = _spec(
    "file_counters",
    1,
    "open_start_ns",
    ("job_id", "interface", "file_id", "rank"),
    [
        _optional("job_id", _WORD),
        _required("rank", pa.int32()),
        _required("interface", _WORD),
        _required("file_id", _I64),
        *(_optional(name, _I64) for name in _COUNTS),
        *(_optional(name, _I64) for name in _TIMES),
        *(_optional(name, _F64) for name in _SECONDS),
        *(_optional(name, pa.list_(_I64)) for name in _LISTS),
        _optional("extra", pa.map_(pa.string(), _F64)),
    ],
)
"""What a counter-only trace knows of one file × rank × interface. rank -1: one record for all ranks of the job.
`read_sizes`/`write_sizes` hold ten counts, one per `SIZE_BINS`; a null counter is unknown, never zero."""

HEATMAP = _spec(
    "heatmap",
    1,
    "bin_start_ns",
    ("job_id", "interface", "rank", "bin_start_ns"),
    [
        _optional("job_id", _WORD),
        _required("rank", pa.int32()),
        _required("interface", _WORD),
        _required("bin_start_ns", _I64),
        _required("bin_ns", _I64),
        _required("read_bytes", _I64),
        _required("write_bytes", _I64),
    ],
)

LAYOUTS = _spec(
    "layouts",
    1,
    None,
    ("file_id",),
    [
        _optional("job_id", _WORD),
        _required("file_id", _I64),
        _required("component", pa.int32()),
        _optional("stripe_size", _I64),
        _optional("stripe_count", _I64),
        _optional("pool", pa.string()),
        _optional("extent_start", _I64),
        _optional("extent_end", _I64),
        _optional("targets", pa.list_(_I64)),
    ],
)
"""How a file is striped: one row per layout component (one for a plain layout)."""

FORWARDER = _spec(
    "forwarder",
    2,
    "ts_ns",
    ("node", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("interval_ns", _I64),
        _required("node", _WORD),
        _optional("job_id", _WORD),
        _required("op_class", _WORD),
        _optional("requests", _I64),
        _optional("bytes", _I64),
        _optional("wait_ns_histogram", _HISTOGRAM),
        _optional("service_ns_histogram", _HISTOGRAM),
        _optional("queue_len_mean", _F64),
        _optional("queue_len_max", _I64),
        _optional("cluster", _WORD),
    ],
)

PFS_CLIENT = _spec(
    "pfs_client",
    4,
    "ts_ns",
    ("node", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("interval_ns", _I64),
        _required("node", _WORD),
        _optional("job_id", _WORD),
        _optional("target", _WORD),
        _optional("read_rpcs", _I64),
        _optional("write_rpcs", _I64),
        _optional("read_bytes", _I64),
        _optional("write_bytes", _I64),
        _optional("pages_per_rpc_read", _HISTOGRAM),
        _optional("pages_per_rpc_write", _HISTOGRAM),
        _optional("cache_hit", _I64),
        _optional("cache_miss", _I64),
        _optional("cache_discard", _I64),
        _optional("source", _WORD),
        _optional("fs", _WORD),
        _optional("read_ops", _I64),
        _optional("write_ops", _I64),
        _optional("metadata_ops", _I64),
        _optional("rpcs_in_flight_read", _HISTOGRAM),
        _optional("rpcs_in_flight_write", _HISTOGRAM),
        _optional("cluster", _WORD),
        _optional("read_busy_ns", _I64),
        _optional("write_busy_ns", _I64),
        _optional("metadata_busy_ns", _I64),
        _optional("mount", _WORD),
        _optional("wait_ns", _I64),
        _optional("server_ns", _I64),
        _optional("retransmits", _I64),
        _optional("timeouts", _I64),
    ],
)
"""`target` null: the whole mount. Rows of `llite` (whole mount) and of `osc` (one target each) tell of the same bytes
at two heights of the client and are never added together: `source` says which. `mount`: the folder it is mounted at,
where mounts of one file system are told apart; their rows add up. `read_busy_ns`, `write_busy_ns`, `metadata_busy_ns`:
sum of the times of requests, as this layer sees them; null where it counts none. Of NFS, `wait_ns` of that was spent
before requests were sent, `server_ns` between sending and the reply; `retransmits` are requests sent again, `timeouts`
waits for a reply that ran out."""

TARGET = _spec(
    "target",
    4,
    "ts_ns",
    ("server", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("interval_ns", _I64),
        _optional("server", _WORD),
        _required("target", _WORD),
        _optional("job_id", _WORD),
        _optional("read_rpcs", _I64),
        _optional("write_rpcs", _I64),
        _optional("read_bytes", _I64),
        _optional("write_bytes", _I64),
        _optional("service_ns_histogram", _HISTOGRAM),
        _optional("capacity_bytes", _I64),
        _optional("used_bytes", _I64),
        _optional("inodes", _I64),
        _optional("inodes_used", _I64),
        _optional("source", _WORD),
        _optional("client", _WORD),
        _optional("metadata_ops", _I64),
        _optional("read_sizes", _HISTOGRAM),
        _optional("write_sizes", _HISTOGRAM),
        _optional("queue_len_mean", _F64),
        _optional("cluster", _WORD),
        _optional("read_busy_ns", _I64),
        _optional("write_busy_ns", _I64),
        _optional("metadata_busy_ns", _I64),
    ],
)
"""`source` says where a row was counted (`PART_SOURCES`). `read_sizes`/`write_sizes`: device I/Os by power of two of
4 KiB pages (brw_stats). `read_busy_ns`, `write_busy_ns`, `metadata_busy_ns`: sum of the times of requests by kind, null
where they are not counted."""

METADATA = _spec(
    "metadata",
    4,
    "ts_ns",
    ("server", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("interval_ns", _I64),
        _optional("server", _WORD),
        _optional("client", _WORD),
        _optional("job_id", _WORD),
        _required("op", _WORD),
        _required("count", _I64),
        _optional("source", _WORD),
        _optional("target", _WORD),
        _optional("cluster", _WORD),
        _optional("busy_ns", _I64),
    ],
)
"""`target`: the metadata target (MDT) where the server has several. `source` as in `target`. `busy_ns`: the sum of the
times of these `count` operations, null where it is not counted."""

PART_SOURCES = ("job_stats", "exports", "brw_stats", "mountstats", "canary")
"""Sources whose rows of `target` and `metadata` tell once more of what rows of other sources (or of none) count whole:
by job, by client, by size; or one timed try, whose `interval_ns` is the time it took (`canary`). A sum over a component
leaves them out; a sum over a job takes `job_stats`."""

PORT = _spec(
    "port",
    2,
    "ts_ns",
    ("switch", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("interval_ns", _I64),
        _required("switch", _WORD),
        _required("port", _WORD),
        _optional("tx_bytes", _I64),
        _optional("rx_bytes", _I64),
        _optional("errors", _I64),
        _optional("tx_packets", _I64),
        _optional("rx_packets", _I64),
        _optional("waits", _I64),
        _optional("peer", _WORD),
        _optional("rate_bytes_per_s", _F64),
    ],
)

DEVICE = _spec(
    "device",
    3,
    "ts_ns",
    ("node", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("interval_ns", _I64),
        _required("node", _WORD),
        _required("device", _WORD),
        _optional("read_bytes", _I64),
        _optional("write_bytes", _I64),
        _optional("used_bytes", _I64),
        _optional("capacity_bytes", _I64),
        _optional("read_ops", _I64),
        _optional("write_ops", _I64),
        _optional("busy_ns", _I64),
        _optional("queue_ns", _I64),
        _optional("kind", _WORD),
        _optional("job_id", _WORD),
        _optional("cluster", _WORD),
    ],
)
"""`busy_ns`: time with I/O under way; `queue_ns`: that times the I/Os under way (diskstats fields 10 and 11).
`job_id`: what this job's control group did at the device, a part of the row without one."""

EVENTS = _spec(
    "events",
    1,
    "ts_ns",
    ("component", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("end_ns", _I64),
        _required("component", _WORD),
        _required("kind", _WORD),
        _required("text", pa.string()),
    ],
)

JOBS = _spec(
    "jobs",
    1,
    "start_ns",
    ("cluster", "start_ns"),
    [
        _optional("cluster", _WORD),
        _required("job_id", pa.string()),
        _optional("name", pa.string()),
        _optional("user", pa.string()),
        _optional("project", pa.string()),
        _optional("program", pa.string()),
        _optional("partition", pa.string()),
        _optional("submit_ns", _I64),
        _optional("start_ns", _I64),
        _optional("end_ns", _I64),
        _optional("nodes", pa.list_(pa.string())),
        _optional("nodes_count", _I64),
        _optional("cores", _I64),
        _optional("processes", _I64),
        _optional("state", pa.string()),
    ],
)

MAPPING = _spec(
    "mapping",
    1,
    "from_ns",
    ("kind", "from_ns"),
    [
        _required("from_ns", _I64),
        _optional("to_ns", _I64),
        _required("kind", _WORD),
        _required("a", pa.string()),
        _required("b", pa.string()),
    ],
)

HEALTH = _spec(
    "health",
    1,
    "ts_ns",
    ("node", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _required("node", _WORD),
        _required("probe", _WORD),
        _required("state", _WORD),
        _optional("interval_ns", _I64),
        _optional("runs", _I64),
        _optional("failures", _I64),
        _optional("rows", _I64),
        _optional("unknown_lines", _I64),
        _optional("busy_ns", _I64),
        _optional("lost_batches", _I64),
        _optional("memory_bytes", _I64),
        _optional("clock_offset_ns", _I64),
        _optional("text", pa.string()),
    ],
)
"""How watching itself goes: one row an interval, node and probe (`agent` is the whole). `state`: ok, missing, failing,
late, lost."""

USAGE = _spec(
    "usage",
    1,
    "ts_ns",
    ("fs", "owner", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _optional("fs", _WORD),
        _optional("target", _WORD),
        _required("owner_kind", _WORD),
        _required("owner", _WORD),
        _optional("used_bytes", _I64),
        _optional("inodes_used", _I64),
        _optional("limit_bytes", _I64),
        _optional("inodes_limit", _I64),
    ],
)
"""What a user, group or project holds on a target (`target` null: on the file system), and the hard limit it has."""

ROLLUP = _spec(
    "rollup",
    3,
    "ts_ns",
    ("kind", "id", "ts_ns"),
    [
        _required("ts_ns", _I64),
        _required("interval_ns", _I64),
        _required("kind", _WORD),
        _required("id", _WORD),
        _required("layer", _WORD),
        _optional("job_id", _WORD),
        _optional("fs", _WORD),
        _optional("read_bytes", _I64),
        _optional("write_bytes", _I64),
        _optional("read_ops", _I64),
        _optional("write_ops", _I64),
        _optional("metadata_ops", _I64),
        _optional("busy_ns", _I64),
        _optional("wait_ns", _I64),
        _optional("waits", _I64),
        _optional("queue_len_max", _I64),
        _optional("cache_hit", _I64),
        _optional("cache_miss", _I64),
        _optional("used_bytes_max", _I64),
        _optional("capacity_bytes", _I64),
        _optional("samples", _I64),
        _optional("cluster", _WORD),
        _optional("read_busy_ns", _I64),
        _optional("write_busy_ns", _I64),
        _optional("metadata_busy_ns", _I64),
        _optional("timed_ops", _I64),
    ],
)
"""Sums over one interval (1 s, 1 min, 1 h; `ts_ns` is its beginning) of one component as one layer counts it. Rows are
*partial*: several of one key add up (`_max` columns: the largest counts), so that late records need no rewriting.
`kind`: job, node, forwarder, target, mds, port, device, client_class. `layer`: client, mount, forwarder, pfs_client,
osc, target, metadata, port, device. `job_id` is set on parts of a component's sum and null on the whole (`kind` job:
null; `id` is the job). A null sum is unknown, never zero. `busy_ns`: sum of the times of requests (of a device: time
with I/O under way), by kind in `read_busy_ns`, `write_busy_ns`, `metadata_busy_ns` where that is known; of `timed_ops`
requests, so that a mean is that of requests whose time was counted. `cluster`: of the job,
where its records know it."""

OP_GROUPS = _spec(
    "op_groups",
    3,
    "start_ns",
    ("job_id", "start_ns"),
    [
        _required("start_ns", _I64),
        _required("end_ns", _I64),
        _optional("job_id", _WORD),
        _required("interface", _WORD),
        _optional("fs", _WORD),
        _required("op", _WORD),
        _optional("size", _I64),
        _optional("stride", _I64),
        _required("count", _I64),
        _required("members", _I64),
        _required("nodes", pa.list_(pa.string())),
        _optional("node_codes", pa.list_(_I64)),
        _optional("ranks", pa.list_(_I64)),
        _optional("file_ids", pa.list_(_I64)),
        _optional("handles", pa.list_(_I64)),
        _optional("offsets", pa.list_(_I64)),
        _required("starts_ns", pa.list_(_I64)),
        _required("lengths_ns", pa.list_(_I64)),
        _required("busies_ns", pa.list_(_I64)),
        _optional("strides", pa.list_(_I64)),
        _optional("cluster", _WORD),
    ],
)
"""Runs alike (same second, job, interface, fs, op, size, count) that several nodes made: what differs is listed by
member, so that `fairlead.core.compression.node_groups` gives every row of `ops` back. A list of one value holds for
all; of two values, of more than two members, is the first and the step to the next; null: no member has any.
`busies_ns` holds length less busy time. `node_codes` null: members lie node after node, equally many of each. `strides`
null (and in version 1): `stride` is that of every member."""

JOB_SUMMARY = _spec(
    "job_summary",
    2,
    "start_ns",
    ("cluster", "start_ns"),
    [
        _optional("cluster", _WORD),
        _required("job_id", pa.string()),
        _optional("start_ns", _I64),
        _optional("end_ns", _I64),
        _optional("user", pa.string()),
        _optional("project", pa.string()),
        _optional("program", pa.string()),
        _optional("nodes_count", _I64),
        _optional("cores", _I64),
        _optional("processes", _I64),
        _optional("io_processes", _I64),
        _optional("io_nodes", _I64),
        _optional("read_bytes", _I64),
        _optional("write_bytes", _I64),
        _optional("read_ops", _I64),
        _optional("write_ops", _I64),
        _optional("metadata_ops", _I64),
        _optional("read_time_ns", _I64),
        _optional("write_time_ns", _I64),
        _optional("metadata_time_ns", _I64),
        _optional("read_bandwidth_bytes_per_s", _F64),
        _optional("write_bandwidth_bytes_per_s", _F64),
        _optional("peak_read_bytes_per_s", _F64),
        _optional("peak_write_bytes_per_s", _F64),
        _optional("iops", _F64),
        _optional("mdops_in_phases", _F64),
        _optional("read_mode", pa.string()),
        _optional("write_mode", pa.string()),
        _optional("files", _I64),
        _optional("phases", _I64),
        _optional("forwarders", pa.list_(pa.string())),
        _optional("targets", pa.list_(pa.string())),
        _optional("estimated", pa.list_(pa.string())),
        _optional("basis", pa.string()),
        _required("made_ns", _I64),
        _required("analysis_version", _I64),
        *(_optional(f"{name}_bytes_{end}", _I64) for name in ("read", "write") for end in ("low", "high")),
        _optional("shared", pa.bool_()),
        _optional("withdrawn", pa.bool_()),
    ],
)
"""A job's I/O in one row (Beacon, TOS 2023, section 5: job summary), written again as more becomes known: the latest
`made_ns` counts. `basis`: which layer the figures are of (client, job_stats, forwarder, estimate); `estimated` names
columns that were not counted by job. Of an estimate, `read_bytes_low` to `write_bytes_high` are the bounds of the
bytes, and `shared` says that other jobs were on its nodes. `withdrawn`: what it tells of is told by another row."""

PHASE = _spec(
    "phase",
    2,
    "start_ns",
    ("program", "user", "start_ns"),
    [
        _optional("cluster", _WORD),
        _required("job_id", pa.string()),
        _optional("job_start_ns", _I64),
        _required("number", pa.int32()),
        _required("kind", _WORD),
        _required("start_ns", _I64),
        _required("end_ns", _I64),
        _required("active_ns", _I64),
        _optional("bytes", _I64),
        _optional("ops", _I64),
        _optional("metadata_ops", _I64),
        _optional("rate_per_s", _F64),
        _optional("request_bytes", _F64),
        _optional("rate_bins", pa.list_(_I64)),
        _optional("rate_ns", pa.list_(_I64)),
        _optional("mode", _WORD),
        _optional("io_processes", _I64),
        _optional("nodes_count", _I64),
        _optional("processes", _I64),
        _optional("user", pa.string()),
        _optional("project", pa.string()),
        _optional("program", pa.string()),
        _optional("fs", _WORD),
        _optional("forwarders", pa.list_(pa.string())),
        _optional("targets", pa.list_(pa.string())),
        _optional("mds", pa.list_(pa.string())),
        _optional("basis", _WORD),
        _optional("expected_s", _F64),
        _optional("lost_s", _F64),
        _optional("abnormal", _F64),
        _optional("missing", pa.list_(pa.string())),
        _required("made_ns", _I64),
        _required("analysis_version", _I64),
        _optional("withdrawn", pa.bool_()),
    ],
)
"""One phase of I/O of a job. `kind`: read, write or metadata; `number` counts the phases of a kind in a job from 0.
`rate_per_s`: bytes (metadata: operations) a second while active. `rate_ns[i]` is the time spent at rates in
[2**(rate_bins[i] / 8), 2**((rate_bins[i] + 1) / 8)) a second, bin -1 is no I/O. `expected_s`: what the job's own
category takes for as much; `lost_s` beyond that; `abnormal`: how sure it is that this is no chance (0 to 1). Null in
these three: nothing to compare with. `withdrawn`: it was of a job that turned out to be told as another row."""

PROFILE = _spec(
    "profile",
    1,
    "last_ns",
    ("program", "user"),
    [
        _optional("cluster", _WORD),
        _optional("user", pa.string()),
        _optional("program", pa.string()),
        _optional("scale", _I64),
        _required("runs", _I64),
        _required("first_ns", _I64),
        _required("last_ns", _I64),
        _required("detail", pa.string()),
        _required("made_ns", _I64),
        _required("analysis_version", _I64),
    ],
)
"""What runs of one category (user, program, scale: nodes rounded to a power of two) are like. `detail` is JSON
(`fairlead.profile/1`). The latest `made_ns` counts."""

FINDING = _spec(
    "finding",
    1,
    "from_ns",
    ("from_ns",),
    [
        _required("id", pa.string()),
        _required("rule", _WORD),
        _required("title", pa.string()),
        _required("subject_kind", _WORD),
        _required("subject_id", pa.string()),
        _optional("cluster", _WORD),
        _optional("job_id", pa.string()),
        _optional("user", pa.string()),
        _required("from_ns", _I64),
        _optional("to_ns", _I64),
        _required("severity", _WORD),
        _required("confidence", _F64),
        _required("category", _WORD),
        _optional("culprits", pa.list_(pa.string())),
        _optional("components", pa.list_(pa.string())),
        _optional("cost_s", _F64),
        _required("detail", pa.string()),
        _required("made_ns", _I64),
        _required("analysis_version", _I64),
        _optional("withdrawn", pa.bool_()),
    ],
)
"""Something worth telling. `detail` is the whole finding as JSON (`fairlead.finding/1`), the other columns are for
choosing. Of one `id` the highest `analysis_version`, then the latest `made_ns` counts; `withdrawn`: a later look did
not bear it out. `culprits` and `components` are written `kind:id`."""

INCIDENT = _spec(
    "incident",
    1,
    "from_ns",
    ("component", "from_ns"),
    [
        _required("id", pa.string()),
        _required("layer", _WORD),
        _required("component", pa.string()),
        _required("from_ns", _I64),
        _optional("to_ns", _I64),
        _required("kind", _WORD),
        _optional("share_of_peak", _F64),
        _optional("peak", _F64),
        _optional("measured", _F64),
        _optional("persistence", _WORD),
        _optional("hint", _WORD),
        _required("confidence", _F64),
        _required("detail", pa.string()),
        _required("made_ns", _I64),
        _required("analysis_version", _I64),
        _optional("withdrawn", pa.bool_()),
    ],
)
"""A component that was sick from `from_ns` to `to_ns` (null: it still is). `detail` is the whole as JSON
(`fairlead.incident/1`). Of one `id` the highest `analysis_version`, then the latest `made_ns` counts."""

EXPERIMENT = _spec(
    "experiment",
    1,
    "made_ns",
    ("name", "made_ns"),
    [
        _required("name", pa.string()),
        _required("kind", _WORD),
        _optional("case_id", pa.string()),
        _optional("seed", _I64),
        _optional("sets", _I64),
        _required("detail", pa.string()),
        _required("made_ns", _I64),
        _required("analysis_version", _I64),
    ],
)
"""An experiment that was run to its end. `kind`: spec or paper; `detail` is JSON, of a spec what was asked, of a paper
what it told (`fairlead.simulated-paper/1`). Of one name the latest `made_ns` counts."""

SIMULATION = _spec(
    "simulation",
    1,
    "made_ns",
    ("case_id", "applications", "load", "set_number", "policy"),
    [
        _required("case_id", pa.string()),
        _required("seed", _I64),
        _required("window", _WORD),
        _required("applications", _I64),
        _optional("load", _F64),
        _required("set_number", _I64),
        _required("policy", _WORD),
        _required("information", _WORD),
        _optional("load_sys", _F64),
        *(
            _optional(name, _F64)
            for name in (
                "slowdown_mean",
                "slowdown_max",
                "slowdown_p10",
                "slowdown_p50",
                "slowdown_p90",
                "granted_mean",
                "contention_mean",
                "idle",
                "core_hours_lost",
                "occupancy_mean",
                "spread",
                "stretch_mean",
                "fairness",
                "resources_mean",
            )
        ),
        _optional("class_slowdown", pa.list_(_F64)),
        _required("unfinished", _I64),
        _required("window_s", _F64),
        _required("events", _I64),
        _required("made_ns", _I64),
    ],
)
"""What came of one simulated set of applications under one policy (Bandet, Boito and Pallez 2024, section on metrics).
`case_id`: all of the experiment that decides results besides what the row says; `load`: asked for, null where the
workload is written down or replayed; `load_sys`: load(pi_sys) of the set, null of a replay; `information`: exact or
class-mean curves were given to the policy; `class_slowdown`: mean by class of behaviour (ascent, peak, descent,
neutral, valley). Null in a measure: nothing could be measured in the window."""

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        OPS,
        FILES,
        FILE_COUNTERS,
        HEATMAP,
        LAYOUTS,
        FORWARDER,
        PFS_CLIENT,
        TARGET,
        METADATA,
        PORT,
        DEVICE,
        EVENTS,
        JOBS,
        MAPPING,
        HEALTH,
        USAGE,
        ROLLUP,
        OP_GROUPS,
        JOB_SUMMARY,
        PHASE,
        PROFILE,
        FINDING,
        INCIDENT,
        EXPERIMENT,
        SIMULATION,
    )
}


def find_table_spec(schema: pa.Schema) -> TableSpec:
    """The spec a batch says it belongs to (schema metadata `fairlead.table`). KeyError when it says none."""
    meta = schema.metadata or {}
    return TABLES[meta[b"fairlead.table"].decode()]


def build_table_batch(spec: TableSpec, columns: dict[str, object], rows: int | None = None) -> pa.RecordBatch:
    """A batch of `spec` from some of its columns (arrays, NumPy, lists); the rest is null. Casts are checked.

    `rows` is needed only when `columns` is empty. Raises KeyError for a column the table does not have.
    """
    unknown = set(columns) - set(spec.schema.names)
    if unknown:
        raise KeyError(f"{spec.name} has no column {sorted(unknown)}")
    length = len(next(iter(columns.values()))) if columns else (rows or 0)  # type: ignore[arg-type]
    arrays = []
    for column in spec.schema:
        value = columns.get(column.name)
        if value is None:
            arrays.append(pa.nulls(length, column.type))
        elif isinstance(value, pa.Array | pa.ChunkedArray):
            flat = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
            arrays.append(flat if flat.type == column.type else flat.cast(column.type))
        elif pa.types.is_dictionary(column.type):
            arrays.append(pa.array(value, column.type.value_type).dictionary_encode().cast(column.type))
        else:
            arrays.append(pa.array(value, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=spec.schema)


def build_table_word_column(value: str, length: int) -> pa.DictionaryArray:
    """A dictionary column holding one word `length` times, at the cost of its indices only."""
    return pa.DictionaryArray.from_arrays(pa.array(_zeros(length), pa.int32()), pa.array([value], pa.string()))


def _zeros(length: int) -> object:
    import numpy as np

    return np.zeros(length, np.int32)


def build_empty_table(spec: TableSpec) -> pa.Table:
    """A table of no rows."""
    return spec.schema.empty_table()
