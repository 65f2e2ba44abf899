"""Backups: a whole copy while rows wait and after, only what is new, damage found, nothing else overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.main import cli
from fairlead.core.errors import CorruptInputError, LakeError, UsageError
from fairlead.store import backup as backup_module
from fairlead.store import batch_writer
from fairlead.store.backup import backup_lake, restore_lake
from fairlead.store.compaction import compact_tables
from fairlead.store.lake import Lake
from fairlead.store.writer import Writer
from lake_rows import DAY_ONE, OPS_ROWS, ops_of, put, send, sums, wire


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", create=True)


def _jobs(lake: Lake) -> dict[str, int]:
    return {r["job_id"]: r["n"] for r in lake.query("SELECT job_id, count(*) AS n FROM ops GROUP BY 1").to_pylist()}


def test_a_copy_holds_tables_and_what_waits(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_writer, "SPILL_BYTES", 10_000)
    with lake.open_writer() as one, lake.open_writer("other") as other:
        put(one, 1)
        one.flush()
        put(one, 2)
        put(other, 3)
        large = one.open_batch("large")
        for _ in range(20):
            large.add(ops_of(4, 100))
        large.commit()
        before = _jobs(lake)
        done = backup_lake(lake.place, tmp_path / "copy")
        assert done.files == done.copied_files > 5
        put(one, 5)
        one.flush()
        compact_tables(lake, one, keep_hours=0)
    restore_lake(tmp_path / "copy", tmp_path / "again")
    again = Lake.open(tmp_path / "again")
    assert _jobs(again) == before == {"job-1": OPS_ROWS, "job-2": OPS_ROWS, "job-3": OPS_ROWS, "job-4": 2000}
    with again.open_writer() as one:
        assert [put(one, n) for n in (1, 2, 5)] == [False, False, True]
    assert set(_jobs(again)) == {f"job-{n}" for n in range(1, 6)}


def test_what_nodes_sent_is_once_in_the_copy_with_its_sums(lake: Lake, tmp_path: Path) -> None:
    with Writer(lake.place, "main", now_ns=lambda: DAY_ONE, derive=sums) as one:
        send(one, wire(1), wire(2))
        one.flush()
        send(one, wire(3))
        backup_lake(lake.place, tmp_path / "copy")
    restore_lake(tmp_path / "copy", tmp_path / "again")
    again = Lake.open(tmp_path / "again")
    with Writer(again.place, "main", now_ns=lambda: DAY_ONE, derive=sums) as one:
        assert send(one, wire(2), wire(3), wire(4)) == (1, 2)
    for one_lake, rows in ((again, 4), (lake, 3)):
        [row] = one_lake.query(
            "SELECT sum(write_bytes)::BIGINT AS n FROM rollup WHERE interval_ns = 1000000000"
        ).to_pylist()
        assert row["n"] == rows * OPS_ROWS * 4096


@pytest.mark.parametrize("link", [False, True])
def test_only_what_is_new_is_copied_again(lake: Lake, tmp_path: Path, link: bool) -> None:
    copy = tmp_path / "copy"
    with lake.open_writer() as one:
        put(one, 1)
        one.flush()
        first = backup_lake(lake.place, copy, link=link)
        nothing = backup_lake(lake.place, copy, link=link)
        assert (nothing.files, nothing.copied_files) == (first.files, 0)
        put(one, 2)
        one.flush()
        second = backup_lake(lake.place, copy, link=link)
        assert 0 < second.copied_files < second.files
        files = list(copy.rglob("*.parquet"))
        assert {path.stat().st_nlink for path in files} == {2 if link else 1}
        compact_tables(lake, one, keep_hours=0)
        third = backup_lake(lake.place, copy, link=link)
    assert third.files == len([p for p in copy.rglob("*") if p.is_file()]) - 1
    restore_lake(copy, tmp_path / "again")
    assert _jobs(Lake.open(tmp_path / "again")) == {"job-1": OPS_ROWS, "job-2": OPS_ROWS}


def test_a_backup_that_fails_leaves_the_one_before(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    with lake.open_writer() as one:
        put(one, 1)
        backup_lake(lake.place, copy)
        put(one, 2)
        one.flush()
        with monkeypatch.context() as broken:

            def fails(*_: object) -> None:
                raise OSError(28, os.strerror(28))

            broken.setattr(backup_module, "write_lake_folder_file", fails)
            with pytest.raises(LakeError, match="No space left"):
                backup_lake(lake.place, copy)
    restore_lake(copy, tmp_path / "again")
    assert _jobs(Lake.open(tmp_path / "again")) == {"job-1": OPS_ROWS}


def test_damage_is_found_and_nothing_opens_as_a_lake(lake: Lake, tmp_path: Path) -> None:
    with lake.open_writer() as one:
        put(one, 1)
    copy = tmp_path / "copy"
    backup_lake(lake.place, copy)
    victim = next(iter(copy.rglob("*.parquet")))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.raises(CorruptInputError, match="damaged"):
        restore_lake(copy, tmp_path / "bad")
    with pytest.raises(LakeError):
        Lake.open(tmp_path / "bad")
    victim.unlink()
    with pytest.raises(CorruptInputError, match="missing"):
        restore_lake(copy, tmp_path / "worse")
    manifest = json.loads((copy / "backup.json").read_text())
    manifest["files"]["../out"] = manifest["files"]["lake.toml"]
    (copy / "backup.json").write_text(json.dumps(manifest))
    with pytest.raises(CorruptInputError):
        restore_lake(copy, tmp_path / "worst")
    assert not (tmp_path / "out").exists()


def test_nothing_else_is_overwritten(lake: Lake, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").touch()
    with pytest.raises(UsageError, match="something else"):
        backup_lake(lake.place, full)
    with pytest.raises(UsageError, match="inside"):
        backup_lake(lake.place, lake.place.root / "copy")
    with pytest.raises(UsageError, match="no backup"):
        restore_lake(full, tmp_path / "new")
    backup_lake(lake.place, tmp_path / "copy")
    with pytest.raises(UsageError, match="not empty"):
        restore_lake(tmp_path / "copy", full)


def test_the_command_copies_restores_and_tells(lake: Lake, tmp_path: Path) -> None:
    with lake.open_writer() as one, lake.open_writer("other") as other:
        put(one, 1)
        put(other, 2)

        def run(*arguments: object) -> str:
            result = CliRunner().invoke(cli, ["lake", *map(str, arguments)])
            assert result.exit_code == 0, result.output
            return result.output

        told = run("info", "--lake", lake.place.root)
        assert "other" in told
        found = json.loads(run("info", "--lake", lake.place.root, "--json"))
        assert [(s["shard"], s["rows"], s["batches"]) for s in found["sums"]] == [("main", 0, 1), ("other", 0, 1)]
        assert all(s["waiting_rows"] > OPS_ROWS and s["log_bytes"] > 0 for s in found["sums"])
        assert "new" in run("backup", tmp_path / "copy", "--lake", lake.place.root)
        assert json.loads(run("backup", tmp_path / "copy", "--lake", lake.place.root, "--json"))["copied_files"] == 0
        assert "restored" in run("restore", tmp_path / "copy", "--lake", tmp_path / "again")
    assert set(_jobs(Lake.open(tmp_path / "again"))) == {"job-1", "job-2"}
