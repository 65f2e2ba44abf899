"""What the clients' agents would send: runs of operations, one a lane and second. Made in columns, from `traffic`.

Not here: servers (`server_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairlead.core.model.site import I32
from fairlead.core.model.tables import OPS, build_table_batch, build_table_word_column
from fairlead.decide.sim.steps import I64
from fairlead.kit.testing.machine.course import DATA, INTERFACES, Course
from fairlead.kit.testing.machine.course import OPS as WORDS
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.traffic import Traffic

NS = 1_000_000_000
JITTER = 0.08
"""Deviation of the logarithm of the time a run's operations took."""


@dataclass(frozen=True)
class ClientRuns:
    """Runs: traffic row and lane; the first operation's number in its lane and how many; ns since the origin."""

    row: I64
    lane: I64
    first: I64
    count: I64
    start_ns: I64
    end_ns: I64
    busy_ns: I64


def build_client_runs(course: Course, t: Traffic, seed: int) -> ClientRuns:
    """The runs of all lanes, in order of node, then start."""
    moving = np.flatnonzero(t.count > 0)
    flow = t.flow[moving]
    lanes = course.lanes[flow]
    row = np.repeat(moving, lanes)
    member = np.arange(len(row)) - np.repeat(np.cumsum(lanes) - lanes, lanes)
    width = np.repeat(lanes, lanes)
    before, after = t.before[row], t.before[row] + t.count[row]
    # Requests of a flow finish in turns: lane m has those numbered m, m + L, m + 2 L ...
    first = (before + width - 1 - member) // width
    count = (after + width - 1 - member) // width - first
    kept = count > 0
    row, first, count = row[kept], first[kept], count[kept]
    lane = course.first_lane[t.flow[row]] + member[kept]
    # A lane's second is one run, or as many as it has requests at random, or parts between pauses.
    own = t.flow[row]
    parts = np.where(course.random[own], count, np.minimum(course.pauses[own], count))
    nth = np.zeros(len(row), np.int64)
    if (parts > 1).any():
        nth = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
        row, lane, first, count = (np.repeat(column, parts) for column in (row, lane, first, count))
        parts = np.repeat(parts, parts)
        begin = nth * count // parts
        first, count = first + begin, (nth + 1) * count // parts - begin
    start, end, busy = _times(t, row, count, nth, parts, seed)
    order = np.lexsort((start, course.node[lane]))
    return ClientRuns(row[order], lane[order], first[order], count[order], start[order], end[order], busy[order])


def _times(t: Traffic, row: I64, count: I64, nth: I64, parts: I64, seed: int) -> tuple[I64, I64, I64]:
    """Starts, ends and busy times: a run fills what its operations need of its part of the second."""
    rng = np.random.default_rng([seed, 5, int(t.second[0]) if len(t.second) else 0])
    share = (t.end_s[row] - t.start_s[row]) / parts
    each = t.busy_s[row] / t.count[row]
    need = each * count * np.exp(JITTER * rng.standard_normal(len(row), np.float32))
    late = rng.random(len(row), np.float32)
    taken = np.where(count == 1, need, np.minimum(need, share))
    begin = t.start_s[row] + nth * share + late * np.maximum(share - taken, 0.0)
    # An operation longer than its second ends in it and began before.
    begin = np.maximum(np.minimum(begin, t.end_s[row] - taken), 0.0)
    start = (begin * NS).astype(np.int64)
    busy = np.maximum((taken * NS).astype(np.int64), 1)
    return (
        start,
        start + busy + np.where(count > 1, (late * np.maximum(share - taken, 0.0) * 1e6).astype(np.int64), 0),
        busy,
    )


def build_client_rows(course: Course, t: Traffic, runs: ClientRuns, origin_ns: int) -> pa.RecordBatch:
    """The runs as rows of `ops`."""
    flow = t.flow[runs.row]
    size, op = course.size[flow], course.op[flow]
    data = op < DATA
    offset = course.offset[runs.lane] + runs.first * course.stride[runs.lane]
    scattered = course.random[flow]
    if scattered.any():
        places = course.requests[flow][scattered]
        offset[scattered] = _scrambled(runs.first[scattered], runs.lane[scattered], places) * size[scattered]
    run = data & (runs.count > 1)
    file = course.file[runs.lane]
    return build_table_batch(
        OPS,
        {
            "start_ns": runs.start_ns + origin_ns,
            "end_ns": runs.end_ns + origin_ns,
            "busy_ns": runs.busy_ns,
            "node": build_client_row_words(course.node[runs.lane], course.machine.format_node_name),
            "job_id": build_client_row_words(
                course.job[flow], lambda place: format_machine_job_id(course.jobs[place].drawn)
            ),
            "rank": course.rank[runs.lane],
            "interface": build_client_row_words(course.interface[flow], INTERFACES.__getitem__),
            "fs": build_table_word_column(course.files.fs, len(flow)),
            "op": build_client_row_words(op, WORDS.__getitem__),
            "file_id": course.files.compute_ids()[file],
            "handle": file.astype(np.int64) + 3,
            "offset": pa.array(offset, mask=~data),
            "size": pa.array(size, mask=~data),
            "stride": pa.array(course.stride[runs.lane], mask=~run),
            "count": runs.count,
        },
    )


def _scrambled(number: I64, lane: I64, places: I64) -> I64:
    """A pseudo-random place for each request: the same for the same request."""
    mixed = (number.astype(np.uint64) + (lane.astype(np.uint64) << np.uint64(20))) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed >> np.uint64(20)) % places.astype(np.uint64)).astype(np.int64)


def build_client_row_words(values: I32 | I64, name: object) -> pa.DictionaryArray:
    """A column of words from numbers: `name` is called once for each number that occurs."""
    if not len(values):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    most = int(values.max()) + 1
    present = np.zeros(most, np.bool_)
    present[values] = True
    found = np.flatnonzero(present)
    code = np.zeros(most, np.int32)
    code[found] = np.arange(len(found), dtype=np.int32)
    texts = [name(int(value)) for value in found]  # type: ignore[operator]
    return pa.DictionaryArray.from_arrays(pa.array(code[values]), pa.array(texts, pa.string()))
