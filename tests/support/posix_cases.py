"""A table of what POSIX and Linux say about files: each case is carried out in an empty folder of its own.

`python posix_cases.py FOLDER` prints the outcomes as JSON: run on a mount and on the file system below, they are
compared (`test_posix_table.py`), and the page `docs/reference/forwarding-posix.md` lists them.
"""

# ruff: noqa: E501, PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH115, PTH116, PTH121, PTH208, PTH211, S606

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import shutil
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fairlead.steer.fs.trees import system_calls

CASES: list[Case] = []
NOBODY = 65534
OTHER = 65533
R, W, RW, C, X, T, A = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND


class Case(NamedTuple):
    """What is done, and what must come of it: an errno's name or the value; None: whatever the file system says."""

    group: str
    name: str
    expected: object
    act: Callable[[Ground], object]
    needs_root: bool


class Ground:
    """A folder for one case, and short names for what cases do. Descriptors are closed after the case."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.opened: list[int] = []
        self.buffers: dict[str, bytes] = {}

    def __call__(self, name: str) -> str:
        return f"{self.path}/{name}"

    def put(self, name: str, data: bytes = b"", mode: int = 0o644) -> str:
        path = self(name)
        fd = os.open(path, W | C | T, mode)
        os.write(fd, data)
        os.close(fd)
        return path

    def get(self, name: str) -> bytes:
        return Path(self(name)).read_bytes()

    def fd(self, name: str, flags: int = RW, mode: int = 0o644) -> int:
        self.opened.append(os.open(self(name), flags, mode))
        return self.opened[-1]

    def mkdir(self, name: str, mode: int = 0o755) -> str:
        os.mkdir(self(name), mode)
        return self(name)

    def mode(self, name: str) -> str:
        return oct(stat.S_IMODE(os.lstat(self(name)).st_mode))

    def kind(self, name: str) -> str:
        return stat.filemode(os.lstat(self(name)).st_mode)[0]

    def owner(self, name: str) -> list[int]:
        found = os.lstat(self(name))
        return [found.st_uid, found.st_gid]

    def size(self, name: str) -> int:
        return os.lstat(self(name)).st_size

    def links(self, name: str) -> int:
        return os.lstat(self(name)).st_nlink

    def ls(self, name: str = ".") -> list[str]:
        return sorted(os.listdir(self(name)))

    def chmod(self, name: str, mode: int) -> None:
        os.chmod(self(name), mode)

    def symlink(self, target: str, name: str) -> None:
        os.symlink(target, self(name))

    def link(self, old: str, new: str) -> None:
        os.link(self(old), self(new), follow_symlinks=False)

    def move(self, old: str, new: str) -> None:
        os.rename(self(old), self(new))

    def move2(self, old: str, new: str, flags: int) -> None:
        system_calls.call_renameat2(-100, os.fsencode(self(old)), -100, os.fsencode(self(new)), flags)

    def rm(self, name: str) -> None:
        os.unlink(self(name))

    def rmdir(self, name: str) -> None:
        os.rmdir(self(name))

    def user(self, act: Callable[[], object], uid: int = NOBODY, groups: tuple[int, ...] = ()) -> object:
        """As another user, who may enter the folder."""
        os.setgroups([uid, *groups])
        os.setegid(uid)
        os.seteuid(uid)
        try:
            return act()
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups([])

    def give(self, name: str, uid: int = NOBODY, gid: int = NOBODY) -> None:
        os.chown(self(name), uid, gid, follow_symlinks=False)

    def changed(self, name: str, act: Callable[[], object], what: str = "st_ctime_ns") -> bool:
        """Whether a time of a file is another one after `act`."""
        before = getattr(os.lstat(self(name)), what)
        os.utime(self(name), ns=(5, 5)) if what != "st_ctime_ns" else None
        wait_for_clock()
        act()
        return bool(getattr(os.lstat(self(name)), what) not in (before, 5))

    def pread(self, fd: int, size: int, offset: int = 0) -> bytes:
        return os.pread(fd, size, offset)


def wait_for_clock() -> None:
    """Until file times, which move by the kernel's tick, have moved."""
    time.sleep(0.012)


def last(*values: object) -> object:
    """The last value: what the case comes to."""
    return values[-1]


def named(error: OSError) -> str:
    """Name of an error number; of two names for one number the one in the manual pages."""
    name = errno.errorcode[error.errno or 0]
    return "EOPNOTSUPP" if name == "ENOTSUP" else name


def fails(act: Callable[[], object]) -> str:
    """Name of the error of a call within a case."""
    try:
        act()
    except OSError as error:
        return named(error)
    return "done"


def case(group: str, name: str, expected: object, act: Callable[[Ground], object], *, root: bool = False) -> None:
    """Enters a case."""
    CASES.append(Case(group, name, expected, act, root))


def lock(fd: int, kind: int, start: int = 0, length: int = 0, command: int = fcntl.F_SETLK) -> bytes:
    """A POSIX lock of this process."""
    return fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def in_child(act: Callable[[], object]) -> str:
    """What a call comes to in another process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, fails(act).encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    return said


def mapped(fd: int, size: int, write: bytes = b"", *, shared: bool = True) -> bytes:
    """Maps a file, writes at its start, gives back what is seen."""
    flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    with mmap.mmap(fd, size, flags, mmap.PROT_READ | mmap.PROT_WRITE) as memory:
        memory[: len(write)] = write
        if shared:
            memory.flush()
        return bytes(memory)


def entries_while_removing(d: Ground) -> list[str]:
    """Names seen by a listing whose names are removed as they are seen."""
    for number in range(300):
        d.put(f"file-{number:03}")
    seen = []
    with os.scandir(d("")) as found:
        for entry in found:
            seen.append(entry.name)
            os.unlink(entry.path)
    return [str(len(set(seen))), *d.ls()]


def _open_cases() -> None:
    g = "open and create"
    case(g, "open a name that is not there", "ENOENT", lambda d: d.fd("a"))
    case(g, "create, then its type", "-", lambda d: last(d.put("a"), d.kind("a")))
    case(g, "create with O_EXCL over a file", "EEXIST", lambda d: last(d.put("a"), d.fd("a", RW | C | X)))
    case(
        g,
        "create with O_EXCL over a dangling link",
        "EEXIST",
        lambda d: last(d.symlink("x", "a"), d.fd("a", RW | C | X)),
    )
    case(
        g,
        "create through a dangling link makes its target",
        ["a", "x"],
        lambda d: last(d.symlink("x", "a"), d.fd("a", RW | C), d.ls()),
    )
    case(
        g,
        "create without O_EXCL keeps what is there",
        b"data",
        lambda d: last(d.put("a", b"data"), d.fd("a", RW | C), d.get("a")),
    )
    case(g, "open with O_TRUNC", 0, lambda d: last(d.put("a", b"data"), d.fd("a", W | T), d.size("a")))
    case(g, "open for reading with O_TRUNC", 0, lambda d: last(d.put("a", b"data"), d.fd("a", R | T), d.size("a")))
    case(g, "open a folder for writing", "EISDIR", lambda d: last(d.mkdir("d"), d.fd("d", RW)))
    case(g, "create over a folder", "EISDIR", lambda d: last(d.mkdir("d"), d.fd("d", RW | C)))
    case(g, "open a file with O_DIRECTORY", "ENOTDIR", lambda d: last(d.put("a"), d.fd("a", R | os.O_DIRECTORY)))
    case(g, "open a link with O_NOFOLLOW", "ELOOP", lambda d: last(d.symlink("x", "a"), d.fd("a", R | os.O_NOFOLLOW)))
    case(g, "open below a file", "ENOTDIR", lambda d: last(d.put("a"), d.fd("a/b")))
    case(g, "create in a folder that is not there", "ENOENT", lambda d: d.fd("d/a", RW | C))
    case(g, "a name of 255 bytes", 255, lambda d: last(d.put("n" * 255), len(d.ls()[0])))
    case(g, "a name of 256 bytes", "ENAMETOOLONG", lambda d: d.put("n" * 256))
    case(g, "a path of more than PATH_MAX bytes", "ENAMETOOLONG", lambda d: d.put("d/" * 2100 + "a"))
    case(
        g,
        "names that are no UTF-8",
        True,
        lambda d: last(d.put(os.fsdecode(b"\xff\xfe")), os.fsdecode(b"\xff\xfe") in d.ls()),
    )
    case(g, "names differ by case", ["A", "a"], lambda d: last(d.put("a"), d.put("A"), d.ls()))
    case(
        g,
        "umask takes bits off",
        "0o640",
        lambda d: last(os.umask(0o027), d.put("a", mode=0o666), os.umask(0o022), d.mode("a")),
    )
    case(g, "a file created without permissions stays open", 3, lambda d: os.write(d.fd("a", W | C, 0), b"abc"))
    case(g, "O_TMPFILE has no name", [], lambda d: last(os.write(d.fd(".", RW | os.O_TMPFILE), b"x"), d.ls()))
    case(g, "O_TMPFILE has no links", 0, lambda d: os.fstat(d.fd(".", RW | os.O_TMPFILE)).st_nlink)
    case(g, "O_TMPFILE gets a name", b"data", _temporary_named)
    case(g, "O_TMPFILE with O_EXCL gets none", "ENOENT", _temporary_exclusive)
    case(g, "O_PATH, then fstat", 4, lambda d: last(d.put("a", b"data"), os.fstat(d.fd("a", os.O_PATH)).st_size))
    case(
        g,
        "reopen through /proc/self/fd",
        b"data",
        lambda d: last(d.put("a", b"data"), d.pread(_again(d, d.fd("a")), 9)),
    )
    case(g, "O_NOATIME", b"data", lambda d: last(d.put("a", b"data"), d.pread(d.fd("a", R | os.O_NOATIME), 9)))
    case(g, "O_SYNC writes", 4, lambda d: os.write(d.fd("a", W | C | os.O_SYNC), b"data"))
    case(
        g,
        "O_CLOEXEC and dup share an offset",
        b"ta",
        lambda d: last(d.put("a", b"data"), os.read(d.fd("a"), 2), os.read(os.dup(d.opened[-1]), 9)),
    )


def _temporary_named(d: Ground) -> bytes:
    fd = d.fd(".", RW | os.O_TMPFILE)
    os.write(fd, b"data")
    os.link(f"/proc/self/fd/{fd}", d("a"), src_dir_fd=os.open(d("."), R), follow_symlinks=True)
    return d.get("a")


def _temporary_exclusive(d: Ground) -> object:
    fd = d.fd(".", RW | os.O_TMPFILE | X)
    return os.link(f"/proc/self/fd/{fd}", d("a"), src_dir_fd=os.open(d("."), R), follow_symlinks=True)


def _again(d: Ground, fd: int) -> int:
    d.opened.append(os.open(f"/proc/self/fd/{fd}", R))
    return d.opened[-1]


def _data_cases() -> None:
    g = "read and write"
    case(g, "write, then read", b"data", lambda d: last(d.put("a", b"data"), d.get("a")))
    case(g, "read at the end", b"", lambda d: last(d.put("a", b"data"), d.pread(d.fd("a"), 9, 4)))
    case(g, "read beyond the end", b"", lambda d: last(d.put("a", b"data"), d.pread(d.fd("a"), 9, 1 << 40)))
    case(g, "read a part", b"at", lambda d: last(d.put("a", b"data"), d.pread(d.fd("a"), 2, 1)))
    case(
        g,
        "write beyond the end leaves zeros",
        b"\0\0\0x",
        lambda d: last(os.pwrite(d.fd("a", RW | C), b"x", 3), d.get("a")),
    )
    case(g, "write at 1 TiB", (1 << 40) + 1, lambda d: last(os.pwrite(d.fd("a", RW | C), b"x", 1 << 40), d.size("a")))
    case(g, "write at the largest offset", "EINVAL", lambda d: os.pwrite(d.fd("a", RW | C), b"xy", (1 << 63) - 1))
    case(g, "read of a descriptor for writing", "EBADF", lambda d: d.pread(d.fd("a", W | C), 1))
    case(g, "write of a descriptor for reading", "EBADF", lambda d: last(d.put("a"), os.write(d.fd("a", R), b"x")))
    case(g, "read of a folder", "EISDIR", lambda d: os.read(d.fd(".", R), 1))
    case(g, "no bytes written to a file", 0, lambda d: last(os.write(d.fd("a", W | C), b""), d.size("a")))
    case(
        g,
        "O_APPEND writes at the end",
        b"onetwo",
        lambda d: last(d.put("a", b"one"), os.write(d.fd("a", W | A), b"two"), d.get("a")),
    )
    case(
        g,
        "O_APPEND after a seek",
        b"onetwo",
        lambda d: last(
            d.put("a", b"one"), os.lseek(d.fd("a", W | A), 0, 0), os.write(d.opened[-1], b"two"), d.get("a")
        ),
    )
    case(
        g,
        "two appending descriptors",
        b"123",
        lambda d: last(
            os.write(d.fd("a", W | C | A), b"1"),
            os.write(d.fd("a", W | A), b"2"),
            os.write(d.opened[0], b"3"),
            d.get("a"),
        ),
    )
    case(
        g,
        "3 MiB in one write",
        True,
        lambda d: last(os.write(d.fd("a", W | C), b"abc" * (1 << 20)), d.get("a") == b"abc" * (1 << 20)),
    )
    case(g, "writev and readv", [b"ab", b"cd"], _vectors)
    case(
        g,
        "one descriptor sees what another wrote",
        b"new",
        lambda d: last(d.fd("a", RW | C), os.pwrite(d.fd("a"), b"new", 0), d.pread(d.opened[0], 9)),
    )
    case(g, "SEEK_END", 4, lambda d: last(d.put("a", b"data"), os.lseek(d.fd("a"), 0, os.SEEK_END)))
    case(g, "seek before the start", "EINVAL", lambda d: os.lseek(d.fd("a", RW | C), -1, 0))
    case(
        g, "SEEK_HOLE at the end of data", 4, lambda d: last(d.put("a", b"data"), os.lseek(d.fd("a"), 0, os.SEEK_HOLE))
    )
    case(g, "SEEK_DATA at the end", "ENXIO", lambda d: last(d.put("a", b"data"), os.lseek(d.fd("a"), 4, os.SEEK_DATA)))
    case(
        g,
        "SEEK_DATA over a hole",
        1 << 20,
        lambda d: last(os.pwrite(d.fd("a", RW | C), b"x" * 4096, 1 << 20), os.lseek(d.opened[-1], 0, os.SEEK_DATA)),
    )
    case(
        g,
        "fsync and fdatasync",
        None,
        lambda d: last(os.write(d.fd("a", RW | C), b"x"), os.fdatasync(d.opened[-1]), os.fsync(d.opened[-1])),
    )
    case(g, "fsync of a folder", None, lambda d: os.fsync(d.fd(".", R)))
    case(
        g,
        "copy_file_range",
        b"\0ata",
        lambda d: last(d.put("a", b"data"), os.copy_file_range(d.fd("a"), d.fd("b", RW | C), 3, 1, 1), d.get("b")),
    )
    case(
        g,
        "sendfile into a file",
        b"data",
        lambda d: last(d.put("a", b"data"), os.sendfile(d.fd("b", RW | C), d.fd("a", R), 0, 4), d.get("b")),
    )
    case(g, "posix_fallocate", 10_000, lambda d: last(os.posix_fallocate(d.fd("a", RW | C), 0, 10_000), d.size("a")))
    case(
        g, "fallocate beyond the size, kept", 0, lambda d: last(_allocate(d.fd("a", RW | C), 1, 0, 10_000), d.size("a"))
    )
    case(
        g,
        "a hole punched into data",
        True,
        lambda d: last(
            d.put("a", b"x" * 12288),
            _allocate(d.fd("a"), 3, 4096, 4096),
            d.get("a") == b"x" * 4096 + bytes(4096) + b"x" * 4096,
        ),
    )
    case(g, "O_DIRECT, aligned", True, _direct)

    g = "truncate"
    case(g, "shorter", b"da", lambda d: last(d.put("a", b"data"), os.truncate(d("a"), 2), d.get("a")))
    case(g, "longer, with zeros", b"data\0\0", lambda d: last(d.put("a", b"data"), os.truncate(d("a"), 6), d.get("a")))
    case(
        g,
        "shorter, then longer: zeros",
        b"d\0\0\0",
        lambda d: last(d.put("a", b"data"), os.truncate(d("a"), 1), os.truncate(d("a"), 4), d.get("a")),
    )
    case(g, "through a descriptor", b"da", lambda d: last(d.put("a", b"data"), os.ftruncate(d.fd("a"), 2), d.get("a")))
    case(g, "through a descriptor for reading", "EINVAL", lambda d: last(d.put("a"), os.ftruncate(d.fd("a", R), 2)))
    case(g, "a folder", "EISDIR", lambda d: last(d.mkdir("d"), os.truncate(d("d"), 0)))
    case(g, "what is not there", "ENOENT", lambda d: os.truncate(d("a"), 0))
    case(g, "to less than nothing", "EINVAL", lambda d: last(d.put("a"), os.truncate(d("a"), -1)))
    case(
        g,
        "changes the time of the data",
        True,
        lambda d: last(d.put("a", b"x"), d.changed("a", lambda: os.truncate(d("a"), 0), "st_mtime_ns")),
    )

    g = "memory maps"
    case(g, "read through a map", b"data", lambda d: last(d.put("a", b"data"), mapped(d.fd("a"), 4)))
    case(
        g,
        "write through a shared map",
        b"new!data",
        lambda d: last(d.put("a", b"old!data"), mapped(d.fd("a"), 8, b"new!"), d.get("a")),
    )
    case(
        g,
        "write through a private map",
        b"old",
        lambda d: last(d.put("a", b"old"), mapped(d.fd("a"), 3, b"new", shared=False), d.get("a")),
    )
    case(
        g,
        "a shared map of a descriptor for reading",
        "EACCES",
        lambda d: last(d.put("a", b"x"), mapped(d.fd("a", R), 1)),
    )
    case(g, "a map outlives its descriptor", b"data", _map_after_close)


def _vectors(d: Ground) -> list[bytes]:
    fd = d.fd("a", RW | C)
    os.writev(fd, [b"ab", b"cd"])
    one, two = bytearray(2), bytearray(2)
    os.preadv(fd, [one, two], 0)
    return [bytes(one), bytes(two)]


def _allocate(fd: int, mode: int, offset: int, length: int) -> None:
    system_calls.call_fallocate(fd, mode, offset, length)


def _direct(d: Ground) -> bool:
    """O_DIRECT where the file system below has it; a mount has it always."""
    with mmap.mmap(-1, 8192) as memory:
        memory[:] = b"0123456789abcdef" * 512
        try:
            fd = d.fd("a", RW | C | os.O_DIRECT)
        except OSError as error:
            return error.errno == errno.EINVAL
        os.writev(fd, [memory])
        return d.get("a") == bytes(memory)


def _map_after_close(d: Ground) -> bytes:
    fd = os.open(d.put("a", b"data"), RW)
    with mmap.mmap(fd, 4) as memory:
        os.close(fd)
        return bytes(memory)


def _name_cases() -> None:
    g = "unlink and link"
    case(g, "unlink", [], lambda d: last(d.put("a"), d.rm("a"), d.ls()))
    case(g, "unlink what is not there", "ENOENT", lambda d: d.rm("a"))
    case(g, "unlink a folder", "EISDIR", lambda d: last(d.mkdir("d"), d.rm("d")))
    case(g, "unlink below a file", "ENOTDIR", lambda d: last(d.put("a"), d.rm("a/b")))
    case(
        g, "unlink a link leaves its target", ["a"], lambda d: last(d.put("a"), d.symlink("a", "l"), d.rm("l"), d.ls())
    )
    case(
        g,
        "an open file outlives its name",
        b"data",
        lambda d: last(d.put("a", b"data"), d.fd("a"), d.rm("a"), d.pread(d.opened[-1], 9)),
    )
    case(
        g,
        "an open file without a name has no links",
        0,
        lambda d: last(d.put("a"), d.fd("a"), d.rm("a"), os.fstat(d.opened[-1]).st_nlink),
    )
    case(
        g,
        "an open file without a name is written",
        8,
        lambda d: last(
            d.put("a", b"data"),
            d.fd("a", W | A),
            d.rm("a"),
            os.write(d.opened[-1], b"more"),
            os.fstat(d.opened[-1]).st_size,
        ),
    )
    case(
        g,
        "an open file without a name is truncated",
        1,
        lambda d: last(
            d.put("a", b"data"), d.fd("a"), d.rm("a"), os.ftruncate(d.opened[-1], 1), os.fstat(d.opened[-1]).st_size
        ),
    )
    case(
        g,
        "an open file without a name changes its mode",
        "0o600",
        lambda d: last(
            d.put("a"),
            d.fd("a"),
            d.rm("a"),
            os.fchmod(d.opened[-1], 0o600),
            oct(os.fstat(d.opened[-1]).st_mode & 0o7777),
        ),
    )
    case(
        g,
        "a removed name is free at once",
        b"new",
        lambda d: last(d.put("a", b"old"), d.fd("a"), d.rm("a"), d.put("a", b"new"), d.get("a")),
    )
    case(
        g,
        "a folder with removed open files can go",
        [],
        lambda d: last(d.mkdir("d"), d.put("d/a"), d.fd("d/a"), d.rm("d/a"), d.rmdir("d"), d.ls()),
    )
    case(g, "link", 2, lambda d: last(d.put("a"), d.link("a", "b"), d.links("a")))
    case(
        g,
        "a link is the same file",
        True,
        lambda d: last(d.put("a"), d.link("a", "b"), os.path.samefile(d("a"), d("b"))),
    )
    case(
        g,
        "a write shows under every name",
        b"new",
        lambda d: last(d.put("a"), d.link("a", "b"), d.put("a", b"new"), d.get("b")),
    )
    case(g, "unlink one of two names", 1, lambda d: last(d.put("a"), d.link("a", "b"), d.rm("a"), d.links("b")))
    case(g, "link over a name", "EEXIST", lambda d: last(d.put("a"), d.put("b"), d.link("a", "b")))
    case(g, "link what is not there", "ENOENT", lambda d: d.link("a", "b"))
    case(g, "link a folder", "EPERM", lambda d: last(d.mkdir("d"), d.link("d", "e")))
    case(g, "link a symbolic link itself", "l", lambda d: last(d.symlink("x", "a"), d.link("a", "b"), d.kind("b")))
    case(
        g,
        "link changes the time of the file",
        True,
        lambda d: last(d.put("a"), d.changed("a", lambda: d.link("a", "b"))),
    )

    g = "folders"
    case(g, "mkdir", "0o755", lambda d: last(d.mkdir("d"), d.mode("d")))
    case(g, "mkdir over a name", "EEXIST", lambda d: last(d.put("d"), d.mkdir("d")))
    case(g, "mkdir below nothing", "ENOENT", lambda d: d.mkdir("d/e"))
    case(g, "mkdir below a file", "ENOTDIR", lambda d: last(d.put("a"), d.mkdir("a/d")))
    case(g, "a sticky folder", "0o1777", lambda d: last(d.mkdir("d"), d.chmod("d", 0o1777), d.mode("d")))
    case(g, "rmdir", [], lambda d: last(d.mkdir("d"), d.rmdir("d"), d.ls()))
    case(g, "rmdir of a full folder", "ENOTEMPTY", lambda d: last(d.mkdir("d"), d.put("d/a"), d.rmdir("d")))
    case(g, "rmdir of a file", "ENOTDIR", lambda d: last(d.put("a"), d.rmdir("a")))
    case(g, "rmdir of .", "EINVAL", lambda d: last(d.mkdir("d"), d.rmdir("d/.")))
    case(g, "rmdir of ..", "ENOTEMPTY", lambda d: last(d.mkdir("d"), d.rmdir("d/..")))
    case(
        g,
        "create in a folder that was removed",
        "ENOENT",
        lambda d: last(d.mkdir("d"), d.fd("d", R), d.rmdir("d"), os.open("a", RW | C, 0o644, dir_fd=d.opened[-1])),
    )
    case(g, "a listing", ["a", "d", "l"], lambda d: last(d.put("a"), d.mkdir("d"), d.symlink("x", "l"), d.ls()))
    case(g, "types in a listing", ["a-", "dd", "ll"], _listed_kinds)
    case(g, "inode numbers of a listing are those of the files", True, _listed_inodes)
    case(g, "2000 names", 2000, lambda d: last([d.put(f"file-{number}") for number in range(2000)], len(d.ls())))
    case(g, "a listing while its names are removed", ["300"], entries_while_removing)
    case(g, "a listing started again shows what is new", ["a", "b"], _rewound)
    case(g, "listing of a file", "ENOTDIR", lambda d: last(d.put("a"), d.ls("a")))
    case(
        g,
        "a file in a folder 60 levels deep",
        b"x",
        lambda d: last(os.makedirs(d("d/" * 60)), d.put("d/" * 60 + "a", b"x"), d.get("d/" * 60 + "a")),
    )
    case(g, ".. leads back", ["d"], lambda d: last(d.mkdir("d"), d.ls("d/..")))
    case(g, "a folder counts its folders as links", None, lambda d: last(d.mkdir("d"), d.mkdir("d/e"), d.links("d")))
    case(
        g,
        "a new name changes the time of the folder",
        True,
        lambda d: last(d.mkdir("d"), d.changed("d", lambda: d.put("d/a"), "st_mtime_ns")),
    )
    case(
        g,
        "a removed name changes the time of the folder",
        True,
        lambda d: last(d.mkdir("d"), d.put("d/a"), d.changed("d", lambda: d.rm("d/a"), "st_mtime_ns")),
    )

    g = "rename"
    case(g, "a file", ["b"], lambda d: last(d.put("a"), d.move("a", "b"), d.ls()))
    case(g, "over a file", b"new", lambda d: last(d.put("a", b"new"), d.put("b", b"old"), d.move("a", "b"), d.get("b")))
    case(
        g,
        "over an open file, which stays",
        b"old",
        lambda d: last(d.put("a", b"new"), d.put("b", b"old"), d.fd("b"), d.move("a", "b"), d.pread(d.opened[-1], 9)),
    )
    case(g, "what is not there", "ENOENT", lambda d: d.move("a", "b"))
    case(
        g,
        "a folder with files",
        [["a"], ["e"]],
        lambda d: last(d.mkdir("d"), d.put("d/a"), d.move("d", "e"), [d.ls("e"), d.ls()]),
    )
    case(
        g,
        "a folder while a file in it is open",
        b"data",
        lambda d: last(d.mkdir("d"), d.put("d/a", b"data"), d.fd("d/a"), d.move("d", "e"), d.pread(d.opened[-1], 9)),
    )
    case(
        g,
        "a folder over an empty one",
        ["a"],
        lambda d: last(d.mkdir("d"), d.put("d/a"), d.mkdir("e"), d.move("d", "e"), d.ls("e")),
    )
    case(
        g,
        "a folder over a full one",
        "ENOTEMPTY",
        lambda d: last(d.mkdir("d"), d.mkdir("e"), d.put("e/a"), d.move("d", "e")),
    )
    case(g, "a file over a folder", "EISDIR", lambda d: last(d.put("a"), d.mkdir("d"), d.move("a", "d")))
    case(g, "a folder over a file", "ENOTDIR", lambda d: last(d.mkdir("d"), d.put("a"), d.move("d", "a")))
    case(g, "a folder into itself", "EINVAL", lambda d: last(d.mkdir("d"), d.move("d", "d/e")))
    case(
        g,
        "a folder over the one it is in",
        "ENOTEMPTY",
        lambda d: last(d.mkdir("d"), d.mkdir("d/e"), d.move("d/e", "d")),
    )
    case(
        g,
        "into another folder",
        [["b"], ["d"]],
        lambda d: last(d.mkdir("d"), d.put("a"), d.move("a", "d/b"), [d.ls("d"), d.ls()]),
    )
    case(
        g,
        "onto another name of the same file",
        ["a", "b"],
        lambda d: last(d.put("a"), d.link("a", "b"), d.move("a", "b"), d.ls()),
    )
    case(g, "onto itself", ["a"], lambda d: last(d.put("a"), d.move("a", "a"), d.ls()))
    case(g, "to a name of 256 bytes", "ENAMETOOLONG", lambda d: last(d.put("a"), d.move("a", "n" * 256)))
    case(g, "of .", "EBUSY", lambda d: last(d.mkdir("d"), d.move("d/.", "e")))
    case(g, "RENAME_NOREPLACE", "EEXIST", lambda d: last(d.put("a"), d.put("b"), d.move2("a", "b", 1)))
    case(g, "RENAME_NOREPLACE to a free name", ["b"], lambda d: last(d.put("a"), d.move2("a", "b", 1), d.ls()))
    case(
        g,
        "RENAME_EXCHANGE",
        [b"2", b"1"],
        lambda d: last(d.put("a", b"1"), d.put("b", b"2"), d.move2("a", "b", 2), [d.get("a"), d.get("b")]),
    )
    case(
        g,
        "RENAME_EXCHANGE of a file and a folder",
        ["d", "-"],
        lambda d: last(d.put("a"), d.mkdir("d"), d.move2("a", "d", 2), [d.kind("a"), d.kind("d")]),
    )
    case(g, "RENAME_EXCHANGE with nothing", "ENOENT", lambda d: last(d.put("a"), d.move2("a", "b", 2)))
    case(
        g,
        "keeps the inode",
        True,
        lambda d: last(
            d.put("a"), d.fd("a"), d.move("a", "b"), os.stat(d("b")).st_ino == os.fstat(d.opened[-1]).st_ino
        ),
    )

    g = "symbolic links"
    case(g, "its target", "some/where", lambda d: last(d.symlink("some/where", "l"), os.readlink(d("l"))))
    case(g, "its size is that of the target's name", 10, lambda d: last(d.symlink("some/where", "l"), d.size("l")))
    case(g, "is followed", b"data", lambda d: last(d.put("a", b"data"), d.symlink("a", "l"), d.get("l")))
    case(
        g,
        "a folder is entered through it",
        ["a"],
        lambda d: last(d.mkdir("d"), d.put("d/a"), d.symlink("d", "l"), d.ls("l")),
    )
    case(g, "over a name", "EEXIST", lambda d: last(d.put("a"), d.symlink("x", "a")))
    case(g, "a circle", "ELOOP", lambda d: last(d.symlink("b", "a"), d.symlink("a", "b"), d.get("a")))
    case(g, "readlink of a file", "EINVAL", lambda d: last(d.put("a"), os.readlink(d("a"))))
    case(g, "an absolute target", "/", lambda d: last(d.symlink("/", "l"), os.path.realpath(d("l"))))
    case(g, "a target of 4095 bytes", 4095, lambda d: last(d.symlink("t" * 4095, "l"), len(os.readlink(d("l")))))
    case(g, "an empty target", "ENOENT", lambda d: d.symlink("", "l"))


def _listed_kinds(d: Ground) -> list[str]:
    d.put("a")
    d.mkdir("d")
    d.symlink("x", "l")
    with os.scandir(d("")) as found:
        return sorted(
            e.name + ("l" if e.is_symlink() else "d" if e.is_dir(follow_symlinks=False) else "-") for e in found
        )


def _listed_inodes(d: Ground) -> bool:
    d.put("a")
    d.mkdir("d")
    with os.scandir(d("")) as found:
        return all(entry.inode() == os.lstat(entry.path).st_ino for entry in found)


def _rewound(d: Ground) -> list[str]:
    fd = d.fd(".", R)
    d.put("a")
    os.listdir(fd)
    d.put("b")
    return sorted(os.listdir(fd))


def _attribute_cases() -> None:
    g = "modes and owners"
    case(g, "chmod", "0o640", lambda d: last(d.put("a"), d.chmod("a", 0o640), d.mode("a")))
    case(
        g, "chmod with set-id and sticky bits", "0o7755", lambda d: last(d.put("a"), d.chmod("a", 0o7755), d.mode("a"))
    )
    case(g, "chmod of what is not there", "ENOENT", lambda d: d.chmod("a", 0o600))
    case(
        g,
        "chmod of a link changes its target",
        "0o600",
        lambda d: last(d.put("a"), d.symlink("a", "l"), d.chmod("l", 0o600), d.mode("a")),
    )
    case(g, "fchmod", "0o600", lambda d: last(d.put("a"), os.fchmod(d.fd("a"), 0o600), d.mode("a")))
    case(
        g,
        "chmod changes the time of the file",
        True,
        lambda d: last(d.put("a"), d.changed("a", lambda: d.chmod("a", 0o600))),
    )
    case(g, "chown", [NOBODY, OTHER], lambda d: last(d.put("a"), d.give("a", NOBODY, OTHER), d.owner("a")), root=True)
    case(
        g,
        "chown of the group only",
        [0, OTHER],
        lambda d: last(d.put("a"), d.give("a", -1, OTHER), d.owner("a")),
        root=True,
    )
    case(
        g,
        "lchown of a link",
        [[NOBODY, NOBODY], [0, 0]],
        lambda d: last(d.put("a"), d.symlink("a", "l"), d.give("l"), [d.owner("l"), d.owner("a")]),
        root=True,
    )
    case(
        g,
        "chown by root keeps set-id bits of folders",
        None,
        lambda d: last(d.mkdir("d"), d.chmod("d", 0o6755), d.give("d"), d.mode("d")),
        root=True,
    )
    case(
        g,
        "chown clears set-id bits",
        None,
        lambda d: last(d.put("a"), d.chmod("a", 0o6755), d.give("a"), d.mode("a")),
        root=True,
    )
    case(
        g,
        "a write by another user clears set-id bits",
        "0o777",
        lambda d: last(d.put("a"), d.chmod("a", 0o6777), d.user(lambda: os.write(d.fd("a", W), b"x")), d.mode("a")),
        root=True,
    )
    case(
        g,
        "a truncation by another user clears set-id bits",
        "0o777",
        lambda d: last(d.put("a", b"x"), d.chmod("a", 0o6777), d.user(lambda: os.truncate(d("a"), 0)), d.mode("a")),
        root=True,
    )
    case(
        g,
        "new files belong to their maker",
        [NOBODY, NOBODY],
        lambda d: last(d.chmod(".", 0o777), d.user(lambda: d.put("a")), d.owner("a")),
        root=True,
    )
    case(
        g,
        "a set-group-id folder gives its group",
        [0, OTHER],
        lambda d: last(d.mkdir("d"), d.give("d", 0, OTHER), d.chmod("d", 0o2755), d.put("d/a"), d.owner("d/a")),
        root=True,
    )
    case(
        g,
        "a set-group-id folder makes such folders",
        "0o2755",
        lambda d: last(d.mkdir("d"), d.chmod("d", 0o2755), d.mkdir("d/e"), d.mode("d/e")),
    )

    g = "permissions"
    case(
        g,
        "read another's file of mode 600",
        "EACCES",
        lambda d: last(d.put("a", mode=0o600), d.user(lambda: d.get("a"))),
        root=True,
    )
    case(
        g,
        "read another's file of mode 604",
        b"x",
        lambda d: last(d.put("a", b"x", mode=0o604), d.user(lambda: d.get("a"))),
        root=True,
    )
    case(
        g,
        "write another's file of mode 644",
        "EACCES",
        lambda d: last(d.put("a"), d.user(lambda: d.fd("a", W))),
        root=True,
    )
    case(
        g,
        "write by a member of the group",
        1,
        lambda d: last(
            d.put("a"), d.give("a", 0, OTHER), d.chmod("a", 0o660), d.user(lambda: os.write(d.fd("a", W), b"x"), OTHER)
        ),
        root=True,
    )
    case(
        g,
        "the owner of mode 077",
        "EACCES",
        lambda d: last(d.put("a"), d.give("a"), d.chmod("a", 0o077), d.user(lambda: d.fd("a", R))),
        root=True,
    )
    case(g, "create in another's folder", "EACCES", lambda d: d.user(lambda: d.put("b")), root=True)
    case(
        g,
        "unlink in another's folder",
        "EACCES",
        lambda d: last(d.put("a"), d.give("a"), d.user(lambda: d.rm("a"))),
        root=True,
    )
    case(
        g,
        "enter a folder without x",
        "EACCES",
        lambda d: last(d.mkdir("d", 0o644), d.put("d/a"), d.chmod("d", 0o644), d.user(lambda: d.get("d/a"))),
        root=True,
    )
    case(
        g,
        "list a folder without r",
        "EACCES",
        lambda d: last(d.mkdir("d"), d.chmod("d", 0o711), d.user(lambda: d.ls("d"))),
        root=True,
    )
    case(
        g,
        "read in a folder without r",
        b"x",
        lambda d: last(d.mkdir("d"), d.put("d/a", b"x"), d.chmod("d", 0o711), d.user(lambda: d.get("d/a"))),
        root=True,
    )
    case(
        g,
        "unlink another's file in a sticky folder",
        "EPERM",
        lambda d: last(d.mkdir("d"), d.chmod("d", 0o1777), d.put("d/a"), d.user(lambda: d.rm("d/a"))),
        root=True,
    )
    case(
        g,
        "rename another's file in a sticky folder",
        "EPERM",
        lambda d: last(d.mkdir("d"), d.chmod("d", 0o1777), d.put("d/a"), d.user(lambda: d.move("d/a", "d/b"))),
        root=True,
    )
    case(
        g,
        "unlink one's own file in a sticky folder",
        [],
        lambda d: last(
            d.mkdir("d"), d.chmod("d", 0o1777), d.put("d/a"), d.give("d/a"), d.user(lambda: d.rm("d/a")), d.ls("d")
        ),
        root=True,
    )
    case(
        g,
        "chmod of another's file",
        "EPERM",
        lambda d: last(d.put("a"), d.user(lambda: d.chmod("a", 0o777))),
        root=True,
    )
    case(
        g,
        "chown to another user",
        "EPERM",
        lambda d: last(d.put("a"), d.give("a"), d.user(lambda: d.give("a", OTHER, -1))),
        root=True,
    )
    case(
        g,
        "times of another's file",
        "EPERM",
        lambda d: last(d.put("a", mode=0o666), d.chmod("a", 0o666), d.user(lambda: os.utime(d("a"), (5, 5)))),
        root=True,
    )
    case(
        g,
        "the present as time of a file one may write",
        None,
        lambda d: last(d.put("a"), d.chmod("a", 0o666), d.user(lambda: os.utime(d("a")))),
        root=True,
    )
    case(
        g,
        "truncate another's file",
        "EACCES",
        lambda d: last(d.put("a"), d.user(lambda: os.truncate(d("a"), 0))),
        root=True,
    )
    case(
        g,
        "access by the real user",
        [True, False],
        lambda d: last(
            d.put("a", mode=0o644),
            d.user(lambda: [os.access(d("a"), 4, effective_ids=True), os.access(d("a"), 2, effective_ids=True)]),
        ),
        root=True,
    )
    case(
        g,
        "an open descriptor outlives permissions",
        b"x",
        lambda d: last(
            d.put("a", b"x"),
            d.give("a"),
            d.user(lambda: d.fd("a", R)),
            d.chmod("a", 0),
            d.user(lambda: d.pread(d.opened[-1], 1)),
        ),
        root=True,
    )
    case(
        g,
        "run a program of mode 755",
        0,
        lambda d: last(d.put("a", b"#!/bin/sh\nexit 0\n"), d.chmod("a", 0o755), os.spawnl(os.P_WAIT, d("a"), "a")),
    )
    case(g, "run a program one may not read", 0, _run_unreadable, root=True)
    case(
        g,
        "read a program one may only run",
        "EACCES",
        lambda d: last(d.put("a"), d.chmod("a", 0o711), d.user(lambda: d.get("a"))),
        root=True,
    )
    case(
        g,
        "run a program of mode 644",
        "EACCES",
        lambda d: last(d.put("a", b"#!/bin/sh\n"), os.posix_spawn(d("a"), ["a"], {})),
    )

    g = "times"
    case(
        g,
        "set to the nanosecond",
        [1_000_000_007, 2_000_000_009],
        lambda d: last(
            d.put("a"),
            os.utime(d("a"), ns=(1_000_000_007, 2_000_000_009)),
            [os.stat(d("a")).st_atime_ns, os.stat(d("a")).st_mtime_ns],
        ),
    )
    case(
        g,
        "before 1970",
        -5_000_000_000,
        lambda d: last(d.put("a"), os.utime(d("a"), ns=(0, -5_000_000_000)), os.stat(d("a")).st_mtime_ns),
    )
    case(
        g,
        "after 2038",
        4_000_000_000_000_000_000,
        lambda d: last(d.put("a"), os.utime(d("a"), ns=(0, 4_000_000_000_000_000_000)), os.stat(d("a")).st_mtime_ns),
    )
    case(
        g,
        "of a link itself",
        7,
        lambda d: last(
            d.symlink("x", "l"), os.utime(d("l"), ns=(7, 7), follow_symlinks=False), os.lstat(d("l")).st_mtime_ns
        ),
    )
    case(
        g,
        "through a descriptor",
        7,
        lambda d: last(os.utime(d.fd("a", RW | C), ns=(7, 7)), os.stat(d("a")).st_mtime_ns),
    )
    case(g, "of a folder", 7, lambda d: last(d.mkdir("d"), os.utime(d("d"), ns=(7, 7)), os.stat(d("d")).st_mtime_ns))
    case(
        g,
        "a write changes the time of the data",
        True,
        lambda d: last(d.put("a"), d.fd("a"), d.changed("a", lambda: os.write(d.opened[-1], b"x"), "st_mtime_ns")),
    )
    case(
        g,
        "a read leaves the time of the data",
        False,
        lambda d: last(d.put("a", b"x"), d.changed("a", lambda: d.get("a"), "st_mtime_ns")),
    )
    case(
        g,
        "rename leaves the time of the data",
        7,
        lambda d: last(d.put("a"), os.utime(d("a"), ns=(7, 7)), d.move("a", "b"), os.stat(d("b")).st_mtime_ns),
    )

    g = "special files"
    case(g, "a fifo carries data", b"hello", _fifo)
    case(g, "mkfifo", "p", lambda d: last(os.mkfifo(d("a")), d.kind("a")))
    case(g, "mkfifo over a name", "EEXIST", lambda d: last(d.put("a"), os.mkfifo(d("a"))))
    case(g, "a socket takes connections", b"hello", _socket)
    case(g, "mknod of a file", "-", lambda d: last(os.mknod(d("a"), stat.S_IFREG | 0o600), d.kind("a")))
    case(
        g,
        "mknod of a device",
        [1, 3],
        lambda d: last(os.mknod(d("a"), stat.S_IFCHR | 0o600, os.makedev(1, 3)), _device(d("a"))),
        root=True,
    )
    case(
        g,
        "mknod of a device by a user",
        "EPERM",
        lambda d: last(d.chmod(".", 0o777), d.user(lambda: os.mknod(d("a"), stat.S_IFCHR | 0o600, os.makedev(1, 3)))),
        root=True,
    )

    g = "extended attributes"
    case(g, "set and get", b"v", lambda d: last(os.setxattr(d.put("a"), "user.k", b"v"), os.getxattr(d("a"), "user.k")))
    case(
        g, "an empty value", b"", lambda d: last(os.setxattr(d.put("a"), "user.k", b""), os.getxattr(d("a"), "user.k"))
    )
    case(g, "list", True, lambda d: last(os.setxattr(d.put("a"), "user.k", b"v"), "user.k" in os.listxattr(d("a"))))
    case(g, "one that is not there", "ENODATA", lambda d: os.getxattr(d.put("a"), "user.k"))
    case(
        g,
        "XATTR_CREATE over one",
        "EEXIST",
        lambda d: last(os.setxattr(d.put("a"), "user.k", b"v"), os.setxattr(d("a"), "user.k", b"w", os.XATTR_CREATE)),
    )
    case(g, "XATTR_REPLACE of none", "ENODATA", lambda d: os.setxattr(d.put("a"), "user.k", b"v", os.XATTR_REPLACE))
    case(
        g,
        "remove",
        "ENODATA",
        lambda d: last(
            os.setxattr(d.put("a"), "user.k", b"v"), os.removexattr(d("a"), "user.k"), os.getxattr(d("a"), "user.k")
        ),
    )
    case(
        g, "of a folder", b"v", lambda d: last(os.setxattr(d.mkdir("d"), "user.k", b"v"), os.getxattr(d("d"), "user.k"))
    )
    case(
        g,
        "user attributes of a link",
        "EPERM",
        lambda d: last(d.symlink("x", "l"), os.setxattr(d("l"), "user.k", b"v", follow_symlinks=False)),
    )
    case(
        g,
        "1000 bytes",
        1000,
        lambda d: last(os.setxattr(d.put("a"), "user.k", b"v" * 1000), len(os.getxattr(d("a"), "user.k"))),
    )
    case(g, "an unknown kind of name", "EOPNOTSUPP", lambda d: os.setxattr(d.put("a"), "strange.k", b"v"))

    g = "locks"
    wr, rd, un = fcntl.F_WRLCK, fcntl.F_RDLCK, fcntl.F_UNLCK
    case(
        g,
        "another process's POSIX lock",
        "EAGAIN",
        lambda d: last(lock(d.fd("a", RW | C), wr), in_child(lambda: lock(d.fd("a"), rd))),
    )
    case(g, "two readers", "done", lambda d: last(lock(d.fd("a", RW | C), rd), in_child(lambda: lock(d.fd("a"), rd))))
    case(
        g,
        "ranges next to each other",
        "done",
        lambda d: last(lock(d.fd("a", RW | C), wr, 0, 10), in_child(lambda: lock(d.fd("a"), wr, 10, 10))),
    )
    case(
        g,
        "given back",
        "done",
        lambda d: last(lock(d.fd("a", RW | C), wr), lock(d.opened[-1], un), in_child(lambda: lock(d.fd("a"), wr))),
    )
    case(
        g,
        "given back in the middle",
        ["done", "EAGAIN"],
        lambda d: last(
            lock(d.fd("a", RW | C), wr, 0, 30),
            lock(d.opened[0], un, 10, 10),
            [in_child(lambda: lock(d.fd("a"), wr, 10, 10)), in_child(lambda: lock(d.fd("a"), wr, 5, 10))],
        ),
    )
    case(
        g,
        "closing any descriptor gives them back",
        "done",
        lambda d: last(
            lock(d.fd("a", RW | C), wr), os.close(os.open(d("a"), R)), in_child(lambda: lock(d.fd("a"), wr))
        ),
    )
    case(
        g,
        "a child does not inherit them",
        "EAGAIN",
        lambda d: last(lock(d.fd("a", RW | C), wr), in_child(lambda: lock(d.opened[0], wr))),
    )
    case(g, "who holds it", [wr, 3, 4], lambda d: last(lock(d.fd("a", RW | C), wr, 3, 4), _holder(d)))
    case(
        g,
        "an exclusive lock through a descriptor for reading",
        "EBADF",
        lambda d: last(d.put("a"), lock(d.fd("a", R), wr)),
    )
    case(
        g,
        "flock",
        "EAGAIN",
        lambda d: last(
            fcntl.flock(d.fd("a", RW | C), fcntl.LOCK_EX), fcntl.flock(d.fd("a"), fcntl.LOCK_SH | fcntl.LOCK_NB)
        ),
    )
    case(
        g,
        "flock, shared",
        None,
        lambda d: last(
            fcntl.flock(d.fd("a", RW | C), fcntl.LOCK_SH), fcntl.flock(d.fd("a"), fcntl.LOCK_SH | fcntl.LOCK_NB)
        ),
    )
    case(
        g,
        "flock ends with its descriptor",
        None,
        lambda d: last(_flock_and_close(d), fcntl.flock(d.fd("a"), fcntl.LOCK_EX | fcntl.LOCK_NB)),
    )
    case(
        g,
        "flock and POSIX locks do not meet",
        "done",
        lambda d: last(fcntl.flock(d.fd("a", RW | C), fcntl.LOCK_EX), in_child(lambda: lock(d.fd("a"), wr))),
    )
    case(g, "a lock waited for is granted", "done", _waited)

    g = "the file system"
    case(g, "statvfs: the longest name", 255, lambda d: os.statvfs(d.path).f_namemax)
    case(g, "statvfs: the size", None, lambda d: os.statvfs(d.path).f_blocks * os.statvfs(d.path).f_frsize)
    case(
        g,
        "a unix time of change that never goes back",
        True,
        lambda d: last(d.put("a"), d.put("b"), os.stat(d("b")).st_ctime_ns >= os.stat(d("a")).st_ctime_ns),
    )
    case(
        g,
        "ioctl FIONREAD-like calls on files are refused",
        "ENOTTY",
        lambda d: fcntl.ioctl(d.fd("a", RW | C), 0x5401, bytes(64)),
    )


def _run_unreadable(d: Ground) -> object:
    shutil.copy(shutil.which("true") or "/bin/true", d("a"))
    d.chmod("a", 0o711)
    return d.user(lambda: os.spawnl(os.P_WAIT, d("a"), "true"))


def _flock_and_close(d: Ground) -> None:
    fd = os.open(d("a"), RW | C, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.close(fd)


def _fifo(d: Ground) -> bytes:
    os.mkfifo(d("f"))
    reader = d.fd("f", R | os.O_NONBLOCK)
    os.write(d.fd("f", W), b"hello")
    return os.read(reader, 9)


def _socket(d: Ground) -> bytes:
    os.chdir(d.path)
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("s")
            server.listen()
            client.connect("s")
            client.sendall(b"hello")
            taken, _ = server.accept()
            with taken:
                return taken.recv(9)
    finally:
        os.chdir("/")


def _device(path: str) -> list[int]:
    found = os.stat(path).st_rdev
    return [os.major(found), os.minor(found)]


def _holder(d: Ground) -> list[int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kind, _, start, length, _ = struct.unpack("hhqqi4x", lock(d.fd("a"), fcntl.F_WRLCK, 0, 0, fcntl.F_GETLK))
            os.write(writer, json.dumps([kind, start, length]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    found = json.loads(os.read(reader, 100))
    os.close(reader)
    os.waitpid(pid, 0)
    return list(found)


def _waited(d: Ground) -> str:
    """A child waits for a lock until this process gives it back."""
    holding = d.fd("a", RW | C)
    lock(holding, fcntl.F_WRLCK)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            fd = os.open(d("a"), RW)
            os.write(writer, b"?")
            lock(fd, fcntl.F_WRLCK, command=fcntl.F_SETLKW)
            os.write(writer, b"done")
        finally:
            os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    lock(holding, fcntl.F_UNLCK)
    said = os.read(reader, 9).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    return said


class Difference(NamedTuple):
    """What a mount answers otherwise than the file system below it, and why."""

    name: str
    on_mount: object
    why: str
    act: Callable[[Ground], object]


_ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 0xFFFFFFFF), (2, 4, NOBODY), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
)
DIFFERENT = [
    Difference(
        "set an access control list",
        "EOPNOTSUPP",
        "The kernel of the mount decides by mode, owner and group; a list it did not heed would promise too much.",
        lambda d: os.setxattr(d.put("a"), "system.posix_acl_access", _ACL),
    ),
    Difference(
        "inode flags (`lsattr`, `chattr`)",
        "ENOTTY",
        "ioctl calls are not forwarded: their arguments mean nothing on another machine.",
        lambda d: fcntl.ioctl(d.fd("a", RW | C), 0x80086601, bytes(8)),
    ),
    Difference(
        "the extents of a file (`filefrag`)",
        "EOPNOTSUPP",
        "Blocks of the device below say nothing to a client.",
        lambda d: fcntl.ioctl(d.fd("a", RW | C), 0xC020660B, bytearray(struct.pack("QQIIII", 0, 1 << 40, 0, 0, 0, 0))),
    ),
    Difference(
        "rename that leaves a whiteout",
        "EINVAL",
        "Only overlay file systems use it; a mount is not to be the upper layer of one.",
        lambda d: last(d.put("a"), d.move2("a", "b", 4)),
    ),
]

_open_cases()
_data_cases()
_name_cases()
_attribute_cases()


def outcome(one: Case, folder: str) -> object:
    """What a case comes to: an errno's name, or its value as JSON takes it."""
    os.mkdir(folder, 0o755)
    ground = Ground(folder)
    try:
        value = one.act(ground)
    except OSError as error:
        return named(error)
    finally:
        for fd in ground.opened:
            os.close(fd)
    return plain(value)


def plain(value: object) -> object:
    """A value as JSON gives it back."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def main(base: str, uid: int | None = None) -> None:
    """Carries out every case in a folder below `base`, as that user."""
    if uid is not None:
        # After everything is imported: the user may not be allowed to read the interpreter's library.
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    os.umask(0o022)
    found = {}
    for number, one in enumerate(CASES):
        if one.needs_root and os.geteuid() != 0:
            continue
        found[f"{one.group}: {one.name}"] = outcome(one, f"{base}/case-{number}")
    for number, other in enumerate(DIFFERENT):
        one = Case("different", other.name, other.on_mount, other.act, False)
        found[f"different: {other.name}"] = outcome(one, f"{base}/different-{number}")
    json.dump(found, sys.stdout)


_HEAD = """# What a mount does as POSIX says

<!-- Written by `python tests/support/posix_cases.py --page`; a test holds it fresh. -->

Each line below is a test. It is carried out on a mount and on the file system under it: both must come to the same,
and to what the line says. Tested are `fairlead mount --local`, a forwarder of a directory, and one
that stripes files over storage targets. Lines marked *root* need a forwarder that runs as root, so that it can act as
the user who asks.

How to read what comes of it: an error's name is what the call fails with, `done` is success without a value, *as below*
is whatever the file system under the mount does. Other values are what was asked for, as Python writes them: `b'data'`
is the content of the file, `['a', 'x']` the names in the folder, `-`, `d`, `l` or `p` the type as `ls -l` shows it, a
number the size, the count or the mode, `True` that it holds.
"""
_LIMITS = """## Not, or otherwise, and why

These are tested as well, but for the last table.

| what is done | on a mount | why |
|---|---|---|
"""
_REST = """
| what | how it is on a mount | why |
|---|---|---|
| a shared writable memory map | other nodes see what was written after `msync`, `munmap` or `close` | a page in memory tells nobody that it changed |
| names and attributes changed by another node | seen after at most one second | the kernel keeps them that long, to spare a request for each `stat` |
| `inotify`, `fanotify` | changes made through this mount only | other nodes' changes are not announced |
| leases (`F_SETLEASE`), mandatory locks | a lease sees openings through this mount only; there are no mandatory locks | as above |
| default access control lists of a folder | not applied to the client's umask | lists are not heeded, see above |
| `.fairlead` in the root | hidden, and no name for a file there | fairlead keeps there what must outlive a forwarder |
| another file system mounted inside the export | refused with `EXDEV` | two files could have the same inode number |
| an open file whose last name another forwarder's client removed | stays open, but is lost with its forwarder | only the forwarder that removes a name knows that it must keep the file |
| a forwarder that does not run as root | every file is made and opened as the user it runs as | only root may act as others |
| `O_DIRECT` | the kernel of the client keeps nothing; the forwarder's may | the data come through a buffer of the forwarder |
| swap files, quota calls, `name_to_handle_at` across a restart of the mount | refused, or not kept | they need the device below |
"""


def page() -> str:
    """The page of the reference."""
    lines = [_HEAD]
    for group in dict.fromkeys(one.group for one in CASES):
        lines += [f"## {group[0].upper()}{group[1:]}", "", "| what is done | what comes of it |", "|---|---|"]
        for one in CASES:
            if one.group == group:
                lines.append(f"| {one.name}{' *(root)*' if one.needs_root else ''} | {_shown(one.expected)} |")
        lines.append("")
    lines += [_LIMITS + "\n".join(f"| {one.name} | `{one.on_mount}` | {one.why} |" for one in DIFFERENT)]
    return "\n".join(lines) + "\n" + _REST


def _shown(expected: object) -> str:
    if expected is None:
        return "*as below*"
    if isinstance(expected, bytes):
        return f"`{expected!r}`"
    return f"`{expected}`"


if __name__ == "__main__":
    if sys.argv[1] == "--page":
        sys.stdout.write(page())
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
