"""A mount without a forwarder: the kernel's requests are executed on a tree in this process.

Not here: the threads that read them (`readers`), what a request does (`fs.operations`).
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from itertools import count
from threading import Lock

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.mount.local.lock_waiters import ParkedLock, WaitingLocks
from fairlead.steer.forwarding.mount.local.readers import DATA, Reader, Readers
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import ENTRIES, NEW_NODES, Op, OpenReply
from fairlead.steer.fs.fuse.device import Device
from fairlead.steer.fs.fuse.generations import Generations
from fairlead.steer.fs.fuse.messages import read_message_name
from fairlead.steer.fs.fuse.negotiation import Session
from fairlead.steer.fs.fuse.passthrough import BackingFiles
from fairlead.steer.fs.operations.dispatch import Operations, UnknownHandle, UnknownNode
from fairlead.steer.fs.sessions import Handles
from fairlead.steer.fs.trace.shared_trace import SharedTrace
from fairlead.steer.fs.trees.base import FileTree
from fairlead.steer.fs.trees.thread_identity import switch_thread_user

WORKERS = 16
_HEADER = abi.IN_HEADER.size
_OPENING = frozenset({Op.OPEN, Op.CREATE, Op.TMPFILE, Op.OPENDIR})
_FILES = frozenset({Op.OPEN, Op.CREATE, Op.TMPFILE})
_UNLOCKING = frozenset({Op.SETLK, Op.FLUSH, Op.RELEASE})
_READ, _WRITE = int(Op.READ), int(Op.WRITE)
_FORGET, _BATCH_FORGET = int(Op.FORGET), int(Op.BATCH_FORGET)
_INTERRUPT, _DESTROY = int(Op.INTERRUPT), int(Op.DESTROY)
_NOTHING = memoryview(b"")


class LocalMount:
    """Serves the device from `tree` until it is unmounted. `run` blocks; the other calls come from any thread."""

    def __init__(
        self,
        device: Device,
        session: Session,
        tree: FileTree,
        trace: SharedTrace | None = None,
        *,
        cache: bool = False,
        workers: int = WORKERS,
    ) -> None:
        """`device`: mounted, INIT answered with what `session` says (`negotiation.start`); with PASSTHROUGH in it
        files are handed to the kernel. `cache`: the kernel keeps what was read."""
        flags = 0 if cache else OpenReply.DIRECT_IO | OpenReply.PARALLEL_DIRECT_WRITES
        self._fd = device.fd
        self._tree = tree
        self._trace = trace
        self._operations = Operations(tree, open_flags=flags)
        self._handles = Handles()
        self._numbers = count(1)
        self._backings = BackingFiles(device.fd) if session.passthrough else None
        self._generations = Generations()
        self._renewed = False
        self._giving = 0
        self._dropped: list[tuple[int, int]] = []
        self._nodes_lock = Lock()
        self._waiting = WaitingLocks()
        self._retrying = Lock()
        self._closing = Lock()
        self._readers = Readers(device.fd, self._serve, self._retry_locks, limit=workers)

    @property
    def requests(self) -> int:
        """Requests answered so far."""
        return self._readers.served

    def describe(self) -> dict[str, object]:
        """What the mount is doing, for its control socket."""
        backings = self._backings
        refused = backings.refused if backings is not None else 0
        return {
            "state": "serving",
            "requests": self.requests,
            "handles": len(self._handles.files) + len(self._handles.folders),
            "nodes": len(self._handles.known),
            "workers": len(self._readers),
            "passthrough": "off" if backings is None else f"refused: {os.strerror(refused)}" if refused else "on",
        }

    def stop(self) -> None:
        """Begins nothing new; threads that wait at the device stay there until it is unmounted."""
        self._readers.end()

    def run(self) -> None:
        """Serves until the mount is gone, then closes every file. Raises what broke the device."""
        try:
            self._readers.run()
        finally:
            self.close()

    def close(self) -> None:
        """Closes every file, also while a thread still waits at the device; removed files go with it."""
        with self._closing:
            self._handles.close_all()

    # Requests

    def _serve(self, reader: Reader, size: int) -> None:
        """Executes one request and answers it."""
        view = reader.view
        _, op, unique, node, uid, gid, pid, _, _ = abi.IN_HEADER.unpack_from(view)
        trace = self._trace
        started = job = 0
        if trace is not None:
            started = monotonic_ns()
            job = trace.find_job(pid, uid, started)
        error = 0
        try:
            switch_thread_user(uid, gid)
            if op == _READ:
                self._read(reader, unique, node, job, started)
            elif op == _WRITE:
                self._write(reader, unique, node, size, job, started)
            else:
                self._other(op, unique, node, view[:size], job, started)
        except BlockingIOError as refused:
            if op == Op.SETLKW:
                # A lock that waits holds no thread: it is parked and tried again.
                if self._waiting.park(ParkedLock(unique, node, uid, gid, job, started, bytes(view[:size]))):
                    return
                error = errno.EINTR
            else:
                error = refused.errno or errno.EAGAIN
        except UnknownNode:
            error = errno.ESTALE
        except UnknownHandle:
            error = errno.EBADF
        except OSError as refused:
            error = refused.errno or errno.EIO
        except Exception:  # noqa: BLE001 (one broken request must not end the mount: it is printed and answered EIO)
            traceback.print_exc(file=sys.stderr)
            error = errno.EIO
        if error:
            self._answer(unique, b"", error)
            if trace is not None:
                self._record_failure(trace, reader, op, node, view[:size], job, started, error)

    def _read(self, reader: Reader, unique: int, node: int, job: int, started: int) -> None:
        handle, offset, size, _, _, _, _ = abi.READ_IN.unpack_from(reader.body)
        data = reader.data[:size]
        got = self._operations.execute(self._handles, _READ, node, 0, reader.body, data)
        assert isinstance(got, int)
        abi.OUT_HEADER.pack_into(reader.head, 0, abi.OUT_HEADER.size + got, 0, unique)
        self._send(reader.head, data[:got])
        if self._trace is not None:
            self._trace.record_transfer(_READ, node, handle, offset, got, job, started, 0)

    def _write(self, reader: Reader, unique: int, node: int, size: int, job: int, started: int) -> None:
        reply = self._operations.execute(self._handles, _WRITE, node, 0, reader.body, reader.view[DATA:size])
        assert isinstance(reply, bytes)
        self._answer(unique, reply, 0)
        if self._trace is not None:
            handle, offset, _, _, _, _, _ = abi.WRITE_IN.unpack_from(reader.body)
            self._trace.record_transfer(_WRITE, node, handle, offset, abi.WRITE_OUT.unpack(reply)[0], job, started, 0)

    def _other(self, op: int, unique: int, node: int, message: memoryview, job: int, started: int) -> None:
        """Everything but READ and WRITE."""
        body = message[_HEADER:]
        if op == _FORGET:
            self._forget([(node, abi.FORGET_IN.unpack_from(body)[0])])
            return
        if op == _BATCH_FORGET:
            first = abi.BATCH_FORGET_IN.size
            pairs = abi.BATCH_FORGET_IN.unpack_from(body)[0]
            self._forget(list(abi.FORGET_ONE.iter_unpack(body[first : first + pairs * abi.FORGET_ONE.size])))
            return
        if op == _INTERRUPT:
            (other,) = abi.INTERRUPT_IN.unpack_from(body)
            if self._waiting.interrupt(other):
                self._answer(other, b"", errno.EINTR)
            return
        if op == _DESTROY:
            self._answer(unique, b"", 0)
            return
        backings = self._backings
        if backings is not None and op in (Op.GETXATTR, Op.SETXATTR):
            _known_capability(backings, op, node, body)
        handle = next(self._numbers) if op in _OPENING else 0
        reply = self._giving_nodes(op, node, handle, body) if op in ENTRIES else self._execute(op, node, handle, body)
        if backings is not None:
            if op in _FILES:
                reply = self._hand_over(backings, handle, reply)
            elif op == Op.RELEASE:
                backings.release_handle(abi.RELEASE_IN.unpack_from(body)[0])
        self._answer(unique, reply, 0)
        if op in _UNLOCKING:
            self._retry_locks()
        if self._trace is not None:
            self._trace.record_reply(op, node, handle, message, reply, job, started, 0)

    def _record_failure(
        self,
        trace: SharedTrace,
        reader: Reader,
        op: int,
        node: int,
        message: memoryview,
        job: int,
        started: int,
        error: int,
    ) -> None:
        if op in (_READ, _WRITE):
            handle, offset, _, _, _, _, _ = abi.READ_IN.unpack_from(reader.body)
            trace.record_transfer(op, node, handle, offset, 0, job, started, error)
        else:
            trace.record_reply(op, node, 0, message, b"", job, started, error)

    def _execute(self, op: int, node: int, handle: int, body: memoryview) -> bytes:
        reply = self._operations.execute(self._handles, op, node, handle, body, _NOTHING)
        assert isinstance(reply, bytes)
        return reply

    def _giving_nodes(self, op: int, node: int, handle: int, body: memoryview) -> bytes:
        """As `_execute`. No node is dropped until those of the reply are counted: the kernel has them from then on."""
        with self._nodes_lock:
            self._giving += 1
        try:
            reply = self._execute(op, node, handle, body)
            if op in NEW_NODES or self._renewed:
                reply = self._with_generation(op, reply)
            return reply
        finally:
            with self._nodes_lock:
                self._giving -= 1

    def _with_generation(self, op: int, reply: bytes) -> bytes:
        """The reply with the generations of its nodes: what was just made is not what had its number before."""
        (node,) = abi.FORGET_IN.unpack_from(reply) if reply else (0,)
        held = op in NEW_NODES and self._handles.known.get(node, 0) > 1
        if not reply or not (held or self._renewed):
            return reply
        body = bytearray(reply)
        with self._nodes_lock:
            self._renewed = True
            self._generations.mark(op, memoryview(body), held=held, named=True)
        return bytes(body)

    def _forget(self, dropped: list[tuple[int, int]]) -> None:
        """Drops (node, look-ups), once no request is under way that may give the kernel one of them again."""
        with self._nodes_lock:
            self._dropped += dropped
            if self._giving:
                return
            dropped, self._dropped = self._dropped, []
            for node, lookups in dropped:
                self._operations.forget(self._handles, node, lookups)
                if node not in self._handles.known:
                    if self._renewed:
                        self._generations.forget(node)
                    if self._trace is not None:
                        self._trace.record_forget(node)

    def _hand_over(self, backings: BackingFiles, handle: int, reply: bytes) -> bytes:
        opened = self._handles.files.get(handle)
        if opened is None or opened.descriptor is None:
            return reply
        return backings.hand_over(opened.node, handle, opened.descriptor, reply)

    def _retry_locks(self) -> bool:
        """Tries every waiting lock again, in the order they came; whether some still wait."""
        if len(self._waiting) and self._retrying.acquire(blocking=False):
            try:
                for request in self._waiting.take_locks():
                    self._retry(request)
            finally:
                self._retrying.release()
        return len(self._waiting) > 0

    def _retry(self, request: ParkedLock) -> None:
        error = 0
        try:
            switch_thread_user(request.uid, request.gid)
            self._execute(Op.SETLKW, request.node, 0, memoryview(request.message)[_HEADER:])
        except BlockingIOError:
            if self._waiting.park(request):
                return
            error = errno.EINTR
        except UnknownHandle:
            error = errno.EBADF
        except OSError as refused:
            error = refused.errno or errno.EIO
        self._answer(request.unique, b"", error)
        if self._trace is not None:
            message, started = memoryview(request.message), request.started_ns
            self._trace.record_reply(Op.SETLKW, request.node, 0, message, b"", request.job, started, error)

    # Answers

    def _answer(self, unique: int, body: bytes, error: int) -> None:
        header = abi.OUT_HEADER.pack(abi.OUT_HEADER.size + len(body), -error, unique)
        try:
            os.write(self._fd, header + body)
        except OSError as refused:
            _ignore_gone(refused)

    def _send(self, header: bytearray, data: memoryview) -> None:
        try:
            os.writev(self._fd, (header, data))
        except OSError as refused:
            _ignore_gone(refused)


def _known_capability(backings: BackingFiles, op: int, node: int, body: memoryview) -> None:
    """The kernel asks for a file's capabilities before each of its own writes: answered from memory (ENODATA)."""
    if op == Op.GETXATTR:
        if backings.has_no_capability(node, read_message_name(body, abi.GETXATTR_IN.size)):
            raise OSError(errno.ENODATA, "no capabilities")
    else:
        backings.note_attribute(node, read_message_name(body, abi.SETXATTR_IN.size))


def _ignore_gone(error: OSError) -> None:
    """ENOENT: the request was interrupted. ENODEV, EBADF, ...: the mount is gone. Anything else is raised."""
    if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EBADF, errno.ECONNABORTED, errno.ENOTCONN):
        raise error
