"""Run-length compression of client operations: `merge_operation_runs` makes runs, `expand_operation_runs` gives every
operation back.

Lossless in operation, file, size, offsets, count and order; times shrink to first, last and busy unless `exact_times`.
Generalises the first pass of Beacon (Yang et al., NSDI'19, section 3: contiguous requests) to any constant stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.compression import merge_rules as law
from fairlead.core.compression import streams
from fairlead.core.compression.exact_times import (
    LISTS,
    build_empty_exact_times,
    build_exact_times,
    expand_exact_times,
    find_exact_rows,
)
from fairlead.core.errors import UsageError
from fairlead.core.model.tables import OPS

GAP_NS = 10_000_000
BOUNDARY_NS = 1_000_000_000
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Order = NDArray[np.intp]
_T = TypeVar("_T", bound=np.generic)


def merge_operation_runs(
    ops: pa.RecordBatch | pa.Table,
    *,
    exact_times: bool = False,
    by_time: bool = False,
    gap_ns: int = GAP_NS,
    boundary_ns: int = BOUNDARY_NS,
) -> pa.Table:
    """Runs of `ops` (schema OPS; rows that already are runs are kept or extended), one row a run, in the order of
    their first operations.

    Only operations of one stream (`streams.STREAM_KEY`) that follow each other in it are joined: same op and size,
    constant stride, each starting not before the end of the one before and less than `gap_ns` after it, all inside
    one `boundary_ns` of the epoch. The order of a stream is the order of its rows; with `by_time` it is the order of
    their starts, and runs come sorted by start (for recorders that keep reads and writes apart, as DXT does).
    `exact_times` fills `gaps_ns` and `durations_ns`. Raises UsageError when `ops` is no table of operations.
    """
    batch = join_operation_batches(ops)
    plan = plan_operation_runs(batch, exact_times=exact_times, by_time=by_time, gap_ns=gap_ns, boundary_ns=boundary_ns)
    return build_operation_runs(batch, plan, plan.links.join, exact_times=exact_times, by_time=by_time)[0]


def expand_operation_runs(runs: pa.RecordBatch | pa.Table, *, by_time: bool = False) -> pa.Table:
    """One row an operation (count 1, stride null): run after run, each in order; with `by_time` sorted by start.

    Every stream comes in its original order when its runs do: `merge_operation_runs` keeps it, and a stable sort of
    runs by start keeps too unless the stream's clock ran backwards. Times are exact where a run kept them; else its
    operations are laid evenly from its start to its end, each `busy_ns / count` long: approximate by construction. A
    run with an offset but no stride expands to operations whose offsets, after the first, are null: nobody knows them.
    """
    batch = join_operation_batches(runs)
    count = batch.column("count").to_numpy()
    if len(count) and int(count.min()) < 1:
        raise UsageError("a run of fewer than one operation cannot be expanded", where="column count")
    source = np.repeat(np.arange(batch.num_rows), count)
    nth = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    start, end, busy = expand_exact_times(batch, count, source, nth)
    columns = _kept(batch, pa.array(source))
    columns |= {"start_ns": pa.array(start), "end_ns": pa.array(end), "busy_ns": pa.array(busy)}
    distance = pc.if_else(pa.array(nth == 0), pa.scalar(0, pa.int64()), columns["stride"])
    columns["offset"] = pa.array(_wrapping_add(columns["offset"], distance, nth), pa.int64())
    columns["stride"] = pa.nulls(len(source), pa.int64())
    columns["count"] = pa.array(np.ones(len(source), np.int64))
    columns |= build_empty_exact_times(len(source))
    out = pa.Table.from_arrays(list(columns.values()), schema=OPS.schema)
    return out.take(pa.array(np.argsort(start, kind="stable"))) if by_time else out


def _kept(batch: pa.RecordBatch, rows: pa.Array) -> dict[str, pa.Array]:
    """Every column at `rows`; the lists stay behind (as nothing) and are set by the caller."""
    return {
        name: pa.nulls(0, batch.column(name).type) if name in LISTS else batch.column(name).take(rows)
        for name in OPS.schema.names
    }


def _wrapping_add(offset: pa.Array, stride: pa.Array, nth: I64) -> pa.Array:
    """offset + nth * stride modulo 2**64 (as `law` measures strides), null where either is."""
    known = pc.and_(offset.is_valid(), stride.is_valid())
    values = offset.fill_null(0).to_numpy() + nth * stride.fill_null(0).to_numpy()
    return pc.if_else(known, pa.array(values), pa.scalar(None, pa.int64()))


def join_operation_batches(ops: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """`ops` as one contiguous batch of the OPS schema; columns that older tables lack are null."""
    table = pa.Table.from_batches([ops]) if isinstance(ops, pa.RecordBatch) else ops
    lacking = [f.name for f in OPS.schema if not f.nullable and f.name not in table.schema.names]
    if lacking:
        what = f"not a table of operations: it lacks {', '.join(lacking)}"
        raise UsageError(what, remedy="pass rows of the table `ops`")
    arrays = []
    for wanted in OPS.schema:
        if wanted.name not in table.schema.names:
            arrays.append(pa.nulls(table.num_rows, wanted.type))
            continue
        column = table.column(wanted.name)
        column = column if column.type == wanted.type else column.cast(wanted.type)
        if column.num_chunks > 1 and pa.types.is_dictionary(wanted.type):
            column = column.unify_dictionaries()
        arrays.append(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
    arrays = [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays]
    return pa.RecordBatch.from_arrays(arrays, schema=OPS.schema)


@dataclass(frozen=True)
class Plan:
    """Which rows become one. `order` lists the rows stream after stream (None: they already lie so), `starts` marks
    the first row of each stream in that order, `links` says what joins the row before it."""

    order: Order | None
    starts: Flags
    links: law.Links


def plan_operation_runs(
    batch: pa.RecordBatch, *, exact_times: bool, by_time: bool, gap_ns: int, boundary_ns: int
) -> Plan:
    """Decide, without building anything."""
    order, starts = streams.group_streams(batch)
    if by_time:
        order = _timely(batch, order, starts)
    rows = _rows(batch, order, starts, exact_times)
    return Plan(order, starts, law.find_merge_links(rows, gap_ns, boundary_ns))


def _timely(batch: pa.RecordBatch, order: Order | None, starts: Flags) -> Order | None:
    """`order` with every stream sorted by start; the same object when all are."""
    start = batch.column("start_ns").to_numpy()
    start = start if order is None else start.take(order)
    back = start[1:] < start[:-1]
    if not (back & ~starts[1:]).any():
        return order
    by_start = np.lexsort((start, np.cumsum(starts)))
    return by_start if order is None else order[by_start]


def _rows(batch: pa.RecordBatch, order: Order | None, starts: Flags, exact_times: bool) -> law.Rows:
    """The columns the law looks at, in `order`."""

    def placed(values: NDArray[_T]) -> NDArray[_T]:
        return values if order is None else values.take(order)

    same = ~starts
    for name in ("op", "size", "offset"):
        coded = streams.find_stream_codes(batch.column(name))
        values, nulls = coded if coded is not None else (None, None)
        if name != "offset" and values is not None:
            _also_equal(same, placed(values))
        if nulls is not None:
            _also_equal(same, placed(nulls))
    offset = batch.column("offset").fill_null(0).to_numpy()
    count: I64 | None = batch.column("count").to_numpy()
    stride = None
    whole = find_exact_rows(batch) if exact_times else None
    if count is not None and (count == 1).all():
        count = None
    elif count is not None:
        strides = batch.column("stride")
        stride = np.where(count > 1, strides.fill_null(0).to_numpy(), 0)
        known = strides.is_valid().to_numpy(zero_copy_only=False)
        unknown = batch.column("offset").is_valid().to_numpy(zero_copy_only=False) & ~known
        sound = (count == 1) | ((count > 1) & ~unknown)
        whole = sound if whole is None else whole & sound
    return law.Rows(
        start=placed(batch.column("start_ns").to_numpy()),
        end=placed(batch.column("end_ns").to_numpy()),
        offset=placed(offset),
        same=same,
        whole=None if whole is None else placed(whole),
        count=None if count is None else placed(count),
        stride=None if stride is None else placed(stride),
    )


def _also_equal(same: Flags, values: NDArray[np.generic]) -> None:
    same[1:] &= values[1:] == values[:-1]


def build_operation_runs(
    batch: pa.RecordBatch, plan: Plan, join: Flags, *, exact_times: bool, by_time: bool = False
) -> tuple[pa.Table, Order]:
    """The runs of a plan, where `join` marks rows that belong to the run before them, in the order of their first rows
    in `batch` or of their starts; and for each run the place of its first row in the plan's order."""
    n = len(join)
    if n == 0:
        return OPS.schema.empty_table(), np.zeros(0, np.intp)
    order, step = plan.order, plan.links.step
    heads = np.flatnonzero(~join)
    lasts = np.append(heads[1:], n) - 1
    first_rows = heads if order is None else order[heads]
    last_rows = lasts if order is None else order[lasts]
    ranked = _ranks(batch.column("start_ns").to_numpy().take(first_rows) if by_time else first_rows)

    def placed(values: NDArray[np.int64], masked: Flags | None = None) -> pa.Array:
        if ranked is not None:
            values, masked = values[ranked], None if masked is None else masked[ranked]
        return pa.array(values, mask=masked)

    def summed(name: str) -> I64:
        values = batch.column(name).to_numpy()
        return np.add.reduceat(values if order is None else values.take(order), heads)

    grown = lasts > heads
    own = batch.column("stride").take(pa.array(first_rows))
    count = summed("count")
    stride = np.where(grown, step[np.minimum(heads + 1, n - 1)], own.fill_null(0).to_numpy())
    known = batch.column("offset").take(pa.array(first_rows)).is_valid().to_numpy(zero_copy_only=False)
    unknown = ~grown & own.is_null().to_numpy(zero_copy_only=False)
    columns = _kept(batch, pa.array(first_rows if ranked is None else first_rows[ranked]))
    columns["end_ns"] = placed(batch.column("end_ns").to_numpy()[last_rows])
    columns["busy_ns"] = placed(summed("busy_ns"))
    columns["count"] = placed(count)
    columns["stride"] = placed(stride, (count <= 1) | ~known | unknown)
    columns |= build_exact_times(batch, order, heads, ranked) if exact_times else build_empty_exact_times(len(heads))
    runs = pa.Table.from_arrays(list(columns.values()), schema=OPS.schema)
    return runs, heads if ranked is None else heads[ranked]


def _ranks(values: NDArray[np.int64] | Order) -> Order | None:
    """The stable order that sorts `values`; None when they are sorted."""
    return None if bool((values[1:] >= values[:-1]).all()) else np.argsort(values, kind="stable")
