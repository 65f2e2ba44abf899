"""Operations reduced while they stream: the same totals however they are cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.model.tables import OPS, build_table_batch
from fairlead.explain.analysis.operations import OperationReducer, OperationTotals


def batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    columns: dict[str, object] = {
        name: [r.get(name) for r in rows]
        for name in (
            "start_ns",
            "end_ns",
            "busy_ns",
            "node",
            "rank",
            "interface",
            "op",
            "file_id",
            "offset",
            "size",
            "stride",
            "count",
        )
    }
    return build_table_batch(OPS, columns)


def op(
    t: int,
    *,
    word: str = "write",
    rank: int = 0,
    file: int = 1,
    offset: int | None = 0,
    size: int | None = 10,
    last: int = 5,
    interface: str = "POSIX",
    count: int = 1,
    stride: int = 0,
) -> dict[str, object]:
    return {
        "start_ns": t,
        "end_ns": t + last,
        "busy_ns": last,
        "node": f"n{rank}",
        "rank": rank,
        "interface": interface,
        "op": word,
        "file_id": file,
        "offset": offset,
        "size": size,
        "stride": stride,
        "count": count,
    }


def reduce(*batches: pa.RecordBatch) -> dict[str, OperationTotals]:
    reducer = OperationReducer()
    for one in batches:
        reducer.push(one)
    return reducer.finish()


def test_counters_of_operations() -> None:
    rows = [op(0, word="open", size=None, offset=None), op(10), op(20, offset=10), op(30, word="read")]
    totals = reduce(batch(rows))["POSIX"]
    (row,) = totals.counters.to_pylist()
    assert (row["opens"], row["writes"], row["reads"]) == (1, 2, 1)
    assert (row["bytes_written"], row["bytes_read"], row["max_byte_written"]) == (20, 10, 19)
    assert (row["consec_writes"], row["seq_writes"]) == (1, 1)
    assert row["write_sizes"] == [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert row["write_time_s"] == pytest.approx(10e-9)
    assert (row["write_start_ns"], row["write_end_ns"]) == (10, 25)
    assert totals.metadata_ops == {"open": 1}
    assert totals.rank_node == ["n0"]


def test_repeats_are_told_by_who_moved_them() -> None:
    rows = [op(t, rank=r, word="read", offset=0, size=100) for t, r in ((0, 0), (10, 1), (20, 1))]
    repeats = reduce(batch(rows))["POSIX"].repeats
    assert repeats is not None
    assert repeats.any_rank.tolist() == [200, 0]
    assert repeats.same_rank.tolist() == [100, 0]


def test_read_modify_write() -> None:
    rows = [
        op(0, word="read", offset=0, size=4096),
        op(10, offset=100, size=50),
        op(20, word="read", offset=8192),
        op(30, offset=0, size=10),
    ]
    totals = reduce(batch(rows))["POSIX"]
    assert (totals.modify_reads, totals.modify_read_bytes) == (1, 4096)


def test_process_ids_are_numbered_by_rising_id() -> None:
    totals = reduce(batch([op(0, rank=3_537_790, size=7), op(5, rank=3_537_780, size=3)]))["POSIX"]
    assert totals.rank_bytes[1].tolist() == [3, 7]
    assert sorted(totals.counters.column("rank").to_pylist()) == [0, 1]


def test_threads_of_a_rank_are_not_counted_twice_as_busy() -> None:
    totals = reduce(batch([op(0, last=100), op(50, last=100, file=2)]))["POSIX"]
    assert totals.rank_busy_s[0] == pytest.approx(150e-9)
    assert totals.rank_time_s.sum() == pytest.approx(200e-9)


ROWS = st.lists(
    st.builds(
        op,
        st.integers(0, 3_000_000_000),
        word=st.sampled_from(["read", "write", "open", "stat"]),
        rank=st.integers(0, 3),
        file=st.integers(1, 3),
        offset=st.integers(0, 1000),
        size=st.integers(0, 5000),
        last=st.integers(0, 10_000_000),
    ),
    min_size=2,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.data())
def test_cutting_the_stream_changes_no_total(rows: list[dict[str, object]], data: st.DataObject) -> None:
    rows = sorted(rows, key=lambda r: r["start_ns"])  # type: ignore[arg-type, return-value]
    cut = data.draw(st.integers(1, len(rows) - 1))
    whole = reduce(batch(rows))["POSIX"]
    parts = reduce(batch(rows[:cut]), batch(rows[cut:]))["POSIX"]
    assert parts.rank_bytes.tolist() == whole.rank_bytes.tolist()
    assert parts.ops_by_size.tolist() == whole.ops_by_size.tolist()
    assert parts.metadata_ops == whole.metadata_ops
    np.testing.assert_allclose(parts.rank_time_s, whole.rank_time_s)
    key = lambda row: (row["rank"], row["file_id"])  # noqa: E731
    names = ("rank", "file_id", "reads", "writes", "bytes_read", "bytes_written", "read_sizes", "max_byte_read")
    one, two = ([{n: r[n] for n in names} for r in sorted(t.counters.to_pylist(), key=key)] for t in (whole, parts))
    assert one == two
    assert parts.repeats is not None
    assert whole.repeats is not None
    assert parts.repeats.any_rank.tolist() == whole.repeats.any_rank.tolist()
    assert parts.activity.nbytes.sum() == whole.activity.nbytes.sum()
    np.testing.assert_allclose(parts.total.series.sum(axis=1), whole.total.series.sum(axis=1))


def test_an_impossible_size_is_unknown_and_said() -> None:
    reducer = OperationReducer()
    reducer.push(batch([op(0, word="read", size=4096), op(10, word="read", size=2**62, count=3)]))
    totals = reducer.finish()["POSIX"]
    assert totals.rank_bytes.tolist() == [[4096], [0]]
    assert totals.operations == 4
    assert [(m.kind, m.why[:9]) for m in reducer.missing] == [("impossible_sizes", "3 of them")]
