"""Carries out the kernel's requests on a tree: one function for each opcode, the same in a forwarder and in a mount
without one. Not here: who asks (`trees.thread_identity`), how requests arrive (`wire`, `mount`), waiting for locks.
"""

from __future__ import annotations

import os
import struct
import threading
from errno import EINVAL, ENOSYS
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse import messages as bodies
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations import names, open_files
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.sessions import Handles, UnknownHandle
from fairlead.steer.fs.trees.base import UnknownNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.steer.fs.trees.base import FileTree, OpenFile, Stat

    Execution = Callable[["Operations", Handles, int, int, memoryview, memoryview], bytes | int]

__all__ = ["Operations", "UnknownHandle", "UnknownNode"]

DIRECT = int(abi.OpenReply.DIRECT_IO | abi.OpenReply.PARALLEL_DIRECT_WRITES)
"""How files are opened where the client keeps no data: every read and write comes here."""
_READ, _WRITE = int(Op.READ), int(Op.WRITE)
_read_in = abi.READ_IN.unpack_from
_write_out = abi.WRITE_OUT.pack


class Operations:
    """Requests on one tree. Thread-safe; any number of sessions."""

    def __init__(self, tree: FileTree, *, entry_valid_ns: int = 1_000_000_000, open_flags: int = DIRECT) -> None:
        self.tree = tree
        self.valid_s, self.valid_ns = divmod(entry_valid_ns, bodies.SECOND)
        self.open_flags = open_flags
        self.tells_made = False
        """Whether the entry of a CREATE that made its file says so (`bodies.MADE`). A forwarder's does: the mount gives
        the kernel a generation of its own."""
        self._table: dict[int, Execution] = {**names.TABLE, **open_files.TABLE}
        self._holders: dict[int, int] = {}
        self._counting = threading.Lock()

    def execute(
        self, handles: Handles, op: int, node: int, handle: int, body: memoryview, data: memoryview
    ) -> bytes | int:
        """Carries out one request.

        `body` is the kernel's message after its header. For WRITE `data` is what to write, for READ the buffer to
        fill, as long as was asked for; the number of bytes read is returned, of all others the body of the reply.
        `handle` is the number under which OPEN, CREATE, TMPFILE and OPENDIR enter what they open.

        Raises OSError with the errno to answer, UnknownNode, UnknownHandle, and BlockingIOError for a lock that
        another owner holds: a request that waits for it (SETLKW) is to be tried again later.
        """
        try:
            if op == _READ:
                fh, offset, _, _, _, _, _ = _read_in(body)
                return handles.find_file(fh).read_into(data, offset)
            if op == _WRITE:
                return self._write(handles, node, body, data)
            execution = self._table.get(op)
            if execution is None:
                raise build_os_error(ENOSYS)
            return execution(self, handles, node, handle, body, data)
        except (struct.error, OverflowError, ValueError) as error:
            # A message that is too short, or holds numbers no system call takes.
            raise build_os_error(EINVAL) from error

    def _write(self, handles: Handles, node: int, body: memoryview, data: memoryview) -> bytes:
        fh, offset, _, flags, _, _, _ = _read_in(body)
        file = handles.find_file(fh)
        if flags & abi.WRITE_KILL_SUIDGID and not self.tree.clears_set_id:
            names.clear_set_id(self.tree, node, file.stat())
        return _write_out(file.write_from(data, offset), 0)

    def enter_node(self, handles: Handles, node: int, st: Stat, *, made: bool = False) -> bytes:
        """The entry for a node, counted as told to the client. `made`: CREATE did not find the file, but made it."""
        with self._counting:
            known = handles.known
            count = known.get(node, 0)
            known[node] = count + 1
            if count == 0:
                self._holders[node] = self._holders.get(node, 0) + 1
        return bodies.pack_entry_message(
            node, st, self.valid_s, self.valid_ns, bodies.MADE if made and self.tells_made else 0
        )

    def forget(self, handles: Handles, node: int, count: int) -> None:
        """The client's kernel gives back `count` tellings of a node; the tree forgets it when no session is left."""
        with self._counting:
            left = handles.known.get(node, 0) - count
            if left > 0:
                handles.known[node] = left
                return
            handles.placed.discard(node)
            # A node whose place another forwarder's client told was never counted here.
            if self._still_held(node) if handles.known.pop(node, None) is not None else node in self._holders:
                return
        self.tree.forget((node,))

    def end(self, handles: Handles) -> None:
        """Ends a session: closes what it has open, gives back its locks, forgets its nodes."""
        handles.close_all()
        with self._counting:
            gone = [node for node in handles.known if not self._still_held(node)]
            handles.known.clear()
        self.tree.forget(gone)

    def _still_held(self, node: int) -> bool:
        left = self._holders.get(node, 0) - 1
        if left > 0:
            self._holders[node] = left
            return True
        self._holders.pop(node, None)
        return False

    def reopen(self, handles: Handles, node: int, handle: int, flags: int, *, folder: bool) -> None:
        """Opens again under `handle` what the client had open at a forwarder that was lost."""
        if folder:
            listed = open_files.list_open_directory(self.tree, node)
            handles.hold(handle, listed, listed.entries or ())
        elif handle not in handles.files:
            self.replace(handles, handle, self.tree.reopen(node, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)))

    def replace(self, handles: Handles, handle: int, file: OpenFile) -> None:
        """Enters an open file; one the client had under the same number (a request sent again) is closed."""
        before = handles.files.get(handle)
        handles.files[handle] = file
        if before is not None:
            before.close()
        # The session may have ended while a worker opened this.
        if handles.ended and (late := handles.files.pop(handle, None)) is not None:
            late.close()
