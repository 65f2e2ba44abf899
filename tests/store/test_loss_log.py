"""The log cannot be synced for a while: nothing acknowledged is lost, nothing is acknowledged, and it recovers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fairlead.core.errors import LakeError
from fairlead.store import wal
from fairlead.store.lake import Lake
from fairlead.store.writer import Writer
from lake_rows import DAY_NS, DAY_ONE, OPS_ROWS, send, wire

NOON = DAY_ONE + DAY_NS // 2


def counts(lake: Lake) -> dict[int, int]:
    rows = lake.query("SELECT file_id, count(*) AS n FROM ops GROUP BY 1 ORDER BY 1").to_pylist()
    return {row["file_id"]: row["n"] for row in rows}


def test_a_log_that_could_not_be_synced_is_carried_over_before_more_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    lake = Lake.open(tmp_path / "lake", create=True)
    with Writer(lake.place, "main", now_ns=lambda: NOON) as writer:
        assert send(writer, wire(1)) == (1, 0)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", full)
            for seq in (2, 2, 3):
                with pytest.raises(LakeError) as refused:
                    send(writer, wire(seq))
                assert isinstance(refused.value.__cause__, OSError)
                assert refused.value.__cause__.errno == errno.ENOSPC
        for seq in (1, 2, 4):
            with pytest.raises(LakeError):  # what is known is not called so while it may not be on disk
                send(writer, wire(seq))
        assert writer.flush() >= 1
        answers = {seq: send(writer, wire(seq)) for seq in (1, 2, 3, 4)}
        assert answers[1] == (0, 1)
        assert answers[2] == (0, 1), "it was carried over, though never acknowledged: sent again, it is known"
        assert counts(lake) == dict.fromkeys((1, 2, 3, 4), OPS_ROWS)
    with Writer(lake.place, "main", now_ns=lambda: NOON) as writer:
        assert send(writer, wire(3)) == (0, 1)
        assert counts(lake) == dict.fromkeys((1, 2, 3, 4), OPS_ROWS)


def test_killed_after_a_failed_sync_every_batch_is_there_once_when_it_was_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    lake = Lake.open(tmp_path / "lake", create=True)
    writer = Writer(lake.place, "main", now_ns=lambda: NOON)
    assert send(writer, wire(1)) == (1, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", full)
        with pytest.raises(LakeError):
            send(writer, wire(2))
        with pytest.raises(LakeError):
            writer.close(flush=False)
    with Writer(lake.place, "main", now_ns=lambda: NOON) as writer:
        assert sum(send(writer, wire(1), wire(2))) == 2
        assert counts(lake) == {1: OPS_ROWS, 2: OPS_ROWS}


def test_frames_behind_a_damaged_length_are_not_dropped_as_torn(tmp_path: Path) -> None:
    """A flipped bit in a length makes all that follows look cut off: it is kept for a person, and told."""
    lake = Lake.open(tmp_path / "lake", create=True)
    writer = Writer(lake.place, "main", now_ns=lambda: NOON)
    for seq in (1, 2, 3):
        send(writer, wire(seq))
    writer.close(flush=False)
    [segment] = (tmp_path / "lake").rglob("*.wal")
    data = bytearray(segment.read_bytes())
    second = len(data) // 3
    first_length = wal.read_wal_segment(segment).frames[0]
    at = data.index(bytes(first_length.body)) + len(first_length.body)
    assert 0 < at - second < len(data)
    data[at + 15] ^= 0x40  # the length of the second frame's body
    segment.write_bytes(data)
    with Writer(lake.place, "main", now_ns=lambda: NOON) as writer:
        assert [path.name for path in writer.damaged] == [f"{segment.name}.damaged"]
        assert writer.damaged[0].read_bytes() == data
        assert counts(lake) == {1: OPS_ROWS}


def test_a_segment_cut_off_by_a_kill_is_not_called_damaged(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    writer = Writer(lake.place, "main", now_ns=lambda: NOON)
    send(writer, wire(1))
    send(writer, wire(2))
    writer.close(flush=False)
    [segment] = (tmp_path / "lake").rglob("*.wal")
    segment.write_bytes(segment.read_bytes()[:-7])
    with Writer(lake.place, "main", now_ns=lambda: NOON) as writer:
        assert writer.damaged == []
        assert counts(lake) == {1: OPS_ROWS}


@pytest.mark.parametrize("damage", ["middle", "junk", "gone"])
@pytest.mark.parametrize("table", ["ops", "_batches"])
def test_a_damaged_file_of_a_table_is_an_error_with_a_next_step(tmp_path: Path, damage: str, table: str) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    with Writer(lake.place, "main", now_ns=lambda: NOON) as writer:
        send(writer, wire(1))
    [path] = (tmp_path / "lake" / "shards" / "main" / table).rglob("*.parquet")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"x" * 200 if damage == "junk" else data[:4] + bytes(len(data) - 4))
    ask = {
        "ops": lambda: Lake.open(tmp_path / "lake").query("SELECT sum(size) FROM ops"),
        "_batches": lambda: Writer(lake.place, "main", now_ns=lambda: NOON),
    }[table]
    with pytest.raises(LakeError) as told:
        ask()
    assert "fairlead lake scrub --from BACKUP" in (told.value.remedy or "")
    assert path.name in str(told.value)
