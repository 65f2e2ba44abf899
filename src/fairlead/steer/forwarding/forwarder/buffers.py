"""Memory for the data of requests that come or go without a slot: few large buffers, used again and again."""

from __future__ import annotations

from fairlead.steer.fs.wire.frames import MAX_FRAME

SMALL = 64 << 10
"""Up to this size a fresh buffer costs less than keeping one."""
KEPT = 64


class BufferPool:
    """A stack of buffers of `MAX_FRAME` bytes. Safe for threads: a list's append and pop are."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take_buffer(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes with anything in it."""
        if size <= SMALL:
            return bytearray(size)
        try:
            return self._free.pop()
        except IndexError:
            return bytearray(MAX_FRAME)

    def give(self, buffer: bytearray) -> None:
        """Takes back a buffer nobody uses any more."""
        if len(buffer) == MAX_FRAME and len(self._free) < KEPT:
            self._free.append(buffer)
