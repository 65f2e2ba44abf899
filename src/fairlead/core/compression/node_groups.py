"""Second pass (Beacon, TOS 2023, section 3): runs that several nodes of a job made alike in one second become one row.

Lossless: what differs is listed by member, and `split_node_groups` gives back every row. Not here: the first pass on a
node (`operation_runs`), the list columns themselves (`member_lists`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.compression import member_lists as lists
from fairlead.core.compression.exact_times import build_empty_exact_times
from fairlead.core.compression.operation_runs import join_operation_batches
from fairlead.core.model.tables import OP_GROUPS, OPS

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
SECOND_NS = 1_000_000_000
ALIKE = ("job_id", "cluster", "interface", "fs", "op", "size", "count")
"""With the second of their start, what members of a group have in common (null is a value of its own)."""
FEWEST_MEMBERS = 4
"""Smaller groups cost as much as their rows."""
_SAMPLED_ROWS = 20_000
_WORTH = 0.97


def merge_node_groups(ops: pa.Table, *, always: bool = False) -> tuple[pa.Table, pa.Table]:
    """(rest, op_groups) of `ops`: each row is in the one or in the other.

    Left in the rest: rows without node or job, with exact times, in groups of fewer than `FEWEST_MEMBERS` rows or of
    one node, and rows of operations whose groups do not make the Parquet smaller: for each word of `op` that is tried
    on a sample, unless `always`.
    """
    batch = join_operation_batches(ops)
    empty = OP_GROUPS.schema.empty_table()
    rows, groups = _groups(batch)
    if not len(rows):
        return ops, empty
    if not always:
        rows, groups = _paying(batch, rows, groups)
        if not len(rows):
            return ops, empty
    made = _table(batch, rows, groups)
    left = np.ones(batch.num_rows, np.bool_)
    left[rows] = False
    return pa.Table.from_batches([batch]).filter(pa.array(left)), made


def split_node_groups(op_groups: pa.Table) -> pa.Table:
    """The rows of `ops` that were merged: exactly they, group after group."""
    for name in ("strides", "cluster"):  # of versions 2 and 3
        if name not in op_groups.schema.names:
            field = OP_GROUPS.schema.field(name)
            op_groups = op_groups.append_column(field, pa.nulls(op_groups.num_rows, field.type))
    table = op_groups.select(OP_GROUPS.schema.names).combine_chunks()
    if not table.num_rows:
        return OPS.schema.empty_table()
    members = table["members"].to_numpy()
    source = np.repeat(np.arange(len(members)), members)
    nth = np.arange(len(source)) - np.repeat(np.cumsum(members) - members, members)
    at = lists.Members(source, nth, members)
    start = table["start_ns"].to_numpy()[source] + lists.expand_member_values(table["starts_ns"], at).to_numpy()
    length = lists.expand_member_values(table["lengths_ns"], at).to_numpy()
    columns: dict[str, pa.Array] = {
        "start_ns": pa.array(start),
        "end_ns": pa.array(start + length),
        "busy_ns": pa.array(length - lists.expand_member_values(table["busies_ns"], at).to_numpy()),
        "node": lists.expand_member_nodes(table["nodes"], table["node_codes"], at),
        "rank": lists.expand_member_values(table["ranks"], at).cast(pa.int32()),
        "file_id": lists.expand_member_values(table["file_ids"], at),
        "handle": lists.expand_member_values(table["handles"], at),
        "offset": lists.expand_member_values(table["offsets"], at),
        "stride": _strides(table, at),
        **build_empty_exact_times(len(source)),
    }
    shared = table.select(ALIKE).take(pa.array(source))
    arrays = []
    for field in OPS.schema:
        column = columns[field.name] if field.name in columns else shared[field.name]
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_dictionary(field.type) and column.type != field.type:
            column = column.cast(pa.string()).dictionary_encode().cast(field.type)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=OPS.schema)


def _strides(table: pa.Table, at: lists.Members) -> pa.Array:
    """Of every member: the group's, or its own where they are listed."""
    shared = table["stride"].take(pa.array(at.group)).combine_chunks()
    own = lists.expand_member_values(table["strides"], at)
    return pc.coalesce(own, shared) if own.null_count < len(own) else shared


# -- which rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Keys:
    """Codes of rows in what groups have in common, and how many there are."""

    codes: I64
    count: int


def _groups(batch: pa.RecordBatch) -> tuple[NDArray[np.intp], I64]:
    """Rows to be merged, group after group and in each by rank, node and start; and the group of each, from 0 up."""
    may = np.asarray(batch.column("node").is_valid()) & np.asarray(batch.column("job_id").is_valid())
    may &= ~np.asarray(batch.column("durations_ns").is_valid()) & ~np.asarray(batch.column("gaps_ns").is_valid())
    rows = np.flatnonzero(may)
    if not len(rows):
        return rows, rows
    start = batch.column("start_ns").to_numpy()[rows]
    keys = _coded([start // SECOND_NS, *(_codes(batch.column(name), rows) for name in ALIKE)])
    members = np.bincount(keys.codes, minlength=keys.count)
    enough = (members >= FEWEST_MEMBERS)[keys.codes]
    enough &= _several_nodes(keys, _codes(batch.column("node"), rows))[keys.codes]
    rows, start = rows[enough], start[enough]
    kept = _coded([keys.codes[enough]])
    order = _order(kept.codes, _ranks(batch.column("rank"), rows), _codes(batch.column("node"), rows), start)
    return rows[order], kept.codes[order]


def _several_nodes(keys: _Keys, node: I64) -> Flags:
    """Groups whose rows are of two nodes or more."""
    low = np.full(keys.count, np.iinfo(np.int64).max)
    high = np.full(keys.count, np.iinfo(np.int64).min)
    np.minimum.at(low, keys.codes, node)
    np.maximum.at(high, keys.codes, node)
    return high > low


def _codes(column: pa.Array, rows: NDArray[np.intp]) -> I64:
    """Small integers for the values of a column at `rows`; equal values have equal ones, null is 0."""
    if isinstance(column, pa.DictionaryArray):
        words = column.dictionary
        if len(words) == 1 and column.null_count == 0:
            return np.ones(len(rows), np.int64)
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(words) != pc.count_distinct(words).as_py():
            same = words.dictionary_encode().indices.to_numpy().astype(np.int64)
            codes = np.append(same, -1)[codes]
        return np.asarray(codes[rows] + 1)
    if column.null_count == len(column):
        return np.zeros(len(rows), np.int64)
    found = column.take(pa.array(rows)).dictionary_encode().indices
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1)


def _ranks(column: pa.Array, rows: NDArray[np.intp]) -> I64:
    """Ranks in their order, from 1 up, null 0: members in this order often have offsets that climb evenly."""
    if column.null_count == len(column) or not len(rows):
        return np.zeros(len(rows), np.int64)
    known = np.asarray(column.is_valid())[rows]
    values = column.fill_null(0).to_numpy(zero_copy_only=False)[rows].astype(np.int64)
    return np.where(known, values - int(values.min()) + 1, 0)


def _coded(keys: Sequence[I64]) -> _Keys:
    """Rows alike in all keys get the same code, counted up by first appearance."""
    codes: I64 = np.zeros(len(keys[0]), np.int64)
    count = 1
    for key in keys:
        low = int(key.min()) if len(key) else 0
        span = (int(key.max()) if len(key) else 0) - low + 1
        if span > 1:
            # Both factors are at most the number of rows once they are dense, so the product fits.
            if span > len(key):
                one = pa.array(key).dictionary_encode()
                key, low, span = one.indices.to_numpy().astype(np.int64), 0, len(one.dictionary)
            both = pa.array(codes * span + (key - low)).dictionary_encode()
            codes, count = both.indices.to_numpy().astype(np.int64), len(both.dictionary)
    return _Keys(codes, count if len(codes) else 0)


def _order(group: I64, rank: I64, node: I64, start: I64) -> NDArray[np.intp]:
    """Sorted by group, rank, node, start; packed into one key where it fits 63 bits."""
    packed = np.zeros(len(group), np.int64)
    room = 1
    for key in (group, rank, node, start % SECOND_NS):
        span = int(key.max()) + 1 if len(key) else 1
        room *= span
        if room >= 1 << 63:
            return np.lexsort((start, node, rank, group))
        packed = packed * span + key
    return np.argsort(packed, kind="stable")


# -- what it saves ----------------------------------------------------------------------------------------------------


def _paying(batch: pa.RecordBatch, rows: NDArray[np.intp], groups: I64) -> tuple[NDArray[np.intp], I64]:
    """Only groups of operations that get smaller by being grouped."""
    op = _codes(batch.column("op"), rows)
    pays = np.zeros(int(op.max()) + 1, np.bool_)
    for word in np.unique(op).tolist():
        mine = np.flatnonzero(op == word)
        if len(mine) > _SAMPLED_ROWS:
            # Whole groups from several places: neighbours are of one second.
            places = np.linspace(0, len(mine) - 1, 8).astype(np.intp)
            wanted = {int(g) for p in places for g in groups[mine[p : p + _SAMPLED_ROWS // 8]]}
            mine = mine[np.isin(groups[mine], list(wanted))][: 2 * _SAMPLED_ROWS]
        pays[word] = _smaller(batch, rows[mine], groups[mine])
    kept = pays[op]
    return rows[kept], _coded([groups[kept]]).codes


def _smaller(batch: pa.RecordBatch, rows: NDArray[np.intp], groups: I64) -> bool:
    grouped = _stored(_table(batch, rows, _coded([groups]).codes))
    # The lake sorts operations by job, node and start.
    start = batch.column("start_ns").to_numpy()[rows]
    by = np.lexsort((start, _codes(batch.column("node"), rows), _codes(batch.column("job_id"), rows)))
    single = pa.Table.from_batches([batch.take(pa.array(rows[by]))])
    return grouped < _WORTH * _stored(single)


def _stored(table: pa.Table) -> int:
    """Bytes as Parquet, packed much as the lake does."""
    from pyarrow import parquet

    out = pa.BufferOutputStream()
    packed = [f.name for f in table.schema if f.name in ("start_ns", "end_ns", "busy_ns", "offset", "stride")]
    words = [f.name for f in table.schema if f.name not in packed and not pa.types.is_nested(f.type)]
    packed += [f"{f.name}.list.element" for f in table.schema if f.type == pa.list_(pa.int64())]
    words += [f"{f.name}.list.element" for f in table.schema if f.type == pa.list_(pa.string())]
    parquet.write_table(
        table,
        out,
        compression="zstd",
        compression_level=3,
        store_schema=False,
        write_statistics=False,
        use_dictionary=words,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    )
    return int(out.getvalue().size)


# -- the rows of op_groups --------------------------------------------------------------------------------------------


def _table(batch: pa.RecordBatch, rows: NDArray[np.intp], groups: I64) -> pa.Table:
    """Groups that lie together in `rows`, numbered 0, 1, ..., as rows of OP_GROUPS."""
    heads = np.flatnonzero(np.diff(groups, prepend=-1))
    cut = lists.Cut(heads, np.diff(heads, append=len(rows)))
    taken = batch.select(["node", "rank", "file_id", "handle", "offset", "stride"]).take(pa.array(rows))
    start, end, busy = (batch.column(name).to_numpy()[rows] for name in ("start_ns", "end_ns", "busy_ns"))
    first = np.minimum.reduceat(start, heads)
    shared = batch.select(list(ALIKE)).take(pa.array(rows[heads]))
    nodes, codes = lists.list_member_nodes(taken.column("node"), groups, cut)
    strides = lists.shorten_member_lists(taken.column("stride"), cut)
    of_all = pc.equal(pc.list_value_length(strides).fill_null(0), 1)
    stride = pc.if_else(of_all, taken.column("stride").take(pa.array(heads)), pa.scalar(None, pa.int64()))
    columns: dict[str, pa.Array] = {
        "start_ns": pa.array(first),
        "end_ns": pa.array(np.maximum.reduceat(end, heads)),
        "members": pa.array(cut.lengths),
        "nodes": nodes,
        "node_codes": codes,
        "ranks": lists.shorten_member_lists(taken.column("rank").cast(pa.int64()), cut),
        "file_ids": lists.shorten_member_lists(taken.column("file_id"), cut),
        "handles": lists.shorten_member_lists(taken.column("handle"), cut),
        "offsets": lists.shorten_member_lists(taken.column("offset"), cut),
        "starts_ns": lists.shorten_member_lists(pa.array(start - np.repeat(first, cut.lengths)), cut),
        "lengths_ns": lists.shorten_member_lists(pa.array(end - start), cut),
        "busies_ns": lists.shorten_member_lists(pa.array(end - start - busy), cut),
        "stride": stride,
        "strides": pc.if_else(of_all, pa.scalar(None, pa.list_(pa.int64())), strides),
    }
    arrays = [columns[f.name] if f.name in columns else shared.column(f.name) for f in OP_GROUPS.schema]
    return pa.Table.from_arrays(arrays, schema=OP_GROUPS.schema)
