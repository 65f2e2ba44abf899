"""LUSTRE → batches of `layouts`: one row per layout component, with the targets (OSTs) its stripes lie on.

Version 1 knew one plain layout per file, version 2 knows components. Not here: what a good striping is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.tables import LAYOUTS, build_table_batch, build_table_word_column
from fairlead.see.sources.darshan.records import Placing, Tally
from fairlead.see.sources.darshan.regions import DamagedRegionError

_COMPONENT_WORDS = 9
"""Stripe size and count, pattern, flags, extent start and end, mirror, and sixteen bytes of pool name."""
_SIZE, _COUNT, _START, _END, _POOL = 0, 1, 4, 5, 7
_MOST_STRIPES = 1 << 24
_UNUSED = -1

_Record = tuple[int, memoryview, memoryview]


def read_darshan_lustre(
    blocks: Iterable[bytes], version: int, placing: Placing, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """`layouts`, in the order of the log. Raises DamagedRegionError after the last sound record."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        records, used, damage = (_plain if version == 1 else _composite)(data, placing.order)
        if records:
            tally.kept += len(records)
            yield _batch(records, version, placing)
        if damage:
            raise DamagedRegionError(damage)
        rest = data[used:]
    if rest:
        raise DamagedRegionError("ends within a record")


def _plain(data: bytes, order: str) -> tuple[list[_Record], int, str | None]:
    """Version 1: id, rank, OSTs and MDTs of the file system, stripe offset, size and count, then the targets."""
    fields = struct.Struct(f"{order}Q6q")
    view = memoryview(data)
    found: list[_Record] = []
    position = 0
    while position + fields.size <= len(data):
        key, _, _, _, _, _, count = fields.unpack_from(data, position)
        if not 0 <= count < _MOST_STRIPES:
            return found, position, "counts an impossible number of stripes"
        targets = position + fields.size
        end = targets + 8 * count
        if end > len(data):
            break
        found.append((key, view[targets - 16 : targets], view[targets:end]))
        position = end
    return found, position, None


def _composite(data: bytes, order: str) -> tuple[list[_Record], int, str | None]:
    """Version 2: id, rank, components, stripes, then that many components and targets."""
    fields = struct.Struct(f"{order}Q3q")
    view = memoryview(data)
    found: list[_Record] = []
    position = 0
    while position + fields.size <= len(data):
        key, _, components, stripes = fields.unpack_from(data, position)
        if not (0 <= components < _MOST_STRIPES and 0 <= stripes < _MOST_STRIPES):
            return found, position, "counts an impossible number of components or stripes"
        first = position + fields.size
        targets = first + 8 * _COMPONENT_WORDS * components
        end = targets + 8 * stripes
        if components < 1:
            end = first
        if end > len(data):
            break
        if components:
            found.append((key, view[first:targets], view[targets:end]))
        position = end
    return found, position, None


def _batch(records: list[_Record], version: int, placing: Placing) -> pa.RecordBatch:
    words = 2 if version == 1 else _COMPONENT_WORDS
    raw = np.frombuffer(b"".join([record[1] for record in records]), f"{placing.order}i8").reshape(-1, words)
    components = raw.astype(np.int64)
    per_record = np.array([len(record[1]) // (8 * words) for record in records], np.int64)
    targets = np.frombuffer(b"".join([record[2] for record in records]), f"{placing.order}i8").astype(np.int64)
    available = np.array([len(record[2]) // 8 for record in records], np.int64)
    ids, _ = placing.files.look_up(np.array([record[0] for record in records], np.uint64))
    used, place = _used(components[:, _SIZE], per_record)
    lists = _targets(components[:, _COUNT], used, per_record, available, targets)
    rows = int(np.count_nonzero(used))
    columns: dict[str, object] = {
        "job_id": build_table_word_column(placing.job_id, rows),
        "file_id": np.repeat(ids, per_record)[used],
        "component": place[used].astype(np.int32),
        "stripe_size": components[used, _SIZE],
        "stripe_count": components[used, _COUNT],
        "targets": lists,
    }
    if version == 1:
        columns["extent_start"] = np.zeros(rows, np.int64)
    else:
        end = components[used, _END]
        columns["extent_start"] = components[used, _START]
        columns["extent_end"] = pa.array(end, mask=end == _UNUSED)
        columns["pool"] = _pools(raw[used])
    return build_table_batch(LAYOUTS, columns)


def _before(values: NDArray[np.int64], per_record: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each component, the sum of `values` over the components before it in its record."""
    running = np.concatenate([[0], np.cumsum(values)])
    first = np.cumsum(per_record) - per_record
    return np.asarray(running[:-1] - np.repeat(running[first], per_record), dtype=np.int64)


def _used(sizes: NDArray[np.int64], per_record: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which components were in use (those from the first of size -1 on were not), and their place in the record."""
    unused = (sizes == _UNUSED).astype(np.int64)
    return (_before(unused, per_record) + unused) == 0, _before(np.ones_like(unused), per_record)


def _targets(
    counts: NDArray[np.int64],
    used: NDArray[np.bool_],
    per_record: NDArray[np.int64],
    available: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> pa.ListArray:
    """Targets of the used components: those of a record follow each other in the order of its components."""
    wanted = np.where(used, np.clip(counts, 0, _MOST_STRIPES), 0)
    before = _before(wanted, per_record)
    here = np.repeat(available, per_record)
    lengths = np.clip(here - before, 0, wanted)[used]
    start = (np.repeat(np.cumsum(available) - available, per_record) + before)[used]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    at = np.repeat(start - offsets[:-1], lengths) + np.arange(offsets[-1])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(targets[at]))


def _pools(components: NDArray[np.int64]) -> pa.Array:
    """Pool names, null where a component is in none."""
    raw = np.ascontiguousarray(components[:, _POOL:]).view("S16").ravel()
    names = [name.partition(b"\0")[0].decode("utf-8", "backslashreplace") or None for name in raw.tolist()]
    return pa.array(names, pa.string())
