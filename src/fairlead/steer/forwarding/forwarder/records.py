"""A forwarder's own records: once a second what it carried out, for whom, how long it waited, and what its targets did.

`executed` is called for every request and only notes it; a thread counts, makes rows and files. Standard library only.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from fairlead.core.batches.encoding import (
    Column,
    encode_batch,
    encode_fractions,
    encode_lists,
    encode_numbers,
    encode_words,
)
from fairlead.core.batches.spool import Spool
from fairlead.core.clock import monotonic_ns, now_ns
from fairlead.steer.forwarding.forwarder.counters import CLASSES, Tallies, Tally, fold_forwarder_counters
from fairlead.steer.forwarding.record_spool import open_record_spool
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trace.runs import WORDS

if TYPE_CHECKING:
    from fairlead.steer.fs.trees.base import FileTree

INTERVAL_S = 1.0
FILE_S = 5.0
_SPACE_NS, _IDLE_SPACE_NS = 5 * 10**9, 60 * 10**9
SAMPLE_EVERY = 1008
"""Requests between two samples of the queue's length; Beacon's are 1,000, this is the next multiple of 16."""
_MANY = 512
Executed = tuple[int, int, str | int, int, int, int, str, int]
"""A request that was carried out: class, opcode, job (a number stands for a client without one), wait and service in
ns, bytes moved (0 when it failed), client, error (0, -errno, or a refusal above 0, which does not count: the client
sends the request again)."""
_SETATTR = int(Op.SETATTR)
_DATA = (int(Op.READ), int(Op.WRITE))
_Rows = dict[str, list[tuple[Any, ...]]]


def _parse_columns(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `i:ts_ns w:node` into (name, kind) pairs."""
    return tuple((name, kind) for kind, _, name in (part.partition(":") for part in text.split()))


COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "forwarder": _parse_columns(
        "i:ts_ns i:interval_ns w:node w:job_id w:op_class i:requests i:bytes l:wait_ns_histogram "
        "l:service_ns_histogram f:queue_len_mean i:queue_len_max"
    ),
    "metadata": _parse_columns("i:ts_ns i:interval_ns w:server w:client w:job_id w:op i:count"),
    "pfs_client": _parse_columns(
        "i:ts_ns i:interval_ns w:node w:job_id w:target i:read_rpcs i:write_rpcs i:read_bytes i:write_bytes "
        "i:cache_hit i:cache_miss i:cache_discard"
    ),
    "target": _parse_columns(
        "i:ts_ns i:interval_ns w:server w:target w:job_id i:read_rpcs i:write_rpcs i:read_bytes i:write_bytes "
        "l:service_ns_histogram i:capacity_bytes i:used_bytes i:inodes_used"
    ),
    "mapping": _parse_columns("i:from_ns i:to_ns w:kind w:a w:b"),
}
"""Columns of the rows made here, in order; i integers, f fractions, w words, l lists of integers."""
_MAKERS: dict[str, Callable[[Sequence[Any]], Column]] = {
    "i": encode_numbers,
    "f": encode_fractions,
    "w": encode_words,
    "l": encode_lists,
}
_VERSION = 1


class TargetSpace(Protocol):
    """Space of one target (`trees.targets.space.TargetReport`)."""

    @property
    def name(self) -> str: ...
    @property
    def capacity(self) -> int | None: ...
    @property
    def used(self) -> int | None: ...
    @property
    def inodes(self) -> int | None: ...


class TargetCounts(Protocol):
    """What was done on a target for one job (`trees.targets.objects.Counters`)."""

    read_rpcs: int
    read_bytes: int
    write_rpcs: int
    write_bytes: int
    service_ns: list[int]


class StripedTree(Protocol):
    """A tree that counts by target and job (`trees.targets.tree.TargetsTree`)."""

    placed: Callable[[int, list[str], str], None] | None

    def report_targets(self) -> Sequence[TargetSpace]: ...

    def take_by_job(self) -> Mapping[str, Mapping[str, TargetCounts]]: ...


class CacheCounts(Protocol):
    """Cumulative counts of a read cache."""

    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    @property
    def discards(self) -> int: ...


class ForwarderRecords:
    """The records of one forwarder. Its `record_...` methods may be called by any thread."""

    def __init__(
        self,
        spool: Spool,
        name: str,
        *,
        tree: str,
        striped: StripedTree | None = None,
        cache: Callable[[], CacheCounts] | None = None,
        space_of: str | None = None,
        interval_s: float = INTERVAL_S,
        file_s: float = FILE_S,
    ) -> None:
        """`tree` names what is exported. A `striped` tree counts what its targets do; any other is one target itself,
        its space that of the path `space_of`. `cache` gives the counts of the read cache."""
        self.on = True
        """Whether requests are to be counted. May be changed at any time."""
        self.name = name
        self._spool = spool
        self._tree = tree
        self._striped = striped
        self._cache = cache
        self._space_of = space_of
        self._lock = threading.Lock()
        self._tallies = Tallies()
        self._done: deque[Executed] = deque()
        self.executed: Callable[[Executed], None] = self._done.append
        """One request was carried out: an `Executed`. It is counted later: between system calls no cache is warm, and
        this is all that can be had for a third of a microsecond."""
        self._cache_before = (0, 0, 0)
        self._served: dict[str, tuple[str, int]] = {}
        self._rows: _Rows = {}
        self._interval_s = interval_s
        self._file_s = file_s
        self._since_ns = monotonic_ns()
        self._written_ns = self._since_ns
        self._space_due_ns = 0
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        if striped is not None:
            striped.take_by_job()  # begins the counting
            striped.placed = self.record_placement

    # -- told by the server ---------------------------------------------------------------------------------------

    def look(self, queue_len: int, done: int) -> None:
        """The queue is this long, when so many requests were carried out; told every 16th time."""
        with self._lock:
            self._tallies.look(queue_len, sample=not done % SAMPLE_EVERY)

    def record_connect(self, client: str, session: str) -> None:
        """A client's session has begun here."""
        now = now_ns()
        with self._lock:
            if session in self._served:
                return
            self._served[session] = (client, now)
            self._add("mapping", (now, None, "node_forwarder", client, self.name))

    def record_disconnect(self, session: str) -> None:
        """A client's session has ended here."""
        with self._lock:
            found = self._served.pop(session, None)
            if found is not None:
                self._add("mapping", (found[1], now_ns(), "node_forwarder", found[0], self.name))

    def record_placement(self, node: int, targets: Sequence[str], path: str = "") -> None:
        """A file, by its node and, where it is known, its path in the tree, got its targets."""
        now = now_ns()
        with self._lock:
            for target in targets:
                self._add("mapping", (now, None, "file_targets", f"{self._tree}:{path or node}", target))

    # -- the thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread that makes rows; after the process has forked, if it does."""
        self._thread = threading.Thread(target=self._work, name="records", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Everything counted so far is in the spool when it returns."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for session in list(self._served):
            self.record_disconnect(session)
        self.flush()

    def flush(self) -> None:
        """Ends the interval now and writes it."""
        with self._turn:
            self._take()
            self._write()

    def _work(self) -> None:
        try:
            self._look_after()
        except BaseException:
            self.on = False  # nobody would take what is noted
            raise

    def _look_after(self) -> None:
        interval_ns = int(self._interval_s * 1e9)
        due_ns = monotonic_ns() + interval_ns
        pause_s = self._interval_s
        while not self._stop.wait(pause_s):
            with self._turn, self._lock:
                # Many at a time would hold the workers up, and take memory.
                longest_s = self._interval_s / 8 if self._count() > _MANY else self._interval_s
            now = monotonic_ns()
            if now >= due_ns - interval_ns // 10:
                # Counted from when it was due: intervals that drift would leave seconds without a row.
                due_ns += interval_ns
                if due_ns < now:
                    due_ns = now + interval_ns
                with self._turn:
                    self._take()
                    if monotonic_ns() - self._written_ns >= self._file_s * 1e9:
                        self._write()
            pause_s = min(longest_s, max(due_ns - monotonic_ns(), 0) / 1e9)

    def _add(self, table: str, row: tuple[object, ...]) -> None:
        self._rows.setdefault(table, []).append(row)

    def _count(self) -> int:
        """Counts what was carried out since the last time; how many requests."""
        done, by_operation = self._done, self._tallies.by_operation
        count = len(done)
        take = done.popleft
        last: tuple[object, ...] = ()
        tally = Tally(0)
        wait, service = tally.wait, tally.service
        moved = 0
        for _ in range(count):
            op_class, op, job, wait_ns, service_ns, size, client, error = take()
            if error > 0:
                continue
            if (job, client, op) != last:  # neighbours are mostly alike
                last = (job, client, op)
                tally.bytes += moved
                moved = 0
                key = (job if isinstance(job, str) else "", client, op)
                found = by_operation.get(key)
                if found is None:
                    found = by_operation[key] = Tally(op_class)
                tally, wait, service = found, found.wait, found.service
            wait[wait_ns.bit_length()] += 1
            service[service_ns.bit_length()] += 1
            moved += size
        tally.bytes += moved
        return count

    def _take(self) -> None:
        """Ends an interval: what was counted in it becomes rows, dated by its end."""
        with self._lock:
            self._count()
            taken, self._tallies = self._tallies, Tallies()
        now, since = monotonic_ns(), self._since_ns
        self._since_ns = now
        when = (now_ns(), now - since)
        rows: list[tuple[str, tuple[object, ...]]] = []
        for job, op_class, tally in taken.iterate_rows():
            rows.append(
                (
                    "forwarder",
                    (
                        *when,
                        self.name,
                        job or None,
                        CLASSES[op_class],
                        tally.requests,
                        tally.bytes,
                        fold_forwarder_counters(tally.wait),
                        fold_forwarder_counters(tally.service),
                        None,
                        None,
                    ),
                )
            )
        if taken.by_operation:
            mean = taken.queue_sum / taken.queue_samples if taken.queue_samples else None
            rows.append(("forwarder", (*when, self.name, None, "all", None, None, None, None, mean, taken.queue_max)))
        rows += [("metadata", row) for row in self._operations(taken, when)]
        for job, target, counts, service in self._moved(taken):
            rows.append(("pfs_client", (*when, self.name, job or None, target, *counts, None, None, None)))
            rows.append(("target", (*when, self.name, target, job or None, *counts, service, None, None, None)))
        if now >= self._space_due_ns:
            # Statvfs of many targets is not for every second, nor is a file every five of an idle forwarder.
            self._space_due_ns = now + (_SPACE_NS if taken.by_operation else _IDLE_SPACE_NS)
            rows += [
                ("target", (*when, self.name, target, None, None, None, None, None, None, *space))
                for target, *space in self._spaces()
            ]
        cache = self._cache_deltas()
        if any(cache):
            rows.append(("pfs_client", (*when, self.name, None, None, None, None, None, None, *cache)))
        with self._lock:
            for table, row in rows:
                self._add(table, row)

    def _operations(self, taken: Tallies, when: tuple[int, int]) -> list[tuple[object, ...]]:
        counts: dict[tuple[str, str, str], int] = {}
        for (job, client, op), tally in taken.by_operation.items():
            word = "setattr" if op == _SETATTR else WORDS.get(op)
            if word is not None and op not in _DATA:
                key = (client, job, word)
                counts[key] = counts.get(key, 0) + tally.requests
        return [
            (*when, self.name, client or None, job or None, word, count)
            for (client, job, word), count in counts.items()
        ]

    def _moved(self, taken: Tallies) -> list[tuple[str, str, tuple[int, int, int, int], list[int]]]:
        """Job, target, (reads, writes, bytes read, bytes written) and service times on the target."""
        if self._striped is not None:
            return [
                (job, target, (c.read_rpcs, c.write_rpcs, c.read_bytes, c.write_bytes), c.service_ns)
                for target, jobs in self._striped.take_by_job().items()
                for job, c in jobs.items()
            ]
        return [
            (
                job,
                self._tree,
                (reads.requests, writes.requests, reads.bytes, writes.bytes),
                [
                    a + b
                    for a, b in zip(
                        fold_forwarder_counters(reads.service), fold_forwarder_counters(writes.service), strict=True
                    )
                ],
            )
            for job, (_, reads, writes) in taken.group_by_class().items()
            if reads.requests or writes.requests
        ]

    def _spaces(self) -> list[tuple[object, ...]]:
        """Name, capacity, used bytes and used inodes of each target."""
        if self._striped is not None:
            return [(one.name, one.capacity, one.used, one.inodes) for one in self._striped.report_targets()]
        if self._space_of is None:
            return []
        try:
            found = os.statvfs(self._space_of)
        except OSError:  # it is said by the requests that fail
            return []
        size = found.f_frsize
        used = found.f_files - found.f_ffree
        return [(self._tree, found.f_blocks * size, (found.f_blocks - found.f_bfree) * size, used)]

    def _cache_deltas(self) -> tuple[int, int, int]:
        if self._cache is None:
            return 0, 0, 0
        counts = self._cache()
        now, before = (counts.hits, counts.misses, counts.discards), self._cache_before
        self._cache_before = now
        return now[0] - before[0], now[1] - before[1], now[2] - before[2]

    def _write(self) -> None:
        """One file of all rows that wait."""
        self._written_ns = monotonic_ns()
        with self._lock:
            taken, self._rows = self._rows, {}
        batches = []
        for table, rows in taken.items():
            times = [row[0] for row in rows]
            header = self._spool.build_header(table, _VERSION, len(rows), first_ns=min(times), last_ns=max(times))
            columns = zip(COLUMNS[table], zip(*rows, strict=True), strict=True)
            batches.append(encode_batch(header, {name: _MAKERS[kind](values) for (name, kind), values in columns}))
        self._spool.write(batches)


def build_forwarder_records(
    tree: FileTree, folder: Path, name: str, cache: Callable[[], CacheCounts] | None = None
) -> ForwarderRecords:
    """The records of a forwarder of that name and tree, into the spool in `folder`. Raises ForwardingError."""
    node = os.uname().nodename.partition(".")[0] or "localhost"
    spool = open_record_spool(folder, node=node, writer=f"forwarder:{name}", layer="forwarder")
    if hasattr(tree, "take_by_job"):
        return ForwarderRecords(spool, name, tree=tree.name, striped=cast(StripedTree, tree), cache=cache)
    space_of = tree.name if os.path.isdir(tree.name) else None
    return ForwarderRecords(spool, name, tree=tree.name, space_of=space_of, cache=cache)
