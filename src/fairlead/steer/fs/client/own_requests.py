"""Requests of fairlead's own, in the form of the kernel's: what a client sends to restore its state at a forwarder.

`exchange_own_request` waits for the reply: only for a connection nobody else uses yet.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

from fairlead.core.clock import monotonic_s
from fairlead.steer.fs.client.link import Link, LinkLostError, read_link_reply
from fairlead.steer.fs.fuse.abi import IN_HEADER, LK_IN, Op
from fairlead.steer.fs.wire.frames import JOB_IN, PLACE_STEP, REOPEN_IN, Own

_ANSWER_S = 10.0
_UID, _GID = os.geteuid(), os.getegid()


def build_own_request(opcode: int, node: int, body: bytes = b"", request: int = 0) -> bytes:
    """A request of fairlead's own in a kernel header."""
    return IN_HEADER.pack(IN_HEADER.size + len(body), opcode, request, node, _UID, _GID, os.getpid(), 0, 0) + body


def build_own_job_request(index: int, identity: bytes) -> bytes:
    """Own.JOB."""
    return build_own_request(Own.JOB, 0, JOB_IN.pack(index, 0) + identity)


def build_own_place_request(node: int, steps: list[tuple[int, bytes]]) -> bytes:
    """Own.PLACE."""
    body = b"".join(PLACE_STEP.pack(parent, len(name), 0) + name for parent, name in steps)
    return build_own_request(Own.PLACE, node, body)


def build_own_reopen_request(node: int, flags: int, *, directory: bool) -> bytes:
    """Own.REOPEN; the handle goes into the prefix."""
    return build_own_request(Own.REOPEN, node, REOPEN_IN.pack(flags, int(directory), 0))


def build_own_lock_request(
    node: int, handle: int, owner: int, start: int, end: int, kind: int, pid: int, flags: int
) -> bytes:
    """SETLK, as the kernel would send it."""
    return build_own_request(Op.SETLK, node, LK_IN.pack(handle, owner, start, end, kind, pid, flags, 0))


def exchange_own_request(link: Link, ids: Iterator[int], message: bytes, handle: int = 0) -> tuple[int, bytes]:
    """One request and its answer: (error, body). LinkLostError when none comes."""
    number = next(ids)
    link.put(number, 0, handle, message)
    deadline = monotonic_s() + _ANSWER_S
    sent = link.flush()
    while True:
        reply = read_link_reply(link)
        while reply is not None:
            if reply[0] == number:
                return reply[1], bytes(reply[2])
            reply = read_link_reply(link)
        left = deadline - monotonic_s()
        if left <= 0:
            raise LinkLostError("no answer in time")
        if sent:
            select.select([link.descriptor], [], [], left)
            link.receive()
        else:
            select.select([], [link.descriptor], [], left)
            sent = link.flush()


def send_own_farewell(link: Link, ids: Iterator[int]) -> None:
    """Tells a forwarder that is left that nothing more will come: it gives back locks and files at once."""
    link.put(next(ids), 0, 0, build_own_request(Op.DESTROY, 0))
    link.flush()
