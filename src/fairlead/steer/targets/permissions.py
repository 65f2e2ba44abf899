"""Who may do what to an inode: the checks of path_resolution(7), for callers the kernel has not checked already.

A caller of None, or of user 0, may do everything.
"""

from __future__ import annotations

import errno
import os
import stat

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.base import TO_RUN
from fairlead.steer.targets.inode import Inode, Who

READ, WRITE, SEARCH = os.R_OK, os.W_OK, os.X_OK


def check_permission(inode: Inode, mask: int, who: Who | None) -> None:
    """As access(2) with `mask`."""
    if who is None or not mask:
        return
    mode = inode.mode
    if who.uid == 0:
        if mask & SEARCH and not mode & 0o111 and not stat.S_ISDIR(mode):
            raise build_os_error(errno.EACCES)
        return
    if who.uid == inode.uid:
        granted = mode >> 6
    elif has_group_permission(inode.gid, who):
        granted = mode >> 3
    else:
        granted = mode
    if mask & ~granted & 7:
        raise build_os_error(errno.EACCES)


def has_group_permission(gid: int, who: Who) -> bool:
    """Whether the caller is in that group."""
    return gid == who.gid or gid in who.groups


def has_owner_permission(inode: Inode, who: Who | None) -> bool:
    """Whether the caller is its owner or may act as one."""
    return who is None or who.uid in (0, inode.uid)


def check_removal_permission(parent: Inode, child: Inode, who: Who | None) -> None:
    """A name may be removed from `parent`: write and search there, and the sticky bit."""
    check_permission(parent, WRITE | SEARCH, who)
    if parent.mode & stat.S_ISVTX and not has_owner_permission(child, who) and not has_owner_permission(parent, who):
        raise build_os_error(errno.EPERM)


def compute_open_permissions(flags: int) -> int:
    """What an open with `flags` needs."""
    if flags & (TO_RUN | os.O_ACCMODE | os.O_TRUNC) == TO_RUN:
        return SEARCH
    mode = flags & os.O_ACCMODE
    mask = READ if mode == os.O_RDONLY else WRITE if mode == os.O_WRONLY else READ | WRITE
    return mask | (WRITE if flags & os.O_TRUNC else 0)
