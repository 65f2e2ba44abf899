"""Totals of the operations of each interface, reduced while they stream: no operation is kept.

Memory is O(files x ranks + time bins + merged activity), whatever the length of the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fairlead.core.model.missing import Missing
from fairlead.core.model.operation_words import NOT_METADATA
from fairlead.explain.analysis.byte_series import AdaptiveSeries, ByteSeries
from fairlead.explain.analysis.file_counter_sums import WORD_COLUMNS, FileCounters
from fairlead.explain.analysis.op_columns import (
    OTHER,
    READ,
    WRITE,
    FloatArray,
    IntArray,
    OpColumns,
    Pattern,
    count_impossible_op_sizes,
    count_op_patterns,
    find_distinct_op_rows,
    find_op_size_bins,
    merge_op_activity,
    read_op_columns,
    read_op_word_codes,
    union_op_intervals,
)

MAX_INTERVALS = 4_000_000
MAX_SEGMENTS = 30_000
_CHUNK_ROWS = 1 << 20
_MAX_CELLS, _RANK_BINS = 1 << 19, 1024

MOUNT = "fuse"
"""Interface of what a mount recorded: the POSIX calls as they left the kernel. They stand for those calls where nothing
recorded the calls themselves, else they are a layer below them."""


@dataclass(frozen=True)
class Activity:
    """Merged activity for drawing: per row a rank, a kind (0 read, 1 write, 2 other), a span and its bytes."""

    rank: IntArray
    kind: IntArray
    start_ns: IntArray
    end_ns: IntArray
    nbytes: IntArray
    gap_ns: int


@dataclass(frozen=True)
class Repeats:
    """Bytes moved more than once, per direction (read, write): by anyone, and by the same rank alone."""

    any_rank: IntArray
    same_rank: IntArray


@dataclass(frozen=True)
class OperationTotals:
    """Reduced operations of one interface. Arrays over ranks are indexed by rank (0..ranks-1).

    `series` is bytes per (direction, rank, bin) from `origin_ns` in bins of `bin_ns`; `total` the same of all ranks
    together, shape (2, bins), in finer bins of its own; `time_by_size_s` and
    `bytes_by_size`, `ops_by_size` are (2, 10): direction × Darshan size bin; `rank_time_s` (2, ranks) sums durations,
    `rank_busy_s` (ranks,) is the time in which a rank had any operation under way (threads overlap);
    `aligned_time_s`/`misaligned_time_s` are None where the file system's block is unknown.
    """

    interface: str
    rows: int
    operations: int
    start_ns: int
    end_ns: int
    counters: pa.Table
    origin_ns: int
    bin_ns: int
    series: FloatArray
    total: ByteSeries
    time_by_size_s: FloatArray
    bytes_by_size: IntArray
    ops_by_size: IntArray
    rank_bytes: IntArray
    rank_time_s: FloatArray
    rank_busy_s: FloatArray
    rank_node: list[str | None]
    pattern: Pattern
    repeats: Repeats | None
    modify_reads: int
    modify_read_bytes: int
    modify_read_time_s: float
    metadata_ops: dict[str, int]
    activity: Activity


class _InterfaceReducer:
    """State for one interface. `push` takes chunks in time order per rank (small disorder is harmless)."""

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self.per_file = FileCounters()
        self.series = AdaptiveSeries(max_bins=_RANK_BINS, max_cells=_MAX_CELLS)
        self.total = AdaptiveSeries()
        self.time_by_size = np.zeros((2, 10))
        self.bytes_by_size = np.zeros((2, 10), np.int64)
        self.ops_by_size = np.zeros((2, 10), np.int64)
        self.pattern = np.zeros((5, 2), np.int64)
        self.modify = np.zeros(3)
        self.words: dict[str, int] = {}
        self.nodes: dict[int, str] = {}
        self.rows = self.operations = 0
        self.start_ns, self.end_ns = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        self.rank_bytes = np.zeros((2, 0), np.int64)
        self.rank_time = np.zeros((2, 0))
        self.rank_busy = np.zeros(0)
        self.rank_last = np.zeros(0, np.int64)
        self.covered: list[tuple[IntArray, IntArray, IntArray, IntArray]] | None = []
        self.segments: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
        self.gap_ns = 0

    # -- chunks ---------------------------------------------------------------------------------------------------

    def push(self, ops: OpColumns, nodes: dict[int, str]) -> None:
        """Reduce one chunk."""
        self.nodes.update(nodes)
        self.rows += len(ops.start)
        self.operations += int(ops.count.sum())
        self.start_ns = min(self.start_ns, int(ops.start.min()))
        self.end_ns = max(self.end_ns, int(ops.end.max()))
        self._ranks(ops)
        self._files(ops)
        self._activity(ops)
        counts = np.bincount(ops.word, weights=ops.count, minlength=len(ops.words)).astype(np.int64)
        for word, count in zip(ops.words, counts.tolist(), strict=False):
            self.words[word] = self.words.get(word, 0) + count
        data = np.flatnonzero((ops.kind != OTHER) & (ops.size >= 0))
        if len(data):
            moved = ops if len(data) == len(ops.start) else ops.select_rows(data)
            self.series.push(moved.kind, moved.rank, moved.start, moved.end, moved.nbytes)
            self.total.push(moved.kind, 0, moved.start, moved.end, moved.nbytes)
            self._data(moved)

    def _ranks(self, ops: OpColumns) -> None:
        ranks = int(ops.rank.max()) + 1
        short = ranks - len(self.rank_busy)
        if short > 0:
            self.rank_bytes = np.pad(self.rank_bytes, ((0, 0), (0, short)))
            self.rank_time = np.pad(self.rank_time, ((0, 0), (0, short)))
            self.rank_busy = np.pad(self.rank_busy, (0, short))
            self.rank_last = np.pad(self.rank_last, (0, short), constant_values=np.iinfo(np.int64).min)
        ranks = len(self.rank_busy)
        for kind in (READ, WRITE):
            mine = ops.kind == kind
            self.rank_bytes[kind] += np.bincount(ops.rank[mine], ops.nbytes[mine], ranks).astype(np.int64)
            self.rank_time[kind] += np.bincount(ops.rank[mine], ops.busy[mine] / 1e9, ranks)
        lane, start, end = union_op_intervals(ops.rank, ops.start, np.maximum(ops.end, ops.start))
        start = np.maximum(start, np.minimum(self.rank_last[lane], end))
        self.rank_busy += np.bincount(lane, (end - start) / 1e9, ranks)
        np.maximum.at(self.rank_last, lane, end)

    def _files(self, ops: OpColumns) -> None:
        per = self.per_file
        pairs, inverse = find_distinct_op_rows(ops.rank, ops.file)
        rows = per.find_rows(*pairs)[inverse]
        size = per.grow()
        for code, word in enumerate(ops.words):
            column = WORD_COLUMNS.get(word)
            mine = ops.word == code
            if mine.any():
                per.add(column or f"extra:{word}s", rows[mine], ops.count[mine])
        seconds = ops.busy / 1e9
        for kind, name in ((READ, "read"), (WRITE, "write")):
            mine = ops.kind == kind
            if not mine.any():
                continue
            r = rows[mine]
            per.add("bytes_read" if kind == READ else "bytes_written", r, ops.nbytes[mine])
            per.add(f"{name}_time_s", r, seconds[mine])
            per.add_first(f"{name}_start_ns", r, ops.start[mine])
            per.add_last(f"{name}_end_ns", r, ops.end[mine])
            reach = np.where(ops.offset >= 0, ops.offset + ops.stride * (ops.count - 1) + ops.size - 1, -1)[mine]
            per.add_last("max_byte_read" if kind == READ else "max_byte_written", r, reach)
            bins = find_op_size_bins(ops.size[mine])
            flat = (r * 2 + kind) * 10 + bins
            np.add.at(per.sizes.reshape(-1), flat, ops.count[mine])
        other = ops.kind == OTHER
        if other.any():
            per.add("meta_time_s", rows[other], seconds[other])
        opened = np.isin(ops.word, [i for i, w in enumerate(ops.words) if w in ("open", "create")])
        if opened.any():
            per.add_first("open_start_ns", rows[opened], ops.start[opened])
            per.add_last("open_end_ns", rows[opened], ops.end[opened])
        assert size == len(per.index)  # noqa: S101  (rows were grown above)

    def _data(self, ops: OpColumns) -> None:
        bins = find_op_size_bins(ops.size)
        flat = ops.kind * 10 + bins
        self.time_by_size += np.bincount(flat, ops.busy / 1e9, 20).reshape(2, 10)
        self.bytes_by_size += np.bincount(flat, ops.nbytes, 20).reshape(2, 10).astype(np.int64)
        self.ops_by_size += np.bincount(flat, ops.count, 20).reshape(2, 10).astype(np.int64)
        _, stream = find_distinct_op_rows(ops.rank, ops.file)
        directed = stream * 2 + ops.kind
        order = np.lexsort((ops.start, directed))
        fresh = np.r_[True, np.diff(directed[order]) != 0]
        totals, consecutive, sequential = count_op_patterns(ops, order, fresh)
        self.pattern += np.stack([totals.consecutive, totals.sequential, totals.strided, totals.random, totals.placed])
        self._sequences(ops.select_rows(order), consecutive, sequential)
        self._modify(ops, stream)
        self._cover(ops)

    def _sequences(self, ops: OpColumns, consecutive: IntArray, sequential: IntArray) -> None:
        pairs, inverse = find_distinct_op_rows(ops.rank, ops.file)
        rows = self.per_file.find_rows(*pairs)[inverse]
        for kind, name in ((READ, "reads"), (WRITE, "writes")):
            mine = ops.kind == kind
            self.per_file.add(f"consec_{name}", rows[mine], consecutive[mine])
            self.per_file.add(f"seq_{name}", rows[mine], sequential[mine])

    def _modify(self, ops: OpColumns, stream: IntArray) -> None:
        """Read-modify-write: a write inside the range that the operation just before it in that file read."""
        order = np.lexsort((ops.start, stream))
        kind, stream = ops.kind[order], stream[order]
        low = ops.offset[order]
        high = low + ops.stride[order] * (ops.count[order] - 1) + ops.size[order]
        hit = np.zeros(len(order), bool)
        hit[:-1] = (
            (stream[1:] == stream[:-1])
            & (kind[:-1] == READ)
            & (kind[1:] == WRITE)
            & (low[:-1] >= 0)
            & (low[1:] >= low[:-1])
            & (high[1:] <= high[:-1])
        )
        reads = order[hit]
        self.modify += [ops.count[reads].sum(), ops.nbytes[reads].sum(), ops.busy[reads].sum() / 1e9]

    def _cover(self, ops: OpColumns) -> None:
        """Which bytes were touched, per (direction, file) and per (direction, rank, file)."""
        if self.covered is None:
            return
        placed = np.flatnonzero(ops.offset >= 0)
        ops = ops.select_rows(placed)
        whole = (ops.count == 1) | (ops.stride == ops.size)
        pieces = np.where(whole, 1, ops.count)
        if int(pieces.sum()) > MAX_INTERVALS:
            self.covered = None
            return
        row = np.repeat(np.arange(len(pieces)), pieces)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        low = ops.offset[row] + nth * ops.stride[row]
        length = np.where(whole[row], ops.size[row] * ops.count[row], ops.size[row])
        pairs, code = find_distinct_op_rows(ops.kind[row], ops.rank[row], ops.file[row])
        group, start, end = union_op_intervals(code, low, low + length)
        self.covered.append((pairs[0][group] * (1 << 32) + pairs[1][group], pairs[2][group], start, end))
        if sum(len(c[0]) for c in self.covered) > MAX_INTERVALS:
            self.covered = None

    def _activity(self, ops: OpColumns) -> None:
        lane = ops.rank * 3 + ops.kind
        span = max(int(ops.end.max() - ops.start.min()), 1)
        self.gap_ns = max(self.gap_ns, span // 5000)
        end = np.maximum(ops.end, ops.start)
        self.segments.append(merge_op_activity(lane, ops.start, end, ops.nbytes, self.gap_ns))
        while sum(len(s[0]) for s in self.segments) > MAX_SEGMENTS:
            joined = [np.concatenate(c) for c in zip(*self.segments, strict=True)]
            self.segments = [merge_op_activity(joined[0], joined[1], joined[2], joined[3], self.gap_ns)]
            if len(self.segments[0][0]) <= MAX_SEGMENTS:
                break
            self.gap_ns = max(self.gap_ns * 2, 1000)

    # -- the end --------------------------------------------------------------------------------------------------

    def finish(self, final: IntArray, ranks: int) -> OperationTotals:
        """Totals of everything pushed. `final` maps the number used inside to the rank; `ranks` is their range."""
        joined = [np.concatenate(c) for c in zip(*self.segments, strict=True)]
        lane, start, end, nbytes = merge_op_activity(joined[0], joined[1], joined[2], joined[3], self.gap_ns)
        origin, bin_ns, series = self.series.build_series()
        total = self.total.build_series()
        consecutive, sequential, strided, random, placed = self.pattern

        def by_rank(values: np.ndarray, axis: int = 0) -> np.ndarray:
            shape = list(values.shape)
            shape[axis] = ranks
            out = np.zeros(shape, values.dtype)
            place = final[: values.shape[axis]]
            if axis:
                out[:, place] = values
            else:
                out[place] = values
            return out

        nodes: list[str | None] = [None] * ranks
        for number, node in self.nodes.items():
            nodes[int(final[number])] = node
        return OperationTotals(
            interface=self.interface,
            rows=self.rows,
            operations=self.operations,
            start_ns=int(self.start_ns),
            end_ns=int(self.end_ns),
            counters=self.per_file.build_table(self.interface, final),
            origin_ns=origin,
            bin_ns=bin_ns,
            series=by_rank(series, axis=1),
            total=ByteSeries(total.origin_ns, total.bin_ns, total.series[:, 0]) if total.series.size else total,
            time_by_size_s=self.time_by_size,
            bytes_by_size=self.bytes_by_size,
            ops_by_size=self.ops_by_size,
            rank_bytes=by_rank(self.rank_bytes, axis=1),
            rank_time_s=by_rank(self.rank_time, axis=1),
            rank_busy_s=by_rank(self.rank_busy),
            rank_node=nodes,
            pattern=Pattern(consecutive, sequential, strided, random, placed),
            repeats=self._repeats(),
            modify_reads=int(self.modify[0]),
            modify_read_bytes=int(self.modify[1]),
            modify_read_time_s=float(self.modify[2]),
            metadata_ops={w: c for w, c in self.words.items() if c and w not in NOT_METADATA},
            activity=Activity(final[lane // 3], lane % 3, start, end, nbytes, self.gap_ns),
        )

    def _repeats(self) -> Repeats | None:
        if self.covered is None:
            return None
        if not self.covered:
            return Repeats(np.zeros(2, np.int64), np.zeros(2, np.int64))
        who, file, start, end = (np.concatenate(c) for c in zip(*self.covered, strict=True))
        kind = who >> 32
        moved = self.rank_bytes.sum(axis=1)

        def unique_bytes(*keys: IntArray) -> IntArray:
            pairs, code = find_distinct_op_rows(*keys)
            group, low, high = union_op_intervals(code, start, end)
            return np.bincount(pairs[0][group], high - low, 2)[:2].astype(np.int64)

        everyone = unique_bytes(kind, file)
        alone = unique_bytes(kind, who, file)
        return Repeats(np.maximum(moved - everyone, 0), np.maximum(moved - alone, 0))


class OperationReducer:
    """Takes batches of `ops` of any interface as they come; `finish` gives the totals per interface.

    Inside, processes are numbered as they appear; `finish` restores the ranks, or, where the trace only knew process
    ids, numbers the processes by rising id.
    """

    def __init__(self) -> None:
        self._interfaces: dict[str, _InterfaceReducer] = {}
        self._ranks: dict[int, int] = {}
        self._impossible = 0
        self.missing: list[Missing] = []

    @property
    def processes(self) -> int:
        """Processes seen."""
        return len(self._ranks)

    def push(self, batch: pa.RecordBatch) -> None:
        """Reduce one batch of the `ops` table."""
        for at in range(0, batch.num_rows, _CHUNK_ROWS):
            self._chunk(batch.slice(at, _CHUNK_ROWS))

    def _chunk(self, batch: pa.RecordBatch) -> None:
        ops = read_op_columns(batch)
        self._impossible += count_impossible_op_sizes(batch)
        raw, place = np.unique(ops.rank, return_inverse=True)
        dense = np.array([self._ranks.setdefault(r, len(self._ranks)) for r in raw.tolist()], np.int64)
        ops = replace(ops, rank=dense[place.reshape(-1)])
        interface, names = read_op_word_codes(batch.column("interface"))
        node, node_names = read_op_word_codes(batch.column("node"))
        seen, first = np.unique(ops.rank, return_index=True)
        nodes = {int(r): node_names[node[i]] for r, i in zip(seen, first, strict=True) if node[i] >= 0}
        for code, name in enumerate(names):
            mine = interface == code
            if mine.any():
                reducer = self._interfaces.setdefault(name, _InterfaceReducer(name))
                reducer.push(ops if mine.all() else ops.select_rows(mine), nodes)

    def finish(self) -> dict[str, OperationTotals]:
        """Return the totals per interface; `missing` lists what was dropped to stay within memory."""
        raw = np.array(list(self._ranks), np.int64)
        are_ranks = not len(raw) or (raw.min() >= 0 and raw.max() < 4 * len(raw) + 4096)
        final = raw if are_ranks else np.argsort(np.argsort(raw))
        ranks = int(final.max(initial=-1)) + 1
        if MOUNT in self._interfaces and "POSIX" not in self._interfaces:
            mounted = self._interfaces["POSIX"] = self._interfaces.pop(MOUNT)
            mounted.interface = "POSIX"
        totals = {name: reducer.finish(final, ranks) for name, reducer in self._interfaces.items()}
        if self._impossible:
            self.missing.append(
                Missing(
                    kind="impossible_sizes",
                    what="bytes of some operations",
                    why=f"{self._impossible:,} of them have an impossible size and are counted without bytes",
                    remedy="check these records in the trace; a killed process may leave broken records",
                )
            )
        for name, total in totals.items():
            if total.repeats is None and total.pattern.placed.sum():
                self.missing.append(
                    Missing(
                        kind="repeats_unknown",
                        what=f"repeated {name} reads and writes",
                        why=f"more than {MAX_INTERVALS:,} separate ranges were touched",
                        remedy="report fewer processes or a shorter part of the run",
                    )
                )
        return totals
