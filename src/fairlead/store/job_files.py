"""Which files of tables of jobs hold which job numbers: a file's numbers are read once, as files never change.

Not here: files by time (`snapshot`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.store.checksums import CheckedFiles

_COLUMN = "job_id"
_FORGET_ABOVE = 20_000
"""With so many files known, those that are no longer asked for are forgotten."""
Numbers = NDArray[np.bytes_]


class JobFiles:
    """The job numbers of files, sorted; some bytes a number. Not safe to share among threads without a lock."""

    def __init__(self, checked: CheckedFiles) -> None:
        self._checked = checked
        self._known: dict[str, Numbers | None] = {}

    def select_holding(self, paths: Iterable[str], numbers: Collection[str]) -> set[str]:
        """Those of the paths that may hold a row of one of these jobs. Raises DamagedLakeError."""
        wanted = np.unique(np.array([number.encode(errors="surrogateescape") for number in numbers] or [b""]))
        paths = list(paths)
        if len(self._known) > _FORGET_ABOVE:
            self._known = {path: self._known[path] for path in paths if path in self._known}
        found = set()
        for path in paths:
            if path not in self._known:
                self._checked.check([path])
                self._known[path] = _read(path)
            held = self._known[path]
            if held is None or (numbers and np.isin(wanted, held, assume_unique=True).any()):
                found.add(path)
        return found


def _read(path: str) -> Numbers | None:
    """None: it cannot be told."""
    from pyarrow import ArrowException, parquet

    try:
        column = parquet.read_table(path, columns=[_COLUMN], partitioning=None, use_threads=False).column(_COLUMN)
        told = column.cast(pa.string()).combine_chunks().unique().drop_null().cast(pa.binary())
    except (OSError, ArrowException, KeyError):
        return None  # what is wrong with it the query tells
    values = told.to_pylist()
    return np.unique(np.array(values)) if values else np.empty(0, "S1")
