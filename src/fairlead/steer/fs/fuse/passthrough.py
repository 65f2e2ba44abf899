"""FUSE passthrough (Linux 6.9): the kernel reads and writes the backing file of an open file itself, without requests.
Needs CAP_SYS_ADMIN. Not here: whether kernel and mount agreed on it (`negotiation`).
"""

from __future__ import annotations

import errno
import fcntl
import os
from struct import Struct
from threading import Lock

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import OpenReply

_CAPABILITY = b"security.capability"
_ID = Struct("<I")
_CAP_SYS_ADMIN = 21


def supports_passthrough() -> bool:
    """Whether this process may register backing files (CAP_SYS_ADMIN)."""
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


class BackingFiles:
    """The backing files of one mount. All openings of a node share one: the kernel refuses two (EBUSY).

    `refused` is the errno of the first file the kernel did not take, 0 when it took all.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = Lock()
        self._ids: dict[int, list[int]] = {}
        self._handles: dict[int, int] = {}
        self._bare: set[int] = set()
        self.refused = 0

    def hand_over(self, node: int, handle: int, descriptor: int, reply: bytes) -> bytes:
        """Registers the file with the kernel and returns the reply to OPEN, CREATE or TMPFILE that says so; `reply`
        (it ends with OPEN_OUT) if the kernel refuses."""
        with self._lock:
            known = self._ids.get(node)
            if known is None:
                number = self._register(descriptor)
                if number <= 0:
                    return reply
                known = self._ids[node] = [number, 0]
                if _has_no_capability(descriptor):
                    self._bare.add(node)
            known[1] += 1
            self._handles[handle] = node
        fh, flags, _ = abi.OPEN_OUT.unpack_from(reply, len(reply) - abi.OPEN_OUT.size)
        flags &= ~(OpenReply.DIRECT_IO | OpenReply.KEEP_CACHE | OpenReply.PARALLEL_DIRECT_WRITES)
        return reply[: -abi.OPEN_OUT.size] + abi.OPEN_OUT.pack(fh, flags | OpenReply.PASSTHROUGH, known[0])

    def has(self, node: int) -> bool:
        """Whether the kernel has the node's backing file."""
        return node in self._ids

    def release_handle(self, handle: int) -> None:
        """The handle was released; with the last one of a node its backing file is closed."""
        with self._lock:
            node = self._handles.pop(handle, None)
            if node is None:
                return
            known = self._ids[node]
            known[1] -= 1
            if known[1] == 0:
                del self._ids[node]
                self._bare.discard(node)
                fcntl.ioctl(self._fd, abi.DEV_IOC_BACKING_CLOSE, bytearray(_ID.pack(known[0])))

    def has_no_capability(self, node: int, name: bytes) -> bool:
        """Whether GETXATTR of that name is known to answer ENODATA; the kernel asks before every write."""
        return node in self._bare and name == _CAPABILITY

    def note_attribute(self, node: int, name: bytes) -> None:
        """An extended attribute of the node is being set."""
        if name == _CAPABILITY:
            self._bare.discard(node)

    def _register(self, descriptor: int) -> int:
        """The kernel's number for the backing file, or 0."""
        try:
            return int(
                fcntl.ioctl(self._fd, abi.DEV_IOC_BACKING_OPEN, bytearray(abi.BACKING_MAP.pack(descriptor, 0, 0)))
            )
        except OSError as error:
            self.refused = self.refused or error.errno or errno.EIO
            return 0


def _has_no_capability(descriptor: int) -> bool:
    try:
        os.getxattr(descriptor, _CAPABILITY)
    except OSError as error:
        return error.errno in (errno.ENODATA, errno.EOPNOTSUPP)
    return False
