"""How the demo's jobs do their I/O: system calls on a mount, or the library client where there is no FUSE.

Both have the calls of `Files`, so that the jobs are the same program.
"""

from __future__ import annotations

import os
from typing import Protocol


class Files(Protocol):
    """The calls the jobs make. Files are numbers. Errors are OSError."""

    def open(self, path: str, flags: int, mode: int) -> int:
        """As open(2)."""
        ...

    def write(self, file: int, data: bytes, offset: int) -> int:
        """Writes all of it."""
        ...

    def read(self, file: int, size: int, offset: int) -> int:
        """Bytes read."""
        ...

    def truncate(self, file: int, size: int) -> int:
        """As ftruncate(2)."""
        ...

    def close(self, file: int) -> int:
        """As close(2)."""
        ...

    def mkdir(self, path: str) -> int:
        """As mkdir(2)."""
        ...

    def size(self, path: str) -> int:
        """As stat(2)."""
        ...

    def unlink(self, path: str) -> int:
        """As unlink(2)."""
        ...

    def end(self) -> None:
        """Nothing more is asked."""
        ...


class MountedFiles:
    """System calls: the path leads into a mount."""

    def open(self, path: str, flags: int, mode: int) -> int:
        """See `Files`."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, file: int, data: bytes, offset: int) -> int:
        """See `Files`."""
        done = os.pwrite(file, data, offset)
        while done < len(data):
            done += os.pwrite(file, data[done:], offset + done)
        return done

    def read(self, file: int, size: int, offset: int) -> int:
        """See `Files`."""
        return len(os.pread(file, size, offset))

    def truncate(self, file: int, size: int) -> int:
        """See `Files`."""
        os.ftruncate(file, size)
        return 0

    def close(self, file: int) -> int:
        """See `Files`."""
        os.close(file)
        return 0

    def mkdir(self, path: str) -> int:
        """See `Files`."""
        os.mkdir(path)  # noqa: PTH102
        return 0

    def size(self, path: str) -> int:
        """See `Files`."""
        return os.stat(path).st_size  # noqa: PTH116

    def unlink(self, path: str) -> int:
        """See `Files`."""
        os.unlink(path)  # noqa: PTH108
        return 0

    def end(self) -> None:
        """See `Files`."""


def open_demo_files(client: str | None, spool: str | None) -> Files:
    """Through the mount, or, given a forwarder's address, through the library client."""
    if client is None:
        return MountedFiles()
    from fairlead.kit.demo.client_files import ClientFiles

    return ClientFiles(client, spool)
