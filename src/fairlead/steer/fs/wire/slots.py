"""Shared memory between a mount and a forwarder on the same host: slots that take one kernel message each.

The client makes it and may not change its size any more; the forwarder checks that before it maps it.
"""

from __future__ import annotations

import fcntl
import mmap
import os

from fairlead.steer.fs.fuse.abi import MESSAGE_BYTES, PAGE
from fairlead.steer.fs.wire.frames import HEAD_BYTES

SLOT_BYTES = -(-MESSAGE_BYTES // PAGE) * PAGE
MAX_SLOTS = 256
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class Slots:
    """The memory of `count` slots, mapped. `views[i]` is slot i as a writable memoryview.

    The other side can write to it at any time: nothing but file data is ever taken from it.
    """

    def __init__(self, memory: mmap.mmap, descriptor: int, count: int) -> None:
        self.descriptor = descriptor
        """The memfd while this side still holds it (the client: to pass it on), else -1."""
        self.count = count
        self._memory = memory
        whole = memoryview(memory)
        self.views = [whole[i * SLOT_BYTES : (i + 1) * SLOT_BYTES] for i in range(count)]
        self.data = [view[HEAD_BYTES:] for view in self.views]
        """The part of each slot that takes the data of a READ or WRITE."""
        whole.release()

    def close(self) -> None:
        """Gives the memory back; slices that are still in use keep it until they are gone."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self.count = 0
        self.views = []
        self.data = []
        try:
            self._memory.close()
        except BufferError:
            return  # a request is still reading or writing; the last slice frees it


def make_slots(count: int) -> Slots:
    """New memory for `count` slots (the client's side); its pages are taken when they are first used."""
    descriptor = os.memfd_create("fairlead-slots", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, count * SLOT_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        memory = mmap.mmap(descriptor, count * SLOT_BYTES)
    except OSError:
        os.close(descriptor)
        raise
    return Slots(memory, descriptor, count)


def take_slots(descriptor: int, count: int) -> Slots:
    """Maps a client's memory (the forwarder's side) and closes the descriptor.

    ValueError when it is no sealed memory of exactly `count` slots.
    """
    try:
        if not 0 < count <= MAX_SLOTS:
            raise ValueError(f"{count} slots; 1 to {MAX_SLOTS} are possible")
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError:
            raise ValueError("the descriptor passed is no memory file") from None
        if seals & _SEALS != _SEALS:
            raise ValueError("the memory passed is not sealed against a change of its size")
        if os.fstatvfs(descriptor).f_bsize != mmap.PAGESIZE:  # huge pages can run out: the access would kill us
            raise ValueError("the memory passed is not made of ordinary pages")
        if os.fstat(descriptor).st_size != count * SLOT_BYTES:
            raise ValueError("the memory passed has another size than the slots announced")
        try:
            memory = mmap.mmap(descriptor, count * SLOT_BYTES)
        except OSError as error:
            raise ValueError(f"the memory passed cannot be mapped: {error}") from None
        return Slots(memory, -1, count)
    finally:
        os.close(descriptor)
