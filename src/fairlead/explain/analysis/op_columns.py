"""One chunk of operations as dense NumPy columns, and the per-chunk reductions that need all its rows at once.

Every function is vectorised over the rows of a chunk; nothing here keeps state between chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import SIZE_BIN_EDGES

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

READ, WRITE, OTHER = 0, 1, 2
MOST_BYTES = 1 << 53
_EDGES = np.array(SIZE_BIN_EDGES, np.int64)


@dataclass(frozen=True)
class OpColumns:
    """Rows of `ops` of one interface (n rows), nulls replaced: offset and size -1, rank 0.

    `kind` is READ, WRITE or OTHER; `word` indexes `words`; `nbytes` = size * count for data operations, else 0.
    """

    start: IntArray
    end: IntArray
    busy: IntArray
    rank: IntArray
    file: IntArray
    offset: IntArray
    size: IntArray
    stride: IntArray
    count: IntArray
    kind: IntArray
    word: IntArray
    words: list[str]

    @property
    def nbytes(self) -> IntArray:
        """Bytes moved per row."""
        moved = np.where(self.kind == OTHER, 0, np.maximum(self.size, 0) * self.count)
        return np.asarray(moved, dtype=np.int64)

    def select_rows(self, rows: IntArray | BoolArray) -> OpColumns:
        """These rows, in this order."""
        names = ("start", "end", "busy", "rank", "file", "offset", "size", "stride", "count", "kind", "word")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def _filled(batch: pa.RecordBatch, name: str, null: int) -> IntArray:
    column = batch.column(name)
    if column.null_count == len(column):
        return np.full(len(column), null, np.int64)
    full = column.fill_null(null) if column.null_count else column
    return np.asarray(full.to_numpy(zero_copy_only=False), dtype=np.int64)


def read_op_word_codes(column: pa.Array) -> tuple[IntArray, list[str]]:
    """Codes (n,) and words of a string or dictionary column; null is code -1."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.fill_null(-1) if coded.indices.null_count else coded.indices
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64), coded.dictionary.to_pylist()


def read_op_columns(batch: pa.RecordBatch) -> OpColumns:
    """Columns of a batch of `ops`. An impossible size (above MOST_BYTES, of a damaged trace) is taken as unknown."""
    word, words = read_op_word_codes(batch.column("op"))
    kinds = np.array([{"read": READ, "write": WRITE}.get(w, OTHER) for w in words] or [OTHER], np.int64)
    return OpColumns(
        start=_filled(batch, "start_ns", 0),
        end=_filled(batch, "end_ns", 0),
        busy=_filled(batch, "busy_ns", 0),
        rank=_filled(batch, "rank", 0),
        file=_filled(batch, "file_id", 0),
        offset=_filled(batch, "offset", -1),
        size=_possible(_filled(batch, "size", -1)),
        stride=_filled(batch, "stride", 0),
        count=_filled(batch, "count", 1),
        kind=kinds[word],
        word=word,
        words=words,
    )


def _possible(size: IntArray) -> IntArray:
    return np.where(size > MOST_BYTES, -1, size) if size.max(initial=0) > MOST_BYTES else size


def count_impossible_op_sizes(batch: pa.RecordBatch) -> int:
    """Operations of a batch of `ops` whose size is impossible."""
    sizes = _filled(batch, "size", -1)
    return int(_filled(batch, "count", 1)[sizes > MOST_BYTES].sum()) if sizes.max(initial=0) > MOST_BYTES else 0


def find_op_size_bins(size: IntArray) -> IntArray:
    """Darshan's request-size bin (0..9) of each size; upper edges belong to the lower bin."""
    return np.asarray(np.searchsorted(_EDGES, size, side="left"), dtype=np.int64)


def find_distinct_op_rows(*columns: IntArray) -> tuple[list[IntArray], IntArray]:
    """Distinct rows of several columns of n rows: their values (k,) per column, sorted, and each row's index (n,).

    Rows mostly come in runs (one file, one rank at a time), so only the heads of runs are sorted.
    """
    n = len(columns[0])
    fresh = np.ones(n, bool)
    if n:
        fresh[1:] = False
        for column in columns:
            fresh[1:] |= column[1:] != column[:-1]
    heads = np.flatnonzero(fresh)
    code = np.zeros(len(heads), np.int64)
    for column in columns:
        values, place = np.unique(column[heads], return_inverse=True)
        code = code * max(len(values), 1) + place.reshape(-1)
        if len(heads) and int(code.max()) > 2**40:
            _, code = np.unique(code, return_inverse=True)
            code = code.reshape(-1)
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    lengths = np.diff(np.append(heads, n))
    return [column[heads[first]] for column in columns], np.repeat(inverse.reshape(-1), lengths)


@dataclass(frozen=True)
class Pattern:
    """Operations by how their offset follows the previous one of the same process, file and direction.

    `consecutive`: right behind it; `sequential`: further on (includes consecutive, as Darshan counts); `strided`:
    not consecutive, but at the same distance as the step before; `random`: behind it, or no constant step.
    `placed`: operations that had a predecessor and a known offset. Each (2,): read, write.
    """

    consecutive: IntArray
    sequential: IntArray
    strided: IntArray
    random: IntArray
    placed: IntArray


def count_op_patterns(ops: OpColumns, order: IntArray, new_stream: BoolArray) -> tuple[Pattern, IntArray, IntArray]:
    """Pattern counts, and per ordered row the consecutive and sequential counts.

    `order` sorts data rows by (rank, file, kind, time); `new_stream` (n,) marks the first row of each such stream.
    """
    offset, size, count = ops.offset[order], np.maximum(ops.size[order], 0), ops.count[order]
    stride, kind = ops.stride[order], ops.kind[order]
    last = offset + stride * (count - 1)
    step = np.empty_like(offset)
    step[0] = 0
    step[1:] = offset[1:] - last[:-1]
    prior_size = np.empty_like(size)
    prior_size[0] = 0
    prior_size[1:] = size[:-1]
    known = (offset >= 0) & ~new_stream
    known[1:] &= offset[:-1] >= 0
    # The step before this one: inside a run it is the run's stride, else the step that led to the previous row.
    before = np.empty_like(step)
    before[0] = 0
    before[1:] = np.where(count[:-1] > 1, stride[:-1], step[:-1])
    has_before = np.zeros(len(step), bool)
    has_before[1:] = (count[:-1] > 1) | known[:-1]
    # The first step of a constant stride has no step before it, but the one after tells.
    after = np.empty_like(step)
    after[-1] = 0
    after[:-1] = step[1:]
    has_after = np.zeros(len(step), bool)
    has_after[:-1] = known[1:]
    inside = np.maximum(count - 1, 0)
    placed_inside = np.where(offset >= 0, inside, 0)

    consecutive = known & (step == prior_size)
    sequential = known & (step >= prior_size)
    constant = (has_before & (step == before)) | (has_after & (step == after)) | ((count > 1) & (step == stride))
    strided = known & ~consecutive & constant & (step != 0)
    random = known & ~consecutive & ~strided
    in_consecutive = np.where(stride == size, placed_inside, 0)
    in_sequential = np.where(stride >= size, placed_inside, 0)
    in_strided = np.where((stride != size) & (stride != 0), placed_inside, 0)
    in_random = placed_inside - in_consecutive - in_strided

    row_consecutive = consecutive + in_consecutive
    row_sequential = sequential + in_sequential

    def split(values: IntArray | BoolArray) -> IntArray:
        return np.bincount(kind, weights=values, minlength=2)[:2].astype(np.int64)

    totals = Pattern(
        split(row_consecutive),
        split(row_sequential),
        split(strided + in_strided),
        split(random + in_random),
        split(known + placed_inside),
    )
    return totals, row_consecutive.astype(np.int64), row_sequential.astype(np.int64)


def union_op_intervals(group: IntArray, start: IntArray, end: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Disjoint intervals covering [start, end) per group, touching ones joined; sorted by (group, start)."""
    if not len(start):
        return group, start, end
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    # Running maximum of the ends inside each group: lift each group above all earlier ones first.
    low, high = int(start.min()), int(end.max())
    span = high - low + 2
    codes = np.cumsum(np.r_[0, np.diff(group) != 0])
    if codes[-1] == 0:  # nothing to lift, however far the times lie apart
        low = span = 0
    if span * (int(codes[-1]) + 1) < 2**62:
        lifted_end = np.maximum.accumulate((end - low) + codes * span)
        lifted_start = (start - low) + codes * span
        fresh = np.r_[True, lifted_start[1:] > lifted_end[:-1]]
        first = np.flatnonzero(fresh)
        last = np.r_[first[1:] - 1, len(start) - 1]
        return group[first], start[first], lifted_end[last] - codes[last] * span + low
    parts = [
        union_op_intervals(np.zeros_like(start[codes == c]), start[codes == c], end[codes == c])
        for c in range(int(codes[-1]) + 1)
    ]
    heads = [group[codes == c][0] for c in range(int(codes[-1]) + 1)]
    return (
        np.concatenate([np.full(len(p[1]), h) for p, h in zip(parts, heads, strict=True)]),
        np.concatenate([p[1] for p in parts]),
        np.concatenate([p[2] for p in parts]),
    )


def merge_op_activity(
    lane: IntArray, start: IntArray, end: IntArray, nbytes: IntArray, gap_ns: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Join activity of one lane (rank × kind) whose pauses are at most `gap_ns`; bytes are summed."""
    if not len(start):
        return lane, start, end, nbytes
    group, left, right = union_op_intervals(lane, start, end + gap_ns)
    owner = _owner(group, left, lane, start)
    total = np.bincount(owner, weights=nbytes, minlength=len(group)).astype(np.int64)
    return group, left, right - gap_ns, total


def _owner(group: IntArray, left: IntArray, lane: IntArray, start: IntArray) -> IntArray:
    """Index of the interval (sorted by group, left) that holds each (lane, start)."""
    order = np.lexsort((start, lane))
    both_group = np.concatenate([group, lane[order]])
    both_start = np.concatenate([left, start[order]])
    # Intervals sort before the activity that starts with them.
    tag = np.concatenate([np.zeros(len(group), np.int8), np.ones(len(lane), np.int8)])
    rank = np.lexsort((tag, both_start, both_group))
    filled = np.cumsum(tag[rank] == 0) - 1
    owner = np.empty(len(lane), np.int64)
    where = rank[tag[rank] == 1] - len(group)
    owner[order[where]] = filled[tag[rank] == 1]
    return owner
