"""A connection until its handshake is done: reads the Hello in pieces, never waits, never reads beyond it."""

from __future__ import annotations

import os
import socket
import ssl
from array import array

from fairlead.steer.forwarding.forwarder.admission import describe_admission_peer
from fairlead.steer.fs.wire.handshake import (
    HELLO,
    MAX_JSON,
    Hello,
    Refusal,
    choose_handshake_version,
    pack_handshake_answer,
    parse_handshake_prefix,
    read_handshake_hello,
)

MOST_DESCRIPTORS = 4
"""Descriptors taken from a message; all but the first are closed at once."""


class PendingHandshake:
    """A client that has connected and not said (all of) its Hello yet."""

    def __init__(self, sock: socket.socket, tls: ssl.SSLContext | None, deadline_ns: int) -> None:
        self.name = describe_admission_peer(sock)
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.sock = sock
        self.deadline_ns = deadline_ns
        self.descriptor = -1
        """What came along (the memory of slots)."""
        self.version = 0
        self._secured = tls is None
        self._text = bytearray()
        self._need = HELLO.size
        self._prefix_read = False

    def advance(self) -> Hello | None:
        """The Hello when it is complete; None when more must come.

        ValueError with the reason when it is none, OSError when the connection is broken.
        """
        try:
            if not self._secured:
                if isinstance(self.sock, ssl.SSLSocket):
                    self.sock.do_handshake()
                self._secured = True
            while True:
                while len(self._text) < self._need:
                    part = self._receive(self._need - len(self._text))
                    if not part:
                        raise ConnectionResetError("closed before it said who it is")
                    self._text += part
                if self._prefix_read:
                    return read_handshake_hello(self._text)
                oldest, newest, self._need = parse_handshake_prefix(self._text)
                self.version = choose_handshake_version(oldest, newest)
                self._text.clear()
                self._prefix_read = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def _receive(self, most: int) -> bytes:
        if self.sock.family != socket.AF_UNIX:
            return self.sock.recv(most)
        room = socket.CMSG_SPACE(4 * MOST_DESCRIPTORS)
        part, extra, _, _ = self.sock.recvmsg(most, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                passed = array("i")
                passed.frombytes(data[: len(data) - len(data) % passed.itemsize])
                for descriptor in passed:
                    if self.descriptor < 0:
                        self.descriptor = descriptor
                    else:
                        os.close(descriptor)
        return part

    def take_descriptor(self) -> int:
        """The descriptor that came along, no longer this object's to close; -1 when there was none."""
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor

    def refuse(self, reason: str, remedy: str = "") -> None:
        """Says no and closes."""
        try:
            if self._secured:
                self.sock.send(pack_handshake_answer(Refusal(reason, remedy)))
                self.sock.recv(MAX_JSON)  # a socket closed with bytes unread takes back what it has sent
        except OSError:
            pass  # it has gone already
        self.close()

    def close(self) -> None:
        """Closes the connection and what came along."""
        if self.descriptor >= 0:
            os.close(self.take_descriptor())
        self.sock.close()
