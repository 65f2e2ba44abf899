"""DXT (extended tracing) → batches of `ops`, one row per recorded segment, in the order of the log.

A record is a header (one file, one rank, one host) and its segments, writes first. Python walks the headers; the
segments are columns. Not here: run-length compression of what comes out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import OPS, build_table_batch, build_table_word_column
from fairlead.see.sources.darshan.records import (
    MOST_BYTES,
    Placing,
    Tally,
    check_darshan_record_ranks,
    convert_darshan_record_times,
)
from fairlead.see.sources.darshan.regions import DamagedRegionError

HEADER_BYTES = 104
_COUNTS_AT = 88
_MOST_SEGMENTS = 1 << 40
_OP_WORDS = ["write", "read"]

INTERFACES = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}
_THREADS_SINCE = {"DXT_POSIX": 2, "DXT_MPIIO": 3}
_OFFSETS_SINCE = {"DXT_POSIX": 1, "DXT_MPIIO": 2}


@dataclass(frozen=True)
class Block:
    """Segments of consecutive records: n segments of `words` int64 each, r records (the first and last may be parts).

    `headers` (r,) says whose they are; `writes` and `reads` (r,) how many of each follow, writes first.
    """

    segments: NDArray[np.int64]
    headers: NDArray[np.void]
    writes: NDArray[np.int64]
    reads: NDArray[np.int64]


def count_dxt_segment_words(module: str, version: int) -> int:
    """64-bit words of a segment: offset, length, start, end, and a thread since some version."""
    return 5 if version >= _THREADS_SINCE[module] else 4


def has_dxt_offsets(module: str, version: int) -> bool:
    """Version 1 of DXT_MPIIO recorded no offsets."""
    return version >= _OFFSETS_SINCE[module]


def _header_dtype(order: str) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("id", f"{order}u8"),
            ("rank", f"{order}i8"),
            ("shared", f"{order}i8"),
            ("host", "S64"),
            ("writes", f"{order}i8"),
            ("reads", f"{order}i8"),
        ]
    )


def walk_dxt_segments(regions: Iterable[bytes], order: str, words: int) -> Iterator[Block]:
    """Blocks of segments. Raises DamagedRegionError after the last sound one when a record is cut off or counts what
    cannot be."""
    walker = _Walker(order, words)
    for region in regions:
        block = walker.feed(region)
        if block is not None:
            yield block
        if walker.damage:
            raise DamagedRegionError(walker.damage)
    if walker.rest or walker.writes or walker.reads:
        raise DamagedRegionError("ends within a record")


class _Walker:
    """Hops from header to header; holds the record that is still open and the bytes not yet used."""

    def __init__(self, order: str, words: int) -> None:
        self.order, self.words = order, words
        self.rest = b""
        self.header: bytes | memoryview = b""
        self.writes = self.reads = 0
        self.damage: str | None = None
        self._counts = struct.Struct(f"{order}qq").unpack_from

    def feed(self, region: bytes) -> Block | None:
        """The segments that `region` completes, None when there are none."""
        data = self.rest + region if self.rest else region
        view, total, position, size = memoryview(data), len(data), 0, 8 * self.words
        pieces: list[memoryview] = []
        headers: list[bytes | memoryview] = []
        counts: list[tuple[int, int]] = []
        while True:
            if self.writes or self.reads:
                room = (total - position) // size
                writes = min(self.writes, room)
                reads = min(self.reads, room - writes)
                if not (writes or reads):
                    break
                stop = position + (writes + reads) * size
                pieces.append(view[position:stop])
                headers.append(self.header)
                counts.append((writes, reads))
                position = stop
                self.writes -= writes
                self.reads -= reads
                if self.writes or self.reads:
                    break
            if position + HEADER_BYTES > total:
                break
            self.header = view[position : position + HEADER_BYTES]
            self.writes, self.reads = self._counts(view, position + _COUNTS_AT)
            if not (0 <= self.writes < _MOST_SEGMENTS and 0 <= self.reads < _MOST_SEGMENTS):
                self.damage = "counts an impossible number of segments"
                break
            position += HEADER_BYTES
        self.rest, self.header = bytes(view[position:]), bytes(self.header)
        return self._block(pieces, headers, counts) if counts else None

    def _block(
        self, pieces: list[memoryview], headers: list[bytes | memoryview], counts: list[tuple[int, int]]
    ) -> Block:
        segments = np.frombuffer(b"".join(pieces), f"{self.order}i8").reshape(-1, self.words)
        both = np.array(counts, np.int64)
        return Block(
            segments=segments if segments.dtype.isnative else segments.astype(np.int64),
            headers=np.frombuffer(b"".join(headers), _header_dtype(self.order)),
            writes=both[:, 0],
            reads=both[:, 1],
        )


def list_dxt_hosts(headers: NDArray[np.void]) -> tuple[NDArray[np.int32], list[str]]:
    """Host names seen, and for each header the index of its own."""
    raw, places = np.unique(headers["host"], return_inverse=True)
    words: dict[str, int] = {}
    codes = [words.setdefault(_host(name), len(words)) for name in raw.tolist()]
    return np.array(codes, np.int32)[places], list(words)


def _host(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def build_dxt_batch(block: Block, module: str, version: int, placing: Placing, tally: Tally) -> pa.RecordBatch:
    """`ops` of a block. A segment that ends before it starts is given no duration and tallied."""
    block = _plausible(block, placing.processes, tally)
    segments, headers = block.segments, block.headers
    rows, lengths = len(segments), block.writes + block.reads
    start, end, busy = _times(segments, placing.start_ns, tally)
    tally.kept += rows
    file_ids, fs = placing.files.look_up(headers["id"].astype(np.uint64))
    host_codes, host_words = list_dxt_hosts(headers)
    ways = np.repeat(
        np.tile(np.array([0, 1], np.int32), len(headers)), np.stack([block.writes, block.reads], axis=1).ravel()
    )
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": end,
            "busy_ns": busy,
            "node": _words(np.repeat(host_codes, lengths), pa.array(host_words, pa.string())),
            "job_id": build_table_word_column(placing.job_id, rows),
            "rank": np.repeat(headers["rank"].astype(np.int32), lengths),
            "interface": build_table_word_column(INTERFACES[module], rows),
            "fs": _words(np.repeat(fs, lengths), placing.files.fs_words),
            "op": _words(ways, pa.array(_OP_WORDS, pa.string())),
            "file_id": np.repeat(file_ids, lengths),
            "offset": np.ascontiguousarray(segments[:, 0]) if has_dxt_offsets(module, version) else None,
            "size": np.ascontiguousarray(segments[:, 1]),
            "stride": np.zeros(rows, np.int64),
            "count": np.ones(rows, np.int64),
        },
    )


def _times(
    segments: NDArray[np.int64], start_ns: int, tally: Tally
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Start, end and duration of every segment in ns; unusable times fall on the start of the job."""
    seconds = segments.view(np.float64)
    start, start_usable = convert_darshan_record_times(seconds[:, 2], start_ns)
    end, end_usable = convert_darshan_record_times(seconds[:, 3], start_ns)
    for usable in (start_usable, end_usable):
        if usable is not None:
            tally.unplaced_times += int(np.count_nonzero(~usable))
    busy = end - start
    if busy.size and busy.min() < 0:
        tally.backwards += int(np.count_nonzero(busy < 0))
        np.maximum(busy, 0, out=busy)
        np.maximum(end, start, out=end)
    return start, end, busy


def _words(codes: NDArray[np.int32], words: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), words)


def _plausible(block: Block, processes: int | None, tally: Tally) -> Block:
    """The block without records of impossible ranks, nor such that hold a segment of impossible size or place."""
    good = check_darshan_record_ranks(block.headers["rank"], processes)
    tally.impossible_ranks += int(np.count_nonzero(~good))
    placed = block.segments[:, :2]
    if placed.size and (placed.min() < -1 or placed.max() > MOST_BYTES or block.segments[:, 1].min() < 0):
        bad = ((placed < -1) | (placed > MOST_BYTES)).any(axis=1) | (block.segments[:, 1] < 0)
        owner = np.repeat(np.arange(len(good)), block.writes + block.reads)
        sound = np.bincount(owner[bad], minlength=len(good)) == 0
        tally.impossible_values += int(np.count_nonzero(good & ~sound))
        good &= sound
    if good.all():
        return block
    return Block(
        segments=block.segments[np.repeat(good, block.writes + block.reads)],
        headers=block.headers[good],
        writes=block.writes[good],
        reads=block.reads[good],
    )
