"""Batches as nodes send them: taken once in any order, whole bodies or nothing, what is derived of them exact."""

from __future__ import annotations

import errno
import io
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.encoding import (
    Header,
    encode_batch,
    encode_fractions,
    encode_lists,
    encode_numbers,
    encode_same_word,
    encode_words,
)
from fairlead.core.batches.rows import build_batch_rows, decode_batch_rows
from fairlead.core.compression.node_groups import merge_node_groups, split_node_groups
from fairlead.core.errors import LakeError, OversizeError, TooOldError, UnfitError
from fairlead.core.model.tables import OPS, build_table_batch
from fairlead.store import batch_writer, wal, writer
from fairlead.store import op_groups as grouped
from fairlead.store import wal_follower as tailing
from fairlead.store import wal_rows as hot
from fairlead.store.compaction import compact_tables, find_compaction_groups
from fairlead.store.lake import Lake
from fairlead.store.maintenance import run_lake_maintenance
from fairlead.store.part_files import Part, parse_part_tier
from fairlead.store.received_batches import NOTHING, ReceivedRanges, merge_received_rows
from fairlead.store.retention import Policy, expire_batch_numbers, expire_retained_days
from fairlead.store.snapshot import WantedRows
from fairlead.store.spill_folder import make_spill_folder as spill_folder
from fairlead.store.writer import Writer
from lake_rows import DAY_NS, DAY_ONE, OPS_ROWS, ops_of, put, send, sums, wire
from waiting import PATIENCE_S

NOON = DAY_ONE + DAY_NS // 2


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", create=True)


def _writer(lake: Lake, *, now_ns: int = NOON, **more: object) -> Writer:
    return Writer(lake.place, "main", now_ns=lambda: now_ns, **more)  # type: ignore[arg-type]


def _seqs(lake: Lake) -> dict[int, int]:
    rows = lake.query("SELECT file_id, count(*) AS n FROM ops GROUP BY 1 ORDER BY 1").to_pylist()
    return {row["file_id"]: row["n"] for row in rows}


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 900
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_batch_is_taken_once_in_any_order_by_this_writer_and_the_next(lake: Lake) -> None:
    with _writer(lake) as one:
        assert send(one, wire(5), wire(6)) == (2, 0)
        assert send(one, wire(6), wire(3), wire(3)) == (1, 2)
        one.flush()
        assert send(one, wire(3), wire(4), wire(5, boot="b2")) == (2, 1)
        assert _seqs(lake) == {3: OPS_ROWS, 4: OPS_ROWS, 5: 2 * OPS_ROWS, 6: OPS_ROWS}
    with _writer(lake) as two:
        compact_tables(lake, two, keep_hours=0)
        assert send(two, *(wire(seq) for seq in range(2, 8))) == (2, 4)
    ranges = lake.query("SELECT first_seq, seq FROM _batches WHERE stream = 'n1/b1/ops' ORDER BY ALL").to_pylist()
    assert [(row["first_seq"], row["seq"]) for row in ranges] == [(2, 2), (3, 6), (7, 7)]
    with _writer(lake) as three:
        compact_tables(lake, three, keep_hours=0)
    ranges = lake.query("SELECT first_seq, seq, batches FROM _batches WHERE stream = 'n1/b1/ops'").to_pylist()
    assert ranges == [{"first_seq": 2, "seq": 7, "batches": 6}]


def test_the_log_holds_the_bytes_as_they_were_sent(lake: Lake) -> None:
    one = _writer(lake)
    body = wire(1) + wire(2)
    send(one, wire(2))
    send(one, body)
    [(_, path)] = wal.list_wal_segments(lake.place.build_wal_path("main"))
    assert [bytes(frame.body) for frame in wal.read_wal_segment(path).frames] == [wire(2), wire(1)]
    assert all(len(str(frame.meta)) < 60 for frame in wal.read_wal_segment(path).frames)
    one.close(flush=False)
    assert _seqs(lake) == {1: OPS_ROWS, 2: OPS_ROWS}
    _writer(lake).close()
    assert _seqs(lake) == {1: OPS_ROWS, 2: OPS_ROWS}


def test_a_body_is_taken_whole_or_not_at_all(lake: Lake) -> None:
    month = 30 * DAY_NS
    with _writer(lake, now_ns=DAY_ONE + 2 * month) as one:
        now = DAY_ONE + 2 * month
        for bad, error in [
            (wire(2, start_ns=DAY_ONE), TooOldError),
            (wire(2, start_ns=now + 2 * DAY_NS), UnfitError),
            (wire(2, start_ns=now, table="opz"), UnfitError),
        ]:
            with pytest.raises(error):
                send(one, wire(1, start_ns=now), bad)
        with pytest.raises(OversizeError):
            decode_batch_rows(wire(1, rows=2000) + wire(2, rows=2000), "x", 90_000)
        assert not one.has_batch("n1/b1/ops", 1)
        assert _seqs(lake) == {}
        assert send(one, wire(1, start_ns=now)) == (1, 0)


def test_a_full_disk_takes_nothing_and_leaves_it_unknown(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with _writer(lake) as one:
        with monkeypatch.context() as full:

            def no_room(*_: object) -> int:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            full.setattr(wal.os, "write", no_room)
            with pytest.raises(LakeError, match="No space left"):
                send(one, wire(1), wire(2))
        assert send(one, wire(1), wire(2)) == (2, 0)


def test_many_threads_share_syncs_while_segments_are_carried_over(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROLL_BYTES", 20_000)
    done: list[tuple[int, int]] = []
    with _writer(lake) as one:

        def work(thread: int) -> None:
            # Every batch is sent by two threads.
            done.extend(send(one, wire(seq), wire(seq + 100)) for seq in range(thread // 2 * 10, thread // 2 * 10 + 10))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        _until(lambda: one.backlog_bytes < 40_000)
        assert one.trouble is None
        assert len(list(lake.place.build_table_path("main", "ops").rglob("*.parquet"))) > 1
    assert [sum(column) for column in zip(*done, strict=True)] == [60, 60]
    assert set(_seqs(lake).values()) == {OPS_ROWS}
    assert len(_seqs(lake)) == 60


def test_the_job_of_a_batch_becomes_a_job(lake: Lake) -> None:
    said: dict[str, object] = {"job_id": "7", "user": "ada", "start_ns": DAY_ONE}
    with _writer(lake) as one:
        send(one, wire(1, said=said), wire(2, said=said), wire(3, said={"job_id": 5}))
        assert lake.query("SELECT job_id, user FROM jobs").to_pylist() == [{"job_id": "7", "user": "ada"}]
    assert lake.query("SELECT job_id, user FROM jobs").to_pylist() == [{"job_id": "7", "user": "ada"}]


def _rolled(lake: Lake, interval_ns: int) -> int:
    sql = "SELECT coalesce(sum(write_bytes), 0)::BIGINT AS n FROM rollup WHERE interval_ns = $i"
    return int(lake.query(sql, {"i": interval_ns})["n"][0].as_py())


def test_what_is_derived_of_rows_comes_with_them_also_of_those_written_ahead(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "SPILL_BYTES", 10_000)
    with _writer(lake, derive=sums) as one:
        send(one, wire(1), wire(2))
        large = one.open_batch("large")
        for _ in range(5):
            large.add(ops_of(1, 200))
        assert large.commit()
        one.flush()
        assert _rolled(lake, 10**9) == _rolled(lake, 60 * 10**9) == 4096 * (2 * OPS_ROWS + 1000)
        send(one, wire(3))
    assert _rolled(lake, 10**9) == 4096 * (3 * OPS_ROWS + 1000)
    names = [path.name.split("-")[1] for path in lake.place.build_table_path("main", "rollup").rglob("*.parquet")]
    assert set(names) == {"i1", "i60"}


def test_numbers_a_node_made_up_cost_nobody_else_their_sums(lake: Lake) -> None:
    def strict(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        if "ops" in tables and 2 in tables["ops"]["file_id"].to_pylist():
            raise pa.ArrowInvalid("overflow")
        return sums(tables)

    with _writer(lake, derive=strict) as one:
        send(one, wire(1), wire(2), wire(3))
        one.flush()
        assert one.underived_rows == OPS_ROWS
        assert one.backlog_bytes == 0
    assert len(_seqs(lake)) == 3
    assert _rolled(lake, 10**9) == 4096 * 2 * OPS_ROWS


def test_a_body_is_decoded_as_a_file_is() -> None:
    rows = 20_000
    columns = {
        "ts_ns": encode_numbers([DAY_ONE + k for k in range(rows)]),
        "interval_ns": encode_numbers([5] * rows),
        "node": encode_same_word("n1", rows),
        "op_class": encode_words(["read", "write"] * (rows // 2)),
        "requests": encode_numbers([None, 7] * (rows // 2)),
        "queue_len_mean": encode_fractions([0.5] * rows),
        "wait_ns_histogram": encode_lists([None, [1, 2]] * (rows // 2)),
    }
    body = encode_batch(Header("forwarder", 1, "n1", "b", 1, rows), columns) + wire(3)
    one, two = decode_batch_rows(body)
    assert (one.begin, one.end, two.end) == (0, two.begin, len(body))
    [batch, _] = decode_stream_batches(io.BytesIO(body), "x")
    [row_batch] = build_batch_rows(batch, "x")
    assert isinstance(row_batch, pa.RecordBatch)
    assert one.rows is not None
    assert one.rows.equals(row_batch)
    one.rows.validate(full=True)
    assert one.rows.slice(0, 2).to_pylist() == [
        {
            "ts_ns": DAY_ONE,
            "interval_ns": 5,
            "node": "n1",
            "job_id": None,
            "op_class": "read",
            "requests": None,
            "bytes": None,
            "wait_ns_histogram": None,
            "service_ns_histogram": None,
            "queue_len_mean": 0.5,
            "queue_len_max": None,
            "cluster": None,
        },
        {
            "ts_ns": DAY_ONE + 1,
            "interval_ns": 5,
            "node": "n1",
            "job_id": None,
            "op_class": "write",
            "requests": 7,
            "bytes": None,
            "wait_ns_histogram": [1, 2],
            "service_ns_histogram": None,
            "queue_len_mean": 0.5,
            "queue_len_max": None,
            "cluster": None,
        },
    ]
    assert decode_batch_rows(b"") == []


def _nodes_alike(rows: int) -> list[bytes]:
    return [wire(1, node=f"n{node}", rows=rows) for node in range(8)]


def test_rows_in_groups_are_rows_of_ops_to_every_query(lake: Lake) -> None:
    def always(ops: pa.Table) -> tuple[pa.Table, pa.Table]:
        return merge_node_groups(ops, always=True)

    def rows() -> list[dict[str, object]]:
        return sorted(lake.read("ops").to_pylist(), key=lambda row: (row["node"], row["start_ns"]))

    with _writer(lake, regroup=always) as one:
        send(one, *_nodes_alike(40), wire(9, node="alone", start_ns=DAY_ONE + 10**10))
        before = rows()
        one.flush()
        assert rows() == before
        assert lake.query("SELECT count(*) AS n FROM ops_stored").to_pylist() == [{"n": OPS_ROWS}]
        assert lake.read("op_groups").num_rows > 0
        found = lake.query(
            "SELECT count(*) AS n FROM ops WHERE start_ns >= $a",
            {"a": DAY_ONE + 3 * 10**6},
            between=(DAY_ONE + 3 * 10**6, DAY_ONE + 2 * 10**9),
        )
        assert found.to_pylist() == [{"n": 37 * 8}]


ENGINE = duckdb.connect()
numbers_or_none = st.none() | st.integers(-(1 << 62), 1 << 62)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 10**9 - 1), numbers_or_none, numbers_or_none),
        min_size=4,
        max_size=30,
    )
)
def test_sql_expands_groups_as_python_does(members: list[tuple[int, int, int, int | None, int | None]]) -> None:
    count = len(members)
    ops = pa.Table.from_batches(
        [
            build_table_batch(
                OPS,
                {
                    "start_ns": [m[2] for m in members],
                    "end_ns": [m[2] + 9 for m in members],
                    "busy_ns": [3] * count,
                    "node": [f"n{m[0]}" for m in members],
                    "job_id": ["7"] * count,
                    "rank": [m[1] for m in members],
                    "interface": ["P"] * count,
                    "op": ["read"] * count,
                    "file_id": [m[3] for m in members],
                    "offset": [m[4] for m in members],
                    "count": [1] * count,
                },
            )
        ]
    )
    _, op_groups = merge_node_groups(ops, always=True)
    if not op_groups.num_rows:
        return
    wanted = split_node_groups(op_groups)
    cursor = ENGINE.cursor()
    cursor.register("g", hot_day(op_groups))
    found = cursor.sql(grouped.select_op_groups("g")).to_arrow_table()
    cursor.close()
    order = [(name, "ascending") for name in ("start_ns", "node", "rank", "file_id", "offset")]
    names = [name for name in OPS.schema.names if not name.endswith("s_ns") or name == "busy_ns"]
    plain = pa.table({name: wanted[name].cast(found[name].type) for name in names})
    assert found.select(names).sort_by(order).to_pylist() == plain.sort_by(order).to_pylist()


def hot_day(table: pa.Table) -> pa.Table:
    return table.append_column("day", pa.nulls(table.num_rows, pa.date32()))


def test_hot_rows_are_decoded_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = hot.load_wal_frame

    def counting(frame: wal.Frame, *, strict: bool) -> hot.Load:
        decoded.append(1)
        return real(frame, strict=strict)

    monkeypatch.setattr(tailing.hot, "load_wal_frame", counting)
    with _writer(lake) as one:
        send(one, wire(1))
        for _ in range(3):
            assert lake.query("SELECT count(*) AS n FROM events").to_pylist() == [{"n": 0}]
        assert not decoded
        for seq in range(2, 5):
            send(one, wire(seq))
            assert len(_seqs(lake)) == seq
            assert len(_seqs(lake)) == seq
        assert len(decoded) == 4
        monkeypatch.setattr(tailing, "KEPT_BYTES", 0)
        fresh = Lake.open(lake.place.root)
        assert len(_seqs(fresh)) == len(_seqs(fresh)) == 4
        assert len(decoded) == 12
        one.flush()
        assert len(_seqs(lake)) == 4


def test_files_of_another_time_are_not_opened(lake: Lake) -> None:
    with _writer(lake) as one:
        for seq in range(4):
            send(one, wire(seq, start_ns=DAY_ONE + seq * 10**10))
            if seq < 3:
                one.flush()
        between = (DAY_ONE + 10**10, DAY_ONE + 10**10 + 5)
        view = lake._snapshots.take_snapshot(["ops"], WantedRows(between))["ops"]
        assert (sum(len(group.paths) for group in view.groups), view.waiting) == (1, [])
        late = lake._snapshots.take_snapshot(["ops"], WantedRows((DAY_ONE + 3 * 10**10, DAY_ONE + 4 * 10**10)))["ops"]
        assert (late.groups, sum(rows.num_rows for rows in late.waiting)) == ([], OPS_ROWS)
        assert lake.read("ops", from_ns=between[0], to_ns=between[1]).num_rows == 1
        assert len(_seqs(lake)) == 4


def test_each_tier_is_kept_for_its_own_time(lake: Lake) -> None:
    days = {"now": DAY_ONE}
    one = Writer(lake.place, "main", now_ns=lambda: days["now"], derive=sums)
    send(one, wire(1), wire(2))
    one.flush()
    send(one, wire(3))
    one.flush()
    assert run_lake_maintenance(lake, one).expired == []
    days["now"] = DAY_ONE + 20 * DAY_NS
    assert {(e.table, e.tier) for e in run_lake_maintenance(lake, one).expired} == {("ops", ""), ("rollup", "i1")}
    assert (_rolled(lake, 10**9), _rolled(lake, 60 * 10**9)) == (0, 4096 * 3 * OPS_ROWS)
    assert lake.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 0}]
    assert send(one, wire(1)) == (0, 1)
    days["now"] = DAY_ONE + 200 * DAY_NS
    kept = Policy(rollup_1min_days=None)
    assert run_lake_maintenance(lake, one, kept).expired == []
    assert {(e.table, e.tier) for e in run_lake_maintenance(lake, one).expired} == {("rollup", "i60")}
    one.close()


def test_streams_long_silent_are_forgotten_and_their_batches_refused(lake: Lake) -> None:
    days = {"now": DAY_ONE}
    one = Writer(lake.place, "main", now_ns=lambda: days["now"])
    put(one, 1)
    send(one, wire(1), wire(2))
    one.flush()
    assert expire_batch_numbers(one) == 0
    days["now"] = DAY_ONE + 31 * DAY_NS
    assert expire_batch_numbers(one) == 0
    with pytest.raises(TooOldError) as caught:
        send(one, wire(1))
    assert caught.value.exit_code == 7
    days["now"] = DAY_ONE + 33 * DAY_NS
    send(one, wire(8, start_ns=days["now"]))
    assert expire_batch_numbers(one) == 1
    assert not one.has_batch("n1/b1/ops", 1)
    assert one.has_batch("n1/b1/ops", 8)
    assert one.has_batch("test:1")
    seen: set[str] = set()
    assert (expire_batch_numbers(one, seen), len(seen)) == (0, 1)
    one.close()


def test_maintaining_merges_by_number_within_a_tier(lake: Lake) -> None:
    with _writer(lake, derive=sums) as one:
        for seq in range(9):
            send(one, wire(seq))
            one.flush()
        done = {m.table: (m.files_before, m.files_after) for m in run_lake_maintenance(lake, one, keep_hours=0).merged}
        assert done == {"ops": (9, 1), "rollup": (18, 2), "_batches": (9, 1)}
        assert _rolled(lake, 10**9) == _rolled(lake, 60 * 10**9) == 9 * OPS_ROWS * 4096
        expire_retained_days(one, before_ns=DAY_ONE + DAY_NS, tables=["rollup"], tier="i1")
        assert (_rolled(lake, 10**9), _rolled(lake, 60 * 10**9)) == (0, 9 * OPS_ROWS * 4096)


def test_what_is_due_is_merged_in_portions_unless_all_is_asked_for() -> None:
    parts = [Part(f"day=d/v1-i1-{n:016x}-x.parquet", "d", 10, 30 << 20) for n in range(12)]
    parts += [Part(f"day=d/v1-i60-{n:016x}-x.parquet", "d", 10, 30 << 20) for n in range(8)]
    assert [len(group) for group in find_compaction_groups(parts, thorough=False)] == [5, 3, 5, 5, 2]
    assert all(
        len({parse_part_tier(part.path) for part in group}) == 1
        for group in find_compaction_groups(parts, thorough=False)
    )
    assert sorted(len(group) for group in find_compaction_groups(parts, thorough=True)) == [8, 12]
    assert find_compaction_groups(parts[:7], thorough=False) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=60), st.integers(1, 5))
def test_ranges_know_what_a_set_knows(batches: list[tuple[int, int]], every: int) -> None:
    """Also when they are written, merged and read again in between."""
    known: set[tuple[int, int]] = set()
    taken, rows = ReceivedRanges(), None
    for number, (key, seq) in enumerate(batches):
        assert taken.has(key, seq) == ((key, seq) in known)
        taken.add(key, seq)
        known.add((key, seq))
        note = hot.Note(f"s{key}", seq, key, number, "wire", "", 1)
        table = hot.build_wal_rows_notes([hot.Load([note])])
        rows = table if rows is None else pa.concat_tables([rows, table])
        if number % every == 0:
            rows = merge_received_rows(rows)
            from fairlead.store.received_batches import read_received_firsts, sort_received_rows

            taken = ReceivedRanges(
                sort_received_rows(rows["key"].to_numpy(), read_received_firsts(rows), rows["seq"].to_numpy())
            )
    for key in range(4):
        for seq in range(-1, 32):
            assert taken.has(key, seq) == ((key, seq) in known)
    if rows is not None:
        assert sum(merge_received_rows(rows)["rows"].to_pylist()) == len(batches)


def test_a_range_without_a_beginning_holds_everything_before() -> None:
    notes = [hot.Note("s", seq, 5, seq, "", "", 1) for seq in (4, 9)]
    rows = hot.build_wal_rows_notes([hot.Load(notes)])
    old = rows.set_column(rows.column_names.index("first_seq"), "first_seq", pa.nulls(2, pa.int64()))
    one = merge_received_rows(old)
    assert (one["seq"].to_pylist(), one["first_seq"].to_pylist()) == ([9], [None])
    without = merge_received_rows(rows.drop_columns(["first_seq", "batches"]))
    assert without["seq"].to_pylist() == [9]
    assert not ReceivedRanges(NOTHING).has(5, 4)


def test_spill_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    alive = spill_folder()
    left = tmp_path / "fairlead-spill-left"
    left.mkdir()
    (left / "lock").touch()
    (left / "spilled").touch()
    young = tmp_path / "fairlead-spill-young"
    young.mkdir()
    again = spill_folder()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([alive.name, young.name, again.name])
