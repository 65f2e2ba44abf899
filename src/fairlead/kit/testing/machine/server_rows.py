"""What forwarders, storage and metadata servers and switches would send: sums of the same traffic. Made in columns.

Rows are dated by the end of their second. Not here: clients (`client_rows`), text files of counters (`lustre_tree`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.core.model.site import F64
from fairlead.core.model.tables import (
    DEVICE,
    FORWARDER,
    METADATA,
    PFS_CLIENT,
    PORT,
    TARGET,
    build_table_batch,
    build_table_word_column,
)
from fairlead.decide.sim.steps import I64
from fairlead.kit.testing.machine.client_rows import NS, ClientRuns, build_client_row_words
from fairlead.kit.testing.machine.course import DATA, Course
from fairlead.kit.testing.machine.course import OPS as WORDS
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.traffic import Traffic

BINS = 40
_EDGES_S = np.concatenate([[0.0], 2.0 ** np.arange(BINS - 1) / 1e9, [np.inf]])
"""Bin 0 counts 0 ns, bin b [2^(b-1), 2^b) ns: as fairlead's forwarders do."""
CLASSES = ("metadata", "read", "write")
PORTS_PER_SWITCH = 24


@dataclass(frozen=True)
class Account:
    """Traffic rows with what servers sort them by."""

    second: I64
    job: I64
    op: I64
    forwarder: I64
    target: I64
    requests: I64
    bytes: I64
    busy_s: F64
    wait_s: F64
    held_s: F64
    queue: F64


def build_server_account(course: Course, t: Traffic) -> Account:
    """The account of the rows in which something was done or waited for."""
    flow = t.flow
    moved = np.where(course.op[flow] < DATA, t.count * course.size[flow], 0)
    active = np.maximum(t.end_s - t.start_s, 1e-9)
    return Account(
        t.second,
        course.job[flow].astype(np.int64),
        course.op[flow].astype(np.int64),
        course.forwarder[flow].astype(np.int64),
        course.target[flow].astype(np.int64),
        t.count,
        moved,
        t.busy_s,
        np.minimum(t.wait_s, t.busy_s),
        t.held_s,
        t.wait_s / active,
    )


def sum_server_rows(keys: Sequence[I64], values: Sequence[Any]) -> tuple[list[I64], list[F64]]:
    """Sums of values over equal keys: the keys of each group, in order, and its sums."""
    if not len(keys[0]):
        return [k[:0] for k in keys], [np.zeros(0) for _ in values]
    combined = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        low = int(key.min())
        combined = combined * (int(key.max()) - low + 1) + (key - low)
    _, first, group = np.unique(combined, return_index=True, return_inverse=True)
    return [key[first] for key in keys], [np.bincount(group, value).astype(np.float64) for value in values]


def build_server_rows(
    course: Course,
    t: Traffic,
    runs: ClientRuns,
    origin_ns: int,
    from_s: int,
    to_s: int,
    *,
    used: F64,
    idle_s: int,
) -> dict[str, pa.RecordBatch]:
    """Rows of [from_s, to_s) by table: forwarder, pfs_client, target, metadata, port, device.

    `used`: bytes used on each target at `from_s`; `idle_s`: a target that is idle is told of in one of so many seconds.
    """
    a = build_server_account(course, t)
    return {
        "forwarder": _forwarder_rows(course, a, origin_ns),
        "pfs_client": _pfs_client_rows(course, a, t, runs, origin_ns),
        "target": _target_rows(course, a, origin_ns, from_s, to_s, used, idle_s),
        "metadata": _metadata_rows(course, a, t, runs, origin_ns),
        "port": _port_rows(course, a, origin_ns),
        "device": _device_rows(course, a, origin_ns),
    }


def _forwarder_rows(course: Course, a: Account, origin_ns: int) -> pa.RecordBatch:
    """Per second, forwarder, job and class: requests, bytes, histograms; per second and forwarder (class `all`): the
    queue. Its greatest length is that of all its flows queueing at once."""
    here = a.forwarder >= 0
    kind = np.where(a.op == 0, 1, np.where(a.op == 1, 2, 0))
    (second, fwd, job, op_class), (requests, moved, busy, wait, _) = sum_server_rows(
        [x[here] for x in (a.second, a.forwarder, a.job, kind)],
        [x[here] for x in (a.requests, a.bytes, a.busy_s, a.wait_s, a.queue)],
    )
    some = requests > 0
    second, fwd, job, op_class = second[some], fwd[some], job[some], op_class[some]
    requests, moved, busy, wait = requests[some], moved[some], busy[some], wait[some]
    (at, queued), (length, most) = sum_server_rows([a.second[here], a.forwarder[here]], [a.wait_s[here], a.queue[here]])
    n, m = len(second), len(at)
    whole = np.arange(n + m) >= n
    return build_table_batch(
        FORWARDER,
        {
            "ts_ns": origin_ns + (np.concatenate([second, at]) + 1) * NS,
            "interval_ns": np.full(n + m, NS),
            "node": build_client_row_words(np.concatenate([fwd, queued]), course.machine.forwarders.names.__getitem__),
            "job_id": _jobs(course, np.concatenate([job, np.zeros(m, np.int64)]), whole),
            "op_class": build_client_row_words(
                np.concatenate([op_class, np.full(m, 3)]), (*CLASSES, "all").__getitem__
            ),
            "requests": pa.array(_ints(requests, m), mask=whole),
            "bytes": pa.array(_ints(moved, m), mask=whole),
            "wait_ns_histogram": _lists(_build_exponential(requests, wait / np.maximum(requests, 1)), m),
            "service_ns_histogram": _lists(_build_lognormal(requests, (busy - wait) / np.maximum(requests, 1)), m),
            "queue_len_mean": pa.array(np.concatenate([np.zeros(n), length]), mask=~whole),
            "queue_len_max": pa.array(
                np.concatenate([np.zeros(n, np.int64), np.ceil(most).astype(np.int64)]), mask=~whole
            ),
        },
    )


def _target_rows(
    course: Course, a: Account, origin_ns: int, from_s: int, to_s: int, used: F64, idle_s: int = 1
) -> pa.RecordBatch:
    """Per second and target the whole (`obdfilter`, zeros where idle), and its parts by job (`job_stats`).

    `used`: bytes used on each target at `from_s`; `idle_s`: a target that is idle is told of in one of so many seconds.
    """
    machine = course.machine
    data = a.op < DATA
    read = (a.op == 0) & data
    values = [x[data] for x in (read * a.requests, ~read * a.requests, read * a.bytes, ~read * a.bytes)]
    keys = [a.second[data], a.target[data]]
    (second, target), totals = sum_server_rows(keys, [*values, (a.busy_s - a.wait_s)[data]])
    grid = (to_s - from_s) * len(machine.targets)
    place = (second - from_s) * len(machine.targets) + target
    whole = [np.bincount(place, column, grid) for column in totals]
    (at, on, job), parts = sum_server_rows([*keys, a.job[data]], values)
    some = (parts[0] + parts[1]) > 0
    at, on, job, parts = at[some], on[some], job[some], [p[some] for p in parts]
    m = len(at)
    seconds = np.repeat(np.arange(from_s, to_s), len(machine.targets))
    targets = np.tile(np.arange(len(machine.targets)), to_s - from_s)
    filled = (used + np.cumsum(whole[3].reshape(-1, len(machine.targets)), axis=0)).ravel()
    if idle_s > 1:
        told = (whole[0] + whole[1] > 0) | (seconds % idle_s == 0)
        seconds, targets, filled, whole = seconds[told], targets[told], filled[told], [w[told] for w in whole]
        grid = len(seconds)
    requests = whole[0] + whole[1]
    is_part = np.arange(grid + m) >= grid
    columns = {
        name: np.concatenate([w, p]).astype(np.int64)
        for name, w, p in zip(("read_rpcs", "write_rpcs", "read_bytes", "write_bytes"), whole, parts, strict=False)
    }
    every = np.concatenate([targets, on])
    return build_table_batch(
        TARGET,
        {
            "ts_ns": origin_ns + (np.concatenate([seconds, at]) + 1) * NS,
            "interval_ns": np.full(grid + m, NS),
            "server": build_client_row_words(every // machine.targets_per_server, machine.servers.names.__getitem__),
            "target": build_client_row_words(every, machine.targets.names.__getitem__),
            "job_id": _jobs(course, np.concatenate([np.zeros(grid, np.int64), job]), ~is_part),
            **columns,
            "service_ns_histogram": _lists(_build_lognormal(requests, whole[4] / np.maximum(requests, 1)), m),
            "capacity_bytes": pa.array(np.full(grid + m, machine.target_bytes), mask=is_part),
            "used_bytes": pa.array(_ints(filled, m), mask=is_part),
            "source": build_client_row_words(is_part.astype(np.int64), ("obdfilter", "job_stats").__getitem__),
        },
    )


def _device_rows(course: Course, a: Account, origin_ns: int) -> pa.RecordBatch:
    """Per second and storage device that worked: bytes, operations, time busy, queue."""
    machine = course.machine
    data = a.op < DATA
    read = (a.op == 0) & data
    (second, target), (rb, wb, ro, wo, held, busy) = sum_server_rows(
        [a.second[data], a.target[data]],
        [
            x[data]
            for x in (
                read * a.bytes,
                ~read * a.bytes,
                read * a.requests,
                ~read * a.requests,
                a.held_s,
                a.busy_s - a.wait_s,
            )
        ],
    )
    share = np.clip(np.maximum((rb + wb) / float(machine.targets.bandwidth[0]), np.minimum(held, 1.0)), 0.0, 1.0)
    return build_table_batch(
        DEVICE,
        {
            "ts_ns": origin_ns + (second + 1) * NS,
            "interval_ns": np.full(len(second), NS),
            "node": build_client_row_words(target // machine.targets_per_server, machine.servers.names.__getitem__),
            "device": build_client_row_words(target % machine.targets_per_server, lambda n: f"md{n}"),
            "read_bytes": _ints(rb),
            "write_bytes": _ints(wb),
            "read_ops": _ints(ro),
            "write_ops": _ints(wo),
            "busy_ns": (share * NS).astype(np.int64),
            "queue_ns": (busy * NS).astype(np.int64),
            "kind": build_table_word_column("hdd", len(second)),
        },
    )


def _metadata_rows(course: Course, a: Account, t: Traffic, runs: ClientRuns, origin_ns: int) -> pa.RecordBatch:
    """Per second, server and operation the whole (`md_stats`), and its parts by job (`job_stats`) and by client
    (`exports`): the forwarders, or where there are none the nodes."""
    machine = course.machine
    meta = (a.op >= DATA) & (a.requests > 0)
    second, mds, op, job, fwd = (x[meta] for x in (a.second, a.target, a.op, a.job, a.forwarder))
    count = a.requests[meta]
    (s0, m0, o0), (c0,) = sum_server_rows([second, mds, op], [count])
    (s1, m1, o1, j1), (c1,) = sum_server_rows([second, mds, op, job], [count])
    if len(machine.forwarders):
        (s2, m2, o2, f2), (c2,) = sum_server_rows([second, mds, op, fwd], [count])
    else:
        flow = t.flow[runs.row]
        here = course.op[flow] >= DATA
        flow, node = flow[here], course.node[runs.lane[here]]
        keys = [t.second[runs.row[here]], *(x.astype(np.int64) for x in (course.target[flow], course.op[flow], node))]
        (s2, m2, o2, f2), (c2,) = sum_server_rows(keys, [runs.count[here]])
    source = np.repeat([0, 1, 2], [len(s0), len(s1), len(s2)])
    nobody, nothing = np.zeros(len(s0), np.int64), np.zeros(len(s2), np.int64)
    name = machine.forwarders.names.__getitem__ if len(machine.forwarders) else machine.format_node_name
    client = build_client_row_words(np.concatenate([nobody, np.zeros(len(s1), np.int64), f2]), name)
    return build_table_batch(
        METADATA,
        {
            "ts_ns": origin_ns + (np.concatenate([s0, s1, s2]) + 1) * NS,
            "interval_ns": np.full(len(source), NS),
            "server": build_client_row_words(np.concatenate([m0, m1, m2]), machine.mds.names.__getitem__),
            "client": _masked(client, source != 2),
            "job_id": _jobs(course, np.concatenate([nobody, j1, nothing]), source != 1),
            "op": build_client_row_words(np.concatenate([o0, o1, o2]), WORDS.__getitem__),
            "count": _ints(np.concatenate([c0, c1, c2])),
            "source": build_client_row_words(source, ("md_stats", "job_stats", "exports").__getitem__),
            "target": build_client_row_words(np.concatenate([m0, m1, m2]), machine.format_mdt_name),
        },
    )


def _pfs_client_rows(course: Course, a: Account, t: Traffic, runs: ClientRuns, origin_ns: int) -> pa.RecordBatch:
    """Per second, client of the file system and target: what it asked for (`osc`). The clients are the forwarders, or
    where there are none the nodes."""
    machine = course.machine
    if len(machine.forwarders):
        mine = a.op < DATA
        second, client, target, op, requests, moved = (
            x[mine] for x in (a.second, a.forwarder, a.target, a.op, a.requests, a.bytes)
        )
    else:
        flow = t.flow[runs.row]
        mine = course.op[flow] < DATA
        flow, count = flow[mine], runs.count[mine]
        second, client = t.second[runs.row[mine]], course.node[runs.lane[mine]].astype(np.int64)
        target, op = course.target[flow].astype(np.int64), course.op[flow].astype(np.int64)
        requests, moved = count, count * course.size[flow]
    read = op == 0
    (second, client, target), (rr, wr, rb, wb) = sum_server_rows(
        [second, client, target], [read * requests, ~read * requests, read * moved, ~read * moved]
    )
    some = rr + wr > 0
    n = int(some.sum())
    return build_table_batch(
        PFS_CLIENT,
        {
            "ts_ns": origin_ns + (second[some] + 1) * NS,
            "interval_ns": np.full(n, NS),
            "node": build_client_row_words(
                client[some],
                machine.forwarders.names.__getitem__ if len(machine.forwarders) else machine.format_node_name,
            ),
            "target": build_client_row_words(target[some], machine.targets.names.__getitem__),
            "read_rpcs": _ints(rr[some]),
            "write_rpcs": _ints(wr[some]),
            "read_bytes": _ints(rb[some]),
            "write_bytes": _ints(wb[some]),
            "source": build_table_word_column("osc", n),
            "fs": build_table_word_column(course.files.fs, n),
        },
    )


def _port_rows(course: Course, a: Account, origin_ns: int) -> pa.RecordBatch:
    """Per second and port of a storage server or forwarder (towards storage): bytes sent and received by it."""
    machine = course.machine
    data = a.op < DATA
    read = (a.op == 0)[data]
    moved, second = a.bytes[data], a.second[data]
    server = a.target[data] // machine.targets_per_server
    (s0, p0), (tx0, rx0) = sum_server_rows([second, server], [read * moved, ~read * moved])
    fwd = a.forwarder[data]
    there = fwd >= 0
    (s1, p1), (rx1, tx1) = sum_server_rows([second[there], fwd[there]], [(read * moved)[there], (~read * moved)[there]])
    port = np.concatenate([p0, p1 + len(machine.servers)])

    def peer(number: int) -> str:
        inside = number < len(machine.servers)
        return machine.servers.names[number] if inside else machine.forwarders.names[number - len(machine.servers)]

    return build_table_batch(
        PORT,
        {
            "ts_ns": origin_ns + (np.concatenate([s0, s1]) + 1) * NS,
            "interval_ns": np.full(len(port), NS),
            "switch": build_client_row_words(port // PORTS_PER_SWITCH, lambda n: f"leaf{n:03d}"),
            "port": build_client_row_words(port % PORTS_PER_SWITCH + 1, str),
            "peer": build_client_row_words(port, peer),
            "tx_bytes": _ints(np.concatenate([tx0, tx1])),
            "rx_bytes": _ints(np.concatenate([rx0, rx1])),
            "errors": np.zeros(len(port), np.int64),
            "rate_bytes_per_s": np.full(len(port), 12.5e9),
        },
    )


def _build_exponential(requests: F64, mean_s: F64) -> I64:
    """Histograms (N, 40) of times spread exponentially about a mean; a mean of nothing is all in bin 0."""
    mean = np.maximum(mean_s, 0.0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(mean > 1e-9, 1.0 - np.exp(-_EDGES_S[1:] / mean), 1.0)
    return _counts(requests, below)


def _build_lognormal(requests: Any, mean_s: F64, sigma: float = 0.5) -> I64:
    """Histograms (N, 40) of times spread lognormally about a mean."""
    counts = np.zeros((len(requests), BINS), np.int64)
    some = np.flatnonzero(requests)
    mean = np.maximum(mean_s[some], 1e-9)[:, None]
    with np.errstate(divide="ignore"):
        z = (np.log(_EDGES_S[1:]) - np.log(mean) + sigma**2 / 2) / sigma
    counts[some] = _counts(requests[some], 0.5 * (1.0 + _erf(z / math.sqrt(2.0))))
    return counts


def _erf(x: F64) -> F64:
    """Abramowitz and Stegun 7.1.26: five digits, and no SciPy to load."""
    k = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    series = k * (0.254829592 + k * (-0.284496736 + k * (1.421413741 + k * (-1.453152027 + k * 1.061405429))))
    return np.sign(x) * (1.0 - series * np.exp(-np.minimum(x * x, 700.0)))


def _counts(requests: F64, below: F64) -> I64:
    """Whole counts whose sum is exact: differences of rounded cumulated ones."""
    below = below.copy()
    below[:, -1] = 1.0
    cumulated = np.rint(below * requests[:, None])
    return np.diff(cumulated, axis=1, prepend=0.0).astype(np.int64)


def _lists(counts: I64, nulls: int) -> pa.ListArray:
    """Histograms as lists, then `nulls` nulls."""
    n, width = counts.shape
    offsets = np.concatenate([np.arange(n + 1) * width, np.full(nulls, n * width)]).astype(np.int32)
    missing = pa.array(np.arange(n + nulls) >= n)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts.ravel()), mask=missing)


def _ints(values: F64, more: int = 0) -> I64:
    """As integers, then `more` zeros."""
    return np.concatenate([np.rint(values).astype(np.int64), np.zeros(more, np.int64)])


def _jobs(course: Course, job: I64, missing: np.ndarray) -> pa.DictionaryArray:
    return _masked(
        build_client_row_words(
            job, lambda place: format_machine_job_id(course.jobs[place].drawn) if course.jobs else ""
        ),
        missing,
    )


def _masked(column: pa.DictionaryArray, missing: np.ndarray) -> pa.DictionaryArray:
    codes = column.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), column.dictionary)
