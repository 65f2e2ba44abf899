"""Metadata-server lines to `metadata`: operations per client and interval, from cumulative counters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import METADATA, build_table_batch
from fairlead.see.sources.beacon import layout as k
from fairlead.see.sources.beacon.carry_over import SeriesState
from fairlead.see.sources.beacon.compiled import compile_kernel
from fairlead.see.sources.beacon.lines import Lines, Tally
from fairlead.see.sources.beacon.rpc_counts import Polling
from fairlead.see.sources.beacon.scan_counters import scan_metadata_counters


def read_metadata_ops(lines: Lines, carried: SeriesState, tally: Tally, polling: Polling) -> Iterator[pa.RecordBatch]:
    """Batches of the metadata lines of one block. Operations that did not happen have no row."""
    rows = lines.select_rows(k.METADATA)
    if not len(rows):
        return
    begins, ends = lines.begin[rows], lines.end[rows]
    clients = np.empty((len(rows), 2), np.int64)
    pairs = np.empty((int((ends - begins).sum()) // 4 + 1, 4), np.int64)
    count = compile_kernel(scan_metadata_counters, fast=lines.fast)(lines.view, begins, ends, clients, pairs)
    stamps = lines.stamp_ns[rows]
    good = (clients[:, 1] == 1) & (stamps != k.NONE)
    tally.count_unread(lines, rows[~good])
    tally.read += int(good.sum())
    line, name_a, name_b, value = (np.ascontiguousarray(c[good[pairs[:count, 0]]]) for c in pairs[:count].T)
    if not len(line):
        return
    hosts = lines.encode_hosts(carried.hosts, rows, polling.host)
    senders = lines.look_up_codes(carried.clients, begins, clients[:, 0])
    names = lines.look_up_codes(carried.names, name_a, name_b)
    keys = ((hosts[line] + 1) << 36) | (senders[line] << 12) | names  # Words keep to 20, 20 and 12 bits
    deltas = carried.metadata.compute_deltas(keys, stamps[line], value.reshape(-1, 1))
    tally.add("counter_resets", deltas.resets)
    tally.add("late_samples", deltas.late)
    counts = deltas.values[:, 0]
    happened = counts > 0
    at = deltas.rows[happened]
    if len(at):
        yield build_table_batch(
            METADATA,
            {
                "ts_ns": stamps[line][at],
                "interval_ns": polling.find_interval(deltas.interval_ns[happened]),
                "server": carried.hosts.build_column(hosts[line][at]),
                "client": carried.clients.build_column(senders[line][at]),
                "op": carried.names.build_column(names[at]),
                "count": counts[happened],
            },
        )
