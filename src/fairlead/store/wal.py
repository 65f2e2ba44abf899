"""Write-ahead segments: frames with length and checksum, acknowledged after fsync, read back up to a torn tail.

A frame is one batch of one input, so a batch is there whole or not at all. Not here: what a frame means (`wal_rows`).
"""

from __future__ import annotations

import json
import os
import re
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from fairlead.core.errors import LakeError
from fairlead.store.lake_folder import sync_lake_folder

MAGIC = b"FLWAL\x00\x00\x01"
_HEADER = struct.Struct("<IIQ")
"""crc32 of all that follows it in the frame, length of the JSON meta, length of the body."""
_LONGEST_META = 1 << 20
_NAME = re.compile(r"(\d{16})\.wal")


@dataclass(frozen=True)
class Frame:
    """One batch as it was appended: what it says of itself, and its bytes."""

    meta: dict[str, Any]
    body: memoryview


@dataclass
class Contents:
    """What a segment holds. `torn` bytes at the end belong to no whole frame (a writer was killed, or is writing);
    `damaged` frames have their length but fail their checksum: such a segment is kept aside, never just dropped."""

    frames: list[Frame] = field(default_factory=list)
    torn: int = 0
    damaged: int = 0


def _build_segment_path(folder: Path, number: int) -> Path:
    """Where segment `number` of a shard lies."""
    return folder / f"{number:016d}.wal"


def list_wal_segments(folder: Path) -> list[tuple[int, Path]]:
    """The segments in `folder` by number. The last one may be growing, the others never change."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted((int(m[1]), folder / name) for name in names if (m := _NAME.fullmatch(name)))


def build_wal_plan_path(folder: Path, number: int) -> Path:
    """Where it is written down which files hold the rows of segment `number`, once they are on disk."""
    return folder / f"{number:016d}.plan"


def list_wal_plans(folder: Path) -> list[tuple[int, Path]]:
    """The plans in `folder` by number."""
    return sorted((int(path.stem), path) for path in folder.glob("*.plan") if path.stem.isdigit())


def list_damaged_wal_segments(folder: Path) -> list[Path]:
    """Segments set aside because a frame in them failed its checksum."""
    return sorted(folder.glob("*.wal.damaged"))


def read_wal_segment(path: Path) -> Contents:
    """Every whole frame of a segment. FileNotFoundError when it has been carried over meanwhile."""
    return read_wal_frames(memoryview(path.read_bytes()), 0)


def has_hidden_wal_frames(path: Path, torn: int) -> bool:
    """Whether a whole frame lies in the last `torn` bytes of a segment, behind one whose length is damaged. Raises
    LakeError."""
    try:
        with path.open("rb") as file:
            file.seek(-torn, os.SEEK_END)
            data = memoryview(file.read())
    except OSError as error:
        raise LakeError(f"the write-ahead segment cannot be read: {error.strerror}", where=str(path)) from error
    budget = 8 * len(data)
    for found in re.finditer(rb'\{"', data):
        at = found.start() - _HEADER.size
        end = _frame_end(data, at) if at > 0 else None
        if end is None:
            continue
        checksum, meta_length, _ = _HEADER.unpack_from(data, at)
        if meta_length > _LONGEST_META or data[found.start() + meta_length - 1] != ord("}"):
            continue
        budget -= end - at
        if budget < 0 or crc32(data[at + 4 : end]) == checksum:
            return True  # too much that looks like frames is kept as well
    return False


def read_wal_frames(data: memoryview, offset: int) -> Contents:
    """Every whole frame in `data`, which begins at `offset` of its segment: 0, or where a frame ended."""
    contents = Contents()
    at = 0
    if offset == 0:
        if data[: len(MAGIC)] != MAGIC:
            # A segment is named before its first bytes are written: shorter than the magic is torn, others are not.
            contents.torn, contents.damaged = len(data), int(len(data) >= len(MAGIC))
            return contents
        at = len(MAGIC)
    while at < len(data):
        end = _frame_end(data, at)
        if end is None:
            contents.torn = len(data) - at
            break
        frame = _frame(data, at, end)
        if frame is None:
            contents.damaged += 1
        else:
            contents.frames.append(frame)
        at = end
    return contents


def _frame_end(data: memoryview, at: int) -> int | None:
    if at + _HEADER.size > len(data):
        return None
    _, meta_length, body_length = _HEADER.unpack_from(data, at)
    end: int = at + _HEADER.size + meta_length + body_length
    return end if meta_length and end <= len(data) else None


def _frame(data: memoryview, at: int, end: int) -> Frame | None:
    checksum, meta_length, _ = _HEADER.unpack_from(data, at)
    if crc32(data[at + 4 : end]) != checksum:
        return None
    first = at + _HEADER.size
    return Frame(json.loads(bytes(data[first : first + meta_length])), data[first + meta_length : end])


class Segment:
    """A segment being written. `append` may be called by many threads; `settle` shares one fsync among them."""

    def __init__(self, folder: Path, number: int) -> None:
        """Creates segment `number`, durably. Raises LakeError; then there is none, so that it can be tried again."""
        self.number = number
        self.path = _build_segment_path(folder, number)
        self.frames = 0
        self._turn = threading.Condition()
        self._syncing = False
        self._synced = 0
        self._broken: OSError | None = None
        try:
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            self._write([MAGIC])
            os.fsync(self._handle)
            sync_lake_folder(folder)
        except OSError as error:
            os.close(self._handle)
            self.path.unlink(missing_ok=True)
            raise _unwritable(self.path, error) from error
        self.size = len(MAGIC)

    def append(self, meta: dict[str, Any], bodies: Sequence[bytes | memoryview]) -> int:
        """Writes one frame and returns the offset `settle` must reach before it may be acknowledged.

        A frame that did not fit (disk full) is taken back; the segment stays usable. Raises LakeError.
        """
        text = json.dumps(meta, separators=(",", ":")).encode()
        body_length = sum(len(body) for body in bodies)
        lengths = _HEADER.pack(0, len(text), body_length)[4:]
        checksum = crc32(text, crc32(lengths))
        for body in bodies:
            checksum = crc32(body, checksum)
        with self._turn:
            self._check()
            start = self.size
            try:
                self._write([struct.pack("<I", checksum), lengths, text, *bodies])
            except OSError as error:
                self._take_back(start)
                raise _unwritable(self.path, error) from error
            self.size = start + _HEADER.size + len(text) + body_length
            self.frames += 1
            return self.size

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        for piece in pieces:
            rest = memoryview(piece)
            while len(rest):
                rest = rest[os.write(self._handle, rest) :]

    def _take_back(self, size: int) -> None:
        try:
            os.ftruncate(self._handle, size)
        except OSError as error:
            self._broken = error

    def _check(self) -> None:
        if self._broken is not None:
            raise _unwritable(self.path, self._broken) from self._broken

    @property
    def broken(self) -> OSError | None:
        """Why nothing more can be acknowledged from this segment; None when it can."""
        with self._turn:
            return self._broken

    def abandon(self) -> None:
        """Closes a broken segment as it is."""
        with self._turn:
            while self._syncing:
                self._turn.wait()
            os.close(self._handle)

    def settle(self, offset: int) -> None:
        """Returns once everything before `offset` is on disk: one thread syncs for all that wait. Raises LakeError.

        After a failed fsync nothing more is acknowledged from this segment: the kernel may have dropped the pages.
        """
        with self._turn:
            while self._synced < offset:
                self._check()
                if self._syncing:
                    self._turn.wait()
                    continue
                self._syncing = True
                target = self.size
                self._turn.release()
                failure: OSError | None = None
                try:
                    os.fdatasync(self._handle)
                except OSError as error:
                    failure = error
                finally:
                    self._turn.acquire()
                    self._syncing = False
                    self._turn.notify_all()
                if failure is not None:
                    self._broken = failure
                else:
                    self._synced = max(self._synced, target)

    def close(self) -> None:
        """Settles what was appended and closes the file."""
        try:
            self.settle(self.size)
        finally:
            os.close(self._handle)


def _unwritable(path: Path, error: OSError) -> LakeError:
    return LakeError(
        f"the write-ahead segment cannot be written: {error.strerror or error}",
        where=str(path),
        remedy="make room or repair the file system, then run the same command again: nothing acknowledged is lost",
    )
