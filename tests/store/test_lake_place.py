"""The folder of a lake: made once, recognised, refused when it is something else, one writer a shard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.core.errors import LakeBusyError, LakeError, UsageError
from fairlead.store import lake_folder as place


def test_a_lake_is_made_once_and_found_again(tmp_path: Path) -> None:
    made = place.create_lake_folder(tmp_path / "a" / "läke with spaces")
    assert place.create_lake_folder(made.root) == made
    assert place.open_lake_folder(made.root) == made
    assert made.list_shards() == []


def test_no_lake_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(LakeError) as caught:
        place.open_lake_folder(tmp_path)
    assert "fairlead ingest" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(f"format = {place.FORMAT + 1}\n")
    with pytest.raises(LakeError, match="format 2") as caught:
        place.open_lake_folder(tmp_path)
    assert "upgrade" in str(caught.value.remedy)


@pytest.mark.parametrize("text", ["", "format = 'one'", "format = 0", "format ="])
def test_a_broken_lake_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "lake.toml").write_text(text)
    with pytest.raises(LakeError):
        place.open_lake_folder(tmp_path)


def test_a_folder_of_other_things_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(LakeError, match="thesis"):
        place.create_lake_folder(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_creation_that_was_killed_is_finished(tmp_path: Path) -> None:
    (tmp_path / ".lake.toml.123").write_text("form")
    assert place.create_lake_folder(tmp_path).root == tmp_path


def test_a_path_the_engines_would_take_for_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        place.create_lake_folder(tmp_path / "lake[1]")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 65])
def test_a_shard_has_a_plain_name(name: str) -> None:
    with pytest.raises(UsageError):
        place.check_shard_folder(name)


def test_the_default_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_LAKE", "/x/lake")
    assert place.find_default_lake_folder() == Path("/x/lake")
    monkeypatch.delenv("FAIRLEAD_LAKE")
    monkeypatch.setenv("XDG_DATA_HOME", "/x/data")
    assert place.find_default_lake_folder() == Path("/x/data/fairlead/lake")


def test_a_shard_has_one_writer_and_says_who(tmp_path: Path) -> None:
    lake = place.create_lake_folder(tmp_path / "lake")
    code = (
        "import sys; from pathlib import Path; from fairlead.store.lake_folder import Place, ShardLock\n"
        "lock = ShardLock(Place(Path(sys.argv[1])), 'main'); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(lake.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LakeBusyError, match=f"process {holder.pid} on ") as caught:
            place.ShardLock(lake, "main")
        assert caught.value.retryable
        place.ShardLock(lake, "other").release()
        holder.kill()
    place.ShardLock(lake, "main", wait_s=5).release()


def test_a_waiting_writer_gets_the_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = place.create_lake_folder(tmp_path / "lake")
    first = place.ShardLock(lake, "main")
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            first.release()

    monkeypatch.setattr(place, "sleep_s", sleep)
    place.ShardLock(lake, "main", wait_s=60).release()
    assert len(waits) == 3


def test_content_written_durably_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    place.write_lake_folder_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
