"""An open file of a striped tree: flags and locks of one open, over the data all opens of the inode share."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from random import getrandbits
from typing import TYPE_CHECKING

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees import system_calls
from fairlead.steer.fs.trees.base import Lock, OpenFile
from fairlead.steer.targets import namespace
from fairlead.steer.targets.file_state import ABSENT, FileState
from fairlead.steer.targets.inode import Attributes
from fairlead.steer.targets.locks import FLOCK, POSIX, WHOLE
from fairlead.steer.targets.striping import compute_stripe_object_size, compute_striped_offset, locate_striped_byte

if TYPE_CHECKING:
    from fairlead.steer.targets.store import Store

_KEEP_SIZE, _PUNCH, _ZERO = 1, 2, 16
_COPY = 1 << 20


class StripedFile:
    """See `OpenFile`."""

    descriptor: int | None = None

    def __init__(
        self, node: int, flags: int, state: FileState, store: Store, ended: Callable[[FileState], None]
    ) -> None:
        self.node = node
        self.flags = flags
        self.state = state
        self._store = store
        self._ended = ended
        self._owner = getrandbits(62)
        self._flocked = False
        self.unlocks_at_once = not store.shared
        """Giving back a flock waits for nobody."""
        self._open = True
        mode = flags & os.O_ACCMODE
        self._reads, self._writes = mode != os.O_WRONLY, mode != os.O_RDONLY

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """As the protocol says."""
        if not self._reads:
            raise build_os_error(errno.EBADF)
        return self.state.read_into(buffer, offset)

    def write_from(self, buffer: memoryview, offset: int) -> int:
        """As the protocol says; appends one after the other, also those of other forwarders."""
        if not self._writes:
            raise build_os_error(errno.EBADF)
        if not self.flags & os.O_APPEND:
            return self.state.write_from(buffer, offset)
        return self.state.append(buffer)

    def sync(self, data_only: bool) -> None:
        """Objects, then the metadata."""
        self.state.sync(data_only)

    def stat(self) -> Attributes:
        """As fstat."""
        return self.state.stat(self._store.read(namespace.get_namespace_inode, self.state.ino))

    def truncate(self, size: int) -> None:
        """As ftruncate."""
        if not self._writes:
            raise build_os_error(errno.EINVAL)
        self.state.truncate(size)

    def allocate(self, mode: int, offset: int, length: int) -> None:
        """As fallocate: plain, KEEP_SIZE, PUNCH_HOLE and ZERO_RANGE."""
        if not self._writes:
            raise build_os_error(errno.EBADF)
        if length <= 0:
            raise build_os_error(errno.EINVAL)
        if mode not in (0, _KEEP_SIZE, _PUNCH | _KEEP_SIZE, _ZERO, _ZERO | _KEEP_SIZE):
            raise build_os_error(errno.EOPNOTSUPP)
        state, end = self.state, offset + length
        with state.lock:
            before = state.get_size()
            punching = bool(mode & _PUNCH)
            descriptors = state.open_objects(create=not punching)
            count = len(state.targets)
            for index, descriptor in enumerate(descriptors):
                start = compute_stripe_object_size(index, offset, state.stripe, count)
                stop = compute_stripe_object_size(index, end, state.stripe, count)
                if stop > start and descriptor != ABSENT:
                    # The objects keep their sizes: the file's is recorded.
                    system_calls.call_fallocate(descriptor, mode | _KEEP_SIZE, start, stop - start)
            if not mode & _KEEP_SIZE and end > before:
                state.record_extent(end)
                state.record()

    def seek(self, offset: int, whence: int) -> int:
        """SEEK_DATA and SEEK_HOLE, by object."""
        state = self.state
        size = state.get_size()
        if offset >= size or offset < 0:
            raise build_os_error(errno.ENXIO)
        descriptors = state.open_objects(create=False)
        if whence == os.SEEK_DATA:
            found = [
                at for index in range(len(descriptors)) if (at := self._data(index, descriptors, offset)) is not None
            ]
            if not found or min(found) >= size:
                raise build_os_error(errno.ENXIO)
            return min(found)
        if whence != os.SEEK_HOLE:
            raise build_os_error(errno.EINVAL)
        return self._hole(descriptors, offset, size)

    def _data(self, index: int, descriptors: list[int], offset: int) -> int | None:
        stripe, count = self.state.stripe, len(descriptors)
        if descriptors[index] == ABSENT:
            return None
        try:
            at = os.lseek(descriptors[index], compute_stripe_object_size(index, offset, stripe, count), os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise
        return compute_striped_offset(index, at, stripe, count)

    def _hole(self, descriptors: list[int], offset: int, size: int) -> int:
        stripe, count = self.state.stripe, len(descriptors)
        at = offset
        while at < size and count:
            index, inside = locate_striped_byte(at, stripe, count)
            if descriptors[index] == ABSENT:
                break
            try:
                hole = os.lseek(descriptors[index], inside, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # beyond the object
            step = min(hole - inside, stripe - at % stripe)
            if hole - inside < stripe - at % stripe:
                return min(at + step, size)
            at += step
        return min(at, size)

    def copy_to(self, offset: int, other: OpenFile, other_offset: int, length: int) -> int:
        """Copies here, without the data travelling; short at the end of the file."""
        if not isinstance(other, StripedFile):
            raise build_os_error(errno.EXDEV)
        if self.state is other.state and abs(offset - other_offset) < length:
            raise build_os_error(errno.EINVAL)
        buffer = memoryview(bytearray(min(length, _COPY)))
        done = 0
        while done < length:
            got = self.read_into(buffer[: min(length - done, _COPY)], offset + done)
            if not got:
                break
            wrote = other.state.write_from(buffer[:got], other_offset + done)
            done += wrote
            if wrote < got:
                break
        return done

    def lock(self, owner: int, lock: Lock) -> None:
        """As the protocol says; shared by all forwarders of the tree."""
        self._store.lock(POSIX, self.state.ino, owner, lock)

    def find_conflict(self, owner: int, lock: Lock) -> Lock | None:
        """As the protocol says."""
        return self._store.find_conflict(POSIX, self.state.ino, owner, lock)

    def unlock_owner(self, owner: int) -> None:
        """As the protocol says."""
        self._store.unlock_owner(POSIX, self.state.ino, owner)

    def flock(self, kind: int) -> None:
        """As the protocol says."""
        if kind == fcntl.F_UNLCK and not self._flocked:
            return
        self._store.lock(FLOCK, self.state.ino, self._owner, WHOLE._replace(kind=kind))
        self._flocked = kind != fcntl.F_UNLCK

    def flush(self) -> None:
        """Notes the size, which raises what the store would."""
        if self._writes and not self.state.doomed:
            self.state.record()

    def close(self) -> None:
        """Ends it."""
        if not self._open:
            return
        self._open = False
        if self._flocked:
            self._store.unlock_owner(FLOCK, self.state.ino, self._owner)
        self._ended(self.state)
