"""Regions of a Darshan log: runs of compressed streams, read from disk and inflated block by block under a limit.

Not here: what the bytes mean. A damaged region gives what is sound, then raises `DamagedRegionError`.
"""

from __future__ import annotations

import bz2
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from fairlead.core.errors import CorruptInputError

ZLIB, BZIP2, PLAIN = 0, 1, 2
BLOCK_BYTES = 1 << 20
"""Inflated bytes a block aims at: enough for columns, few enough to stay in cache (8 MiB halves the speed)."""

_READ_BYTES = 1 << 20
_FEED_MIN, _FEED_MAX = 4 << 10, 64 << 10
_BZIP2_PIECE = 4 << 20
_UNCHECKED_BYTES = 32 << 20

_GENEROUS_BYTES = 64 << 20
_MEMORY_PER_PROCESS = 4 << 20
_MAX_RATIO = 100
_MAX_REGION_BYTES = 4 << 30


class DamagedRegionError(Exception):
    """A region ends early or does not inflate; caught by the reader, which turns it into a `Missing`."""


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


@dataclass(frozen=True)
class LogFile:
    """An open log, read by position. `descriptor` stays owned by the caller."""

    descriptor: int
    size: int
    where: str

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes at `offset`; fewer only at the end of the file."""
        return os.pread(self.descriptor, length, offset)


def limit_region_bytes(compressed: int, processes: int) -> int:
    """Most bytes a region of `compressed` bytes may inflate to before it is taken for a bomb.

    Darshan keeps 4 MiB of records per process by default; a log of mostly zero counters deflates 100-fold.
    """
    wanted = max(_GENEROUS_BYTES, _MAX_RATIO * compressed, _MEMORY_PER_PROCESS * max(processes, 0))
    return min(wanted, _MAX_REGION_BYTES)


def read_region_blocks(log: LogFile, start: int, length: int, compression: int, limit: int) -> Iterator[bytes]:
    """The content of a region as blocks of about BLOCK_BYTES, in order.

    Bytes of a stream are given out once its checksum held (or once 32 MiB of it wait); of a stream cut off
    by the end of the file, what came before the cut is given. Raises DamagedRegionError after the last sound block,
    CorruptInputError when the region inflates beyond `limit`.
    """
    end = min(start + length, log.size)
    sound: list[bytes] = []
    open_stream: list[bytes] = []
    sound_bytes = open_bytes = total = 0
    damage: str | None = None
    try:
        for piece, closes in _pieces(log, start, end, compression):
            total += len(piece)
            if total > limit:
                raise CorruptInputError(
                    f"a region of {length:,} bytes inflates beyond {limit:,} bytes",
                    where=log.where,
                    remedy="no Darshan log compresses that well: fetch the log again from where it was written",
                )
            open_stream.append(piece)
            open_bytes += len(piece)
            if closes or open_bytes > _UNCHECKED_BYTES:
                sound += open_stream
                sound_bytes += open_bytes
                open_stream, open_bytes = [], 0
            if sound_bytes >= BLOCK_BYTES:
                yield b"".join(sound)
                sound, sound_bytes = [], 0
    except DamagedRegionError as error:
        damage = str(error)
        sound += open_stream
    except (zlib.error, OSError, EOFError, ValueError) as error:
        damage = f"does not inflate ({error})"
    if sound:
        yield b"".join(sound)
    if damage is None and start + length > log.size:
        damage = "reaches beyond the end of the file"
    if damage is not None:
        raise DamagedRegionError(damage)


def _pieces(log: LogFile, start: int, end: int, compression: int) -> Iterator[tuple[bytes, bool]]:
    """Inflated pieces, each with whether it closes a stream (its checksum held)."""
    if compression == PLAIN:
        for offset in range(start, end, BLOCK_BYTES):
            yield log.read(offset, min(BLOCK_BYTES, end - offset)), True
        return
    step, opener = (_zlib_step, zlib.decompressobj) if compression == ZLIB else (_bzip2_step, bz2.BZ2Decompressor)
    yield from _streams(log, start, end, opener, step)


def _zlib_step(decoder: object, data: memoryview) -> Iterator[bytes]:
    # Deflate cannot expand more than 1032-fold, so one feed is bounded by 66 MB.
    yield decoder.decompress(data)  # type: ignore[attr-defined]


def _bzip2_step(decoder: object, data: memoryview) -> Iterator[bytes]:
    yield decoder.decompress(data, _BZIP2_PIECE)  # type: ignore[attr-defined]
    while not (decoder.eof or decoder.needs_input):  # type: ignore[attr-defined]
        yield decoder.decompress(b"", _BZIP2_PIECE)  # type: ignore[attr-defined]


def _streams(
    log: LogFile,
    start: int,
    end: int,
    opener: Callable[[], _Decoder],
    step: Callable[[object, memoryview], Iterator[bytes]],
) -> Iterator[tuple[bytes, bool]]:
    """Streams one after another: every process of a job wrote its own, thousands may follow each other.

    The feed grows within a stream and is small at its beginning, so the bytes a decoder hands back stay few.
    """
    position = start
    buffer = memoryview(b"")
    feed = _FEED_MIN
    while position < end or buffer:
        decoder = opener()
        consumed = 0
        while not decoder.eof:
            if not buffer:
                buffer = memoryview(log.read(position, min(_READ_BYTES, end - position)))
                position += len(buffer)
            if not buffer:
                raise DamagedRegionError("ends in the middle of its data")
            data = buffer[:feed]
            for piece in step(decoder, data):
                yield piece, decoder.eof
            used = len(data) - len(decoder.unused_data)
            buffer = buffer[used:]
            consumed += used
            feed = min(2 * feed, _FEED_MAX)
        feed = min(max(_FEED_MIN, consumed + consumed // 4), _FEED_MAX)
