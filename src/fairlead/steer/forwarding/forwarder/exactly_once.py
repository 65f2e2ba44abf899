"""Carries out requests that must not happen twice: an intent before, its outcome after, and the judgement of a request
that a client sends again. Not here: the records themselves (`intent_log`), the answers kept for a client that only lost
its connection (`client_sessions`).

    first time:   begun ──► executed ──► done(outcome) ──► answered
                    └─ ESTALE, or a defect: dropped, as if never begun

    sent again:   done ──────────────────────────────────► answered with the outcome
    (RETRY)       begun ──► judged by the tree ─ was done ─► answered
                               │                 not done ─► first time
                  no record ──────────────────────────────► first time

Invariant: the intent is on record before the tree changes, its outcome before the client has an answer.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_ns, now_ns
from fairlead.steer.forwarding.forwarder.intent_log import (
    EntryState,
    Intent,
    IntentFile,
    choose_intent,
    find_intent_append,
    judge_intent,
    read_intents,
)
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse import messages as bodies
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.thread_identity import forwarder_identity
from fairlead.steer.fs.wire.frames import Flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.steer.forwarding.forwarder.request import Request
    from fairlead.steer.fs.operations.dispatch import Operations
    from fairlead.steer.fs.trees.base import OpenFile, Stat

log = logging.getLogger("fairlead.forwarder")
_OPS = (
    Op.CREATE,
    Op.MKDIR,
    Op.MKNOD,
    Op.SYMLINK,
    Op.LINK,
    Op.UNLINK,
    Op.RMDIR,
    Op.RENAME,
    Op.RENAME2,
    Op.WRITE,
    Op.REMOVEXATTR,
    Op.SETXATTR,
)
GUARDED = frozenset(map(int, _OPS))
"""Opcodes that may need it (of WRITE: appends, of CREATE: exclusive ones)."""
FOLDER = "intents"
LEFT_OVER_S = 24 * 3600
_SWEEP_NS = 3600 * 1_000_000_000
_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NAME_AT = {
    int(Op.CREATE): abi.CREATE_IN.size,
    int(Op.MKDIR): abi.MKDIR_IN.size,
    int(Op.MKNOD): abi.MKNOD_IN.size,
    int(Op.SYMLINK): 0,
    int(Op.LINK): abi.LINK_IN.size,
    int(Op.UNLINK): 0,
    int(Op.RMDIR): 0,
}
_ENTRIES = frozenset((int(Op.MKDIR), int(Op.MKNOD), int(Op.SYMLINK), int(Op.LINK)))
_ATTRIBUTES = {int(Op.REMOVEXATTR): errno.ENODATA, int(Op.SETXATTR): errno.EEXIST}
_FLAGS = Struct("<I")
_RETRY = int(Flag.RETRY)
_CREATING = os.O_EXCL | os.O_CREAT | os.O_TRUNC
_NOTHING = memoryview(b"")
_LOCKS = 64
_CHECK_NS = 1_000_000_000
_KNOWN_NS = 100_000_000
_MOST_COMPARED = 64 << 20
"""Bytes after an append's place that are looked through for it."""


class SessionIntents:
    """The intents of one client session at this forwarder, and those other forwarders left of it."""

    def __init__(self, folder: int, session: str, boot: str) -> None:
        self._folder = folder
        self._session = session
        self.name = f"{session}-{boot[:16]}"
        self._file: IntentFile | None = None
        self._told = False
        self._checked_ns = 0
        self._known: tuple[int, dict[int, Intent]] = (-_KNOWN_NS, {})
        self._lock = Lock()

    def get_file(self) -> IntentFile:
        """The records of this forwarder."""
        file, now = self._file, monotonic_ns()
        if file is not None and now - self._checked_ns < _CHECK_NS:
            return file
        with self._lock:
            if self._file is not None and self._file.is_removed():
                # Swept by another forwarder after a day without a record, or never more than memory. Not closed here:
                # another thread may be about to put an outcome on record.
                self._file = None
            if self._file is None:
                self._file = self._opened()
            self._checked_ns = now
            return self._file

    def _opened(self) -> IntentFile:
        """The file; on a full disk, where removing must go on, memory that is lost with this forwarder."""
        try:
            with forwarder_identity:
                return IntentFile(os.open(self.name, _FILE, 0o600, dir_fd=self._folder))
        except OSError as error:
            if error.errno not in _FULL:
                raise
            with forwarder_identity, suppress(OSError):
                os.unlink(self.name, dir_fd=self._folder)
            if not self._told:
                self._told = True
                log.warning("no intents can be kept (%s): a request sent again may be done twice", error.strerror)
        return IntentFile(os.memfd_create("intents"))

    def find(self, number: int) -> Intent | None:
        """The intent of a request, whichever forwarder wrote it. After a failover many are asked for at once: what
        was read is good for a moment."""
        now = monotonic_ns()
        read_ns, known = self._known
        if now - read_ns > _KNOWN_NS:
            known = {}
            with forwarder_identity:
                for name in _names(self._folder):
                    if name.startswith(self._session):
                        with suppress(FileNotFoundError):
                            for other, intent in read_intents(_content(name, self._folder)).items():
                                known[other] = choose_intent(known.get(other), intent)
            self._known = (now, known)
        return known.get(number)

    def end(self, *, farewell: bool) -> None:
        """The session is over here. Its records go only when the client said so: one that is still looking for a
        forwarder may need them."""
        with self._lock:
            if self._file is None:
                return
            self._file = None  # closed with the last request that uses it
        if farewell:
            with forwarder_identity, suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._folder)


def _names(folder: int) -> list[str]:
    """Names in it, read through a descriptor of our own: threads that share one share its position too."""
    fresh = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(fresh)
    finally:
        os.close(fresh)


def _content(name: str, folder: int) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


class _Recording:
    """Puts the outcome of a `with` block on record: its errno when it fails, nothing when it was never begun, as with a
    node that is not where it was (ESTALE): its client is asked where it is and sends the request again."""

    def __init__(self, file: IntentFile, place: int) -> None:
        self._file = file
        self._place = place
        self.outcome = 0

    def __enter__(self) -> _Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self._file.finish(self._place, self.outcome)
        elif isinstance(error, OSError) and error.errno != errno.ESTALE:
            self._file.finish(self._place, -(error.errno or errno.EIO))
        else:
            self._file.drop(self._place)


class Guard:
    """Requests of all sessions that must not happen twice. `folder`: descriptor of the tree's folder for intents."""

    def __init__(self, operations: Operations, folder: int, boot: str) -> None:
        self._operations = operations
        self._tree = operations.tree
        self._folder = folder
        self._boot = boot
        self._appends = [Lock() for _ in range(_LOCKS)]
        self._temporary = True
        self._name_temporary: Callable[[OpenFile, int, bytes], tuple[int, Stat]] | None = getattr(
            operations.tree, "name_temporary", None
        )
        self._sessions: dict[str, SessionIntents] = {}
        self._sweep()

    def get_session(self, session: str) -> SessionIntents:
        """The intents of a client session."""
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions.setdefault(session, SessionIntents(self._folder, session, self._boot))
        return known

    def end(self, session: str, *, farewell: bool) -> None:
        """The session is over here; `farewell`: its client has no request that waits for an answer."""
        known = self._sessions.pop(session, None)
        if known is not None:
            known.end(farewell=farewell)
        if monotonic_ns() - self._swept_ns > _SWEEP_NS:
            self._sweep()

    def close(self) -> None:
        """Ends it. The records stay: clients may go on with another forwarder."""
        for known in self._sessions.values():
            known.end(farewell=False)
        self._sessions.clear()
        os.close(self._folder)

    def _sweep(self) -> None:
        self._swept_ns = monotonic_ns()
        oldest = now_ns() - LEFT_OVER_S * 1_000_000_000
        with forwarder_identity:
            for name in _names(self._folder):
                with suppress(OSError):
                    if os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mtime_ns < oldest:
                        os.unlink(name, dir_fd=self._folder)

    def execute(self, intents: SessionIntents, request: Request) -> bytes | int:
        """As `Operations.execute`, for a request of an opcode in `GUARDED`. With `Flag.RETRY` it may have been carried
        out before, here or by another forwarder."""
        op, body = request.op, request.body
        if op == Op.WRITE:
            file = request.session.handles.files.get(abi.WRITE_IN.unpack_from(body)[0])
            if file is None or not file.flags & os.O_APPEND:
                return self._carry_out(request)
            with self._appends[request.node % _LOCKS]:
                return self._append(intents, request, file)
        if op in _ATTRIBUTES:
            return self._set_attribute(request)
        if op == Op.CREATE and not _FLAGS.unpack_from(body)[0] & os.O_EXCL:
            return self._carry_out(request)
        if request.flags & _RETRY:
            known = intents.find(request.number)
            if known is not None:
                reply = self._resolve(known, request)
                if reply is not None:
                    return reply
        if op == Op.CREATE and self._temporary:
            return self._create(intents, request)
        return self._record(intents, request)

    # -- carrying out ------------------------------------------------------------------------------------------

    def _carry_out(self, request: Request) -> bytes | int:
        data = request.data if request.data is not None else _NOTHING
        handles = request.session.handles
        return self._operations.execute(handles, request.op, request.node, request.handle, request.body, data)

    def _record(self, intents: SessionIntents, request: Request) -> bytes | int:
        file = intents.get_file()
        with _Recording(file, file.begin(self._build_intent(request))) as recording:
            reply = self._carry_out(request)
            if isinstance(reply, bytes) and len(reply) >= 8:
                recording.outcome = abi.FORGET_IN.unpack_from(reply)[0] - 1
        return reply

    def _build_intent(self, request: Request) -> Intent:
        """What is about to be done, and what is there now."""
        number, op, node, body = request.number, request.op, request.node, request.body
        if op in (Op.RENAME, Op.RENAME2):
            fixed = abi.RENAME2_IN.size if op == Op.RENAME2 else abi.RENAME_IN.size
            flags = abi.RENAME2_IN.unpack_from(body)[1] if op == Op.RENAME2 else 0
            (parent,) = abi.RENAME_IN.unpack_from(body)
            name, new = bodies.read_message_names(body, fixed)
            found = self._found(node, name)
            there = self._found(parent, new)
            return Intent(number, op, node, name, parent, new, found.inode, found.mark, there.inode, flags, now_ns())
        name = bodies.read_message_name(body, _NAME_AT[op])
        found = self._found(node, name)
        if op == Op.LINK:
            (other,) = abi.LINK_IN.unpack_from(body)
            return Intent(number, op, node, name, other, b"", other - 1, 0, found.inode, 0, now_ns())
        if op in (Op.UNLINK, Op.RMDIR):
            return Intent(number, op, node, name, 0, b"", found.inode, found.mark, 0, 0, now_ns())
        return Intent(number, op, node, name, second=found.inode, when_ns=now_ns())

    def _found(self, parent: int, name: bytes) -> EntryState:
        try:
            node, st = self._tree.lookup(parent, name)
        except OSError:
            return EntryState(0, 0)
        return EntryState(node - 1, st.st_ctime_ns)

    def _create(self, intents: SessionIntents, request: Request) -> bytes | int:
        """An exclusive creation whose inode is known before its name exists: made without a name, then linked."""
        tree, operations, body, node = self._tree, self._operations, request.body, request.node
        flags, mode, umask, _ = abi.CREATE_IN.unpack_from(body)
        name = bodies.read_message_name(body, abi.CREATE_IN.size)
        if flags & os.O_ACCMODE == os.O_RDONLY:  # O_TMPFILE must be writable
            return self._record(intents, request)
        try:
            made, st, opened = tree.create_temporary(node, flags & ~_CREATING, mode & 0o7777 & ~umask)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOSYS, errno.EINVAL):
                raise
            self._temporary = False
            return self._record(intents, request)
        intent = Intent(
            request.number, request.op, node, name, expected=made - 1, mark=st.st_mtime_ns, when_ns=now_ns()
        )
        try:
            file = intents.get_file()
            with _Recording(file, file.begin(intent)) as recording:
                if self._name_temporary is not None:
                    made, st = self._name_temporary(opened, node, name)
                else:
                    made, st = tree.link(made, node, name)
                recording.outcome = made - 1
        except BaseException:
            opened.close()
            raise
        handles = request.session.handles
        operations.replace(handles, request.handle, opened)
        entry = operations.enter_node(handles, made, st, made=True)
        return entry + bodies.pack_open_message(request.handle, operations.open_flags)

    def _append(self, intents: SessionIntents, request: Request, opened: OpenFile) -> bytes | int:
        size = opened.stat().st_size
        node, data = request.node, request.data if request.data is not None else _NOTHING
        known = intents.find(request.number) if request.flags & _RETRY else None
        if known is not None and known.done:
            if known.outcome < 0:
                raise build_os_error(-known.outcome)
            return abi.WRITE_OUT.pack(known.outcome, 0)
        if known is not None:
            since = self._since(node, known.expected, min(size, known.expected + _MOST_COMPARED))
            there, sure = find_intent_append(data, since)
            if not sure:
                log.warning("an append sent again to node %d: %s", node, "found" if there else "not found")
            if there == len(data):
                return abi.WRITE_OUT.pack(there, 0)
            if there and size == known.expected + there:
                rest = opened.write_from(data[there:], size)  # the forwarder died in the middle of it
                return abi.WRITE_OUT.pack(there + rest, 0)
        intent = Intent(request.number, request.op, node, b"", node, b"", size, 0, len(data), 0, now_ns())
        file = intents.get_file()
        with _Recording(file, file.begin(intent)) as recording:
            reply = self._carry_out(request)
            assert isinstance(reply, bytes)
            recording.outcome = abi.WRITE_OUT.unpack_from(reply)[0]
        return reply

    def _since(self, node: int, begin: int, end: int) -> bytes:
        """What a file holds there (the client's own descriptor may be for writing only)."""
        if end <= begin:
            return b""
        buffer = bytearray(end - begin)
        with forwarder_identity:
            file = self._tree.reopen(node, os.O_RDONLY)
            try:
                count = file.read_into(memoryview(buffer), begin)
            finally:
                file.close()
        return bytes(buffer[:count])

    def _set_attribute(self, request: Request) -> bytes | int:
        try:
            return self._carry_out(request)
        except OSError as error:
            if request.flags & _RETRY and error.errno == _ATTRIBUTES[request.op]:
                log.warning(
                    "an attribute of node %d was set or removed twice, or by another client meanwhile", request.node
                )
                return b""
            raise

    # -- judging a request that is sent again ------------------------------------------------------------------

    def _resolve(self, intent: Intent, request: Request) -> bytes | None:
        """The answer, or None when it is to be carried out (again)."""
        op, handles, handle, body = request.op, request.session.handles, request.handle, request.body
        if intent.done:
            if intent.outcome < 0:
                raise build_os_error(-intent.outcome)
        else:
            verdict = judge_intent(intent, self._now(intent))
            if not verdict.sure:
                log.warning("%s of %r sent again: %s", Op(op).name, intent.name, verdict.value)
            if not verdict.carried_out:
                return None
        if op not in _ENTRIES and op != Op.CREATE:
            return b""
        node, st = self._tree.lookup(intent.parent, intent.name)
        if intent.done and node - 1 != intent.outcome:
            raise build_os_error(errno.ESTALE)  # made, and replaced by another client since
        if op == Op.CREATE:
            with forwarder_identity:
                opened = self._tree.reopen(node, _FLAGS.unpack_from(body)[0] & ~_CREATING)
            self._operations.replace(handles, handle, opened)
            entry = self._operations.enter_node(handles, node, st, made=True)
            return entry + bodies.pack_open_message(handle, self._operations.open_flags)
        return self._operations.enter_node(handles, node, st)

    def _now(self, intent: Intent) -> EntryState:
        if intent.op == Op.CREATE:
            try:
                node, st = self._tree.lookup(intent.parent, intent.name)
            except OSError:
                return EntryState(0, 0)
            return EntryState(node - 1, st.st_mtime_ns)
        found = self._found(intent.parent, intent.name)
        if intent.op in (Op.RENAME, Op.RENAME2):
            return found._replace(new_inode=self._found(intent.other, intent.new_name).inode)
        return found
