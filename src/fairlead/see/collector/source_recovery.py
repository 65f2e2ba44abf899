"""What a lake knows of sources from before this collector began: last batches, health, gaps still open.

Not here: sources that come now (`sources`).
"""

from __future__ import annotations

from fairlead.core.model.tables import HEALTH, build_table_batch
from fairlead.see.collector.source_activity import GAP, Sources
from fairlead.store.days_and_tiers import format_day
from fairlead.store.lake import Lake
from fairlead.store.stored_tables import DAY_NS, WIRE

DAYS = 3
"""A source silent for longer is not shown as one any more; its gap stays in `events`."""

_BATCHES = f"""
SELECT split_part(stream, '/', 1) AS node, max(taken_ns) AS last_ns, sum(coalesce(batches, 1)) AS batches,
    sum(rows) AS rows
FROM _batches WHERE day >= CAST($day AS DATE) AND source = '{WIRE}' AND taken_ns < $began GROUP BY node"""  # noqa: S608 (our own words)
_HEALTH = """
SELECT * EXCLUDE (day) FROM health WHERE day >= CAST($day AS DATE) AND node IN (SELECT unnest($nodes))
QUALIFY row_number() OVER (PARTITION BY node, probe ORDER BY ts_ns DESC) = 1"""
_GAPS = f"""
SELECT component, ts_ns FROM events WHERE kind = '{GAP}' AND day >= CAST($day AS DATE)
GROUP BY component, ts_ns HAVING max(end_ns) IS NULL"""  # noqa: S608 (our own words)


def recover_sources(lake: Lake, sources: Sources, shard_now_ns: int) -> int:
    """Tells `sources` who sent within the last days; returns how many there are. Raises LakeError."""
    day = format_day(shard_now_ns // DAY_NS - DAYS)
    found = lake.query(_BATCHES, {"day": day, "began": shard_now_ns}).to_pylist()
    gaps: dict[str, int] = {}
    for row in lake.query(_GAPS, {"day": day}).to_pylist():
        gaps[row["component"]] = max(row["ts_ns"], gaps.get(row["component"], 0))
    for row in found:
        # A gap that began after the last batch is still open; one before it was closed by a batch while nobody looked.
        since = gaps.get(row["node"])
        sources.recall(
            row["node"], row["last_ns"], batches=int(row["batches"]), rows=int(row["rows"]), gap_since_ns=since
        )
    nodes = [row["node"] for row in found]
    if nodes:
        health = lake.query(_HEALTH, {"day": day, "nodes": nodes})
        columns: dict[str, object] = {
            name: health.column(name) for name in HEALTH.schema.names if name not in ("unknown_lines", "lost_batches")
        }
        sources.record_health(build_table_batch(HEALTH, columns, health.num_rows))
    return len(found)
