"""A real `fairlead up` and senders of batches made beforehand, each in processes of their own, their CPU kept apart.

Not here: what is sent (`lake_ingest`, `fairlead.kit.testing.machine`), what the figures mean (`monitoring`).
"""

from __future__ import annotations

import contextlib
import json
import mmap
import multiprocessing
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20


@dataclass
class Server:
    """A running server: where it listens, its processes by name."""

    port: int
    token: str
    lake: Path
    pids: dict[str, int]
    usage: dict[str, float] = field(default_factory=dict)

    def cpu_s(self, name: str = "collector") -> float:
        """Processor seconds one of its processes used so far."""
        words = Path(f"/proc/{self.pids[name]}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self, name: str = "collector") -> int:
        """Most memory (VmHWM) one of its processes held."""
        for line in Path(f"/proc/{self.pids[name]}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmHWM")


@contextlib.contextmanager
def server(folder: Path, *, api: bool = False, analysis: bool = False, more: Sequence[str] = ()) -> Iterator[Server]:
    """`fairlead up` on a free port with a lake in `folder`, until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = folder / "up.err"
    settings = [
        f"api.on={str(api).lower()}",
        f"analysis.on={str(analysis).lower()}",
        "collector.limits.connections_per_address=4096",
        *more,
    ]
    command = [
        sys.executable,
        "-m",
        "fairlead",
        "up",
        "--lake",
        str(folder / "lake"),
        "--listen",
        f"tcp:127.0.0.1:{port}",
    ]
    with told.open("w") as err:
        up = subprocess.Popen(
            [*command, *(word for one in settings for word in ("--set", one))],
            stdout=err,
            stderr=err,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 60
        while "ready collector" not in told.read_text():
            if up.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server did not start:\n{told.read_text()}")
            time.sleep(0.1)
        pids = {}
        for line in told.read_text().splitlines():
            words = line.split()
            if "started:" in words:
                pids[words[1]] = int(words[-1])
        yield Server(port, (folder / "agent.token").read_text().strip(), folder / "lake", pids)
    finally:
        os.killpg(up.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            up.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(up.pid, signal.SIGKILL)


@dataclass
class Sent:
    """What senders did. `late_s`: how far the last body was behind the pace that was asked for."""

    seconds: float
    bodies: int
    bytes: int
    cpu_s: float
    held_back: int
    late_s: float
    latencies_ms: list[float]


def send(
    to: Server,
    path: Path,
    ends: Sequence[int],
    *,
    senders: int = 2,
    connections: int = 2,
    bodies_per_s: float | None = None,
    seconds: float | None = None,
) -> Sent:
    """Sends the bodies that lie in `path` one after another (`ends`: where each ends), each sender every n-th, over
    `connections` each that stay, as fast as answers come or at a pace. Ends with the bodies, or after `seconds`."""
    context = multiprocessing.get_context("spawn")
    begin = time.monotonic() + 1.0
    with context.Pool(senders) as pool:
        work = [
            Work(to.port, to.token, str(path), list(ends), n, senders, connections, begin, bodies_per_s, seconds)
            for n in range(senders)
        ]
        parts = pool.map(_send, work)
    return Sent(
        max(p["ended"] for p in parts) - begin,
        sum(p["bodies"] for p in parts),
        sum(p["bytes"] for p in parts),
        sum(p["cpu_s"] for p in parts),
        sum(p["held_back"] for p in parts),
        max(p["late_s"] for p in parts),
        [one for p in parts for one in p["latencies_ms"]],
    )


@dataclass(frozen=True)
class Work:
    """What one sender is to do: bodies `first`, `first + step`, ..."""

    port: int
    token: str
    path: str
    ends: list[int]
    first: int
    step: int
    connections: int
    begin: float
    pace: float | None
    seconds: float | None


class Line:
    """One connection with at most one body under way."""

    def __init__(self, work: Work) -> None:
        self.socket = socket.create_connection(("127.0.0.1", work.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._token = work.token
        self._answer = b""
        self.body = memoryview(b"")
        self.asked = 0.0

    def ask(self, body: memoryview) -> None:
        """Sends a body; blocks until the kernel has it."""
        self.body, self.asked, self._answer = body, time.monotonic(), b""
        head = (
            f"POST /v1/batches HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/x-fairlead-batches\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        sent = self.socket.sendmsg([head, body])
        if sent < len(head) + len(body):
            self.socket.sendall(body[sent - len(head) :])

    def answered(self) -> int | None:
        """The status, once the whole answer is there."""
        part = self.socket.recv(65536)
        if not part:
            raise RuntimeError("the server closed the connection")
        self._answer += part
        header, end, rest = self._answer.partition(b"\r\n\r\n")
        lengths = [line for line in header.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        if not end or len(rest) < int(lengths[0].split(b":")[1]):
            return None
        return int(header.split(b" ", 2)[1])


def _send(work: Work) -> dict[str, Any]:
    lines = [Line(work) for _ in range(work.connections)]
    chosen = selectors.DefaultSelector()
    for line in lines:
        chosen.register(line.socket, selectors.EVENT_READ, line)
    latencies: list[float] = []
    done: dict[str, Any] = {"bodies": 0, "bytes": 0, "held_back": 0, "late_s": 0.0, "latencies_ms": latencies}
    with open(work.path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:  # noqa: PTH123
        view = memoryview(data)
        time.sleep(max(0.0, work.begin - time.monotonic()))
        numbers = iter(range(work.first, len(work.ends), work.step))
        idle, busy = list(lines), 0
        number = next(numbers, None)
        while busy or number is not None:
            now = time.monotonic()
            if work.seconds is not None and now - work.begin > work.seconds:
                number = None
            due = None if number is None or work.pace is None else work.begin + number / work.pace
            if number is not None and idle and (due is None or due <= now):
                done["late_s"] = max(done["late_s"], 0.0 if due is None else now - due)
                idle.pop().ask(view[work.ends[number - 1] if number else 0 : work.ends[number]])
                busy += 1
                number = next(numbers, None)
                continue
            wait = None if due is None or not idle else max(0.0, due - now)
            for key, _ in chosen.select(wait):
                line = key.data
                status = line.answered()
                if status == 429:
                    done["held_back"] += 1
                    time.sleep(0.1)
                    line.ask(line.body)
                elif status == 200:
                    latencies.append((time.monotonic() - line.asked) * 1e3)
                    done["bodies"] += 1
                    done["bytes"] += len(line.body)
                    idle.append(line)
                    busy -= 1
                elif status is not None:
                    raise RuntimeError(f"a body was refused with {status}")
        for line in lines:
            line.body = memoryview(b"")
        view.release()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {**done, "ended": time.monotonic(), "cpu_s": used.ru_utime + used.ru_stime}


class Watch:
    """The metrics of a server, asked once a second on a thread, until closed."""

    def __init__(self, to: Server) -> None:
        self.backlog: list[int] = []
        self._to = to
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        import http.client

        while not self._stop.wait(1.0):
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self._to.port, timeout=5)
                connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self._to.token}"})
                text = connection.getresponse().read().decode()
                for line in text.splitlines():
                    if line.startswith("fairlead_collector_backlog_bytes "):
                        self.backlog.append(int(float(line.split()[-1])))

    def close(self) -> None:
        """Ends the asking."""
        self._stop.set()
        self._thread.join(10)


def table_bytes(folder: Path, table: str) -> int:
    """Bytes of the active files of one table in all shards, from a lake's inventory."""
    from fairlead.store.inventory import take_inventory
    from fairlead.store.lake_folder import open_lake_folder

    return sum(one.bytes for one in take_inventory(open_lake_folder(folder)).tables if one.table == table)


def as_json(value: Any) -> str:
    """One line."""
    return json.dumps(value, default=str)
