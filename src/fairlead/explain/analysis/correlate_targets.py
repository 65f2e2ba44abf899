"""Files to targets: which bytes of a job's operations lie on which target, by the layouts of its files.

Exact in bytes for striped files (RAID 0, also in parts); an estimate of traffic all the same, as clients cache. Pure.
Not here: counters of targets by job (`job_stats`), which are preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.identity import file_id
from fairlead.core.model.tables import LAYOUTS, batch_of
from fairlead.core.model.units import NS_PER_S
from fairlead.see.probes.layouts import Striped
from fairlead.store import rollup_cells as rc

I64 = NDArray[np.int64]
END = np.iinfo(np.int64).max
BY_TARGET = pa.schema(
    [
        pa.field("ts_ns", pa.int64()),
        pa.field("job_id", pa.string()),
        pa.field("target", pa.int64()),
        pa.field("read_bytes", pa.int64()),
        pa.field("write_bytes", pa.int64()),
    ]
)
"""Bytes by second, job and target. `target` null: the file's layout, or the place in it, is not known."""


def layout_rows(files: Iterable[Striped], fs: str) -> pa.RecordBatch:
    """Rows of LAYOUTS of what `lfs getstripe` told of files on the file system mounted at `fs`."""
    rows: dict[str, list[object]] = {name: [] for name in LAYOUTS.schema.names if name != "job_id"}
    for one in files:
        for number, part in enumerate(one.components):
            for name, value in (
                ("file_id", file_id(fs, one.path)),
                ("component", number),
                ("stripe_size", part.stripe_size),
                ("stripe_count", part.stripe_count),
                ("pool", part.pool),
                ("extent_start", part.extent_start),
                ("extent_end", part.extent_end),
                ("targets", list(part.targets) or None),
            ):
                rows[name].append(value)
    return batch_of(LAYOUTS, dict(rows), 0)


def bytes_by_target(ops: pa.Table, layouts: pa.Table) -> pa.Table:
    """Reads and writes of `ops` by second of their start, job and target (schema BY_TARGET). The bytes of all rows
    together are those of the operations."""
    op = rc.names(ops["op"])
    word = np.array([{"read": 0, "write": 1}.get(w, -1) for w in op.words.to_pylist()], np.int64)[op.codes]
    moving = (word >= 0) & np.asarray(ops["size"].is_valid()) & (pc.fill_null(ops["size"], 0).to_numpy() > 0)
    ops, kind = ops.filter(pa.array(moving)), word[moving]
    row, begin, length, placed = _ranges(ops)
    file = pc.fill_null(ops["file_id"], 0).to_numpy()
    placed &= np.asarray(ops["file_id"].is_valid())[row]
    table = _by_file(layouts)
    piece, part = _joined(file[row], table["file_id"].to_numpy())
    kept = placed[piece]
    piece, part = piece[kept], part[kept]
    source, target, moved = _striped(begin, length, piece, part, table)
    # What no component of a known layout holds, and what has no place at all.
    lost = length - np.bincount(source, moved, len(length)).astype(np.int64)
    open_ = np.flatnonzero(lost > 0)
    source, moved = np.concatenate([source, open_]), np.concatenate([moved, lost[open_]])
    target = np.concatenate([target, np.full(len(open_), -1, np.int64)])
    return _summed(ops, kind, row[source], target, moved)


def _ranges(ops: pa.Table) -> tuple[I64, I64, I64, NDArray[np.bool_]]:
    """Byte ranges of operations: (row, first byte, length, whether the place is known). A run without holes is one."""
    size, count = ops["size"].to_numpy(), ops["count"].to_numpy()
    stride = pc.fill_null(ops["stride"], 0).to_numpy()
    known = np.asarray(ops["offset"].is_valid()) & ((count == 1) | np.asarray(ops["stride"].is_valid()))
    offset = np.where(known, pc.fill_null(ops["offset"], 0).to_numpy(), 0)
    whole = (count == 1) | (stride == size) | (stride == -size) | ~known
    pieces = np.where(whole, 1, count)
    row = np.repeat(np.arange(len(size)), pieces)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    back = np.where(whole & (stride < 0) & (count > 1), (count - 1) * size, 0)
    begin = offset[row] + nth * stride[row] - back[row]
    return row, begin, np.where(whole, size * count, size)[row], known[row] & (begin >= 0)


def _by_file(layouts: pa.Table) -> pa.Table:
    """Components with targets by file; of several tellings of one the last."""
    rows = layouts.filter(
        pc.and_(pc.is_valid(layouts["targets"]), pc.greater(pc.list_value_length(layouts["targets"]), 0))
    )
    rows = rows.filter(pc.fill_null(pc.greater(rows["stripe_size"], 0), False))
    if not rows.num_rows:
        return rows.combine_chunks()
    file, component = rows["file_id"].to_numpy(), rows["component"].to_numpy()
    order = np.lexsort((np.arange(len(file)), component, file))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(file[order]) != 0) | (np.diff(component[order]) != 0)
    return rows.take(pa.array(order[last])).combine_chunks()


def _joined(asked: I64, known: I64) -> tuple[I64, I64]:
    """Pairs of places with equal values; `known` is sorted."""
    low, high = np.searchsorted(known, asked, side="left"), np.searchsorted(known, asked, side="right")
    many = high - low
    left = np.repeat(np.arange(len(asked)), many)
    return left, np.arange(len(left)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(low, many)


def _striped(begin: I64, length: I64, piece: I64, part: I64, table: pa.Table) -> tuple[I64, I64, I64]:
    """(range, target, bytes) of ranges `piece` in components `part`."""
    if not len(piece):
        none = np.zeros(0, np.int64)
        return none, none, none
    size = table["stripe_size"].to_numpy()
    start = pc.fill_null(table["extent_start"], 0).to_numpy()
    end = pc.fill_null(table["extent_end"], END).to_numpy()
    end = np.where(end <= 0, END, end)
    lists = pa.concat_arrays([c.cast(pa.list_(pa.int64())) for c in table["targets"].chunks])
    width = lists.value_lengths().to_numpy().astype(np.int64)
    at = np.cumsum(width) - width
    targets = lists.flatten().to_numpy(zero_copy_only=False)
    low = np.maximum(begin[piece], start[part])
    high = np.minimum(begin[piece] + length[piece], end[part])
    some = high > low
    piece, part, low, high = piece[some], part[some], low[some], high[some]
    slots = width[part]
    pair = np.repeat(np.arange(len(piece)), slots)
    slot = np.arange(len(pair)) - np.repeat(np.cumsum(slots) - slots, slots)
    moved = _held(high[pair], slot, size[part][pair], slots[pair]) - _held(
        low[pair], slot, size[part][pair], slots[pair]
    )
    kept = moved > 0
    pair, slot, moved = pair[kept], slot[kept], moved[kept]
    return piece[pair], targets[at[part[pair]] + slot].astype(np.int64), moved


def _held(upto: I64, slot: I64, size: I64, slots: I64) -> I64:
    """Bytes of [0, upto) that lie on a slot of stripes of `size` dealt to `slots`."""
    turn = size * slots
    return np.asarray(upto // turn * size + np.clip(upto % turn - slot * size, 0, size))


def _summed(ops: pa.Table, kind: I64, row: I64, target: I64, moved: I64) -> pa.Table:
    if not len(row):
        return BY_TARGET.empty_table()
    second = ops["start_ns"].to_numpy()[row] // NS_PER_S
    job = rc.names(ops["job_id"])
    groups, one = rc.grouped([second, job.codes[row], target])
    sums = np.zeros((2, len(one)), np.int64)
    np.add.at(sums, (kind[row], groups), moved)
    codes = job.codes[row[one]]
    whose = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes < 0), job.words)
    where = pa.array(target[one], mask=target[one] < 0)
    columns = [pa.array(second[one] * NS_PER_S), whose.cast(pa.string()), where, pa.array(sums[0]), pa.array(sums[1])]
    return pa.table(columns, schema=BY_TARGET).sort_by([("ts_ns", "ascending"), ("target", "ascending")])


def placed_by_name(files: pa.Table, placed: pa.Table) -> dict[int, list[str]]:
    """Targets of files (`file_id`, `path`) as fairlead's forwarders placed them (`a`: `TREE:/path in the tree` or the
    path itself; `targets`). A file's path is where it was mounted, so a name fits that ends it; the longest wins. Left
    out: a file that fits equally long in several trees, and one whose name no forwarder saw."""
    by_path: dict[str, list[tuple[str, list[str]]]] = {}
    for a, targets in zip(placed["a"].to_pylist(), placed["targets"].to_pylist(), strict=True):
        tree, mark, inside = a.partition(":/")
        by_path.setdefault(f"/{inside}" if mark else a, []).append((tree if mark else "", targets))
    found: dict[int, list[str]] = {}
    for number, path in zip(files["file_id"].to_pylist(), files["path"].to_pylist(), strict=True):
        fitting = next((by_path[end] for end in endings(path) if end in by_path), [])
        if len(fitting) == 1:
            found[number] = sorted(set(fitting[0][1]))
    return found


def endings(path: str | None) -> Iterator[str]:
    """A path, and what is left of it from each `/` on, longest first."""
    at = 0 if path else -1
    while path and at >= 0:
        yield path[at:]
        at = path.find("/", at + 1)
