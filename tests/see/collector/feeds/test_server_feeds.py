"""All feeds of a real server at once, killed in the middle: what they bring is there once, health says how they are."""

from __future__ import annotations

import os
import shutil
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cramjam
import pytest

from serving import Up, now_ns, ops_batch, until

ROOT = Path(__file__).resolve().parents[4]
LOGS = ROOT / "examples" / "logs"
NS = 1_000_000_000


class Exporter(BaseHTTPRequestHandler):
    """A page whose counter grows by 1,000 at each look."""

    looks = 0

    def do_GET(self) -> None:
        type(self).looks += 1
        page = f'lustre_write_bytes_total{{component="ost",target="a-OST0000"}} {self.looks * 1000}\nstrange_thing 1\n'
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def exporter() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    Exporter.looks = 0
    yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _number(len(data)) + data


def _remote_write(stamp_ms: int, value: float) -> bytes:
    labels = {"__name__": "lustre_read_bytes_total", "component": "ost", "instance": "oss9:1", "target": "b-OST0000"}
    pairs = b"".join(_field(1, _field(1, k.encode()) + _field(2, v.encode())) for k, v in labels.items())
    sample = _field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _number(stamp_ms))
    return bytes(cramjam.snappy.compress_raw(_field(1, pairs + sample)))


def _dropped(folder: Path, name: str, data: bytes) -> None:
    (folder / f".{name}").write_bytes(data)
    (folder / f".{name}").rename(folder / name)


def test_feeds_of_a_server_that_is_killed(tmp_path: Path, exporter: str) -> None:
    drop, tree, hooks = (tmp_path / name for name in ("drop", "tree", "hooks"))
    for folder in (drop, tree / "2024" / "1", hooks):
        folder.mkdir(parents=True)
    log = next(iter(sorted(LOGS.glob("*.darshan"))))
    shutil.copy(log, tree / "2024" / "1" / "a.darshan")
    os.utime(tree / "2024" / "1" / "a.darshan", (1, 1))
    settings = f"""
[carry]
every_s = 0.5
[feeds]
state = "{tmp_path}/remembered"
[[feeds.drop]]
folder = "{drop}"
period_s = 0.2
settle_s = 0.2
[[feeds.darshan]]
folder = "{tree}"
period_s = 0.2
settle_s = 0
[[feeds.slurm]]
cluster = "west"
sacct = []
squeue = ["/nowhere/squeue"]
hooks = "{hooks}"
[[feeds.scrape]]
url = "{exporter}"
node = "oss8"
period_s = 0.2
[feeds.remote_write]
enabled = true
"""
    start_s = now_ns() // NS - 5
    with Up(tmp_path, settings) as server:
        token = server.token("agent")

        def write(value: float, stamp_ms: int) -> int:
            return server.ask("POST", "/api/v1/write", body=_remote_write(stamp_ms, value), token=token).status

        assert server.ask("POST", "/api/v1/write", body=b"x").status == 401
        assert server.ask("POST", "/api/v1/write", body=b"x", token=token).status == 400
        assert write(100.0, start_s * 1000) == 204
        assert write(150.0, start_s * 1000 + 1000) == 204
        assert write(150.0, start_s * 1000 + 1000) == 204
        _dropped(drop, "one", ops_batch(1, node="dropped") + ops_batch(2, node="dropped"))
        server.post(ops_batch(2, node="dropped"))
        _dropped(drop, "noise", b"\0\1 nothing at all")
        _dropped(hooks, "7.hook", f"{start_s}.5 prolog job=7 user=ann nodes=n[1-2] start={start_s}\n".encode())
        assert until(lambda: server.query("SELECT 1 FROM jobs WHERE job_id = '7'"))
        assert until(lambda: server.query("SELECT 1 FROM file_counters"))
        assert until(lambda: len(server.query("SELECT 1 FROM ops WHERE node = 'dropped'")) >= 8)
        counters = len(server.query("SELECT 1 FROM file_counters"))
        server.kill()
        # What was being put away when it died is there again, and more has come meanwhile.
        _dropped(drop, "one", ops_batch(1, node="dropped") + ops_batch(3, node="dropped"))
        os.utime(tree / "2024" / "1" / "a.darshan", (2, 2))
        server.start()
        assert until(lambda: len(server.query("SELECT 1 FROM ops WHERE node = 'dropped'")) >= 12)
        assert until(lambda: not (drop / "one").exists())
        assert len(server.query("SELECT 1 FROM ops WHERE node = 'dropped'")) == 12
        assert len(server.query("SELECT 1 FROM file_counters")) == counters > 0
        assert server.query("SELECT read_bytes, server FROM target WHERE target = 'b-OST0000'") == [
            {"read_bytes": 50, "server": "oss9"}
        ]
        assert until(lambda: Exporter.looks >= 4)
        grown = server.query("SELECT write_bytes, server FROM target WHERE target = 'a-OST0000'")
        assert {row["server"] for row in grown} == {"oss8"}
        assert {row["write_bytes"] for row in grown} == {1000}
        (job,) = server.query("SELECT * FROM jobs WHERE job_id = '7'")
        assert (job["cluster"], job["start_ns"], job["nodes"]) == ("west", start_s * NS, ["n1", "n2"])
        assert (drop / "refused" / "noise.why").exists()
        states = {feed["feed"]: feed for feed in server.health()["feeds"]}
        assert {name.partition(":")[0]: feed["state"] for name, feed in states.items()} == {
            "drop": "ok",
            "darshan": "ok",
            "slurm": "missing",
            "scrape": "ok",
            "remote_write": "ok",
        }
        assert "strange_thing" in states[f"scrape:{exporter}"]["text"]
        assert server.stop() == 0
