"""The agent as it is shipped, one file, as a process: against a real server, killed, hung up on, out of disk."""

from __future__ import annotations

import io
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_server import Collector, certificate
from fairlead.core.batches.decoding import decode_stream_batches
from old_interpreter import old_python
from waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[3]
DISKSTATS = "   8  0 sda {reads} 0 {sectors} 5 1 0 8 0 0 5 5\n"
BASE = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"


OLDEST = old_python()
needs_oldest = pytest.mark.skipif(OLDEST is None, reason="no Python 3.6: pyenv install 3.6")
PYTHONS = [str(BASE), pytest.param(OLDEST or "", marks=needs_oldest)]


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as one file."""
    output = tmp_path_factory.mktemp("agent") / "fairlead-agent.pyz"
    subprocess.run([sys.executable, str(ROOT / "tools" / "agent.py"), str(output)], check=True, capture_output=True)
    return output


class Node:
    """A node: a root with one disk whose counters grow, a spool, a token, and agents started on it."""

    def __init__(self, folder: Path, agent: Path, python: str = str(BASE)) -> None:
        self.folder, self.agent, self.python = folder, agent, python
        self.spool = folder / "spool"
        self.token = folder / "token"
        self.token.write_text("secret\n")
        self.token.chmod(0o600)
        (folder / "root" / "proc").mkdir(parents=True)
        self.sectors = 0
        self.move(0)
        self.config = folder / "agent.conf"
        self.config.write_text("health_s = 0.2\nidle_s = 0.2\nship_s = 0.1\n[probe disks]\nperiod_s = 0.02\n")

    def move(self, sectors: int) -> None:
        self.sectors += sectors
        draft = self.folder / "root" / "proc" / "draft"
        draft.write_text(DISKSTATS.format(reads=self.sectors, sectors=self.sectors))
        draft.rename(self.folder / "root" / "proc" / "diskstats")

    def command(self, url: str, *more: str) -> list[str]:
        return [
            self.python,
            str(self.agent),
            "--config",
            str(self.config),
            "--server",
            url,
            "--token",
            str(self.token),
            "--spool",
            str(self.spool),
            "--root",
            str(self.folder / "root"),
            "--node",
            "n1",
            "--probes",
            "disks",
            *more,
        ]

    @contextmanager
    def running(self, url: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        child = subprocess.Popen(self.command(url, *more), stderr=subprocess.PIPE, start_new_session=True)
        try:
            yield child
        finally:
            child.kill()
            child.communicate()

    def waiting(self) -> list[Path]:
        return sorted(self.spool.glob("*.batch"))


def until(what: Callable[[], bool]) -> None:
    wait_until(what, "the agent's next step")


@contextmanager
def collecting(**options: object) -> Iterator[Collector]:
    collector = Collector(**options)  # type: ignore[arg-type]
    try:
        yield collector
    finally:
        collector.close()


def runs_of(collector: Collector) -> int:
    """Runs of agents that something came from."""
    with collector.lock:
        return len({boot_id for _, boot_id, _, _ in collector.taken})


def read_bytes(collector: Collector) -> int:
    return sum(int(row["read_bytes"] or 0) for row in collector.rows("device"))  # type: ignore[call-overload]


def test_built_twice_it_is_the_same(tmp_path: Path, agent_file: Path) -> None:
    again = tmp_path / "again.pyz"
    environment = {**os.environ, "TZ": "Pacific/Auckland", "PYTHONHASHSEED": "7"}
    subprocess.run(
        [sys.executable, str(ROOT / "tools" / "agent.py"), str(again)],
        check=True,
        capture_output=True,
        env=environment,
        cwd=tmp_path,
    )
    assert again.read_bytes() == agent_file.read_bytes()
    assert os.access(again, os.X_OK)
    assert agent_file.read_bytes().startswith(b"#!/usr/bin/env python3\n")


@pytest.mark.parametrize("python", PYTHONS)
def test_check_says_what_is_here_and_whether_the_server_takes_it(tmp_path: Path, agent_file: Path, python: str) -> None:
    node = Node(tmp_path, agent_file, python)
    with collecting(tls=certificate(tmp_path)) as collector:
        command = node.command(collector.url, "--check", "--ca", str(tmp_path / "cert.pem"))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
        assert lines["disks"].startswith("ok       1 device")
        assert lines["server"].startswith("ok")
        assert "clock" in lines["server"]
        node.token.write_text("wrong\n")
        done = subprocess.run([*command, "--probes", "disks,infiniband"], capture_output=True, text=True, check=False)
        assert done.returncode == 4
        lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
        assert lines["infiniband"].startswith("missing")
        assert "401" in lines["server"]
        assert not collector.taken


@pytest.mark.parametrize("python", PYTHONS)
def test_once_over_tls(tmp_path: Path, agent_file: Path, python: str) -> None:
    node = Node(tmp_path, agent_file, python)
    with collecting(tls=certificate(tmp_path)) as collector:
        with node.running(collector.url, "--once", "--ca", str(tmp_path / "cert.pem")) as child:
            until(lambda: node.spool.exists())
            assert child.wait(PATIENCE_S) == 0
        assert {row["probe"] for row in collector.rows("health")} >= {"agent", "disks"}
        rows = collector.rows("device")
        assert {(row["read_bytes"], row["device"]) for row in rows} == {(0, "sda")}, "nothing moved, and that is told"
        assert collector.agents == {"0.1.0"}
        assert not node.waiting()


def test_tls_is_checked(tmp_path: Path, agent_file: Path) -> None:
    node = Node(tmp_path, agent_file)
    other = tmp_path / "other"
    other.mkdir()
    authority = certificate(other, "localhost")[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for tls, trusted in (
        (certificate(tmp_path), authority),
        (certificate(elsewhere, "another.host"), elsewhere / "cert.pem"),
    ):
        with collecting(tls=tls) as collector:
            command = node.command(collector.url, "--check", "--ca", str(trusted))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 4
            assert "certificate verify failed" in done.stdout.lower() or "hostname" in done.stdout.lower()


def test_what_happened_arrives_and_the_end_is_clean(tmp_path: Path, agent_file: Path) -> None:
    node = Node(tmp_path, agent_file)
    with collecting() as collector:
        with node.running(collector.url) as child:
            until(lambda: bool(collector.rows("health")))
            for _ in range(20):
                node.move(100)
                time.sleep(0.01)
            child.send_signal(signal.SIGTERM)
            assert child.wait(PATIENCE_S) == 0
        assert not node.waiting(), "the last file went, too"
        told = read_bytes(collector)
        assert 0 < told <= 20 * 100 * 512
        assert told % (100 * 512) == 0


def test_a_hang_up_reads_token_and_settings_anew(tmp_path: Path, agent_file: Path) -> None:
    node = Node(tmp_path, agent_file)
    node.token.write_text("old\n")
    with collecting() as collector, node.running(collector.url) as child:
        until(lambda: len(node.waiting()) > 3)
        assert not collector.taken
        node.token.write_text("secret\n")
        node.config.write_text(node.config.read_text().replace("ship_s = 0.1", "ship_s = 0.2"))
        child.send_signal(signal.SIGHUP)
        until(lambda: runs_of(collector) == 2)
        node.config.write_text("nonsense\n")
        child.send_signal(signal.SIGHUP)
        until(lambda: runs_of(collector) == 3)
        assert child.poll() is None


def test_killed_at_any_moment_nothing_that_was_in_the_spool_is_lost(tmp_path: Path, agent_file: Path) -> None:
    """kill -9, ten times: files are whole, and of what each run numbered only the end may be missing."""
    node = Node(tmp_path, agent_file)
    drawn = random.Random(3)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.01):
            node.move(8)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with collecting() as collector:
            seen: set[tuple[str, str, str, int]] = set()
            for run in range(10):
                with node.running(collector.url):
                    until(lambda run=run: runs_of(collector) > run)  # type: ignore[misc]
                    time.sleep(drawn.random() * 0.4)
                for path in node.waiting():
                    found = list(decode_stream_batches(io.BytesIO(path.read_bytes()), str(path)))
                    assert found
                    seen |= {(o.header.node, o.header.boot_id, o.header.table, o.header.seq) for o in found}
            with node.running(collector.url, "--once") as child:
                assert child.wait(PATIENCE_S) == 0
            assert not node.waiting()
            assert seen <= set(collector.taken)
            runs: dict[str, set[int]] = {}
            for _, boot_id, _, seq in collector.taken:
                runs.setdefault(boot_id, set()).add(seq)
            assert len(runs) == 11
            for seqs in runs.values():
                assert seqs == set(range(1, max(seqs) + 1)), "no hole: only what was not in the spool yet is gone"
    finally:
        stop.set()
        thread.join()


def test_a_file_cut_off_by_a_loss_of_power_is_dropped_and_told(tmp_path: Path, agent_file: Path) -> None:
    node = Node(tmp_path, agent_file)
    with collecting() as away:
        url = away.url
    with node.running(url):
        until(lambda: len(node.waiting()) > 3)
    for left in node.spool.glob(".*.tmp"):
        os.utime(left, (1, 1))
    half, empty = node.waiting()[-2:]
    half.write_bytes(half.read_bytes()[:-7])
    empty.write_bytes(b"")
    draft = node.spool / ".n1-agent-0123456789ab.tmp"
    draft.write_bytes(b"FLBA")
    os.utime(draft, (1, 1))
    with collecting() as collector:
        with node.running(collector.url, "--once") as child:
            assert child.wait(PATIENCE_S) == 0
        (told,) = [row for row in collector.rows("events") if row["kind"] == "spool_broken"]
        assert str(told["text"]).startswith("2 truncated files")
        assert [path.name for path in node.spool.iterdir()] == []


def test_a_full_disk_stops_nothing_and_is_told_when_it_has_room(tmp_path: Path, agent_file: Path) -> None:
    """A limit on the size of files stands for a full disk: a real one needs a mount."""
    node = Node(tmp_path, agent_file)
    with collecting() as collector, node.running(collector.url) as child:
        until(lambda: bool(collector.taken))
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
        before = len(collector.taken)
        for _ in range(60):
            node.move(8)
            time.sleep(0.01)
        assert child.poll() is None
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: any(row["kind"] == "records_lost" for row in collector.rows("events")))
        until(lambda: any(int(row["lost_batches"] or 0) for row in collector.rows("health")))  # type: ignore[call-overload]
        assert "lost" in {row["state"] for row in collector.rows("health") if row["probe"] == "agent"}
        assert len(collector.taken) > before
        assert not list(node.spool.glob(".*.tmp"))


@pytest.mark.parametrize("python", PYTHONS)
def test_a_flush_of_an_epilog_is_seen_by_the_running_agent(tmp_path: Path, agent_file: Path, python: str) -> None:
    node = Node(tmp_path, agent_file, python)
    with collecting() as collector, node.running(collector.url, "--ship-s", "600", "--idle-s", "600"):
        until(node.spool.is_dir)
        asked = [python, str(agent_file), "flush", "--config", str(node.config), "--spool", str(node.spool)]
        subprocess.run(asked, check=True, timeout=PATIENCE_S)
        until(lambda: bool(collector.rows("health")))
        assert not (node.spool / "flush").exists()
    missing = [python, str(agent_file), "flush", "--config", str(node.config), "--spool", str(tmp_path / "none")]
    done = subprocess.run(missing, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 8
    assert "cannot be written" in done.stderr
