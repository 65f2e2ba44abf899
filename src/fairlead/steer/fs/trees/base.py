"""What a tree of files is to the plane: names, attributes and open files by node number. Every tree passes
`fairlead.kit.testing.tree_contract`. Not here: requests (`operations`), who asks (`thread_identity`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

ROOT = 1
"""Node number of the root. Every other node is its inode number + 1, the same in every forwarder of the tree."""
OWN_FOLDER = b".fairlead"
"""Folder in the root where fairlead keeps what must outlive a forwarder; never listed, looked up or made by clients."""


TO_RUN = 0x20
"""The kernel's own flag (FMODE_EXEC) of an open that is to run the file: it needs the right to execute, not to read."""


class UnknownNode(Exception):  # noqa: N818
    """This forwarder has not seen the node (another one looked it up); `FileTree.place` tells it where it is."""

    def __init__(self, node: int) -> None:
        super().__init__(f"node {node}")
        self.node = node


class Stat(Protocol):
    """Attributes of a node under the names of `os.stat_result` (which is one)."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_nlink(self) -> int: ...
    @property
    def st_uid(self) -> int: ...
    @property
    def st_gid(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_atime_ns(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...
    @property
    def st_blocks(self) -> int: ...
    @property
    def st_blksize(self) -> int: ...
    @property
    def st_rdev(self) -> int: ...


class Change(NamedTuple):
    """Attributes to set; None leaves one as it is. Times: nanoseconds, or `NOW`."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


NOW = -(1 << 63)
"""A time in a `Change`: the moment it is carried out. No file system holds that time."""


class Entry(NamedTuple):
    """A name in a directory. `kind` is the file type of the mode shifted right by 12 (DT_*), 0 unknown."""

    name: bytes
    node: int
    kind: int


class Lock(NamedTuple):
    """A byte range [start, end] (end inclusive, as FUSE has it), `kind` F_RDLCK/F_WRLCK/F_UNLCK, holder's pid."""

    start: int
    end: int
    kind: int
    pid: int


class OpenFile(Protocol):
    """A file that was opened. All calls raise OSError. Reads and writes release the GIL while the kernel copies."""

    node: int
    flags: int
    descriptor: int | None
    """A descriptor of the backing file if the whole file is one (for passing it on), else None."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Bytes read into `buffer`; short only at the end of the file."""

    def write_from(self, buffer: memoryview, offset: int) -> int:
        """Bytes written, all of `buffer` unless the device ends. With O_APPEND in `flags`, at the end of the file."""

    def sync(self, data_only: bool) -> None:
        """Returns when what was written is on disk."""

    def stat(self) -> Stat:
        """As fstat."""

    def truncate(self, size: int) -> None:
        """As ftruncate."""

    def allocate(self, mode: int, offset: int, length: int) -> None:
        """As fallocate(2)."""

    def seek(self, offset: int, whence: int) -> int:
        """SEEK_DATA and SEEK_HOLE."""

    def copy_to(self, offset: int, other: OpenFile, other_offset: int, length: int) -> int:
        """As copy_file_range; EXDEV or EOPNOTSUPP where it cannot (the kernel then copies itself)."""

    def lock(self, owner: int, lock: Lock) -> None:
        """Takes or gives back a POSIX lock without waiting; BlockingIOError (EAGAIN) when another owner holds it."""

    def find_conflict(self, owner: int, lock: Lock) -> Lock | None:
        """The lock of another owner that is in the way, or None."""

    def unlock_owner(self, owner: int) -> None:
        """Gives back all POSIX locks of that owner (it closed the file)."""

    def flock(self, kind: int) -> None:
        """As flock with LOCK_NB: F_RDLCK shared, F_WRLCK exclusive, F_UNLCK none. BlockingIOError when held."""

    def flush(self) -> None:
        """A descriptor of the client was closed: raises what close(2) would (errors of writing back, as on NFS)."""

    def close(self) -> None:
        """Ends it; the last close of a kept (unlinked) file removes it."""


class FileTree(Protocol):
    """A tree. Names are one component, bytes, no slash. Nodes are numbers; a node whose place was never told here
    raises `UnknownNode`, one that is no longer at its place OSError(ESTALE). Thread-safe. Calls act as the thread's
    caller (`thread_identity`)."""

    name: str
    """What is exported, for messages."""
    clears_set_id: bool
    """Writing and truncating clear the set-user-id and set-group-id bits as local file systems do. Where False,
    `operations` clears them when the kernel asks for it."""

    def lookup(self, parent: int, name: bytes) -> tuple[int, Stat]:
        """The node of a name; `.` is the directory itself, `..` the one above (the root's is the root)."""

    def stat(self, node: int) -> Stat:
        """As lstat."""

    def change(self, node: int, change: Change, file: OpenFile | None) -> Stat:
        """Sets attributes, through `file` where the request has one."""

    def readlink(self, node: int) -> bytes:
        """Target of a symbolic link."""

    def create(self, parent: int, name: bytes, flags: int, mode: int) -> tuple[int, Stat, OpenFile]:
        """Opens with O_CREAT; `flags` may hold O_EXCL, O_TRUNC, O_APPEND."""

    def open(self, node: int, flags: int) -> OpenFile:
        """Opens a node, never creating it."""

    def create_temporary(self, parent: int, flags: int, mode: int) -> tuple[int, Stat, OpenFile]:
        """O_TMPFILE. If `flags` say so themselves, `reopen` finds the file after the loss of this forwarder; without,
        the caller gives it a name at once."""

    def mkdir(self, parent: int, name: bytes, mode: int) -> tuple[int, Stat]:
        """A directory."""

    def mknod(self, parent: int, name: bytes, mode: int, device: int) -> tuple[int, Stat]:
        """A file, fifo, socket or device node."""

    def symlink(self, parent: int, name: bytes, target: bytes) -> tuple[int, Stat]:
        """A symbolic link."""

    def link(self, node: int, parent: int, name: bytes) -> tuple[int, Stat]:
        """Another name of a node."""

    def unlink(self, parent: int, name: bytes) -> None:
        """Removes a name. A file that is open here is kept under OWN_FOLDER until its last close."""

    def rmdir(self, parent: int, name: bytes) -> None:
        """Removes an empty directory."""

    def rename(self, parent: int, name: bytes, new_parent: int, new_name: bytes, flags: int) -> None:
        """As renameat2; a replaced file that is open here is kept."""

    def list_entries(self, node: int) -> Sequence[Entry]:
        """Names in a directory, with `.` and `..`; OWN_FOLDER left out."""

    def sync_directory(self, node: int) -> None:
        """Returns when the names in the directory are on disk."""

    def sync(self) -> None:
        """Returns when everything in the tree is on disk."""

    def statfs(self) -> os.statvfs_result:
        """As statvfs."""

    def get_attribute(self, node: int, name: bytes) -> bytes:
        """An extended attribute."""

    def set_attribute(self, node: int, name: bytes, value: bytes, flags: int) -> None:
        """Sets one (XATTR_CREATE, XATTR_REPLACE)."""

    def attribute_names(self, node: int) -> list[bytes]:
        """Names of the extended attributes."""

    def remove_attribute(self, node: int, name: bytes) -> None:
        """Removes one."""

    def access(self, node: int, mask: int) -> None:
        """As access(2) for the thread's caller; PermissionError when refused."""

    def place(self, node: int, steps: Sequence[tuple[int, bytes]]) -> None:
        """Tells where a node is, known from another forwarder: (parent, name) from the root down. A step that no
        longer fits raises OSError(ESTALE)."""

    def reopen(self, node: int, flags: int) -> OpenFile:
        """Opens a node again after another forwarder was lost, the kept (unlinked) ones too. Never truncates,
        never creates."""

    def forget(self, nodes: Sequence[int]) -> None:
        """The kernel of a client has dropped these nodes; a tree may drop what it knows of them."""

    def close(self) -> None:
        """Ends the tree."""
