"""Small writes that wait next to each other in a file become one: one pwritev, then each is answered.

What is answered is in the backing file system, as with every write. A write that the one did not carry out whole is
carried out alone, so that each gets its own answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.steer.forwarding.forwarder.request import Request
from fairlead.steer.fs.fuse.abi import WRITE_KILL_SUIDGID, Op
from fairlead.steer.fs.wire.frames import Flag

if TYPE_CHECKING:
    from fairlead.decide.policies.requests.contract import Discipline, Waiting
    from fairlead.steer.fs.trees.base import OpenFile

SMALL = 64 << 10
"""Writes above this gain nothing."""
MOST = 1 << 20
"""Bytes of one aggregated write."""
_ALIKE = os.O_ACCMODE | os.O_APPEND | os.O_SYNC | os.O_DSYNC
"""What two handles must have been opened with alike."""
_WRITE = int(Op.WRITE)
_RETRY = int(Flag.RETRY)
_write_in = Struct("<QQII").unpack_from
"""fh, offset, size, write_flags."""


class Aggregation:
    """Finds what goes together, and writes it together. `take_adjacent` is called by one thread at a time."""

    def __init__(self) -> None:
        self.writes = 0
        """Aggregated writes carried out."""
        self.requests = 0
        """Requests they were made of."""
        self._first: Request | None = None

    def take_adjacent(self, queued: Discipline, request: Request, now_ns: int) -> Sequence[Request]:
        """Takes what waits next to a write that was just taken; empty for anything else."""
        if request.op != _WRITE or request.size > SMALL or not _plain(request):
            return ()
        self._first = request
        return queued.take_along(request, self._adjacent, now_ns)  # type: ignore[return-value]  # they are Requests

    def _adjacent(self, waiting: list[Waiting]) -> list[Waiting]:
        """Those of the same file that continue `_first` upwards or downwards without a gap or an overlap."""
        first = self._first
        assert first is not None
        node = first.node
        file = _file(first)
        if file is None or file.flags & os.O_APPEND:
            return []
        # Of two writes to the same place the order is not ours to choose: both stay where they are.
        starts: dict[int, Request | None] = {}
        for one in waiting:
            assert isinstance(one, Request)
            if one.node == node and 0 < one.size <= SMALL and _plain(one):
                start = _offset(one)
                starts[start] = None if start in starts or not _joins(one, first, file) else one
        if not starts:
            return []
        begin = _offset(first)
        end = begin + first.size
        room = MOST - first.size
        chosen: list[Waiting] = []
        while (up := starts.pop(end, None)) is not None and up.size <= room:
            chosen.append(up)
            end += up.size
            room -= up.size
        ends = {start + one.size: one for start, one in starts.items() if one is not None}
        while (down := ends.pop(begin, None)) is not None and down.size <= room:
            chosen.append(down)
            begin -= down.size
            room -= down.size
        return chosen

    def write(self, requests: Sequence[Request]) -> None:
        """Writes them as one, and marks those that were written whole (`written`). Never raises for the file."""
        there = [one for one in requests if not one.connection.dead and one.data is not None]
        there.sort(key=_offset)
        if len(there) < 2:
            return
        file = _file(there[0])
        if file is None:
            return
        pieces = [one.data for one in there if one.data is not None]
        begin = _offset(there[0])
        try:
            # Only a file that is one descriptor: a wrapped one must see the write.
            together = getattr(file, "write_pieces", None) if file.descriptor is not None else None
            if together is not None:
                count = together(pieces, begin)
            else:
                count = file.write_from(memoryview(b"".join(pieces)), begin)
        except (OSError, ValueError):
            return  # each alone finds out what is wrong with it
        self.writes += 1
        self.requests += len(there)
        for one in there:
            one.written = _offset(one) + one.size <= begin + count


def _offset(request: Request) -> int:
    return _write_in(request.body)[1]  # type: ignore[no-any-return]


def _file(request: Request) -> OpenFile | None:
    return request.session.handles.files.get(_write_in(request.body)[0])


def _plain(request: Request) -> bool:
    return (
        not request.flags & _RETRY
        and request.data is not None
        and len(request.body) >= 24
        and not _write_in(request.body)[3] & WRITE_KILL_SUIDGID
    )


def _joins(one: Request, first: Request, file: OpenFile) -> bool:
    """Whether it may be written by the first one's handle: the same user, a handle opened the same way."""
    other = _file(one)
    return (
        other is not None
        and other.node == file.node
        and not (other.flags ^ file.flags) & _ALIKE
        and (one.uid, one.gid) == (first.uid, first.gid)
    )
