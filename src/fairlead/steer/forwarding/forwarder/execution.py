"""Carries out one request on the tree and answers it: what a worker does. Not here: whose turn it is (`workers`).

A worker takes a request through these states; `running` is `Session.running`, `answers` what `Session.finish` keeps:

    queued ──► running ──► executed ──► remembered ──► answered
                  │  │                  (not REPEATABLE)
                  │  └─ SETLKW, lock held ─► parked ─► queued again (lock released, delay over)
                  └─ connection dead ─► given up, or answered on the connection the client came back on
"""

from __future__ import annotations

import logging
import os
from errno import EINTR, EINVAL, EIO, ENOLCK, ESTALE
from typing import TYPE_CHECKING, Protocol

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.forwarder import confined_requests
from fairlead.steer.forwarding.forwarder.aggregation import Aggregation
from fairlead.steer.forwarding.forwarder.buffers import SMALL, BufferPool
from fairlead.steer.forwarding.forwarder.confined_requests import NAMED
from fairlead.steer.forwarding.forwarder.exactly_once import GUARDED, Guard
from fairlead.steer.forwarding.forwarder.lease_grants import LeaseGrants, RunningRequest
from fairlead.steer.forwarding.forwarder.request import (
    HANDED,
    KNOWN,
    NAMING,
    OPENING,
    REPEATABLE,
    SILENT,
    UNLOCKING,
    Request,
)
from fairlead.steer.fs.fuse.abi import WRITE_OUT, Op
from fairlead.steer.fs.fuse.messages import pack_attributes_message
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.os_errors import get_os_error_number
from fairlead.steer.fs.sessions import UnknownHandle
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.fs.trees.base import UnknownNode
from fairlead.steer.fs.trees.local_file import LocalFile
from fairlead.steer.fs.wire.frames import PLACE_STEP, REOPEN_IN, Flag, Own, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairlead.steer.forwarding.forwarder.lock_waiters import ParkedRequests
    from fairlead.steer.forwarding.forwarder.user_limits import FileLimits

log = logging.getLogger("fairlead.forwarder")
_READ, _WRITE, _SETLKW, _RELEASE = int(Op.READ), int(Op.WRITE), int(Op.SETLKW), int(Op.RELEASE)
_PLACE, _REOPEN = int(Own.PLACE), int(Own.REOPEN)
_UNKNOWN_NODE, _UNKNOWN_HANDLE = int(Refusal.UNKNOWN_NODE), int(Refusal.UNKNOWN_HANDLE)
_NOTHING = memoryview(b"")
_write_out = WRITE_OUT.pack
_PARENT = int(Flag.PARENT)
_MOST_STEPS = 4096


class Records(Protocol):
    """Where what was carried out is counted. Called for every request: it must be cheap."""

    on: bool
    """Whether anything is to be counted just now."""

    executed: Callable[[tuple[int, int, str | int, int, int, int, str, int]], None]
    """One request: class, opcode, job, wait and service in ns, bytes moved, client, error."""

    def look(self, queue_len: int, done: int) -> None:
        """The queue's length after so many requests, every 16th time."""

    def record_connect(self, client: str, session: str) -> None:
        """A session of a client's node has begun or goes on."""

    def record_disconnect(self, session: str) -> None:
        """A session has ended."""


class Execution:
    """The workers' part of a forwarder. `again` queues requests that were parked; `listen` hears a client again that
    had asked too much.

    What a request needs is decided once, here: `_actions` has the method of each opcode, `_set_job` is None where the
    tree does nothing by job.
    """

    def __init__(
        self,
        operations: Operations,
        buffers: BufferPool,
        parked: ParkedRequests,
        records: Records | None,
        guard: Guard | None,
        aggregation: Aggregation,
        lending: LeaseGrants | None = None,
        limits: FileLimits | None = None,
        *,
        again: Callable[[Sequence[Request]], None],
        listen: Callable[[Request], None],
        wait_less: Callable[[int], None],
        queue_length: Callable[[], int],
    ) -> None:
        self.operations = operations
        self._execute_operation = operations.execute
        self._buffers = buffers
        self._parked = parked
        self._lending = lending
        self._guard = guard
        self._aggregation = aggregation
        self._again = again
        self._listen = listen
        self._wait_less = wait_less
        self._queue_length = queue_length
        self._done = 0
        tree = operations.tree
        self._open_for: Callable[[str], None] | None = getattr(tree, "set_job", None)
        self._work_for = thread_identity.set_thread_job if hasattr(tree, "take_by_job") else None
        by_job = self._open_for is not None or self._work_for is not None
        self._set_job = self._set_job_of if by_job else None
        self._actions: dict[int, Callable[[Request], bytes | memoryview]] = {
            **dict.fromkeys(KNOWN, self._execute),
            **(dict.fromkeys(map(int, GUARDED), self._execute_once) if guard is not None else {}),
            _READ: self._read,
            _WRITE: self._write,
            _PLACE: self._place,
            _REOPEN: self._reopen,
        }
        if limits is not None:
            for op in (*OPENING, int(Op.OPENDIR)):
                self._actions[op] = limits.wrap_opening(self._actions[op])
            for op in (_RELEASE, int(Op.RELEASEDIR)):
                self._actions[op] = limits.wrap_closing(self._actions[op])
        self._records = records

    def carry_out(self, request: Request) -> None:
        """Carries it out and answers, with those that go along; never raises."""
        if request.along:
            self._carry_out_together([request, *request.along])
            request.along = ()
        else:
            self._carry_out(request)

    def _carry_out_together(self, requests: Sequence[Request]) -> None:
        began_ns = monotonic_ns()
        first = requests[0]
        for request in requests:  # one that is sent again meanwhile gets the answer of this one
            request.session.running[request.number] = request
        try:
            session = first.session
            thread_identity.switch_thread_user(
                first.uid, first.gid if session.authority.uid < 0 else session.group(first.gid)
            )
            if self._set_job is not None:
                self._set_job(first)
            self._aggregation.write(requests)
        except Exception:  # each is carried out alone then
            log.exception("%d writes could not be merged: a bug in fairlead", len(requests))
        for request in requests:
            self._carry_out(request, began_ns)

    def _carry_out(self, request: Request, began_ns: int = 0) -> None:
        """As `_run`, and counts the request unless it was given up or parked."""
        records = self._records
        if records is None or not records.on:
            self._run(request)
            return
        started_ns = began_ns or monotonic_ns()
        error = self._run(request)
        if error is None:
            return
        wait_ns = started_ns - request.arrived_ns
        service_ns = monotonic_ns() - started_ns
        job, client = request.label, request.session.node
        records.executed((request.op_class, request.op, job, wait_ns, service_ns, request.moved, client, error))
        self._done = done = self._done + 1
        if not done & 15:
            records.look(self._queue_length(), done)

    def _run(self, request: Request) -> int | None:
        """Carry out one request and answer it. Return its error (0, -errno or a Refusal), None if nothing was answered:
        its client is gone, or it waits for a lock."""
        op, session, lending = request.op, request.session, self._lending
        # Invariant "one at a time": entered before `dead` is read. The leader, which sets `dead` first, then finds
        # here what the client sends again on its next connection.
        if op not in REPEATABLE and not request.connection.dead:
            session.running[request.number] = request
        if request.connection.dead and self._abandon(request):
            return None
        begun: RunningRequest | None = None
        error = 0
        body: bytes | memoryview = b""
        try:
            if session.authority.uid < 0:
                thread_identity.switch_thread_user(request.uid, request.gid)
            else:
                thread_identity.switch_thread_user(request.uid, session.group(request.gid))
                confined_requests.confine_request(request)
            if self._set_job is not None:
                self._set_job(request)
            if lending is not None and op not in SILENT:
                begun = lending.begin(request)
            body = self._actions[op](request)
        except BlockingIOError as held:
            if op != _SETLKW:
                error = get_os_error_number(held)
            else:
                # Invariant "parked is not running": the leader may queue it again at once.
                session.running.pop(request.number, None)
                if self._park(request):
                    return None
                error = -EINTR if request.interrupted else -ENOLCK
        except OSError as failed:
            error = get_os_error_number(failed)
            # ESTALE: it is not where it was seen here last. Its client may have moved it through another forwarder.
            error = _UNKNOWN_NODE if error == -ESTALE and op in NAMED else error
        except UnknownNode:
            error = _UNKNOWN_NODE
        except UnknownHandle:
            error = _UNKNOWN_HANDLE
        except Exception:  # one request's defect must not end the service of all others
            log.exception("request %d (opcode %d) failed: a bug in fairlead", request.number, op)
            error = -EIO
        if begun is not None and lending is not None:
            lending.end(begun, request, error, body, lambda body: self._answer(request, error, body))
        elif op not in SILENT:
            self._answer(request, error, body)
        if op in UNLOCKING and len(self._parked):
            ready = self._parked.take_unlocked(request.node)
            if ready:
                self._again(ready)
        return error

    def _set_job_of(self, request: Request) -> None:
        """From now on this thread works for the request's job."""
        if self._work_for is not None:
            self._work_for(_name(request.label))
        if self._open_for is not None and request.op in OPENING:
            self._open_for(_name(request.job))

    # -- what the opcodes do ---------------------------------------------------------------------------------------

    def _read(self, request: Request) -> bytes | memoryview:
        data, buffer = request.data, None
        if data is None:
            buffer = self._buffers.take_buffer(request.size)
            data = memoryview(buffer)[: request.size]
        try:
            count = self._execute_operation(
                request.session.handles, _READ, request.node, request.handle, request.body, data
            )
        except BaseException:
            if buffer is not None:
                self._buffers.give(buffer)
            raise
        assert isinstance(count, int)
        request.moved = count
        if buffer is not None:
            request.reply_buffer = buffer
            return data[:count]
        request.in_slot = data[:count]
        return b""

    def _write(self, request: Request) -> bytes | memoryview:
        body = _write_out(request.size, 0) if request.written else self._execute_once(request)
        request.moved = request.size
        return body

    def _execute_once(self, request: Request) -> bytes | memoryview:
        """A request of the kernel that must not be carried out twice."""
        intents = request.session.intents
        if intents is None or self._guard is None:
            return self._execute(request)
        reply = self._guard.execute(intents, request)
        assert not isinstance(reply, int)
        return reply

    def _execute(self, request: Request) -> bytes | memoryview:
        """Any request of the kernel but READ."""
        data = request.data if request.data is not None else _NOTHING
        reply = self._execute_operation(
            request.session.handles, request.op, request.node, request.handle, request.body, data
        )
        assert not isinstance(reply, int)
        return reply

    def _place(self, request: Request) -> bytes | memoryview:
        steps = _parse_steps(request.body)
        if request.session.authority.uid >= 0:
            confined_requests.confine_place(self.operations, request.session.handles, request.node, steps)
        else:
            with thread_identity.forwarder_identity:
                self.operations.tree.place(request.node, steps)
        return b""

    def _reopen(self, request: Request) -> bytes | memoryview:
        if len(request.body) < REOPEN_IN.size:
            raise OSError(EINVAL, "a REOPEN that is too short")
        flags, folder, _ = REOPEN_IN.unpack_from(request.body)
        handles, node, handle = request.session.handles, request.node, request.handle
        if request.session.authority.uid >= 0:
            confined_requests.confine_reopen(self.operations, handles, node, handle, flags, folder=bool(folder))
        else:
            self.operations.reopen(handles, node, handle, flags, folder=bool(folder))
        return b""

    # -- answers ---------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, error: int, body: bytes | memoryview) -> None:
        """Answers what was carried out with `body`, and gives back what the request held."""
        op = request.op
        if op not in REPEATABLE:
            # Invariant "exactly once": remembered before it is sent, so a client that asks again finds the answer.
            request.session.finish(request, error, body)
        connection = request.connection
        connection.pending.pop(request.number, None)
        hands = connection.descriptors and op in HANDED
        if error:
            connection.answer(request.number, error, b"", along=op == _RELEASE)
        elif hands and self._send_descriptor(request, body):
            pass
        elif request.in_slot is not None:
            connection.answer(request.number, 0, b"", slot=request.slot, in_slot=request.in_slot)
        else:
            flags = 0
            if request.flags & _PARENT and op in NAMING and not connection.leases and not hands:
                after = self._stat_directory(request.node)
                body = bytes(body) + after
                flags = _PARENT if after else 0
            keep = request.reply_buffer if request.size > SMALL else None
            connection.answer(request.number, 0, body, buffer=keep, flags=flags, along=op == _RELEASE)
        if request.holds or request.buffer is not None:
            self._give_back(request)
        if not connection.listening:
            self._listen(request)

    def _stat_directory(self, node: int) -> bytes:
        """What GETATTR of a directory would answer now; its client's kernel is about to ask. Empty when it fails."""
        operations = self.operations
        try:
            return pack_attributes_message(operations.tree.stat(node), operations.valid_s, operations.valid_ns)
        except (OSError, UnknownNode):
            return b""

    def _send_descriptor(self, request: Request, body: bytes | memoryview) -> bool:
        """Answers with the descriptor of the file that was opened, where it has one that is worth having."""
        file = request.session.handles.files.get(request.handle)
        # Every append is recorded before it is done, so that it is not done twice: it has to come through here.
        if not isinstance(file, LocalFile) or file.descriptor is None or file.flags & os.O_APPEND:
            return False
        file.handed_over = file.flags & os.O_ACCMODE != os.O_RDONLY
        return request.connection.answer_with_descriptor(request.number, bytes(body), file.descriptor)

    def _abandon(self, request: Request) -> bool:
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


def _name(job: str | int) -> str:
    """A job's id; empty for the number that stands for a client without jobs."""
    return job if isinstance(job, str) else ""


def _parse_steps(body: memoryview) -> list[tuple[int, bytes]]:
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
