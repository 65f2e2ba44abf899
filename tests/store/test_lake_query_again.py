"""A query asked again uses a connection of before only when the lake has not changed; one that takes long is ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.core.errors import LakeError
from fairlead.core.model.tables import EVENTS, build_table_batch
from fairlead.store.lake import Lake


def _put(lake: Lake, number: int, *, flush: bool) -> None:
    with lake.open_writer() as writer:
        batch = writer.open_batch("test", number)
        batch.add(build_table_batch(EVENTS, {"ts_ns": [number], "component": ["c"], "kind": ["k"], "text": ["t"]}))
        batch.commit()
        if flush:
            writer.flush()
        else:
            writer.close(flush=False)


def test_each_query_sees_what_was_written_before_it(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    sql = "SELECT count(*) AS n, max(ts_ns) AS last FROM events"
    for number in range(1, 7):
        _put(lake, number, flush=number % 3 != 0)
        for _ in range(2):
            assert lake.query(sql).to_pylist() == [{"n": number, "last": number}]
    assert lake.query("SELECT count(*) AS n FROM jobs").to_pylist() == [{"n": 0}]


def test_a_query_that_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    _put(lake, 1, flush=True)
    for _ in range(3):
        with pytest.raises(Exception, match="query"):
            lake.query("SELECT nothing FROM events")
        assert lake.query("SELECT kind FROM events").num_rows == 1


def test_a_query_beyond_its_time_is_ended(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    _put(lake, 1, flush=True)
    endless = "SELECT sum(a.range * b.range) FROM events, range(10000000) a, range(10000000) b"
    with pytest.raises(LakeError, match=r"longer than 0\.2 s"):
        lake.query(endless, timeout_s=0.2)
    assert lake.query("SELECT kind FROM events", timeout_s=60).num_rows == 1
