"""An open file of a directory tree: reads, writes and locks on one descriptor."""

from __future__ import annotations

import fcntl
import os
from errno import EXDEV
from typing import TYPE_CHECKING

from fairlead.steer.fs.os_errors import build_os_error, build_stale_os_error
from fairlead.steer.fs.trees import system_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.steer.fs.trees.base import Lock, OpenFile, Stat
    from fairlead.steer.fs.trees.directory import DirectoryTree

_FLOCK = {
    int(fcntl.F_RDLCK): fcntl.LOCK_SH | fcntl.LOCK_NB,
    int(fcntl.F_WRLCK): fcntl.LOCK_EX | fcntl.LOCK_NB,
    int(fcntl.F_UNLCK): fcntl.LOCK_UN,
}
_preadv = os.preadv
_pwrite = os.pwrite


class LocalFile:
    """Implements `base.OpenFile`. The number of the descriptor is given back when nobody uses the object any more: a
    close that comes while another thread is about to read must not hand the number to another file under it."""

    __slots__ = ("_closed", "_tree", "_written", "descriptor", "flags", "handed_over", "node")
    unlocks_at_once = True
    """Giving back a flock waits for nobody."""

    def __init__(self, tree: DirectoryTree, node: int, flags: int, descriptor: int) -> None:
        self._tree = tree
        self.node = node
        self.flags = flags
        self.descriptor: int | None = descriptor
        self._written = False
        self.handed_over = False
        """A client has the descriptor: what it writes is not seen here."""
        self._closed = False

    def _fd(self) -> int:
        assert self.descriptor is not None
        return self.descriptor

    def pin(self) -> int:
        """Another descriptor of the file, to be closed by the caller; ESTALE if the file was closed meanwhile."""
        fd = os.dup(self._fd())
        if os.fstat(fd).st_ino + 1 != self.node:
            os.close(fd)
            raise build_stale_os_error()
        return fd

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """As preadv; goes on after a short read until the file really ends."""
        fd = self.descriptor
        wanted = len(buffer)
        done = _preadv(fd, (buffer,), offset)  # type: ignore[arg-type]
        if done == wanted or done == 0:
            return done
        while done < wanted:
            more = _preadv(fd, (buffer[done:],), offset + done)  # type: ignore[arg-type]
            if more == 0:
                break
            done += more
        return done

    def write_from(self, buffer: memoryview, offset: int) -> int:
        """As pwrite, which appends if the file was opened with O_APPEND."""
        fd = self.descriptor
        self._written = True
        done = _pwrite(fd, buffer, offset)  # type: ignore[arg-type]
        while done < len(buffer):
            try:
                more = _pwrite(fd, buffer[done:], offset + done)  # type: ignore[arg-type]
            except OSError:
                # As write(2): what fitted is written, the error is that of the next write.
                break
            if more == 0:
                break
            done += more
        return done

    def write_pieces(self, pieces: Sequence[memoryview], offset: int) -> int:
        """As pwritev: one write of several buffers."""
        self._written = True
        return os.pwritev(self._fd(), pieces, offset)

    def sync(self, data_only: bool) -> None:
        """As fsync and fdatasync."""
        if data_only:
            os.fdatasync(self._fd())
        else:
            os.fsync(self._fd())

    def stat(self) -> Stat:
        """As fstat, without the name that keeps a removed file."""
        st = os.fstat(self._fd())
        if st.st_ino + 1 != self.node:
            raise build_stale_os_error()  # closed by another thread
        return self._tree.show_stat(self.node, st)

    def truncate(self, size: int) -> None:
        """As ftruncate."""
        os.ftruncate(self._fd(), size)

    def allocate(self, mode: int, offset: int, length: int) -> None:
        """As fallocate."""
        system_calls.call_fallocate(self._fd(), mode, offset, length)

    def seek(self, offset: int, whence: int) -> int:
        """As lseek; reads and writes have their own offsets."""
        return os.lseek(self._fd(), offset, whence)

    def copy_to(self, offset: int, other: OpenFile, other_offset: int, length: int) -> int:
        """As copy_file_range, between two files that are one file each."""
        if other.descriptor is None:
            raise build_os_error(EXDEV)
        # More than this in one request would hold a worker for long; the client's kernel goes on by itself.
        length = min(length, 1 << 30)
        return os.copy_file_range(self._fd(), other.descriptor, length, offset, other_offset)

    def lock(self, owner: int, lock: Lock) -> None:
        """Takes or gives back a POSIX lock."""
        self._tree.locks.set(self._fd(), self.node, owner, lock)

    def find_conflict(self, owner: int, lock: Lock) -> Lock | None:
        """The lock in the way."""
        return self._tree.locks.find_conflict(self._fd(), self.node, owner, lock)

    def unlock_owner(self, owner: int) -> None:
        """Gives back the POSIX locks of an owner."""
        self._tree.locks.release(self.node, owner)

    def flock(self, kind: int) -> None:
        """As flock, on this open file description."""
        fcntl.flock(self._fd(), _FLOCK[kind])

    def flush(self) -> None:
        """As a close of a descriptor, if anything was written: network file systems report their errors there."""
        if self._written or self.handed_over:
            self._written = False
            os.close(os.dup(self._fd()))

    def close(self) -> None:
        """Ends the file, with its locks by flock."""
        if self._closed:
            return
        self._closed = True
        self._tree.drop_file(self)
        # The file is closed now, its number is not free before the last use of this object: it is given to a
        # descriptor that can neither be read nor written.
        os.dup2(self._tree.root, self._fd(), inheritable=False)

    def __del__(self) -> None:
        os.close(self._fd())
