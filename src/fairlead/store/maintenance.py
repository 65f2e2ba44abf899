"""Looking after a shard while it is written: what is due of merging, expiring, forgetting and removing, in one call.

Batches are taken in all the while; only commits wait for each other. Not here: how each is done (`compaction`,
`retention`).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from fairlead.store import compaction, retention
from fairlead.store.compaction import MergeResult
from fairlead.store.lake import Lake
from fairlead.store.retention import ExpiryResult, Policy
from fairlead.store.stored_tables import SPECS
from fairlead.store.writer import Writer

KEEP_HOURS = 6
"""How long files that were merged or expired away stay for readers, while a collector runs."""
MERGES_AT_ONCE = 4
"""Groups of files of one table that one call merges: what else is due does not wait for hours of merging."""
REMOVE_EVERY_NS = 3_600_000_000_000


@dataclass
class _Memory:
    """What a call leaves for the next one about the same writer."""

    removed_ns: int | None = None
    looked_at: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class MaintenanceResult:
    """What one call did: tables with merged files, days that went, streams' rows forgotten, files removed."""

    merged: list[MergeResult]
    expired: list[ExpiryResult]
    forgotten: int
    removed: int


_memories: weakref.WeakKeyDictionary[Writer, _Memory] = weakref.WeakKeyDictionary()


def run_lake_maintenance(
    lake: Lake, writer: Writer, policy: Policy | None = None, *, keep_hours: int = KEEP_HOURS
) -> MaintenanceResult:
    """Does what is due in the writer's shard; call it every minute or so, from one thread. Files no reader can need
    any more are removed once an hour. Raises LakeError; nothing is half done then."""
    memory = _memories.setdefault(writer, _Memory())
    expired = retention.apply_retention(writer, policy or Policy())
    forgotten = retention.expire_batch_numbers(writer, memory.looked_at)
    merged = compaction.compact_due_files(lake, writer, most=MERGES_AT_ONCE)
    removed = 0
    now_ns = writer.now_ns()
    if memory.removed_ns is None or now_ns - memory.removed_ns >= REMOVE_EVERY_NS:
        memory.removed_ns = now_ns
        for name in writer.place.list_tables(writer.shard):
            if name in SPECS:
                removed += compaction.vacuum_after_compaction(writer, SPECS[name], keep_hours)
    return MaintenanceResult([m for m in merged if m.files_before != m.files_after], expired, forgotten, removed)
