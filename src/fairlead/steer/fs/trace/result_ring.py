"""A ring of finished requests: one thread puts them in, another takes them out, and neither ever waits for the other.

Standard library only. What the records mean and what becomes of them is `trace`.
"""

from __future__ import annotations

from itertools import count
from struct import Struct

RECORD = Struct("<HHiQQqqqq")
"""opcode, job index, error, node, handle, offset, bytes moved, start and end on the monotonic clock (56 bytes)."""
NO_RECORD = 0
"""An opcode that no request has: the place is skipped."""
DEFAULT_CAPACITY = 1 << 16


class Ring:
    """Room for `capacity` requests; when it is full the oldest are overwritten, and counted. `put` belongs to one
    thread, `take` to one other.

    Putting is two calls into C, because that is what it costs between system calls, where no cache is warm. Who has
    no time for a third does them itself: `pack(buffer, next(places) % room, *record)`.
    """

    __slots__ = ("_tail", "buffer", "dropped", "pack", "places", "room")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.room = capacity * RECORD.size
        self.buffer = bytearray(self.room)
        self.pack = RECORD.pack_into
        self.places = count(0, RECORD.size)
        """Places of records since the start, in bytes; never taken back, so they order everything."""
        self.dropped = 0
        """Requests that were overwritten before they were taken."""
        self._tail = 0

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
    ) -> int:
        """Records one request; its place."""
        place = next(self.places)
        at = place % self.room
        self.pack(self.buffer, at, op, job, error, node, handle, offset, size, started_ns, ended_ns)
        return place

    def take_parts(self, *, everything: bool = False) -> tuple[int, list[bytes]]:
        """What is in the ring, in order, as at most two stretches of RECORDs, and the place of the first.

        A place may have been drawn and not been written yet: the last one stays for the next time unless `everything`
        is asked for, by who knows that nobody puts just now."""
        end = self.put(NO_RECORD, 0, 0, 0, 0, 0, 0)
        oldest = end + RECORD.size - self.room
        if not everything:
            end -= RECORD.size
        tail = self._tail
        if end <= tail:
            return tail, []
        if tail < oldest:
            self.dropped += (oldest - tail) // RECORD.size
            tail = oldest
        self._tail = end
        first, last = tail % self.room, end % self.room
        if first < last:
            return tail, [bytes(self.buffer[first:last])]
        return tail, [part for part in (bytes(self.buffer[first:]), bytes(self.buffer[:last])) if part]
