"""How the demo's jobs do their I/O: system calls on a mount, or the library client where there is no FUSE.

Both have the calls of `Files`, so that the jobs are the same program.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from itertools import count
from typing import Protocol

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.record_spool import open_record_spool
from fairlead.steer.fs.client.client import Client
from fairlead.steer.fs.client.client_file import ClientFile
from fairlead.steer.fs.client.dial import Dial
from fairlead.steer.fs.client.job_identity import Jobs
from fairlead.steer.fs.trace.recorder import Trace

PATIENCE_S = 1.0
"""A forwarder that is gone so long has ended the play."""


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

    def get_size(self, path: str) -> int:
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

    def get_size(self, path: str) -> int:
        """See `Files`."""
        return os.stat(path).st_size  # noqa: PTH116

    def unlink(self, path: str) -> int:
        """See `Files`."""
        os.unlink(path)  # noqa: PTH108
        return 0

    def end(self) -> None:
        """See `Files`."""


class ClientFiles:
    """The library client: paths begin at the root of the forwarder's tree. Each thread has a client of its own, so
    that none waits for another; all records go into one spool."""

    def __init__(self, address: str, spool: str | None) -> None:
        self._address = address
        self._numbers = count(1)
        self._here = threading.local()
        self._clients: list[Client] = []
        self._open: dict[int, ClientFile] = {}
        self._trace: Trace | None = None
        node = socket.gethostname().partition(".")[0]
        self._jobs = Jobs(node=node)
        self._jobs.find(os.getpid(), os.geteuid(), monotonic_ns())  # so that threads only look it up
        if spool is not None:
            writer = open_record_spool(spool, node=node, writer=f"client:{os.getpid()}")
            self._trace = Trace(writer, fs=f"fairlead:{address}", mount_point="/")
            turn = threading.Lock()
            self._trace.record_request = _lock_calls(turn, self._trace.record_request)
            self._trace.record_message = _lock_calls(turn, self._trace.record_message)  # type: ignore[method-assign]
            self._trace.start()

    def _client(self) -> Client:
        """This thread's client."""
        found: Client | None = getattr(self._here, "client", None)
        if found is None:
            dial = Dial([self._address], mount="library", slots=2)
            found = Client(dial, trace=self._trace, jobs=self._jobs, patience_s=PATIENCE_S)
            self._here.client = found
            self._clients.append(found)
        return found

    def open(self, path: str, flags: int, mode: int) -> int:
        """See `Files`."""
        number = next(self._numbers)
        self._open[number] = self._client().open_flags(path, flags, mode)
        return number

    def write(self, file: int, data: bytes, offset: int) -> int:
        """See `Files`."""
        return self._open[file].pwrite(data, offset)

    def read(self, file: int, size: int, offset: int) -> int:
        """See `Files`."""
        return len(self._open[file].pread(size, offset))

    def truncate(self, file: int, size: int) -> int:
        """See `Files`."""
        return self._open[file].truncate(size)

    def close(self, file: int) -> int:
        """See `Files`."""
        self._open.pop(file).close()
        return 0

    def mkdir(self, path: str) -> int:
        """See `Files`."""
        self._client().mkdir(path)
        return 0

    def get_size(self, path: str) -> int:
        """See `Files`."""
        return self._client().stat(path).st_size

    def unlink(self, path: str) -> int:
        """See `Files`."""
        self._client().unlink(path)
        return 0

    def end(self) -> None:
        """See `Files`."""
        for client in self._clients:
            client.close()
        if self._trace is not None:
            self._trace.close()


def _lock_calls(turn: threading.Lock, act: Callable[..., object]) -> Callable[..., None]:
    """`act` for several threads: one call at a time."""

    def act_alone(*arguments: object) -> None:
        with turn:
            act(*arguments)

    return act_alone


def open_demo_files(client: str | None, spool: str | None) -> Files:
    """Through the mount, or, given a forwarder's address, through the library client."""
    return MountedFiles() if client is None else ClientFiles(client, spool)
