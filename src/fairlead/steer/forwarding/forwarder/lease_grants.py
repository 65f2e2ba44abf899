"""What requests have to do with leases: which nodes they change, and what their answers let a client keep.

A client with leases keeps attributes and data, never names: it asks for each name again. Not here: who keeps what
(`leases`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from struct import Struct
from struct import error as TooShort  # noqa: N812
from threading import Lock
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.forwarder.leases import PATIENCE_NS, Leases
from fairlead.steer.forwarding.forwarder.request import NAMING
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse import messages as bodies
from fairlead.steer.fs.fuse.abi import Op, OpenReply
from fairlead.steer.fs.trees.base import UnknownNode
from fairlead.steer.fs.wire.frames import REVOKE, Notice

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.connection import Connection
    from fairlead.steer.forwarding.forwarder.request import Request
    from fairlead.steer.fs.operations.dispatch import Operations

KEPT_S = 600
"""How long a client keeps attributes at most before it asks again."""
_NODE, _FLAGS = Struct("<Q"), Struct("<I")
_VALID = Struct("<QQII")
"""Validity of an entry's name and attributes: seconds, then nanoseconds; after node and generation."""
_ATTRIBUTES_VALID = Struct("<QI")
_WRITE_FLAGS_AT = 20
_WRITE_CACHE = 1
"""A write of memory that a program has mapped: no program waits for it, and the page is locked meanwhile."""
_OPEN, _CREATE, _WRITE, _LINK = int(Op.OPEN), int(Op.CREATE), int(Op.WRITE), int(Op.LINK)
_RENAME, _RENAME2, _COPY = int(Op.RENAME), int(Op.RENAME2), int(Op.COPY_FILE_RANGE)
_LOOKUP, _GETATTR, _SETATTR = int(Op.LOOKUP), int(Op.GETATTR), int(Op.SETATTR)
_READ, _READDIRPLUS = int(Op.READ), int(Op.READDIRPLUS)
_REMOVING = frozenset(int(op) for op in (Op.UNLINK, Op.RMDIR))
_CHANGING = frozenset(int(op) for op in (Op.WRITE, Op.SETATTR, Op.FALLOCATE, Op.SETXATTR, Op.REMOVEXATTR))
_MADE = frozenset(int(op) for op in (Op.MKNOD, Op.MKDIR, Op.SYMLINK, Op.LINK, Op.CREATE, Op.TMPFILE))


class RunningRequest:
    """A request that is being carried out."""

    __slots__ = ("named", "nodes", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        """`Leases.changes` before it."""
        self.nodes: set[int] | None = None
        """What it changes."""
        self.named = False
        """It holds the lock of requests about names."""


class LeaseGrants:
    """Leases of one forwarder that alone changes its tree. `wait_less` makes the leader look after time by then."""

    def __init__(self, operations: Operations, wait_less: Callable[[int], None]) -> None:
        self.leases: Leases[Connection] = Leases(_tell)
        self._operations = operations
        self._wait_less = wait_less
        self._naming = Lock()
        """What is under a name must not change between the look at it and its removal."""

    def begin(self, request: Request) -> RunningRequest:
        """Before it is carried out, as its user."""
        op = request.op
        leases = self.leases
        client = request.connection
        if op == _READ and client.leases:
            leases.record_read(client, request.node)
        begun = RunningRequest(leases.changes)
        if op in _CHANGING:
            begun.nodes = {request.node}
        elif op in NAMING:
            begun.named = leases.lent
            if begun.named:
                self._naming.acquire()
            try:
                begun.nodes = self._names(request)
            except BaseException:
                if begun.named:
                    self._naming.release()
                raise
        elif op == _COPY and len(request.body) >= abi.COPY_IN.size:
            begun.nodes = {abi.COPY_IN.unpack_from(request.body)[2]}
        elif op == _OPEN and _flags(request) & os.O_TRUNC:
            begun.nodes = {request.node}
        return begun

    def _names(self, request: Request) -> set[int]:
        """The nodes a request about names will change, but one that it makes."""
        op, node, body = request.op, request.node, request.body
        nodes = {node}
        if not self.leases.lent:
            return nodes
        try:
            if op in _REMOVING:
                self._add(request, nodes, node, bodies.read_message_name(body, 0))
            elif op in (_RENAME, _RENAME2):
                (folder,) = _NODE.unpack_from(body)
                old, new = bodies.read_message_names(body, abi.RENAME_IN.size if op == _RENAME else abi.RENAME2_IN.size)
                nodes.add(folder)
                self._add(request, nodes, node, old)
                self._add(request, nodes, folder, new)
            elif op == _LINK:
                nodes.add(_NODE.unpack_from(body)[0])
        except TooShort:
            pass  # it fails
        return nodes

    def _add(self, request: Request, nodes: set[int], folder: int, name: bytes) -> None:
        try:
            found, _ = self._operations.tree.lookup(folder, name)
        except (OSError, UnknownNode):
            return  # not there, or not for this user
        nodes.add(found)
        self._operations.forget(request.session.handles, found, 0)

    def end(
        self,
        begun: RunningRequest,
        request: Request,
        error: int,
        body: bytes | memoryview,
        answer: Callable[[bytes | memoryview], None],
    ) -> None:
        """After it was carried out: has it answered, at once or when everybody has dropped what it changed."""
        if begun.named:
            self._naming.release()
        op, client = request.op, request.connection
        keeps = client.leases and not error
        if keeps and op in (_LOOKUP, _GETATTR, _READDIRPLUS):
            with self.leases.lock:  # whoever changes it from now on tells the client after this answer
                answer(self._kept(client, op, request.node, bytes(body), begun.since))
            return
        nodes = begun.nodes
        # What fails may have been done in part; a name is there or not.
        if nodes is not None and (not error or op not in NAMING):
            if op in _MADE and len(body) >= 8:
                nodes.add(_NODE.unpack_from(body)[0])
            if keeps:
                body = _not_kept(op, bytes(body), _flags(request))
            held = None if op == _WRITE and _is_of_mapping(request) else lambda: answer(body)
            due = monotonic_ns() + PATIENCE_NS
            if self.leases.revoke(client, nodes, due, held):
                self._wait_less(due)
                return
            if held is None:
                self._wait_less(due)
        elif keeps:
            body = _not_kept(op, bytes(body), _flags(request)) if op == _OPEN or op in _MADE else body
        answer(body)

    def _kept(self, client: Connection, op: int, node: int, body: bytes, since: int) -> bytes:
        give = self.leases.give
        answer = bytearray(body)
        if op == _GETATTR:
            valid = KEPT_S if give(client, (node,), since) else 0
            _ATTRIBUTES_VALID.pack_into(answer, 0, valid, 0)
        elif op == _LOOKUP:
            valid = KEPT_S if give(client, _NODE.unpack_from(body), since) else 0
            _VALID.pack_into(answer, 16, 0, valid, 0, 0)
        else:
            at, fixed = 0, bodies.ENTRY_BYTES + abi.DIRENT.size
            while at + fixed <= len(body):
                found = _NODE.unpack_from(body, at)
                if found[0]:
                    _VALID.pack_into(answer, at + 16, 0, KEPT_S if give(client, found, since) else 0, 0, 0)
                at += (fixed + int(abi.DIRENT.unpack_from(body, at + bodies.ENTRY_BYTES)[2]) + 7) & ~7
        return bytes(answer)


def _not_kept(op: int, body: bytes, flags: int) -> bytes:
    """An answer whose names and attributes are not kept: the kernel does not compare them with what came meanwhile.
    A file opened for reading alone has its data kept; writing takes no page of memory, so it holds nobody up."""
    answer = bytearray(body)
    if op == _SETATTR:
        _ATTRIBUTES_VALID.pack_into(answer, 0, 0, 0)
    elif op in _MADE and len(body) >= bodies.ENTRY_BYTES:
        _VALID.pack_into(answer, 16, 0, 0, 0, 0)
    if op == _OPEN and flags & os.O_ACCMODE == os.O_RDONLY:
        _FLAGS.pack_into(answer, 8, int(OpenReply.KEEP_CACHE))
    return bytes(answer)


def _flags(request: Request) -> int:
    """Of OPEN."""
    return int(_FLAGS.unpack_from(request.body)[0]) if len(request.body) >= 4 else 0


def _is_of_mapping(request: Request) -> bool:
    return bool(_FLAGS.unpack_from(request.body, _WRITE_FLAGS_AT)[0] & _WRITE_CACHE)


def _tell(client: Connection, number: int, nodes: list[int]) -> None:
    client.answer(0, int(Notice.REVOKE), REVOKE.pack(number) + b"".join(map(_NODE.pack, nodes)))
