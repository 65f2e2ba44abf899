"""Parquet files of a table: sorted rows of one day each, written and made durable before any commit names them.

Not here: which rows (`writer`, `compaction`) and the commit (`delta_table`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core import clock
from fairlead.core.errors import LakeError
from fairlead.core.model.tables import TableSpec
from fairlead.store.checksums import SummingFile, add_checksum_name
from fairlead.store.days_and_tiers import format_day, sort_by_day, split_by_day, split_by_tier
from fairlead.store.lake_folder import sync_lake_folder
from fairlead.store.stored_tables import DAY, flatten_stored_table_type

ROW_GROUP = 122_880
"""Rows a row group: what DuckDB hands one thread, and small enough that a job's page reads little."""
ZSTD_LEVEL = 3
_SPLIT_ROWS = 600_000
_NO_DAY_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_DELTA_ENCODED = ("_ns", "offset", "stride", "key", "seq", "bytes")
_DELTA_LISTS = ("_ns", "_ids", "_codes", "handles", "offsets", "ranks")


class Part(msgspec.Struct, frozen=True):
    """One Parquet file. `path` is relative to the table's folder; `first_ns`/`last_ns` bound its time column."""

    path: str
    day: str | None
    rows: int
    size: int
    first_ns: int | None = None
    last_ns: int | None = None


def parse_part_version(path: str) -> str:
    """The schema version a file says in its name (`v1-...`), "" when it says none (written by another engine)."""
    head, dash, _ = Path(path).name.partition("-")
    return head if dash and head[:1] == "v" and head[1:].isdigit() else ""


def parse_part_tier(path: str) -> str:
    """The tier a file says in its name (`v1-i60-...`: intervals of 60 s), "" when its table has none."""
    pieces = Path(path).name.split("-", 2)
    return pieces[1] if len(pieces) == 3 and re.fullmatch(r"i\d+", pieces[1]) else ""


def write_part_files(
    folder: Path, spec: TableSpec, rows: pa.Table, days: NDArray[np.int32], *, pool: Executor | None = None
) -> list[Part]:
    """Sorts `rows`, whose days are given, and writes durable files of one day and tier each into `folder`; many rows
    as several files at once when there is a `pool`. Raises LakeError."""
    if rows.num_rows == 0:
        return []
    wanted = []
    for tier, some, their_days in split_by_tier(rows, spec, days):
        some, their_days = sort_by_day(some, spec, their_days)
        for day, first, count in split_by_day(their_days):
            step = count if pool is None or count < _SPLIT_ROWS else -(-count // 2)
            wanted += [
                (tier, format_day(day), some.slice(first + at, min(step, count - at))) for at in range(0, count, step)
            ]

    def write(one: tuple[str, str | None, pa.Table]) -> Part:
        tier, day, piece = one
        version = f"v{spec.version}" + (f"-{tier}" if tier else "")
        return write_part_file(folder, spec, version, day, piece.schema, piece.to_batches())

    return list(pool.map(write, wanted)) if pool is not None and len(wanted) > 1 else [write(one) for one in wanted]


def measure_part_file(spec: TableSpec, rows: pa.Table) -> int:
    """What `rows`, sorted, take as one file; nothing is written."""
    from pyarrow import parquet

    if rows.num_rows == 0:
        return 0
    sorted_rows, _ = sort_by_day(rows, spec, np.zeros(rows.num_rows, np.int32))
    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(sink, sorted_rows.schema, **_layout(sorted_rows.schema)) as writer:
        writer.write_table(sorted_rows, row_group_size=ROW_GROUP)
    return int(sink.getvalue().size)


def write_part_file(
    folder: Path,
    spec: TableSpec,
    version: str,
    day: str | None,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> Part:
    """One durable file of one day from sorted batches (without the column `day`). Raises LakeError."""
    below = folder / f"{DAY}={day or _NO_DAY_FOLDER}"
    # Names grow with time: rows with equal sort keys keep the order of their arrival when files are merged.
    draft = below / f"{version}-{clock.now_ns():016x}-{uuid4().hex[:12]}.parquet"
    path = draft
    try:
        new = not below.exists()
        below.mkdir(parents=True, exist_ok=True)
        bounds, size, checksum = _write(draft, schema, batches, spec.time_column)
        path = draft.rename(add_checksum_name(draft, checksum))
        sync_lake_folder(below)
        if new:
            sync_lake_folder(folder)
    except OSError as error:
        for left in (draft, path):
            left.unlink(missing_ok=True)
        raise LakeError(
            f"the Parquet file cannot be written: {error.strerror or error}",
            where=str(path),
            remedy="make room or repair the file system, then run the same command again",
        ) from error
    return Part(str(path.relative_to(folder)), day, bounds[0], size, bounds[1], bounds[2])


def _write(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], time_column: str | None
) -> tuple[tuple[int, int | None, int | None], int, str]:
    """Rows and bounds, bytes, checksum."""
    from pyarrow import parquet

    rows, first, last = 0, None, None
    with path.open("xb") as out:
        summed = SummingFile(out)
        with parquet.ParquetWriter(pa.PythonFile(summed, "w"), schema, **_layout(schema)) as writer:
            for group in _row_groups(batches, schema):
                writer.write_table(group, row_group_size=ROW_GROUP)
                rows += group.num_rows
                if time_column is not None:
                    bounds = pc.min_max(group.column(time_column)).as_py()
                    if bounds["min"] is not None:
                        first = bounds["min"] if first is None else min(first, bounds["min"])
                        last = bounds["max"] if last is None else max(last, bounds["max"])
        out.flush()
        os.fsync(out.fileno())
    return (rows, first, last), summed.size, summed.checksum


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Tables of ROW_GROUP rows, the last one shorter."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= ROW_GROUP:
            table = pa.Table.from_batches(held, schema)
            whole = count - count % ROW_GROUP
            for first in range(0, whole, ROW_GROUP):
                yield table.slice(first, ROW_GROUP)
            held = table.slice(whole).to_batches()
            count -= whole
    if count:
        yield pa.Table.from_batches(held, schema)


def _layout(schema: pa.Schema) -> dict[str, Any]:
    """Times and offsets (in lists too) as packed differences, words and other numbers as dictionaries; all zstd."""
    packed = [f.name for f in schema if f.type == pa.int64() and f.name.endswith(_DELTA_ENCODED)]
    words = [f.name for f in schema if f.name not in packed and not pa.types.is_nested(f.type)]
    for f in schema:
        if f.type == pa.list_(pa.int64()) and f.name.endswith(_DELTA_LISTS):
            packed.append(f"{f.name}.list.element")
        elif f.type == pa.list_(pa.string()):
            words.append(f"{f.name}.list.element")
    return {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL,
        "use_dictionary": words,
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        "store_schema": False,
        "write_page_index": False,
        "write_page_checksum": True,  # what of a damaged file is whole can be told (`scrub_loss`)
    }


def flatten_part_file_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with strings for dictionaries."""
    return pa.schema([f.with_type(flatten_stored_table_type(f.type)) for f in schema])
