"""The one writer of a shard: takes batches in, acknowledges them from the write-ahead log, carries them to the tables.

Killed at any point, the next writer carries over what was acknowledged, once. Not here: how rows become files and
commits (`flush`), maintenance (`compaction`, `retention`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from fairlead.core import clock
from fairlead.core.batches import bulk
from fairlead.core.batches.bulk import Small
from fairlead.core.batches.rows import DecodedBatch
from fairlead.core.errors import LakeError, TooOldError, UnfitError
from fairlead.core.model.tables import JOBS, MAPPING, TableSpec
from fairlead.store import delta_table as delta
from fairlead.store import wal
from fairlead.store import wal_rows as hot
from fairlead.store.batch_writer import BatchWriter
from fairlead.store.checksums import open_checked_files
from fairlead.store.flush import Carrier, Derive, Regroup, explain_newer_flush, release_flushed_memory
from fairlead.store.lake_folder import Place, ShardLock
from fairlead.store.received_batches import (
    NOTHING,
    ReceivedRanges,
    Rows,
    hash_received_stream,
    read_received_firsts,
    sort_received_rows,
)
from fairlead.store.stored_tables import BATCHES, DAY_NS, SPECS

if TYPE_CHECKING:
    from deltalake import DeltaTable

ROLL_BYTES = 192 << 20
"""Uncompressed rows after which a segment is carried over to the tables."""
REMEMBER_NS = 30 * DAY_NS
"""How long a stream of the wire is remembered after it was last heard of."""
AHEAD_NS = DAY_NS
"""Rows of the wire may be dated this much ahead of the writer's clock."""
_MAX_SPAN_NS = 400 * DAY_NS
JOB_TABLES = frozenset((JOBS.name, MAPPING.name))
"""Tables whose rows tell that a job began or ended."""
_TOO_FULL = 2
_UNPACKED = 4
"""Rows in memory take about so many times their bytes in the log."""


class Ticket(NamedTuple):
    """What has been appended and is not acknowledged before `Writer.settle` returns."""

    segment: wal.Segment
    offset: int
    full: bool


class Writer:
    """Writes one shard until closed. All its methods may be used from many threads."""

    def __init__(
        self,
        place: Place,
        shard: str,
        *,
        wait_s: float = 0.0,
        now_ns: Callable[[], int] = clock.now_ns,
        derive: Derive | None = None,
        regroup: Regroup | None = None,
        remember_ns: int = REMEMBER_NS,
        carry_later: bool = False,
    ) -> None:
        """Takes the shard's lock and carries over what a writer before left behind; with `carry_later` it only notes
        which batches those are, and the next flush carries them. Raises LakeBusyError, LakeError.

        `derive` makes rows of further tables from the rows of a segment; they are committed with it, exactly once.
        `regroup` may put rows of `ops` as groups into `op_groups`, when that pays.
        """
        self.place = place
        self.shard = shard
        self.now_ns = now_ns
        self.remember_ns = remember_ns
        self.damaged: list[Path] = []
        """Segments set aside while opening because a frame in them failed its checksum."""
        self.heard_jobs = threading.Event()
        """Set when rows of jobs (begun, ended, on which nodes) were taken; whoever waits for it clears it."""
        self.trouble: LakeError | None = None
        """Why the last carrying over in the background failed; None when it did not. It is tried again."""
        self._turn = threading.Lock()
        self._flushing = threading.Lock()
        self._lock = ShardLock(place, shard, wait_s=wait_s)
        self._closed = False
        self._doubtful: tuple[int, OSError] | None = None
        """The segment whose last frames may not be on disk, and why, until it has been carried over."""
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._loads: dict[int, list[hot.Load]] = {}
        self._bytes: dict[int, int] = {}
        self._left: dict[int, list[tuple[int, int]]] = {}
        """Batches (key, number) of segments a writer before left behind, until they are carried over."""
        self._carrier = Carrier(place, shard, now_ns, derive, regroup)
        try:
            self._folder = place.build_wal_path(shard)
            self._segment = self._next_segment()
            if not carry_later:
                self._carry_over_older()
            self._carrier.remove_finished_plans()
            self._taken = ReceivedRanges(self._taken_before())
            self._note_left()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=kind is None)

    @property
    def backlog_bytes(self) -> int:
        """Memory of rows that are acknowledged and not yet in their tables. What takes rows in refuses more when it
        grows beyond what it may use."""
        return sum(tuple(self._bytes.values()))

    @property
    def left_segments(self) -> int:
        """Segments of a writer before that wait to be carried over."""
        return len(self._left)

    @property
    def underived_rows(self) -> int:
        """Rows carried over since opening that nothing could be derived of: their numbers make no sense."""
        return self._carrier.underived_rows

    def open_batch(self, stream: str, seq: int = 0, *, source: str = "", path: str = "") -> BatchWriter:
        """A batch to fill and commit. `stream` and `seq` identify it for ever: each number of a stream is taken once,
        in whatever order (an agent's boot counts up; a file's content is a stream of one batch)."""
        key = hash_received_stream(stream)
        return BatchWriter(self, hot.Batch(stream=stream, seq=seq, key=key, taken_ns=0, source=source, path=path))

    def has_batch(self, stream: str, seq: int = 0) -> bool:
        """Whether this batch has been taken in."""
        with self._turn:
            return self._taken.has(hash_received_stream(stream), seq)

    def take_batches(self, data: bytes | memoryview, decoded: Sequence[DecodedBatch]) -> tuple[int, int]:
        """Takes in a body of batches, which `batches.rows.decode_batch_rows` made `decoded` of: (taken, known before).

        Returns when it is on disk, and every reader will see it; one sync serves all threads that wait. All new
        batches of the body are taken or none. Raises TooOldError for a batch that is older than what is remembered,
        UnfitError for rows that cannot be (of an unknown table, of tomorrow), LakeError; nothing was taken then.
        """
        taken, known, ticket = self.append_batches(data, decoded)
        self.settle(ticket)
        return taken, known

    def append_batches(self, data: bytes | memoryview, decoded: Sequence[DecodedBatch]) -> tuple[int, int, Ticket]:
        """`take_batches` without waiting for the disk: that is `settle`'s."""
        now_ns = self.now_ns()
        self._check_wire(decoded, now_ns)
        keys = [hash_received_stream(one.stream) for one in decoded]
        load = hot.load_wal_wire_batches(decoded, now_ns)
        body = memoryview(data)
        with self._turn:
            segment, full = self._usable()
            new = self._new(keys, decoded)
            if new:
                whole = len(new) == len(decoded)
                bodies = [body] if whole else [body[decoded[n].begin : decoded[n].end] for n in new]
                if not whole:
                    load = hot.load_wal_wire_batches([decoded[n] for n in new], now_ns)
                offset = segment.append(hot.build_wal_rows_meta(now_ns), bodies)
                self._note(load)
            else:
                offset = segment.size
        return len(new), len(decoded) - len(new), Ticket(segment, offset, full)

    def append_small(
        self, bodies: Sequence[tuple[bytes, Sequence[Small]]]
    ) -> tuple[list[int], Ticket | None, dict[str, pa.RecordBatch]]:
        """Appends small bodies as one frame: which of them, a ticket to `settle`, and their rows by table. Those left
        out (something of them is known or cannot be) are to be taken with `take_batches`. Raises LakeError."""
        now_ns = self.now_ns()
        keys = [[hash_received_stream(one.stream) for one in batches] for _, batches in bodies]
        with self._turn:
            chosen = [n for n, (_, batches) in enumerate(bodies) if self._all_new(keys[n], batches)]
        batches = [one for n in chosen for one in bodies[n][1]]
        chosen_keys = [key for n in chosen for key in keys[n]]
        tables = bulk.build_bulk_rows(batches) if batches else None
        if tables is None or not self._of_now(batches, tables, now_ns):
            return [], None, {}
        load = hot.load_wal_small_batches(batches, chosen_keys, tables, now_ns)
        # A value told once for a thousand rows is short on the wire only.
        load.nbytes = max(load.nbytes, sum(rows.nbytes for rows in tables.values()))
        with self._turn:
            segment, full = self._usable()
            if not self._all_new(chosen_keys, batches):  # taken by another thread since, or twice among these
                return [], None, {}
            offset = segment.append(hot.build_wal_rows_meta(now_ns), [b"".join([bodies[n][0] for n in chosen])])
            self._note(load)
        return chosen, Ticket(segment, offset, full), tables

    def settle(self, ticket: Ticket) -> None:
        """Returns when what was appended is on disk: it may be acknowledged. Raises LakeError."""
        ticket.segment.settle(ticket.offset)
        if ticket.full:
            self._carry_soon()

    def take_batch(self, batch: hot.Batch, tables: dict[str, pa.Table]) -> bool:
        """Appends one batch and returns when it is on disk: True, or False when it was known. Raises LakeError."""
        meta, bodies = hot.pack_wal_batch(batch, tables)
        load = hot.load_wal_tables(batch, tables)
        with self._turn:
            segment, full = self._usable()
            known = self._taken.has(batch.key, batch.seq)
            if not known:
                offset = segment.append(meta, bodies)
                self._note(load)
            else:
                offset = segment.size
        segment.settle(offset)
        if full and self.backlog_bytes > _TOO_FULL * ROLL_BYTES:
            self.flush()
        elif full:
            self._carry_soon()
        return not known

    def flush(self) -> int:
        """Carries every acknowledged batch to its tables; returns how many they were. Readers see no difference.

        Raises LakeError; nothing is lost then, and the next flush begins where this one failed.
        """
        with self._flushing:
            with self._turn:
                self._roll()
                count = sum(len(load.notes) for loads in self._loads.values() for load in loads)
            self._carry_over_older()
            self.trouble = None
            return count

    def close(self, *, flush: bool = True) -> None:
        """Flushes and lets the next writer in. Without `flush` the rows stay in the log for that writer."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if flush:
                self.flush()
            self._segment.close()
        finally:
            self._carrier.close()
            self._lock.release()

    def open_table(self, spec: TableSpec) -> AbstractContextManager[DeltaTable]:
        """The shard's Delta table of `spec` at its newest version, made if there is none, for this thread alone: no
        segment is committed meanwhile. Raises LakeError."""
        return self._carrier.open_table(spec)

    @contextmanager
    def pause_carrying(self) -> Iterator[None]:
        """No segment is being carried over meanwhile; batches are taken in as ever."""
        with self._flushing:
            yield

    def recall(self) -> None:
        """Reads `_batches` again, after something was forgotten there. Raises LakeError."""
        with self._flushing:
            before = ReceivedRanges(self._taken_before())
            with self._turn:
                for loads in self._loads.values():
                    for load in loads:
                        for note in load.notes:
                            before.add(note.key, note.seq)
                for left in self._left.values():
                    for key, seq in left:
                        before.add(key, seq)
                self._taken = before

    def _usable(self) -> tuple[wal.Segment, bool]:
        """The segment to append to, and whether the one before it is full and waits to be carried over. Segments stay
        small: carrying one over takes several times its memory."""
        if self._closed:
            raise LakeError("the writer is closed", where=str(self.place.root))
        if self._doubtful is not None:
            raise LakeError(
                "the log could not be written: nothing is taken before what it holds is in the tables",
                where=str(self.place.root),
                remedy="make room or repair the file system",
            ) from self._doubtful[1]
        full = self._bytes.get(self._segment.number, 0) > ROLL_BYTES
        if full:
            self._roll()
        return self._segment, full

    def _note(self, load: hot.Load) -> None:
        for note in load.notes:
            self._taken.add(note.key, note.seq)
        if not JOB_TABLES.isdisjoint(load.pieces):
            self.heard_jobs.set()
        number = self._segment.number
        self._loads.setdefault(number, []).append(load)
        self._bytes[number] = self._bytes.get(number, 0) + load.nbytes

    def _new(self, keys: Sequence[int], decoded: Sequence[DecodedBatch]) -> list[int]:
        """Which batches of a body are new; of two equal ones the first. Raises UnfitError."""
        taken = self._taken
        new: dict[tuple[int, int], int] = {}
        for number, (key, one) in enumerate(zip(keys, decoded, strict=True)):
            if (key, one.header.seq) not in new and not taken.has(key, one.header.seq):
                if not taken.has_room(key):
                    raise UnfitError(
                        "too many batches of its stream are missing", where=one.stream, remedy="send those first"
                    )
                new[key, one.header.seq] = number
        return list(new.values())

    def _all_new(self, keys: Sequence[int], batches: Sequence[Small]) -> bool:
        """Whether none was taken, none is twice among them, and all can be remembered."""
        taken = self._taken
        pairs = {(key, one.header.seq) for key, one in zip(keys, batches, strict=True)}
        return len(pairs) == len(batches) and all(not taken.has(*pair) and taken.has_room(pair[0]) for pair in pairs)

    def _of_now(self, batches: Sequence[Small], tables: Mapping[str, pa.RecordBatch], now_ns: int) -> bool:
        """Whether every row and every header is of a time that `_check_wire` lets pass, told by the outermost alone."""
        times = [time for name, rows in tables.items() if (time := _times(rows, SPECS[name])) is not None]
        first = min([time[0] for time in times])
        said = min([one.header.last_ns for one in batches if one.header.last_ns is not None], default=first)
        last = max([time[1] for time in times])
        oldest = now_ns - min(self.remember_ns, _MAX_SPAN_NS - AHEAD_NS)
        return min(first, said) >= oldest and last <= now_ns + AHEAD_NS

    def _check_wire(self, decoded: Sequence[DecodedBatch], now_ns: int) -> None:
        for one in decoded:
            header = one.header
            if one.rows is None:
                raise UnfitError(f"rows of an unknown table {header.table!r}", remedy="upgrade fairlead")
            times = _times(one.rows, SPECS[header.table])
            # What has no time of its own is of the day its header says.
            said = [t for t in (header.first_ns, header.last_ns, *(times or ())) if t is not None]
            last_ns = max((t for t in (header.last_ns, times and times[1]) if t is not None), default=header.first_ns)
            if last_ns is not None and last_ns < now_ns - self.remember_ns:
                raise TooOldError(
                    f"a batch older than {self.remember_ns // DAY_NS} days",
                    where=one.stream,
                    remedy="ingest it as a file: fairlead ingest",
                )
            if said and max(said) > now_ns + AHEAD_NS:
                raise UnfitError(
                    "rows dated more than a day ahead", where=one.stream, remedy="set the clock of the node right"
                )
            if said and max(said) - min(said) > _MAX_SPAN_NS:
                raise UnfitError("rows of more than a year", where=one.stream, remedy="set the clock of the node right")

    def _taken_before(self) -> Rows:
        """What the table `_batches` says."""
        from pyarrow import parquet

        folder = self.place.build_table_path(self.shard, BATCHES.name)
        table = delta.open_delta(folder)
        parts = delta.list_delta_parts(table) if table is not None else []
        read = []
        checked = open_checked_files(self.place.root)
        for part in parts:
            path = folder / part.path
            checked.check([str(path)])
            try:
                names = set(parquet.read_schema(path).names) & {"key", "seq", "first_seq"}
                read.append(parquet.read_table(path, columns=sorted(names), partitioning=None))
            except (OSError, pa.ArrowException) as error:
                raise delta.explain_damaged_delta(path, error) from error
        if not read:
            return NOTHING
        return sort_received_rows(
            np.concatenate([rows.column("key").to_numpy() for rows in read]),
            np.concatenate([read_received_firsts(rows) for rows in read]),
            np.concatenate([rows.column("seq").to_numpy() for rows in read]),
        )

    def _next_segment(self) -> wal.Segment:
        """A new segment. Its number exceeds every number ever used, even if the log's folder was deleted by hand."""
        numbers = [number for number, _ in (*wal.list_wal_segments(self._folder), *wal.list_wal_plans(self._folder))]
        folders = [self.place.build_table_path(self.shard, name) for name in self.place.list_tables(self.shard)]
        numbers += [delta.find_delta_segment(delta.open_delta(folder)) for folder in folders]
        return wal.Segment(self._folder, max(numbers, default=0) + 1)

    def _roll(self) -> None:
        """Begins a new segment when there is anything in this one."""
        done = self._segment
        if (failure := done.broken) is not None:
            # What of it was not acknowledged may not be on disk: it is carried over from memory before more is taken.
            self._segment = wal.Segment(self._folder, done.number + 1)
            self._doubtful = (done.number, failure)
            done.abandon()
        elif done.frames:
            # Under the lock: a batch sent twice must not be called known before its first copy is on disk.
            done.settle(done.size)
            self._segment = wal.Segment(self._folder, done.number + 1)
            done.close()

    def _note_left(self) -> None:
        """Notes the batches of segments that wait to be carried over, without decoding their rows. Raises LakeError."""
        for number, path in wal.list_wal_segments(self._folder):
            if number >= self._segment.number:
                continue
            left = []
            for frame in wal.read_wal_segment(path).frames:
                names, batches = hot.list_wal_batches(frame)
                _all_known(names, path)
                left += batches
            for key, seq in left:
                self._taken.add(key, seq)
            self._left[number] = left
            self._bytes[number] = _UNPACKED * path.stat().st_size

    def _carry_soon(self) -> None:
        with self._turn:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._carry_on, name="lake-carry", daemon=True)
                self._thread.start()
        self._wake.set()

    def _carry_on(self) -> None:
        """The carrying thread: whenever a segment is full, until the writer is closed."""
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._closed:
                return
            try:
                with self._flushing:
                    self._carry_over_older()
                self.trouble = None
            except LakeError as error:
                self.trouble = error

    def _carry_over_older(self) -> None:
        """Oldest first, never one before its predecessor: tables remember the highest number only."""
        for number, path in wal.list_wal_segments(self._folder):
            if number < self._segment.number:
                self._carry_over(number, path)

    def _carry_over(self, number: int, path: Path) -> None:
        loads = self._loads.get(number)
        damaged = False
        if loads is None:
            contents = wal.read_wal_segment(path)
            # What looks torn off may be whole behind a damaged length: that is kept, too.
            damaged = bool(contents.damaged) or (contents.torn > 0 and wal.has_hidden_wal_frames(path, contents.torn))
            for frame in contents.frames:
                _all_known(set(hot.count_wal_rows(frame)[0]), path)
            loads = [hot.load_wal_frame(frame, strict=True) for frame in contents.frames]
        if loads:
            self._carrier.carry(number, loads)
        if damaged:
            aside = path.with_name(path.name + ".damaged")
            path.replace(aside)
            self.damaged.append(aside)
        else:
            path.unlink()
        wal.build_wal_plan_path(self._folder, number).unlink(missing_ok=True)
        with self._turn:
            self._loads.pop(number, None)
            self._bytes.pop(number, None)
            self._left.pop(number, None)
            if self._doubtful is not None and self._doubtful[0] == number:
                self._doubtful = None
        del loads
        release_flushed_memory()


def _times(rows: pa.RecordBatch, spec: TableSpec) -> tuple[int, int] | None:
    """Earliest and latest time, None when no row has one."""
    if spec.time_column is None or not rows.num_rows:
        return None
    times = rows.column(spec.time_column)
    values = (times.drop_null() if times.null_count else times).to_numpy()
    return (int(values.min()), int(values.max())) if len(values) else None


def _all_known(names: set[str], path: Path) -> None:
    unknown = sorted(names - SPECS.keys())
    if unknown:
        raise explain_newer_flush(unknown[0], path)
