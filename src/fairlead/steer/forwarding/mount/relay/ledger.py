"""Requests that wait for their reply, by request number: what is needed to answer them, and to send them again."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.wire.frames import HEAD_BYTES
from fairlead.steer.fs.wire.slots import SLOT_BYTES


class Entry(NamedTuple):
    """A request without its reply. Where one is made for each READ or WRITE, `tuple.__new__` is called: the class's own
    constructor takes twice the time."""

    unique: int = 0
    """The kernel's number of the request; 0 for fairlead's own."""
    op: int = 0
    slot: int = -1
    """Where the message of a READ or WRITE is; -1: it is in `message`."""
    node: int = 0
    handle: int = 0
    offset: int = 0
    size: int = 0
    started_ns: int = 0
    job: int = 0
    message: bytes | None = None


_MOST = 192
"""Requests without an answer after which the kernel has to wait (a forwarder listens to 256 of one client)."""


class Ledger:
    """Outstanding requests in the order they were made."""

    def __init__(self) -> None:
        self.requests: dict[int, Entry] = {}
        self.ids = count(1)
        self.unsent: dict[int, None] = {}
        """Those of `requests` that were never sent: to be sent without `Flag.RETRY`."""
        self.repairs: dict[int, int] = {}
        """fairlead's own request → the request that is sent again when it is answered."""
        self.attempts: dict[int, int] = {}
        """How often a request was refused and sent again."""

    def has_room(self) -> bool:
        """Whether another request may be made. Who waits for a lock does not count: what releases it must come
        through."""
        requests = self.requests
        if len(requests) < _MOST:
            return True
        return sum(1 for entry in requests.values() if entry.op != Op.SETLKW) < _MOST

    def find_unique(self, unique: int) -> int | None:
        """The request with the kernel's number `unique`, newest first."""
        return next((number for number in reversed(self.requests) if self.requests[number].unique == unique), None)

    def forget_own(self) -> None:
        """The connection is lost: fairlead's own requests on it mean nothing any more."""
        for number in [number for number, entry in self.requests.items() if entry.unique == 0]:
            del self.requests[number]
        self.repairs.clear()
        self.attempts.clear()

    def move(self, old: list[memoryview], new: list[memoryview]) -> int:
        """Copies the messages that are in slots into other slots, from the first on; returns how many there are. The
        forwarder that was left may still write into the old ones."""
        used = 0
        for number, entry in list(self.requests.items()):
            if entry.slot >= 0:
                if used == len(new):
                    new.append(memoryview(bytearray(SLOT_BYTES)))
                length = HEAD_BYTES + (entry.size if entry.op == Op.WRITE else 0)
                new[used][:length] = old[entry.slot][:length]
                self.requests[number] = entry._replace(slot=used)
                used += 1
        return used

    def count_waiting(self) -> int:
        """How many requests of the kernel a forwarder has and has not answered."""
        return len(self.requests) - len(self.unsent)
