"""A frame becomes a request, or is answered at once, or ends the connection (`FrameError`).

The leader does this for every frame. Nothing a client sends is used before it has been checked here:

    frame ──► lengths, slot, checksum, number ── invalid ─► Malformed
          ──► opcode, size, job, user ── refused ─────────► answered with an error
          ──► INTERRUPT, Own.*, DESTROY ──────────────────► carried out here
          ──► RETRY of a request that is running or done ─► answered by that one
          ──► request, in `Connection.pending` ───────────► queued
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from errno import EACCES, EINVAL, ENOSYS, EPERM
from fcntl import F_UNLCK
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from fairlead.steer.forwarding.forwarder.client_sessions import ANY_BUT_ROOT, NOBODY
from fairlead.steer.forwarding.forwarder.connection import Connection, Frame, FrameError
from fairlead.steer.forwarding.forwarder.request import CLASS_OF, KNOWN, SILENT, Request
from fairlead.steer.forwarding.forwarder.user_limits import MOST_JOBS
from fairlead.steer.fs.fuse.abi import IN_HEADER, INTERRUPT_IN, MAX_WRITE, RELEASE_FLOCK_UNLOCK, RELEASE_IN, Op
from fairlead.steer.fs.wire.frames import HEAD_BYTES, JOB_IN, REVOKE, Flag, Own, Refusal
from fairlead.steer.fs.wire.handshake import Identity

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.buffers import BufferPool
    from fairlead.steer.forwarding.forwarder.job_proofs import JobProofs
    from fairlead.steer.fs.sessions import Handles

_HEADER = IN_HEADER.size
_header = IN_HEADER.unpack_from
_size_of = Struct("<16xI").unpack_from
"""Size field in the body of READ and WRITE."""
_offset_of = Struct("<8xQ").unpack_from
"""Offset in the body of READ and WRITE."""
_SLOT, _CHECKSUM, _RETRY = int(Flag.SLOT), int(Flag.CHECKSUM), int(Flag.RETRY)
_READ, _WRITE, _INTERRUPT, _DESTROY = int(Op.READ), int(Op.WRITE), int(Op.INTERRUPT), int(Op.DESTROY)
_LISTED = frozenset({int(Op.READDIR), int(Op.READDIRPLUS)})
_ACCEPTED = KNOWN - {
    int(op) for op in (Op.INIT, Op.IOCTL, Op.POLL, Op.NOTIFY_REPLY, Op.BMAP, Op.SETUPMAPPING, Op.REMOVEMAPPING)
}
_RELEASE = int(Op.RELEASE)
_JOB, _PING, _RELEASE_LEASE = int(Own.JOB), int(Own.PING), int(Own.RELEASE_LEASE)
_TOKEN = int(Own.TOKEN)
_CLOSING = frozenset(
    {
        _RELEASE,
        _DESTROY,
        _INTERRUPT,
        _JOB,
        _PING,
        _RELEASE_LEASE,
        _TOKEN,
        *(int(op) for op in (Op.RELEASEDIR, Op.FLUSH, Op.FORGET, Op.BATCH_FORGET)),
    }
)
"""What a connection may do whose token has ended."""
_MOVING = frozenset({_READ, _WRITE})
_AT_ONCE = frozenset({_JOB, _PING, _RELEASE_LEASE, _DESTROY, _TOKEN})
"""Requests the leader answers itself."""


class Intake:
    """Checks frames. `interrupt(request)` gives a request up; `target_of(node, offset)` returns the storage target of
    some data, in trees that have targets; `released(connection, number)`: the client is done with a revocation;
    `proofs` decides whose share an announced job takes; `answer_token` takes and renews tokens."""

    def __init__(
        self,
        buffers: BufferPool,
        interrupt: Callable[[Request], None],
        target_of: Callable[[int, int], object] | None = None,
        released: Callable[[Connection, int], None] | None = None,
        *,
        proofs: JobProofs,
        answer_token: Callable[[Connection, bytes], tuple[int, bytes]],
    ) -> None:
        self._proofs = proofs
        self._answer_token = answer_token
        self._released = released
        self._target_of = target_of
        self._buffers = buffers
        self._interrupt = interrupt

    def accept_frame(self, connection: Connection, frame: Frame, now_ns: int) -> Request | None:
        """Return the request of a frame to be queued; None when it needs no queue. Malformed ends the connection."""
        flags, job, number, handle, slot, _, message, buffer = frame
        length, op, _, node, uid, gid, _, _, _ = _header(message)
        body, data, size = self._check_message(connection, frame, op, length)
        if op in SILENT:
            if op == _INTERRUPT:
                self._interrupt_request(connection, body)
                return None
        elif number == 0 or number in connection.pending or number in connection.parked:
            # Invariant: a number has at most one request, so every answer finds the one it belongs to.
            raise FrameError(f"request {number} is under way already")
        session = connection.session
        only = session.authority.uid
        share = connection.jobs.get(job)
        if share is None and len(connection.jobs) > connection.most_jobs:
            share = connection.jobs[0]  # more than are kept for it: these have no name
        error = 0
        if size > MAX_WRITE:
            error = -EINVAL
        elif op not in _ACCEPTED:
            error = -ENOSYS
        elif connection.barred and op not in _CLOSING:
            error = connection.barred
        elif share is None:
            error = int(Refusal.UNKNOWN_JOB)
        elif only >= 0 and uid not in (only, 0):
            # Invariant: a session of one user acts as that user. uid 0 is also what the kernel puts into requests
            # that are nobody's; it gains nothing here.
            error = -EACCES
        if error or share is None:
            self._refuse(connection, number, op, error, buffer)
            return None
        if op in _AT_ONCE:
            self._answer_at_once(connection, op, number, body)
            return None
        if flags & _RETRY and self._answer_again(connection, number):
            if buffer is not None:
                self._buffers.give(buffer)
            return None
        if op == _RELEASE and len(body) >= RELEASE_IN.size:
            self._unlock(session.handles, body)
        if only >= 0:
            uid = only
        elif only == ANY_BUT_ROOT and not (uid and gid):
            uid, gid = uid or NOBODY, gid or NOBODY
        cost = size if op in CLASS_OF else 0
        name, label = share
        request = Request(
            connection,
            session,
            op,
            number,
            node,
            handle,
            uid,
            gid,
            flags,
            slot,
            name,
            label,
            cost,
            body,
            data,
            now_ns,
        )
        request.buffer = buffer
        if op in _MOVING and self._target_of is not None:
            request.target = self._target_of(node, _offset_of(body)[0])
        holds = len(buffer) if buffer is not None else size if op == _READ and not flags & _SLOT else 0
        if holds:
            request.holds = holds
            with connection.lock:
                connection.held += holds
        if op not in SILENT:
            connection.pending[number] = request
        return request

    def _check_message(
        self, connection: Connection, frame: Frame, op: int, stated: int
    ) -> tuple[memoryview, memoryview | None, int]:
        """Return body, data (READ, WRITE) and size asked for. Malformed if the parts do not fit."""
        flags, message = frame.flags, frame.message
        slotted = flags & _SLOT
        length = whole = len(message)
        body = message[_HEADER:]
        data: memoryview | None = None
        size = 0
        if op in _MOVING:
            if length < HEAD_BYTES:
                raise FrameError("a READ or WRITE that is too short")
            (size,) = _size_of(body)
            body = message[_HEADER:HEAD_BYTES]
            whole = HEAD_BYTES + size if op == _WRITE else HEAD_BYTES
            if slotted:
                data = self._find_slot(connection, frame.slot, size, length)
            elif op == _WRITE:
                data = message[HEAD_BYTES:]
                if len(data) != size:
                    raise FrameError("a WRITE whose data is not as long as it says")
        elif slotted:
            raise FrameError("a slot with a request that has no data")
        elif op in _LISTED and len(body) >= 20:
            (size,) = _size_of(body)
        if stated != whole:
            raise FrameError("a message whose length is not that of its frame")
        if flags & _CHECKSUM or connection.checksum:
            found = crc32(message)
            if op == _WRITE and slotted and data is not None:
                found = crc32(data, found)
            if not flags & _CHECKSUM or found != frame.crc:
                raise FrameError("a frame whose checksum is wrong or missing")
        return body, data, size

    def _unlock(self, handles: Handles, body: memoryview) -> None:
        """Gives the flock of a file that is closed back at once: the kernel waits for no RELEASE, and what its program
        asks next must not overtake it."""
        handle, _, flags, _ = RELEASE_IN.unpack_from(body)
        file = handles.files.get(handle) if flags & RELEASE_FLOCK_UNLOCK else None
        if file is not None and getattr(file, "unlocks_at_once", False):
            with suppress(OSError):  # the RELEASE itself tries again
                file.flock(F_UNLCK)

    def _find_slot(self, connection: Connection, slot: int, size: int, length: int) -> memoryview:
        slots = connection.slots
        if slots is None or slot >= slots.count:
            raise FrameError(f"slot {slot} is not there")
        if length != HEAD_BYTES:
            raise FrameError("data both in a slot and in the frame")
        return slots.data[slot][: min(size, MAX_WRITE)]

    def _refuse(self, connection: Connection, number: int, op: int, error: int, buffer: bytearray | None) -> None:
        if buffer is not None:
            self._buffers.give(buffer)
        if op not in SILENT:
            connection.answer(number, error, b"")

    def _interrupt_request(self, connection: Connection, body: memoryview) -> None:
        if len(body) < INTERRUPT_IN.size:
            raise FrameError("an INTERRUPT that is too short")
        (number,) = INTERRUPT_IN.unpack_from(body)
        request = connection.parked.get(number) or connection.pending.get(number)
        if request is not None:
            self._interrupt(request)

    def _answer_at_once(self, connection: Connection, op: int, number: int, body: memoryview) -> None:
        error, reply = 0, b""
        if op == _JOB:
            if len(body) < JOB_IN.size:
                raise FrameError("an announcement that is too short")
            index, _ = JOB_IN.unpack_from(body)
            error = self._announce(connection, index, body[JOB_IN.size :])
        elif op == _TOKEN:
            error, reply = self._answer_token(connection, bytes(body))
        elif op == _DESTROY:
            connection.farewell = True
        elif op == _RELEASE_LEASE and self._released is not None and len(body) >= REVOKE.size:
            self._released(connection, REVOKE.unpack_from(body)[0])
        connection.answer(number, error, reply)

    def _announce(self, connection: Connection, index: int, text: memoryview) -> int:
        try:
            identity = msgspec.json.decode(text, type=Identity)
        except msgspec.DecodeError:
            return -EINVAL
        session = connection.session
        only = session.authority.job
        if only and identity.job_id != only:
            return -EPERM
        if not 0 < index < MOST_JOBS or len(identity.job_id) > os.pathconf("/", "PC_NAME_MAX"):
            return -EINVAL
        if len(connection.jobs) <= connection.most_jobs:
            connection.jobs[index] = self._proofs.decide_share(session.authority, identity, session.number)
        return 0

    def _answer_again(self, connection: Connection, number: int) -> bool:
        """True if this forwarder has carried the request out, or is at it: the answer goes to this connection."""
        session = connection.session
        # Invariant "exactly once": under the lock a request is in `running`, or its answer is kept, or it is new here.
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
