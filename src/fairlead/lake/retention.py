"""Forgetting on purpose: whole days of a table leave it in one commit. Needs the shard's writer.

Their files stay a while for readers of older versions; `compaction` removes them. What the lake has taken in
(`_batches`) is kept, so an expired trace that is offered again does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.errors import UsageError
from fairlead.lake import delta
from fairlead.lake.tables import DAY_NS, SPECS, day_name
from fairlead.lake.writer import Writer
from fairlead.model.tables import TABLES


@dataclass(frozen=True)
class Expired:
    """What left one table. `undated_rows` have no day and never expire."""

    table: str
    days: int
    rows: int
    bytes: int
    undated_rows: int


def expire(
    writer: Writer, *, before_ns: int, tables: Iterable[str] | None = None, dry_run: bool = False
) -> list[Expired]:
    """Removes every day that ended at or before `before_ns` from `tables` (default: all record tables) of the
    writer's shard. Raises UsageError for an unknown table, LakeError."""
    chosen = list(tables) if tables is not None else list(TABLES)
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        raise UsageError(f"there is no table {unknown[0]!r}", remedy=f"one of {', '.join(TABLES)}")
    writer.flush()
    cutoff = day_name(before_ns // DAY_NS)
    names = [name for name in writer.place.tables(writer.shard) if name in chosen]
    return [_expire(writer, name, str(cutoff), dry_run=dry_run) for name in names]


def _expire(writer: Writer, name: str, cutoff: str, *, dry_run: bool) -> Expired:
    spec = SPECS[name]
    folder = writer.place.table(writer.shard, name)
    with writer.table(spec) as table:
        parts = delta.active(table)
        old = [part for part in parts if part.day is not None and part.day < cutoff]
        if old and not dry_run:
            delta.swap(folder, table, spec, old, [], changes_data=True, now_ns=writer.now_ns())
    return Expired(
        table=name,
        days=len({part.day for part in old}),
        rows=sum(part.rows for part in old),
        bytes=sum(part.size for part in old),
        undated_rows=sum(part.rows for part in parts if part.day is None),
    )
