"""Lustre counter lines to `pfs_client` and `target`: pages per RPC of forwarding nodes and storage targets, read-ahead.

The source polls every second and sends only what changed: a difference happened in the last poll before its line, and
silence means no traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import PFS_CLIENT, TARGET, build_table_batch
from fairlead.see.sources.beacon import layout as k
from fairlead.see.sources.beacon.carry_over import SeriesState
from fairlead.see.sources.beacon.compiled import compile_kernel
from fairlead.see.sources.beacon.lines import Ints, Lines, Tally
from fairlead.see.sources.beacon.scan_counters import scan_cache_counters, scan_rpc_counters
from fairlead.see.sources.beacon.series import Series
from fairlead.see.sources.local_time import convert_local_to_utc_ns

PAGE_BYTES = 4096
_FEWEST_BUCKETS = 9
"""1 to 256 pages, as in the data of 2018; histograms have this many buckets or more."""


@dataclass(frozen=True)
class Polling:
    """How lines are dated and named: local zone, poll interval (None: the whole gap between lines), host and target of
    lines that name none, what goes before a target's name."""

    zone: str
    poll_ns: int | None
    host: str | None
    target: str
    prefix: str

    def find_interval(self, gap_ns: Ints) -> Ints:
        """The interval a difference belongs to."""
        return gap_ns if self.poll_ns is None else np.minimum(gap_ns, self.poll_ns)


def read_beacon_rpc_counts(
    lines: Lines, carried: SeriesState, tally: Tally, polling: Polling
) -> Iterator[pa.RecordBatch]:
    """Batches of the pages-per-RPC lines of one block, of clients and of targets."""
    for kind, series in ((k.CLIENT_RPCS, carried.client_rpcs), (k.TARGET_RPCS, carried.target_rpcs)):
        rows = lines.select_rows(kind)
        if len(rows):
            batch = _rpcs(lines, rows, series, carried, tally, polling)
            if batch is not None:
                yield batch


def _rpcs(
    lines: Lines, rows: Ints, series: Series, carried: SeriesState, tally: Tally, polling: Polling
) -> pa.RecordBatch | None:
    table = np.empty((len(rows), 4), np.int64)
    counts = np.empty((len(rows), 2, k.BUCKETS), np.int64)
    width = compile_kernel(scan_rpc_counters, fast=lines.fast)(
        lines.view, lines.begin[rows], lines.end[rows], table, counts
    )
    spec = PFS_CLIENT if series is carried.client_rpcs else TARGET
    ts, dated = _times(lines, rows, table[:, 1], table[:, 2], polling.zone)
    keep = (table[:, 3] == 1) & dated
    tally.count_unread(lines, rows[~keep])
    hosts = lines.encode_hosts(carried.hosts, rows, polling.host)
    if spec is PFS_CLIENT:
        tally.add("no_host", int((keep & (hosts < 0)).sum()))
        keep &= hosts >= 0
    table, ts, hosts = table[keep], ts[keep], hosts[keep]
    if not len(table):
        return None
    tally.read += len(table)
    targets = _targets(table[:, 0], carried, polling)
    # Both ways side by side; a width that grows later pads each way, so the two keep apart.
    values = np.concatenate([counts[keep, 0, :width], counts[keep, 1, :width]], axis=1)
    width, values = _settled(series, values, width)
    deltas = series.compute_deltas(_pair(hosts + 1, targets), ts, values)
    tally.add("counter_resets", deltas.resets)
    tally.add("late_samples", deltas.late)
    at = deltas.rows
    if not len(at):
        return None
    reads, writes = deltas.values[:, :width], deltas.values[:, width:]
    pages = np.left_shift(np.int64(PAGE_BYTES), np.arange(width, dtype=np.int64))
    columns: dict[str, object] = {
        "ts_ns": ts[at],
        "interval_ns": polling.find_interval(deltas.interval_ns),
        "target": carried.targets.build_column(targets[at]),
        "node" if spec is PFS_CLIENT else "server": carried.hosts.build_column(hosts[at]),
        "read_rpcs": reads.sum(axis=1),
        "write_rpcs": writes.sum(axis=1),
        "read_bytes": reads @ pages,
        "write_bytes": writes @ pages,
    }
    if spec is PFS_CLIENT:
        columns["pages_per_rpc_read"], columns["pages_per_rpc_write"] = _lists(reads), _lists(writes)
    return build_table_batch(spec, columns)


def _times(lines: Lines, rows: Ints, stamp_ns: Ints, local_s: Ints, zone: str) -> tuple[Ints, Ints]:
    """Times of lines: the one in the message (UTC, else local), else the record's @timestamp; and which have one."""
    ts = np.where(stamp_ns != k.NONE, stamp_ns, lines.stamp_ns[rows])
    local = (local_s != k.NONE) & (stamp_ns == k.NONE)
    if local.any():
        ts[local] = convert_local_to_utc_ns(local_s[local], zone)
    return ts, ts != k.NONE


def _targets(indices: Ints, carried: SeriesState, polling: Polling) -> Ints:
    """Codes of target names: `OST0012`, or the file's own name where lines have no index."""
    distinct, inverse = np.unique(indices, return_inverse=True)
    names = [polling.prefix + (f"OST{i:04x}" if i >= 0 else polling.target) for i in distinct.tolist()]
    return np.array([carried.targets.code(name) for name in names], np.int64)[inverse]


def _settled(series: Series, values: Ints, width: int) -> tuple[int, Ints]:
    """Values as wide as the series ever was; a series that was narrower is widened, each way by itself."""
    have = series.width // 2
    width, narrow = max(width, _FEWEST_BUCKETS), width
    if width > narrow:
        values = _padded(values, narrow, width)
    if width < have:
        return have, _padded(values, width, have)
    if width > have:
        series.map_values(lambda kept: _padded(kept, have, width))
    return width, values


def _padded(values: Ints, width: int, wider: int) -> Ints:
    out = np.zeros((len(values), 2 * wider), np.int64)
    out[:, :width], out[:, wider : wider + width] = values[:, :width], values[:, width:]
    return out


def _pair(high: Ints, low: Ints) -> Ints:
    return (high << 32) | low


def _lists(values: Ints) -> pa.ListArray:
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values.ravel()))


def read_beacon_cache_counts(
    lines: Lines, carried: SeriesState, tally: Tally, polling: Polling
) -> Iterator[pa.RecordBatch]:
    """Batches of the read-ahead lines of one block: pages hit, missed and discarded."""
    rows = lines.select_rows(k.CACHE)
    if not len(rows):
        return
    table = np.empty((len(rows), 5), np.int64)
    compile_kernel(scan_cache_counters, fast=lines.fast)(lines.view, lines.begin[rows], lines.end[rows], table)
    ts, dated = _times(lines, rows, np.full(len(rows), k.NONE), table[:, 0], polling.zone)
    hosts = lines.encode_hosts(carried.hosts, rows, polling.host)
    keep = (table[:, 4] == 1) & dated
    tally.count_unread(lines, rows[~keep])
    tally.add("no_host", int((keep & (hosts < 0)).sum()))
    keep &= hosts >= 0
    table, ts, hosts = table[keep], ts[keep], hosts[keep]
    tally.read += len(table)
    deltas = carried.cache.compute_deltas(hosts, ts, np.ascontiguousarray(table[:, 1:4]))
    tally.add("counter_resets", deltas.resets)
    tally.add("late_samples", deltas.late)
    at = deltas.rows
    if len(at):
        hit, miss, discard = deltas.values.T
        yield build_table_batch(
            PFS_CLIENT,
            {
                "ts_ns": ts[at],
                "interval_ns": polling.find_interval(deltas.interval_ns),
                "node": carried.hosts.build_column(hosts[at]),
                "cache_hit": np.ascontiguousarray(hit),
                "cache_miss": np.ascontiguousarray(miss),
                "cache_discard": np.ascontiguousarray(discard),
            },
        )
