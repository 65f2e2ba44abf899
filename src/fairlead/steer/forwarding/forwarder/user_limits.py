"""What one user may hold of a forwarder: open files, and parts of what his connections may hold together.

Open files, of the forwarder's `capacity`:

    user    may open while it holds fewer than are left free: alone at most half, one of n at most 1/(n+1)
    session may open while it holds fewer than three quarters of what its user would end with

so somebody else always finds room; the forwarder's own user may have all. Requests, bytes and job ids are limited by
connection (`connection`): each gets a part of its user's. Not here: how many connections a user has (`listeners`).
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable
from errno import EMFILE
from threading import Lock
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_s
from fairlead.steer.forwarding.forwarder.connection import MOST_HELD, MOST_PENDING
from fairlead.steer.fs.os_errors import build_os_error

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.connection import Connection
    from fairlead.steer.forwarding.forwarder.request import Request
    from fairlead.steer.fs.sessions import Handles

log = logging.getLogger("fairlead.forwarder")
FEW_FILES = 64
"""Open files everybody may have, however many others have."""
USER_PENDING, USER_HELD, USER_JOBS = 1024, 256 << 20, 16_384
"""Requests, bytes of them and job ids of all connections of a user together, as long as each gets its least."""
_LEAST_PENDING, _LEAST_HELD, _LEAST_JOBS = 4, 256 << 10, 64
MOST_JOBS = 4096
"""Jobs one connection may announce."""
_SAID_S = 60.0


def find_file_capacity() -> int:
    """Open files this process leaves to its clients: three quarters of its descriptors, the rest are connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(FEW_FILES, soft * 3 // 4 - 256)


class FileLimits:
    """Counts open files by user and by session. Any thread."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._own_uid = os.geteuid()
        self._total = 0
        self._of_user: dict[int, int] = {}
        self._said: dict[int, float] = {}
        self._lock = Lock()

    def wrap_opening(self, action: Callable[[Request], bytes | memoryview]) -> Callable[[Request], bytes | memoryview]:
        """What opens a file, counted; EMFILE for a user or a session that holds its part."""

        def act(request: Request) -> bytes | memoryview:
            holders, user, handle = request.session.handles.holders, request.uid, request.handle
            with self._lock:
                # Invariant: counted before it is opened, so that requests at the same time cannot pass the limit.
                fresh = handle not in holders
                if fresh:
                    own = user == self._own_uid and request.session.authority.uid < 0
                    self._require_room(user, len(holders), own=own)
                    self._change(user, 1)
                    holders[handle] = user
            try:
                return action(request)
            except BaseException:
                if fresh:
                    self._release(holders, handle)
                raise

        return act

    def wrap_closing(self, action: Callable[[Request], bytes | memoryview]) -> Callable[[Request], bytes | memoryview]:
        """What closes a file, counted."""

        def act(request: Request) -> bytes | memoryview:
            try:
                return action(request)
            finally:
                self._release(request.session.handles.holders, request.handle or _find_handle(request))

        return act

    def end(self, handles: Handles) -> None:
        """A session has ended: its files are closed."""
        for handle in list(handles.holders):
            self._release(handles.holders, handle)

    def _release(self, holders: dict[int, int], handle: int) -> None:
        with self._lock:
            user = holders.pop(handle, None)
            if user is not None:
                self._change(user, -1)

    def _change(self, user: int, by: int) -> None:
        self._total += by
        count = self._of_user.get(user, 0) + by
        if count:
            self._of_user[user] = count
        else:
            self._of_user.pop(user, None)

    def _require_room(self, user: int, of_session: int, *, own: bool) -> None:
        held = self._of_user.get(user, 0)
        if own:  # could open what it likes without a forwarder
            if self._total >= self._capacity:
                self._refuse(user, f"all {self._capacity} files are open")
            return
        may = max(FEW_FILES, self._capacity - self._total)
        if held >= may:
            self._refuse(user, f"uid {user} has {held} files open, its part of {self._capacity}")
        if of_session >= max(FEW_FILES, (held + may) * 3 // 8):
            self._refuse(user, f"a mount of uid {user} has {of_session} files open, its part of the user's")

    def _refuse(self, user: int, why: str) -> None:
        now = monotonic_s()
        if now - self._said.get(user, -_SAID_S) >= _SAID_S:
            self._said[user] = now
            log.warning("%s: it gets EMFILE until some are closed", why)
        raise build_os_error(EMFILE)


def _find_handle(request: Request) -> int:
    """The handle a RELEASE names in its body."""
    return int.from_bytes(request.body[:8], "little")


def share_among_connections(connections: list[Connection]) -> None:
    """Sets what each connection of one user may hold: an equal part of the user's."""
    count = len(connections) or 1
    for connection in connections:
        connection.most_pending = max(_LEAST_PENDING, min(MOST_PENDING, USER_PENDING // count))
        connection.most_held = max(_LEAST_HELD, min(MOST_HELD, USER_HELD // count))
        connection.most_jobs = max(_LEAST_JOBS, min(MOST_JOBS, USER_JOBS // count))
