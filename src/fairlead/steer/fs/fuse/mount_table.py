"""What is mounted where, from the kernel's table, and whether a mount answers.

Nothing here touches a mount from this process: a mount that hangs would hang the caller.
"""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import NamedTuple

from fairlead.core.clock import monotonic_s, sleep_s

FS_TYPE = "fuse.fairlead"
_TABLE = Path("/proc/self/mountinfo")


class MountPoint(NamedTuple):
    """One line of the kernel's table."""

    path: str
    fs_type: str
    source: str
    options: str
    minor: int
    """Minor device number: names the connection in /sys/fs/fuse/connections."""


def read_mount_table(table: Path = _TABLE) -> list[MountPoint]:
    """Every mount this process sees, in the order they were made."""
    found = []
    for line in table.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        left, separator, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if separator and len(before) >= 6 and len(after) >= 2:
            minor = before[2].rpartition(":")[2]
            found.append(
                MountPoint(
                    path=_plain(before[4]),
                    fs_type=after[0],
                    source=_plain(after[1]),
                    options=before[5],
                    minor=int(minor) if minor.isdecimal() else 0,
                )
            )
    return found


def find_in_mount_table(path: str, table: Path = _TABLE) -> MountPoint | None:
    """The mount on exactly this folder (the uppermost one), or None."""
    return next((mount for mount in reversed(read_mount_table(table)) if mount.path == path), None)


def list_mount_table(table: Path = _TABLE) -> list[MountPoint]:
    """The mounts of fairlead."""
    return [mount for mount in read_mount_table(table) if mount.fs_type == FS_TYPE]


def resolve_mountpoint(path: str | Path) -> str:
    """The absolute path of a mount point, links resolved, without asking what is mounted there."""
    text = os.path.abspath(path)  # resolve() would ask the mount
    for _ in range(40):
        parent = os.path.realpath(os.path.dirname(text))
        text = os.path.join(parent, os.path.basename(text)) if os.path.basename(text) else parent
        try:
            target = os.readlink(text)  # of a mounted folder: EINVAL, without a request
        except OSError:
            return text
        text = os.path.normpath(os.path.join(parent, target))
    return text


def probe_mount_folder(path: str, *, within_s: float) -> int | None:
    """0 when the folder answers, its errno when it refuses, None when it has not answered in time.

    A child asks: a process that waits for a hung mount cannot be ended.
    """
    child = os.fork()
    if child == 0:
        code = 255
        try:
            os.listdir(path)
            code = 0
        except OSError as error:
            code = min(error.errno or errno.EIO, 254)
        finally:
            os._exit(code)
    deadline = monotonic_s() + within_s
    pause = 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if monotonic_s() > deadline:
            os.kill(child, signal.SIGKILL)
            return None
        sleep_s(pause)
        pause = min(pause * 2, 0.05)


def _plain(text: str) -> str:
    """A field of the table with its octal escapes (\\040 for a space) undone."""
    if "\\" not in text:
        return text
    raw = text.encode("utf-8", errors="surrogateescape")
    out = bytearray()
    at = 0
    while at < len(raw):
        digits = raw[at + 1 : at + 4]
        if raw[at] == 0x5C and len(digits) == 3 and all(0x30 <= digit < 0x38 for digit in digits):
            out.append(int(digits, 8) & 0xFF)
            at += 4
        else:
            out.append(raw[at])
            at += 1
    return os.fsdecode(bytes(out))
