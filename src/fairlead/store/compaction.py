"""Fewer, sorted files: merges the files of a day, removes files nobody can still be reading. Never changes an answer.

Every step is one commit made after its files are durable, so it may be killed anywhere. Needs the shard's writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from fairlead.core.errors import DamagedLakeError
from fairlead.core.model.tables import TableSpec
from fairlead.store import delta_table as delta
from fairlead.store import query
from fairlead.store import received_batches as taken
from fairlead.store.checksums import open_checked_files
from fairlead.store.lake import Lake
from fairlead.store.part_files import (
    ROW_GROUP,
    Part,
    flatten_part_file_schema,
    parse_part_tier,
    parse_part_version,
    write_part_file,
)
from fairlead.store.stored_tables import BATCHES, SPECS, list_stored_table_key
from fairlead.store.writer import Writer

TARGET_BYTES = 256 << 20
"""A merged file is about this large; files of half of it or more are left alone."""
FAN_IN = 8
"""Files of one day and like size that are merged once there are so many: a row is rewritten once a size class."""
PORTION_BYTES = 160 << 20
"""What is merged at once beside a running collector."""
MANY_FILES = 150
"""With more active files than this in a table, every day with several small files is merged."""
KEEP_HOURS = 7 * 24
"""How long files that were merged or expired away stay for readers that still look at an older version."""


@dataclass(frozen=True)
class MergeResult:
    """What was done to one table: its active files before and after, files removed for good."""

    table: str
    files_before: int
    files_after: int
    removed: int


def compact_tables(
    lake: Lake,
    writer: Writer,
    *,
    thorough: bool = True,
    keep_hours: int | None = KEEP_HOURS,
    tables: Iterable[str] | None = None,
) -> list[MergeResult]:
    """Merges small files of each table of the writer's shard, then removes what is older than `keep_hours` (None:
    nothing). Without `thorough` only what has become due by number and size. Raises LakeError."""
    writer.flush()
    done = compact_due_files(lake, writer, thorough=thorough, tables=tables)
    if keep_hours is None:
        return done
    return [replace(one, removed=vacuum_after_compaction(writer, SPECS[one.table], keep_hours)) for one in done]


def compact_due_files(
    lake: Lake,
    writer: Writer,
    *,
    thorough: bool = False,
    tables: Iterable[str] | None = None,
    most: int | None = None,
) -> list[MergeResult]:
    """Merges what is due among the files of each table of the writer's shard, at most `most` groups of each; removes
    nothing. Raises LakeError; DamagedLakeError after all that is not damaged is merged."""
    done = []
    damaged: DamagedLakeError | None = None
    for name in writer.place.list_tables(writer.shard):
        spec = SPECS.get(name)
        if spec is None or (tables is not None and name not in tables):
            continue
        with writer.open_table(spec) as table:
            before = delta.list_delta_parts(table, spec)
        for group in find_compaction_groups(before, thorough=thorough)[:most]:
            try:
                _merge_group(writer, lake.engine, spec, group)
            except DamagedLakeError as error:
                damaged = damaged or error
        with writer.open_table(spec) as table:
            done.append(MergeResult(name, len(before), len(delta.list_delta_parts(table)), 0))
    if damaged is not None:
        raise damaged
    return done


def find_compaction_groups(parts: Sequence[Part], *, thorough: bool) -> list[list[Part]]:
    """Which files of a table to merge with which, the newest days first. Every group is of one day."""
    asked, thorough = thorough, thorough or len(parts) > MANY_FILES
    groups: dict[tuple[str, str, int], list[Part]] = defaultdict(list)
    for part in parts:
        if part.size < TARGET_BYTES // 2:
            groups[(part.day or "", parse_part_tier(part.path), 0 if thorough else _size_class(part))].append(part)
    enough = 2 if thorough else FAN_IN
    found = [group for _, group in sorted(groups.items(), reverse=True) if len(group) >= enough]
    return found if asked else [some for group in found for some in _portions(group) if len(some) > 1]


def _portions(group: Sequence[Part]) -> Iterator[list[Part]]:
    """A group as neighbours of about PORTION_BYTES: sorting takes many times their size while rows arrive."""
    some: list[Part] = []
    for part in sorted(group, key=lambda part: part.path):
        if some and sum(p.size for p in some) + part.size > PORTION_BYTES:
            yield some
            some = []
        some.append(part)
    yield some


def _size_class(part: Part) -> int:
    """0 below 64 KiB, then one more with every factor of FAN_IN."""
    size, step = part.size >> 16, 0
    while size:
        size //= FAN_IN
        step += 1
    return step


def vacuum_after_compaction(writer: Writer, spec: TableSpec, keep_hours: int) -> int:
    """Removes files of one table that no reader can need; no segment is on its way meanwhile. Raises LakeError."""
    with writer.pause_carrying(), writer.open_table(spec) as table:
        return delta.vacuum_delta_files(table, keep_hours)


def _merge_group(writer: Writer, engine: query.Engine, spec: TableSpec, group: Sequence[Part]) -> None:
    """Replaces the files of `group` by sorted ones in one commit. Of rows about the same thing, the one that counts
    remains."""
    folder = writer.place.build_table_path(writer.shard, spec.name)
    # Merged, what is damaged would get a checksum of its own.
    open_checked_files(writer.place.root).check(str(folder / part.path) for part in group)
    newest = max((parse_part_version(part.path) for part in group), key=lambda version: int(version[1:] or 0))
    version = "-".join(filter(None, (newest or f"v{spec.version}", parse_part_tier(group[0].path))))
    if spec.name == BATCHES.name:
        added = [_joined_ranges(folder, spec, version, group)]
    else:
        cursor = engine.open_cursor()
        try:
            reader = cursor.sql(_sorted_rows(folder, spec, group)).to_arrow_reader(ROW_GROUP)
            limit = max(ROW_GROUP, TARGET_BYTES * sum(p.rows for p in group) // max(1, sum(p.size for p in group)))
            added = list(_write(folder, spec, version, group[0].day, reader, limit))
        finally:
            cursor.close()
    with writer.open_table(spec) as table:
        delta.swap_delta_parts(folder, table, spec, group, added, changes_data=False, now_ns=writer.now_ns())


def _joined_ranges(folder: Path, spec: TableSpec, version: str, group: Sequence[Part]) -> Part:
    """What has been taken in, with ranges of a stream that touch as one."""
    from pyarrow import parquet

    read = [parquet.read_table(folder / part.path, partitioning=None) for part in group]
    rows = taken.merge_received_rows(pa.concat_tables(read, promote_options="default"))
    return write_part_file(
        folder, spec, version, group[0].day, flatten_part_file_schema(rows.schema), rows.to_batches()
    )


def _sorted_rows(folder: Path, spec: TableSpec, group: Sequence[Part]) -> str:
    """All rows of all columns any of the files has, those this fairlead does not know included."""
    by_version: dict[str, list[str]] = defaultdict(list)
    for part in sorted(group, key=lambda part: part.path):
        # Files another engine wrote may differ among themselves: each stands for itself.
        by_version[parse_part_version(part.path) or part.path].append(str(folder / part.path))
    have = {version: _columns(paths[0]) for version, paths in by_version.items()}
    every = list(dict.fromkeys(name for names in have.values() for name in names))
    selects = []
    before = 0
    for version, paths in by_version.items():
        columns = [
            query.quote_query_name(n) if n in have[version] else f"NULL AS {query.quote_query_name(n)}" for n in every
        ]
        place = f"file_index + {before} AS _file, file_row_number AS _row"
        selects.append(f"SELECT {', '.join(columns)}, {place} FROM {query.build_query_scan(paths)}")  # noqa: S608 (our own names)
        before += len(paths)
    # File names grow with time, so rows with equal keys keep the order they arrived in.
    order = ", ".join(
        [*(f"{query.quote_query_name(name)} NULLS LAST" for name in list_stored_table_key(spec)), "_file", "_row"]
    )
    rows = query._select_once(spec, " UNION ALL BY NAME ".join(selects))
    return f"SELECT * EXCLUDE (_file, _row) FROM ({rows}) ORDER BY {order}"  # noqa: S608 (our own names)


def _columns(path: str) -> list[str]:
    from pyarrow import parquet

    return list(parquet.read_schema(path).names)


def _write(
    folder: Path, spec: TableSpec, version: str, day: str | None, reader: pa.RecordBatchReader, limit: int
) -> Iterator[Part]:
    """Files of about `limit` rows each."""
    schema = flatten_part_file_schema(reader.schema)
    batches = iter(reader)
    for first in batches:
        yield write_part_file(folder, spec, version, day, schema, _upto(first, batches, limit))


def _upto(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    yield first
    count = first.num_rows
    while count < limit:
        batch = next(rest, None)
        if batch is None:
            return
        yield batch
        count += batch.num_rows
