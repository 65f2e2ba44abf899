"""What a forwarder is about to do and what came of it, on record before it does it, so that a request sent again after
its forwarder was lost is carried out once. Layout and judgement; who calls it is `exactly_once`.

    empty ── `begin` ──► begun ── `finish` ──► done ── place used again ──► empty
                           └──── `drop` ─────────────────────────────────► empty

A file holds the intents of one client session at one forwarder. It is mapped: what is written survives the process,
not the machine.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from enum import Enum
from errno import EINVAL, ENAMETOOLONG, EOPNOTSUPP
from struct import Struct
from threading import Lock
from typing import NamedTuple

from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.os_errors import build_os_error

RECORDS = 1024
"""Intents in a file. More than a client may have unanswered several times over: the record of an answer that was not
received yet is never overwritten."""
RECORD_BYTES = 640
_HEAD = Struct("<BBHHHQQQQQQQq")
"""state, opcode, flags, lengths of the two names, request id, parent, other node, expected inode, its mark, second
inode, when (ns), outcome."""
_NAME_BYTES = 255
_EMPTY, _BEGUN, _DONE = 0, 1, 2
_OUTCOME_AT = _HEAD.size - 8
_OUTCOME = Struct("<q")
RENAME_EXCHANGE = 2


class Intent(NamedTuple):
    """One record."""

    number: int
    op: int
    parent: int
    name: bytes
    other: int = 0
    """New parent of a RENAME, node of a LINK, handle's node of an append."""
    new_name: bytes = b""
    expected: int = 0
    """The inode the name had (or is to get, for CREATE), 0: none. Of an append: the size before."""
    mark: int = 0
    """Tells a new file with the same inode number apart: the inode's mtime (CREATE) or ctime (ns)."""
    second: int = 0
    """The inode the new name had before, 0: none. Of an append: bytes to write."""
    flags: int = 0
    when_ns: int = 0
    done: bool = False
    outcome: int = 0
    """When done: -errno, or the inode made, or the bytes written."""


class EntryState(NamedTuple):
    """What is there now: inode and mark of the name and the inode of the new name, 0 where there is none."""

    inode: int
    mark: int
    new_inode: int = 0


class Verdict(Enum):
    """What to do with a request whose intent has no outcome."""

    DONE = "it was carried out"
    LIKELY = "it was most likely carried out; others may have been at it since"
    AGAIN = "it was not carried out"
    LIKELY_NOT = "it was most likely not carried out; others may have been at it since"

    @property
    def carried_out(self) -> bool:
        """Whether it is answered without being carried out."""
        return self in (Verdict.DONE, Verdict.LIKELY)

    @property
    def sure(self) -> bool:
        """False for what is listed as ambiguous in docs/reference/forwarding-durability.md."""
        return self in (Verdict.DONE, Verdict.AGAIN)


def judge_intent(intent: Intent, found: EntryState) -> Verdict:
    """Whether an intent without an outcome was carried out, from what is there now. Not for appends."""
    if intent.op == Op.CREATE:
        if not intent.expected:
            return _made(intent, found)
        if found.inode != intent.expected:
            return Verdict.AGAIN
        return Verdict.DONE if found.mark == intent.mark else Verdict.LIKELY_NOT
    if intent.op in (Op.MKDIR, Op.MKNOD, Op.SYMLINK):
        return _made(intent, found)
    if intent.op == Op.LINK:
        return Verdict.DONE if found.inode == intent.expected and not intent.second else Verdict.AGAIN
    if intent.op in (Op.UNLINK, Op.RMDIR):
        if not intent.expected:
            return Verdict.AGAIN
        if found.inode != intent.expected:
            return Verdict.DONE
        return Verdict.AGAIN if found.mark == intent.mark else Verdict.LIKELY_NOT
    if intent.op in (Op.RENAME, Op.RENAME2):
        return _renamed(intent, found)
    return Verdict.AGAIN


def _made(intent: Intent, found: EntryState) -> Verdict:
    """A name that was absent and is there now; whose it is cannot be seen."""
    if intent.second or not found.inode:
        return Verdict.AGAIN
    return Verdict.LIKELY


def _renamed(intent: Intent, found: EntryState) -> Verdict:
    if not intent.expected:
        return Verdict.AGAIN
    if intent.flags & RENAME_EXCHANGE:
        swapped = found.inode == intent.second and found.new_inode == intent.expected
        return Verdict.DONE if swapped and intent.second != intent.expected else Verdict.AGAIN
    if found.inode == intent.expected:
        return Verdict.AGAIN
    return Verdict.DONE if found.new_inode == intent.expected else Verdict.LIKELY


def find_intent_append(data: bytes | memoryview, since: bytes) -> tuple[int, bool]:
    """How many bytes of an append are in the file already, and whether that is sure.

    `since` is what the file holds from the size before on. Appends of one forwarder follow each other, so it begins
    where ours went; only another forwarder's may lie in between.
    """
    wanted = bytes(data)
    if not since:
        return 0, True
    if since[: len(wanted)] == wanted:
        return len(wanted), True
    if len(since) < len(wanted) and wanted[: len(since)] == since:
        return len(since), True
    return (len(wanted), False) if wanted in since else (0, False)


class IntentFile:
    """The intents of one session at one forwarder. Thread-safe."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor of a file opened for reading and writing, which it sizes."""
        self._descriptor = descriptor
        # A hole in the file would kill the process (SIGBUS) when it is written to on a full disk.
        try:
            os.posix_fallocate(descriptor, 0, RECORDS * RECORD_BYTES)
        except OSError as error:
            if error.errno not in (EINVAL, EOPNOTSUPP):
                raise
            os.ftruncate(descriptor, RECORDS * RECORD_BYTES)
        self._memory = mmap.mmap(descriptor, RECORDS * RECORD_BYTES)
        self._free = deque(range(RECORDS))
        self._lock = Lock()

    def begin(self, intent: Intent) -> int:
        """Puts the intent on record; the number of its place. ENAMETOOLONG for names no file can have."""
        if len(intent.name) > _NAME_BYTES or len(intent.new_name) > _NAME_BYTES:
            raise build_os_error(ENAMETOOLONG)
        with self._lock:
            place = self._free.popleft()
        at = place * RECORD_BYTES
        memory = self._memory
        memory[at] = _EMPTY
        names = intent.name + intent.new_name
        begin = at + _HEAD.size
        memory[begin : begin + len(names)] = names
        _HEAD.pack_into(
            memory,
            at,
            _EMPTY,
            intent.op,
            intent.flags & 0xFFFF,
            len(intent.name),
            len(intent.new_name),
            intent.number,
            intent.parent,
            intent.other,
            intent.expected,
            intent.mark,
            intent.second,
            intent.when_ns,
            0,
        )
        memory[at] = _BEGUN  # last: a record is whole or is none
        return place

    def finish(self, place: int, outcome: int) -> None:
        """Puts on record what came of it; the place is used again when many others have been."""
        at = place * RECORD_BYTES
        _OUTCOME.pack_into(self._memory, at + _OUTCOME_AT, outcome)
        self._memory[at] = _DONE
        with self._lock:
            self._free.append(place)

    def drop(self, place: int) -> None:
        """It was not begun after all."""
        self._memory[place * RECORD_BYTES] = _EMPTY
        with self._lock:
            self._free.append(place)

    def close(self) -> None:
        """Ends the mapping; the file stays."""
        self._memory.close()
        os.close(self._descriptor)
        self._descriptor = -1

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def is_removed(self) -> bool:
        """Whether the file has been removed meanwhile."""
        return os.fstat(self._descriptor).st_nlink == 0


def read_intents(content: bytes) -> dict[int, Intent]:
    """The intents in a file by request id; of several of one request the one that is done, else the latest."""
    found: dict[int, Intent] = {}
    for at in range(0, len(content) - RECORD_BYTES + 1, RECORD_BYTES):
        state = content[at]
        if state not in (_BEGUN, _DONE):
            continue
        (_, op, flags, first, second, number, parent, other, expected, mark, there, when, outcome) = _HEAD.unpack_from(
            content, at
        )
        begin = at + _HEAD.size
        middle = begin + first
        intent = Intent(
            number=number,
            op=op,
            parent=parent,
            name=content[begin:middle],
            other=other,
            new_name=content[middle : middle + second],
            expected=expected,
            mark=mark,
            second=there,
            flags=flags,
            when_ns=when,
            done=state == _DONE,
            outcome=outcome if state == _DONE else 0,
        )
        found[number] = choose_intent(found.get(number), intent)
    return found


def choose_intent(first: Intent | None, second: Intent) -> Intent:
    """Of two records of one request the one to go by."""
    if first is None or (second.done, second.when_ns) >= (first.done, first.when_ns):
        return second
    return first
