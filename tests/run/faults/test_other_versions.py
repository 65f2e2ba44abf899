"""An agent and mounts of an older fairlead with this server, this agent with an older server, an older server's lake:
what was counted is there to the byte, what is refused is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mounting import open_folder, take_off
from old_fairlead import build_agent, unpack_old_fairlead
from real_site import interpreters
from serving import Up, ops_batch, until
from waiting import wait_until
from watched_disk import Disk, agent, is_watched, seen

MIB = 1 << 20
PYTHONS = list(interpreters().items())
EACH = [
    pytest.param(path, id=version, marks=[pytest.mark.slow] if place else [])
    for place, (version, path) in enumerate(PYTHONS)
]
"""The oldest is tried in the short run, too."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of an older fairlead."""
    return unpack_old_fairlead(tmp_path_factory.mktemp("old"))


def _watched(up: Up, folder: Path, program: Path, python: str) -> None:
    disk = Disk(folder / "root")
    with agent(up, disk, folder / "agent", "n7", program, python):
        said = folder / "agent" / "said"
        wait_until(lambda: is_watched(up, "n7"), lambda: said.read_text() + up.said())
        for _ in range(20):
            disk.write(3 * MIB)
        wait_until(lambda: seen(up, "n7") == 60 * MIB, lambda: f"{seen(up, 'n7')}\n{said.read_text()}")


@pytest.mark.parametrize("python", EACH)
def test_an_old_agent_with_this_server(old: Path, tmp_path: Path, python: str) -> None:
    with Up(tmp_path) as up:
        _watched(up, tmp_path, build_agent(tmp_path / "agent.pyz", old), python)
        assert not any(source.get("refused") for source in up.health()["sources"]), up.health()


@pytest.mark.parametrize("python", EACH)
def test_this_agent_with_an_old_server(old: Path, tmp_path: Path, python: str) -> None:
    with Up(tmp_path, source=old) as up:
        _watched(up, tmp_path, build_agent(tmp_path / "agent.pyz"), python)


@pytest.mark.slow
def test_a_lake_of_an_old_server_goes_on(old: Path, tmp_path: Path) -> None:
    with Up(tmp_path, source=old) as up:
        assert all(up.post(ops_batch(seq)).status == 200 for seq in range(1, 6))
        up.kill()
        up.source = None
        up.start()
        assert up.query("SELECT count(*) AS n FROM ops") == [{"n": 20}]
        assert up.post(ops_batch(5)).json["known"] == 1, "and knows what it took"
        assert up.post(ops_batch(6)).json["taken"] == 1
        assert up.query("SELECT count(*) AS n FROM ops") == [{"n": 24}]


@pytest.mark.slow
@pytest.mark.fuse
def test_records_of_an_old_mount_arrive(old: Path, tmp_path: Path) -> None:
    with open_folder() as state, Up(tmp_path) as up:
        tree, point, spool, run = (state / name for name in ("tree", "mnt", "spool", "run"))
        for one in (tree, point, spool, run):
            one.mkdir(mode=0o700)
        words = [
            "mount",
            "--local",
            tree,
            point,
            "--foreground",
            "--passthrough",
            "off",
            "--spool",
            spool,
            "--job",
            "8",
        ]
        said = state / "said"
        with said.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", *map(str, words)],
                env={**os.environ, "PYTHONPATH": str(old), "XDG_RUNTIME_DIR": str(run)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            wait_until(lambda: "mounted on" in said.read_text(), said.read_text, process=process)
            (point / "file").write_bytes(b"x" * 5 * MIB)
        finally:
            process.terminate()
            process.wait(60)
            take_off(point)
        node = os.uname().nodename.partition(".")[0]
        disk, program = Disk(tmp_path / "root"), build_agent(tmp_path / "agent.pyz")
        with agent(up, disk, tmp_path / "agent", node, program, PYTHONS[0][1], "--spools", str(spool)):
            sql = "SELECT coalesce(sum(size * count), 0)::BIGINT AS n FROM ops WHERE op = 'write' AND job_id = '8'"
            assert until(lambda: up.query(sql)[0]["n"] == 5 * MIB), up.said()
            assert until(lambda: not list(spool.rglob("*.batch")))
