"""Ten thousand connections from a hundred addresses that never finish a request, opened again when they are closed:
agents are taken from and people are answered all the while, and the server's memory is bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Up, ops_batch
from waiting import PATIENCE_S

SETTINGS = '[api]\non = true\nlisten = ["tcp:127.0.0.1:0"]\n[carry]\nevery_s = 1\n'
PARTS = (
    b"",
    b"GET /v1/ver",
    b"POST /v1/batches HTTP/1.1\r\nHost: a\r\nX: ",
    b"POST /v1/batches HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nfew",
)
MIB = 1 << 20


class Flood(threading.Thread):
    """Keeps `count` half-open connections from `addresses` addresses to some ports; opened again when closed."""

    def __init__(self, ports: list[int], count: int, addresses: int) -> None:
        super().__init__(daemon=True)
        self.opened = 0
        self.open = 0
        self.most = 0
        self.over = threading.Event()
        self._ports = ports
        self._count = count
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        while not self.over.is_set():
            for _ in range(min(200, self._count - self.open)):
                self._one()
            self.most = max(self.most, self.open)
            for key, _ in self._selector.select(0.02):
                with contextlib.suppress(OSError):
                    if key.fileobj.recv(4096):  # type: ignore[union-attr]
                        continue
                self._selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                self.open -= 1
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _one(self) -> None:
        number = self.opened
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((f"127.0.1.{number % self._addresses + 1}", 0))
            one.settimeout(1)
            one.connect(("127.0.0.1", self._ports[number % len(self._ports)]))
            one.sendall(PARTS[number // self._addresses % len(PARTS)])
            one.setblocking(False)
        except OSError:
            one.close()
            time.sleep(0.001)
            return
        self._selector.register(one, selectors.EVENT_READ)
        self.opened += 1
        self.open += 1


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for ten thousand sockets in this process, and in the server, which inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12_000:
        pytest.skip(f"at most {hard} open files here: ulimit -Hn 20000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _rss_bytes(pids: list[int]) -> int:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


def _flooded(tmp_path: Path, count: int, addresses: int, posts: int) -> None:
    with Up(tmp_path, SETTINGS) as up:
        api = int(json.loads((up.state / "addresses.json").read_text())["api"][0].rpartition(":")[2])
        assert up.post(ops_batch(1)).status == 200
        before = _rss_bytes(up.children())
        flood = Flood([up.port, api], count, addresses)
        flood.start()
        try:
            end = time.monotonic() + PATIENCE_S
            while flood.opened < count and time.monotonic() < end:
                time.sleep(0.05)
            assert flood.opened >= count, flood.opened
            for seq in range(2, 2 + posts):
                _until_answered(up, seq, api)
            held = _rss_bytes(up.children())
        finally:
            flood.over.set()
            flood.join(PATIENCE_S)
        assert held - before < 400 * MIB, (before, held)
        assert up.query("SELECT count(*) AS n FROM ops") == [{"n": 4 * (1 + posts)}]
        assert up.stop() == 0
        print(f"\n{flood.opened} opened, {flood.most} at once, memory {before / MIB:.0f} -> {held / MIB:.0f} MiB")


def _until_answered(up: Up, seq: int, api: int) -> None:
    """An agent that tries again is acknowledged, and a person who does is answered."""
    end = time.monotonic() + PATIENCE_S
    waiting = {"agent", "person"}
    while waiting:
        assert time.monotonic() < end, f"still unanswered: {waiting}"
        with contextlib.suppress(OSError, http.client.HTTPException):
            if "agent" in waiting and up.post(ops_batch(seq)).status == 200:
                waiting.discard("agent")
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", api, timeout=30)
            connection.request("GET", "/api/v1/system", headers={"Authorization": f"Bearer {up.token('reader')}"})
            if connection.getresponse().status == 200:
                waiting.discard("person")
            connection.close()
        time.sleep(0.05)


def test_a_thousand_half_open_connections(tmp_path: Path, many_files: None) -> None:
    _flooded(tmp_path, 1_000, 20, 3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_thousand_half_open_connections(tmp_path: Path, many_files: None) -> None:
    _flooded(tmp_path, 10_000, 100, 20)
