"""A trace and the jobs of one mount whose requests end in several threads: a lock lets one record at a time.

Not here: what becomes of a record (`recorder`), whose a process is (`job_identity`).
"""

from __future__ import annotations

from threading import Lock

from fairlead.core.clock import monotonic_ns
from fairlead.steer.fs.client.job_identity import Jobs
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import HANDLE_FIRST, Op
from fairlead.steer.fs.trace.recorder import Trace

_OPENING = frozenset(map(int, (Op.OPEN, Op.CREATE, Op.TMPFILE, Op.OPENDIR)))
_RELEASING = frozenset(map(int, (Op.RELEASE, Op.RELEASEDIR)))
_UNTOLD = frozenset(map(int, (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT, Op.DESTROY)))
_handle = abi.FORGET_IN.unpack_from


class SharedTrace:
    """The trace of a `LocalMount`. Thread-safe."""

    def __init__(self, trace: Trace, jobs: Jobs) -> None:
        self._trace = trace
        self._jobs = jobs
        self._turn = Lock()
        self._known = jobs.known
        self._put = trace.record_request
        self._openers: dict[int, int] = {}
        """By handle: the job that opened it. What the kernel asks for later by itself (RELEASE, read-ahead) names no
        process."""
        trace.identities = jobs.identities

    def record_transfer(
        self, op: int, node: int, handle: int, offset: int, size: int, job: int, started_ns: int, error: int
    ) -> None:
        """A READ or WRITE ended; `size` is what was moved."""
        if self._trace.on:
            if not job:
                job = self._openers.get(handle, 0)
            with self._turn:
                self._put(op, node, handle, offset, size, started_ns, monotonic_ns(), job, error)

    def record_reply(
        self, op: int, node: int, handle: int, message: memoryview, reply: bytes, job: int, started_ns: int, error: int
    ) -> None:
        """Any other request ended: the kernel's whole message, the body of the reply. `handle`: what it opened."""
        if op in _UNTOLD:
            return
        if op in HANDLE_FIRST and len(message) > abi.IN_HEADER.size:
            (handle,) = _handle(message, abi.IN_HEADER.size)
            if not job:
                job = self._openers.get(handle, 0)
            if op in _RELEASING:
                self._openers.pop(handle, None)
        elif op in _OPENING and handle and job:
            self._openers[handle] = job
        with self._turn:
            self._trace.record_message(
                op, node, handle, message, memoryview(reply), started_ns, monotonic_ns(), job, error
            )

    def record_forget(self, node: int) -> None:
        """The kernel knows the node no longer."""
        with self._turn:
            self._trace.record_forget(node)

    def find_job(self, pid: int, uid: int, now_ns: int) -> int:
        """The index of the job a process belongs to."""
        known = self._known.get(pid)
        if known is not None and now_ns < known[1]:
            return known[0]
        with self._turn:
            return self._jobs.find(pid, uid, now_ns)
