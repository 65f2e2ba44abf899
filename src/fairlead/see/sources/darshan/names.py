"""Names of a Darshan log: record ids to paths, and record ids to fairlead's file ids, many at a time.

Not here: which file system a mount is good for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.identity import compute_file_identity, identify_mount
from fairlead.core.model.tables import FILES, build_table_batch
from fairlead.see.sources.darshan.regions import DamagedRegionError

_PSEUDO = ("heatmap:", "darshan-apmpi", "darshan-apxc", "APMPI", "APXC")
"""Beginnings of names that modules register for themselves; no file is behind them."""


def parse_darshan_names(blocks: Iterable[bytes], order: str, counted: bool, into: dict[int, str]) -> None:
    """Add record id → name to `into`. `counted`: 3.00 wrote a length before each name, later ones a zero after it.

    Raises DamagedRegionError after the last whole name when the region is damaged or ends within a name.
    """
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        used = _counted(data, order, into) if counted else _terminated(data, order, into)
        rest = data[used:]
    if rest:
        raise DamagedRegionError("ends within a name")


def _keep(into: dict[int, str], key: int, raw: bytes) -> None:
    if raw or key not in into:
        name = raw.decode("utf-8", "backslashreplace")
        if not into.get(key):
            into[key] = name


def _terminated(data: bytes, order: str, into: dict[int, str]) -> int:
    id_of = struct.Struct(f"{order}Q").unpack_from
    start = 0
    while (end := data.find(b"\0", start + 8)) >= 0:
        _keep(into, id_of(data, start)[0], data[start + 8 : end])
        start = end + 1
    return start


def _counted(data: bytes, order: str, into: dict[int, str]) -> int:
    fields = struct.Struct(f"{order}QI")
    start = 0
    while start + fields.size <= len(data):
        key, length = fields.unpack_from(data, start)
        end = start + fields.size + length
        if end > len(data):
            break
        _keep(into, key, data[start + fields.size : end].partition(b"\0")[0])
        start = end
    return start


class FileIds:
    """Record ids (unsigned 64-bit) to file ids and mount points.

    Ids without a name are called `darshan:<id in hex>` and collected in `nameless`.
    """

    def __init__(self, names: dict[int, str], mounts: Iterable[str]) -> None:
        self._mounts = sorted(set(mounts))
        self._directories: dict[str, str] = {}
        kept = {key: name for key, name in names.items() if not name.startswith(_PSEUDO) and name}
        self.paths = list(kept.values())
        self.fs = [self._mount(path) for path in self.paths]
        ids = [compute_file_identity(fs, path) for fs, path in zip(self.fs, self.paths, strict=True)]
        words = sorted({*self.fs, ""})
        self.fs_words = pa.array(words, pa.string())
        self.nameless: dict[int, int] = {}
        code = {word: index for index, word in enumerate(words)}
        keys = np.fromiter(kept, np.uint64, len(kept))
        order = np.argsort(keys)
        self._keys = keys[order]
        self._ids = np.array(ids, np.int64)[order]
        self._codes = np.array([code[fs] for fs in self.fs], np.int32)[order]
        self.file_ids = ids

    def _mount(self, path: str) -> str:
        """Mount point of a path; directories are looked up once."""
        directory, slash, last = path.rpartition("/")
        if path in self._mounts or not (slash and last):
            return identify_mount(path, self._mounts)
        found = self._directories.get(directory)
        if found is None:
            found = self._directories[directory] = identify_mount(path, self._mounts)
        return found

    def look_up(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """File ids and indices into `fs_words`, one per key."""
        if not len(self._keys):
            at, known = np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
            ids, codes = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int32)
        else:
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            known = self._keys[at] == keys
            ids, codes = self._ids[at], self._codes[at]
        if known.all():
            return ids, codes
        unknown, places = np.unique(keys[~known], return_inverse=True)
        ids[~known] = np.array([self._nameless_id(int(key)) for key in unknown], np.int64)[places]
        codes[~known] = self.fs_words.index("").as_py()
        return ids, codes

    def _nameless_id(self, key: int) -> int:
        return self.nameless.setdefault(key, compute_file_identity("", _format_nameless_path(key)))

    def build_batch(self, seen_ns: int | None) -> pa.RecordBatch:
        """`files` of everything named."""
        return _files(self.file_ids, self.fs, self.paths, seen_ns)

    def build_nameless_batch(self, seen_ns: int | None) -> pa.RecordBatch:
        """`files` of the ids met so far that have no name."""
        paths = [_format_nameless_path(key) for key in self.nameless]
        return _files(list(self.nameless.values()), [""] * len(paths), paths, seen_ns)


def _format_nameless_path(key: int) -> str:
    """What a record without a name is called."""
    return f"darshan:{key:016x}"


def _files(ids: list[int], fs: list[str], paths: list[str], seen_ns: int | None) -> pa.RecordBatch:
    seen = pa.array([seen_ns] * len(ids), pa.int64())
    return build_table_batch(FILES, {"file_id": ids, "fs": fs, "path": paths, "first_seen_ns": seen})
