"""Batches sent to a real server: what it takes, what it refuses and with which status, what it then knows."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.core.batches.encoding import MAGIC, PREFIX, Header, encode_batch, encode_numbers, encode_same_word
from fairlead.store.lake import Lake
from serving import BOOT, Answer, Up, health_batch, now_ns, ops_batch, until

DAY_NS = 86_400_000_000_000
SETTINGS = """
[collector]
silent_periods = 2
health_period_s = 1
[collector.limits]
body_bytes = 200_000
connections_per_address = 60
header_s = 1.5
body_s = 1.5
body_bytes_per_s = 1_000_000
idle_s = 5
[carry]
every_s = 1
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("up"), SETTINGS) as up:
        yield up


def _rows_of(server: Up, node: str) -> list[tuple[int, int]]:
    found = server.query(f"SELECT file_id, handle FROM ops WHERE node = '{node}' ORDER BY ALL")  # noqa: S608
    return [(row["file_id"], row["handle"]) for row in found]


def _told(answer: Answer) -> str:
    assert set(answer.json) == {"error", "where", "remedy"}
    return str(answer.json["error"])


def test_what_is_acknowledged_is_found_once_whatever_its_order(server: Up) -> None:
    bodies = [ops_batch(seq, node="order") for seq in (3, 1, 2)]
    for body in bodies:
        answer = server.post(body)
        assert (answer.status, answer.json["taken"], answer.json["known"]) == (200, 1, 0)
        assert abs(answer.json["now_ns"] - now_ns()) < 60e9
    again = server.post(bodies[0] + bodies[1] + ops_batch(4, node="order") + bodies[0])
    assert (again.json["taken"], again.json["known"]) == (1, 3)
    assert _rows_of(server, "order") == [(seq, k) for seq in (1, 2, 3, 4) for k in range(4)]
    until(lambda: server.health()["collector"]["backlog_bytes"] == 0)
    assert server.post(bodies[2]).json["known"] == 1
    assert len(_rows_of(server, "order")) == 16


def test_a_newer_agents_columns_are_told_and_its_tables_kept(server: Up) -> None:
    newer = ops_batch(1, node="newer", version=99, extra={"colour": encode_numbers([7] * 4)})
    assert server.post(newer).json["taken"] == 1
    assert len(_rows_of(server, "newer")) == 4
    strange = ops_batch(1, node="newer", table="moods")
    for expected in ((2, 0), (0, 2)):
        answer = server.post(strange + ops_batch(2, node="newer"))
        assert (answer.json["taken"], answer.json["known"]) == expected, answer.body
    health = server.health()["collector"]
    assert health["aside_batches"] == {"moods": 1}
    assert any("colour" in what for what in health["not_understood"])
    assert any("moods" in problem for problem in health["problems"])
    kept = list((server.lake / "wal" / "main" / "aside").glob("*.batch"))
    assert [path.read_bytes() for path in kept] == [strange]
    assert len(_rows_of(server, "newer")) == 8


def test_an_older_agent_sends_fewer_columns(server: Up) -> None:
    assert server.post(ops_batch(1, node="older", version=0)).json["taken"] == 1
    assert len(_rows_of(server, "older")) == 4


def test_a_table_of_version_one_lacks_what_came_later(server: Up) -> None:
    at = now_ns()
    header = Header("target", 1, "v1", BOOT, 1, 1, "agent", "agent", at, at)
    columns = {"ts_ns": encode_numbers([at]), "target": encode_same_word("OST0", 1), "read_bytes": encode_numbers([7])}
    assert server.post(encode_batch(header, columns)).json["taken"] == 1
    found = server.query("SELECT read_bytes, source FROM target WHERE target = 'OST0'")
    assert found == [{"read_bytes": 7, "source": None}]


def _changed_header(body: bytes, **changes: object) -> bytes:
    _, header, payload, _ = PREFIX.unpack_from(body)
    about = json.loads(body[PREFIX.size : PREFIX.size + header]) | changes
    text = json.dumps(about).encode()
    return PREFIX.pack(MAGIC, len(text), payload, zlib.crc32(text)) + text + body[PREFIX.size + header :]


def _refused() -> dict[str, tuple[int, bytes]]:
    good = ops_batch(1, node="bad")
    flipped = bytearray(good)
    flipped[-3] ^= 1
    return {
        "empty": (400, b""),
        "noise": (400, os.urandom(300)),
        "cut": (400, good[:-5]),
        "flipped": (400, bytes(flipped)),
        "second cut": (400, ops_batch(2, node="bad") + good[:40]),
        "no name": (400, _changed_header(good, boot_id="")),
        "slash": (400, _changed_header(good, node="a/b")),
        "huge": (413, _changed_header(good, raw_bytes=400 << 20)),
        "many rows": (413, _changed_header(good, rows=1 << 40)),
        "newer format": (426, b"FLBATCH2" + good[8:]),
        "newer header": (426, _changed_header(good, format=2)),
        "strange column": (422, ops_batch(1, node="bad", extra={"colour": encode_numbers([7] * 4)})),
        "lacks one": (422, ops_batch(1, node="bad", table="events")),
        "count zero": (422, ops_batch(1, node="bad", extra={"count": encode_numbers([0] * 4)})),
        "tomorrow": (422, ops_batch(1, node="bad", at_ns=now_ns() + 2 * DAY_NS)),
        "long ago": (410, ops_batch(1, node="bad", at_ns=now_ns() - 900 * DAY_NS)),
    }


@pytest.mark.parametrize("name", sorted(_refused()))
def test_a_bad_body_is_refused_whole(server: Up, name: str) -> None:
    status, body = _refused()[name]
    sent = body if name in ("empty", "noise") else ops_batch(9, node="bad") + body
    answer = server.post(sent)
    assert answer.status == status, answer.body
    assert _told(answer)
    assert _rows_of(server, "bad") == []


def test_who_may(server: Up) -> None:
    body = ops_batch(1, node="who")
    cases = {
        "": 401,
        "nonsense": 401,
        server.token("agent", node="other"): 403,
        server.token("reader"): 403,
        server.token(""): 403,
        server.token("agent", node="who"): 200,
        server.token("operator"): 200,
    }
    for token, status in cases.items():
        answer = server.post(body, token=token)
        assert answer.status == status, (token, answer.body)
        assert ("www-authenticate" in answer.headers) == (status == 401)
    assert server.ask("POST", "/v1/batches", body=body).status == 401
    for role, status in (("agent", 403), ("reader", 200), ("operator", 200)):
        assert server.ask("GET", "/api/v1/server", token=server.token(role)).status == status
    assert server.ask("GET", "/api/v1/server").status == 401
    assert server.ask("GET", "/api/v1/server", token=server.token("reader", user="ada")).status == 403
    assert server.ask("GET", "/v1/ping").json["formats"] == [1]
    assert server.ask("GET", "/healthz").status == 200
    assert server.ask("GET", "/v1/batches").status == 405
    assert server.ask("GET", "/nothing").status == 404


def _raw(server: Up, data: bytes) -> bytes:
    with server.raw() as sock:
        sock.sendall(data)
        found = b""
        while part := sock.recv(65536):
            found += part
        return found


def test_lengths_and_headers(server: Up) -> None:
    token = server.token()
    head = f"POST /v1/batches HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n".encode()
    chunked = _raw(server, head + b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n")
    assert chunked.startswith(b"HTTP/1.1 411 ")
    assert server.post(bytes(200_001)).status == 413
    assert _raw(server, head + b"Content-Length: 99999999999\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    assert _raw(server, b"\x16\x03\x01 no http at all\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert _raw(server, b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    assert _raw(server, b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000).startswith(b"HTTP/1.1 431 ")
    assert server.ask("GET", "/healthz").status == 200


def _closed_by(sock: socket.socket) -> bool:
    try:
        return sock.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_who_is_slow_is_cut_off_and_nobody_else_waits(server: Up) -> None:
    head = f"POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token()}\r\n".encode()
    silent, in_headers, in_body = server.raw(), server.raw(), server.raw()
    in_headers.sendall(head[:60])
    in_body.sendall(head + b"Content-Length: 5000\r\n\r\nabc")
    waiting = {in_headers: b"X", in_body: b"y", silent: b""}
    end = time.monotonic() + 900
    seq = 0
    while waiting and time.monotonic() < end:
        seq += 1
        assert server.post(ops_batch(seq, node="beside")).status == 200
        for sock, drop in list(waiting.items()):
            try:
                sock.sendall(drop)
                sock.settimeout(0.05)
                gone = sock.recv(100) == b""
            except TimeoutError:
                gone = False
            except OSError:
                gone = True
            if gone:
                sock.close()
                del waiting[sock]
    assert not waiting, "a slow client was never cut off"
    page = server.ask("GET", "/metrics").body.decode()
    found = dict(re.findall(r'refused_connections_total\{reason="(\w+)"\} (\d+)', page))
    assert int(found["slow"]) >= 2
    assert int(found["idle"]) >= 1


def test_connections_from_one_address_are_limited(server: Up) -> None:
    crowd = [server.raw() for _ in range(70)]
    try:
        crowd[-1].settimeout(20)
        told = crowd[-1].recv(1000)
        assert told.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after" in told
    finally:
        for sock in crowd:
            sock.close()
    assert until(lambda: _tries(server)), "the server did not recover"


def _tries(server: Up) -> bool:
    try:
        return server.ask("GET", "/healthz").status == 200
    except OSError:
        return False


def test_refusals_are_logged_once(server: Up) -> None:
    for _ in range(20):
        assert server.post(b"nonsense").status == 400
    lines = [line for line in server.said().splitlines() if "/v1/batches refused (400)" in line]
    assert len(lines) == 1


def test_resets_in_the_middle_leave_nothing(server: Up) -> None:
    body = ops_batch(1, node="reset", rows=400)
    head = f"POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token()}\r\n".encode()
    for cut in (1, len(body) // 2, len(body) - 1):
        sock = server.raw()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:cut])
        sock.close()
    assert server.post(ops_batch(2, node="reset", rows=1)).status == 200
    assert _rows_of(server, "reset") == [(2, 0)]


def test_health_tells_of_sources_probes_and_clocks(server: Up) -> None:
    text = "permission denied"
    body = health_batch(1, node="sick", state="failing", text=text, unknown=3, offset_ns=5_000_000_000)
    assert server.post(body, **{"Fairlead-Agent": "9.9.9"}).json["taken"] == 1
    server.post(ops_batch(1, node="sick"), **{"Fairlead-Agent": "9.9.9"})
    server.post(body)
    health = server.health()
    one = next(source for source in health["sources"] if source["node"] == "sick")
    assert (one["state"], one["batches"], one["rows"], one["clock_offset_ns"]) == ("failing", 2, 6, 5_000_000_000)
    probes = {probe["probe"]: probe for probe in one["probes"]}
    assert (probes["lustre"]["state"], probes["lustre"]["text"], probes["lustre"]["unknown_lines"]) == (
        "failing",
        text,
        3,
    )
    assert health["state"] == "degraded"
    assert health["states"]["failing"] >= 1
    asked = {
        which: server.ask("GET", f"/api/v1/server?sources={which}", token=server.token("reader"))
        for which in ("troubled", "none", "x")
    }
    troubled = asked["troubled"].json
    assert "sick" in [source["node"] for source in troubled["sources"]]
    assert all(source["state"] in ("silent", "failing") for source in troubled["sources"])
    assert asked["none"].json["sources"] == []
    assert asked["none"].json["states"] == troubled["states"]
    assert asked["x"].status == 400
    assert sum(health["agents"].values()) == len(health["sources"])


def test_a_silent_source_has_a_gap_that_closes(server: Up) -> None:
    assert server.post(health_batch(1, node="gone", interval_ns=1_000_000_000)).status == 200
    found = until(lambda: server.query("SELECT * FROM events WHERE kind = 'gap' AND component = 'gone'"))
    assert [row["end_ns"] for row in found] == [None]
    shown = next(source for source in server.health()["sources"] if source["node"] == "gone")
    assert shown["state"] == "silent"
    assert shown["gap_since_ns"] == found[0]["ts_ns"]
    server.post(health_batch(2, node="gone"))
    ended = "SELECT * FROM events WHERE kind = 'gap' AND component = 'gone' AND end_ns IS NOT NULL"
    closed = until(lambda: server.query(ended))
    assert len(closed) == 1
    assert closed[0]["ts_ns"] == found[0]["ts_ns"]
    assert closed[0]["end_ns"] > closed[0]["ts_ns"]
    shown = next(source for source in server.health()["sources"] if source["node"] == "gone")
    assert (shown["state"], shown["gap_since_ns"], shown["gaps"]) == ("ok", None, 1)


def test_figures_are_prometheus_text(server: Up) -> None:
    server.post(ops_batch(1, node="figures"))
    answer = server.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    sample = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+0-9.e]+(inf)?')
    assert [line for line in lines if not line.startswith("# ") and not sample.fullmatch(line)] == []
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {"fairlead_collector_requests_total", "fairlead_collector_durable_seconds"} <= names
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(values['fairlead_collector_rows_total{table="ops"}']) >= 4
    assert float(values["fairlead_collector_memory_bytes"]) > 1 << 20


def test_the_local_user_needs_no_token_on_the_unix_socket(server: Up, capsys: pytest.CaptureFixture[str]) -> None:
    from fairlead.cli.main import main

    main(["server", "status", "--server", f"unix:{server.unix}", "--json"])
    assert json.loads(capsys.readouterr().out)["schema"] == "fairlead.server/1"
    assert main(["server", "status", "--server", f"http://127.0.0.1:{server.port}"]) == 8
    token = server.folder / "reader"
    token.write_text(server.token("reader"))
    main(["server", "status", "--server", f"http://127.0.0.1:{server.port}", "--token", str(token), "--all"])
    assert "sources" in capsys.readouterr().out


def test_a_new_key_ends_old_tokens_at_sighup(tmp_path: Path) -> None:
    from fairlead.core.access.tokens import make_token_key

    with Up(tmp_path) as server:
        old = server.token()
        assert server.post(ops_batch(1), token=old).status == 200
        (server.state / "server.key").unlink()
        make_token_key(server.state / "server.key")
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        assert until(lambda: server.post(ops_batch(2), token=old).status == 401)
        assert server.post(ops_batch(2)).status == 200
        assert server.stop() == 0
        assert [row["n"] for row in Lake.open(server.lake).query("SELECT count(*) AS n FROM ops").to_pylist()] == [8]
        assert not (server.state / "addresses.json").exists()
