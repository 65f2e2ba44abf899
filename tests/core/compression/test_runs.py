"""Run-length merging on small examples that can be checked by eye, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.compression.merger import Merger
from fairlead.core.compression.operation_runs import expand_operation_runs, merge_operation_runs
from fairlead.core.errors import UsageError
from fairlead.core.model.tables import OPS, build_table_batch

T0 = 1_700_000_000_000_000_000
MS = 1_000_000


def ops(offsets: list[int | None], **columns: object) -> pa.Table:
    """Back-to-back operations of 10 bytes and 100 ns each, 1 µs apart, unless `columns` say otherwise."""
    rows = len(offsets)
    start = np.asarray(columns.pop("start_ns", T0 + np.arange(rows) * 1000))
    took = np.asarray(columns.pop("took", np.full(rows, 100)))
    filled = {
        "start_ns": start,
        "end_ns": start + took,
        "busy_ns": took,
        "interface": ["POSIX"] * rows,
        "rank": [0] * rows,
        "op": ["write"] * rows,
        "offset": pa.array(offsets, pa.int64()),
        "size": [10] * rows,
        "count": [1] * rows,
    }
    return pa.Table.from_batches([build_table_batch(OPS, filled | columns)])


def shapes(table: pa.Table) -> list[tuple[int | None, int | None, int]]:
    return [(row["offset"], row["stride"], row["count"]) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("offsets", "runs"),
    [
        ([0, 10, 20, 30], [(0, 10, 4)]),
        ([0, 100, 200], [(0, 100, 3)]),
        ([30, 20, 10], [(30, -10, 3)]),
        ([5, 5, 5], [(5, 0, 3)]),
        ([7], [(7, None, 1)]),
        # A stray operation does not take the first one of the run that follows.
        ([900, 0, 10, 20], [(900, None, 1), (0, 10, 3)]),
        ([900, 300, 0, 10, 20], [(900, -600, 2), (0, 10, 3)]),
        # Two long progressions share an operation: it goes to the second.
        ([0, 10, 20, 30, 130, 230], [(0, 10, 3), (30, 100, 3)]),
        # Bursts of contiguous requests with jumps between them.
        ([0, 10, 20, 500, 510, 520], [(0, 10, 3), (500, 10, 3)]),
        # No pattern: two by two.
        ([5, 90, 40, 77, 3], [(5, 85, 2), (40, 37, 2), (3, None, 1)]),
        ([None, None, None], [(None, None, 3)]),
        ([0, 10, None, None, 40, 50], [(0, 10, 2), (None, None, 2), (40, 10, 2)]),
        # Differences wrap around modulo 2**64 and still come back.
        ([-(2**63), 2**63 - 1], [(-(2**63), -1, 2)]),
    ],
)
def test_what_becomes_a_run(offsets: list[int | None], runs: list[tuple[int | None, int | None, int]]) -> None:
    merged = merge_operation_runs(ops(offsets))
    assert shapes(merged) == runs
    assert expand_operation_runs(merged)["offset"].to_pylist() == offsets


def test_a_run_says_when_it_began_ended_and_how_long_it_was_busy() -> None:
    [row] = merge_operation_runs(ops([0, 10, 20], took=[100, 200, 50])).to_pylist()
    assert (row["start_ns"], row["end_ns"], row["busy_ns"]) == (T0, T0 + 2050, 350)
    assert row["gaps_ns"] is None
    assert row["durations_ns"] is None


@pytest.mark.parametrize(
    ("starts", "took", "runs"),
    [
        ([0, 100 + 10 * MS - 1], 100, 1),
        ([0, 100 + 10 * MS], 100, 2),  # a gap of 10 ms
        ([999 * MS, 999 * MS + 100], 100, 1),
        ([1000 * MS - 200, 1000 * MS - 100], 100, 1),  # ends on the second
        ([1000 * MS - 200, 1000 * MS - 100], 101, 2),  # overlaps, and crosses it
        ([1000 * MS - 100, 1000 * MS], 100, 2),  # begins on the second
        ([0, 99], 100, 2),  # begins before the one before has ended
        ([1000, 0], 100, 2),  # a clock that ran backwards
        ([0, 0], 0, 1),
    ],
)
def test_time_bounds(starts: list[int], took: int, runs: int) -> None:
    table = ops([0, 10], start_ns=T0 + np.array(starts), took=[took, took])
    assert len(merge_operation_runs(table)) == runs
    assert expand_operation_runs(merge_operation_runs(table))["offset"].to_pylist() == [0, 10]


def test_other_bounds_can_be_asked_for() -> None:
    table = ops([0, 10], start_ns=[T0, T0 + 5000])
    assert len(merge_operation_runs(table, gap_ns=4900)) == 2
    assert len(merge_operation_runs(table, gap_ns=4901)) == 1
    assert len(merge_operation_runs(table, boundary_ns=5000)) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"op": ["write", "read"]},
        {"size": [10, 20]},
        {"size": [10, None]},
        {"rank": [0, 1]},
        {"rank": [0, None]},
        {"handle": [3, 4]},
        {"handle": [None, 4]},
        {"file_id": [1, 2]},
        {"node": ["a", "b"]},
        {"node": [None, "b"]},
        {"fs": ["/a", "/b"]},
        {"job_id": ["1", "2"]},
        {"interface": ["POSIX", "STDIO"]},
    ],
)
def test_only_like_operations_of_one_stream_merge(other: dict[str, list[object]]) -> None:
    assert len(merge_operation_runs(ops([0, 10], **other))) == 2
    same = {name: [values[0]] * 2 for name, values in other.items()}
    assert len(merge_operation_runs(ops([0, 10], **same))) == 1


def test_interleaved_streams_merge_apart_and_come_in_the_order_they_began() -> None:
    table = ops([0, 1000, 10, 1100, 20, 1200], rank=[1, 0, 1, 0, 1, 0])
    merged = merge_operation_runs(table)
    assert shapes(merged) == [(0, 10, 3), (1000, 100, 3)]
    assert merged["rank"].to_pylist() == [1, 0]
    assert expand_operation_runs(merged)["offset"].to_pylist() == [0, 10, 20, 1000, 1100, 1200]


def test_without_exact_times_operations_are_spread_evenly() -> None:
    back = expand_operation_runs(
        merge_operation_runs(ops([0, 10, 20], start_ns=[T0, T0 + 700, T0 + 1000], took=[50, 100, 150]))
    )
    assert back["start_ns"].to_pylist() == [T0, T0 + 525, T0 + 1050]
    assert back["end_ns"].to_pylist() == [T0 + 100, T0 + 625, T0 + 1150]
    assert back["busy_ns"].to_pylist() == [100, 100, 100]


def test_exact_times_follow_their_runs_when_runs_change_places() -> None:
    table = ops([0, 10, 5, 15], rank=[0, 0, 1, 1], start_ns=T0 + np.array([5000, 6000, 1000, 3000]))
    runs = merge_operation_runs(table, by_time=True, exact_times=True)
    assert [(row["rank"], row["gaps_ns"]) for row in runs.to_pylist()] == [(1, [1900]), (0, [900])]


def test_exact_times_are_kept_and_extended() -> None:
    table = ops([0, 10, 20, 30], start_ns=[T0, T0 + 700, T0 + 1000, T0 + 5000], took=[50, 100, 150, 7])
    run = merge_operation_runs(table[:3], exact_times=True)
    assert run["gaps_ns"].to_pylist() == [[650, 200]]
    assert run["durations_ns"].to_pylist() == [[50, 100, 150]]
    longer = merge_operation_runs(pa.concat_tables([run, table[3:]]), exact_times=True)
    assert longer["gaps_ns"].to_pylist() == [[650, 200, 3850]]
    assert longer["durations_ns"].to_pylist() == [[50, 100, 150, 7]]
    assert (
        expand_operation_runs(longer)
        .select(["start_ns", "end_ns", "offset"])
        .equals(table.select(["start_ns", "end_ns", "offset"]).combine_chunks())
    )


def test_a_run_without_exact_times_is_not_extended_under_exact_times() -> None:
    table = ops([0, 10, 20])
    assert shapes(
        merge_operation_runs(pa.concat_tables([merge_operation_runs(table[:2]), table[2:]]), exact_times=True)
    ) == [
        (0, 10, 2),
        (20, None, 1),
    ]
    idle_inside = table.set_column(2, OPS.schema.field("busy_ns"), pa.array([60, 60, 60]))
    assert len(merge_operation_runs(idle_inside, exact_times=True)) == 3


def test_runs_are_extended_by_the_same_law_but_never_split() -> None:
    table = ops([0, 10, 20, 30, 130, 230])
    first = merge_operation_runs(table[:4])
    assert shapes(first) == [(0, 10, 4)]
    assert shapes(merge_operation_runs(pa.concat_tables([first, table[4:]]))) == [(0, 10, 4), (130, 100, 2)]
    assert shapes(
        merge_operation_runs(pa.concat_tables([merge_operation_runs(table[:2]), merge_operation_runs(table[2:4])]))
    ) == [(0, 10, 4)]


def test_a_chance_pair_takes_nothing_from_a_run_that_is_there() -> None:
    table = ops([900, 0, 10, 20])
    assert shapes(merge_operation_runs(pa.concat_tables([table[:2], merge_operation_runs(table[2:])]))) == [
        (900, None, 1),
        (0, 10, 3),
    ]


def test_a_run_of_unknown_stride_is_left_alone() -> None:
    odd = ops([0, 10], count=[3, 1])
    assert shapes(merge_operation_runs(odd)) == [(0, None, 3), (10, None, 1)]
    assert expand_operation_runs(merge_operation_runs(odd))["offset"].to_pylist() == [0, None, None, 10]


def test_batches_with_dictionaries_of_their_own_are_one_table() -> None:
    later = T0 + 100_000 + np.arange(2) * 1000
    table = pa.concat_tables([ops([0, 0], node=["a", "b"]), ops([10, 10], node=["b", "a"], start_ns=later)])
    assert [(row["node"], row["count"]) for row in merge_operation_runs(table).to_pylist()] == [("a", 2), ("b", 2)]


def test_nothing_merges_to_nothing() -> None:
    assert merge_operation_runs(OPS.schema.empty_table()).equals(OPS.schema.empty_table())
    assert expand_operation_runs(OPS.schema.empty_table()).equals(OPS.schema.empty_table())
    merger = Merger()
    assert merger.push(OPS.schema.empty_table()).num_rows == 0
    assert merger.flush().num_rows == 0


def test_tables_of_an_older_schema_are_read() -> None:
    older = ops([0, 10]).drop_columns(["gaps_ns", "durations_ns", "handle"])
    assert shapes(merge_operation_runs(older)) == [(0, 10, 2)]


def test_what_is_no_table_of_operations_is_refused() -> None:
    with pytest.raises(UsageError, match="it lacks busy_ns"):
        merge_operation_runs(ops([0]).drop_columns(["busy_ns"]))
    with pytest.raises(UsageError, match="fewer than one"):
        expand_operation_runs(ops([0], count=[0]))


def test_a_merger_closes_what_ended_before_a_time() -> None:
    merger = Merger()
    assert merger.push(ops([0, 10, 20, 5], rank=[0, 0, 0, 1])).num_rows == 0
    early = merger.flush(before_ns=T0 + 3000)
    assert shapes(early) == [(0, 10, 3)]
    assert shapes(merger.flush()) == [(5, None, 1)]


def test_a_merger_does_not_hold_on_to_words_of_the_past() -> None:
    merger = Merger(max_open=8)
    for at in range(40):
        names = [f"job{at}-{number}" for number in range(50)]
        merger.push(ops(list(range(50)), job_id=names, start_ns=T0 + np.arange(50) * 1000 + at * 10**6))
    words = merger.flush()["job_id"].combine_chunks().dictionary
    assert len(words) <= 400


def test_merging_needs_no_compiler() -> None:
    code = (
        "import sys, fairlead.core.compression.merger as m, fairlead.core.model.tables as t;"
        "m.Merger().push(t.OPS.schema.empty_table());"
        "print([n for n in ('numba', 'scipy', 'duckdb') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
