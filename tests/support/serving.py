"""A real `fairlead up` for tests, and what an agent would send to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fairlead.core.access.tokens import Claims, issue_token, read_token_key
from fairlead.core.batches.encoding import Header, Numbers, encode_batch, encode_numbers, encode_same_word, encode_words
from fairlead.store.lake import Lake
from waiting import PATIENCE_S, STALLED_S, Progress, wait_until

BOOT = "ab" * 16


def now_ns() -> int:
    return time.time_ns()


def ops_batch(
    seq: int,
    *,
    rows: int = 4,
    node: str = "n1",
    boot: str = BOOT,
    at_ns: int | None = None,
    version: int = 1,
    extra: Mapping[str, Any] | None = None,
    table: str = "ops",
) -> bytes:
    """A batch of `ops`; its rows carry `seq` in `file_id` and their place in `handle`."""
    start = at_ns if at_ns is not None else now_ns() - 1_000_000_000
    columns: dict[str, Any] = {
        "start_ns": encode_numbers([start + k for k in range(rows)]),
        "end_ns": encode_numbers([start + k + 1 for k in range(rows)]),
        "busy_ns": encode_numbers([1] * rows),
        "node": encode_same_word(node, rows),
        "interface": encode_same_word("posix", rows),
        "op": encode_same_word("write", rows),
        "file_id": encode_numbers([seq] * rows),
        "handle": encode_numbers(list(range(rows))),
        "size": encode_numbers([4096] * rows),
        "count": encode_numbers([1] * rows),
    }
    columns |= extra or {}
    header = Header(
        table=table,
        version=version,
        node=node,
        boot_id=boot,
        seq=seq,
        rows=rows,
        layer="agent",
        writer="test",
        first_ns=start,
        last_ns=start + rows,
    )
    return encode_batch(header, columns)


def health_batch(
    seq: int,
    *,
    node: str = "n1",
    boot: str = BOOT,
    state: str = "ok",
    text: str | None = None,
    interval_ns: int = 60_000_000_000,
    unknown: int = 0,
    offset_ns: int | None = None,
    at_ns: int | None = None,
) -> bytes:
    """A batch of two rows of `health`: of the agent, and of the probe `lustre`."""
    start = at_ns if at_ns is not None else now_ns()
    header = Header(
        table="health",
        version=1,
        node=node,
        boot_id=boot,
        seq=seq,
        rows=2,
        layer="agent",
        writer="agent",
        first_ns=start,
        last_ns=start,
    )
    return encode_batch(
        header,
        {
            "ts_ns": encode_numbers([start] * 2),
            "node": encode_same_word(node, 2),
            "probe": encode_words(["agent", "lustre"]),
            "state": encode_words(["ok", state]),
            "interval_ns": encode_numbers([interval_ns] * 2),
            "unknown_lines": encode_numbers([0, unknown]),
            "clock_offset_ns": encode_numbers([offset_ns, None]),
            "text": encode_words([None, text]),
        },
    )


class Answer:
    """Status, headers (lower case) and body of an answer."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Up:
    """`fairlead up` in a folder: lake, state and settings are below it."""

    def __init__(self, folder: Path, settings: str = "", *, tls: bool = False, source: Path | None = None) -> None:
        self.folder = folder
        self.source = source
        """Where its fairlead is; None: the one under test."""
        self.lake = folder / "lake"
        self.state = folder / "state"
        self.unix = folder / "s.sock"
        self.log = folder / "log"
        self.tls = tls
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.state.mkdir(exist_ok=True)
        kind = "tls" if tls else "tcp"
        self.config = folder / "server.toml"
        listen = f'listen = ["{kind}:127.0.0.1:0", "unix:{self.unix}"]'
        tables = f'[server]\nlake = "{self.lake}"\nstate = "{self.state}"\n'
        if "[api]" not in settings:
            settings += "\n[api]\non = false\n"
        if "[analysis]" not in settings:
            settings += "\n[analysis]\non = false\n"
        if "[collector]" in settings:
            settings = settings.replace("[collector]", f"[collector]\n{listen}")
        else:
            tables += f"[collector]\n{listen}\n"
        self.config.write_text(tables + settings, encoding="utf-8")

    def __enter__(self) -> Up:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self, *, wait: bool = True) -> None:
        assert self.process is None
        self.log.touch()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", "up", "--config", str(self.config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=os.environ if self.source is None else {**os.environ, "PYTHONPATH": str(self.source)},
            )
        self._from = self.log.stat().st_size
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        process = self.process
        assert process is not None

        def ready() -> bool:
            try:
                addresses = json.loads((self.state / "addresses.json").read_text())
            except (OSError, ValueError):
                return False
            if addresses["pid"] != process.pid:
                return False
            self.port = int(addresses["collector"][0].rpartition(":")[2])
            return True

        wait_until(ready, self.said, process=process)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self, patience_s: float = PATIENCE_S) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(patience_s)
        self.process = None
        return code

    def kill(self) -> None:
        """The whole tree at once: children end with their parent."""
        if self.process is None:
            return
        children = self.children()
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process = None
        wait_until(lambda: not any(_lives(pid) for pid in children), "the children end")

    def children(self) -> list[int]:
        assert self.process is not None
        try:
            text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        except OSError:
            return []
        return [int(word) for word in text.split()]

    def token(self, role: str = "agent", **claims: Any) -> str:
        key = read_token_key(self.state / "server.key")
        return issue_token(key, Claims(int(time.time()) + 3600, role=role, **claims))

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> Answer:
        connection: http.client.HTTPConnection
        if self.tls:
            context = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            sent = {"Authorization": f"Bearer {token}"} if token is not None else {}
            connection.request(method, path, body=body, headers={**sent, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def post(self, body: bytes, token: str | None = None, **headers: str) -> Answer:
        return self.ask(
            "POST",
            "/v1/batches",
            body=body,
            token=token if token is not None else self.token(),
            headers={"Content-Type": "application/x-fairlead-batches", "Fairlead-Agent": "0.1.0", **headers},
        )

    def health(self) -> Any:
        return self.ask("GET", "/api/v1/server", token=self.token("operator")).json

    def query(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = Lake.open(self.lake).query(sql).to_pylist()
        return found

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(what: Callable[[], Any], stalled_s: float = STALLED_S) -> Any:
    """Polls `what` until it gives something true, or nothing moves any more; the last answer."""
    progress = Progress()
    while not (found := what()) and not progress.stalled(stalled_s):
        time.sleep(0.05)
    return found


def constant(value: int) -> Numbers:
    return Numbers(array("q", [value]))
