"""The data of one inode while it is open here: its objects, reading and writing across them, its size.

Shared by all open files of the inode. Not here: open flags, locks (`open_file`).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import getrandbits

from fairlead.core.clock import monotonic_ns, now_ns, sleep_s
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.targets import inode_data, namespace
from fairlead.steer.targets.inode import Attributes, Inode
from fairlead.steer.targets.locks import APPEND, WHOLE
from fairlead.steer.targets.objects import Target, TargetSet
from fairlead.steer.targets.store import Store
from fairlead.steer.targets.striping import (
    compute_stripe_object_size,
    compute_striped_end,
    locate_striped_byte,
    split_striped_range,
)

ABSENT = -1
_WAIT_S = 0.001
_TICK_NS = 20_000_000
"""File systems stamp writes with a clock that may lag by a tick: a time set by hand less long ago may hide a write."""


def measure_file_state(inode: Inode, look: Callable[[int], os.stat_result | None]) -> tuple[int, int, int]:
    """Size, blocks and modification time of a file: of the record and of its objects. `look` stats one."""
    size, blocks, mtime = inode.size, 0, inode.mtime
    count = len(inode.targets)
    for index in range(count):
        if not inode.made >> index & 1:
            continue
        found = look(index)
        if found is None:
            continue
        blocks += found.st_blocks
        if inode.cut < 0:
            size = max(size, compute_striped_end(index, found.st_size, inode.stripe, count))
            # A write is later than any time set by hand: targets keep the time of writes.
            if found.st_mtime_ns > inode.timed and found.st_mtime_ns > mtime:
                mtime = found.st_mtime_ns
    return size, blocks, mtime


class FileState:
    """See the module. `users` counts open files; the tree guards it."""

    def __init__(
        self, ino: int, store: Store, targets: TargetSet, placed: Callable[[int, list[str]], None] | None = None
    ) -> None:
        self.ino = ino
        self.users = 0
        self.doomed = False
        """It has no name any more: its last close here may remove it."""
        self._placed = placed
        self.lock = threading.RLock()
        self._store = store
        self._set = targets
        self.stripe = 0
        self.targets: list[Target] = []
        self._objects: list[int] = []
        self._known = 0
        self._cuts = 0
        self._recorded = 0
        self._reached = 0
        self._retimed = False
        self._unfinished = False
        self._is_alone = False
        self._owner = getrandbits(62)
        self._closed = False

    def adopt(self, inode: Inode) -> None:
        """Takes over what the store says."""
        with self.lock:
            self._known |= inode.made
            self._cuts, self._recorded = inode.cuts, inode.size
            self._unfinished = inode.cut >= 0
            if inode.capable or (inode.mtime != inode.timed and now_ns() - inode.timed < _TICK_NS):
                self._retimed = True
            if inode.targets and not self.targets:
                targets = self._set.find_targets(inode.targets)
                self.stripe = inode.stripe
                self._objects = [ABSENT] * len(targets)
                self.targets = targets
                if not self._closed:
                    for target in targets:
                        target.count_open(1)

    def mark_retimed(self) -> None:
        """The modification time was set by hand, or capabilities: the next write has to undo it."""
        self._retimed = True

    def find_target(self, offset: int) -> Target | None:
        """The target that holds a byte; None before the first write."""
        targets = self.targets
        if len(targets) < 2:
            return targets[0] if targets else None
        return targets[locate_striped_byte(offset, self.stripe, len(targets))[0]]

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Reads; holes are zeros, the end is where the file ends."""
        if self._unfinished:
            self.finish()
        if not self.targets:
            self.adopt(self._store.read(namespace.get_namespace_inode, self.ino))
            if not self.targets:
                return self._zeros(buffer, offset)
        length = len(buffer)
        if len(self.targets) == 1:
            got = self._read_object(0, offset, [buffer], length)
            return got if got == length else self._rest(buffer, offset, got)
        short = False
        for segment in split_striped_range(offset, length, self.stripe, len(self.targets)):
            pieces = [buffer[start:stop] for start, stop in segment.pieces]
            got = self._read_object(segment.number, segment.offset, pieces, segment.length)
            if got < segment.length:
                short = True
                for piece in pieces:
                    if got < len(piece):
                        _clear(piece, got)
                    got = max(0, got - len(piece))
        return max(0, min(length, self.get_size() - offset)) if short else length

    def _read_object(self, index: int, offset: int, pieces: list[memoryview], length: int) -> int:
        descriptor = self._objects[index]
        if descriptor == ABSENT:
            descriptor = self._open(index, create=False)
            if descriptor == ABSENT:
                return 0
        target = self.targets[index]
        self._set.wait(target, length)
        began = monotonic_ns()
        try:
            got = os.preadv(descriptor, pieces, offset)
        except OSError as error:
            raise target.translate_error(self.ino, index, error) from error
        target.count_request(got, False, began)
        return got

    def _zeros(self, buffer: memoryview, offset: int) -> int:
        return self._rest(buffer, offset, 0)

    def _rest(self, buffer: memoryview, offset: int, got: int) -> int:
        """After `got` bytes the object ends: the file may go on with a hole."""
        end = max(0, min(len(buffer), self.get_size() - offset))
        if end <= got:
            return got
        _clear(buffer[:end], got)
        return end

    def write_from(self, buffer: memoryview, offset: int) -> int:
        """Writes; short when a target is full after some bytes went to others."""
        if self._unfinished:
            self.finish()
        if not self.targets:
            self._assign()
        if self._retimed:
            self._retimed = False
            self._store.write(inode_data.record_inode_write, self.ino, now_ns())
        length = len(buffer)
        if len(self.targets) == 1:
            done = self._write_object(0, offset, [buffer], length)
        else:
            done = self._write_striped(buffer, offset)
        self._reached = max(self._reached, offset + done)
        return done

    def _write_striped(self, buffer: memoryview, offset: int) -> int:
        length = len(buffer)
        done = length
        failed: OSError | None = None
        for segment in split_striped_range(offset, length, self.stripe, len(self.targets)):
            pieces = [buffer[start:stop] for start, stop in segment.pieces]
            try:
                wrote = self._write_object(segment.number, segment.offset, pieces, segment.length)
            except OSError as error:
                failed, wrote = error, 0
            if wrote < segment.length:
                # Only what is whole from the beginning counts as written.
                done = min(done, _position(segment.pieces, wrote))
        if failed is not None and done == 0:
            raise failed
        return done

    def _write_object(self, index: int, offset: int, pieces: list[memoryview], length: int) -> int:
        descriptor = self._objects[index]
        if descriptor == ABSENT or not self._known >> index & 1:
            descriptor = self._open(index, create=True)
        target = self.targets[index]
        self._set.wait(target, length)
        began = monotonic_ns()
        try:
            wrote = os.pwritev(descriptor, pieces, offset)
        except OSError as error:
            raise target.translate_error(self.ino, index, error) from error
        target.count_request(wrote, True, began)
        return wrote

    def _assign(self) -> None:
        with self.lock:
            if self.targets:
                return
            inode = self._store.read(namespace.get_namespace_inode, self.ino)
            if not inode.targets:
                stripe, names = self._set.choose(inode.layout)
                try:
                    inode = self._store.write(inode_data.assign_inode_layout, self.ino, stripe, names)
                    self.adopt(inode)
                finally:
                    self._set.confirm_choice(names)
                if self._placed is not None:
                    self._placed(self.ino, inode.targets)
            self.adopt(inode)

    def _open(self, index: int, *, create: bool) -> int:
        """The descriptor of an object; ABSENT if it does not exist and is not to be made."""
        with self.lock:
            descriptor = self._objects[index]
            if descriptor == ABSENT:
                descriptor = self._objects[index] = self._opened(index, create)
            if create and not self._known >> index & 1:
                inode = self._store.write(inode_data.record_inode_objects, self.ino, 1 << index, 0, self._cuts)
                self._known |= inode.made
            return descriptor

    def _opened(self, index: int, create: bool) -> int:
        target = self.targets[index]
        path = target.get_object_path(self.ino, index)
        try:
            # An object that is known to exist is never made again: it would hide that its target has lost it.
            if create and not self._known >> index & 1:
                with thread_identity.forwarder_identity:
                    return target.make_object(path)
            descriptor = _existing(path)
            if descriptor == ABSENT:
                if not create and not self._store.read(namespace.get_namespace_inode, self.ino).made >> index & 1:
                    return ABSENT
                descriptor = _existing(path)  # another forwarder may have made it just now
            if descriptor == ABSENT:
                raise build_os_error(errno.ENOENT)
        except OSError as error:
            raise target.translate_error(self.ino, index, error) from error
        return descriptor

    def get_size(self) -> int:
        """The size now."""
        return measure_file_state(self._store.read(namespace.get_namespace_inode, self.ino), self._look)[0]

    def stat(self, inode: Inode) -> Attributes:
        """Attributes of a record with what the objects add."""
        return Attributes(inode, *measure_file_state(inode, self._look))

    def _look(self, index: int) -> os.stat_result | None:
        if not self.targets:
            self.adopt(self._store.read(namespace.get_namespace_inode, self.ino))
        # Whoever asks may not have the file open: its last close must not take the descriptor away in between.
        with self.lock:
            if self._closed:
                return self._look_by_path(index)
            descriptor = self._objects[index]
            if descriptor == ABSENT:
                try:
                    descriptor = self._open(index, create=False)
                except OSError:
                    return None
            return None if descriptor == ABSENT else os.fstat(descriptor)

    def _look_by_path(self, index: int) -> os.stat_result | None:
        with suppress(OSError), thread_identity.forwarder_identity:
            return os.stat(self.targets[index].get_object_path(self.ino, index))
        return None

    @contextmanager
    def exclude_others(self) -> Iterator[None]:
        """No other append or truncation of the file runs meanwhile, also none of another forwarder."""
        with self.lock:
            if not self._store.shared or self._is_alone:
                yield
                return
            while not self._took_lock():
                sleep_s(_WAIT_S)
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False
                self._store.unlock_owner(APPEND, self.ino, self._owner)

    def _took_lock(self) -> bool:
        try:
            self._store.lock(APPEND, self.ino, self._owner, WHOLE)
        except BlockingIOError:
            return False
        return True

    def append(self, buffer: memoryview) -> int:
        """Writes at the end of the file."""
        with self.exclude_others():
            return self.write_from(buffer, self.get_size())

    def finish(self) -> None:
        """Ends a truncation that was cut short: what is beyond its size must not come back."""
        with self.exclude_others():
            inode = self._store.read(namespace.get_namespace_inode, self.ino)
            if inode.cut >= 0:
                inode = self.cut(inode)
            self.adopt(inode)

    def truncate(self, size: int) -> Inode:
        """Sets the size."""
        with self.exclude_others():
            inode = self._store.read(namespace.get_namespace_inode, self.ino)
            if inode.cut >= 0:
                inode = self.cut(inode)
            self.adopt(inode)
            cutting = bool(inode.made) and self.get_size() > size
            inode = self._store.write(inode_data.resize_inode, self.ino, size, now_ns(), cutting)
            if cutting:
                inode = self.cut(inode)
            self.adopt(inode)
            self._reached = 0
            return inode

    def cut(self, inode: Inode) -> Inode:
        """Cuts the objects to the size of the record, and notes that it is done."""
        self.adopt(inode)
        for index, target in enumerate(self.targets):
            if inode.made >> index & 1:
                descriptor = self._open(index, create=False)
                length = compute_stripe_object_size(index, inode.size, self.stripe, len(self.targets))
                try:
                    if descriptor != ABSENT and os.fstat(descriptor).st_size > length:
                        os.ftruncate(descriptor, length)
                except OSError as error:
                    raise target.translate_error(self.ino, index, error) from error
        return self._store.write(inode_data.finish_inode_resize, self.ino, inode.cuts, now_ns())

    def open_objects(self, create: bool) -> list[int]:
        """Descriptors of all objects, made first if asked for; ABSENT for one that is not there."""
        if not self.targets and create:
            self._assign()
        return [self._open(index, create=create) for index in range(len(self.targets))]

    def record_extent(self, end: int) -> None:
        """Something was allocated, reaching to `end` of the file."""
        self._reached = max(self._reached, end)

    def record(self) -> None:
        """Notes in the store how far writes reached, so that a lost object is told from a short file."""
        reached, self._reached = self._reached, 0
        if reached > self._recorded and not self.doomed:
            self._recorded = reached
            self._store.write(inode_data.record_inode_objects, self.ino, 0, reached, self._cuts)

    def sync(self, data_only: bool) -> None:
        """Makes what was written durable, by whomever: objects, their names, the record."""
        self.adopt(self._store.read(namespace.get_namespace_inode, self.ino))
        folders = set()
        for index, target in enumerate(self.targets):
            if not self._known >> index & 1:
                continue
            try:
                (os.fdatasync if data_only else os.fsync)(self._open(index, create=False))
                folders.add(os.path.dirname(target.get_object_path(self.ino, index)))
            except OSError as error:
                raise target.translate_error(self.ino, index, error) from error
        for folder in folders:
            _sync_folder(folder)
        self.record()
        self._store.sync()

    def close(self) -> None:
        """Closes the objects."""
        with self.lock:
            self._closed = True
            with suppress(OSError):  # the store is gone: the size is found in the objects again
                self.record()
            for index, descriptor in enumerate(self._objects):
                if descriptor != ABSENT:
                    os.close(descriptor)
                    self._objects[index] = ABSENT
            for target in self.targets:
                target.count_open(-1)


def _existing(path: str) -> int:
    try:
        with thread_identity.forwarder_identity:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ABSENT


def _clear(buffer: memoryview, start: int) -> None:
    buffer[start:] = bytes(len(buffer) - start)


def _position(pieces: list[tuple[int, int]], wrote: int) -> int:
    """Position in the buffer of byte `wrote` of a segment."""
    for start, stop in pieces:
        if wrote < stop - start:
            return start + wrote
        wrote -= stop - start
    return pieces[-1][1]


def _sync_folder(path: str) -> None:
    with thread_identity.forwarder_identity:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise build_os_error(errno.EIO) from error
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
