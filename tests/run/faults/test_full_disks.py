"""A disk that fills up and has room again, over and over, while a whole server writes: its log, its tables, all of its
lake; the spool of an agent. What was acknowledged is there exactly once, what was not is sent again, health says so.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from old_fairlead import build_agent
from real_site import interpreters
from serving import Up, until
from stubborn_senders import Sender, check_exactly_once
from waiting import PATIENCE_S, wait_until
from watched_disk import Disk, agent, is_watched, seen

SETTINGS = """
[api]
on = true
listen = ["tcp:127.0.0.1:0"]
[analysis]
on = true
every_s = 1
[carry]
every_s = 0.3
maintain_every_s = 1
[collector.limits]
free_bytes = {free_bytes}
"""
MIB = 1 << 20


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of that size on the folder; what was in it is copied."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"mount says: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


class Filler(threading.Thread):
    """Fills a disk but for a little and gives the room back, at random times."""

    def __init__(self, disk: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self.times = 0
        self.over = threading.Event()
        self._file = disk / "filler"
        self._random = random.Random(seed)

    def run(self) -> None:
        while not self.over.wait(self._random.uniform(0.1, 0.6)):
            left = os.statvfs(self._file.parent)
            size = left.f_bavail * left.f_frsize - self._random.choice((0, 4096, 30_000, 200_000))
            if size <= 0:
                continue
            try:
                with self._file.open("wb") as out:
                    os.posix_fallocate(out.fileno(), 0, size)
            except OSError:  # others were faster
                self._file.unlink(missing_ok=True)
                continue
            self.times += 1
            self.over.wait(self._random.uniform(0.1, 0.8))
            self._file.unlink()


def _filled(tmp_path: Path, where: str, times: int, free_bytes: int) -> None:
    up = Up(tmp_path, SETTINGS.format(free_bytes=free_bytes))
    with up:  # the lake's own folders are made before disks come under them
        assert up.stop() == 0
    with small_disk(tmp_path / where, "96m"), up:
        senders = [Sender(up, number, meets=frozenset({429, 503, 507})) for number in range(3)]
        filler = Filler(tmp_path / where, seed=times)
        for one in (*senders, filler):
            one.start()
        try:
            wait_until(lambda: filler.times >= times or up.process is None, up.said)
        finally:
            filler.over.set()
            filler.join(PATIENCE_S)
            for sender in senders:
                sender.done.set()
        for sender in senders:
            sender.join(PATIENCE_S)
            assert not sender.is_alive()
        assert sum(len(sender.acknowledged) for sender in senders) > times
        rows = check_exactly_once(up, senders)
        assert rows > 0
        assert until(lambda: not up.health()["collector"]["problems"]), up.health()["collector"]
        assert "Traceback" not in up.said(), up.said()
        assert up.stop() == 0
        assert check_exactly_once(up, senders) == rows


def test_a_disk_that_fills_up_now_and_then(tmp_path: Path) -> None:
    _filled(tmp_path, "lake", 4, 0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("free_bytes", [0, 1 << 20])
@pytest.mark.parametrize("where", ["lake", "lake/wal", "lake/shards"])
def test_a_disk_that_fills_up_fifty_times(tmp_path: Path, where: str, free_bytes: int) -> None:
    _filled(tmp_path, where, 50, free_bytes)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_spool_s_disk_of_an_agent_fills_up(tmp_path: Path) -> None:
    """Counters are read on: their growth is told when there is room again."""
    program, python = build_agent(tmp_path / "agent.pyz"), next(iter(interpreters().values()))
    disk = Disk(tmp_path / "root")
    (tmp_path / "agent").mkdir()
    with Up(tmp_path) as up, small_disk(tmp_path / "agent" / "spool", "1m"):
        filler = Filler(tmp_path / "agent" / "spool", seed=3)
        said = tmp_path / "agent" / "said"
        with agent(up, disk, tmp_path / "agent", "n1", program, python):
            wait_until(lambda: is_watched(up, "n1"), lambda: said.read_text())
            filler.start()
            while filler.times < 20:
                disk.write(MIB)
                filler.over.wait(0.05)
            filler.over.set()
            filler.join(PATIENCE_S)
            grown = disk.written_bytes - disk.base_bytes
            assert until(lambda: seen(up, "n1") == grown), (seen(up, "n1"), grown, said.read_text())
