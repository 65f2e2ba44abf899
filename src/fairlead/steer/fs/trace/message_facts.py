"""What a kernel message and its reply tell a trace: the names a request was about, its extent. Layouts are those of
`fuse.abi`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse.abi import (
    COPY_IN,
    CREATE_IN,
    DIRENT,
    ENTRY,
    FALLOCATE_IN,
    FSYNC_IN,
    IN_HEADER,
    LINK_IN,
    MKDIR_IN,
    MKNOD_IN,
    RENAME2_IN,
    RENAME_IN,
    SETATTR_IN,
    Op,
)

if TYPE_CHECKING:
    from fairlead.steer.fs.trace.recorder import Trace

_HEADER = IN_HEADER.size
_FIXED = {
    Op.LOOKUP: 0,
    Op.CREATE: CREATE_IN.size,
    Op.MKNOD: MKNOD_IN.size,
    Op.MKDIR: MKDIR_IN.size,
    Op.SYMLINK: 0,
    Op.LINK: LINK_IN.size,
    Op.UNLINK: 0,
    Op.RMDIR: 0,
    Op.RENAME: RENAME_IN.size,
    Op.RENAME2: RENAME2_IN.size,
    Op.READDIRPLUS: 0,
    Op.TMPFILE: CREATE_IN.size,
}
NAMING = {int(op): _HEADER + fixed for op, fixed in _FIXED.items()}
"""Requests about names, and where the name begins in their message."""
MEASURED = frozenset(map(int, (Op.SETATTR, Op.FSYNC, Op.COPY_FILE_RANGE, Op.FALLOCATE)))
"""Requests that are no READ or WRITE but have an `read_extent`."""
_NODE = Struct("<Q")
_ATTRIBUTES = ENTRY.size + 88
_ENDS = frozenset(map(int, (Op.UNLINK, Op.RMDIR)))
_RENAMES = frozenset(map(int, (Op.RENAME, Op.RENAME2)))
_RENAME2, _TMPFILE = int(Op.RENAME2), int(Op.TMPFILE)


def read_names(
    op: int, parent: int, message: bytes, head: bytes, error: int
) -> tuple[int, int, bytes, int, int, bytes, bool, int]:
    """What a request about names says: op, parent, name, node (0: none), new parent, new name, whether it failed,
    rename flags. `head` is the beginning of the reply."""
    names = message[NAMING[op] :].split(b"\0", 2)
    if op in _RENAMES:
        (new_parent,) = RENAME_IN.unpack_from(message, _HEADER)
        flags = RENAME2_IN.unpack_from(message, _HEADER)[1] if op == _RENAME2 else 0
        return op, parent, names[0], 0, new_parent, names[1], error != 0, flags
    node = 0
    if not error and op not in _ENDS and len(head) == _NODE.size:
        (node,) = _NODE.unpack(head)
    return op, parent, b"" if op == _TMPFILE else names[0], node, 0, b"", error != 0, 0


def record_listing(trace: Trace, parent: int, body: memoryview) -> None:
    """The kernel knows every entry of a READDIRPLUS reply from now on."""
    at, end = 0, len(body)
    fixed = _ATTRIBUTES + DIRENT.size
    while at + fixed <= end:
        (node,) = _NODE.unpack_from(body, at)
        length = DIRENT.unpack_from(body, at + _ATTRIBUTES)[2]
        if node:
            name = bytes(body[at + fixed : at + fixed + length])
            if name not in (b".", b".."):
                trace.record_entry(node, parent, name)
        at += (fixed + length + 7) & ~7


def read_extent(op: int, message: bytes | memoryview) -> tuple[int, int]:
    """Offset and size of a request that is no READ or WRITE, as `Trace.request` wants them."""
    if op == Op.SETATTR:
        return -1, int(SETATTR_IN.unpack_from(message, _HEADER)[0])
    if op == Op.FSYNC:
        return -1, int(FSYNC_IN.unpack_from(message, _HEADER)[1])
    if op == Op.COPY_FILE_RANGE:
        copied = COPY_IN.unpack_from(message, _HEADER)
        return int(copied[1]), int(copied[5])
    if op == Op.FALLOCATE:
        _, offset, length, _, _ = FALLOCATE_IN.unpack_from(message, _HEADER)
        return int(offset), int(length)
    return -1, 0
