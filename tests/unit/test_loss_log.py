"""The log cannot be synced for a while: nothing acknowledged is lost, nothing is acknowledged, and it recovers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fairlead.errors import LakeError
from fairlead.lake.store import Lake
from fairlead.lake.writer import Writer
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
