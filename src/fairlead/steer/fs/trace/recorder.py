r"""The client's record of its requests: the mount reports each as it ends, a thread makes rows of `ops` of them.

    mount's thread                     draining thread, every second
    record_request --> ring    ----->  requests --> runs (`runs`, `run_arrays`) --> sheets --> spool
    record_message --> ring           in the order of places: a name is learnt before the requests after it
                  \-> events  ----->  names (`path_names`)

What the mount calls costs well under a microsecond and never waits. NumPy is loaded when there is much to record.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from fairlead.core.batches.spool import Spool
from fairlead.core.clock import monotonic_ns, now_ns
from fairlead.steer.fs.fuse.abi import COPY_IN, FALLOCATE_IN, FSYNC_IN, IN_HEADER, SETATTR_IN, Op
from fairlead.steer.fs.fuse.messages import NAME_AT, NameChange, iterate_message_entries, read_change_message
from fairlead.steer.fs.trace.path_names import File, PathNames
from fairlead.steer.fs.trace.result_ring import DEFAULT_CAPACITY, NO_RECORD, RECORD, Ring
from fairlead.steer.fs.trace.run_sheets import Sheets
from fairlead.steer.fs.trace.runs import SIZED, Runs
from fairlead.steer.fs.wire.handshake import Identity

NAMED = 0
"""In place of a node: the request was about a name, that of the event with its place."""
DRAIN_S = 1.0
FILE_S = 5.0
"""How long records wait at most before they are in the spool."""
MOST_ROWS = 1 << 18
"""Runs of one job after which its file is written at once."""
MANY = 1024
"""Requests in one drain from which on NumPy makes runs of them."""
_PER_NAME = 128
"""Fewer requests for each name than this are taken one by one."""
_UNBINDS = frozenset(map(int, (Op.UNLINK, Op.RMDIR)))
_RENAMES = frozenset(map(int, (Op.RENAME, Op.RENAME2)))
_FORGET = int(Op.FORGET)
_FILE_STREAMS = 1 << 65
_READDIRPLUS = int(Op.READDIRPLUS)
_HEADER = IN_HEADER.size
MEASURED = frozenset(map(int, (Op.SETATTR, Op.FSYNC, Op.COPY_FILE_RANGE, Op.FALLOCATE)))
"""Requests other than READ and WRITE that have an offset or a size."""
_UNDISTURBED_NS, _STEP_NS = 50_000, 1_000_000
_MOST_EVENTS = 1 << 18
"""Most names that wait to be learnt; the oldest are dropped beyond it."""


class UnreadMessage(NamedTuple):
    """A request about a name as it came; the thread that drains reads it, so that the mount need not."""

    op: int
    parent: int
    message: bytes
    head: bytes
    """The first 8 bytes of the reply."""
    error: int


_new = tuple.__new__
"""Makes a named tuple at the price of a tuple."""
_Event: TypeAlias = tuple[int, NameChange | UnreadMessage]
"""What is learnt of names, with its place in the ring."""


class Trace:
    """Records the requests of one mount into a spool.

    The mount's thread calls, in the order in which requests end: `record_request` for what concerns a node,
    `record_message` for any other request, `record_forget`. Times are of `clock.monotonic_ns`. It looks at `on` first:
    while it is false nothing is timed or recorded, only names are reported.
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
        self._ring = Ring(capacity)
        self.fast_path = self._ring.pack, self._ring.buffer, self._ring.places, self._ring.room
        """`record_request` without its call: pack(buffer, next(places) % room, op, job, error, node, handle, ...)."""
        self.record_request: Callable[..., object] = self._ring.put
        """record_request(op, node, handle, offset, size, started_ns, ended_ns, job, error). `size`: bytes moved; of
        SETATTR its `valid` field, of FSYNC its flags; else 0. `handle` 0: it had none."""
        self._events: deque[_Event] = deque(maxlen=_MOST_EVENTS)
        self._names = PathNames(fs, mount_point)
        self._runs = Runs()
        self._spool = spool
        self.identities: Mapping[int, Identity] = {}
        """Whose the requests with a job index are. The mount sets it to a mapping of its own, to which it only adds."""
        self._sheets = Sheets(spool, fs, lambda: self.identities)
        self._at = 0
        self._named_file: File | None = None
        self._drain_s = drain_s
        self._capacity = capacity
        self._file_s = file_s
        self._written_ns = monotonic_ns()
        self._told_dropped = 0
        self._shift = now_ns() - monotonic_ns()
        self._stopped = False
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None

    # -- called by the mount ----------------------------------------------------------------------------------------

    def record_message(
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
        if op == _READDIRPLUS:
            if self.on:
                self._ring.put(op, node, handle, -1, 0, started_ns, ended_ns, job, error)
            if not error:
                for _, known, name in iterate_message_entries(body):
                    self.record_entry(known, node, name)
        elif op in NAME_AT:
            # A name takes a place in the ring even while nothing is recorded: places order names and requests.
            recorded = op if self.on else NO_RECORD
            place = self._ring.put(recorded, NAMED, handle, -1, 0, started_ns, ended_ns, job, error)
            self._events.append((place, _new(UnreadMessage, (op, node, bytes(message), bytes(body[:8]), error))))
        elif self.on:
            offset, size = _read_extent(op, message) if op in MEASURED else (-1, 0)
            self._ring.put(op, node, handle, offset, size, started_ns, ended_ns, job, error)

    def record_entry(self, node: int, parent: int, name: bytes) -> None:
        """A READDIRPLUS reply gave the kernel this node under this name."""
        place = self._ring.put(NO_RECORD, 0, 0, 0, 0, 0, 0)
        self._events.append((place, NameChange(_READDIRPLUS, parent, name, node)))

    def record_forget(self, node: int) -> None:
        """The kernel knows the node no longer."""
        place = self._ring.put(NO_RECORD, 0, 0, 0, 0, 0, 0)
        self._events.append((place, _new(NameChange, (_FORGET, 0, b"", node, 0, b"", False, False))))

    # -- the thread that drains -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the draining thread; after the process has forked, if it does."""
        self._thread = threading.Thread(target=self._work, name="trace", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and writes everything to the spool; nothing is recorded meanwhile."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.flush()

    def flush(self) -> None:
        """Writes everything recorded so far to the spool; nothing is recorded meanwhile."""
        with self._turn:
            self._drain(everything=True)
            self._runs.finish()
            self._collect()
            self._write()

    def _work(self) -> None:
        pause_s = self._drain_s
        while not self._stopped:
            self._wake.wait(pause_s)
            with self._turn:
                taken = self._drain()
                # What came in a second must not fill the ring in the next one.
                pause_s = self._drain_s if taken < self._capacity // 16 else self._drain_s / 8
                self._collect()
                due = monotonic_ns() - self._written_ns >= self._file_s * 1e9
                if due or self._sheets.most_rows >= MOST_ROWS:
                    self._write()

    def _drain(self, *, everything: bool = False) -> int:
        """Takes what is in the ring, in order, names before the requests after them; returns how many requests."""
        self._follow_clock()
        shift = self._shift
        self._at, parts = self._ring.take_parts(everything=everything)
        count = sum(map(len, parts)) // RECORD.size
        if count >= MANY and len(self._events) * _PER_NAME < count:
            self._by_arrays(parts, shift)
        else:
            self._one_by_one(parts, shift)
        self._learn(self._at)
        self._runs.settle(monotonic_ns() + shift)
        return count

    def _follow_clock(self) -> None:
        """Finds how far the wall clock is ahead. It is followed in steps of a millisecond, so that what lies between
        two readings does not change the order of requests."""
        before = monotonic_ns()
        shift = now_ns() - before
        if monotonic_ns() - before < _UNDISTURBED_NS and abs(shift - self._shift) > _STEP_NS:
            self._shift = shift

    def _by_arrays(self, parts: list[bytes], shift: int) -> None:
        """Makes runs of all requests between two names at once."""
        import numpy as np

        from fairlead.steer.fs.trace import run_arrays

        self._runs.finish()
        self._collect()
        events = self._events
        for part in parts:
            records = np.frombuffer(part, run_arrays.RECORD)
            first = 0
            while first < len(records):
                self._learn(self._at)
                rest = (events[0][0] - self._at) // RECORD.size if events else len(records)
                until = min(len(records), first + rest)
                chunk = run_arrays.build_run_arrays(
                    records[first:until], self._names.find_file, self._named_file, shift
                )
                if chunk is not None:
                    self._sheets.add_chunk(chunk)
                self._at += (until - first) * RECORD.size
                first = until

    def _one_by_one(self, parts: list[bytes], shift: int) -> None:
        """Adds each request to the runs that are open."""
        events, files, add = self._events, self._names.find_file, self._runs.add
        at = self._at
        for part in parts:
            for op, job, error, node, handle, offset, size, start, end in RECORD.iter_unpack(part):
                if events and events[0][0] <= at:
                    self._learn(at)
                at += RECORD.size
                file = files(node) if node != NAMED else self._named_file
                key = handle or (_FILE_STREAMS + file[0] if file is not None else -node)
                if error and op in SIZED:
                    size = 0  # nothing was moved
                add(op, job, file, key, handle, offset, size, start + shift, end + shift)
        self._at = at

    def _learn(self, at: int) -> None:
        """Learns the names up to this place of the ring."""
        events, names = self._events, self._names
        while events and events[0][0] <= at:
            _, event = events.popleft()
            change = read_change_message(*event) if isinstance(event, UnreadMessage) else event
            op, node, parent, name = change.op, change.node, change.parent, change.name
            if op == _FORGET:
                names.forget(node)
            elif op == _READDIRPLUS:
                names.bind(node, parent, name)
            elif op in _RENAMES or op in _UNBINDS:
                self._named_file = names.find_below(parent, name)
                if not change.failed and op in _UNBINDS:
                    names.unbind(parent, name)
                elif not change.failed:
                    names.move(parent, name, change.new_parent, change.new_name, exchange=change.exchange)
            else:
                if node and name and not change.failed:
                    names.bind(node, parent, name)
                self._named_file = names.find_below(parent, name) if name else None

    # -- into the spool -------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        closed, self._runs.closed = self._runs.closed, []
        self._sheets.add(closed)

    def _write(self) -> None:
        self._written_ns = monotonic_ns()
        self._sheets.write()
        dropped = self._ring.dropped - self._told_dropped
        if dropped:
            self._told_dropped += dropped
            text = f"{dropped} operations were not recorded: the ring was full"
            self._spool.write([self._spool.build_events([("operations_lost", text)])])


def _read_extent(op: int, message: bytes | memoryview) -> tuple[int, int]:
    """Offset and size of one of `MEASURED`, as `Trace.record_request` wants them."""
    if op == Op.SETATTR:
        return -1, int(SETATTR_IN.unpack_from(message, _HEADER)[0])
    if op == Op.FSYNC:
        return -1, int(FSYNC_IN.unpack_from(message, _HEADER)[1])
    if op == Op.COPY_FILE_RANGE:
        copied = COPY_IN.unpack_from(message, _HEADER)
        return int(copied[1]), int(copied[5])
    if op == Op.FALLOCATE:
        _, offset, length, _, _ = FALLOCATE_IN.unpack_from(message, _HEADER)
        return int(offset), int(length)
    return -1, 0
