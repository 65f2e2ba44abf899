"""Acting on files as the user who asked: identity of this thread towards file systems (setfsuid, setfsgid, groups).

Only a forwarder that runs as root changes anything; another one acts as the user it runs as, whoever asks.
"""

from __future__ import annotations

import os
import pwd
import threading
from types import TracebackType

from fairlead.core.clock import monotonic_ns
from fairlead.steer.fs.trees import system_calls

_KEEP_NS = 60_000_000_000
"""How long the groups of a user are taken as known."""
NOBODY_IN = 0xFFFFFFFF
"""User of requests the kernel sends in nobody's name."""


class _Thread(threading.local):
    """Whom this thread acts as, and until when its groups are taken as known. A `uid` of -1: to be set anew."""

    def __init__(self) -> None:
        self.uid = os.geteuid()
        self.gid = os.getegid()
        self.until = 0
        self.job = ""
        self.limited = False
        self.powers = True
        self.stack: list[tuple[int, int]] = []


_thread = _Thread()
_groups: dict[tuple[int, int], tuple[int, list[int]]] = {}


def _allowed() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        system_calls.call_setgroups(os.getgroups())
    except OSError:
        return False
    return True


enabled = _allowed()
"""Whether this process can act as other users."""


def limit_thread_powers() -> None:
    """From now on this thread has root's powers over quotas, reserved blocks and the attributes `trusted.` and
    `security.` only while it acts as root. For threads that serve others; a mount needs them for itself."""
    _thread.limited = enabled


def switch_thread_user(uid: int, gid: int) -> None:
    """From now on this thread acts on files as that user, with the groups the system's databases give it. `NOBODY_IN`
    as user is the forwarder itself."""
    if not enabled:
        return
    if uid == NOBODY_IN:
        # The kernel writes back pages of a memory map in nobody's name; the file was opened by somebody before.
        uid = gid = 0
    if _thread.uid == uid and _thread.gid == gid and (uid == 0 or monotonic_ns() < _thread.until):
        return
    # If a step fails the request fails, and the next one sets all of them again.
    _thread.uid = -1
    system_calls.call_setgroups(find_thread_identity_groups(uid, gid))
    system_calls.call_setfsgid(gid)
    system_calls.call_setfsuid(uid)
    if _thread.limited and _thread.powers != (uid == 0):
        system_calls.call_capset(on=uid == 0)
        _thread.powers = uid == 0
    _thread.uid = uid
    _thread.gid = gid
    _thread.until = monotonic_ns() + _KEEP_NS


def get_thread_user() -> tuple[int, int]:
    """User and group this thread acts as."""
    return _thread.uid, _thread.gid


def set_thread_job(job: str) -> None:
    """From now on this thread works for that job; "" for none."""
    _thread.job = job


def get_thread_job() -> str:
    """The job this thread works for."""
    return _thread.job


def find_thread_identity_groups(uid: int, gid: int) -> list[int]:
    """Supplementary groups of a user, asked for at most once a minute; [gid] for a user the system does not know."""
    now = monotonic_ns()
    known = _groups.get((uid, gid))
    if known is not None and now < known[0]:
        return known[1]
    try:
        found = os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except (KeyError, OSError):
        found = [gid]
    _groups[uid, gid] = (now + _KEEP_NS, found)
    return found


class _Own:
    """`with own:` acts as the forwarder itself, for what is not the caller's business (folders on the way, locks,
    kept files)."""

    def __enter__(self) -> None:
        _thread.stack.append((_thread.uid, _thread.gid))
        switch_thread_user(0, 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        uid, gid = _thread.stack.pop()
        if uid >= 0:
            switch_thread_user(uid, gid)


forwarder_identity = _Own()
