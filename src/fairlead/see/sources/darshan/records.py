"""What the decoders of Darshan's modules share: where records are placed, what went wrong, records out of blocks.

Not here: the meaning of any module's record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.see.sources.darshan.names import FileIds
from fairlead.see.sources.darshan.regions import DamagedRegionError

_MOST_SECONDS = 4e9
MOST_PROCESSES = 1 << 23
"""No machine has started more at once; a larger number is of a damaged log and would take memory for each."""
MOST_BYTES = 1 << 53
"""A counter, size or offset beyond this (8 PiB, 9 × 10¹⁵ calls) is of a damaged record."""


@dataclass
class Tally:
    """What decoding a module met: `kept` records (segments, for traces), those left out and why, doubtful times."""

    kept: int = 0
    impossible_ranks: int = 0
    impossible_values: int = 0
    stream_records: int = 0
    unplaced_times: int = 0
    backwards: int = 0


@dataclass(frozen=True)
class Placing:
    """What places the records of a log: byte order, start of the job (0 when unknown), job id, file ids and the number
    of processes (None when unknown)."""

    order: str
    start_ns: int
    job_id: str
    files: FileIds
    processes: int | None = None


def split_darshan_records(blocks: Iterable[bytes], dtype: np.dtype[np.void]) -> Iterator[NDArray[np.void]]:
    """Records of one size, across block borders. Raises DamagedRegionError when the region ends within one."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        whole = len(data) - len(data) % dtype.itemsize
        if whole:
            yield np.frombuffer(data, dtype, whole // dtype.itemsize)
        rest = data[whole:]
    if rest:
        raise DamagedRegionError("ends within a record")


def check_darshan_record_ranks(rank: NDArray[np.int64], processes: int | None) -> NDArray[np.bool_]:
    """Where a rank is -1 (all ranks) or one of the job's."""
    return np.asarray((rank >= -1) & (rank < (processes or MOST_PROCESSES)), dtype=bool)


def convert_darshan_record_times(
    seconds: NDArray[np.float64], start_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Seconds since the start of the job → epoch ns, and where they are usable: finite and within a century of it.

    Where they are not, the time is `start_ns`; None says that all are.
    """
    usable = np.abs(seconds) < _MOST_SECONDS
    all_usable = bool(usable.all())
    scaled = (seconds if all_usable else np.where(usable, seconds, 0.0)) * 1e9
    at = np.rint(scaled, out=scaled).astype(np.int64)
    at += start_ns
    return at, None if all_usable else usable
