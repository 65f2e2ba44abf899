"""Merging of a stream of batches: `Merger` carries what is still open from one batch to the next, in bounded memory.

What it gives, stream by stream, is what `operation_runs.merge_operation_runs` gives for all batches together.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.compression import streams
from fairlead.core.compression.operation_runs import (
    BOUNDARY_NS,
    GAP_NS,
    Plan,
    build_operation_runs,
    join_operation_batches,
    merge_operation_runs,
    plan_operation_runs,
)
from fairlead.core.model.tables import OPS

Flags = NDArray[np.bool_]
MAX_OPEN = 16_384
_SPARE_WORDS = 256
_ROWS_A_PIECE = 16
"""Below this many rows a piece of one stream, sorting all rows costs less than looking for the streams in them."""


class Merger:
    """Give it batches of operations as they come, in the order of each stream; take closed runs.

    A run is closed once nothing that may still come can change it. At most `max_open` streams stay open (three rows
    each); beyond that those that ended first are closed early, which never loses an operation, only a chance to
    merge. With `by_time` each batch is taken in the order of starts, together with what is open. One `push` costs
    time in proportion to its rows and to what is open. Not safe to share between threads.
    """

    def __init__(
        self,
        *,
        exact_times: bool = False,
        by_time: bool = False,
        gap_ns: int = GAP_NS,
        boundary_ns: int = BOUNDARY_NS,
        max_open: int = MAX_OPEN,
    ) -> None:
        self._exact = exact_times
        self._by_time = by_time
        self._gap_ns = gap_ns
        self._boundary_ns = boundary_ns
        self._max_open = max_open
        self._open = OPS.schema.empty_table()

    @property
    def open_rows(self) -> int:
        """Rows held back, at most three a stream."""
        return int(self._open.num_rows)

    def push(self, ops: pa.RecordBatch | pa.Table) -> pa.Table:
        """Runs that are closed now, in the order of their first operations."""
        new = join_operation_batches(ops)
        going_on, resting = self._met_again(new)
        batch = join_operation_batches(pa.concat_tables([going_on, pa.Table.from_batches([new])]))
        plan = plan_operation_runs(
            batch, exact_times=self._exact, by_time=self._by_time, gap_ns=self._gap_ns, boundary_ns=self._boundary_ns
        )
        tail, apart = _tails(batch, plan)
        runs, heads = build_operation_runs(
            batch, plan, plan.links.join & ~apart, exact_times=self._exact, by_time=self._by_time
        )
        held = tail[heads]
        self._open = _compact(pa.concat_tables([resting, runs.filter(pa.array(held))]))
        return pa.concat_tables([runs.filter(pa.array(~held)), self._overflow()])

    def _met_again(self, new: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
        """What is open of streams that have rows in `new`, and the rest: a stream alone in its batch then needs no
        sorting."""
        if self._open.num_rows == 0:
            return self._open, self._open
        heads = np.flatnonzero(streams.find_stream_starts(new))
        if len(heads) > new.num_rows // _ROWS_A_PIECE:
            return self._open, self._open.slice(0, 0)
        pieces = pa.Table.from_batches([new]).select(streams.STREAM_KEY).take(pa.array(heads))
        both = pa.concat_tables([self._open.select(streams.STREAM_KEY), pieces]).unify_dictionaries().combine_chunks()
        ids = streams.number_streams(pa.RecordBatch.from_arrays([c.chunk(0) for c in both.columns], schema=both.schema))
        met = np.isin(ids[: self._open.num_rows], ids[self._open.num_rows :])
        return self._open.filter(pa.array(met)), self._open.filter(pa.array(~met))

    def flush(self, before_ns: int | None = None) -> pa.Table:
        """Close what is open: everything, or only streams whose last operation ended before `before_ns`."""
        if self._open.num_rows == 0:
            return self._open
        batch = join_operation_batches(self._open)
        ids = streams.number_streams(batch)
        if before_ns is None:
            return self._close(np.ones(batch.num_rows, np.bool_))
        return self._close((_last_ends(batch, ids) < before_ns)[ids])

    def _overflow(self) -> pa.Table:
        """Close the streams that ended first until at most `max_open` are open."""
        if self._open.num_rows <= self._max_open:
            return OPS.schema.empty_table()
        batch = join_operation_batches(self._open)
        ids = streams.number_streams(batch)
        ends = _last_ends(batch, ids)
        if len(ends) <= self._max_open:
            return OPS.schema.empty_table()
        oldest = np.zeros(len(ends), np.bool_)
        oldest[np.argsort(ends, kind="stable")[: len(ends) - self._max_open]] = True
        return self._close(oldest[ids])

    def _close(self, which: Flags) -> pa.Table:
        mask = pa.array(which)
        closing, self._open = self._open.filter(mask), self._open.filter(pa.array(~which))
        return merge_operation_runs(
            closing, exact_times=self._exact, gap_ns=self._gap_ns, boundary_ns=self._boundary_ns
        )


def _compact(held: pa.Table) -> pa.Table:
    """`held` with dictionaries of its own words only, once those of all batches so far have grown well beyond."""
    for at, field in enumerate(held.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column = held.column(at)
        if max((len(chunk.dictionary) for chunk in column.chunks), default=0) > _SPARE_WORDS + 2 * held.num_rows:
            words = column.cast(field.type.value_type).dictionary_encode().cast(field.type)
            held = held.set_column(at, field, words)
    return held


def _last_ends(batch: pa.RecordBatch, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[streams]: when each open stream's latest operation ended."""
    ends = np.full(int(ids.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(ends, ids, batch.column("end_ns").to_numpy())
    return ends


def _tails(batch: pa.RecordBatch, plan: Plan) -> tuple[Flags, Flags]:
    """bool[rows] in the plan's order: rows later operations may still change; and those that must stay rows of their
    own, because a long run that begins with them may yet claim them from a chance pair or from the run before."""
    n = batch.num_rows
    join = plan.links.join
    tail, apart = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    if n == 0:
        return tail, apart
    place = np.arange(n)
    head = np.maximum.accumulate(np.where(join, 0, place))
    first = np.flatnonzero(plan.starts)
    last = np.append(first[1:], n) - 1
    begin = head[last]
    # A single last row may still pull the row before it out of its run; then that run is open as well.
    alone = (begin == last) & (begin > first)
    reopened = np.where(alone, head[np.maximum(begin - 1, 0)], begin)
    mark = np.zeros(n + 1, np.int64)
    np.add.at(mark, reopened, 1)
    np.add.at(mark, last + 1, -1)
    tail = np.cumsum(mark[:-1]) > 0
    apart[last] = True
    apart[last[alone] - 1] = True
    return tail, apart
