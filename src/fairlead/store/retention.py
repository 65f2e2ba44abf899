"""Forgetting on purpose: whole days of a table, or of one tier of it, leave in one commit. Needs the shard's writer.

Their files stay a while for readers of older versions; `compaction` removes them. What the lake has taken in
(`_batches`) is kept, so an expired trace that is offered again does not come back; only what nodes sent is forgotten
there, once it is too old to be taken anyway (`expire_batch_numbers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.errors import UsageError
from fairlead.core.model.tables import TABLES
from fairlead.store import delta_table as delta
from fairlead.store.checksums import open_checked_files
from fairlead.store.days_and_tiers import format_day, format_tier
from fairlead.store.part_files import (
    Part,
    flatten_part_file_schema,
    parse_part_tier,
    parse_part_version,
    write_part_file,
)
from fairlead.store.stored_tables import BATCHES, DAY_NS, SPECS, TIERS, WIRE
from fairlead.store.writer import Writer

FOR_EVER = ("jobs", "job_summary", "mapping", "events", "phase", "profile", "finding", "incident")
_MARGIN_NS = 2 * DAY_NS
"""A stream is forgotten this much later than its batches are refused: clocks of nodes may run ahead by a day."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many days each kind of record is kept; None is for ever. `tables` names exceptions by table."""

    raw_days: float | None = 14.0
    rollup_1s_days: float | None = 14.0
    rollup_1min_days: float | None = 183.0
    rollup_1h_days: float | None = None
    tables: Mapping[str, float | None] = msgspec.field(
        default_factory=lambda: {**dict.fromkeys(FOR_EVER), "files": 183.0, "file_counters": 183.0}
    )

    def list_tiers(self) -> dict[str, float | None]:
        """Days by tier of `rollup`."""
        intervals = {1: self.rollup_1s_days, 60: self.rollup_1min_days, 3600: self.rollup_1h_days}
        return {format_tier(seconds * 1_000_000_000): days for seconds, days in intervals.items()}

    def find_days(self, table: str) -> float | None:
        """Days of a table without tiers."""
        return self.tables.get(table, self.raw_days)


@dataclass(frozen=True)
class ExpiryResult:
    """What left one table, or one tier of it. `undated_rows` have no day and never expire."""

    table: str
    days: int
    rows: int
    bytes: int
    undated_rows: int
    tier: str = field(default="")


def expire_retained_days(
    writer: Writer,
    *,
    before_ns: int,
    tables: Iterable[str] | None = None,
    dry_run: bool = False,
    tier: str | None = None,
) -> list[ExpiryResult]:
    """Removes every day that ended at or before `before_ns` from `tables` (default: all record tables) of the
    writer's shard; with `tier` only the files of that tier. Raises UsageError for an unknown table, LakeError."""
    chosen = list(tables) if tables is not None else list(TABLES)
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        raise UsageError(f"there is no table {unknown[0]!r}", remedy=f"one of {', '.join(TABLES)}")
    writer.flush()
    names = [name for name in writer.place.list_tables(writer.shard) if name in chosen]
    return [_expire(writer, name, before_ns, tier, dry_run=dry_run) for name in names]


def apply_retention(writer: Writer, policy: Policy) -> list[ExpiryResult]:
    """Removes every day the policy no longer keeps. Raises LakeError."""
    done = []
    for name in writer.place.list_tables(writer.shard):
        if name not in TABLES:
            continue
        kept = policy.list_tiers() if name in TIERS else {"": policy.find_days(name)}
        for tier, days in kept.items():
            if days is not None:
                before_ns = writer.now_ns() - int(days * DAY_NS)
                done.append(_expire(writer, name, before_ns, tier or None, dry_run=False))
    return [one for one in done if one.days]


def _expire(writer: Writer, name: str, before_ns: int, tier: str | None, *, dry_run: bool) -> ExpiryResult:
    spec = SPECS[name]
    cutoff = str(format_day(before_ns // DAY_NS))
    folder = writer.place.build_table_path(writer.shard, name)
    with writer.open_table(spec) as table:
        parts = [part for part in delta.list_delta_parts(table) if tier is None or parse_part_tier(part.path) == tier]
        old = [part for part in parts if part.day is not None and part.day < cutoff]
        if old and not dry_run:
            delta.swap_delta_parts(folder, table, spec, old, [], changes_data=True, now_ns=writer.now_ns())
    return ExpiryResult(
        table=name,
        days=len({part.day for part in old}),
        rows=sum(part.rows for part in old),
        bytes=sum(part.size for part in old),
        undated_rows=sum(part.rows for part in parts if part.day is None),
        tier=tier or "",
    )


def expire_batch_numbers(writer: Writer, looked_at: set[str] | None = None) -> int:
    """Forgets which batches nodes sent so long ago that they would be refused now; returns how many rows of `_batches`
    went. Files found without any are noted in `looked_at` and not read again. Raises LakeError."""
    looked_at = set() if looked_at is None else looked_at
    before_ns = writer.now_ns() - writer.remember_ns - _MARGIN_NS
    folder = writer.place.build_table_path(writer.shard, BATCHES.name)
    with writer.open_table(BATCHES) as table:
        old = [p for p in delta.list_delta_parts(table, BATCHES) if p.last_ns is not None and p.last_ns < before_ns]
        removed, added, gone = [], [], 0
        for part in old:
            if part.path in looked_at:
                continue
            open_checked_files(writer.place.root).check([str(folder / part.path)])
            kept = _without_wire(folder, part)
            if kept.num_rows == part.rows:
                looked_at.add(part.path)
                continue
            gone += part.rows - kept.num_rows
            removed.append(part)
            if kept.num_rows:
                version = parse_part_version(part.path) or f"v{BATCHES.version}"
                added.append(
                    write_part_file(
                        folder, BATCHES, version, part.day, flatten_part_file_schema(kept.schema), kept.to_batches()
                    )
                )
        if removed:
            delta.swap_delta_parts(folder, table, BATCHES, removed, added, changes_data=True, now_ns=writer.now_ns())
    if removed:
        writer.recall()
    return gone


def _without_wire(folder: object, part: Part) -> pa.Table:
    from pyarrow import parquet

    rows = parquet.read_table(f"{folder}/{part.path}", partitioning=None)
    return rows.filter(pc.not_equal(rows.column("source").fill_null(""), WIRE))
