"""The lake among processes: writers killed anywhere lose and double nothing, readers beside them see it whole."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lake_worker
from fairlead.store.backup import backup_lake, restore_lake
from fairlead.store.lake import Lake
from lake_rows import COUNTER_ROWS

WORKER = lake_worker.__file__


def _start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(*arguments: object) -> str:
    with _start(*arguments) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def _die_everywhere(folder: Path, first: int, stride: int, kind: str = "inputs") -> int:
    lines = _run("steps", folder, first, stride, kind).splitlines()
    assert not [line for line in lines if line.endswith("failed")]
    assert lines[-1] != "steps broken"
    return sum(line.endswith("survived") for line in lines)


def test_a_writer_killed_at_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Some of several hundred steps that change the disk; the slow test takes many more."""
    assert _die_everywhere(tmp_path, 17, 173) >= 2


def test_batches_of_nodes_and_what_is_derived_of_them_survive_a_kill_at_any_step(tmp_path: Path) -> None:
    assert _die_everywhere(tmp_path, 11, 97, "wire") >= 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["inputs", "wire"])
@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_writer_killed_at_every_step_loses_and_doubles_nothing(tmp_path: Path, first: int, kind: str) -> None:
    assert _die_everywhere(tmp_path, first, 3, kind) >= 60


def _kill_again_and_again(lake_folder: Path, jobs: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    promised: set[int] = set()
    killed = 0
    while True:
        with _start("kills", lake_folder, jobs) as process:
            assert process.stdout is not None
            if killed < kills:
                # Die soon after some promise, so that kills fall all over the work and not on the start of Python.
                delay, after = chance.random() * 0.05, chance.randrange(1, 5)
                timer = threading.Timer(delay, process.kill)
                for count, line in enumerate(process.stdout, 1):
                    _note(line, promised)
                    if count == after:
                        timer.start()
                timer.cancel()
            else:
                for line in process.stdout:
                    _note(line, promised)
            process.wait()
        if process.returncode == 0:
            break
        assert process.returncode == -9, process.returncode
        killed += 1
        if (lake_folder / "lake.toml").exists():
            assert promised <= _jobs(Lake.open(lake_folder))
    lake = Lake.open(lake_folder)
    assert _jobs(lake) == set(range(jobs))
    counts = lake.query("SELECT file_id, count(*) AS n FROM ops GROUP BY 1").to_pylist()
    assert {row["n"] for row in counts} == {30}
    counters = lake.query("SELECT count(*) AS n FROM file_counters").to_pylist()[0]["n"]
    assert counters == COUNTER_ROWS * (jobs + jobs // 4)
    assert killed >= min(kills, 2)


def _note(line: str, promised: set[int]) -> None:
    if line.startswith("taken ") and line.endswith("\n"):
        promised.add(int(line.split()[1]))


def _jobs(lake: Lake) -> set[int]:
    return set(lake.query("SELECT DISTINCT file_id FROM ops")["file_id"].to_pylist())


def test_a_writer_killed_at_random_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    _kill_again_and_again(tmp_path / "lake", 30, 4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_a_writer_killed_often_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    _kill_again_and_again(tmp_path / "lake", 400, 30, seed=seed)


def _watched(lake_folder: Path, rounds: int, readers: int) -> None:
    Lake.open(lake_folder, create=True)
    watchers = [_start("watch", lake_folder) for _ in range(readers)]
    for watcher in watchers:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "looking\n"
    try:
        assert _run("tidy", lake_folder, rounds) == "done\n"
        for watcher in watchers:
            out, err = watcher.communicate()
            assert watcher.returncode == 0, err
            word, sights, highest = out.split()
            assert word == "sights"
            assert int(sights) > 3
            assert int(highest) > 0
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
    rows = Lake.open(lake_folder).query("SELECT max(file_id) AS last, min(file_id) AS first FROM ops").to_pylist()[0]
    assert rows["last"] == rounds - 1
    assert rows["first"] > 0


def test_a_lake_is_backed_up_while_it_is_written_and_its_writer_killed(tmp_path: Path) -> None:
    folder, copy, jobs = tmp_path / "lake", tmp_path / "copy", 400
    promised: set[int] = set()
    made = 0
    with _start("kills", folder, jobs) as process:
        assert process.stdout is not None
        for line in process.stdout:
            _note(line, promised)
            if len(promised) > 4 * (made + 1) and made < 3:
                before = set(promised)
                backup_lake(Lake.open(folder).place, copy)
                made += 1
                again = tmp_path / f"again{made}"
                restore_lake(copy, again)
                assert before <= _jobs(Lake.open(again))
            if made == 3:
                process.kill()
                break
    assert made == 3
    backup_lake(Lake.open(folder).place, copy)
    restore_lake(copy, tmp_path / "last")
    assert _jobs(Lake.open(tmp_path / "last")) == _jobs(Lake.open(folder))
    for again in (tmp_path / "again2", tmp_path / "last"):
        lake = Lake.open(again)
        some = max(_jobs(lake)) + 3
        _run("kills", again, some)
        assert set(range(some)) <= _jobs(lake)
        counts = lake.query("SELECT file_id, count(*) AS n FROM ops GROUP BY 1").to_pylist()
        assert {row["n"] for row in counts} == {30}


def test_readers_see_whole_batches_while_a_writer_writes_merges_and_forgets(tmp_path: Path) -> None:
    _watched(tmp_path / "lake", 45, readers=2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_readers_see_whole_batches_for_a_long_time(tmp_path: Path) -> None:
    _watched(tmp_path / "lake", 200, readers=2)
