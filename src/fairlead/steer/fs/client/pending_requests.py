"""Requests that wait for their answer, by request id: what is needed to answer them, and to send them again.

An entry is a plain tuple: one is made for every request of the kernel.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Final, TypeAlias

from fairlead.steer.fs.fuse.abi import IN_HEADER, LK_IN, Op
from fairlead.steer.fs.wire.frames import HEAD_BYTES, JOB_IN, PLACE_STEP, REOPEN_IN, Own
from fairlead.steer.fs.wire.slots import SLOT_BYTES

Entry: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, bytes | None]
"""unique (0: fairlead's own request), opcode, slot (-1: none), node, handle, offset, size, start (ns), job index,
message (None: it is in the slot)."""
UNIQUE: Final = 0
OPCODE: Final = 1
SLOT: Final = 2
NODE: Final = 3
HANDLE: Final = 4
SIZE: Final = 6
MESSAGE: Final = 9


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
        return sum(1 for entry in requests.values() if entry[OPCODE] != Op.SETLKW) < _MOST

    def of_unique(self, unique: int) -> int | None:
        """The request with the kernel's number `unique`, newest first."""
        return next((number for number in reversed(self.requests) if self.requests[number][UNIQUE] == unique), None)

    def forget_own(self) -> None:
        """The connection is lost: fairlead's own requests on it mean nothing any more."""
        for number in [number for number, entry in self.requests.items() if entry[UNIQUE] == 0]:
            del self.requests[number]
        self.repairs.clear()
        self.attempts.clear()

    def move(self, old: list[memoryview], new: list[memoryview]) -> int:
        """Copies the messages that are in slots into other slots, from the first on; returns how many there are. The
        forwarder that was left may still write into the old ones."""
        used = 0
        for number, entry in list(self.requests.items()):
            if entry[SLOT] >= 0:
                if used == len(new):
                    new.append(memoryview(bytearray(SLOT_BYTES)))
                length = HEAD_BYTES + (entry[SIZE] if entry[OPCODE] == Op.WRITE else 0)
                new[used][:length] = old[entry[SLOT]][:length]
                self.requests[number] = (*entry[:2], used, *entry[3:])
                used += 1
        return used

    def sent_and_waiting(self) -> int:
        """How many requests of the kernel a forwarder has and has not answered."""
        return len(self.requests) - len(self.unsent)


_UID, _GID = os.geteuid(), os.getegid()


def build_own_message(opcode: int, node: int, body: bytes = b"", request: int = 0) -> bytes:
    """A request of fairlead's own in a kernel header."""
    return IN_HEADER.pack(IN_HEADER.size + len(body), opcode, request, node, _UID, _GID, os.getpid(), 0, 0) + body


def build_job_message(index: int, identity: bytes) -> bytes:
    """Own.JOB."""
    return build_own_message(Own.JOB, 0, JOB_IN.pack(index, 0) + identity)


def build_place_message(node: int, steps: list[tuple[int, bytes]]) -> bytes:
    """Own.PLACE."""
    body = b"".join(PLACE_STEP.pack(parent, len(name), 0) + name for parent, name in steps)
    return build_own_message(Own.PLACE, node, body)


def build_reopen_message(node: int, flags: int, *, directory: bool) -> bytes:
    """Own.REOPEN; the handle goes into the prefix."""
    return build_own_message(Own.REOPEN, node, REOPEN_IN.pack(flags, int(directory), 0))


def build_lock_message(
    node: int, handle: int, owner: int, start: int, end: int, kind: int, pid: int, flags: int
) -> bytes:
    """SETLK, as the kernel would send it."""
    return build_own_message(Op.SETLK, node, LK_IN.pack(handle, owner, start, end, kind, pid, flags, 0))
