"""What a shared component counted, split by each job's share of the client traffic behind it. An estimate, marked so.

The rule: bytes of a component in an interval fall to jobs as their clients' bytes behind it do, read and written apart;
metadata operations as their clients' metadata operations do. Where a component counts by job itself, that count is
taken as it is. Pure. Not here: which traffic is behind which component (`node_intervals`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.analysis.node_intervals import Intervals, attribute_node_traffic
from fairlead.store.rollup_cells import group_cell_rows, read_cell_names

I64 = NDArray[np.int64]
VALUES = ("read_bytes", "write_bytes", "metadata_ops")
TRAFFIC = pa.schema(
    [
        pa.field("ts_ns", pa.int64()),
        pa.field("component", pa.string()),
        pa.field("job_id", pa.string()),
        *(pa.field(name, pa.float64()) for name in VALUES),
        pa.field("ambiguous", pa.float64()),
    ]
)
"""Client traffic behind a component in an interval, by job (null: whose is not known). `component` null: nothing says
where it went. `ambiguous`: bytes and operations of it that were shared out among jobs on one node."""
SPLIT = pa.schema(
    [
        pa.field("ts_ns", pa.int64()),
        pa.field("component", pa.string()),
        pa.field("job_id", pa.string()),
        *(pa.field(name, pa.int64()) for name in VALUES),
        pa.field("estimated", pa.bool_()),
    ]
)
"""What jobs had of a component. `job_id` null: what no job is known for. Null amounts are unknown."""


def sum_traffic_behind(nodes: pa.Table, placed: pa.Table, routes: Intervals) -> pa.Table:
    """Traffic of nodes by component and job (schema TRAFFIC). `nodes`: rows of equal intervals with `ts_ns` (their
    beginning), `interval_ns`, `node`, `job_id`, VALUES. A route counts that holds in the middle of the interval."""
    middle = nodes["ts_ns"].to_numpy() + np.maximum(pc.fill_null(nodes["interval_ns"], 0).to_numpy(), 0) // 2
    component = routes.look_up(nodes["node"], middle)
    found = attribute_node_traffic(nodes, placed)
    row = pa.array(found.row)
    amounts = [pc.fill_null(nodes[name], 0).to_numpy()[found.row] * found.part for name in VALUES]
    unclear = np.where(found.how == "shared", sum(amounts), 0.0)
    flat = pa.table([nodes["ts_ns"].take(row), component.take(row), found.job_id, *amounts, unclear], schema=TRAFFIC)
    keys = ["ts_ns", "component", "job_id"]
    wanted = [*VALUES, "ambiguous"]
    summed = flat.group_by(keys).aggregate([(name, "sum") for name in wanted])
    summed = summed.rename_columns([name.removesuffix("_sum") for name in summed.schema.names])
    return summed.select(TRAFFIC.names).cast(TRAFFIC)


def split_by_job(whole: pa.Table, traffic: pa.Table, counted: pa.Table | None = None) -> pa.Table:
    """`whole` by job (schema SPLIT). `whole`: `ts_ns`, `component`, VALUES, one row an interval and component.
    `counted`: the same with `job_id`, for components that count by job: what is counted there is taken, and only what
    is left of the whole is split among the jobs that were not counted.

    Amounts of an interval and component add up to the whole, to the last byte; what has no traffic behind it belongs
    to no known job.
    """
    counted = counted if counted is not None else _nothing()
    rest = _rest(whole, counted)
    traffic = traffic.filter(pc.is_valid(traffic["component"]))
    codes, _ = _keys(rest, traffic, counted)
    order = np.argsort(codes[0], kind="stable")
    at = np.searchsorted(codes[0][order], codes[1])
    known = (
        (at < len(order)) & (codes[0][order][np.minimum(at, len(order) - 1)] == codes[1])
        if len(order)
        else np.zeros(len(codes[1]), np.bool_)
    )
    mine = ~_already(traffic, counted, codes[1], codes[2]) & known
    rows = np.flatnonzero(mine)
    into = order[at[rows]]
    jobs = [traffic["job_id"].take(pa.array(rows)), pa.nulls(rest.num_rows, pa.string())]
    place = np.concatenate([into, np.arange(rest.num_rows)])
    by_place = np.argsort(place, kind="stable")
    columns = {name: _shared_out(rest[name], traffic[name].to_numpy()[rows], into, place, by_place) for name in VALUES}
    job = pa.chunked_array([*_chunks(jobs[0]), jobs[1]]).take(pa.array(by_place))
    lines = pa.array(place[by_place])
    estimate = pa.table(
        [
            rest["ts_ns"].take(lines),
            rest["component"].take(lines),
            job,
            *columns.values(),
            pa.array(np.ones(len(by_place), np.bool_)),
        ],
        schema=SPLIT,
    )
    estimate = _without_empty(estimate)
    told = [counted[name] for name in ("ts_ns", "component", "job_id", *VALUES)]
    return pa.concat_tables(
        [
            pa.table([*told, pa.array(np.zeros(counted.num_rows, np.bool_))], schema=SPLIT),
            estimate,
        ]
    )


def _nothing() -> pa.Table:
    return SPLIT.empty_table().drop_columns(["estimated"])


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _shared_out(whole: pa.ChunkedArray, weight: NDArray[np.float64], into: I64, place: I64, order: I64) -> pa.Array:
    """int64 by piece in `order`: the whole of its place by weight, rounded so that the pieces add up to it. The last
    piece of a place is nobody's: it has all where there is no weight."""
    total = pc.fill_null(whole, 0).to_numpy()
    unknown = np.asarray(whole.is_null())
    rows = len(total)
    sums = np.zeros(rows)
    np.add.at(sums, into, weight)
    each = weight / np.where(sums > 0, sums, 1.0)[into]
    every = np.concatenate([each, np.where(sums > 0, 0.0, 1.0)])[order]
    at = place[order]
    heads = np.flatnonzero(np.diff(at, prepend=-1))
    lengths = np.diff(heads, append=len(at))
    running = np.cumsum(every)
    base = np.repeat(running[heads] - every[heads], lengths)
    reached = np.rint(total[at] * np.minimum(running - base, 1.0)).astype(np.int64)
    reached[heads + lengths - 1] = total[at[heads]]
    shared = np.flatnonzero(sums[at[heads]] > 0)
    reached[heads[shared] + lengths[shared] - 2] = total[at[heads[shared]]]
    pieces = np.diff(reached, prepend=0)
    pieces[heads] = reached[heads]
    return pa.array(pieces, mask=unknown[at])


def _without_empty(table: pa.Table) -> pa.Table:
    """One row an interval, component and job; without those of nobody that hold nothing."""
    keys = ["ts_ns", "component", "job_id", "estimated"]
    summed = table.group_by(keys).aggregate([(name, "sum") for name in VALUES])
    table = summed.rename_columns([n.removesuffix("_sum") for n in summed.schema.names]).select(SPLIT.names).cast(SPLIT)
    something = pc.is_valid(table["job_id"])
    for name in VALUES:
        something = pc.or_(something, pc.fill_null(pc.not_equal(table[name], 0), False))
    return table.filter(something)


def _rest(whole: pa.Table, counted: pa.Table) -> pa.Table:
    """What is left of the whole when what is counted by job is taken away (never below zero)."""
    if not counted.num_rows:
        return whole.select(["ts_ns", "component", *VALUES])
    codes, _ = _keys(whole, counted)
    size = int(max(codes[0].max(initial=-1), codes[1].max(initial=-1))) + 1
    columns = []
    for name in VALUES:
        taken = np.zeros(size, np.int64)
        np.add.at(taken, codes[1], pc.fill_null(counted[name], 0).to_numpy())
        left = np.maximum(pc.fill_null(whole[name], 0).to_numpy() - taken[codes[0]], 0)
        columns.append(pa.array(left, mask=np.asarray(whole[name].is_null())))
    return pa.table([whole["ts_ns"], whole["component"], *columns], names=["ts_ns", "component", *VALUES])


def _keys(*tables: pa.Table) -> tuple[list[I64], int]:
    """A code for each row's interval and component, the same in all tables; and how many codes there are."""
    component = read_cell_names(
        pa.chunked_array([c for t in tables for c in _chunks(t["component"].cast(pa.string()))], pa.string())
    )
    times = np.concatenate([t["ts_ns"].to_numpy() for t in tables])
    codes, one = group_cell_rows([times, component.codes])
    return np.split(codes, np.cumsum([t.num_rows for t in tables])[:-1]), len(one)


def _already(traffic: pa.Table, counted: pa.Table, keys: I64, counted_keys: I64) -> NDArray[np.bool_]:
    """Traffic of jobs the component counted itself in that interval."""
    if not counted.num_rows:
        return np.zeros(traffic.num_rows, np.bool_)
    jobs = read_cell_names(
        pa.chunked_array(
            [*_chunks(traffic["job_id"].cast(pa.string())), *_chunks(counted["job_id"].cast(pa.string()))], pa.string()
        )
    )
    both = np.concatenate([keys, counted_keys])
    codes, _ = group_cell_rows([both, jobs.codes])
    return np.asarray(np.isin(codes[: len(keys)], codes[len(keys) :]))
