"""Calls on files by descriptor, where the file is known but no name of it: through its link in /proc/self/fd.

Such a link leads to the file itself: nothing is resolved, and a symbolic link it leads to is not followed.
"""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from typing import TYPE_CHECKING

from fairlead.steer.fs.os_errors import build_os_error, build_stale_os_error
from fairlead.steer.fs.trees import system_calls
from fairlead.steer.fs.trees.thread_identity import forwarder_identity, get_thread_user

if TYPE_CHECKING:
    from fairlead.steer.fs.trees.base import Change

_ADDED = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def reopen_descriptor(path: int, flags: int) -> int:
    """A descriptor of the file that `path` (O_PATH) is, as its caller may open it or as its owner."""
    place = f"/proc/self/fd/{path}"
    flags |= _ADDED
    if not stat.S_ISREG(os.fstat(path).st_mode):
        raise build_stale_os_error()
    try:
        return os.open(place, flags)
    except PermissionError:
        if os.fstat(path).st_uid != get_thread_user()[0]:
            raise
    with forwarder_identity:
        return os.open(place, flags)


def set_descriptor_attributes(fd: int, path: str | None, change: Change) -> None:
    """Sets attributes of an open file, or of `path` (a link in /proc/self/fd: what it leads to is not followed)."""
    target: int | str = fd if path is None else path
    if change.uid is not None or change.gid is not None:
        os.chown(target, -1 if change.uid is None else change.uid, -1 if change.gid is None else change.gid)
    if change.mode is not None:
        os.chmod(target, change.mode)
    if change.size is not None:
        if change.size > 1 << 63:
            raise build_os_error(EINVAL)
        os.truncate(target, change.size)
    if change.atime_ns is not None or change.mtime_ns is not None:
        system_calls.call_utimensat(fd, None if path is None else os.fsencode(path), change.atime_ns, change.mtime_ns)
