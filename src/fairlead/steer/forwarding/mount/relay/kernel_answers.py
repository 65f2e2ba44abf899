"""Answers the mount gives the kernel itself, and answers the kernel refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from fairlead.steer.fs.fuse.abi import OUT_HEADER


class KernelAnswers:
    """Writes answers to the device."""

    def __init__(self, fd: int, say: Callable[[str], None]) -> None:
        self._fd = fd
        self._say = say
        self.gone = False
        """The folder was unmounted."""

    def answer(self, unique: int, error: int, body: bytes = b"") -> None:
        """Answers a request. `error`: 0 or -errno."""
        try:
            os.write(self._fd, OUT_HEADER.pack(16 + len(body), error, unique) + body)
        except OSError as failed:
            self.handle_refusal(failed, unique)

    def handle_refusal(self, error: OSError, unique: int) -> None:
        """The kernel refused an answer: ENOENT when the process was killed, ENODEV when the mount is gone."""
        if error.errno == errno.ENODEV:
            self.gone = True
        elif error.errno == errno.EINVAL:
            self._say(f"the kernel refuses an answer ({error}); the request gets EIO")
            os.write(self._fd, OUT_HEADER.pack(16, -errno.EIO, unique))
        elif error.errno != errno.ENOENT:
            raise error
