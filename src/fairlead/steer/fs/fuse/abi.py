"""Numbers and layouts of the kernel's FUSE protocol (include/uapi/linux/fuse.h, 7.41), little-endian hosts.

Only data: message bodies are in `messages`, what requests do in `operations`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct

MAJOR, MINOR = 7, 41
ROOT = 1
"""Node id of the root of every mount."""
PAGE = 4096
MAX_PAGES = 256
MAX_WRITE = MAX_PAGES * PAGE
"""Bytes of data in one READ or WRITE at most (1 MiB)."""
MESSAGE_BYTES = MAX_WRITE + 2 * PAGE
"""A buffer of this size takes every request of a mount with `MAX_WRITE`."""


class Op(IntEnum):
    """Opcodes of requests."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    SETXATTR = 21
    GETXATTR = 22
    LISTXATTR = 23
    REMOVEXATTR = 24
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    GETLK = 31
    SETLK = 32
    SETLKW = 33
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    BMAP = 37
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    NOTIFY_REPLY = 41
    BATCH_FORGET = 42
    FALLOCATE = 43
    READDIRPLUS = 44
    RENAME2 = 45
    LSEEK = 46
    COPY_FILE_RANGE = 47
    SETUPMAPPING = 48
    REMOVEMAPPING = 49
    SYNCFS = 50
    TMPFILE = 51
    STATX = 52


NO_REPLY = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})
"""Requests the kernel expects no answer to (an INTERRUPT is answered by its request ending)."""


_HANDLE_FIRST = (
    "RELEASE RELEASEDIR FLUSH FSYNC FSYNCDIR READDIR READDIRPLUS GETLK SETLK SETLKW FALLOCATE LSEEK COPY_FILE_RANGE "
    "IOCTL POLL"
)
HANDLE_FIRST = frozenset(int(Op[name]) for name in _HANDLE_FIRST.split())
"""Requests other than READ and WRITE whose body begins with a handle."""
NEW_NODES = frozenset(map(int, (Op.MKDIR, Op.MKNOD, Op.SYMLINK, Op.TMPFILE)))
"""Requests that make a node which cannot have been there (a CREATE may find one)."""
ENTRIES = NEW_NODES | frozenset(map(int, (Op.LOOKUP, Op.CREATE, Op.LINK, Op.READDIRPLUS)))
"""Requests whose reply gives the kernel nodes."""


class Init(IntFlag):
    """Flags of INIT, both words as one number (`flags | flags2 << 32`); those that are used."""

    ASYNC_READ = 1 << 0
    POSIX_LOCKS = 1 << 1
    ATOMIC_O_TRUNC = 1 << 3
    EXPORT_SUPPORT = 1 << 4
    BIG_WRITES = 1 << 5
    DONT_MASK = 1 << 6
    FLOCK_LOCKS = 1 << 10
    AUTO_INVAL_DATA = 1 << 12
    DO_READDIRPLUS = 1 << 13
    READDIRPLUS_AUTO = 1 << 14
    ASYNC_DIO = 1 << 15
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22
    HANDLE_KILLPRIV_V2 = 1 << 28
    SETXATTR_EXT = 1 << 29
    INIT_EXT = 1 << 30
    DIRECT_IO_ALLOW_MMAP = 1 << 36
    PASSTHROUGH = 1 << 37


class OpenReply(IntFlag):
    """`fuse_open_out.open_flags`."""

    DIRECT_IO = 1 << 0
    KEEP_CACHE = 1 << 1
    NOFLUSH = 1 << 5
    PARALLEL_DIRECT_WRITES = 1 << 6
    PASSTHROUGH = 1 << 7


class Valid(IntFlag):
    """`fuse_setattr_in.valid`: which attributes a SETATTR sets."""

    MODE = 1 << 0
    UID = 1 << 1
    GID = 1 << 2
    SIZE = 1 << 3
    ATIME = 1 << 4
    MTIME = 1 << 5
    FH = 1 << 6
    ATIME_NOW = 1 << 7
    MTIME_NOW = 1 << 8
    KILL_SUIDGID = 1 << 11


GETATTR_FH = 1
WRITE_KILL_SUIDGID = 4
RELEASE_FLOCK_UNLOCK = 2
FSYNC_FDATASYNC = 1
LK_FLOCK = 1

IN_HEADER = Struct("<IIQQIIIHH")
"""len, opcode, unique, nodeid, uid, gid, pid, total_extlen, padding (40 bytes)."""
OUT_HEADER = Struct("<IiQ")
"""len, error (0 or -errno), unique (16 bytes)."""
ATTR = Struct("<QQQQQQIIIIIIIIII")
"""ino, size, blocks, atime, mtime, ctime, atimensec, mtimensec, ctimensec, mode, nlink, uid, gid, rdev, blksize, flags
(88 bytes)."""
ENTRY = Struct("<QQQQII")
"""nodeid, generation, entry_valid, attr_valid, entry_valid_nsec, attr_valid_nsec (40 bytes), then ATTR."""
ATTR_OUT = Struct("<QII")
"""attr_valid, attr_valid_nsec, dummy (16 bytes), then ATTR."""
OPEN_OUT = Struct("<QIi")
"""fh, open_flags, backing_id."""
WRITE_OUT = Struct("<II")
"""size, padding."""
INIT_IN = Struct("<IIIII")
"""major, minor, max_readahead, flags, flags2 (then 11 unused words)."""
INIT_OUT = Struct("<IIIIHHIIHHIIH")
"""major, minor, max_readahead, flags, max_background, congestion_threshold, max_write, time_gran, max_pages,
map_alignment, flags2, max_stack_depth, request_timeout; padded to 64 bytes."""
GETATTR_IN = Struct("<IIQ")
"""getattr_flags, dummy, fh."""
SETATTR_IN = Struct("<IIQQQQQQIIIIIIII")
"""valid, padding, fh, size, lock_owner, atime, mtime, ctime, atimensec, mtimensec, ctimensec, mode, unused4, uid, gid,
unused5 (88 bytes)."""
OPEN_IN = Struct("<II")
"""flags, open_flags."""
CREATE_IN = Struct("<IIII")
"""flags, mode, umask, open_flags; then the name."""
MKNOD_IN = Struct("<IIII")
"""mode, rdev, umask, padding; then the name."""
MKDIR_IN = Struct("<II")
"""mode, umask; then the name."""
RENAME_IN = Struct("<Q")
"""newdir; then the old name, the new name."""
RENAME2_IN = Struct("<QII")
"""newdir, flags, padding; then the old name, the new name."""
LINK_IN = Struct("<Q")
"""oldnodeid; then the new name (the header's node is the new parent)."""
READ_IN = Struct("<QQIIQII")
"""fh, offset, size, read_flags, lock_owner, flags, padding (40 bytes)."""
WRITE_IN = Struct("<QQIIQII")
"""fh, offset, size, write_flags, lock_owner, flags, padding (40 bytes); then the data."""
RELEASE_IN = Struct("<QIIQ")
"""fh, flags, release_flags, lock_owner."""
FLUSH_IN = Struct("<QIIQ")
"""fh, unused, padding, lock_owner."""
FSYNC_IN = Struct("<QII")
"""fh, fsync_flags, padding."""
SETXATTR_IN = Struct("<II")
"""size, flags (8 bytes without SETXATTR_EXT); then the name, the value."""
GETXATTR_IN = Struct("<II")
"""size, padding; then the name (GETXATTR only)."""
GETXATTR_OUT = Struct("<II")
"""size, padding: the answer when the request's size was 0."""
LK_IN = Struct("<QQQQIIII")
"""fh, owner, start, end, type, pid, lk_flags, padding."""
LK_OUT = Struct("<QQII")
"""start, end, type, pid."""
ACCESS_IN = Struct("<II")
"""mask, padding."""
INTERRUPT_IN = Struct("<Q")
"""unique of the request that is interrupted."""
FALLOCATE_IN = Struct("<QQQII")
"""fh, offset, length, mode, padding."""
LSEEK_IN = Struct("<QQII")
"""fh, offset, whence, padding."""
LSEEK_OUT = Struct("<Q")
COPY_IN = Struct("<QQQQQQQ")
"""fh_in, off_in, nodeid_out, fh_out, off_out, len, flags."""
FORGET_IN = Struct("<Q")
"""nlookup."""
BATCH_FORGET_IN = Struct("<II")
"""count, dummy; then count pairs of nodeid, nlookup."""
FORGET_ONE = Struct("<QQ")
DIRENT = Struct("<QQII")
"""ino, off, namelen, type; then the name, padded to 8 bytes."""
STATFS_OUT = Struct("<QQQQQIIII24x")
"""blocks, bfree, bavail, files, ffree, bsize, namelen, frsize, padding, spare (80 bytes)."""

NOTIFY_INVAL_INODE = 2
INVAL_INODE_OUT = Struct("<Qqq")
"""ino, off, len."""

DEV_IOC_BACKING_OPEN = 0x4010E501
DEV_IOC_BACKING_CLOSE = 0x4004E502
BACKING_MAP = Struct("<iIQ")
"""fd, flags, padding."""
