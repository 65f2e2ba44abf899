"""INIT, the first exchange with the kernel: which features of FUSE both sides use. Not here: opening the device.

kernel: INIT 8.x --> mount: 7.41 --> kernel: INIT 7.41 --> mount: flags in use --> requests
kernel: INIT 7.31 or newer -----------------------------------^
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from fairlead.core.errors import MountError
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Init

WANTED = (
    Init.ASYNC_READ
    | Init.POSIX_LOCKS
    | Init.FLOCK_LOCKS
    | Init.ATOMIC_O_TRUNC
    | Init.EXPORT_SUPPORT
    | Init.BIG_WRITES
    | Init.DONT_MASK
    | Init.DO_READDIRPLUS
    | Init.READDIRPLUS_AUTO
    | Init.ASYNC_DIO
    | Init.PARALLEL_DIROPS
    | Init.MAX_PAGES
    | Init.HANDLE_KILLPRIV_V2
    | Init.INIT_EXT
    | Init.DIRECT_IO_ALLOW_MMAP
)
"""Asked of the kernel by every mount; what it does not offer stays off."""
CACHED = Init.AUTO_INVAL_DATA
"""Asked on top where the page cache is used."""
OLDEST_MINOR = 31
"""Linux 5.4: a mount needs no feature that is younger."""
_BACKGROUND = 64
_CONGESTED = 48


class Session(NamedTuple):
    """What was agreed: flags in use, the kernel's minor version, most bytes in one READ or WRITE."""

    flags: Init
    minor: int
    max_write: int

    @property
    def passthrough(self) -> bool:
        """Whether the kernel takes files over."""
        return bool(self.flags & Init.PASSTHROUGH)


def negotiate_fuse_init(body: memoryview, *, extra: int = 0) -> tuple[bytes, Session | None]:
    """The body of the reply to INIT and what was agreed; None if the kernel has to send INIT again in our version.

    `extra`: flags wanted on top of `WANTED` (`CACHED`, `Init.PASSTHROUGH`). Raises `MountError` for a kernel that is
    too old.
    """
    if len(body) < 16:
        raise MountError("the kernel's first message is cut off", where="/dev/fuse", remedy="mount again")
    major, minor, read_ahead, low = abi.INIT_IN.unpack_from(bytes(body[:20]).ljust(20, b"\0"))[:4]
    if major > abi.MAJOR:
        return abi.INIT_OUT.pack(abi.MAJOR, abi.MINOR, *[0] * 11).ljust(64, b"\0"), None
    if major < abi.MAJOR or minor < OLDEST_MINOR:
        raise MountError(
            f"the kernel speaks FUSE {major}.{minor}, too old", where="/dev/fuse", remedy="Linux 5.4 or newer"
        )
    high = abi.INIT_IN.unpack_from(body)[4] if low & Init.INIT_EXT and len(body) >= 20 else 0
    flags = Init((low | high << 32) & (WANTED | extra))
    pages = abi.MAX_PAGES if flags & Init.MAX_PAGES else 32
    stack = 1 if flags & Init.PASSTHROUGH else 0
    reply = abi.INIT_OUT.pack(
        abi.MAJOR,
        abi.MINOR,
        max(read_ahead, abi.MAX_WRITE),
        flags & 0xFFFFFFFF,
        _BACKGROUND,
        _CONGESTED,
        pages * abi.PAGE,
        1,
        pages,
        0,
        flags >> 32,
        stack,
        0,
    )
    return reply.ljust(64, b"\0"), Session(flags, minor, pages * abi.PAGE)


def answer_fuse_init(fd: int, *, extra: int = 0) -> Session:
    """Answers the kernel's INIT on a freshly opened device (blocking) and returns what was agreed."""
    while True:
        message = _next(fd)
        _, opcode, unique = abi.IN_HEADER.unpack_from(message)[:3]
        if opcode != abi.Op.INIT:
            raise MountError(f"the kernel began with request {opcode}", where="/dev/fuse", remedy="mount again")
        reply, session = negotiate_fuse_init(message[abi.IN_HEADER.size :], extra=extra)
        os.write(fd, abi.OUT_HEADER.pack(abi.OUT_HEADER.size + len(reply), 0, unique) + reply)
        if session is not None:
            return session


def _next(fd: int) -> memoryview:
    while True:
        try:
            return memoryview(os.read(fd, abi.MESSAGE_BYTES))
        except OSError as error:
            if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                continue
            raise MountError(
                f"the mount went before it began: {error.strerror}", where="/dev/fuse", remedy="mount again"
            ) from error
