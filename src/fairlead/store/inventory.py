"""What a lake holds: tables, rows, days, bytes, files, what waits in the log, what was set aside. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairlead.store import delta_table as delta
from fairlead.store import wal
from fairlead.store import wal_rows as hot
from fairlead.store.days_and_tiers import format_day
from fairlead.store.lake_folder import FORMAT, Place
from fairlead.store.part_files import Part
from fairlead.store.stored_tables import BATCHES, DAY_NS, SPECS


@dataclass(frozen=True)
class Holding:
    """One table of one shard. `waiting_rows` are acknowledged but not yet in the table; days are `2026-11-21`."""

    shard: str
    table: str
    rows: int
    waiting_rows: int
    files: int
    bytes: int
    days: int
    first_day: str | None
    last_day: str | None
    undated_rows: int
    known: bool
    """False for a table of a newer fairlead: this one keeps it but cannot show it."""


@dataclass(frozen=True)
class Shard:
    """One shard: rows in its tables and on their way there, bytes of either, batches taken in."""

    shard: str
    rows: int
    waiting_rows: int
    bytes: int
    log_bytes: int
    batches: int


@dataclass(frozen=True)
class Inventory:
    """One lake. `bytes_on_disk` also counts files kept for readers of older versions."""

    root: str
    format: int
    shards: list[str]
    tables: list[Holding]
    batches: int
    log_bytes: int
    bytes_on_disk: int
    damaged_segments: list[str]
    sums: list[Shard]


def take_inventory(place: Place) -> Inventory:
    """Looks at every shard. Raises LakeError."""
    holdings: list[Holding] = []
    batches = log_bytes = 0
    damaged: list[str] = []
    sums: list[Shard] = []
    for shard in place.list_shards():
        frames, size = _waiting(place.build_wal_path(shard))
        log_bytes += size
        first, batches_before = len(holdings), batches
        damaged += [str(path) for path in wal.list_damaged_wal_segments(place.build_wal_path(shard))]
        for name in sorted({*place.list_tables(shard), *_named(frames)}):
            holding = _holding(place, shard, name, frames)
            if name == BATCHES.name:
                batches += holding.rows + holding.waiting_rows
            else:
                holdings.append(holding)
        mine = holdings[first:]
        sums.append(
            Shard(
                shard,
                sum(h.rows for h in mine),
                sum(h.waiting_rows for h in mine),
                sum(h.bytes for h in mine),
                size,
                batches - batches_before,
            )
        )
    return Inventory(
        root=str(place.root),
        format=FORMAT,
        shards=place.list_shards(),
        tables=holdings,
        batches=batches,
        log_bytes=log_bytes,
        bytes_on_disk=_size(place.root),
        damaged_segments=damaged,
        sums=sums,
    )


def take_stored_inventory(place: Place, now_ns: int) -> tuple[list[Holding], int, float | None]:
    """What is in the tables, without reading the log (`waiting_rows` are 0); bytes of the log; bytes of one day, as the
    mean of the last week's whole days that have any (None: there is none). Raises LakeError."""
    today = now_ns // DAY_NS
    week = {str(format_day(today - back)) for back in range(1, 8)}
    holdings: list[Holding] = []
    log_bytes, by_day = 0, dict.fromkeys(week, 0)
    for shard in place.list_shards():
        for _, path in wal.list_wal_segments(place.build_wal_path(shard)):
            try:
                log_bytes += path.stat().st_size
            except FileNotFoundError:  # carried over meanwhile
                continue
        for name in place.list_tables(shard):
            if name == BATCHES.name:
                continue
            holdings.append(_holding(place, shard, name, {}))
            table = delta.open_delta(place.build_table_path(shard, name))
            for part in delta.list_delta_parts(table) if table is not None else []:
                if part.day in week:
                    by_day[str(part.day)] += part.size
    some = [size for size in by_day.values() if size]
    return holdings, log_bytes, sum(some) / len(some) if some else None


def _waiting(folder: Path) -> tuple[dict[int, list[wal.Frame]], int]:
    frames: dict[int, list[wal.Frame]] = {}
    size = 0
    for number, path in wal.list_wal_segments(folder):
        try:
            frames[number] = wal.read_wal_segment(path).frames
            size += path.stat().st_size
        except FileNotFoundError:
            continue
    return frames, size


def _named(frames: dict[int, list[wal.Frame]]) -> set[str]:
    """Tables that frames hold rows of, `_batches` among them when there is any frame."""
    names = {name for held in frames.values() for frame in held for name in hot.count_wal_rows(frame)[0]}
    return names | ({BATCHES.name} if any(frames.values()) else set())


def _holding(place: Place, shard: str, name: str, frames: dict[int, list[wal.Frame]]) -> Holding:
    table = delta.open_delta(place.build_table_path(shard, name))
    parts: list[Part] = delta.list_delta_parts(table) if table is not None else []
    carried = delta.find_delta_segment(table)
    waiting = 0
    for number, held in frames.items():
        for frame in held if number > carried else []:
            rows, count = hot.count_wal_rows(frame)
            waiting += count if name == BATCHES.name else rows.get(name, 0)
    days = sorted({part.day for part in parts if part.day is not None})
    return Holding(
        shard=shard,
        table=name,
        rows=sum(part.rows for part in parts),
        waiting_rows=waiting,
        files=len(parts),
        bytes=sum(part.size for part in parts),
        days=len(days),
        first_day=days[0] if days else None,
        last_day=days[-1] if days else None,
        undated_rows=sum(part.rows for part in parts if part.day is None),
        known=name in SPECS,
    )


def _size(root: Path) -> int:
    total = 0
    for path in root.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # a segment that was carried over meanwhile
            continue
    return total
