"""The client's record of its requests: the mount tells each as it ends, a thread of its own makes `ops` of them.

What the mount calls costs well under a microsecond and never waits. Standard library only.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from fairlead.batches import encode, numbers, words
from fairlead.clock import monotonic_ns, now_ns
from fairlead.services.forwarding.fuse.abi import Op
from fairlead.services.forwarding.mount.ring import DEFAULT_CAPACITY, Ring
from fairlead.services.forwarding.mount.trace_messages import NAME_AT, extent, name_request
from fairlead.services.forwarding.mount.trace_names import File, Names
from fairlead.services.forwarding.mount.trace_runs import Run, Runs, records_of
from fairlead.services.forwarding.spool import Spool

INTERFACE = "fuse"
"""The `interface` of the rows."""
NAMED = 0
"""In place of a node: the request was about a name, which was told just before it."""
DRAIN_S = 1.0
FILE_S = 5.0
"""How long records wait at most before they are in the spool."""
MOST_ROWS = 1 << 15
"""Runs of one job after which its file is written at once."""
OPS_VERSION = FILES_VERSION = 1
_UNBINDS = frozenset(map(int, (Op.UNLINK, Op.RMDIR)))
_RENAMES = frozenset(map(int, (Op.RENAME, Op.RENAME2)))
_FORGET = int(Op.FORGET)
_EXCHANGE = 2
_NAME_STREAMS = 1 << 65
_READDIRPLUS = int(Op.READDIRPLUS)
_Event = tuple[int, int, int, bytes, int, int, bytes, bool, int]
"""Place in the ring, op, parent, name, node, new parent, new name, whether it failed, rename flags."""


class Identified(Protocol):
    """A job as the mount knows it (`wire.handshake.Identity`)."""

    @property
    def job_id(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def cluster(self) -> str: ...
    @property
    def name(self) -> str: ...


class Trace:
    """Records the requests of one mount into a spool.

    The mount's thread calls, in the order in which requests end: `request` for what concerns a node, `named` for what
    concerns a name in a directory (or `told`, which reads the kernel's message), `forgot`. Times are `clock.monotonic_ns`.
    It looks at `on` first: while it is false nothing need be timed or recorded, only names are told.
    """

    def __init__(
        self,
        spool: Spool,
        *,
        fs: str,
        mount_point: str,
        capacity: int = DEFAULT_CAPACITY,
        drain_s: float = DRAIN_S,
        file_s: float = FILE_S,
    ) -> None:
        """`fs` names the file system (with the path it makes a file's id), `mount_point` is where it is mounted."""
        self.on = True
        """Whether requests are to be recorded. May be changed at any time, by any thread."""
        self._wake = threading.Event()
        self._ring = Ring(capacity, self._wake)
        self.request: Callable[..., None] = self._ring.put
        """request(op, node, handle, offset, size, started_ns, ended_ns, job, error). `size` is what was moved (0 when
        it failed); of SETATTR its `valid` field, of FSYNC its flags; else 0. `handle` 0: it had none."""
        self._events: deque[_Event] = deque()
        self._names = Names(fs, mount_point)
        self._runs = Runs()
        self._spool = spool
        self._fs = fs
        self.identities: Mapping[int, Identified] = {}
        """Who the requests with a job index are of. The mount sets it to a mapping of its own, to which it only adds."""
        self._first_ns: dict[str | None, int] = {}
        self._waiting: dict[str | None, list[Run]] = {}
        self._at = 0
        self._named_file: File | None = None
        self._drain_s = drain_s
        self._file_s = file_s
        self._written_ns = monotonic_ns()
        self._told_dropped = 0
        self._stopped = False
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None

    # -- told by the mount ----------------------------------------------------------------------------------------

    def named(
        self,
        op: int,
        parent: int,
        name: bytes,
        started_ns: int,
        ended_ns: int,
        job: int = 0,
        error: int = 0,
        *,
        node: int = 0,
        handle: int = 0,
        new_parent: int = 0,
        new_name: bytes = b"",
        flags: int = 0,
    ) -> None:
        """A request about a name ended: LOOKUP, CREATE, MKDIR, MKNOD, SYMLINK, LINK, TMPFILE (`node` from the reply),
        UNLINK, RMDIR, RENAME (`new_parent`, `new_name`, `flags`). Called while `on` is false too, for the names."""
        ring = self._ring
        self._events.append((ring.head, op, parent, name, node, new_parent, new_name, error != 0, flags))
        if self.on:
            ring.put(op, NAMED, handle, -1, 0, started_ns, ended_ns, job, error)

    def told(
        self,
        op: int,
        node: int,
        handle: int,
        message: bytes | memoryview,
        body: memoryview,
        started_ns: int,
        ended_ns: int,
        job: int = 0,
        error: int = 0,
    ) -> None:
        """Any request but READ and WRITE ended: the kernel's whole message and the body of the reply (empty when it
        failed) tell the names. Called while `on` is false too. `error` is an errno or 0."""
        begin = NAME_AT[op] if op < 64 else 0
        if begin:
            name_request(self, op, node, handle, message, body, (started_ns, ended_ns, job, error))
        elif self.on:
            offset, size = extent(op, message)
            self._ring.put(op, node, handle, offset, size, started_ns, ended_ns, job, error)

    def seen(self, node: int, parent: int, name: bytes) -> None:
        """A READDIRPLUS reply gave the kernel this node under this name."""
        self._events.append((self._ring.head, _READDIRPLUS, parent, name, node, 0, b"", False, 0))

    def forgot(self, node: int) -> None:
        """The kernel knows the node no longer."""
        self._events.append((self._ring.head, _FORGET, 0, b"", node, 0, b"", False, 0))

    # -- the thread that drains -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the draining thread; after the process has forked, if it does."""
        self._thread = threading.Thread(target=self._work, name="trace", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Everything told so far is in the spool when it returns."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._turn:
            self._drain()
            self._runs.finish()
            self._collect()
            self._write()

    def flush(self) -> None:
        """Writes what has ended so far, from any thread."""
        with self._turn:
            self._drain()
            self._runs.finish()
            self._collect()
            self._write()

    def _work(self) -> None:
        while not self._stopped:
            self._wake.wait(self._drain_s)
            self._wake.clear()
            with self._turn:
                self._drain()
                self._collect()
                due = monotonic_ns() - self._written_ns >= self._file_s * 1e9
                if due or max(map(len, self._waiting.values()), default=0) >= MOST_ROWS:
                    self._write()

    def _drain(self) -> None:
        """Takes what is in the ring, in order, names before the requests they belong to."""
        shift = now_ns() - (now := monotonic_ns())
        events, files, add = self._events, self._names.file, self._runs.add
        at = self._at
        for part in self._ring.take():
            for op, job, _error, node, handle, offset, size, start, end in records_of(part):
                if events and events[0][0] <= at:
                    self._learn(at)
                at += 1
                if node == NAMED:
                    file = self._named_file
                    key = handle or (_NAME_STREAMS + file[0] if file is not None else 0)
                else:
                    file = files(node)
                    key = handle or -node
                add(op, job, file, key, handle, offset, size, start + shift, end + shift)
        self._at = at
        self._learn(at)
        self._runs.settle(now + shift)

    def _learn(self, at: int) -> None:
        """Takes in the names told up to the request at this place of the ring."""
        events, names = self._events, self._names
        while events and events[0][0] <= at:
            _, op, parent, name, node, new_parent, new_name, failed, flags = events.popleft()
            if op == _FORGET:
                names.forget(node)
            elif op == _READDIRPLUS:
                names.bind(node, parent, name)
            elif op in _RENAMES or op in _UNBINDS:
                self._named_file = names.below(parent, name)
                if not failed and op in _UNBINDS:
                    names.unbind(parent, name)
                elif not failed:
                    names.move(parent, name, new_parent, new_name, exchange=flags == _EXCHANGE)
            else:
                if node and name and not failed:
                    names.bind(node, parent, name)
                self._named_file = names.below(parent, name) if name else None

    # -- into the spool -------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Sorts closed runs by the job they are of."""
        closed, self._runs.closed = self._runs.closed, []
        jobs, waiting = self.identities, self._waiting
        for run in closed:
            known = jobs.get(run.job)
            waiting.setdefault(known.job_id if known is not None else None, []).append(run)

    def _write(self) -> None:
        """One file a job."""
        self._written_ns = monotonic_ns()
        dropped = self._ring.dropped - self._told_dropped
        for job_id, runs in self._waiting.items():
            self._spool.write(self._batches(job_id, runs))
        self._waiting = {}
        if dropped:
            self._told_dropped += dropped
            text = f"{dropped} operations were not recorded: the ring was full"
            self._spool.write([self._spool.events([("operations_lost", text)])])

    def _batches(self, job_id: str | None, runs: list[Run]) -> list[bytes]:
        first, last = min(run.start for run in runs), max(run.end for run in runs)
        begun = self._first_ns.setdefault(job_id, first)
        job = self._described(job_id, runs, min(begun, first), last)
        node, count = self._spool.node, len(runs)
        ranks = {index: identity.rank for index, identity in self.identities.items()}
        header = self._spool.header("ops", OPS_VERSION, count, first_ns=first, last_ns=last, job=job)
        ops = encode(header, {
            "start_ns": numbers([run.start for run in runs]), "end_ns": numbers([run.end for run in runs]),
            "busy_ns": numbers([run.busy for run in runs]), "node": words([node] * count),
            "job_id": words([job_id] * count), "interface": words([INTERFACE] * count), "fs": words([self._fs] * count),
            "rank": numbers([_none_below(ranks.get(run.job, -1)) for run in runs]),
            "op": words([run.word for run in runs]),
            "file_id": numbers([run.file[0] if run.file is not None else None for run in runs]),
            "handle": numbers([_signed(run.handle) or None for run in runs]),
            "offset": numbers([_none_below(run.offset) for run in runs]),
            "size": numbers([_none_below(run.size) for run in runs]),
            "stride": numbers([run.stride if run.count > 1 and run.offset >= 0 else None for run in runs]),
            "count": numbers([run.count for run in runs]),
        })  # fmt: skip
        files = self._files(runs, job)
        return [ops, files] if files is not None else [ops]

    def _files(self, runs: list[Run], job: dict[str, object] | None) -> bytes | None:
        """The paths these runs name: every file of a spool can be understood alone."""
        seen: dict[int, tuple[str, int]] = {}
        for run in runs:
            if run.file is not None:
                file_id, path = run.file
                known = seen.get(file_id)
                if known is None or run.start < known[1]:
                    seen[file_id] = (path, run.start)
        if not seen:
            return None
        starts = [start for _, start in seen.values()]
        header = self._spool.header(
            "files", FILES_VERSION, len(seen), first_ns=min(starts), last_ns=max(starts), job=job
        )
        return encode(header, {
            "file_id": numbers(list(seen)), "fs": words([self._fs] * len(seen)),
            "path": words([path for path, _ in seen.values()]), "first_seen_ns": numbers(starts),
        })  # fmt: skip

    def _described(self, job_id: str | None, runs: list[Run], first_ns: int, last_ns: int) -> dict[str, object] | None:
        if job_id is None:
            return None
        told = self.identities[runs[0].job]
        about: dict[str, object] = {
            "job_id": job_id, "user": told.user, "cluster": told.cluster, "name": told.name,
            "start_ns": first_ns, "end_ns": last_ns, "nodes": [self._spool.node],
        }  # fmt: skip
        return {name: value for name, value in about.items() if value}


def _none_below(value: int) -> int | None:
    return value if value >= 0 else None


def _signed(handle: int) -> int:
    """A handle as the signed number a record holds."""
    return handle - (1 << 64) if handle >= 1 << 63 else handle


def boot_node() -> str:
    """The name of this node in records: without its domain, as schedulers have it."""
    return os.uname().nodename.partition(".")[0] or "localhost"
