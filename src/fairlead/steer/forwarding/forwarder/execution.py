"""Carries out one request on the tree and answers it: what a worker does. Not here: whose turn it is (`crew`)."""

from __future__ import annotations

import logging
import os
from errno import EINTR, EINVAL, EIO, ENOLCK, ESTALE
from typing import TYPE_CHECKING, Protocol

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.forwarder import confinement
from fairlead.steer.forwarding.forwarder.aggregation import Aggregation
from fairlead.steer.forwarding.forwarder.buffers import SMALL, BufferPool
from fairlead.steer.forwarding.forwarder.confinement import NAMED
from fairlead.steer.forwarding.forwarder.exactly_once import GUARDED, Guard
from fairlead.steer.forwarding.forwarder.intake import get_errno
from fairlead.steer.forwarding.forwarder.lease_grants import Begun, LeaseGrants
from fairlead.steer.forwarding.forwarder.request import HANDED, NAMING, OPENING, REPEATABLE, SILENT, UNLOCKING, Request
from fairlead.steer.fs.fuse.abi import WRITE_OUT, Op
from fairlead.steer.fs.fuse.messages import pack_attributes
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.sessions import UnknownHandle
from fairlead.steer.fs.trees import identity as acting
from fairlead.steer.fs.trees.base import UnknownNode
from fairlead.steer.fs.trees.local_file import LocalFile
from fairlead.steer.fs.wire.frames import PLACE_STEP, REOPEN_IN, Flag, Own, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairlead.steer.forwarding.forwarder.lock_waiters import ParkedRequests

log = logging.getLogger("fairlead.forwarder")
_READ, _WRITE, _SETLKW, _RELEASE = int(Op.READ), int(Op.WRITE), int(Op.SETLKW), int(Op.RELEASE)
_PLACE, _REOPEN, _OWN = int(Own.PLACE), int(Own.REOPEN), int(Own.JOB)
_UNKNOWN_NODE, _UNKNOWN_HANDLE = int(Refusal.UNKNOWN_NODE), int(Refusal.UNKNOWN_HANDLE)
_NOTHING = memoryview(b"")
_write_out = WRITE_OUT.pack
_RETRY, _PARENT = int(Flag.RETRY), int(Flag.PARENT)
_MOST_STEPS = 4096


class Records(Protocol):
    """Where what was carried out is counted. Called for every request: it must be cheap."""

    on: bool
    """Whether anything is to be counted just now."""

    executed: Callable[[tuple[int, int, str | int, int, int, int, str, int]], None]
    """One request: class, opcode, job, wait and service in ns, bytes moved, client, error."""

    def look(self, queue_len: int, done: int) -> None:
        """The queue's length after so many requests, every 16th time."""
        ...

    def record_connect(self, client: str, session: str) -> None:
        """A session of a client's node has begun or goes on."""
        ...

    def record_disconnect(self, session: str) -> None:
        """A session has ended."""
        ...


class Execution:
    """The workers' part of a forwarder. `again` queues requests that were parked; `listen` hears a client again that
    had asked too much."""

    def __init__(
        self,
        operations: Operations,
        buffers: BufferPool,
        parked: ParkedRequests,
        records: Records | None,
        guard: Guard | None,
        aggregation: Aggregation,
        lending: LeaseGrants | None = None,
        *,
        again: Callable[[Sequence[Request]], None],
        listen: Callable[[Request], None],
        wait_less: Callable[[int], None],
        queue_length: Callable[[], int],
    ) -> None:
        self.operations = operations
        self._execute = operations.execute
        self._opens_for: Callable[[str], None] | None = getattr(operations.tree, "set_job", None)
        self._buffers = buffers
        self._parked = parked
        self._work_for = acting.set_job if hasattr(operations.tree, "take_by_job") else None
        self._records = records
        self._lending = lending
        self._done = 0
        self._guard = guard
        self._aggregation = aggregation
        self._again = again
        self._listen = listen
        self._wait_less = wait_less
        self._queue_length = queue_length

    def carry_out(self, request: Request) -> None:
        """Carries it out and answers, with those that go along; never raises."""
        if request.along:
            self._carry_out_together([request, *request.along])
            request.along = ()
            return
        self._carry_out(request)

    def _carry_out_together(self, requests: Sequence[Request]) -> None:
        began_ns = monotonic_ns()
        first = requests[0]
        for request in requests:  # one that is sent again meanwhile gets the answer of this one
            request.session.running[request.number] = request
        try:
            session = first.session
            acting.switch_user(first.uid, first.gid if session.authority.uid < 0 else session.group(first.gid))
            if self._work_for is not None:
                self._work_for(_name(first.job))
            self._aggregation.write(requests)
        except Exception:  # each is carried out alone then
            log.exception("%d writes could not be made one: a defect of fairlead", len(requests))
        for request in requests:
            self._carry_out(request, began_ns)

    def _carry_out(self, request: Request, began_ns: int = 0) -> None:
        op = request.op
        records = self._records
        if records is not None and not records.on:
            records = None
        started_ns = 0
        if records is not None:
            started_ns = began_ns or monotonic_ns()
        opens_for = self._opens_for
        session = request.session
        once = op not in REPEATABLE
        if once and not request.connection.dead:  # else its place may be that of the one sent again
            session.running[request.number] = request
        if request.connection.dead and self._abandoned(request):
            return
        error = moved = 0
        body: bytes | memoryview = b""
        in_slot: memoryview | None = None
        buffer: bytearray | None = None
        begun: Begun | None = None
        try:
            uid, gid = request.uid, request.gid
            if session.authority.uid < 0:
                acting.switch_user(uid, gid)
            else:
                acting.switch_user(uid, session.group(gid))
                confinement.confine_request(request)
            if self._work_for is not None:
                self._work_for(_name(request.job))
            if opens_for is not None and op in OPENING:
                opens_for(_name(request.job))
            if self._lending is not None and op not in SILENT:
                begun = self._lending.begin(request)
            if op == _READ:
                data = request.data
                if data is None:
                    buffer = self._buffers.take(request.size)
                    data = memoryview(buffer)[: request.size]
                count = self._execute(session.handles, op, request.node, request.handle, request.body, data)
                assert isinstance(count, int)
                moved = count
                if request.data is None:
                    body = data[:count]
                else:
                    in_slot = data[:count]
            elif request.written:
                body = _write_out(request.size, 0)
                moved = request.size
            elif op < _OWN:
                data = request.data if request.data is not None else _NOTHING
                intents = session.intents
                if intents is None or op not in GUARDED:
                    reply = self._execute(session.handles, op, request.node, request.handle, request.body, data)
                else:
                    assert self._guard is not None
                    retry = request.flags & _RETRY != 0
                    reply = self._guard.execute(
                        intents,
                        request.number,
                        retry,
                        session.handles,
                        op,
                        request.node,
                        request.handle,
                        request.body,
                        data,
                    )
                assert not isinstance(reply, int)
                body = reply
                if op == _WRITE:
                    moved = request.size
            else:
                self._own(request)
        except BlockingIOError as held:
            if op == _SETLKW:
                if once:
                    session.running.pop(request.number, None)
                if self._park(request):
                    return
                error = -EINTR if request.interrupted else -ENOLCK
            else:
                error = get_errno(held)
        except OSError as failed:
            error = get_errno(failed)
            if error == -ESTALE and op in NAMED:
                # It is not where it was seen here last. Its client may have moved it through another forwarder.
                error = _UNKNOWN_NODE
        except UnknownNode:
            error = _UNKNOWN_NODE
        except UnknownHandle:
            error = _UNKNOWN_HANDLE
        except Exception:  # one request's defect must not end the service of all others
            log.exception("request %d (opcode %d) failed: a defect of fairlead", request.number, op)
            error = -EIO
        if op not in SILENT:
            if begun is None:
                self._answer(request, error, body, in_slot, buffer)
            else:
                assert self._lending is not None
                self._lending.end(
                    begun, request, error, body, lambda body: self._answer(request, error, body, in_slot, buffer)
                )
        if op in UNLOCKING and len(self._parked):
            ready = self._parked.take_unlocked(request.node)
            if ready:
                self._again(ready)
        if records is not None:
            records.executed(
                (
                    request.op_class,
                    op,
                    request.job,
                    started_ns - request.arrived_ns,
                    monotonic_ns() - started_ns,
                    moved,
                    session.node,
                    error,
                )
            )
            self._done = done = self._done + 1
            if not done & 15:
                records.look(self._queue_length(), done)

    def _answer(
        self,
        request: Request,
        error: int,
        body: bytes | memoryview,
        in_slot: memoryview | None,
        buffer: bytearray | None,
    ) -> None:
        """Answers what was carried out, and gives back what it held."""
        op = request.op
        if op not in REPEATABLE:
            request.session.finish(request, error, body)
        connection = request.connection
        connection.pending.pop(request.number, None)
        flags = 0
        if error:
            body = b""
            in_slot = None
        elif (
            request.flags & _PARENT
            and op in NAMING
            and not connection.leases
            and not (connection.descriptors and op in HANDED)
        ):
            after = self._directory_after(request.node)
            body = bytes(body) + after
            flags = _PARENT if after else 0
        if connection.descriptors and op in HANDED and not error and self._handed_over(request, body):
            pass
        elif in_slot is not None:
            connection.answer(request.number, error, b"", slot=request.slot, in_slot=in_slot)
        else:
            keep = buffer if buffer is not None and request.size > SMALL else None
            along = op == _RELEASE
            connection.answer(request.number, error, body, buffer=keep, flags=flags, along=along)
        if request.holds or request.buffer is not None:
            self._give_back(request)
        if not connection.listening:
            self._listen(request)

    def _directory_after(self, node: int) -> bytes:
        """What GETATTR of a directory would answer now; its client's kernel is about to ask. Empty when it fails."""
        operations = self.operations
        try:
            return pack_attributes(operations.tree.stat(node), operations.valid_s, operations.valid_ns)
        except (OSError, UnknownNode):
            return b""

    def _handed_over(self, request: Request, body: bytes | memoryview) -> bool:
        """Answers with the descriptor of the file that was opened, where it has one that is worth having."""
        file = request.session.handles.files.get(request.handle)
        # Every append is recorded before it is done, so that it is not done twice: it has to come through here.
        if not isinstance(file, LocalFile) or file.descriptor is None or file.flags & os.O_APPEND:
            return False
        file.handed_over = file.flags & os.O_ACCMODE != os.O_RDONLY
        return request.connection.answer_with_descriptor(request.number, bytes(body), file.descriptor)

    def _abandoned(self, request: Request) -> bool:
        """True when its client is gone; it may have come back and asked for the answer on another connection."""
        with request.session.lock:
            if not request.connection.dead:
                return False
            running = request.session.running
            if running.get(request.number) is request:
                del running[request.number]
        self._give_back(request)
        return True

    def _park(self, request: Request) -> bool:
        now = monotonic_ns()
        if not self._parked.park(request, now):
            return False
        self._wait_less(request.due_ns)
        return True

    def _give_back(self, request: Request) -> None:
        if request.holds:
            connection = request.connection
            with connection.lock:
                connection.held -= request.holds
            request.holds = 0
        buffer = request.buffer
        if buffer is not None:
            request.buffer = None
            request.data = None
            request.body = _NOTHING
            self._buffers.give(buffer)

    def _own(self, request: Request) -> None:
        body, handles = request.body, request.session.handles
        confined = request.session.authority.uid >= 0
        if request.op == _PLACE and confined:
            confinement.place_node(self.operations, handles, request.node, _steps(body))
        elif request.op == _PLACE:
            with acting.forwarder_identity:
                self.operations.tree.place(request.node, _steps(body))
        elif request.op == _REOPEN:
            if len(body) < REOPEN_IN.size:
                raise OSError(EINVAL, "a REOPEN that is too short")
            flags, folder, _ = REOPEN_IN.unpack_from(body)
            if confined:
                confinement.reopen_handle(
                    self.operations, handles, request.node, request.handle, flags, folder=bool(folder)
                )
            else:
                self.operations.reopen(handles, request.node, request.handle, flags, folder=bool(folder))


def _name(job: str | int) -> str:
    """A job's id; empty for the number that stands for a client without jobs."""
    return job if isinstance(job, str) else ""


def _steps(body: memoryview) -> list[tuple[int, bytes]]:
    steps: list[tuple[int, bytes]] = []
    place = 0
    while place < len(body):
        if len(body) - place < PLACE_STEP.size or len(steps) >= _MOST_STEPS:
            raise OSError(EINVAL, "a PLACE that is cut short")
        parent, length, _ = PLACE_STEP.unpack_from(body, place)
        place += PLACE_STEP.size
        name = bytes(body[place : place + length])
        if len(name) != length or not name or b"/" in name or b"\0" in name or name in (b".", b".."):
            raise OSError(EINVAL, "a PLACE with a name that is none")
        steps.append((parent, name))
        place += length
    return steps
