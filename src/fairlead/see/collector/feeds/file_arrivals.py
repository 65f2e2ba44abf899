"""Says which files of a folder are whole as soon as they are: the kernel's inotify where it works, time where not.

Not here: reading them. A network file system tells nothing of what other machines write, so looking is never given up.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from types import TracebackType

_CLOSE_WRITE, _MOVED_TO = 0x8, 0x80
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_STEP_S = 0.4
"""Longest wait between two looks at `stop`."""


class Arrivals:
    """Names in one folder that were closed by their writer or renamed into it since the last look."""

    def __init__(self, folder: str) -> None:
        self._fd = _watch(folder)

    @property
    def told(self) -> bool:
        """Whether the kernel tells of this folder."""
        return self._fd is not None

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def wait(self, seconds: float, stop: threading.Event) -> set[str]:
        """Names that arrived, at once when some do; none after `seconds` or when `stop` is set."""
        left = seconds
        while left > 0 and not stop.is_set():
            step = min(left, _STEP_S)
            left -= step
            if self._fd is None:
                stop.wait(step)
                continue
            if select.select([self._fd], [], [], step)[0]:
                return self._names()
        return set()

    def _names(self) -> set[str]:
        assert self._fd is not None  # noqa: S101  (asked only where the kernel tells)
        try:
            data = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return set()
        names: set[str] = set()
        at = 0
        while at + _EVENT.size <= len(data):
            _, _, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            names.add(os.fsdecode(data[at : at + length].rstrip(b"\0")))
            at += length
        return names - {""}


def _watch(folder: str) -> int | None:
    """A descriptor of inotify on the folder; None where there is no such thing."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(_NONBLOCK_CLOEXEC)
    except (OSError, AttributeError):
        return None
    if fd < 0:
        return None
    if libc.inotify_add_watch(fd, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO) < 0:
        os.close(fd)
        return None
    return int(fd)
