"""Threads that read requests from a device and execute them: leader/followers, no request changes threads.

                     a request arrives
    +---------+ --------------------------> +-----------+
    | leading | <-------------------------- | executing | -- longer than a tick: the watchdog promotes another
    +---------+     done, still the leader  +-----------+    thread, this one goes on
      ^                                         | done, another leads
      |        promoted by the watchdog         v
      +------------------------------------ +---------+
                                            |  idle   |
                                            +---------+

At most one thread leads, so requests are read in the kernel's order. Not here: what a request is (`local_mount`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from mmap import mmap
from threading import Event, Lock, Semaphore, Thread

from fairlead.core.clock import sleep_s
from fairlead.steer.fs.fuse import abi

DATA = 80
"""Where the data of a WRITE begins in its message."""
_TICK_S = 0.002
"""A leader that spends longer than this in one request is replaced."""
_IDLE_TICKS = 250
"""Ticks without a request after which the watchdog sleeps until there is one."""
_UPKEEP_TICKS = 5
_HEADER = abi.IN_HEADER.size
_UNIQUE_AT = 8


class Reader:
    """A thread's buffers and what it is doing: `unique` of the request it executes, 0 between two."""

    __slots__ = ("body", "data", "gate", "head", "message", "served", "thread", "unique", "view")

    def __init__(self) -> None:
        self.message = mmap(-1, abi.MESSAGE_BYTES)
        self.view = memoryview(self.message)
        self.body = self.view[_HEADER:DATA]
        self.data = memoryview(mmap(-1, abi.MAX_WRITE))
        self.head = bytearray(abi.OUT_HEADER.size)
        self.gate = Semaphore(0)
        self.unique = 0
        self.served = 0
        self.thread: Thread | None = None


class Readers:
    """The threads of one device, at most `limit`.

    `serve(reader, size)` executes the request of `size` bytes in the reader's message. `upkeep` is called every few
    milliseconds while it returns true, and whenever requests come.
    """

    def __init__(
        self, fd: int, serve: Callable[[Reader, int], None], upkeep: Callable[[], bool], *, limit: int
    ) -> None:
        self._fd = fd
        self._serve = serve
        self._upkeep = upkeep
        self._limit = limit
        self._lock = Lock()
        self._readers: list[Reader] = []
        self._idle: list[Reader] = []
        self._leader: Reader | None = None
        self._ended = False
        self._watched = False
        self._wake = Event()

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def served(self) -> int:
        """Requests executed so far."""
        return sum(reader.served for reader in self._readers)

    def run(self) -> None:
        """Reads until the device is gone. Raises what broke it."""
        watchdog = Thread(target=self._watch, name="watchdog", daemon=True)
        watchdog.start()
        reader = self._leader = Reader()
        self._readers.append(reader)
        try:
            self._work(reader)
        finally:
            self.end()
            watchdog.join()
            for other in self._readers:
                if other.thread is not None:
                    other.thread.join(timeout=5)

    def end(self) -> None:
        """Starts no more requests; a thread that waits at the device stays there until the device is gone."""
        with self._lock:
            self._ended = True
            self._leader = None
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.gate.release()
        self._wake.set()

    def _work(self, reader: Reader) -> None:
        """A thread's life: lead, or stand by until it is its turn."""
        fd, message, readv, serve = self._fd, [reader.message], os.readv, self._serve
        view, unique_of = reader.view, abi.FORGET_IN.unpack_from
        while True:
            if self._leader is not reader and not self._stand_by(reader):
                return
            try:
                size = readv(fd, message)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                self.end()
                if error.errno in (errno.ENODEV, errno.EBADF):
                    return
                raise
            if size < _HEADER:
                self.end()
                return
            reader.unique = unique_of(view, _UNIQUE_AT)[0]
            if not self._watched:
                self._watched = True
                self._wake.set()
            serve(reader, size)
            reader.served += 1
            reader.unique = 0

    def _stand_by(self, reader: Reader) -> bool:
        """Waits until this thread leads; false at the end."""
        with self._lock:
            if self._ended:
                return False
            if self._leader is None:
                self._leader = reader
                return True
            self._idle.append(reader)
        reader.gate.acquire()
        return not self._ended

    def _watch(self) -> None:
        """Replaces a leader that is held up, does the upkeep, and sleeps while there is nothing to do."""
        stuck_in = quiet = ticks = 0
        served = -1
        busy = False
        while not self._ended:
            sleep_s(_TICK_S)
            ticks += 1
            leader = self._leader
            unique = leader.unique if leader is not None else 0
            if unique and unique == stuck_in:
                self._promote()
            stuck_in = unique
            if ticks % _UPKEEP_TICKS == 0:
                busy = self._upkeep()
            if busy:
                quiet = 0
                continue
            total = self.served
            quiet = quiet + 1 if total == served and not unique else 0
            served = total
            if quiet > _IDLE_TICKS:
                self._sleep_until_busy()
                quiet = 0

    def _sleep_until_busy(self) -> None:
        self._wake.clear()
        self._watched = False
        leader = self._leader
        if not self._ended and (leader is None or not leader.unique):
            self._wake.wait()
        self._watched = True

    def _promote(self) -> None:
        """Makes an idle thread the leader, or a new one; at the limit, the first thread that is done will lead."""
        with self._lock:
            if self._ended:
                return
            if self._idle:
                reader = self._leader = self._idle.pop()
                reader.gate.release()
                return
            if len(self._readers) >= self._limit:
                self._leader = None
                return
            reader = self._leader = Reader()
            self._readers.append(reader)
        reader.thread = Thread(target=self._work, args=(reader,), name=f"reader-{len(self._readers)}", daemon=True)
        reader.thread.start()
