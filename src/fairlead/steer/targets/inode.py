"""The record of an inode in the store, and who asks. Data only."""

from __future__ import annotations

import stat

import msgspec

ROOT_INODE = 1
FIRST_INODE = 16
"""Numbers of files begin here; they are never used twice."""


class Inode(msgspec.Struct, array_like=True, gc=False):
    """Attributes of one inode. Times in ns.

    `nlink` is -1 while the objects are being removed. `size` is what is known of a regular file's size: objects may
    imply a larger one. `made` has a bit for each object that exists; `cuts` counts truncations; `cut` is the size of
    one that is not finished, else -1; `timed` is when `mtime` was last set by a request other than a write; `capable`:
    it has file capabilities, which a write takes away. `layout` is what was asked for (in a directory: for new files),
    `stripe` and `targets` what was chosen at the first write.
    """

    ino: int
    mode: int
    nlink: int
    uid: int
    gid: int
    size: int
    atime: int
    mtime: int
    ctime: int
    timed: int
    rdev: int = 0
    parent: int = 0
    link: bytes = b""
    layout: str = ""
    stripe: int = 0
    targets: list[str] = []
    made: int = 0
    cuts: int = 0
    cut: int = -1
    capable: bool = False

    @property
    def kind(self) -> int:
        """DT_* of the directory entry."""
        return self.mode >> 12

    @property
    def is_directory(self) -> bool:
        """Whether it is one."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it has data."""
        return stat.S_ISREG(self.mode)


class Who(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The caller a request is checked for."""

    uid: int
    gid: int
    groups: list[int] = []


class Attributes:
    """Attributes under the names of `os.stat_result`."""

    __slots__ = (
        "st_atime_ns",
        "st_blksize",
        "st_blocks",
        "st_ctime_ns",
        "st_gid",
        "st_ino",
        "st_mode",
        "st_mtime_ns",
        "st_nlink",
        "st_rdev",
        "st_size",
        "st_uid",
    )

    def __init__(self, inode: Inode, size: int, blocks: int, mtime: int) -> None:
        self.st_mode = inode.mode
        self.st_ino = inode.ino
        self.st_nlink = inode.nlink
        self.st_uid = inode.uid
        self.st_gid = inode.gid
        self.st_size = size
        self.st_atime_ns = inode.atime
        self.st_mtime_ns = mtime
        self.st_ctime_ns = max(inode.ctime, mtime if mtime != inode.mtime else 0)
        self.st_blocks = blocks
        self.st_blksize = 4096 if inode.stripe == 0 else min(inode.stripe, 1 << 20)
        self.st_rdev = inode.rdev
