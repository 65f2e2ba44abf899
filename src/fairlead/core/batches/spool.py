"""A folder where batches wait to be taken in or sent: files appear whole or not at all, the oldest go when it fills.

Any number of writers share a spool, each with a `Spool` of its own; whoever takes a file in removes it. Python 3.6 or
newer, standard library only: mounts, forwarders and agents write with it. The format of a batch is `encoding`.
"""

import os
import re
import time
from contextlib import suppress
from heapq import nsmallest
from typing import BinaryIO, Callable, Dict, Iterator, List, Optional, Sequence, Tuple
from zlib import crc32

from fairlead.core.batches.encoding import MAGIC, PREFIX, Header, encode_batch, encode_numbers, encode_words

ENDING = ".batch"
DRAFT = ".tmp"
MAX_BYTES = 1 << 30
"""Room a spool takes when nothing else is said."""
_STALE_NS = 3600 * 10**9
_LOOK_EVERY = 32
"""Files between two looks at how much the folder holds."""
_AT_ONCE = 256
"""Oldest files kept in mind at a time while room is made: a spool may hold more names than memory should."""
_MOST = 16 << 20
"""Bytes of a header, at most, for a file to be whole."""
EVENTS_VERSION = 1


def read_spool_clock_ns() -> int:
    """Wall-clock time in nanoseconds since 1970, for Python 3.6 (`fairlead.core.clock` does not travel)."""
    return int(time.time() * 1e9)


class Spool:
    """One writer's way into a spool. Not shared between threads."""

    def __init__(
        self,
        folder: "str | os.PathLike[str]",
        *,
        node: str,
        writer: str,
        layer: str = "client",
        max_bytes: int = MAX_BYTES,
        sync: bool = False,
        clock: Callable[[], int] = read_spool_clock_ns,
    ) -> None:
        """Makes the folder if need be. `writer` says who writes (`mount:/scratch`, `forwarder:fwd0`); `sync` waits for
        the disk before a file appears. Raises OSError when nothing can be written there."""
        self.folder = os.fspath(folder)
        self.node = node
        self.writer = writer
        self.layer = layer
        self.boot_id = os.urandom(16).hex()
        """Names this run of this writer; with `seq` it names a batch for ever."""
        self.seq = 0
        self.lost_batches = 0
        """Batches removed to make room, or never written, since this writer began."""
        self._max_bytes = max_bytes
        self._sync = sync
        self._clock = clock
        self._looked_at = 0
        self._held_bytes = 0
        self._dropped_files = 0
        self._dropped_bytes = 0
        self._lost = 0
        self._lost_why = ""
        place = re.sub(r"[^A-Za-z0-9._-]+", "_", "{}-{}".format(node, writer))[:80]
        self._name = "{}-{}".format(place, self.boot_id[:12])
        _make(self.folder)
        self._tidy()
        probe = os.path.join(self.folder, "." + self._name + DRAFT)
        with open(probe, "wb"):
            pass
        os.unlink(probe)

    def build_header(
        self,
        table: str,
        version: int,
        rows: int,
        *,
        first_ns: Optional[int] = None,
        last_ns: Optional[int] = None,
        job: Optional[Dict[str, object]] = None,
    ) -> Header:
        """The header of the next batch of this writer."""
        self.seq += 1
        return Header(
            table=table,
            version=version,
            node=self.node,
            boot_id=self.boot_id,
            seq=self.seq,
            rows=rows,
            layer=self.layer,
            writer=self.writer,
            first_ns=first_ns,
            last_ns=last_ns,
            job=job,
        )

    def write(self, batches: Sequence[bytes]) -> Optional[str]:
        """One file of these batches; its path. None when it could not be written: that is counted, and told by an event
        in the next file that can be; recording never stops what is recorded."""
        told = self._events()
        if not batches and not told:
            return None
        name = "{:020d}-{}-{:08d}{}".format(self._clock(), self._name, self.seq, ENDING)
        draft, final = os.path.join(self.folder, "." + self._name + DRAFT), os.path.join(self.folder, name)
        dropped = self._dropped_files, self._dropped_bytes, self._lost
        try:
            size = sum(len(one) for one in batches) + len(told or b"")
            self._make_room(size)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
            try:
                for one in batches:
                    _write_all(descriptor, one)
                if told:
                    _write_all(descriptor, told)
                if self._sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(draft, final)
            if self._sync:
                self._sync_folder()
        except OSError as fault:
            self._lost += len(batches)
            self.lost_batches += len(batches)
            self._lost_why = fault.strerror or str(fault)
            with suppress(OSError):
                os.unlink(draft)
            return None
        if told:  # what was dropped to make room for this very file is told by the next
            self._dropped_files -= dropped[0]
            self._dropped_bytes -= dropped[1]
            self._lost -= dropped[2]
        self._held_bytes += size
        return final

    def _sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _make_room(self, size: int) -> None:
        """Removes the oldest files, whoever wrote them, until `size` more bytes fit, and a little more: looking for
        them in a full spool takes time."""
        self._looked_at -= 1
        if self._looked_at > 0 and self._held_bytes + size <= self._max_bytes:
            return
        self._looked_at = _LOOK_EVERY
        goal = self._max_bytes - size
        while True:
            self._held_bytes = 0
            oldest = nsmallest(_AT_ONCE, self._held())
            if self._held_bytes <= goal or not oldest:
                return
            goal = min(goal, self._max_bytes - self._max_bytes // 64)
            for name, one in oldest:
                if self._held_bytes <= goal:
                    return
                self._held_bytes -= one
                self._drop(name, one)

    def _held(self) -> Iterator[Tuple[str, int]]:
        """Name and bytes of every file; adds to `_held_bytes`."""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(ENDING) and entry.name[0] != ".":
                    try:
                        size = entry.stat(follow_symlinks=False).st_size
                    except OSError:  # taken in or dropped by another writer
                        continue
                    self._held_bytes += size
                    yield entry.name, size

    def _drop(self, name: str, size: int) -> None:
        path = os.path.join(self.folder, name)
        with suppress(OSError):
            count = count_spool_batches(path)[0]
            os.unlink(path)
            self._dropped_files += 1
            self._dropped_bytes += size
            self.lost_batches += count

    def _events(self) -> Optional[bytes]:
        """What was lost since the last file, as a batch of `events`."""
        told = []
        if self._dropped_files:
            text = "the spool was full: its {} oldest files ({} bytes) were removed"
            told.append(("spool_full", text.format(self._dropped_files, self._dropped_bytes)))
        if self._lost:
            told.append(("records_lost", "{} batches could not be written: {}".format(self._lost, self._lost_why)))
        return self.build_events(told) if told else None

    def build_events(self, told: Sequence[Tuple[str, str]]) -> bytes:
        """A batch of `events` about this writer, now: (kind, text)."""
        now = self._clock()
        count = len(told)
        return encode_batch(
            self.build_header("events", EVENTS_VERSION, count, first_ns=now, last_ns=now),
            {
                "ts_ns": encode_numbers([now] * count),
                "component": encode_words([self.writer + "@" + self.node] * count),
                "kind": encode_words([kind for kind, _ in told]),
                "text": encode_words([text for _, text in told]),
            },
        )

    def _tidy(self) -> None:
        """Removes drafts that writers killed long ago left behind."""
        now = self._clock()
        with os.scandir(self.folder) as entries:
            old = [e.name for e in entries if e.name[0] == "." and e.name.endswith(DRAFT)]
        for name in old:
            path = os.path.join(self.folder, name)
            with suppress(OSError):
                if now - os.stat(path).st_mtime_ns > _STALE_NS:
                    os.unlink(path)


def count_spool_batches(path: str) -> Tuple[int, bool]:
    """How many batches a file begins with, and whether it is whole: batch after batch to its last byte.

    Headers are checked by their sums; payloads only by their length. Raises OSError.
    """
    with open(path, "rb") as stream:
        left = os.fstat(stream.fileno()).st_size
        count = 0
        while left:
            length = _length_of_next(stream)
            if length is None or length > left:
                return count, False
            left -= length
            count += 1
            stream.seek(length, 1)
        return count, True


def _length_of_next(stream: BinaryIO) -> Optional[int]:
    """Bytes of the batch that begins here, None when none does. The stream stays where it was."""
    at = stream.tell()
    prefix = stream.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    magic, header_bytes, payload_bytes, crc = PREFIX.unpack(prefix)
    if magic[:-1] != MAGIC[:-1] or header_bytes > _MOST or crc32(stream.read(header_bytes)) != crc:
        return None
    stream.seek(at)
    length: int = PREFIX.size + header_bytes + payload_bytes
    return length


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _make(folder: str) -> None:
    """The folder and what is above it, for others to read at most: a forwarder's own umask is 0 while it serves."""
    missing: List[str] = []
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path, 0o755)
    if missing and not os.path.isdir(folder):
        raise NotADirectoryError(20, "Not a directory", folder)
