"""One way to receive and send on a connection that never waits: plain sockets and TLS. No framing, no queues.

`receive_into` and `send` raise BlockingIOError when the other side has to act first.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol

Buffer = bytes | bytearray | memoryview
_JOIN = 16 << 10
SOCKET_BYTES = 4 << 20
"""Send and receive buffer asked of the kernel, so that a whole frame of data fits."""


class Stream(Protocol):
    """A non-blocking connection. `send` may be called from any thread while another one receives."""

    fileno: Callable[[], int]

    def receive_into(self, view: memoryview, /) -> int:
        """Bytes received, 0 when the other side has closed. BlockingIOError when nothing is there."""

    def send(self, buffers: Sequence[Buffer], /) -> int:
        """Bytes taken over, from the first buffer on. BlockingIOError when none can be."""

    def send_along(self, buffers: Sequence[Buffer], descriptor: int) -> int:
        """As `send`, with a descriptor (unix sockets only)."""

    def has_pending(self) -> bool:
        """True when bytes have been received that no poll will tell of."""

    def close(self) -> None:
        """Ends it."""


class PlainStream:
    """A socket, made non-blocking."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.fileno = sock.fileno
        self.receive_into = sock.recv_into
        self.send = sock.sendmsg

    def send_along(self, buffers: Sequence[Buffer], descriptor: int) -> int:
        """See `Stream`."""
        return socket.send_fds(self.sock, buffers, [descriptor])

    def has_pending(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Closes the socket."""
        self.sock.close()


class TlsStream:
    """A TLS socket, made non-blocking. Its state is not safe for two threads, so a lock guards it."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.fileno = sock.fileno
        self._lock = Lock()

    def receive_into(self, view: memoryview) -> int:
        """See `Stream`."""
        with self._lock:
            try:
                return self.sock.recv_into(view)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise BlockingIOError from None
            except ssl.SSLEOFError:
                return 0

    def send(self, buffers: Sequence[Buffer]) -> int:
        """See `Stream`: small buffers go out as one record."""
        first: Buffer = buffers[0]
        if len(buffers) > 1 and len(first) < _JOIN:
            first = b"".join([bytes(first), *(bytes(memoryview(b)[:_JOIN]) for b in buffers[1:2])])
        with self._lock:
            try:
                return self.sock.send(first)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise BlockingIOError from None

    def send_along(self, buffers: Sequence[Buffer], descriptor: int) -> int:
        """TLS connections lead to other machines: OSError, and the answer goes without a descriptor."""
        del buffers, descriptor
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    def has_pending(self) -> bool:
        """True when decrypted bytes are waiting."""
        with self._lock:
            return self.sock.pending() > 0

    def close(self) -> None:
        """Closes the socket without a farewell."""
        with self._lock:
            self.sock.close()


def open_stream(sock: socket.socket) -> Stream:
    """The stream of a connected socket."""
    return TlsStream(sock) if isinstance(sock, ssl.SSLSocket) else PlainStream(sock)


def widen_stream_buffers(sock: socket.socket) -> None:
    """Large socket buffers, as far as the system's limit lets them grow."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        # A TCP socket's buffers grow by themselves; setting one would end that.
        if sock.family == socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)


def keep_stream_alive(sock: socket.socket) -> None:
    """A peer whose machine has gone is noticed within seconds, not after the kernel's quarter of an hour."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 12_000)
