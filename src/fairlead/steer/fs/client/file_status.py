"""Attributes of files as a `Client` gives and sets them. Only layout."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Valid


class FileStatus(NamedTuple):
    """Attributes of a file under the names of `os.stat_result`."""

    st_ino: int
    st_size: int
    st_blocks: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_mode: int
    st_nlink: int
    st_uid: int
    st_gid: int


def parse_file_status(body: bytes, at: int) -> FileStatus:
    """The attributes in a reply."""
    (ino, size, blocks, atime, mtime, ctime, atime_ns, mtime_ns, ctime_ns, mode, links, uid, gid, _, _, _) = (
        abi.ATTR.unpack_from(body, at)
    )
    second = 1_000_000_000
    return FileStatus(
        ino,
        size,
        blocks,
        atime * second + atime_ns,
        mtime * second + mtime_ns,
        ctime * second + ctime_ns,
        mode,
        links,
        uid,
        gid,
    )


def build_file_status_change(valid: Valid, *, size: int = 0, mode: int = 0) -> bytes:
    """The body of a SETATTR."""
    return abi.SETATTR_IN.pack(valid, 0, 0, size, 0, 0, 0, 0, 0, 0, 0, mode, 0, 0, 0, 0)
