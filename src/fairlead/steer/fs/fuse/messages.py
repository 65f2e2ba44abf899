"""Bodies of the kernel's messages: names and values out of requests, attributes and entries into replies.

Layouts are in `abi`; what the requests mean is in `operations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse.abi import DIRENT, OPEN_OUT, STATFS_OUT

if TYPE_CHECKING:
    import os

    from fairlead.steer.fs.trees.base import Entry, Stat

SECOND = 1_000_000_000
_WORD = (1 << 64) - 1
_HALF = (1 << 32) - 1
_ATTR = "QQQQQQIIIIIIIIII"
_ENTRY_ATTR = Struct("<QQQQII" + _ATTR)
_ATTR_OUT = Struct("<QII" + _ATTR)
ENTRY_BYTES = _ENTRY_ATTR.size
NO_ENTRY = bytes(ENTRY_BYTES)
"""An entry the kernel takes nothing from: `.` and `..` of READDIRPLUS, and names that are gone."""


def read_name(body: memoryview, at: int) -> bytes:
    """The name that starts at `at`, without its zero byte."""
    raw = bytes(body[at:])
    end = raw.find(0)
    return raw if end < 0 else raw[:end]


def read_two_names(body: memoryview, at: int) -> tuple[bytes, bytes]:
    """Two names, each ended by a zero byte."""
    raw = bytes(body[at:])
    first, _, rest = raw.partition(b"\0")
    return first, rest.partition(b"\0")[0]


def time_ns(seconds: int, nanoseconds: int) -> int:
    """A time of a request; its seconds are a signed number sent as an unsigned one."""
    if seconds >> 63:
        seconds -= 1 << 64
    return seconds * SECOND + nanoseconds


MADE = 1
"""Generation in the entry of a CREATE that made its file, where the mount puts in one of its own."""


def pack_entry(node: int, st: Stat, valid_s: int, valid_ns: int, generation: int = 0) -> bytes:
    """Answer of LOOKUP, MKDIR, ...: the node, how long name and attributes hold, the attributes (128 bytes)."""
    atime = st.st_atime_ns
    mtime = st.st_mtime_ns
    ctime = st.st_ctime_ns
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


def pack_attributes(st: Stat, valid_s: int, valid_ns: int) -> bytes:
    """Answer of GETATTR and SETATTR (104 bytes)."""
    atime = st.st_atime_ns
    mtime = st.st_mtime_ns
    ctime = st.st_ctime_ns
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


def pack_open(handle: int, flags: int) -> bytes:
    """Answer of OPEN and OPENDIR (16 bytes); that of CREATE is an entry and this."""
    return OPEN_OUT.pack(handle, flags, 0)


def pack_statfs(found: os.statvfs_result) -> bytes:
    """Answer of STATFS."""
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


def pack_dirent(inode: int, next_offset: int, kind: int, name: bytes) -> bytes:
    """One entry of READDIR, padded to 8 bytes. `next_offset` is where a READDIR goes on after it."""
    return DIRENT.pack(inode, next_offset, len(name), kind) + name + bytes(-len(name) % 8)


def pack_listing(entries: Sequence[Entry], offset: int, size: int) -> bytes:
    """Answer of READDIR: as many entries from number `offset` on as fit into `size` bytes."""
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
