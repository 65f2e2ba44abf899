"""Laws of run-length merging on random streams: nothing lost, order kept, bounds held, as few runs as can be."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.compression.merger import Merger
from fairlead.core.compression.operation_runs import BOUNDARY_NS, GAP_NS, expand_operation_runs, merge_operation_runs
from fairlead.core.compression.streams import STREAM_KEY
from fairlead.core.model.tables import OPS, build_table_batch

EPOCH = 1_700_000_000_000_000_000
COLUMNS = ["start_ns", "end_ns", "busy_ns", "op", "offset", "size", "stride", "count", "gaps_ns", "durations_ns"]

# A burst: stream, how far each offset lies from the one before, how many operations, and what is odd about its first.
BURST = st.tuples(
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([0, 10, 10, 10, -10, 20, 1 << 40, 12345, None]),
    st.sampled_from([1, 1, 1, 2, 2, 3, 4]),
    st.sampled_from([None] * 12 + ["idle", "idle", "took", "busy", "op", "size", "unsized"]),
)
IDLE = st.sampled_from([0, GAP_NS - 1, GAP_NS, GAP_NS + 1, 400_000_000, 1_000_000_000, -1, -50_000_000])
TOOK = st.sampled_from([0, 1, 9_000_000, 700_000_000, -3])


@st.composite
def operations(draw: st.DrawFn, busy_throughout: bool = False) -> pa.Table:
    """Operations of up to three streams, interleaved; offsets walk in bursts of one stride, so that runs do arise."""
    rows = []
    begin = EPOCH + draw(st.sampled_from([0, 0, 0, 990_000_000, 999_999_998]))
    far = draw(st.sampled_from([0, 0, 2**63 - 40, -(2**63) + 15]))
    state: dict[int, tuple[int, int]] = {}
    for stream, step, times, odd in draw(st.lists(BURST, max_size=9)):
        for first in [True] + [False] * (times - 1):
            odds = odd if first else None
            at, offset = state.get(stream, (begin, far))
            offset = (offset + (step or 0) + 2**63) % 2**64 - 2**63
            start = at + (draw(IDLE) if odds == "idle" else 1)
            took = draw(TOOK) if odds == "took" else 7
            state[stream] = (start + took, offset)
            rows.append(
                {
                    "start_ns": start,
                    "end_ns": start + took,
                    "interface": "POSIX",
                    "job_id": "1",
                    "fs": "/",
                    "busy_ns": took + 5 if odds == "busy" and not busy_throughout else took,
                    "node": None if stream == 2 else "n1",
                    "rank": None if stream == 1 else 7,
                    "file_id": stream // 2,
                    "op": "read" if odds == "op" else "write",
                    "offset": None if step is None else offset,
                    "size": {"size": 20, "unsized": None}.get(odds or "", 10),
                    "count": 1,
                }
            )
    return pa.Table.from_pylist(rows, OPS.schema)


def by_stream(table: pa.Table, columns: list[str]) -> dict[tuple[object, ...], list[tuple[object, ...]]]:
    grouped: dict[tuple[object, ...], list[tuple[object, ...]]] = defaultdict(list)
    for row in table.to_pylist():
        grouped[tuple(row[name] for name in STREAM_KEY)].append(tuple(_plain(row[name]) for name in columns))
    return dict(grouped)


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def bytes_by_second(table: pa.Table) -> dict[tuple[int, str], int]:
    series: dict[tuple[int, str], int] = defaultdict(int)
    for row in table.to_pylist():
        if row["size"] is not None:
            series[row["start_ns"] // BOUNDARY_NS, row["op"]] += row["size"] * row["count"]
    return dict(series)


def linkable(left: dict[str, int], right: dict[str, int]) -> bool:
    """The law for two neighbours of a stream, written out again from its text."""
    second = left["start_ns"] // BOUNDARY_NS
    inside = all(
        row["start_ns"] // BOUNDARY_NS == second and row["start_ns"] <= row["end_ns"] <= (second + 1) * BOUNDARY_NS
        for row in (left, right)
    )
    idle = right["start_ns"] - left["end_ns"]
    alike = all(left[name] == right[name] for name in ("op", "size"))
    return inside and alike and 0 <= idle < GAP_NS and (left["offset"] is None) == (right["offset"] is None)


def fewest_runs(rows: list[dict[str, int]]) -> int:
    """The least number of runs any partition of one stream has, by dynamic programming over all partitions."""
    least = [0]
    for end in range(1, len(rows) + 1):
        best, steps = least[end - 1] + 1, set()
        for begin in range(end - 2, -1, -1):
            left, right = rows[begin], rows[begin + 1]
            if not linkable(left, right):
                break
            steps.add(None if left["offset"] is None else (right["offset"] - left["offset"]) % 2**64)
            if len(steps) > 1:
                break
            best = min(best, least[begin] + 1)
        least.append(best)
    return least[-1]


@settings(max_examples=150, deadline=None)
@given(operations())
def test_expansion_returns_every_operation_of_every_stream_in_order(ops: pa.Table) -> None:
    back = expand_operation_runs(merge_operation_runs(ops))
    assert by_stream(back, ["op", "offset", "size", "count"]) == by_stream(ops, ["op", "offset", "size", "count"])
    assert pc.sum(back["busy_ns"]).as_py() == pc.sum(ops["busy_ns"]).as_py()


@settings(max_examples=150, deadline=None)
@given(operations())
def test_bandwidth_per_second_is_unchanged(ops: pa.Table) -> None:
    runs = merge_operation_runs(ops)
    assert bytes_by_second(runs) == bytes_by_second(ops)
    assert bytes_by_second(expand_operation_runs(runs)) == bytes_by_second(ops)


@settings(max_examples=150, deadline=None)
@given(operations())
def test_runs_keep_their_bounds_and_are_as_few_as_can_be(ops: pa.Table) -> None:
    runs = merge_operation_runs(ops)
    rows = ops.to_pylist()
    for key, merged in by_stream(runs, ["start_ns", "end_ns", "count", "busy_ns", "stride", "offset"]).items():
        originals = [row for row in rows if tuple(row[name] for name in STREAM_KEY) == key]
        assert len(merged) == fewest_runs(originals)
        at = 0
        for start, end, count, busy, stride, offset in merged:
            members = originals[at : at + count]
            at += count
            assert (start, end) == (members[0]["start_ns"], members[-1]["end_ns"])
            assert busy == sum(row["busy_ns"] for row in members)
            assert (stride is None) == (count == 1 or offset is None)
            if count > 1:
                assert all(linkable(a, b) for a, b in pairwise(members))
                assert end == max(row["end_ns"] for row in members)
        assert at == len(originals)


@settings(max_examples=150, deadline=None)
@given(operations(), st.booleans())
def test_merging_twice_is_merging_once(ops: pa.Table, exact: bool) -> None:
    once = merge_operation_runs(ops, exact_times=exact)
    assert merge_operation_runs(once, exact_times=exact).to_pylist() == once.to_pylist()


@settings(max_examples=150, deadline=None)
@given(operations(), st.integers(0, 30), st.booleans())
def test_rows_that_are_runs_already_lose_nothing(ops: pa.Table, cut: int, exact: bool) -> None:
    mixed = pa.concat_tables([merge_operation_runs(ops[:cut], exact_times=exact), ops[cut:]])
    runs = merge_operation_runs(mixed, exact_times=exact)
    assert by_stream(expand_operation_runs(runs), ["op", "offset", "size"]) == by_stream(ops, ["op", "offset", "size"])
    assert len(runs) <= len(mixed)
    assert bytes_by_second(runs) == bytes_by_second(ops)


@settings(max_examples=150, deadline=None)
@given(operations())
def test_exact_times_come_back(ops: pa.Table) -> None:
    back = expand_operation_runs(merge_operation_runs(ops, exact_times=True))
    columns = ["start_ns", "end_ns", "busy_ns", "op", "offset", "size"]
    assert by_stream(back, columns) == by_stream(ops, columns)


@settings(max_examples=100, deadline=None)
@given(operations(busy_throughout=True))
def test_exact_times_cost_no_run(ops: pa.Table) -> None:
    assert len(merge_operation_runs(ops, exact_times=True)) == len(merge_operation_runs(ops))


@settings(max_examples=250, deadline=None)
@given(operations(), st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_a_merger_gives_what_merging_at_once_gives(ops: pa.Table, cuts: list[int], exact: bool) -> None:
    merger = Merger(exact_times=exact)
    edges = [0, *sorted(cuts), len(ops)]
    parts = [merger.push(ops[a:b]) for a, b in pairwise(edges)]
    assert merger.open_rows <= 9
    got = pa.concat_tables([*parts, merger.flush()])
    assert merger.open_rows == 0
    assert by_stream(got, COLUMNS) == by_stream(merge_operation_runs(ops, exact_times=exact), COLUMNS)


@settings(max_examples=100, deadline=None)
@given(operations(), st.lists(st.integers(0, 30), max_size=4), st.integers(0, 2))
def test_a_merger_short_of_room_loses_nothing(ops: pa.Table, cuts: list[int], room: int) -> None:
    merger = Merger(max_open=room)
    edges = [0, *sorted(cuts), len(ops)]
    parts = []
    for a, b in pairwise(edges):
        parts.append(merger.push(ops[a:b]))
        assert merger.open_rows <= 3 * room
    got = expand_operation_runs(pa.concat_tables([*parts, merger.flush()]))
    assert by_stream(got, ["op", "offset", "size"]) == by_stream(ops, ["op", "offset", "size"])


@settings(max_examples=100, deadline=None)
@given(operations(), st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_a_merger_by_time_loses_nothing(ops: pa.Table, cuts: list[int], exact: bool) -> None:
    merger = Merger(by_time=True, exact_times=exact)
    parts = [merger.push(ops[a:b]) for a, b in pairwise([0, *sorted(cuts), len(ops)])]
    runs = pa.concat_tables([*parts, merger.flush()])
    columns = ["op", "offset", "size"] + (["start_ns", "end_ns", "busy_ns"] if exact else [])
    got, wanted = by_stream(expand_operation_runs(runs), columns), by_stream(ops, columns)
    assert {key: Counter(rows) for key, rows in got.items()} == {key: Counter(rows) for key, rows in wanted.items()}
    assert bytes_by_second(runs) == bytes_by_second(ops)


@settings(max_examples=100, deadline=None)
@given(operations())
def test_runs_come_in_the_order_of_their_first_operations(ops: pa.Table) -> None:
    numbered = ops.set_column(ops.schema.get_field_index("busy_ns"), "busy_ns", pa.array(1 << np.arange(len(ops))))
    # Each busy time is a power of two: the lowest bit of a sum tells the first operation of the run.
    firsts = [busy & -busy for busy in merge_operation_runs(numbered.cast(OPS.schema))["busy_ns"].to_pylist()]
    assert firsts == sorted(firsts)


@settings(max_examples=100, deadline=None)
@given(operations())
def test_by_time_restores_the_order_of_starts(ops: pa.Table) -> None:
    columns = ["start_ns", "op", "offset", "size"]
    wanted = {key: sorted(rows, key=lambda row: row[0]) for key, rows in by_stream(ops, columns).items()}
    runs = merge_operation_runs(ops, by_time=True, exact_times=True)
    assert runs["start_ns"].to_pylist() == sorted(runs["start_ns"].to_pylist())
    assert by_stream(expand_operation_runs(runs), columns) == wanted
    timed = expand_operation_runs(merge_operation_runs(ops, exact_times=True), by_time=True)
    assert timed["start_ns"].to_pylist() == sorted(ops["start_ns"].to_pylist())


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_batches_of_any_size_give_the_same(chunk: int) -> None:
    rng = np.random.default_rng(chunk)
    rows = 700
    start = EPOCH + np.cumsum(rng.integers(1, 3_000_000, rows))
    columns = {
        "start_ns": start,
        "end_ns": start + 1,
        "busy_ns": np.ones(rows, np.int64),
        "interface": ["POSIX"] * rows,
        "rank": rng.integers(0, 5, rows),
        "op": rng.choice(["read", "write"], rows, p=[0.05, 0.95]),
        "offset": np.arange(rows) * 512 + rng.choice([0, 512], rows, p=[0.9, 0.1]),
        "size": [512] * rows,
        "count": [1] * rows,
    }
    ops = pa.Table.from_batches([build_table_batch(OPS, columns)])
    merger = Merger()
    parts = [merger.push(ops[at : at + chunk]) for at in range(0, rows, chunk)]
    assert by_stream(pa.concat_tables([*parts, merger.flush()]), COLUMNS) == by_stream(
        merge_operation_runs(ops), COLUMNS
    )
