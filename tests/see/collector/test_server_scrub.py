"""The server checks its own files: damage is in its status and its health, and queries of the server say which file."""

from __future__ import annotations

from pathlib import Path

from fairlead.see.collector.settings import Carry
from fairlead.see.collector.upkeep import Upkeep
from fairlead.store import scrub
from fairlead.store.lake import Lake
from fairlead.store.retention import Policy
from lake_rows import fill


class _Told:
    """Takes the place of what an upkeep tells its health to."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def find_gaps(self, _: int) -> list[object]:
        return []

    def write_events(self, _: object) -> None:
        return

    def build_rows(self, **_: object) -> list[dict[str, object]]:
        return []

    def write_health(self, rows: list[dict[str, object]]) -> None:
        self.rows = rows


def test_the_server_finds_damage_by_itself_and_says_so(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    told = _Told()
    with lake.open_writer() as writer:
        fill(writer.open_batch("test", 1), 1).commit()
        writer.flush()
        upkeep = Upkeep(lake, writer, told, told, told, told, Carry(), Policy())  # type: ignore[arg-type]
        upkeep._scrub()
        assert upkeep.scrubbed is not None
        assert upkeep.scrubbed.files > 0
        assert upkeep.scrubbed.checked == {}, "files this young are left: most are merged before"
        upkeep.watch(everything=True)
        assert [(row["probe"], row["state"]) for row in told.rows] == [("collector", "ok"), ("scrub", "ok")]
        path = next(one.path for one in scrub.list_shard_files(lake.place, "main") if one.table == "ops")
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        ledger = scrub.check_shard(lake.place, "main", scrub.Pace(None), again=True)
        assert ledger is not None
        upkeep._scrub()
        assert [one.table for one in upkeep.scrubbed.damaged.values()] == ["ops"]
        upkeep.watch(everything=True)
        assert told.rows[-1]["state"] == "failing"
        assert str(path.name) in str(told.rows[-1]["text"])
