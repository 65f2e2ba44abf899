"""A ring of finished requests: one thread puts them in, another takes them out, and neither ever waits for the other.

Standard library only. What the records mean and what becomes of them is `trace`.
"""

from __future__ import annotations

from struct import Struct

RECORD = Struct("<HHiQQqqqq")
"""opcode, job index, error, node, handle, offset, bytes moved, start and end on the monotonic clock (56 bytes)."""
NO_OFFSET = -1
DEFAULT_CAPACITY = 1 << 16
WAKE_EVERY = 1 << 13
"""Requests after which a drain that sleeps is woken, so that a burst finds room."""


class Ring:
    """Room for `capacity` requests (a power of two). `put` belongs to one thread, `take` to one other."""

    __slots__ = ("_buffer", "_capacity", "_head", "_mask", "_pack", "_tail", "_wake", "dropped")

    def __init__(self, capacity: int = DEFAULT_CAPACITY, wake: object | None = None) -> None:
        """`wake` is a `threading.Event` that is set every WAKE_EVERY requests."""
        assert capacity > 0
        assert capacity & (capacity - 1) == 0, "a power of two"
        self._buffer = bytearray(capacity * RECORD.size)
        self._capacity = capacity
        self._mask = capacity - 1
        self._pack = RECORD.pack_into
        self._head = 0
        self._tail = 0
        self._wake = getattr(wake, "set", None)
        self.dropped = 0
        """Requests that found the ring full, since the start."""

    @property
    def head(self) -> int:
        """How many requests were put in since the start."""
        return self._head

    def put(
        self,
        op: int,
        node: int,
        handle: int,
        offset: int,
        size: int,
        started_ns: int,
        ended_ns: int,
        job: int = 0,
        error: int = 0,
    ) -> None:
        """Records one request; when the ring is full it is only counted."""
        head = self._head
        if head - self._tail >= self._capacity:
            self.dropped += 1
            return
        at = (head & self._mask) * 56
        self._pack(self._buffer, at, op, job, error, node, handle, offset, size, started_ns, ended_ns)
        # Counted after it is written: who takes sees whole records only.
        self._head = head + 1
        if not head & 0x1FFF and self._wake is not None:
            self._wake()

    def take(self) -> list[bytes]:
        """Everything that is in the ring, in order, as at most two stretches of RECORDs; the ring is empty then."""
        head, tail = self._head, self._tail
        if head == tail:
            return []
        first, last = tail & self._mask, head & self._mask
        size = RECORD.size
        if first < last:
            parts = [bytes(self._buffer[first * size : last * size])]
        else:
            parts = [bytes(self._buffer[first * size :]), bytes(self._buffer[: last * size])]
        self._tail = head
        return [part for part in parts if part]
