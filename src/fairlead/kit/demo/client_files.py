"""A client of a forwarder in the program itself: the kernel's requests made by hand, where there is no FUSE.

Each thread has a session and a connection of its own and waits for each answer. No failover, no leases, no locks:
what a mount does, and this does not, is in `fairlead.steer.forwarding.mount`.
"""

from __future__ import annotations

import os
import pwd
import socket
import threading

import msgspec

from fairlead.core.clock import monotonic_ns
from fairlead.core.errors import ForwardingError
from fairlead.steer.forwarding.record_spool import open_record_spool
from fairlead.steer.fs.client.dial import Dial
from fairlead.steer.fs.client.job_identity import find_job_identity
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trace.recorder import Trace
from fairlead.steer.fs.trees.base import ROOT
from fairlead.steer.fs.wire.frames import JOB_IN, NO_SLOT, PREFIX_BYTES, REPLY, REQUEST, Own
from fairlead.steer.fs.wire.handshake import Identity

_JOB = 1
_PATIENCE_S = 60.0
_UMASK = 0o022


class ClientFiles:
    """See `demo.files.Files`. Paths begin at the root of the forwarder's tree."""

    def __init__(self, address: str, spool: str | None) -> None:
        job, rank = find_job_identity(dict(os.environb), b"")
        node = socket.gethostname().partition(".")[0]
        self._identity = Identity(
            job_id=job,
            user=_user(),
            uid=os.geteuid(),
            node=node,
            rank=rank,
            name=os.environ.get("SLURM_JOB_NAME", ""),
        )
        self._address = address
        self._trace: Trace | None = None
        self._turn = threading.Lock()
        self._here = threading.local()
        self._sessions: list[_Session] = []
        self._open: dict[int, tuple[_Session, int, int, int]] = {}
        """By number of the file: its session, handle, node and flags."""
        self._next = 0
        if spool is not None:
            writer = open_record_spool(spool, node=node, writer=f"client:{os.getpid()}")
            self._trace = Trace(writer, fs=f"fairlead:{address}", mount_point="/")
            self._trace.identities = {_JOB: self._identity}
            self._trace.start()

    def _session(self) -> _Session:
        """This thread's session."""
        found: _Session | None = getattr(self._here, "session", None)
        if found is None:
            found = self._here.session = _Session(self._address, self._identity, self._trace, self._turn)
            with self._turn:
                self._sessions.append(found)
        return found

    def open(self, path: str, flags: int, mode: int) -> int:
        """See `Files`."""
        session = self._session()
        session.handle += 1
        handle = session.handle
        if flags & os.O_CREAT:
            parent, name = session.place(path)
            body = abi.CREATE_IN.pack(flags, mode, _UMASK, 0) + name + b"\0"
            reply = session.ask(Op.CREATE, parent, body, handle=handle)
            (node,) = abi.FORGET_IN.unpack_from(reply)
        else:
            node = session.node(path)
            session.ask(Op.OPEN, node, abi.OPEN_IN.pack(flags, 0), handle=handle)
        with self._turn:
            self._next += 1
            self._open[self._next] = (session, handle, node, flags)
            return self._next

    def write(self, file: int, data: bytes, offset: int) -> int:
        """See `Files`."""
        session, handle, node, flags = self._open[file]
        done = 0
        while done < len(data):
            part = data[done : done + (1 << 20)]
            body = abi.WRITE_IN.pack(handle, offset + done, len(part), 0, 0, flags, 0)
            reply = session.ask(Op.WRITE, node, body + part, moved=(handle, offset + done))
            done += int(abi.WRITE_OUT.unpack_from(reply)[0])
        return done

    def read(self, file: int, size: int, offset: int) -> int:
        """See `Files`."""
        session, handle, node, flags = self._open[file]
        body = abi.READ_IN.pack(handle, offset, size, 0, 0, flags, 0)
        return len(session.ask(Op.READ, node, body, moved=(handle, offset)))

    def truncate(self, file: int, size: int) -> int:
        """See `Files`."""
        session, handle, node, _ = self._open[file]
        valid = abi.Valid.SIZE | abi.Valid.FH
        session.ask(Op.SETATTR, node, abi.SETATTR_IN.pack(valid, 0, handle, size, *(0,) * 12))
        return 0

    def close(self, file: int) -> int:
        """See `Files`."""
        with self._turn:
            session, handle, node, flags = self._open.pop(file)
        session.ask(Op.FLUSH, node, abi.FLUSH_IN.pack(handle, 0, 0, 0))
        session.ask(Op.RELEASE, node, abi.RELEASE_IN.pack(handle, flags, 0, 0))
        return 0

    def mkdir(self, path: str) -> int:
        """See `Files`."""
        session = self._session()
        parent, name = session.place(path)
        session.ask(Op.MKDIR, parent, abi.MKDIR_IN.pack(0o755, _UMASK) + name + b"\0")
        return 0

    def size(self, path: str) -> int:
        """See `Files`."""
        session = self._session()
        parent, name = session.place(path)
        reply = session.ask(Op.LOOKUP, parent, name + b"\0")
        return int(abi.ATTR.unpack_from(reply, abi.ENTRY.size)[1])

    def unlink(self, path: str) -> int:
        """See `Files`."""
        session = self._session()
        parent, name = session.place(path)
        session.ask(Op.UNLINK, parent, name + b"\0")
        return 0

    def end(self) -> None:
        """See `Files`."""
        for session in self._sessions:
            session.close()
        if self._trace is not None:
            self._trace.close()


class _Session:
    """One connection, used by one thread: a request, then its answer."""

    def __init__(self, address: str, identity: Identity, trace: Trace | None, turn: threading.Lock) -> None:
        self.handle = 0
        self._trace = trace
        self._turn = turn
        self._folders: dict[bytes, int] = {}
        self._number = 0
        self._connection = Dial([address], mount="library").connect_any()
        self._sock = self._connection.sock
        self._sock.settimeout(_PATIENCE_S)
        self._pid, self._uid, self._gid = os.getpid(), os.geteuid(), os.getegid()
        if identity.job_id:
            self.ask(Own.JOB, 0, JOB_IN.pack(_JOB, 0) + msgspec.json.encode(identity), job=0)

    def place(self, path: str) -> tuple[int, bytes]:
        """The node of a path's folder, and its last name."""
        folder, _, name = os.fsencode(path).rstrip(b"/").rpartition(b"/")
        node = self._folders.get(folder)
        if node is None:
            node = self._folders[folder] = self.node(folder.decode()) if folder else ROOT
        return node, name

    def node(self, path: str) -> int:
        """The node of a path."""
        parent, name = self.place(path)
        return int(abi.FORGET_IN.unpack_from(self.ask(Op.LOOKUP, parent, name + b"\0"))[0])

    def ask(
        self, op: int, node: int, body: bytes, *, handle: int = 0, job: int = _JOB, moved: tuple[int, int] | None = None
    ) -> bytes:
        """The body of the answer; OSError when it is an error. `moved`: handle and offset of a READ or WRITE."""
        self._number += 1
        length = abi.IN_HEADER.size + len(body)
        message = abi.IN_HEADER.pack(length, op, self._number, node, self._uid, self._gid, self._pid, 0, 0) + body
        began = monotonic_ns()
        self._sock.sendall(REQUEST.pack(length, 0, job, self._number, handle, NO_SLOT, 0) + message)
        error, reply = self._answer()
        if self._trace is not None and op < Own.JOB:
            self._tell(op, node, handle, message, reply, began, error, moved)
        if error:
            raise (
                OSError(-error, os.strerror(-error))
                if error < 0
                else ForwardingError(f"the forwarder refused: {error}")
            )
        return reply

    def _answer(self) -> tuple[int, bytes]:
        while True:
            length, _, _, number, error, _, _, _ = REPLY.unpack(self._take(PREFIX_BYTES))
            body = self._take(length)
            if number == self._number:
                return error, body

    def _take(self, length: int) -> bytes:
        parts = bytearray(length)
        view = memoryview(parts)
        while view:
            count = self._sock.recv_into(view)
            if not count:
                raise ForwardingError("the forwarder ended the connection", where=str(self._connection.address))
            view = view[count:]
        return bytes(parts)

    def _tell(
        self,
        op: int,
        node: int,
        handle: int,
        message: bytes,
        reply: bytes,
        began: int,
        error: int,
        moved: tuple[int, int] | None,
    ) -> None:
        """The record of one request."""
        assert self._trace is not None  # noqa: S101
        ended = monotonic_ns()
        with self._turn:
            if moved is not None:
                size = 0 if error else len(reply) if op == Op.READ else abi.WRITE_OUT.unpack_from(reply)[0]
                self._trace.record_request(op, node, moved[0], moved[1], size, began, ended, _JOB, -error)
            else:
                if op in (Op.FLUSH, Op.RELEASE):
                    (handle,) = abi.FORGET_IN.unpack_from(message, abi.IN_HEADER.size)
                self._trace.record_message(op, node, handle, message, memoryview(reply), began, ended, _JOB, -error)

    def close(self) -> None:
        """Ends the session."""
        self._connection.close()


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
