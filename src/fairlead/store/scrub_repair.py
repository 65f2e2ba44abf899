"""What is done about a damaged file: replaced byte for byte from a copy, or given up by name.

Given up: its whole row groups stay, the rest leaves its table, and events say which rows of whom are lost, so that
pages show a gap and not idleness. Not here: finding damage (`scrub`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fairlead.core.clock import now_ns
from fairlead.core.errors import DamagedLakeError, LakeError, UsageError
from fairlead.core.model.tables import EVENTS, HEALTH, OP_GROUPS, ROLLUP, TableSpec, build_table_batch
from fairlead.store import delta_table as delta
from fairlead.store.backup import find_backup_file
from fairlead.store.checksums import compute_file_checksum, parse_checksum_name
from fairlead.store.lake import Lake
from fairlead.store.lake_folder import ShardLock, sync_lake_folder
from fairlead.store.log_checksums import complete_log_checksums, find_last_checkpoint, read_log_checksums
from fairlead.store.part_files import (
    Part,
    flatten_part_file_schema,
    parse_part_tier,
    parse_part_version,
    write_part_file,
)
from fairlead.store.scrub_ledger import Damage
from fairlead.store.stored_tables import BATCHES, DAY_NS, SERIES, SPECS
from fairlead.store.writer import Writer

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

LOST = "records_lost"
_GAP = "gap"
_SOURCE = "scrub"
_SOURCES = ("node", "server", "switch")
"""Columns that say which source a row is of."""


@dataclass(frozen=True)
class Loss:
    """What left a table. `sources` that lost rows; None: which they are cannot be told."""

    damage: Damage
    lost_rows: int
    kept_rows: int
    sources: list[str] | None


def repair_damage(lake: Lake, damage: Damage, copy: Path) -> bool:
    """Replaces a damaged file by the one in `copy` (a backup, or the folder of another lake), if that is what was
    written here; False when the copy has no such file. Raises LakeError."""
    if damage.kind == "wal":
        return False
    path = lake.place.root / damage.path
    if damage.kind == "rows":
        named = parse_checksum_name(damage.path)
        wanted = named[0] if named else None
    else:
        wanted = read_log_checksums(path.parent.parent).get(path.name)
    source = find_backup_file(copy, damage.path)
    try:
        if wanted is None or source is None or compute_file_checksum(source) != wanted:
            return False
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.copyfile(source, draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        if compute_file_checksum(draft) != wanted:
            draft.unlink()
            return False
        draft.replace(path)
        sync_lake_folder(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LakeError(
            f"the file cannot be repaired: {error.strerror or error}", where=str(path), remedy="make room, run it again"
        ) from error
    return True


def accept_losses(lake: Lake, shard: str, damages: Sequence[Damage], *, wait_s: float = 0.0) -> list[Loss]:
    """Gives up what is damaged: events that name it first, then one commit a file. Killed in between, the next call
    goes on and counts nothing twice. Raises LakeBusyError when the shard is being written, LakeError."""
    rows = [one for one in damages if one.kind == "rows"]
    known = [one for one in rows if one.table == BATCHES.name]
    if known or any(one.kind == "log" for one in damages):
        # A writer cannot be opened before these are gone.
        lock = ShardLock(lake.place, shard, wait_s=wait_s)
        try:
            for one in damages:
                if one.kind == "log":
                    _drop_log_entry(lake, one)
            for one in known:
                folder = lake.place.build_table_path(shard, one.table)
                _swap(folder, BATCHES, one, [], lake)
        finally:
            lock.release()
    losses = [Loss(one, one.rows, 0, None) for one in known]
    others = [one for one in rows if one.table != BATCHES.name and one.table in SPECS]
    with lake.open_writer(shard, wait_s=wait_s) as writer:
        losses += [_give_up(lake, writer, one) for one in others]
        for loss in losses[: len(known)]:
            _write_events(lake, writer, loss)
        for one in damages:
            if one.kind == "wal" and one.path.endswith(".damaged"):
                losses.append(Loss(one, 0, 0, None))
                _write_events(lake, writer, losses[-1])
                (lake.place.root / one.path).unlink(missing_ok=True)
    return losses


def _give_up(lake: Lake, writer: Writer, damage: Damage) -> Loss:
    spec = SPECS[damage.table]
    folder = writer.place.build_table_path(writer.shard, spec.name)
    path = writer.place.root / damage.path
    name = str(path.relative_to(folder))
    whole, sources, lost = _read_whole_groups(path, spec, damage.rows)
    loss = Loss(damage, lost, damage.rows - lost, sources)
    _write_events(lake, writer, loss)
    version = "-".join(filter(None, (parse_part_version(name) or f"v{spec.version}", parse_part_tier(name))))
    added: list[Part] = []
    if whole:
        day = path.parent.name.partition("=")[2]
        schema = flatten_part_file_schema(whole[0].schema)
        added.append(
            write_part_file(
                folder,
                spec,
                version,
                day if day[:1].isdigit() else None,
                schema,
                [batch for table in whole for batch in table.cast(schema).to_batches()],
            )
        )
    with writer.open_table(spec):
        _swap(folder, spec, damage, added, lake)
    return loss


def _swap(folder: Path, spec: TableSpec, damage: Damage, added: list[Part], lake: Lake) -> None:
    table = delta.open_delta(folder)
    name = str((lake.place.root / damage.path).relative_to(folder))
    gone = [part for part in delta.list_delta_parts(table, spec) if part.path == name] if table is not None else []
    if table is None or not gone:
        return  # merged, expired or given up before
    delta.swap_delta_parts(folder, table, spec, gone, added, changes_data=True, now_ns=now_ns())


def _read_whole_groups(path: Path, spec: TableSpec, rows: int) -> tuple[list[pa.Table], list[str] | None, int]:
    """Row groups of a damaged file all of whose pages are whole; the sources of rows in the others, as their own
    column says where that is whole (None: not known); how many rows are lost."""
    from pyarrow import ArrowException, parquet

    whole: list[pa.Table] = []
    lost, sources, broken = 0, set[str](), False
    column = next((name for name in _SOURCES if name in spec.schema.names), None)
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            names = set(file.schema_arrow.names)
            if file.metadata.num_rows != rows or not names <= set(spec.schema.names) or not _has_sums(path):
                return [], None, rows
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                group = _read_group(file, number, None)
                if group is not None:
                    whole.append(group)
                    continue
                lost += count
                told = _read_group(file, number, [column]) if column is not None else None
                if told is None:
                    broken = True
                else:
                    sources |= {str(value) for value in told.column(0).unique().to_pylist() if value is not None}
    except (OSError, ArrowException, ValueError, KeyError):
        return [], None, rows
    if not lost:  # no page is damaged: what describes them is, and may describe them wrongly
        return [], None, rows
    return whole, None if broken else sorted(sources), lost


def _read_group(file: ParquetFile, number: int, columns: list[str] | None) -> pa.Table | None:
    """A row group, or some columns of it; None when a page is damaged."""
    try:
        group = file.read_row_group(number, columns=columns, use_threads=False)
    except (OSError, pa.ArrowException, ValueError):
        return None
    return group if group.num_rows == file.metadata.row_group(number).num_rows else None


def _has_sums(path: Path) -> bool:
    """Whether the file was written by a version that adds checksums to pages: those add one to its name too."""
    named = parse_checksum_name(path.name)
    return named is not None and not named[1]


def _write_events(lake: Lake, writer: Writer, loss: Loss) -> None:
    damage = loss.damage
    what = f"{loss.lost_rows} rows of {damage.table} are lost" if damage.table else "a part of the log is lost"
    text = f"{what}: {damage.text} ({Path(damage.path).name})"
    from_ns = damage.from_ns if damage.from_ns is not None else damage.found_ns
    to_ns = damage.to_ns if damage.to_ns is not None else from_ns
    rows = [(from_ns, to_ns + 1, damage.table or damage.shard, LOST, text)]
    if damage.table in SERIES or damage.table in (ROLLUP.name, OP_GROUPS.name):
        sources = loss.sources if loss.sources is not None else _sources_at(lake, from_ns, to_ns)
        rows += [(from_ns, to_ns + 1, source, _GAP, text) for source in sources]
    columns: dict[str, object] = dict(
        zip(("ts_ns", "end_ns", "component", "kind", "text"), (list(v) for v in zip(*rows, strict=True)), strict=True)
    )
    batch = writer.open_batch(f"{_SOURCE}/{damage.path}", 0, source=_SOURCE, path=damage.path)
    batch.add(build_table_batch(EVENTS, columns))
    batch.commit()


def _sources_at(lake: Lake, from_ns: int, to_ns: int) -> list[str]:
    """Every source that reported at the time: which of them the lost rows were of is not known."""
    reach = (from_ns - DAY_NS // 24, to_ns + DAY_NS // 24)
    try:
        found = lake.query(
            f"SELECT DISTINCT node FROM {HEALTH.name} WHERE ts_ns >= $from AND ts_ns < $to AND node IS NOT NULL",  # noqa: S608
            {"from": reach[0], "to": reach[1]},
            between=reach,
        )
    except DamagedLakeError:  # of health itself: its own loss is named as well
        return []
    return sorted(str(value) for value in found.column("node").to_pylist())


def _drop_log_entry(lake: Lake, damage: Damage) -> None:
    """Removes a damaged entry of a table's log that its newest checkpoint stands for, or a checkpoint that the entries
    before it stand for. Raises LakeError when it is needed."""
    path = lake.place.root / damage.path
    if not path.name[:20].isdigit():
        raise DamagedLakeError(damage.text, where=str(path), remedy=delta.RESTORE)
    folder, version = path.parent.parent, int(path.name[:20])
    pointer = find_last_checkpoint(path.parent)
    if path.name.endswith(".json") and version > pointer:
        raise DamagedLakeError("this entry of the table's log is needed", where=str(path), remedy=delta.RESTORE)
    if path.name.endswith(".checkpoint.parquet") and version == pointer:
        needed = [path.parent / f"{number:020d}.json" for number in _since_checkpoint(path.parent, version)]
        if not all(entry.exists() for entry in needed):
            raise DamagedLakeError("this checkpoint of the table is needed", where=str(path), remedy=delta.RESTORE)
        (path.parent / "_last_checkpoint").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    complete_log_checksums(folder)


def _since_checkpoint(log: Path, version: int) -> Iterator[int]:
    """Versions that are needed to know `version` without its own checkpoint."""
    earlier = [int(p.name[:20]) for p in log.glob("*.checkpoint.parquet") if int(p.name[:20]) < version]
    yield from range(max(earlier, default=-1) + 1, version + 1)


def check_copy_folder(copy: Path) -> Path:
    """`copy` itself. Raises UsageError when it is neither a backup nor a lake."""
    if not any((copy / name).is_file() for name in ("backup.json", "lake.toml")):
        raise UsageError("neither a backup nor a lake", where=str(copy), remedy="name the folder of one")
    return copy
