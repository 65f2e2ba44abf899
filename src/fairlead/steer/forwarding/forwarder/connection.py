"""One client's connection: bytes into frames, answers into bytes, and when to stop listening to it.

Frames are checked here; a wrong one raises `FrameError`, and the server ends the connection. Not here: what is asked.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from fairlead.steer.forwarding.forwarder.buffers import BufferPool
from fairlead.steer.fs.wire.frames import MAX_FRAME, NO_SLOT, PREFIX_BYTES, REPLY, REQUEST, Flag
from fairlead.steer.fs.wire.slots import Slots
from fairlead.steer.fs.wire.stream import Buffer, Stream

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.client_sessions import Session
    from fairlead.steer.forwarding.forwarder.job_proofs import Share
    from fairlead.steer.forwarding.forwarder.request import Request

RECEIVE_BYTES = 128 << 10
MOST_PENDING = 256
"""Requests of one connection that may be unanswered before it is listened to no more."""
MOST_HELD = 64 << 20
"""Bytes that requests which wait bring along or will need for their answers."""
MOST_UNREAD = 64 << 20
"""Bytes of answers that may wait for a client that does not read."""
_HEADER_BYTES = 40
_CHECKSUM = int(Flag.CHECKSUM)
_SLOT = int(Flag.SLOT)
_DESCRIPTOR = int(Flag.DESCRIPTOR)
_LARGE = RECEIVE_BYTES // 2


class Frame(NamedTuple):
    """A frame of a client that has come in whole."""

    flags: int
    job: int
    number: int
    handle: int
    slot: int
    crc: int
    """CRC-32, with `Flag.CHECKSUM`."""
    message: memoryview
    buffer: bytearray | None = None
    """What holds the message, to be given back; None if nothing has to be."""


_new = tuple.__new__
"""Makes a `Frame` at the price of a tuple."""


class FrameError(Exception):
    """The client sent what no client sends."""


class Connection:
    """A client's connection after its handshake. The leader receives; any worker answers."""

    def __init__(
        self,
        stream: Stream,
        session: Session,
        slots: Slots | None,
        buffers: BufferPool,
        *,
        name: str,
        checksum: bool,
        change_mask: Callable[[Connection], None],
    ) -> None:
        self.stream = stream
        self.fd = stream.fileno()
        self.session = session
        self.slots = slots
        self.name = name
        self.checksum = checksum
        self.dead = False
        self.listening = True
        self.backlog = False
        """Frames may have come in that were not looked at, since the client had asked too much."""
        self.writing = False
        self.descriptors = False
        """Answers to OPEN and the like may carry the file's descriptor."""
        self.leases = False
        """The client keeps what it is told until it is told otherwise."""
        self.barred = 0
        """The errno of everything it asks, once its token has ended (`token_watch`)."""
        self.most_pending, self.most_held, self.most_jobs = MOST_PENDING, MOST_HELD, 4096
        """Its part of what its user may hold (`user_limits`)."""
        self.farewell = False
        """The client has said that it will not come back."""
        self.pending: dict[int, Request] = {}
        """Requests that are neither answered nor parked, by number."""
        self.parked: dict[int, Request] = {}
        """Requests that wait for a lock."""
        self.jobs: dict[int, Share] = {0: (session.number, session.number)}
        self.held = 0
        """Bytes of the requests that wait or are carried out, and of their answers."""
        self.unread = 0
        self.lock = Lock()
        self._change_mask = change_mask
        self._out: deque[tuple[memoryview, bytearray | None]] = deque()
        self._along = b""
        """Answers nobody waits for, which go with the next one."""
        self._buffers = buffers
        self._memory = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._memory)
        self.filled = 0
        """How far the memory is filled; 0: all frames in it were taken."""
        self._place = 0  # where the next frame begins
        self._large: bytearray | None = None  # a frame that is longer than what is left of the memory
        self._large_view = self._view
        self._large_need = 0
        self._large_filled = 0
        self._large_prefix: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)

    def receive(self) -> bool:
        """Takes in what has come, for `take_frame`; False when the client has closed the connection.

        OSError when the connection is broken.
        """
        while True:
            large = self._large is not None and self._large_filled < self._large_need
            try:
                if large:
                    got = self.stream.receive_into(self._large_view[self._large_filled : self._large_need])
                elif self.filled == RECEIVE_BYTES:
                    return True
                else:
                    got = self.stream.receive_into(self._view[self.filled :])
            except BlockingIOError:
                return True
            if got == 0:
                return False
            if large:
                self._large_filled += got
            else:
                self.filled += got
                if self.filled == RECEIVE_BYTES and self._begins_large():
                    continue  # the rest of it is most likely there
            if not self.stream.has_pending():
                return True

    def take_frame(self) -> Frame | None:
        """The next frame that has come in whole. Malformed when it is none of ours."""
        if self._large is not None:
            return self._finish_large() if self._large_filled == self._large_need else None
        view, place = self._view, self._place
        left = self.filled - place
        if left >= PREFIX_BYTES:
            length, flags, job, number, handle, slot, crc = REQUEST.unpack_from(view, place)
            if not _HEADER_BYTES <= length <= MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes")
            start = place + PREFIX_BYTES
            end = start + length
            if end <= self.filled:
                if end == self.filled:
                    self._place = self.filled = 0
                else:
                    self._place = end
                message = memoryview(bytes(view[start:end]))
                return _new(Frame, (flags, job, number, handle, slot, crc, message, None))
            if self._begins_large():
                return None
        if place:
            self._memory[:left] = self._memory[place : self.filled]
            self._place, self.filled = 0, left
        return None

    def _begins_large(self) -> bool:
        """Moves a frame that is too long for the memory to a buffer of its own."""
        place, filled = self._place, self.filled
        if filled - place < PREFIX_BYTES:
            return False
        length, flags, job, number, handle, slot, crc = REQUEST.unpack_from(self._view, place)
        start = place + PREFIX_BYTES
        if start + length <= filled or not _LARGE < length <= MAX_FRAME:
            return False
        self._begin_large(length, self._view[start:filled], (flags, job, number, handle, slot, crc))
        self._place = self.filled = 0
        return True

    def _begin_large(self, length: int, part: memoryview, prefix: tuple[int, int, int, int, int, int]) -> None:
        self._large = self._buffers.take_buffer(length)
        self._large_view = memoryview(self._large)
        self._large_view[: len(part)] = part
        self._large_filled = len(part)
        self._large_need = length
        self._large_prefix = prefix

    def _finish_large(self) -> Frame:
        frame = Frame(*self._large_prefix, self._large_view[: self._large_need], self._large)
        self._large = None
        self._large_view = self._view
        return frame

    def is_crowded(self) -> bool:
        """True when this client has asked enough for now."""
        return len(self.pending) > self.most_pending or self.unread > MOST_UNREAD or self.held > self.most_held

    def is_relaxed(self) -> bool:
        """True when a client that was not listened to may go on."""
        return (
            len(self.pending) <= self.most_pending // 2
            and self.unread <= MOST_UNREAD // 2
            and self.held <= self.most_held // 2
        )

    def answer_with_descriptor(self, number: int, body: bytes, descriptor: int) -> bool:
        """Sends an answer with a descriptor; False when the client does not take it at once, and nothing was sent."""
        flags = _DESCRIPTOR
        crc = 0
        if self.checksum:
            flags |= _CHECKSUM
            crc = crc32(body)
        prefix = REPLY.pack(len(body), flags, 0, number, 0, NO_SLOT, 0, crc)
        with self.lock:
            if self.dead or self._out:
                return False
            try:
                sent = self.stream.send_along((prefix, body), descriptor)
            except OSError:  # BlockingIOError too
                return False
            if sent < PREFIX_BYTES + len(body):
                self._queue(prefix, body, sent, None)
                if not self.writing:
                    self.writing = True
                    self._change_mask(self)
            return True

    def answer(
        self,
        number: int,
        error: int,
        body: Buffer,
        *,
        slot: int = NO_SLOT,
        in_slot: memoryview | None = None,
        buffer: bytearray | None = None,
        flags: int = 0,
        along: bool = False,
    ) -> None:
        """Sends an answer, or queues what the client does not take at once. `in_slot`: the data that is in `slot`.
        `buffer` (which holds `body`) is given back when it is sent. `along`: nobody waits for this answer, it may go
        with that of a request that is still being carried out."""
        if slot != NO_SLOT:
            flags |= _SLOT
        crc = 0
        if self.checksum:
            flags |= _CHECKSUM
            crc = crc32(body)
            if in_slot is not None:
                crc = crc32(in_slot, crc)
        prefix = REPLY.pack(len(body), flags, 0, number, error, slot, len(in_slot) if in_slot is not None else 0, crc)
        with self.lock:
            if self.dead:
                return
            if self._along:
                prefix = self._along + prefix
                self._along = b""
            if along and self.pending and not body:
                self._along = prefix
                return
            if not self._out:
                try:
                    sent = self.stream.send((prefix, body) if body else (prefix,))
                except BlockingIOError:
                    sent = 0
                except OSError:  # the leader finds out when it receives, and ends the connection
                    return
                if sent == len(prefix) + len(body):
                    if buffer is not None:
                        self._buffers.give(buffer)
                    return
            else:
                sent = 0
            self._queue(prefix, body, sent, buffer)
            if not self.writing:
                self.writing = True
                self._change_mask(self)

    def _queue(self, prefix: bytes, body: Buffer, sent: int, buffer: bytearray | None) -> None:
        self.unread += len(prefix) + len(body) - sent
        if sent < len(prefix):
            self._out.append((memoryview(prefix)[sent:], None))
            sent = 0
        else:
            sent -= len(prefix)
        if len(body) > sent:
            self._out.append((memoryview(body)[sent:], buffer))

    def flush(self) -> None:
        """Sends on what was queued, as far as the client takes it (the leader, when the socket is writable)."""
        with self.lock:
            out = self._out
            while out and not self.dead:
                try:
                    sent = self.stream.send([part for part, _ in list(out)[:64]])
                except BlockingIOError:
                    return
                except OSError:  # the leader finds out when it receives
                    out.clear()
                    break
                self.unread -= sent
                while sent:
                    part, buffer = out[0]
                    if sent < len(part):
                        out[0] = (part[sent:], buffer)
                        break
                    sent -= len(part)
                    out.popleft()
                    if buffer is not None:
                        part.release()
                        self._buffers.give(buffer)
            if not out and self.writing:
                self.writing = False
                self._change_mask(self)

    def is_hung_up(self) -> bool:
        """True when the client has closed it, whether or not the leader knows."""
        with self.lock:
            if self.dead:
                return True
            poll = select.poll()
            poll.register(self.fd, select.POLLRDHUP)
            return bool(poll.poll(0))

    def end(self) -> None:
        """Closes it. What is still being carried out ends without an answer here."""
        with self.lock:
            if self.dead:
                return
            self.dead = True
            self._out.clear()
            self.stream.close()
        if self.slots is not None:
            self.slots.close()
            self.slots = None
