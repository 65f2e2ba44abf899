"""Bodies of the kernel's messages: names and values out of requests, attributes and entries into replies.

Layouts are in `abi`; what the requests do is in `operations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from fairlead.steer.fs.fuse.abi import (
    CREATE_IN,
    DIRENT,
    IN_HEADER,
    LINK_IN,
    MKDIR_IN,
    MKNOD_IN,
    OPEN_OUT,
    RENAME2_IN,
    RENAME_IN,
    STATFS_OUT,
    Op,
)

if TYPE_CHECKING:
    import os

    from fairlead.steer.fs.trees.base import Entry, Stat

SECOND = 1_000_000_000
_WORD = (1 << 64) - 1
_HALF = (1 << 32) - 1
_ATTR = "QQQQQQIIIIIIIIII"
_NODE = Struct("<Q")
_HEADER = IN_HEADER.size
_ENTRY_ATTR = Struct("<QQQQII" + _ATTR)
_ATTR_OUT = Struct("<QII" + _ATTR)
ENTRY_BYTES = _ENTRY_ATTR.size
NO_ENTRY = bytes(ENTRY_BYTES)
"""An entry the kernel takes nothing from: `.` and `..` of READDIRPLUS, and names that are gone."""
NAME_AT = {
    int(op): _HEADER + fixed
    for op, fixed in {
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
        Op.TMPFILE: CREATE_IN.size,
    }.items()
}
"""Requests about names, and where the (first) name begins in their message."""
_new = tuple.__new__
"""Makes a named tuple at the price of a tuple."""
_REMOVES = frozenset(map(int, (Op.UNLINK, Op.RMDIR)))
_RENAMES = frozenset(map(int, (Op.RENAME, Op.RENAME2)))
_RENAME2, _TMPFILE = int(Op.RENAME2), int(Op.TMPFILE)
_EXCHANGE = 2


class NameChange(NamedTuple):
    """What a request about a name in a directory says. `node`: the name's, 0 for none; `new_parent`, `new_name` and
    `exchange` are those of a rename."""

    op: int
    parent: int
    name: bytes
    node: int = 0
    new_parent: int = 0
    new_name: bytes = b""
    failed: bool = False
    exchange: bool = False


def read_change_message(op: int, parent: int, message: bytes, head: bytes, error: int) -> NameChange:
    """A request of `NAME_AT` by its whole message; `head` is the first 8 bytes of the reply's body."""
    names = message[NAME_AT[op] :].split(b"\0", 2)
    if op in _RENAMES:
        (new_parent,) = RENAME_IN.unpack_from(message, _HEADER)
        exchange = op == _RENAME2 and bool(RENAME2_IN.unpack_from(message, _HEADER)[1] & _EXCHANGE)
        return NameChange(op, parent, names[0], 0, new_parent, names[1], error != 0, exchange)
    node = 0
    if not error and op not in _REMOVES and len(head) == _NODE.size:
        (node,) = _NODE.unpack(head)
    name = b"" if op == _TMPFILE else names[0]
    return _new(NameChange, (op, parent, name, node, 0, b"", error != 0, False))


def iterate_message_entries(body: memoryview) -> Iterator[tuple[int, int, bytes]]:
    """Place in the body, node and name of each entry of a READDIRPLUS reply that gives the kernel a node."""
    at, end, fixed = 0, len(body), ENTRY_BYTES + DIRENT.size
    while at + fixed <= end:
        (node,) = _NODE.unpack_from(body, at)
        length = DIRENT.unpack_from(body, at + ENTRY_BYTES)[2]
        if node:
            name = bytes(body[at + fixed : at + fixed + length])
            if name not in (b".", b".."):
                yield at, node, name
        at += (fixed + length + 7) & ~7


def read_message_name(body: memoryview, at: int) -> bytes:
    """The name that starts at `at`, without its zero byte."""
    raw = bytes(body[at:])
    end = raw.find(0)
    return raw if end < 0 else raw[:end]


def read_message_names(body: memoryview, at: int) -> tuple[bytes, bytes]:
    """Two names, each ended by a zero byte."""
    raw = bytes(body[at:])
    first, _, rest = raw.partition(b"\0")
    return first, rest.partition(b"\0")[0]


def convert_message_time(seconds: int, nanoseconds: int) -> int:
    """A time of a request; its seconds are a signed number sent as an unsigned one."""
    if seconds >> 63:
        seconds -= 1 << 64
    return seconds * SECOND + nanoseconds


MADE = 1
"""Generation in the entry of a CREATE that made its file, where the mount puts in one of its own."""


def pack_entry_message(node: int, st: Stat, valid_s: int, valid_ns: int, generation: int = 0) -> bytes:
    """The reply to LOOKUP, MKDIR, ...: the node, how long name and attributes hold, the attributes (128 bytes)."""
    # Times before 1970 are signed numbers sent as unsigned ones. `pack_attributes_message` has the same fields: a call
    # that both share would cost a third of the time.
    atime, mtime, ctime = st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns
    return _ENTRY_ATTR.pack(
        node,
        generation,
        valid_s,
        valid_s,
        valid_ns,
        valid_ns,
        st.st_ino,
        st.st_size,
        st.st_blocks,
        atime // SECOND & _WORD,
        mtime // SECOND & _WORD,
        ctime // SECOND & _WORD,
        atime % SECOND,
        mtime % SECOND,
        ctime % SECOND,
        st.st_mode,
        st.st_nlink & _HALF,
        st.st_uid,
        st.st_gid,
        st.st_rdev & _HALF,
        st.st_blksize,
        0,
    )


def pack_attributes_message(st: Stat, valid_s: int, valid_ns: int) -> bytes:
    """The reply to GETATTR and SETATTR (104 bytes)."""
    atime, mtime, ctime = st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns
    return _ATTR_OUT.pack(
        valid_s,
        valid_ns,
        0,
        st.st_ino,
        st.st_size,
        st.st_blocks,
        atime // SECOND & _WORD,
        mtime // SECOND & _WORD,
        ctime // SECOND & _WORD,
        atime % SECOND,
        mtime % SECOND,
        ctime % SECOND,
        st.st_mode,
        st.st_nlink & _HALF,
        st.st_uid,
        st.st_gid,
        st.st_rdev & _HALF,
        st.st_blksize,
        0,
    )


def pack_open_message(handle: int, flags: int) -> bytes:
    """The reply to OPEN and OPENDIR (16 bytes); that to CREATE is an entry and this."""
    return OPEN_OUT.pack(handle, flags, 0)


def pack_statfs_message(found: os.statvfs_result) -> bytes:
    """The reply to STATFS."""
    return STATFS_OUT.pack(
        found.f_blocks,
        found.f_bfree,
        found.f_bavail,
        found.f_files,
        found.f_ffree,
        found.f_bsize,
        found.f_namemax,
        found.f_frsize,
        0,
    )


def pack_dirent_message(inode: int, next_offset: int, kind: int, name: bytes) -> bytes:
    """One entry of READDIR, padded to 8 bytes. `next_offset` is where a READDIR goes on after it."""
    return DIRENT.pack(inode, next_offset, len(name), kind) + name + bytes(-len(name) % 8)


def pack_listing_message(entries: Sequence[Entry], offset: int, size: int) -> bytes:
    """The reply to READDIR: as many entries from number `offset` on as fit into `size` bytes."""
    parts: list[bytes] = []
    pack = DIRENT.pack
    for number in range(offset, len(entries)):
        found, node, kind = entries[number]
        length = len(found)
        size -= 24 + (length + 7 & ~7)
        if size < 0:
            break
        parts += (pack(node - 1 or 1, number + 1, length, kind), found, bytes(-length % 8))
    return b"".join(parts)
