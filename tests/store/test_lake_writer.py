"""Taking batches in: whole, once, checked before they are acknowledged; large ones without holding them in memory."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.errors import InputError, LakeError
from fairlead.core.model.tables import OPS, build_table_batch
from fairlead.store import batch_writer, snapshot, wal, writer
from fairlead.store import part_files as parts
from fairlead.store.compaction import compact_tables
from fairlead.store.inventory import take_inventory
from fairlead.store.lake import Lake
from lake_rows import DAY_NS, OPS_ROWS, fill, ops_of, put
from waiting import PATIENCE_S


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", create=True)


def _counts(lake: Lake) -> dict[str, int]:
    rows = lake.query("SELECT job_id, count(*) AS n FROM ops GROUP BY 1").to_pylist()
    return {row["job_id"]: row["n"] for row in rows}


def test_a_batch_is_taken_once_while_open_and_after(lake: Lake) -> None:
    with lake.open_writer() as first:
        assert put(first, 1)
        assert not put(first, 1)
        assert first.has_batch("test:1")
        assert not first.has_batch("test:2")
        first.flush()
        assert not put(first, 1)
    with lake.open_writer() as second:
        assert second.has_batch("test:1")
        assert not put(second, 1)
    assert _counts(lake) == {"job-1": OPS_ROWS}


def test_batches_are_remembered_in_merged_and_in_new_files(lake: Lake) -> None:
    for job in range(4):
        with lake.open_writer() as one:
            assert put(one, job)
            if job == 2:
                compact_tables(lake, one)
    with lake.open_writer() as last:
        assert [put(last, job) for job in range(5)] == [False] * 4 + [True]


def test_each_number_of_a_stream_is_taken_once_in_any_order(lake: Lake) -> None:
    with lake.open_writer() as first:
        assert fill(first.open_batch("node7/boot1", 4), 4).commit()
        assert fill(first.open_batch("node7/boot1", 3), 3).commit()
        assert fill(first.open_batch("node7/boot1", 9), 9).commit()
        assert not fill(first.open_batch("node7/boot1", 3), 3).commit()
        assert fill(first.open_batch("node7/boot2", 1), 1).commit()
    with lake.open_writer() as second:
        assert [second.has_batch("node7/boot1", seq) for seq in (2, 3, 4, 5, 8, 9, 10)] == [
            False,
            True,
            True,
            False,
            False,
            True,
            False,
        ]
        assert not second.has_batch("node7/boot2", 2)
        assert fill(second.open_batch("node7/boot1", 7), 7).commit()
    assert set(_counts(lake)) == {"job-4", "job-3", "job-9", "job-7", "job-1"}


def test_what_is_not_committed_is_not_there(lake: Lake) -> None:
    with lake.open_writer() as first:
        batch = fill(first.open_batch("x"), 1)
        batch.abandon()
        put(first, 2)
    assert set(_counts(lake)) == {"job-2"}


def test_a_large_batch_is_written_ahead_and_seen_only_when_committed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "SPILL_BYTES", 10_000)
    folder = lake.place.build_table_path("main", "ops")
    with lake.open_writer() as first:
        batch = first.open_batch("large")
        for _ in range(20):
            batch.add(ops_of(1, 100))
        assert len(list(folder.rglob("*.parquet"))) > 3
        assert _counts(lake) == {}
        assert batch.commit()
        assert _counts(lake) == {"job-1": 2000}
        first.flush()
        assert _counts(lake) == {"job-1": 2000}
        again = first.open_batch("other")
        for _ in range(20):
            again.add(ops_of(2, 100))
        before = set(folder.rglob("*.parquet"))
        again.abandon()
        assert set(folder.rglob("*.parquet")) < before
    assert _counts(lake) == {"job-1": 2000}


def test_rows_that_cannot_be_stored_are_refused_before_they_are_acknowledged(lake: Lake) -> None:
    nulls = build_table_batch(OPS, {"start_ns": [1, 2]})
    broken = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int32()),
        pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
        ),
    )
    no_text = ops_of(1, 1).set_column(3, OPS.schema.field("node"), broken)
    wild = ops_of(1, 11_000)
    wild = wild.set_column(0, OPS.schema.field(0), pa.array(np.arange(11_000) * DAY_NS))
    with lake.open_writer() as first:
        for rows, error, what in [
            (nulls, LakeError, "null"),
            (no_text, LakeError, "UTF-8"),
            (wild, InputError, "days"),
        ]:
            batch = first.open_batch("bad")
            with pytest.raises(error, match=what):
                batch.add(rows)
            batch.abandon()
        assert put(first, 5)
    assert set(_counts(lake)) == {"job-5"}


def test_a_full_disk_loses_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lake.open_writer()
    put(first, 1)
    with monkeypatch.context() as full:

        def no_room(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(parts, "_write", no_room)
        with pytest.raises(LakeError, match="No space left") as caught:
            first.flush()
        assert caught.value.remedy
        put(first, 2)
        with pytest.raises(LakeError):
            first.flush()
    assert set(_counts(lake)) == {"job-1", "job-2"}
    put(first, 3)
    first.close()
    assert _counts(lake) == {f"job-{n}": OPS_ROWS for n in (1, 2, 3)}
    assert sum(holding.waiting_rows for holding in take_inventory(lake.place).tables) == 0


def test_a_damaged_segment_is_set_aside_and_the_rest_carried_over(lake: Lake) -> None:
    first = lake.open_writer()
    put(first, 1)
    put(first, 2)
    first.close(flush=False)
    [(_, path)] = [s for s in wal.list_wal_segments(lake.place.build_wal_path("main")) if s[1].stat().st_size > 100]
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)
    with lake.open_writer() as second:
        assert [p.name for p in second.damaged] == [f"{path.name}.damaged"]
        assert set(_counts(lake)) == {"job-2"}
        assert [put(second, 1), put(second, 2)] == [True, False]
    assert _counts(lake) == {"job-1": OPS_ROWS, "job-2": OPS_ROWS}
    assert take_inventory(lake.place).damaged_segments == [str(path) + ".damaged"]


def test_a_log_deleted_by_hand_does_not_swallow_what_comes_after(lake: Lake) -> None:
    for job in range(3):
        with lake.open_writer() as one:
            put(one, job)
    for _, path in wal.list_wal_segments(lake.place.build_wal_path("main")):
        path.unlink()
    with lake.open_writer() as one:
        put(one, 9)
    assert set(_counts(lake)) == {"job-0", "job-1", "job-2", "job-9"}


def test_many_threads_commit_while_the_segment_rolls(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROLL_BYTES", 20_000)
    with lake.open_writer() as one:
        taken: list[bool] = []

        def work(thread: int) -> None:
            # Every job is offered by two threads.
            taken.extend(put(one, job) for job in range(thread // 2 * 10, thread // 2 * 10 + 10))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert (taken.count(True), taken.count(False)) == (30, 30)
    assert _counts(lake) == {f"job-{n}": OPS_ROWS for n in range(30)}


def test_shards_are_read_together(lake: Lake) -> None:
    with lake.open_writer("a") as a, lake.open_writer("b") as b:
        put(a, 1)
        put(b, 2)
        a.flush()
        assert set(_counts(lake)) == {"job-1", "job-2"}
    found = take_inventory(lake.place)
    assert found.shards == ["a", "b"]
    assert found.batches == 2
    assert {(h.shard, h.table) for h in found.tables} == {
        (s, t) for s in "ab" for t in ("ops", "files", "file_counters", "layouts", "events")
    }


def test_the_inventory_counts_what_waits(lake: Lake) -> None:
    one = lake.open_writer()
    put(one, 1)
    one.flush()
    put(one, 2, day=3)
    [ops] = [h for h in take_inventory(lake.place).tables if h.table == "ops"]
    assert (ops.rows, ops.waiting_rows, ops.files, ops.first_day, ops.last_day) == (
        OPS_ROWS,
        OPS_ROWS,
        1,
        "2024-10-04",
        "2024-10-04",
    )
    one.close()
    [ops] = [h for h in take_inventory(lake.place).tables if h.table == "ops"]
    assert (ops.rows, ops.waiting_rows, ops.days, ops.last_day) == (2 * OPS_ROWS, 0, 2, "2024-10-07")


def test_tables_agree_however_often_a_segment_is_carried_over_meanwhile(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst writer there is: between any two tables a reader opens, it takes an input in and carries it over."""
    with lake.open_writer() as one:
        for job in range(2):
            put(one, job)
            one.flush()
        put(one, 2)
        real = snapshot.Snapshots._open
        jobs = iter(range(3, 10_000))

        def busy(self: snapshot.Snapshots, folder: Path) -> object:
            found = real(self, folder)
            put(one, next(jobs))
            one.flush()
            return found

        monkeypatch.setattr(snapshot.Snapshots, "_open", busy)
        for _ in range(3):
            seen = lake.query(
                "SELECT (SELECT max(file_id) FROM ops) AS ops, (SELECT max(file_id) FROM files) AS files, "
                "(SELECT max(file_id) FROM layouts) AS layouts, (SELECT count(*) FROM ops) AS rows"
            ).to_pylist()[0]
            assert seen["ops"] == seen["files"] == seen["layouts"], seen
            assert seen["rows"] == OPS_ROWS * (seen["ops"] + 1)


def test_a_copy_of_the_tables_alone_is_read(lake: Lake, tmp_path: Path) -> None:
    with lake.open_writer() as one:
        put(one, 1)
        one.flush()
        put(one, 2)
    shutil.copytree(lake.place.root, tmp_path / "copy", ignore=shutil.ignore_patterns("wal"))
    assert set(_counts(Lake.open(tmp_path / "copy"))) == {"job-1", "job-2"}
