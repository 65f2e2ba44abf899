"""The way to the collector against servers that answer badly: waits and sizes are bounded, nothing is believed."""

from __future__ import annotations

import io
import resource
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from agent_server import Collector, Misbehaviour, certificate
from fairlead.core.batches.encoding import encode_batch, encode_numbers, encode_words
from fairlead.core.batches.spool import Spool
from fairlead.see.agent.connection import Line, SendError, Token
from fairlead.see.agent.spool_sender import Shipper


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return path


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def line_to(url: str, token: Path, **more: object) -> Line:
    options: dict[str, object] = {"connect_s": 5.0, "silence_s": 0.3, **more}
    return Line(url, Token(str(token)), "0.0.1", wall=time.time_ns, **options)  # type: ignore[arg-type]


def batch(spool: Spool) -> bytes:
    columns = {
        "ts_ns": encode_numbers([1]),
        "component": encode_words(["c"]),
        "kind": encode_words(["k"]),
        "text": encode_words(["t"]),
    }
    return encode_batch(spool.build_header("events", 1, 1), columns)


def garbage(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    request.wfile.write(b"\x00\xff no HTTP at all\r\n\r\n")
    request.close_connection = True
    return True


def nothing(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    request.close_connection = True
    return True


def silent(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    request.connection.recv(1)  # until the agent gives up and hangs up
    request.close_connection = True
    return True


def endless(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    try:
        for _ in range(1000):
            request.wfile.write(b"{" * 65536)
    except OSError:
        pass
    request.close_connection = True
    return True


def endless_headers(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        for _ in range(20000):
            request.wfile.write(b"X: " + b"y" * 1000 + b"\r\n")
    except OSError:
        pass
    request.close_connection = True
    return True


def cut_short(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    request.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"taken": 1, "known": 0}')
    request.close_connection = True
    return True


def a_page(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    page = b"<html>Please log in to the network</html>"
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
    return True


def deep(request: BaseHTTPRequestHandler, _: bytes) -> bool:
    page = b"[" * 60000
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
    return True


@pytest.mark.parametrize(
    "badly", [garbage, nothing, silent, endless, endless_headers, cut_short, a_page, deep], ids=lambda one: one.__name__
)
def test_bad_answers_cost_nothing_and_end(
    tmp_path: Path, token: Path, collector: Collector, badly: Misbehaviour
) -> None:
    spool = Spool(tmp_path / "spool", node="n1", writer="agent", layer="agent")
    spool.write([batch(spool)])
    collector.misbehave = badly
    line = line_to(collector.url, token)
    shipper = Shipper(spool.folder, (), line, draw=lambda: 0.5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for attempt in range(3):
        assert shipper.step(attempt * 10**12) > attempt * 10**12
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10
    assert shipper.get_health().failing
    assert shipper.get_health().text
    assert len(list(Path(spool.folder).glob("*.batch"))) == 1
    collector.misbehave = None
    assert shipper.step(10**14) == 10**14
    assert len(collector.taken) == 1
    assert not list(Path(spool.folder).glob("*.batch"))
    line.close()


def test_a_redirect_is_not_followed(tmp_path: Path, token: Path, collector: Collector) -> None:
    elsewhere = Collector()

    def redirect(request: BaseHTTPRequestHandler, _: bytes) -> bool:
        request.send_response(307)
        request.send_header("Location", elsewhere.url + "/v1/batches")
        request.send_header("Content-Length", "0")
        request.end_headers()
        return True

    collector.misbehave = redirect
    line = line_to(collector.url, token)
    assert line.post([io.BytesIO(b"x")], 1).status == 307
    assert elsewhere.posts == 0
    line.close()
    elsewhere.close()


def test_a_kept_connection_that_was_closed_is_made_anew(token: Path, collector: Collector) -> None:
    line = line_to(collector.url, token)
    answers = [line.post([], 0).status]
    kept = line._connection
    assert line.post([], 0).status == 200
    assert line._connection is kept
    collector.misbehave = nothing
    with pytest.raises(SendError):
        line.post([], 0)
    assert line._connection is None
    collector.misbehave = None
    answers.append(line.post([io.BytesIO(b"")], 0).status)
    assert answers == [200, 200]
    line.close()


def test_an_attempt_can_be_cut_from_outside(token: Path, collector: Collector) -> None:
    drip = threading.Event()

    def slowly(request: BaseHTTPRequestHandler, _: bytes) -> bool:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(600):
                request.wfile.write(b" ")
                drip.set()
                time.sleep(0.05)
        except OSError:
            pass
        request.close_connection = True
        return True

    collector.misbehave = slowly
    line = line_to(collector.url, token)
    timer = threading.Thread(target=lambda: (drip.wait(900), line.cut()))
    timer.start()
    with pytest.raises(SendError):
        line.post([], 0)
    timer.join()
    line.close()


def test_tls_sessions_are_resumed_and_the_clock_is_compared(tmp_path: Path, token: Path) -> None:
    chain, key = certificate(tmp_path)
    secure = Collector(tls=(chain, key))
    line = line_to(secure.url, token, ca=str(chain), silence_s=10.0)
    answer = line.post([], 0)
    assert answer.offset_ns is not None
    assert abs(answer.offset_ns) < 5 * 10**9
    assert line._session is not None
    line.close()
    assert line.post([], 0).status == 200
    assert line._connection is not None
    assert line._connection.sock.session_reused  # type: ignore[attr-defined]
    line.close()
    secure.close()


def test_a_token_is_read_again_when_it_changed(tmp_path: Path, token: Path, collector: Collector) -> None:
    line = line_to(collector.url, token)
    token.write_text("wrong token\n")
    with pytest.raises(SendError, match="contains no token"):
        line.post([], 0)
    token.write_text("old\n")
    assert line.post([], 0).status == 401
    token.write_text("secret")
    assert line.post([], 0).status == 200
    token.unlink()
    with pytest.raises(SendError, match="cannot be read"):
        line.post([], 0)
    line.close()
    with pytest.raises(SendError):
        line_to("http://127.0.0.1:1", tmp_path / "none").post([], 0)
