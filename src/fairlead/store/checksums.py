"""Checksums of a table's files: made while a file is written, kept in its name, checked before it is first read.

A name is part of the commit that adds the file, so a checksum lasts as long as the file's place in the table: merging,
backup, restore and vacuum keep it. Not here: looking through a whole lake (`scrub`), a table's log (`log_checksums`).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from fairlead.core.errors import DamagedLakeError

DIGEST_BYTES = 16
REPAIR = (
    "repair it from a copy: fairlead lake scrub --from BACKUP; without a copy, give up what is damaged: "
    "fairlead lake scrub --accept-loss"
)
_NAMED = re.compile(r"-(u?)([0-9a-f]{32})\.parquet$")
_DAY = re.compile(r"/day=(\d{4}-\d\d-\d\d)/[^/]*$")
_CHUNK = 1 << 20
_KEPT = 100_000

Seen = tuple[int, int]
"""Size and time of change (ns) of a file that was checked: it is checked again when they differ."""


class SummingFile:
    """A file being written, and the checksum of all that was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def write(self, data: Any) -> int:
        """Writes `data`, bytes or a buffer."""
        self._digest.update(data)
        done = self._file.write(data)
        self.size += done
        return done

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Flushes the file."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    @property
    def checksum(self) -> str:
        """Hexadecimal blake2b-16 of what was written."""
        return self._digest.hexdigest()


def add_checksum_name(path: Path, checksum: str, *, late: bool = False) -> Path:
    """`path` with its checksum in its name. `late`: the checksum was not made while the file was written."""
    return path.with_name(f"{path.stem}-{'u' if late else ''}{checksum}.parquet")


def parse_checksum_name(path: str) -> tuple[str, bool] | None:
    """The checksum in a file's name, and whether it was added late; None: a file of before checksums, or foreign."""
    found = _NAMED.search(path)
    return None if found is None else (found[2], bool(found[1]))


def parse_file_day(path: str) -> str:
    """The day of a file's folder (`2026-11-21`); empty when it has none."""
    found = _DAY.search(path)
    return found[1] if found else ""


def compute_file_checksum(path: Path | str, pace: Callable[[int], None] = lambda _: None) -> str:
    """Hexadecimal blake2b-16 of a file. `pace` is called with the bytes of each piece read. Raises OSError."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (the path may be a text)
        while count := file.readinto(buffer):
            digest.update(view[:count])
            pace(count)
    return digest.hexdigest()


class CheckedFiles:
    """Files this process has checked, and files the scrub has checked (`trusted`). Safe to share among threads."""

    def __init__(self, trusted: Callable[[str], Seen | None] = lambda _: None) -> None:
        self._trusted = trusted
        self._turn = threading.Lock()
        self._known: dict[str, Seen] = {}

    def check(self, paths: Iterable[str]) -> None:
        """Checks those of the files that were not checked before. Raises DamagedLakeError for the first whose content
        is not what its name says. A file that is gone is left to the reader."""
        for path, checksum, seen in list(self._list(paths)):
            if self._trusted(path) != seen and compute_file_checksum(path) != checksum:
                raise explain_damaged_file(path)
            with self._turn:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[path] = seen

    def list_unchecked(self, paths: Iterable[str]) -> list[str]:
        """Those of the files that `check` would look at."""
        return [path for path, _, _ in self._list(paths)]

    def _list(self, paths: Iterable[str]) -> Iterator[tuple[str, str, Seen]]:
        for path in paths:
            named = parse_checksum_name(path)
            if named is None:
                continue
            try:
                found = os.stat(path)  # noqa: PTH116  (for each file of each query)
            except OSError:  # the reader says what is wrong
                continue
            seen = (found.st_size, found.st_mtime_ns)
            if self._known.get(path) != seen:
                yield path, named[0], seen


def explain_damaged_file(path: Path | str) -> DamagedLakeError:
    """The error for a file whose content is not what was written."""
    return DamagedLakeError("a file of the lake is damaged: its checksum is wrong", where=str(path), remedy=REPAIR)


_checked: dict[tuple[int, Path], CheckedFiles] = {}
_checked_turn = threading.Lock()


def open_checked_files(root: Path) -> CheckedFiles:
    """The memory of this process for the lake in `root`."""
    from fairlead.store.scrub_ledger import TrustedFiles

    with _checked_turn:
        key = (os.getpid(), root)
        if key not in _checked:
            _checked[key] = CheckedFiles(TrustedFiles(root).find)
        return _checked[key]
