"""Files that were removed while clients have them open: another name under the tree's own folder keeps them, so that
another forwarder can open them again when this one is lost.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from errno import EACCES, EDQUOT, EEXIST, EMLINK, ENOENT, ENOSPC, EOPNOTSUPP, EPERM, EROFS, EXDEV
from typing import TYPE_CHECKING

from fairlead.core.clock import now_ns
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees import system_calls
from fairlead.steer.fs.trees.base import OWN_FOLDER
from fairlead.steer.fs.trees.thread_identity import forwarder_identity

if TYPE_CHECKING:
    from fairlead.steer.fs.trees.base import Stat

FOLDER = b"kept"
LEFT_OVER_NS = 24 * 3600 * 1_000_000_000
"""A kept file of that age at the start of a forwarder was left by one that was lost, and by clients that never came
back. A file still open that long stays open; only a second loss would end it."""
_WITHOUT = (EACCES, EDQUOT, EMLINK, ENOENT, ENOSPC, EOPNOTSUPP, EPERM, EROFS, EXDEV)
"""Errors with which a file is not kept: its removal goes on all the same."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnlinkedAttributes:
    """Attributes of a kept file as clients see them: without the name that keeps it."""

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

    def __init__(self, st: Stat) -> None:
        self.st_mode = st.st_mode
        self.st_ino = st.st_ino
        self.st_nlink = max(st.st_nlink - 1, 0)
        self.st_uid = st.st_uid
        self.st_gid = st.st_gid
        self.st_size = st.st_size
        self.st_atime_ns = st.st_atime_ns
        self.st_mtime_ns = st.st_mtime_ns
        self.st_ctime_ns = st.st_ctime_ns
        self.st_blocks = st.st_blocks
        self.st_blksize = st.st_blksize
        self.st_rdev = st.st_rdev


def open_unlinked_folder(root: int, name: bytes) -> int:
    """A descriptor of a folder in the tree's own folder, made if absent, closed to all but the forwarder's user.
    PermissionError if somebody else made it: what is kept there would be his to change."""
    with forwarder_identity:
        with suppress(FileExistsError):
            os.mkdir(OWN_FOLDER, 0o700, dir_fd=root)
        outer = os.open(OWN_FOLDER, _FOLDER, dir_fd=root)
        try:
            if os.fstat(outer).st_uid != os.geteuid():
                raise PermissionError(EPERM, f"{os.fsdecode(OWN_FOLDER)} belongs to another user")
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=outer)
            return os.open(name, _FOLDER, dir_fd=outer)
        finally:
            os.close(outer)


class UnlinkedFiles:
    """The kept files of a tree whose root is open as `root`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._fd = -1
        self._there = False
        self._guard = threading.Lock()
        self.nodes: set[int] = set()
        """Nodes whose kept name this forwarder removes with their last close."""

    def show_root_stat(self, st: os.stat_result) -> Stat:
        """Attributes of the root as clients are to see them: our own folder does not count in its links."""
        if not self._there:
            try:
                os.stat(OWN_FOLDER, dir_fd=self._root, follow_symlinks=False)
            except OSError:
                return st
            self._there = True
        return UnlinkedAttributes(st) if st.st_nlink > 2 else st

    def _folder(self) -> int:
        with self._guard:
            if self._fd < 0:
                self._fd = open_unlinked_folder(self._root, FOLDER)
            return self._fd

    def keep(self, node: int, descriptor: int) -> bool:
        """Gives an open file its kept name; False if it has one already or cannot have one."""
        if node in self.nodes:
            return False
        try:
            with forwarder_identity:
                os.link(f"/proc/self/fd/{descriptor}", _name(node), dst_dir_fd=self._folder(), follow_symlinks=True)
        except OSError as error:
            if error.errno != EEXIST:
                if error.errno in _WITHOUT:
                    return False
                raise
            # Another forwarder of the tree keeps it already; the name goes with whichever closes it first.
        self.nodes.add(node)
        return True

    def release(self, node: int) -> None:
        """The last close: the kept name goes, and with it the file."""
        if node in self.nodes:
            self.nodes.discard(node)
            with forwarder_identity, suppress(FileNotFoundError):
                os.unlink(_name(node), dir_fd=self._folder())

    def pin(self, node: int) -> int:
        """A descriptor (O_PATH) of a kept file, whoever asks; FileNotFoundError if it is not one."""
        with forwarder_identity:
            try:
                fd = os.open(_name(node), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder())
            except OSError as error:
                raise build_os_error(ENOENT) from error
        if os.fstat(fd).st_ino + 1 != node:
            os.close(fd)
            raise build_os_error(ENOENT)
        return fd

    def sweep(self) -> int:
        """Removes what lost forwarders left long ago; the number of files removed."""
        try:
            os.stat(OWN_FOLDER + b"/" + FOLDER, dir_fd=self._root, follow_symlinks=False)
            folder = self._folder()
        except OSError:
            return 0
        oldest = now_ns() - LEFT_OVER_NS
        removed = 0
        for name, _, _ in system_calls.call_getdents(folder):
            if name not in (b".", b".."):
                with suppress(OSError):
                    if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime_ns < oldest:
                        os.unlink(name, dir_fd=folder)
                        removed += 1
        return removed

    def close(self) -> None:
        """Ends it. Kept names stay: the clients may go on with another forwarder."""
        self.nodes.clear()
        with self._guard:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def _name(node: int) -> bytes:
    return b"%x" % (node - 1)
