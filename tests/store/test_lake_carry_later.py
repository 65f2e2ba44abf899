"""A collector that was killed is followed by one that answers before it has carried over what is in the log."""

from __future__ import annotations

from pathlib import Path

from fairlead.store import wal
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups
from fairlead.store.writer import Writer
from lake_rows import DAY_NS, DAY_ONE, OPS_ROWS, send, wire

NOON = DAY_ONE + DAY_NS // 2


def killed(place: object, lake: Lake, seq: int) -> None:
    """A writer that took a batch and ended without carrying anything over."""
    writer = Writer(lake.place, "main", now_ns=lambda: NOON, carry_later=True, derive=derive_rollups)
    assert send(writer, wire(seq)) == (1, 0)
    writer._segment.close()
    writer._lock.release()


def test_after_a_hundred_kills_nothing_is_carried_at_the_start_and_everything_counts_once(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    for seq in range(1, 101):
        killed(tmp_path, lake, seq)
    folder = lake.place.build_wal_path("main")
    writer = Writer(lake.place, "main", now_ns=lambda: NOON, carry_later=True, derive=derive_rollups)
    assert writer.left_segments == 100
    assert len(wal.list_wal_segments(folder)) == 101, "all are where they were"
    assert writer.backlog_bytes > 0
    assert [send(writer, wire(seq)) for seq in (1, 50, 100, 101)] == [(0, 1), (0, 1), (0, 1), (1, 0)]
    assert lake.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 101 * OPS_ROWS}]
    writer.recall()
    assert send(writer, wire(77)) == (0, 1)
    writer.flush()
    assert writer.left_segments == 0
    assert len(wal.list_wal_segments(folder)) == 1
    writer.close()
    assert lake.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 101 * OPS_ROWS}]
    plain = Lake.open(tmp_path / "plain", create=True)
    with Writer(plain.place, "main", now_ns=lambda: NOON, derive=derive_rollups) as writer:
        for seq in range(1, 102):
            send(writer, wire(seq))
    sums = "SELECT interval_ns, kind, id, sum(write_ops) AS n FROM rollup GROUP BY ALL ORDER BY ALL"
    assert lake.query(sums).equals(plain.query(sums))
