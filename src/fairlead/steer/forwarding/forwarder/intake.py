"""A frame becomes a request, or is answered at once, or shows that the client is not to be trusted (`Malformed`).

The leader does this for every frame. Nothing a client sends is believed before it has been checked here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from errno import EACCES, EINVAL, EIO, ENOSYS, EPERM
from fcntl import F_UNLCK
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from fairlead.steer.forwarding.forwarder.connection import Connection, Frame, Malformed
from fairlead.steer.forwarding.forwarder.request import CLASS_OF, KNOWN, SILENT, Request
from fairlead.steer.fs.fuse.abi import IN_HEADER, INTERRUPT_IN, MAX_WRITE, RELEASE_FLOCK_UNLOCK, RELEASE_IN, Op
from fairlead.steer.fs.wire.frames import HEAD_BYTES, JOB_IN, REVOKE, Flag, Own, Refusal
from fairlead.steer.fs.wire.handshake import Identity

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.buffers import BufferPool
    from fairlead.steer.fs.sessions import Handles

MOST_JOBS = 4096
"""Jobs one connection may announce."""
_HEADER = IN_HEADER.size
_header = IN_HEADER.unpack_from
_size_of = Struct("<16xI").unpack_from
"""Size field in the body of READ and WRITE."""
_offset_of = Struct("<8xQ").unpack_from
"""Offset in the body of READ and WRITE."""
_SLOT, _CHECKSUM, _RETRY = int(Flag.SLOT), int(Flag.CHECKSUM), int(Flag.RETRY)
_READ, _WRITE, _INTERRUPT, _DESTROY = int(Op.READ), int(Op.WRITE), int(Op.INTERRUPT), int(Op.DESTROY)
_LISTED = frozenset({int(Op.READDIR), int(Op.READDIRPLUS)})
_REFUSED = frozenset(
    int(op) for op in (Op.INIT, Op.IOCTL, Op.POLL, Op.NOTIFY_REPLY, Op.BMAP, Op.SETUPMAPPING, Op.REMOVEMAPPING)
)
_RELEASE = int(Op.RELEASE)
_JOB, _PING, _RELEASE_LEASE = int(Own.JOB), int(Own.PING), int(Own.RELEASE_LEASE)
_NOTHING = memoryview(b"")


class Intake:
    """Checks frames. `interrupt` is told of a request that is to be given up; `target_of(node, offset)` names the
    storage target of some data, in trees that have targets; `released` hears which revocation a client is done with."""

    def __init__(
        self,
        buffers: BufferPool,
        interrupt: Callable[[Request], None],
        target_of: Callable[[int, int], object] | None = None,
        released: Callable[[Connection, int], None] | None = None,
    ) -> None:
        self._released = released
        self._target_of = target_of
        self._buffers = buffers
        self._interrupt = interrupt

    def take(self, connection: Connection, frame: Frame, now_ns: int) -> Request | None:
        """The request of a frame to be queued; None when it needs no queue. Malformed ends the connection."""
        flags, job, number, handle, slot, crc, message, buffer = frame
        length, op, _, node, uid, gid, _, _, _ = _header(message)
        data: memoryview | None = None
        size = 0
        body = message[_HEADER:]
        slotted = flags & _SLOT
        if op in (_READ, _WRITE):
            if len(message) < HEAD_BYTES:
                raise Malformed("a READ or WRITE that is too short")
            (size,) = _size_of(body)
            if slotted:
                data = self._slot(connection, slot, size, len(message))
            if op == _WRITE and not slotted:
                data = message[HEAD_BYTES:]
                if len(data) != size:
                    raise Malformed("a WRITE whose data is not as long as it says")
            whole = HEAD_BYTES + size if op == _WRITE else HEAD_BYTES
            body = message[_HEADER:HEAD_BYTES]
        elif slotted:
            raise Malformed("a slot with a request that has no data")
        else:
            whole = len(message)
            if op in _LISTED and len(body) >= 20:
                (size,) = _size_of(body)
        if length != whole:
            raise Malformed("a message whose length is not that of its frame")
        if flags & _CHECKSUM or connection.checksum:
            found = crc32(message)
            if op == _WRITE and slotted and data is not None:
                found = crc32(data, found)
            if not flags & _CHECKSUM or found != crc:
                raise Malformed("a frame whose checksum is wrong or missing")
        if op in SILENT:
            if op == _INTERRUPT:
                self._interrupted(connection, body)
                return None
        elif number == 0 or number in connection.pending or number in connection.parked:
            raise Malformed(f"request {number} is under way already")
        if size > MAX_WRITE or op not in KNOWN or op in _REFUSED:
            self._no(connection, number, op, -EINVAL if size > MAX_WRITE else -ENOSYS, buffer)
            return None
        name = connection.jobs.get(job)
        if name is None:
            self._no(connection, number, op, int(Refusal.UNKNOWN_JOB), buffer)
            return None
        session = connection.session
        only = session.authority.uid
        if only >= 0:
            # uid 0 is also what the kernel puts into requests that are nobody's; it gains nothing here.
            if uid not in (only, 0):
                self._no(connection, number, op, -EACCES, buffer)
                return None
            uid = only
        if op >= _JOB and op in (_JOB, _PING, _RELEASE_LEASE):
            self._own(connection, op, number, body)
            return None
        if op == _DESTROY:
            connection.farewell = True
            connection.answer(number, 0, b"")
            return None
        if flags & _RETRY and self._done_before(connection, number):
            if buffer is not None:
                self._buffers.give(buffer)
            return None
        if op not in CLASS_OF:
            size = 0
        if op == _RELEASE and len(body) >= RELEASE_IN.size:
            self._unlock(session.handles, body)
        request = Request(
            connection, session, op, number, node, handle, uid, gid, flags, slot, name, size, body, data, now_ns
        )
        if self._target_of is not None and op in (_READ, _WRITE):
            request.target = self._target_of(node, _offset_of(body)[0])
        request.buffer = buffer
        holds = len(buffer) if buffer is not None else size if op == _READ and not slotted else 0
        if holds:
            request.holds = holds
            with connection.lock:
                connection.held += holds
        if op not in SILENT:
            connection.pending[number] = request
        return request

    def _unlock(self, handles: Handles, body: memoryview) -> None:
        """Gives the flock of a file that is closed back at once: the kernel waits for no RELEASE, and what its program
        asks next must not overtake it."""
        handle, _, flags, _ = RELEASE_IN.unpack_from(body)
        file = handles.files.get(handle) if flags & RELEASE_FLOCK_UNLOCK else None
        if file is not None and getattr(file, "unlocks_at_once", False):
            with suppress(OSError):  # the RELEASE itself tries again
                file.flock(F_UNLCK)

    def _slot(self, connection: Connection, slot: int, size: int, length: int) -> memoryview:
        slots = connection.slots
        if slots is None or slot >= slots.count:
            raise Malformed(f"slot {slot} is not there")
        if length != HEAD_BYTES:
            raise Malformed("data both in a slot and in the frame")
        return slots.data[slot][: min(size, MAX_WRITE)]

    def _no(self, connection: Connection, number: int, op: int, error: int, buffer: bytearray | None) -> None:
        if buffer is not None:
            self._buffers.give(buffer)
        if op not in SILENT:
            connection.answer(number, error, b"")

    def _interrupted(self, connection: Connection, body: memoryview) -> None:
        if len(body) < INTERRUPT_IN.size:
            raise Malformed("an INTERRUPT that is too short")
        (number,) = INTERRUPT_IN.unpack_from(body)
        request = connection.parked.get(number) or connection.pending.get(number)
        if request is not None:
            self._interrupt(request)

    def _own(self, connection: Connection, op: int, number: int, body: memoryview) -> None:
        error = 0
        if op == _JOB:
            if len(body) < JOB_IN.size:
                raise Malformed("an announcement that is too short")
            index, _ = JOB_IN.unpack_from(body)
            error = self._announce(connection, index, body[JOB_IN.size :])
        elif op == _RELEASE_LEASE and self._released is not None and len(body) >= REVOKE.size:
            self._released(connection, REVOKE.unpack_from(body)[0])
        connection.answer(number, error, b"")

    def _announce(self, connection: Connection, index: int, text: memoryview) -> int:
        try:
            identity = msgspec.json.decode(text, type=Identity)
        except msgspec.DecodeError:
            return -EINVAL
        only = connection.session.authority.job
        if only and identity.job_id != only:
            return -EPERM
        if not 0 < index < MOST_JOBS or len(identity.job_id) > os.pathconf("/", "PC_NAME_MAX"):
            return -EINVAL
        connection.jobs[index] = identity.job_id
        return 0

    def _done_before(self, connection: Connection, number: int) -> bool:
        """A request sent again that this forwarder has carried out, or is at: its answer goes to this connection."""
        session = connection.session
        with session.lock:
            running = session.running.get(number)
            if running is not None:
                running.connection = connection
                running.holds = 0
                connection.pending[number] = running
                return True
        answer = session.find_answer(number)
        if answer is None:
            return False
        connection.answer(number, answer[0], answer[1])
        return True


def get_errno(error: OSError) -> int:
    """The number to answer for an error of the system."""
    return -(error.errno or EIO)
