"""When a mount gives up a forwarder that says nothing: never while it answers, and never for a fault of its own."""

from __future__ import annotations

import socket
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.steer.forwarding.mount.recovery import forwarder_timeout
from fairlead.steer.forwarding.mount.recovery.forwarder_timeout import ForwarderTimeout
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.wire.frames import Own
from fairlead.steer.fs.wire.stream import keep_stream_alive


class Room:
    """A mount at one or two forwarders, with a clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, forwarders: int) -> None:
        self.now = 1000.0
        monkeypatch.setattr(forwarder_timeout, "monotonic_s", lambda: self.now)
        self.here, self.there = socket.socketpair()
        self.pings: list[int] = []
        self.lost: list[str] = []
        self.said: list[str] = []
        self.link = SimpleNamespace(
            receipts=0,
            descriptor=self.here.fileno(),
            put=lambda number, *_: self.pings.append(number),
            flush=lambda: None,
            connection=SimpleNamespace(address="unix:/a"),
        )
        self.requests: dict[int, Any] = {}
        self.dial = SimpleNamespace(addresses=["a", "b"][:forwarders], current=0)
        mount: Any = SimpleNamespace(
            link=self.link,
            dial=self.dial,
            drop_link=self.lost.append,
            log=self.said.append,
            ledger=SimpleNamespace(requests=self.requests, ids=count(100)),
        )
        self.timeout = ForwarderTimeout(mount)

    def asked(self, op: int = Op.READ) -> None:
        self.requests[1] = (7, int(op), *[0] * 8)

    def after(self, seconds: float) -> float:
        self.now += seconds
        return self.timeout.pause_s()

    def heard(self) -> None:
        self.link.receipts += 1
        for number in self.pings:
            self.requests.pop(number, None)


@pytest.fixture
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Room(monkeypatch, getattr(request, "param", 2))
    yield made
    made.here.close()
    made.there.close()


def test_who_asks_nothing_waits_for_ever(room: Room) -> None:
    assert room.after(0) == -1
    assert room.after(1000) == -1
    room.asked()
    assert room.after(1000) == 5, "silence begins with the first request"
    assert not room.pings


def test_a_silent_forwarder_is_asked_then_left_for_the_next(room: Room) -> None:
    room.asked()
    assert room.after(0) == 5
    assert room.after(4) == 1
    assert room.after(1) == 5
    assert room.requests[room.pings[0]][1] == Own.PING
    assert room.after(4.5) == 0.5
    assert not room.lost
    assert room.after(0.5) == 0
    assert room.lost == ["silent for 10 s"]
    assert room.dial.current == 1


def test_a_lock_may_be_waited_for_as_long_as_pings_are_answered(room: Room) -> None:
    room.asked(Op.SETLKW)
    room.after(0)
    for turn in range(20):
        assert room.after(5) == 5
        assert len(room.pings) == turn + 1
        room.heard()
        assert room.after(0.001) == 5
    assert not room.lost


def test_answers_that_came_while_this_process_was_stopped_count(room: Room) -> None:
    room.asked()
    room.after(0)
    room.after(5)
    room.there.send(b"answer")
    assert room.after(3600) == 0
    assert not room.lost


def test_a_process_that_was_stopped_itself_asks_first(room: Room) -> None:
    room.asked()
    room.after(0)
    assert room.after(3600) == 5
    assert len(room.pings) == 1
    assert not room.lost


@pytest.mark.parametrize("room", [1], indirect=True)
def test_the_only_forwarder_is_waited_for_and_that_is_said_once(room: Room) -> None:
    room.asked()
    room.after(0)
    room.after(5)
    for _ in range(5):
        assert room.after(10) == 10
    assert not room.lost
    assert len(room.said) == 1


def test_tcp_peers_that_vanish_are_noticed_by_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        keep_stream_alive(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12_000
