"""A connection of a client that may be hostile: deadlines for headers, body and silence, limits on size and number.
A subclass of uvicorn's httptools protocol.

Not here: what a request asks for (`app`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import Counter
from contextlib import suppress
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairlead.see.collector.admission import Complaints
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.settings import Limits

_ANSWERS = {
    400: (b"Bad Request", b"this is no HTTP request"),
    429: (b"Too Many Requests", b"too many connections"),
    431: (b"Request Header Fields Too Large", b"the headers are too large"),
}
LINGER_S = 1.0
"""What is sent by one that was refused is dropped so long before its connection is closed."""
_DRAINED = 4
"""A body that was refused is read and dropped up to so many times the largest size, so that its sender reads why."""
STALL_S = 20.0
"""So often it is looked whether a client reads what waits for it."""
SLOWEST_BYTES_PER_S = 1024
"""Who reads more slowly, or nothing, is dropped."""
_UNSENT_BYTES = 65536
"""So much the kernel takes of what cannot be sent yet: the rest waits here, where it is counted."""
_TCP_NOTSENT_LOWAT = 25


class Crowd:
    """The connections of one collector, and the rules for them."""

    def __init__(self, limits: Limits, metrics: Metrics, complaints: Complaints) -> None:
        self.limits = limits
        self.metrics = metrics
        self.complaints = complaints
        self.by_address: Counter[str] = Counter()
        self.count = 0

    def enter(self, address: str) -> bool:
        """Whether one more may come."""
        if self.count >= self.limits.connections:
            return False
        if address and self.by_address[address] >= self.limits.connections_per_address:
            return False
        self.count += 1
        self.by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """One has gone that had been let in."""
        self.count -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]


class Connection(HttpToolsProtocol):
    """One connection. `crowd` is set on a subclass made for one server (`build_client_connection`)."""

    crowd: ClassVar[Crowd]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._address = ""
        self._let_in = False
        self._in_headers = True
        self._header_bytes = 0
        self._trusted = False
        self._refused = False
        self._stall: asyncio.TimerHandle | None = None
        self._unread = 0
        self._overdue = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Counts it, or refuses it."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._trusted = _is_own(transport)
        _hold_little(transport)
        if not self.crowd.enter(self._address):
            self._refuse(429, "connections", b"retry-after: 5\r\n")
            return
        self._let_in = True
        self._within(self.crowd.limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Makes room for another."""
        self._no_deadline()
        self._no_stall()
        if self._let_in:
            self._let_in = False
            self.crowd.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request. Headers are counted: the parser itself has no limit."""
        if self.transport.is_closing() or not self._let_in or self._refused:
            return
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if not self._in_headers or self._refused or self.transport.is_closing():
            return
        if self._header_bytes > self.crowd.limits.header_bytes:
            self._refuse(431, "headers")
        elif self._header_bytes and self._deadline is None:
            self._within(self.crowd.limits.header_s)

    def on_message_begin(self) -> None:
        """The first bytes of a request."""
        self._overdue = False
        super().on_message_begin()
        self.scope["state"]["trusted"] = self._trusted

    def on_headers_complete(self) -> None:
        """Headers are there: from now on the body's deadline counts."""
        self._in_headers = False
        self._no_deadline()
        length = sum(len(name) + len(value) + 4 for name, value in self.headers) + len(self.url)
        if length > self.crowd.limits.header_bytes:
            self._refuse(431, "headers")
            return
        limits = self.crowd.limits
        size = 0
        for name, value in self.headers:
            if name == b"content-length":
                size = int(value)  # the parser has seen to it that it is a number
        if size > _DRAINED * limits.body_bytes:
            size = 0
        self._within(limits.body_s + size / limits.body_bytes_per_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Bytes of a body."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there in full; what takes time now is ours."""
        if self._refused:
            return
        self._no_deadline()
        self._in_headers = True
        self._header_bytes = 0
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Silent for long. Who does not read what is left by now never will."""
        if not self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._overdue = True
            self._watch_reader()

    def pause_writing(self) -> None:
        """More waits for the client than it reads."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if not self._overdue:
            self._no_stall()

    def _watch_reader(self) -> None:
        if self._stall is None:
            self._unread = self.transport.get_write_buffer_size()
            self._stall = self.loop.call_later(STALL_S, self._look_at_reader)

    def _look_at_reader(self) -> None:
        """Nothing is added while it lasts: what is left says how much was read."""
        self._stall = None
        left = self.transport.get_write_buffer_size()
        if left and self._unread - left < STALL_S * SLOWEST_BYTES_PER_S:
            self._gone("slow", "closed: it does not read its responses")
        elif left:
            self._watch_reader()
        elif self._overdue:
            self.transport.abort()

    def _no_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (the parser's own words help nobody)
        """Bytes that are no HTTP."""
        if not self._refused:
            self._refuse(400, "malformed")

    def _within(self, seconds: float) -> None:
        self._no_deadline()
        self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._in_headers and not self._header_bytes and self.cycle is None:
            self._gone("idle")  # connected and said nothing
        else:
            self._gone("slow", "closed: its request arrived too slowly")

    def _gone(self, why: str, text: str = "") -> None:
        self.crowd.metrics.refused_connections.add(reason=why)
        if text:
            self.crowd.complaints.tell(self._address or "unix socket", why, text)
        self.transport.abort()

    def _refuse(self, status: int, why: str, extra: bytes = b"") -> None:
        phrase, said = _ANSWERS[status]
        body = b'{"error":"' + said + b'","where":"","remedy":""}'
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\nconnection: close\r\n%scontent-length: %d\r\n\r\n%s"
            % (status, phrase, extra, len(body), body)
        )
        self.crowd.metrics.refused_connections.add(reason=why)
        self.crowd.complaints.tell(self._address or "unix socket", why, f"refused ({status}): {said.decode()}")
        self._no_deadline()
        self._in_headers = self._refused = True
        if status == 429 or not self.transport.can_write_eof():
            self.transport.close()
        else:  # closing while more arrives would reset it, and the answer might never be read
            self.transport.write_eof()
            self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)


def build_client_connection(crowd: Crowd) -> type[Connection]:
    """The protocol class of one server."""
    return type("ConnectionOfServer", (Connection,), {"crowd": crowd})


def _hold_little(transport: asyncio.Transport) -> None:
    """What a slow client does not take must not pile up in the kernel, for each of many megabytes."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def _is_own(transport: asyncio.Transport) -> bool:
    """Whether at the other end of a unix socket is a process of the server's own user, or of root."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != socket.AF_UNIX:
        return False
    try:
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except OSError:
        return False
    return uid in (0, os.geteuid())
