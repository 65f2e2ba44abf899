"""What a lake alone tells of its sources, when no server answers: last batches, health rows, open gaps.

Not here: the health a running collector keeps (`collector`).
"""

from __future__ import annotations

from pathlib import Path

import fairlead
from fairlead.see.collector.health import CollectorHealth, ServerHealth
from fairlead.see.collector.intake import measure_intake_room
from fairlead.see.collector.source_activity import Sources
from fairlead.see.collector.source_recovery import recover_sources
from fairlead.store.lake import Lake
from fairlead.store.wal import list_wal_segments


def read_lake_health(root: Path, now_ns: int) -> ServerHealth:
    """The same document a server gives, as far as the lake knows. Raises LakeError."""
    lake = Lake.open(root)
    sources = Sources(started_ns=0, silent_periods=3.0, period_ns=60_000_000_000)
    recover_sources(lake, sources, now_ns)
    sources.find_gaps(now_ns)
    found = sources.list_sources(now_ns)
    states: dict[str, int] = {}
    for one in found:
        states[one.state] = states.get(one.state, 0) + 1
    waiting = [
        path for shard in lake.place.list_shards() for _, path in list_wal_segments(lake.place.build_wal_path(shard))
    ]
    collector = CollectorHealth(
        shard=", ".join(lake.place.list_shards()),
        version=fairlead.__version__,
        started_ns=0,
        backlog_bytes=sum(path.stat().st_size for path in waiting if path.exists()),
        in_flight_bytes=0,
        connections=0,
        free_bytes=measure_intake_room(root),
        memory_bytes=0,
        carried_ns=None,
        carry_s=None,
        aside_batches={},
        not_understood={},
        problems=["no server was asked: this is from the lake"],
    )
    return ServerHealth(
        now_ns=now_ns,
        state="degraded" if states.keys() & {"silent", "failing"} else "ok",
        collector=collector,
        feeds=[],
        states=states,
        agents={},
        sources=found,
    )
