"""Has again at a new forwarder what must not be lost: open files without a name, and locks.

Blocking calls on a connection nobody else uses yet. Handles of files that have a name are opened again when a request
needs them (`repairs`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.steer.fs.client.held_state import Handle, HeldLock, Holdings
from fairlead.steer.fs.client.link import Link
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.client.own_requests import (
    build_own_lock_request,
    build_own_place_request,
    build_own_reopen_request,
    exchange_own_request,
)
from fairlead.steer.fs.fuse.abi import LK_FLOCK

_TIMES = 12
"""How often a file is opened again whose place the forwarder forgets meanwhile."""
_LOCK_S = 15.0
"""How long a lock is asked for again: a forwarder that lives without us keeps it for its grace period."""


def reclaim_open_files(
    link: Link, nodes: Nodes, holdings: Holdings, ids: Iterator[int], say: Callable[[str], None]
) -> None:
    """Opens what must be open now: files without a name, and those with locks. What cannot be had is said and left."""
    wanted = {number for number, held in list(holdings.handles.items()) if nodes.is_unlinked(held.node)}
    wanted.update(number for lock in holdings.list_locks() if (number := _handle(lock, holdings)) is not None)
    for number in sorted(wanted):
        held = holdings.handles.get(number)
        if held is None:
            continue
        error = _open(link, nodes, ids, held, number)
        if error:
            say(f"an open file (node {held.node}) cannot be opened again: error {error}")


def _open(link: Link, nodes: Nodes, ids: Iterator[int], held: Handle, number: int) -> int:
    """One of them; the error. A place that is told may be forgotten before it is used (see `Repairs.answered`)."""
    error = 0
    for _ in range(_TIMES):
        steps = nodes.find_steps(held.node)
        if steps:
            exchange_own_request(link, ids, build_own_place_request(held.node, steps))
        error, _ = exchange_own_request(
            link, ids, build_own_reopen_request(held.node, held.flags, directory=held.directory), number
        )
        if error <= 0 or not steps:
            break
    return error


def reclaim_locks(link: Link, holdings: Holdings, ids: Iterator[int], say: Callable[[str], None]) -> None:
    """Takes every lock that is held. One that another client was quicker to take is said and left."""
    for lock in holdings.list_locks():
        number = _handle(lock, holdings)
        error = -errno.EBADF if number is None else _take(link, ids, lock, number)
        if error:
            say(f"a lock of process {lock.pid} on node {lock.node} is lost: error {error}")


def _handle(lock: HeldLock, holdings: Holdings) -> int | None:
    return lock.handle if lock.handle in holdings.handles else holdings.find_handle(lock.node)


def _take(link: Link, ids: Iterator[int], lock: HeldLock, handle: int) -> int:
    deadline = monotonic_s() + _LOCK_S
    flags = LK_FLOCK if lock.flock else 0
    message = build_own_lock_request(lock.node, handle, lock.owner, lock.start, lock.end, lock.kind, lock.pid, flags)
    while True:
        error, _ = exchange_own_request(link, ids, message)
        if error != -errno.EAGAIN or monotonic_s() > deadline:
            return error
        sleep_s(0.05)
