"""A plain or gzip file → blocks of whole lines, in bounded memory, and what was wrong with its end.

Gunzipping runs in a thread of its own (zlib releases the interpreter lock). Not here: what a line says.
"""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fairlead.core.errors import InputError

BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 4 << 20
"""Longer lines are no events (DFTracer cuts its own at 16 KiB); they are not held, _OVERLONG stands for them."""

BARREN_BYTES = 1 << 30
"""Content without a single event after which reading stops: what follows is no trace (a gzip bomb, a hole)."""
SMALL_BYTES = 2 << 20
"""The first block holds at most about this much, so that a short input is known to be short before anything is read."""

PADDING = b"\n" * 8
"""Follows each block in memory, for a scanner that reads eight bytes at a time. No part of the content."""

_GZIP = b"\x1f\x8b"
_READ_BYTES = 1 << 20
_INFLATED_BYTES = 4 << 20
_QUEUED = 4
_SALVAGE_BYTES = 16
_OVERLONG = b"\0"


@dataclass
class End:
    """How the input ended: `damage` says what is broken.

    `bytes_read` counts content bytes (gunzipped), `newline` whether the last line was complete. The reader sets
    `bytes_useful` to `bytes_read` whenever a block held events.
    """

    damage: str | None = None
    bytes_read: int = 0
    bytes_useful: int = 0
    newline: bool = True


def _is_gzip(head: bytes) -> bool:
    """Whether content begins as a gzip member does."""
    return head.startswith(_GZIP)


def read_dftracer_blocks(path: Path, end: End) -> Generator[bytes]:
    """Whole lines of `path`, about BLOCK_BYTES at a time, and PADDING behind each block. Fills `end` as it goes.

    Raises InputError when the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            chunks = _gunzipped(file, end) if _is_gzip(head) else _plain(file)
            try:
                yield from _whole_lines(chunks, end)
            finally:
                chunks.close()
    except OSError as error:
        raise InputError(
            f"the file cannot be read: {error.strerror or error}",
            where=str(path),
            remedy="check that it exists, that you may read it, and that the file system answers",
        ) from error


def _plain(file: BinaryIO) -> Generator[bytes]:
    while chunk := file.read(_READ_BYTES):
        yield chunk


def _whole_lines(chunks: Iterator[bytes], end: End) -> Iterator[bytes]:
    held: list[bytes | memoryview] = []
    size, unended, limit, overlong = 0, 0, SMALL_BYTES, False
    for read in chunks:
        chunk = read
        end.bytes_read += len(chunk)
        if end.bytes_read - end.bytes_useful > BARREN_BYTES:
            end.damage = f"{BARREN_BYTES >> 30} GiB of content have no event; reading stopped there"
            return
        if overlong:
            cut = chunk.find(b"\n")
            if cut < 0:
                continue
            chunk, overlong = chunk[cut:], False
        cut = chunk.rfind(b"\n") + 1
        unended = len(chunk) - cut if cut else unended + len(chunk)
        size += len(chunk)
        if unended > MAX_LINE_BYTES:
            block = b"".join([*held, chunk])
            lines = block[: block.rfind(b"\n") + 1]
            held, size, unended, overlong = [_OVERLONG], len(_OVERLONG), 0, True
            if lines:
                yield lines + PADDING
        elif size < limit or not cut:
            held.append(chunk)
        else:
            block = b"".join([*held, memoryview(chunk)[:cut], PADDING])
            held, size, limit = [chunk[cut:]], unended, BLOCK_BYTES
            yield block
    last = b"".join(held)
    end.newline = last.endswith(b"\n") or not last
    if last:
        yield last + (b"" if end.newline else b"\n") + PADDING


def _gunzipped(file: BinaryIO, end: End) -> Generator[bytes]:
    """Content of a gzip file of any number of members, inflated ahead in a thread."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(_QUEUED)
    stop = threading.Event()

    def put(item: bytes | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def inflate() -> None:
        try:
            for chunk in _members(file, end):
                if not put(chunk):
                    return
            put(None)
        except OSError as error:
            put(error)

    worker = threading.Thread(target=inflate, name="gunzip", daemon=True)
    worker.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        worker.join()


def _members(file: BinaryIO, end: End) -> Generator[bytes]:
    inflater = zlib.decompressobj(31)
    begun = False
    compressed = 0
    while data := file.read(_READ_BYTES):
        compressed += len(data)
        while data:
            if inflater.eof:
                data = data.lstrip(b"\0")
                if not data:
                    break
                inflater, begun = zlib.decompressobj(31), False
            before = inflater.copy()
            try:
                out = inflater.decompress(data, _INFLATED_BYTES)
            except zlib.error as error:
                good = yield from _salvaged(before, data)
                end.damage = f"the gzip stream is damaged near byte {compressed - len(data) + good:,} ({error})"
                return
            begun = True
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if out:
                yield out
    if begun and not inflater.eof:
        end.damage = "the gzip stream ends early: the file was truncated, or its writer is still running"
        if out := inflater.flush():
            yield out


def _salvaged(inflater: zlib._Decompress, data: bytes) -> Generator[bytes, None, int]:
    """What can be inflated of data that end in an error, in small pieces; returns how many bytes were good."""
    for at in range(0, len(data), _SALVAGE_BYTES):
        try:
            out = inflater.decompress(data[at : at + _SALVAGE_BYTES])
        except zlib.error:
            return at
        if out:
            yield out
    return len(data)
