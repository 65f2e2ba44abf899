"""What a reply changes in the mount's memory (names, handles, locks), and the requests that memory can answer.

Effects are applied to successful replies only, once the kernel has them: memory never holds what the kernel lacks.
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
from fairlead.steer.fs.fuse.abi import FLUSH_IN, GETATTR_FH, GETXATTR_IN, IN_HEADER, LK_FLOCK, LK_IN, Op
from fairlead.steer.fs.fuse.messages import NAME_AT, iterate_message_entries, read_change_message

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.passthrough_files import PassthroughFiles

_HEADER = IN_HEADER.size
_NODE = Struct("<Q")
_FLAGS = Struct("<I")
_REMEMBER_NS = 1_000_000_000
_MAX_BARE = 65_536
_DONE, _ABSENT = (0, b""), (-errno.ENODATA, b"")


class ReplyEffects:
    """`effects[op]` is called with the request and the body of its reply; None: it changes nothing."""

    def __init__(self, nodes: Nodes, holdings: Holdings, passthrough: PassthroughFiles | None = None) -> None:
        self.nodes = nodes
        self.holdings = holdings
        self.prefetched = PrefetchedAttributes()
        self.dirty: set[int] = set()
        """Handles written to since their last FLUSH: a network file system may report errors at a close."""
        self.passthrough_writers: set[int] = set()
        """Handles the kernel writes to itself: their WRITEs do not come here."""
        self._bare: dict[int, int] = {}
        self.effects: list[Callable[[Entry, memoryview], None] | None] = [None] * 64
        for op, lesson in {
            Op.LOOKUP: self._looked_up,
            Op.CREATE: self._created,
            Op.MKNOD: self._looked_up,
            Op.MKDIR: self._looked_up,
            Op.SYMLINK: self._looked_up,
            Op.LINK: self._looked_up,
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
        """Error and body of the answer, if it needs no forwarder."""
        if op == Op.GETATTR:
            asked_by_handle = _FLAGS.unpack_from(message, _HEADER)[0] & GETATTR_FH
            found = None if asked_by_handle else self.prefetched.take_attributes(node)
            return None if found is None else (0, found)
        if op == Op.FLUSH:
            handle = _NODE.unpack_from(message, _HEADER)[0]
            # A FLUSH reports write errors and gives back POSIX locks: only without either it needs no forwarder.
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
        """Remembers that a file has no capabilities: the forwarder answered ENODATA to a GETXATTR."""
        message = entry.message
        if message is not None and message[_HEADER + GETXATTR_IN.size :] == b"security.capability\0":
            if len(self._bare) >= _MAX_BARE:
                self._bare.clear()
            self._bare[entry.node] = monotonic_ns() + _REMEMBER_NS

    def forget_absence(self, node: int) -> None:
        """An extended attribute is being set or removed, or the file changes."""
        self._bare.pop(node, None)

    def _looked_up(self, entry: Entry, body: memoryview) -> None:
        """The kernel has been given a node under a name."""
        (node,) = _NODE.unpack_from(body)
        message = entry.message
        if node and message is not None:
            begin = NAME_AT[entry.op]
            self.prefetched.drop(node)
            self.nodes.record_lookup(node, entry.node, message[begin : message.index(0, begin)])

    def _created(self, entry: Entry, body: memoryview) -> None:
        self._looked_up(entry, body)
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
        assert entry.message is not None
        change = read_change_message(entry.op, entry.node, entry.message, b"", 0)
        self.prefetched.drop(change.new_parent if change.new_parent != entry.node else 0)
        self.nodes.move_name(entry.node, change.name, change.new_parent, change.new_name, exchange=change.exchange)

    def _listed(self, entry: Entry, body: memoryview) -> None:
        for _, node, name in iterate_message_entries(body):
            self.prefetched.drop(node)
            self.nodes.record_lookup(node, entry.node, name)
