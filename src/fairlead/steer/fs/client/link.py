"""One connection after its handshake: frames go out gathered in one buffer, replies come in as views.

Never waits: what the socket does not take is kept and sent when it can be written again.
"""

from __future__ import annotations

import os
import socket
import ssl
from array import array
from collections import deque
from zlib import crc32

from fairlead.steer.fs.client.dial import Connection
from fairlead.steer.fs.wire.frames import HEAD_BYTES, MAX_FRAME, NO_SLOT, PREFIX_BYTES, REPLY, REQUEST, Flag
from fairlead.steer.fs.wire.handshake import Feature

_OUT_BYTES = 256 << 10
_LARGE = 64 << 10
"""Messages from this size on are sent from where they are instead of being copied."""
_IN_BYTES = 2 * (MAX_FRAME + PREFIX_BYTES)
_SLOT, _CHECKSUM = int(Flag.SLOT), int(Flag.CHECKSUM)
_NO_SLOT = NO_SLOT
_RIGHTS_BYTES = socket.CMSG_SPACE(4 * 4)
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LinkLostError(Exception):
    """The connection ended or said something impossible."""


class Link:
    """Frames out and in over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sock = connection.sock
        self.descriptor = connection.sock.fileno()
        self.slots = connection.slots
        self.secure = isinstance(connection.sock, ssl.SSLSocket)
        self.checksum = Feature.CHECKSUM in connection.welcome.features
        self.passing = Feature.DESCRIPTORS in connection.welcome.features
        """Replies may bring descriptors along."""
        self.receipts = 0
        """How often something has come."""
        self._along: deque[int] = deque()
        self.buffer = bytearray(_IN_BYTES)
        """Where replies arrive: the bytes [begin, end) are not taken yet."""
        self.view = memoryview(self.buffer)
        self.begin = 0
        self.end = 0
        self._out = bytearray(_OUT_BYTES)
        self._out_view = memoryview(self._out)
        self._fill = 0
        self._left: deque[memoryview] = deque()
        self._flags = _CHECKSUM if self.checksum else 0

    @property
    def blocked(self) -> bool:
        """True while the socket takes no more."""
        return bool(self._left)

    def put_slotted(self, request: int, job: int, slot: int, message: memoryview, data: int, flags: int = 0) -> None:
        """A READ or WRITE whose data is in the slot: the head of its message, behind it `data` bytes to write."""
        crc = 0
        if self._flags:
            crc = crc32(message[: HEAD_BYTES + data])
            flags |= _CHECKSUM
        fill = self._fill
        if fill + PREFIX_BYTES + HEAD_BYTES > _OUT_BYTES:
            self.flush()
            fill = self._fill
        out = self._out
        REQUEST.pack_into(out, fill, HEAD_BYTES, flags | _SLOT, job, request, 0, slot, crc)
        fill += PREFIX_BYTES
        self._fill = end = fill + HEAD_BYTES
        out[fill:end] = message[:HEAD_BYTES]

    def put(self, request: int, job: int, handle: int, message: memoryview | bytes, flags: int = 0) -> None:
        """A request with all of its message."""
        length = len(message)
        crc = 0
        if self._flags:
            crc = crc32(message)
            flags |= _CHECKSUM
        if length > _LARGE:
            prefix = REQUEST.pack(length, flags, job, request, handle, _NO_SLOT, crc)
            self._put_large(prefix, message)
            return
        fill = self._fill
        if fill + PREFIX_BYTES + length > _OUT_BYTES:
            self.flush()
            fill = self._fill
        out = self._out
        REQUEST.pack_into(out, fill, length, flags, job, request, handle, _NO_SLOT, crc)
        fill += PREFIX_BYTES
        self._fill = end = fill + length
        out[fill:end] = message

    def _put_large(self, prefix: bytes, message: memoryview | bytes) -> None:
        self.flush()
        view = memoryview(message)
        if self._left:
            self._left.append(memoryview(prefix))
            self._left.append(view)
            return
        try:
            sent = self.sock.send(prefix) if self.secure else self.sock.sendmsg((prefix, view))
        except _WOULD_BLOCK:
            sent = 0
        except OSError as error:
            raise LinkLostError(str(error)) from error
        if sent < len(prefix):
            self._left.append(memoryview(prefix)[sent:])
            self._left.append(view)
        elif sent < len(prefix) + len(view):
            self._left.append(view[sent - len(prefix) :])
            self.flush()

    def flush(self) -> bool:
        """Sends what is gathered; false when the socket takes no more for now."""
        fill = self._fill
        if not self._left:
            if not fill:
                return True
            try:
                sent = self.sock.send(self._out_view[:fill])
            except _WOULD_BLOCK:
                sent = 0
            except OSError as error:
                raise LinkLostError(str(error)) from error
            self._fill = 0
            if sent == fill:
                return True
            self._left.append(memoryview(bytes(self._out_view[sent:fill])))
            return False
        if fill:
            self._left.append(memoryview(bytes(self._out_view[:fill])))
            self._fill = 0
        return self._flush_left()

    def _flush_left(self) -> bool:
        left = self._left
        while left:
            piece = left[0]
            try:
                sent = self.sock.send(piece)
            except _WOULD_BLOCK:
                return False
            except OSError as error:
                raise LinkLostError(str(error)) from error
            if sent == len(piece):
                left.popleft()
            else:
                left[0] = piece[sent:]
        return True

    def receive(self) -> bool:
        """Takes what has arrived; false when nothing had. Compacts the buffer, so views of replies end here."""
        begin, end = self.begin, self.end
        if begin:
            if begin != end:
                self.buffer[: end - begin] = self.buffer[begin:end]
            end -= begin
            self.begin = 0
        try:
            count = self._receive_along(self.view[end:]) if self.passing else self.sock.recv_into(self.view[end:])
        except _WOULD_BLOCK:
            self.end = end
            return False
        except OSError as error:
            raise LinkLostError(str(error)) from error
        if count == 0:
            raise LinkLostError("the forwarder ended the connection")
        self.end = end + count
        self.receipts += 1
        return True

    def _receive_along(self, view: memoryview) -> int:
        """As `recv_into`; descriptors that come along are kept in their order. The kernel gives those of one reply at
        a time, with its first byte."""
        count, told, flags, _ = self.sock.recvmsg_into([view], _RIGHTS_BYTES, socket.MSG_CMSG_CLOEXEC)
        came = array("i")
        for level, kind, data in told:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                came.frombytes(data[: len(data) - len(data) % came.itemsize])
        if came:
            self._along.append(came[0])
            for more in came[1:]:
                os.close(more)
        elif flags & socket.MSG_CTRUNC:
            self._along.append(-1)  # this process has too many files open: the kernel has dropped it
        return count

    def take_along(self) -> int:
        """The descriptor that came with the next reply that says so, the caller's to close; -1 when it was dropped."""
        if not self._along:
            raise LinkLostError("a reply without the descriptor it speaks of")
        return self._along.popleft()

    def check(self, position: int, length: int, flags: int, crc: int, data: memoryview | None) -> None:
        """A reply's checksum, with its data in a slot; LinkLostError when it does not hold."""
        if not flags & _CHECKSUM:
            raise LinkLostError("a reply without its checksum")
        start = position + PREFIX_BYTES
        found = crc32(self.view[start : start + length])
        if data is not None:
            found = crc32(data, found)
        if found != crc:
            raise LinkLostError("a reply whose checksum does not hold")

    def close(self) -> None:
        """Ends the connection."""
        self._left.clear()
        while self._along:
            descriptor = self._along.popleft()
            if descriptor >= 0:
                os.close(descriptor)
        self.connection.close()


def read_link_reply(link: Link) -> tuple[int, int, memoryview] | None:
    """The next whole reply as (request, error, body), for callers that are in no hurry; None when there is none.

    The body is a view into the buffer, good until the next `receive`. Replies whose data is in a slot are not
    for this.
    """
    if link.end - link.begin < PREFIX_BYTES:
        return None
    length, flags, _, request, error, _, _, crc = REPLY.unpack_from(link.buffer, link.begin)
    if length > MAX_FRAME:
        raise LinkLostError("a reply longer than allowed")
    stop = link.begin + PREFIX_BYTES + length
    if stop > link.end:
        return None
    if link.checksum:
        link.check(link.begin, length, flags, crc, None)
    body = link.view[link.begin + PREFIX_BYTES : stop]
    link.begin = stop
    return request, error, body
