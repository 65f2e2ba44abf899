"""System calls of Linux that Python's `os` does not offer, through ctypes. Each raises OSError as `os` does.

Only thin calls; what they are used for is said where they are used.
"""

from __future__ import annotations

import ctypes
import os
import platform
from struct import Struct

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.base import NOW

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
UTIME_NOW = (1 << 30) - 1
UTIME_OMIT = (1 << 30) - 2
AT_FDCWD = -100
O_TMPFILE = getattr(os, "O_TMPFILE", 0o20200000)

_libc = ctypes.CDLL(None, use_errno=True)
_TIMES = Struct("qqqq")
_DIRENT = Struct("QqHB")
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81}
_GETDENTS = {"x86_64": 217, "aarch64": 61, "riscv64": 61, "ppc64le": 202}
_machine = platform.machine()
_setgroups = _SETGROUPS.get(_machine)
_getdents = _GETDENTS.get(_machine)
_LISTING_BYTES = 1 << 18

_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.utimensat.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
_libc.futimens.argtypes = [ctypes.c_int, ctypes.c_char_p]
_libc.renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
_libc.syscall.restype = ctypes.c_long
_libc.setfsuid.argtypes = [ctypes.c_uint32]
_libc.setfsgid.argtypes = [ctypes.c_uint32]
_CAPABILITIES = Struct("IIIIII")
"""In effect, permitted, inheritable: the first 32, then the others."""
_CAPABILITIES_V3 = Struct("Ii").pack(0x20080522, 0)
POWERS = 1 << 21 | 1 << 24 | 1 << 31
"""CAP_SYS_ADMIN, CAP_SYS_RESOURCE, CAP_SETFCAP: setfsuid(2) leaves them to a thread of root."""


def _failed() -> OSError:
    return build_os_error(ctypes.get_errno())


def call_fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    """fallocate(2) with a mode (keep size, punch a hole, zero a range)."""
    if _libc.fallocate(descriptor, mode, offset, length) != 0:
        raise _failed()


def call_renameat2(old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int) -> None:
    """renameat2(2)."""
    if _libc.renameat2(old_folder, old, new_folder, new, flags) != 0:
        raise _failed()


def call_utimensat(descriptor: int, path: bytes | None, atime_ns: int | None, mtime_ns: int | None) -> None:
    """utimensat(2) of `path` (a link at its end is followed) or, without one, of the open file. None leaves a time as
    it is, `base.NOW` sets the present."""
    times = _TIMES.pack(*_time(atime_ns), *_time(mtime_ns))
    done = _libc.futimens(descriptor, times) if path is None else _libc.utimensat(AT_FDCWD, path, times, 0)
    if done != 0:
        raise _failed()


def _time(ns: int | None) -> tuple[int, int]:
    if ns is None:
        return 0, UTIME_OMIT
    if ns == NOW:
        return 0, UTIME_NOW
    return divmod(ns, 1_000_000_000)


def call_syncfs(descriptor: int) -> None:
    """syncfs(2)."""
    if _libc.syncfs(descriptor) != 0:
        raise _failed()


def call_setfsuid(uid: int) -> None:
    """setfsuid(2) of this thread; PermissionError if the kernel did not."""
    _libc.setfsuid(uid)
    if _libc.setfsuid(uid) != uid:
        raise PermissionError(1, "setfsuid")


def call_setfsgid(gid: int) -> None:
    """setfsgid(2) of this thread; PermissionError if the kernel did not."""
    _libc.setfsgid(gid)
    if _libc.setfsgid(gid) != gid:
        raise PermissionError(1, "setfsgid")


def call_capset(*, on: bool) -> None:
    """Takes POWERS out of what is in effect for this thread, or puts back those of them the process has."""
    buffer = ctypes.create_string_buffer(_CAPABILITIES.size)
    if _libc.capget(_CAPABILITIES_V3, buffer) != 0:
        raise _failed()
    effective, permitted, *others = _CAPABILITIES.unpack(buffer)
    effective = effective | permitted & POWERS if on else effective & ~POWERS
    if _libc.capset(_CAPABILITIES_V3, _CAPABILITIES.pack(effective, permitted, *others)) != 0:
        raise _failed()


def call_setgroups(groups: list[int]) -> None:
    """setgroups(2) of this thread only (the C library's sets those of all threads)."""
    if _setgroups is None:
        raise OSError(38, f"setgroups of one thread is not known on {_machine}")
    array = (ctypes.c_uint32 * len(groups))(*groups)
    if _libc.syscall(ctypes.c_long(_setgroups), ctypes.c_long(len(groups)), array) != 0:
        raise _failed()


def call_getdents(descriptor: int) -> list[tuple[bytes, int, int]]:
    """(name, inode, DT_* type) of all entries of an open directory, `.` and `..` too."""
    if _getdents is None:
        return _scanned(descriptor)
    buffer = ctypes.create_string_buffer(_LISTING_BYTES)
    view = memoryview(buffer).cast("B")
    unpack = _DIRENT.unpack_from
    found: list[tuple[bytes, int, int]] = []
    while True:
        size = _libc.syscall(ctypes.c_long(_getdents), ctypes.c_long(descriptor), buffer, ctypes.c_long(_LISTING_BYTES))
        if size < 0:
            raise _failed()
        if size == 0:
            return found
        raw = bytes(view[:size])
        at = 0
        while at < size:
            inode, _, length, kind = unpack(raw, at)
            found.append((raw[at + 19 : raw.index(0, at + 19)], inode, kind))
            at += length


def _scanned(descriptor: int) -> list[tuple[bytes, int, int]]:
    here = os.fstat(descriptor).st_ino
    found = [(b".", here, 4), (b"..", os.stat("..", dir_fd=descriptor).st_ino, 4)]
    with os.scandir(descriptor) as entries:
        for entry in entries:
            kind = 10 if entry.is_symlink() else 4 if entry.is_dir(follow_symlinks=False) else 0
            found.append((os.fsencode(entry.name), entry.inode(), kind))
    return found
