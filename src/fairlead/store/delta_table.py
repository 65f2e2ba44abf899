"""One shard's Delta table: open, create, grow, commit files, swap files. The only module that writes a Delta log.

Commits carry the number of the write-ahead segment they come from, so a replay after a crash adds nothing twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.errors import DamagedLakeError, LakeError
from fairlead.core.model.tables import TableSpec
from fairlead.store.checksums import REPAIR
from fairlead.store.lake_folder import sync_lake_folder
from fairlead.store.log_checksums import add_log_checksums, check_log_to_open, complete_log_checksums
from fairlead.store.part_files import Part
from fairlead.store.stored_tables import DAY, build_stored_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

APP = "fairlead-wal"
"""Application id of the transactions: one shard has one writer, so one counter a table."""

_CONFIGURATION = {"delta.checkpointInterval": "50", "delta.logRetentionDuration": "interval 7 days"}

RESTORE = "restore it: fairlead lake restore BACKUP --lake NEW-FOLDER"
"""The way back from damage that nothing else mends."""


def open_delta(folder: Path) -> DeltaTable | None:
    """The table in `folder` at its newest version, the entries of its log checked; None when there is none yet. Raises
    LakeError when it is broken."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    check_log_to_open(folder)
    try:
        return DeltaTable(str(folder))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise _broken(folder, error) from error


def has_newer_delta_version(folder: Path, table: DeltaTable) -> bool:
    """Whether there is a newer version, told by looking at one or two names."""
    log = folder / "_delta_log"
    if (log / f"{table.version() + 1:020d}.json").exists():
        return True
    # Old entries of the log are removed a week after a checkpoint stands for them.
    try:
        newest = json.loads((log / "_last_checkpoint").read_bytes())["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(newest > table.version())


def refresh_table(table: DeltaTable) -> None:
    """Brings `table` to its newest version. Raises LakeError."""
    from deltalake.exceptions import DeltaError

    try:
        table.update_incremental()
    except (DeltaError, OSError) as error:
        raise _broken(Path(table.table_uri), error) from error


def prepare_delta_table(folder: Path, spec: TableSpec, known: DeltaTable | None = None) -> DeltaTable:
    """The table in `folder`, made if there is none, with every column of `spec`; opening is spared when it is `known`
    from before. Raises LakeError when a column of the same name has another type."""
    from deltalake import DeltaTable, Field, Schema

    if known is not None:
        refresh_table(known)
        return known
    wanted = build_stored_schema(spec)
    table = open_delta(folder)
    if table is None:
        folder.mkdir(parents=True, exist_ok=True)
        table = DeltaTable.create(
            str(folder), schema=wanted, mode="ignore", partition_by=[DAY], name=spec.name, configuration=_CONFIGURATION
        )
        _make_durable(folder, table)
        return table
    have: dict[str, Field] = {field.name: field for field in table.schema().fields}
    ours = Schema.from_arrow(wanted).fields
    for field in ours:
        if field.name in have and have[field.name].type != field.type:
            raise LakeError(
                f"column {field.name!r} is stored as {have[field.name].type}, this fairlead writes {field.type}",
                where=str(folder),
                remedy="write to a new lake, or use the fairlead this one was written with",
            )
    lacking = [field for field in ours if field.name not in have]
    if lacking:
        table.alter.add_columns(lacking)
        refresh_table(table)
        _make_durable(folder, table)
    return table


def find_delta_segment(table: DeltaTable | None) -> int:
    """The highest write-ahead segment whose rows are in `table`; 0 for none."""
    version = table.transaction_version(APP) if table is not None else None
    return version or 0


def find_delta_version_before(folder: Path, table: DeltaTable, segment: int) -> DeltaTable:
    """The newest version of `table` that holds no rows of write-ahead `segment` or a later one. Raises LakeError."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        for version in range(table.version() - 1, -1, -1):
            older = DeltaTable(str(folder), version=version)
            if find_delta_segment(older) < segment:
                return older
    except (DeltaError, OSError) as error:
        raise _broken(folder, error) from error
    raise LakeError("no version of the table is as old as the write-ahead log", where=str(folder))


def commit_delta_parts(
    folder: Path, table: DeltaTable, spec: TableSpec, parts: Sequence[Part], segment: int, now_ns: int
) -> None:
    """Adds `parts` as the rows of write-ahead `segment`, durably. Raises LakeError."""
    from deltalake import CommitProperties, Transaction

    properties = CommitProperties(app_transactions=[Transaction(APP, segment)])
    _transact(folder, table, spec, parts, [], properties, changes_data=True, now_ns=now_ns)


def swap_delta_parts(
    folder: Path,
    table: DeltaTable,
    spec: TableSpec,
    removed: Sequence[Part],
    added: Sequence[Part],
    *,
    changes_data: bool,
    now_ns: int,
) -> None:
    """Puts `added` in the place of `removed` in one commit. Readers of older versions keep the removed files until
    they are vacuumed. `changes_data` is false when both hold the same rows. Raises LakeError."""
    _transact(folder, table, spec, added, removed, None, changes_data=changes_data, now_ns=now_ns)


def _transact(
    folder: Path,
    table: DeltaTable,
    spec: TableSpec,
    added: Sequence[Part],
    removed: Sequence[Part],
    properties: object,
    *,
    changes_data: bool,
    now_ns: int,
) -> None:
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, RemoveAction

    now_ms = now_ns // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(p.path, changes_data, now_ms, p.size, {DAY: p.day}) for p in removed
    ]
    actions += [AddAction(p.path, p.size, {DAY: p.day}, now_ms, changes_data, _stats(p, spec)) for p in added]
    try:
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=[DAY],
            commit_properties=properties,  # type: ignore[arg-type]
        )
        table.update_incremental()
        _make_durable(folder, table)
    except (DeltaError, OSError) as error:
        raise _broken(folder, error) from error


def _stats(part: Part, spec: TableSpec) -> str:
    stats: dict[str, object] = {"numRecords": part.rows}
    if spec.time_column is not None and part.first_ns is not None:
        stats["minValues"] = {spec.time_column: part.first_ns}
        stats["maxValues"] = {spec.time_column: part.last_ns}
    return json.dumps(stats)


def _make_durable(folder: Path, table: DeltaTable) -> None:
    """The library does not sync its log; the segment is only removed once its commit would survive a power cut."""
    log = folder / "_delta_log"
    handle = os.open(log / f"{table.version():020d}.json", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_lake_folder(log)
    add_log_checksums(folder, table.version())


def list_delta_parts(table: DeltaTable, spec: TableSpec | None = None) -> list[Part]:
    """The files of the table's current version, sorted by path. Their times are known when `spec` is given."""
    import pyarrow as pa

    found = pa.table(table.get_add_actions(flatten=True))
    if found.num_rows == 0:
        return []
    columns = set(found.column_names)
    time = spec.time_column if spec is not None else None

    def values(name: str) -> list[object]:
        return found.column(name).to_pylist() if name in columns else [None] * found.num_rows

    rows = zip(
        values("path"),
        values(f"partition.{DAY}"),
        values("num_records"),
        values("size_bytes"),
        values(f"min.{time}"),
        values(f"max.{time}"),
        strict=True,
    )
    parts = [
        Part(str(path), None if day is None else str(day), int(count or 0), int(size or 0), first, last)
        for path, day, count, size, first, last in rows
    ]
    return sorted(parts, key=lambda part: part.path)


def explain_damaged_delta(path: Path | str, error: Exception) -> LakeError:
    """The error for a file of a table that is not what the table's log says."""
    what = "is gone" if isinstance(error, FileNotFoundError) else "is damaged"
    return DamagedLakeError(
        f"a file of the lake {what}: {(str(error).splitlines() or [''])[0][:200]}", where=str(path), remedy=REPAIR
    )


def _broken(folder: Path, error: Exception) -> LakeError:
    return LakeError(f"the Delta table cannot be used: {error}", where=str(folder))


def vacuum_delta_files(table: DeltaTable, keep_hours: int) -> int:
    """Removes files that no version younger than `keep_hours` lists, those of killed writers included, and old log
    entries; returns how many files. Raises LakeError."""
    from deltalake.exceptions import DeltaError

    try:
        gone = table.vacuum(retention_hours=keep_hours, dry_run=True, enforce_retention_duration=False, full=True)
        if gone:
            table.vacuum(retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False, full=True)
            table.update_incremental()
        table.create_checkpoint()
        table.cleanup_metadata()
        complete_log_checksums(Path(table.table_uri.removeprefix("file://")))
    except (DeltaError, OSError) as error:
        raise _broken(Path(table.table_uri), error) from error
    return len(gone)
