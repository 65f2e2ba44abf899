"""Which rows of counters are of which run of a job: the run a number and a cluster name at a time.

Records name a job by its number, and by its cluster where whoever recorded them knows it. `jobs` has one row a run
(`fairlead.store.job_merging`). Here rows of counters are given to these runs:

- rows that name a cluster: to the run of that cluster;
- rows that name none: to the run of that number at that time; where runs of several clusters had the number meanwhile,
  to the one whose nodes counted them, and to none where the row does not tell its node;
- rows between two runs of one number: to the one that began last.

Not here: what the rows say (`job_volumes`), rows of jobs (`job_merging`).
"""

# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.questions.lake_queries import Tables, query_lake
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, INTERVALS, MINUTE_NS, SECOND_NS, Span
from fairlead.explain.questions.visible_lake import widen_visible_lake

I64 = NDArray[np.int64]
HEAD_NS, TAIL_NS = 10 * SECOND_NS, MINUTE_NS
"""A run's rows lie in [start - HEAD_NS, end + TAIL_NS): a probe's row covers an interval that began before the job
did, and caches are written back after its end."""
FOREVER = 2**62
LATEST_NS = 1 << 61
"""The year 2043: later times are a broken clock's."""
LONGEST_RUN_NS = 32 * DAY_NS
RUN_COLUMNS = ("cluster", "job_id", "start_ns", "end_ns")


@dataclass(frozen=True)
class Windows:
    """When rows that name a run's number are its own: in [from_ns[k], to_ns[k]), whole hours where no other run is
    near, else whole seconds. `mixed[k]`: a run of another cluster had the number meanwhile."""

    from_ns: I64
    to_ns: I64
    mixed: NDArray[np.bool_]


def find_counter_windows(lake: Tables, runs: pa.Table, now_ns: int) -> Windows:
    """Windows of `runs` (RUN_COLUMNS; `start_ns` known), found among all runs there are of their numbers. What runs is
    followed to `now_ns`."""
    start, end = read_run_times(runs, now_ns)
    low, high, mixed = _bounds(runs, start, end, _read_runs_of_numbers(lake, runs, start, end))
    first, last = start - HEAD_NS, end + TAIL_NS
    wide_first, wide_last = first // HOUR_NS * HOUR_NS, -(-last // HOUR_NS) * HOUR_NS
    wide = (low <= wide_first) & (high >= wide_last) & ~mixed
    first, last = np.maximum(low, first // SECOND_NS * SECOND_NS), np.minimum(high, -(-last // SECOND_NS) * SECOND_NS)
    return Windows(np.where(wide, wide_first, first), np.where(wide, wide_last, last), mixed)


def read_run_times(runs: pa.Table, now_ns: int) -> tuple[I64, I64]:
    """When runs began and ended, those that run at `now_ns`; an impossible time becomes the nearest possible one."""
    start = np.clip(runs["start_ns"].to_numpy(), 0, LATEST_NS)
    return start, np.maximum(np.clip(pc.fill_null(runs["end_ns"], now_ns).to_numpy(), 0, LATEST_NS), start)


def split_ranges(from_ns: I64, to_ns: I64) -> tuple[NDArray[np.intp], I64, I64, I64]:
    """(row, step, from, to) of pieces of ranges whose ends are whole seconds: hours inside, minutes and seconds at
    their ends. The coarsest rows of the rollup whose sum is that of the range."""
    row = np.arange(len(from_ns))
    made: list[tuple[NDArray[np.intp], I64, I64, I64]] = []

    def cut(row: NDArray[np.intp], low: I64, high: I64, steps: Sequence[int]) -> None:
        some = high > low
        row, low, high = row[some], low[some], high[some]
        if not len(row):
            return
        step = steps[0]
        if len(steps) == 1:
            made.append((row, np.full(len(row), step), low, high))
            return
        first, last = -(-low // step) * step, high // step * step
        inside = last > first
        made.append((row[inside], np.full(int(inside.sum()), step), first[inside], last[inside]))
        cut(row[inside], low[inside], first[inside], steps[1:])
        cut(row[inside], last[inside], high[inside], steps[1:])
        cut(row[~inside], low[~inside], high[~inside], steps[1:])

    cut(row, from_ns, to_ns, INTERVALS[::-1])
    if not made:
        none = np.zeros(0, np.int64)
        return none, none, none, none
    return tuple(np.concatenate([part[k] for part in made]) for k in range(4))  # type: ignore[return-value]


def _read_runs_of_numbers(lake: Tables, runs: pa.Table, start: I64, end: I64) -> pa.Table:
    """Runs of the same numbers that may be near."""
    numbers = pc.unique(runs["job_id"].cast(pa.string())).to_pylist()
    if not numbers:
        return runs.select(RUN_COLUMNS)
    began = Span(int(start.min()) - LONGEST_RUN_NS, int(end.max()) + HOUR_NS)
    return query_lake(
        widen_visible_lake(lake),
        "SELECT cluster, job_id, start_ns, end_ns FROM jobs WHERE job_id IN (SELECT unnest($numbers))"
        f" AND start_ns >= {began.from_ns} AND start_ns < {began.to_ns}",
        {"numbers": numbers},
        began=began,
        numbers=numbers,
    )


def _bounds(runs: pa.Table, start: I64, end: I64, others: pa.Table) -> tuple[I64, I64, NDArray[np.bool_]]:
    """Of each run: from when, until when its number is its own within its cluster, and whether a run of another cluster
    had it between `start` and `end`."""
    count = runs.num_rows
    low, high = np.full(count, -FOREVER), np.full(count, FOREVER)
    mixed = np.zeros(count, np.bool_)
    pairs = pa.table({"job_id": runs["job_id"].cast(pa.string()), "place": pa.array(np.arange(count))}).join(
        pa.table({"job_id": others["job_id"].cast(pa.string()), "other": pa.array(np.arange(others.num_rows))}),
        "job_id",
        join_type="inner",
    )
    mine, other = (pairs[name].to_numpy() for name in ("place", "other"))
    begin, until = (times[other] for times in read_run_times(others, LATEST_NS))
    own, their = _codes(runs["cluster"], others["cluster"])
    own, their = own[mine], their[other]
    self_ = (begin == start[mine]) & (own == their)
    mine, begin, until, own, their = (column[~self_] for column in (mine, begin, until, own, their))
    same = own == their
    before = same & (begin < start[mine])
    # What ended before is followed by its tail only as far as this one has not begun.
    np.maximum.at(low, mine[before], np.minimum(until[before] + TAIL_NS, start[mine[before]]) // SECOND_NS * SECOND_NS)
    after = same & (begin > start[mine])
    np.minimum.at(high, mine[after], begin[after] // SECOND_NS * SECOND_NS)
    meets = ~same & (begin < end[mine] + TAIL_NS) & (until + TAIL_NS > start[mine])
    mixed[mine[meets]] = True
    return low, high, mixed


def _codes(*columns: pa.ChunkedArray) -> list[I64]:
    """Codes of words, equal where the words are; null is a word of its own."""
    plain = [column.cast(pa.string()) for column in columns]
    coded = (
        pa.chunked_array([chunk for column in plain for chunk in column.chunks], pa.string())
        .combine_chunks()
        .dictionary_encode()
    )
    codes = coded.indices if isinstance(coded, pa.DictionaryArray) else coded.chunk(0).indices
    values = np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False), np.int64)
    return list(np.split(values, np.cumsum([len(column) for column in plain])[:-1]))
