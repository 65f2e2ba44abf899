"""What a reply teaches the mount (names, handles, locks), and the requests it can answer without asking.

Called for successful replies only, after the kernel has them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.forwarding.mount.relay.prefetched_attributes import PrefetchedAttributes
from fairlead.steer.fs.client.held_state import HeldLock, Holdings
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.fuse.abi import (
    CREATE_IN,
    DIRENT,
    ENTRY,
    FLUSH_IN,
    GETATTR_FH,
    GETXATTR_IN,
    IN_HEADER,
    LK_FLOCK,
    LK_IN,
    RENAME2_IN,
    RENAME_IN,
    Op,
)

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.passthrough_files import PassthroughFiles

_HEADER = IN_HEADER.size
_NODE = Struct("<Q")
_FLAGS = Struct("<I")
_ENTRY_ATTR = ENTRY.size + 88
_RENAME_EXCHANGE = 2
_SECURITY = b"security."
_REMEMBER_NS = 1_000_000_000
_MAX_BARE = 65_536
_DONE, _ABSENT = (0, b""), (-errno.ENODATA, b"")


class ReplyEffects:
    """Learns from replies; `teach[op]` is what an opcode teaches, or None."""

    def __init__(self, nodes: Nodes, holdings: Holdings, passthrough: PassthroughFiles | None = None) -> None:
        self.nodes = nodes
        self.holdings = holdings
        self.prefetched = PrefetchedAttributes()
        self.dirty: set[int] = set()
        """Handles written to since their last FLUSH: a network file system may report errors at a close."""
        self.passthrough_writers: set[int] = set()
        """Handles the kernel writes to itself: no WRITE of theirs comes here."""
        self._bare: dict[int, int] = {}
        self.effects: list[Callable[[Entry, memoryview], None] | None] = [None] * 64
        for op, lesson in {
            Op.LOOKUP: self._looked_up,
            Op.CREATE: self._created,
            Op.MKNOD: self._made_after_16,
            Op.MKDIR: self._made_after_8,
            Op.SYMLINK: self._made,
            Op.LINK: self._made_after_8,
            Op.TMPFILE: self._temporary,
            Op.OPEN: self._opened,
            Op.OPENDIR: self._opened_directory,
            Op.RELEASE: self._released,
            Op.RELEASEDIR: self._released,
            Op.FLUSH: self._flushed,
            Op.SETLK: self._locked,
            Op.SETLKW: self._locked,
            Op.UNLINK: self._removed,
            Op.RMDIR: self._removed,
            Op.RENAME: self._renamed,
            Op.RENAME2: self._renamed,
            Op.READDIRPLUS: self._listed,
        }.items():
            self.effects[op] = lesson
        if passthrough is not None:
            passthrough.learn_from(self)

    def answer_locally(self, op: int, node: int, message: memoryview) -> tuple[int, bytes] | None:
        """Error and body of an answer that needs no forwarder, or None."""
        if op == Op.GETATTR:
            asked_by_handle = _FLAGS.unpack_from(message, _HEADER)[0] & GETATTR_FH
            found = None if asked_by_handle else self.prefetched.take(node)
            return None if found is None else (0, found)
        if op == Op.FLUSH:
            handle = _NODE.unpack_from(message, _HEADER)[0]
            if handle in self.dirty or handle in self.passthrough_writers or self.holdings.ranges:
                self.dirty.discard(handle)
                return None
            return _DONE
        if op == Op.GETXATTR:
            return _ABSENT if self.has_no_attribute(node, message) else None
        self.prefetched.drop(node)
        if op != Op.SETATTR:
            self.forget_absence(node)
        return None

    def has_no_attribute(self, node: int, message: memoryview) -> bool:
        """True when GETXATTR is known to find nothing: `security.capability` and the like, which the kernel asks for
        before writes, stay absent for a second after the forwarder said so."""
        until = self._bare.get(node)
        if until is None:
            return False
        if until < monotonic_ns():
            del self._bare[node]
            return False
        begin = _HEADER + GETXATTR_IN.size
        return bytes(message[begin : begin + 20]) == b"security.capability\0"

    def remember_absent(self, entry: Entry) -> None:
        """The forwarder answered ENODATA to a GETXATTR."""
        message = entry.message
        if message is not None and message[_HEADER + GETXATTR_IN.size :] == b"security.capability\0":
            if len(self._bare) >= _MAX_BARE:
                self._bare.clear()
            self._bare[entry.node] = monotonic_ns() + _REMEMBER_NS

    def forget_absence(self, node: int) -> None:
        """An extended attribute is being set."""
        self._bare.pop(node, None)

    def _named(self, entry: Entry, body: memoryview, begin: int) -> None:
        (node,) = _NODE.unpack_from(body)
        message = entry.message
        if node and message is not None:
            self.prefetched.drop(node)
            self.nodes.record_lookup(node, entry.node, message[begin : message.index(0, begin)])

    def _looked_up(self, entry: Entry, body: memoryview) -> None:
        self._named(entry, body, _HEADER)

    _made = _looked_up

    def _made_after_8(self, entry: Entry, body: memoryview) -> None:
        self._named(entry, body, _HEADER + 8)

    def _made_after_16(self, entry: Entry, body: memoryview) -> None:
        self._named(entry, body, _HEADER + 16)

    def _created(self, entry: Entry, body: memoryview) -> None:
        self._named(entry, body, _HEADER + CREATE_IN.size)
        self._holds(entry, _NODE.unpack_from(body)[0])

    def _temporary(self, entry: Entry, body: memoryview) -> None:
        (node,) = _NODE.unpack_from(body)
        self.prefetched.drop(node)
        self.nodes.record_nameless(node)
        self._holds(entry, node)

    def _holds(self, entry: Entry, node: int, *, directory: bool = False) -> None:
        message = entry.message
        assert message is not None
        (flags,) = _FLAGS.unpack_from(message, _HEADER)
        self.holdings.record_open(entry.handle, node, flags, directory=directory)

    def _opened(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        self._holds(entry, entry.node)

    def _opened_directory(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        self._holds(entry, entry.node, directory=True)

    def _released(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        self.holdings.record_release(entry.handle)
        self.dirty.discard(entry.handle)

    def _flushed(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        message = entry.message
        assert message is not None
        self.holdings.record_flush(entry.node, FLUSH_IN.unpack_from(message, _HEADER)[3])

    def _locked(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        message = entry.message
        assert message is not None
        handle, owner, start, end, kind, pid, flags, _ = LK_IN.unpack_from(message, _HEADER)
        self.holdings.record_lock(HeldLock(entry.node, handle, owner, start, end, kind, pid, bool(flags & LK_FLOCK)))

    def _removed(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        message = entry.message
        assert message is not None
        self.nodes.remove_name(entry.node, message[_HEADER : message.index(0, _HEADER)])

    def _renamed(self, entry: Entry, body: memoryview) -> None:  # noqa: ARG002
        message = entry.message
        assert message is not None
        exchange = False
        begin = _HEADER + RENAME_IN.size
        if len(message) > _HEADER + RENAME2_IN.size and entry.op == Op.RENAME2:
            _, flags, _ = RENAME2_IN.unpack_from(message, _HEADER)
            exchange = bool(flags & _RENAME_EXCHANGE)
            begin = _HEADER + RENAME2_IN.size
        (parent,) = RENAME_IN.unpack_from(message, _HEADER)
        middle = message.index(0, begin)
        old, new = message[begin:middle], message[middle + 1 : message.index(0, middle + 1)]
        self.prefetched.drop(parent if parent != entry.node else 0)
        self.nodes.move_name(entry.node, old, parent, new, exchange=exchange)

    def _listed(self, entry: Entry, body: memoryview) -> None:
        parent = entry.node
        seen, drop = self.nodes.record_lookup, self.prefetched.drop
        at, end = 0, len(body)
        fixed = _ENTRY_ATTR + DIRENT.size
        while at + fixed <= end:
            (node,) = _NODE.unpack_from(body, at)
            length = DIRENT.unpack_from(body, at + _ENTRY_ATTR)[2]
            begin = at + fixed
            if node:
                name = bytes(body[begin : begin + length])
                if name not in (b".", b".."):
                    drop(node)
                    seen(node, parent, name)
            at += (fixed + length + 7) & ~7
