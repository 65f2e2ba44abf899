"""HEATMAP → batches of `heatmap`: bytes per rank, interface and time bin.

Records of one log may differ by a bin in length (Darshan 3.4.0-3.4.3 without shared reductions); every bin is kept
as recorded. Not here: drawing it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import HEATMAP, build_table_batch, build_table_word_column
from fairlead.see.sources.darshan.records import MOST_BYTES, Placing, Tally, check_darshan_record_ranks
from fairlead.see.sources.darshan.regions import DamagedRegionError

_HEADER_BYTES = 48
"""Id, rank, bin width in seconds, bins, and two pointers that mean nothing in a file."""
_MOST_BINS = 1 << 24
_MOST_SECONDS = 4e9
_PREFIX = "heatmap:"
_INTERFACES = {"MPIIO": "MPI-IO"}

_Record = tuple[int, int, float, int, memoryview]


def _find_interface(name: str | None, key: int) -> str:
    """The interface a heat map's record is about, from the record's name (`heatmap:POSIX`)."""
    if name is None or not name.startswith(_PREFIX):
        return f"darshan:{key:016x}"
    word = name.removeprefix(_PREFIX)
    return _INTERFACES.get(word, word)


def read_heatmap(
    blocks: Iterable[bytes], names: dict[int, str], placing: Placing, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """`heatmap`, one row per record and bin. Raises DamagedRegionError after the last sound record."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        records, used, damage = _records(data, placing.order)
        if records:
            tally.kept += len(records)
            batch = _batch(records, names, placing, tally)
            if batch is not None:
                yield batch
        if damage:
            raise DamagedRegionError(damage)
        rest = data[used:]
    if rest:
        raise DamagedRegionError("ends within a record")


def _records(data: bytes, order: str) -> tuple[list[_Record], int, str | None]:
    """Whole records (id, rank, bin width, bins, write and read bins), bytes used, and what is wrong after them."""
    fields = struct.Struct(f"{order}Qqdq").unpack_from
    view = memoryview(data)
    found: list[_Record] = []
    position = 0
    while position + _HEADER_BYTES <= len(data):
        key, rank, width, bins = fields(data, position)
        if not (0 <= bins < _MOST_BINS and 0 < width < _MOST_SECONDS / max(bins, 1)):
            return found, position, "counts an impossible number or width of bins"
        end = position + _HEADER_BYTES + 16 * bins
        if end > len(data):
            break
        found.append((key, rank, width, bins, view[position + _HEADER_BYTES : end]))
        position = end
    return found, position, None


def _batch(records: list[_Record], names: dict[int, str], placing: Placing, tally: Tally) -> pa.RecordBatch | None:
    ranks = np.array([record[1] for record in records], np.int64)
    good = check_darshan_record_ranks(ranks, placing.processes)
    tally.impossible_ranks += int(np.count_nonzero(~good))
    possible = np.array([_possible(record[4], placing.order) for record in records], dtype=bool)
    tally.impossible_values += int(np.count_nonzero(good & ~possible))
    good &= possible
    if not good.all():
        records = [record for record, fine in zip(records, good, strict=True) if fine]
        ranks = ranks[good]
    bins = np.array([record[3] for record in records], np.int64)
    rows = int(bins.sum())
    if not rows:
        return None
    width_ns = np.maximum(np.rint(np.array([record[2] for record in records]) * 1e9).astype(np.int64), 1)
    first = np.cumsum(bins) - bins
    place = np.arange(rows) - np.repeat(first, bins)
    values = np.frombuffer(b"".join([record[4] for record in records]), f"{placing.order}i8")
    at = np.repeat(2 * first, bins) + place
    bin_ns = np.repeat(width_ns, bins)
    words, codes = _interfaces(records, names)
    return build_table_batch(
        HEATMAP,
        {
            "job_id": build_table_word_column(placing.job_id, rows),
            "rank": np.repeat(ranks, bins).astype(np.int32),
            "interface": pa.DictionaryArray.from_arrays(pa.array(np.repeat(codes, bins)), pa.array(words, pa.string())),
            "bin_start_ns": placing.start_ns + place * bin_ns,
            "bin_ns": bin_ns,
            "write_bytes": values[at].astype(np.int64),
            "read_bytes": values[at + np.repeat(bins, bins)].astype(np.int64),
        },
    )


def _possible(bins: memoryview, order: str) -> bool:
    values = np.frombuffer(bins, f"{order}i8")
    return not values.size or bool(values.min() >= 0 and values.max() <= MOST_BYTES)


def _interfaces(records: list[_Record], names: dict[int, str]) -> tuple[list[str], NDArray[np.int32]]:
    keys, codes = np.unique(np.array([record[0] for record in records], np.uint64), return_inverse=True)
    return [_find_interface(names.get(key), key) for key in keys.tolist()], codes.astype(np.int32)
