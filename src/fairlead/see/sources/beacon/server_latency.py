"""Forwarding-server lines to `forwarder`: differences of the cumulative wait and service histograms, queue length.

The bounds of the eight buckets are published nowhere: they are ordinal, and no latency in nanoseconds follows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import FORWARDER, build_table_batch, build_table_word_column
from fairlead.see.sources.beacon import layout as k
from fairlead.see.sources.beacon.carry_over import Pending, SeriesState
from fairlead.see.sources.beacon.compiled import compile_kernel
from fairlead.see.sources.beacon.lines import Ints, Lines, Tally
from fairlead.see.sources.beacon.scan_counters import scan_latency_counters
from fairlead.see.sources.local_time import convert_local_to_utc_ns

_CLASSES = ("read", "write", "metadata")
_QUEUE = 3
_EIGHT = 8


def read_server_latencies(
    lines: Lines, carried: SeriesState, tally: Tally, *, zone: str, host: str | None
) -> Iterator[pa.RecordBatch]:
    """Batches of the histogram and queue lines of one block."""
    rows = lines.select_rows(k.LATENCY)
    if not len(rows):
        return
    table = np.zeros((len(rows), 12), np.int64)
    compile_kernel(scan_latency_counters, fast=lines.fast)(lines.view, lines.begin[rows], lines.end[rows], table)
    good = table[:, 11] == 1
    tally.count_unread(lines, rows[~good])
    rows, table = rows[good], table[good]
    hosts = lines.encode_hosts(carried.hosts, rows, host)
    tally.add("no_host", int((hosts < 0).sum()))
    rows, table, hosts = rows[hosts >= 0], table[hosts >= 0], hosts[hosts >= 0]
    if not len(rows):
        return
    tally.read += len(rows)
    tally.add("latency_buckets")
    ts = convert_local_to_utc_ns(table[:, 0], zone)
    queue = table[:, 1] == _QUEUE
    if queue.any():
        yield _queue(ts[queue], hosts[queue], table[queue, 3], carried)
    counted = ~queue
    batch = _histograms(ts[counted], hosts[counted], table[counted], carried, tally)
    if batch is not None:
        yield batch


def _queue(ts: Ints, hosts: Ints, length: Ints, carried: SeriesState) -> pa.RecordBatch:
    return build_table_batch(
        FORWARDER,
        {
            "ts_ns": ts,
            "node": carried.hosts.build_column(hosts),
            "op_class": build_table_word_column("all", len(ts)),
            "queue_len_mean": length.astype(np.float64),
            "queue_len_max": length,
        },
    )


def _histograms(ts: Ints, hosts: Ints, table: Ints, carried: SeriesState, tally: Tally) -> pa.RecordBatch | None:
    keys = (hosts * 3 + table[:, 1]) * 2 + table[:, 2]
    deltas = carried.latency.compute_deltas(keys, ts, np.ascontiguousarray(table[:, 3:11]))
    tally.add("counter_resets", deltas.resets)
    tally.add("late_samples", deltas.late)
    at = deltas.rows
    columns = np.column_stack([hosts[at], ts[at], deltas.interval_ns, table[at, 1], table[at, 2]])
    columns = np.concatenate([carried.pending.columns, columns])
    values = np.concatenate([carried.pending.values, deltas.values])
    newest = _is_newest(columns)
    carried.pending = Pending(columns[newest], values[newest])
    return _joined(columns[~newest], values[~newest], carried)


def _is_newest(columns: Ints) -> NDArray[np.bool_]:
    """Whether a row is of its host's latest second, whose snapshot may not be complete yet."""
    if not len(columns):
        return np.zeros(0, bool)
    latest = np.full(int(columns[:, 0].max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, columns[:, 0], columns[:, 1])
    newest: NDArray[np.bool_] = columns[:, 1] == latest[columns[:, 0]]
    return newest


def flush_server_latencies(carried: SeriesState) -> pa.RecordBatch | None:
    """What is still held of the last snapshots, at the end of the last file; nothing is held afterwards."""
    pending, carried.pending = carried.pending, Pending()
    return _joined(pending.columns, pending.values, carried)


def _joined(columns: Ints, values: Ints, carried: SeriesState) -> pa.RecordBatch | None:
    """One row per host, time, interval and class from its wait and its service differences."""
    if not len(columns):
        return None
    order = np.lexsort((columns[:, 4], columns[:, 3], columns[:, 2], columns[:, 0], columns[:, 1]))
    columns, values = columns[order], values[order]
    new = np.ones(len(columns), bool)
    new[1:] = (columns[1:, :4] != columns[:-1, :4]).any(axis=1)
    group = np.cumsum(new) - 1
    heads = columns[new]
    sides = []
    totals = np.zeros(len(heads), np.int64)
    has_service = np.zeros(len(heads), bool)
    for phase in (0, 1):
        mine = columns[:, 4] == phase
        present = np.zeros(len(heads), bool)
        present[group[mine]] = True
        sides.append(_lists(values[mine], present))
        if phase == 1:
            totals[group[mine]], has_service = values[mine].sum(axis=1), present
    return build_table_batch(
        FORWARDER,
        {
            "ts_ns": heads[:, 1],
            "interval_ns": heads[:, 2],
            "node": carried.hosts.build_column(heads[:, 0]),
            "op_class": pa.DictionaryArray.from_arrays(pa.array(heads[:, 3].astype(np.int32)), pa.array(_CLASSES)),
            "requests": pa.array(totals, mask=~has_service),
            "wait_ns_histogram": sides[0],
            "service_ns_histogram": sides[1],
        },
    )


def _lists(values: Ints, present: NDArray[np.bool_]) -> pa.ListArray:
    """A list column: the rows of `values` in order where `present`, null elsewhere."""
    offsets = np.zeros(len(present) + 1, np.int32)
    np.cumsum(present * _EIGHT, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()), mask=pa.array(~present))
