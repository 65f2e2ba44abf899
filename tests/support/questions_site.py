"""A small site in a real lake for tests of questions: four nodes, two forwarders, three targets, two metadata targets.

Ten minutes from `T0` on: job 100 (alice, n1 n2) has run, job 101 (bob, n3 n4) still runs. A row a second and component.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.model.finding import Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows
from fairlead.core.model.tables import (
    EVENTS,
    FORWARDER,
    HEALTH,
    JOB_SUMMARY,
    JOBS,
    MAPPING,
    METADATA,
    OPS,
    TARGET,
    build_table_batch,
)
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

S = 10**9
MINUTE, HOUR, DAY = 60 * S, 3600 * S, 86400 * S
T0 = 20_000 * DAY + 10 * HOUR
NOW = T0 + 600 * S
MIB = 1 << 20

ALICE = {
    "job_id": "100",
    "user": "alice",
    "project": "climate",
    "program": "wrf",
    "nodes": ["n1", "n2"],
    "start_ns": T0 + 60 * S,
    "end_ns": T0 + 360 * S,
    "state": "COMPLETED",
}
BOB = {
    "job_id": "101",
    "user": "bob",
    "project": "fusion",
    "program": "gkua",
    "nodes": ["n3", "n4"],
    "start_ns": T0 + 120 * S,
    "end_ns": None,
    "state": "RUNNING",
}
OLD = {
    "job_id": "100",
    "user": "carol",
    "project": "fusion",
    "program": "vasp",
    "nodes": ["n1"],
    "start_ns": T0 - 20 * DAY,
    "end_ns": T0 - 19 * DAY,
    "state": "COMPLETED",
}


FOUND = StoredFinding(
    finding=Finding(
        id="abcdef123456",
        rule="job.interference",
        title="Job 100 lost 60 s to job 101 at target OST0",
        subject=Subject("job", "100"),
        from_ns=T0 + 120 * S,
        to_ns=T0 + 360 * S,
        severity="high",
        confidence=0.9,
        category="high_bandwidth",
        culprits=[Subject("job", "101")],
        evidence=[Evidence(text="bob's gkua held OST0")],
        cost_s=60.0,
        analysis_version="1",
    ),
    cluster="c",
    job_id="100",
    user="alice",
    components=[Subject("target", "OST0")],
)
"""What is told of alice's job, which blames bob's."""


def columns(rows: list[dict[str, object]]) -> dict[str, object]:
    """Rows as columns."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def put(lake: Lake, *tables: pa.RecordBatch, stream: str = "site") -> None:
    """Takes tables in, and the rollup that is derived of them."""
    by_name: dict[str, list[pa.RecordBatch]] = {}
    for table in tables:
        by_name.setdefault(table.schema.metadata[b"fairlead.table"].decode(), []).append(table)
    made = derive_rollups({name: pa.Table.from_batches(held) for name, held in by_name.items()})
    with lake.open_writer(stream) as writer:
        taking = writer.open_batch(f"{stream}:{len(by_name)}")
        for table in tables:
            taking.add(table)
        for table in made.values():
            taking.add(table)
        assert taking.commit()


def seconds(first: int, last: int) -> np.ndarray:
    """Ends of the seconds from T0 + first to T0 + last."""
    return T0 + (np.arange(first, last) + 1) * S


def ops(job: str, node: str, first: int, last: int, size: int, op: str = "write") -> pa.RecordBatch:
    """One operation a second."""
    start = T0 + np.arange(first, last) * S
    n = len(start)
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": start + S // 2,
            "busy_ns": np.full(n, S // 2),
            "node": [node] * n,
            "job_id": [job] * n,
            "rank": np.zeros(n, np.int32),
            "interface": ["POSIX"] * n,
            "fs": ["/scratch"] * n,
            "op": [op] * n,
            "file_id": np.full(n, 7),
            "offset": np.arange(n) * size,
            "size": np.full(n, size),
            "count": np.ones(n, np.int64),
        },
    )


def forwarded(node: str, job: str, first: int, last: int, moved: int, op_class: str = "write") -> pa.RecordBatch:
    """A forwarder's seconds for one job."""
    ts = seconds(first, last)
    n = len(ts)
    return build_table_batch(
        FORWARDER,
        {
            "ts_ns": ts,
            "interval_ns": np.full(n, S),
            "node": [node] * n,
            "job_id": [job] * n,
            "op_class": [op_class] * n,
            "requests": np.ones(n, np.int64),
            "bytes": np.full(n, moved),
        },
    )


def stored(target: str, first: int, last: int, written: int, *, job: str | None = None) -> pa.RecordBatch:
    """A target's seconds; with a job, its part by job_stats."""
    ts = seconds(first, last)
    n = len(ts)
    whole = job is None
    return build_table_batch(
        TARGET,
        {
            "ts_ns": ts,
            "interval_ns": np.full(n, S),
            "server": ["oss1"] * n,
            "target": [target] * n,
            "job_id": [job] * n,
            "read_bytes": np.zeros(n, np.int64),
            "write_bytes": np.full(n, written),
            "read_rpcs": np.zeros(n, np.int64),
            "write_rpcs": np.ones(n, np.int64),
            "source": ["obdfilter" if whole else "job_stats"] * n,
            "capacity_bytes": np.full(n, 1000 * MIB) if whole else None,
            "used_bytes": 500 * MIB + np.arange(n) * written if whole else None,
        },
    )


def asked(
    target: str,
    first: int,
    last: int,
    count: int,
    *,
    op: str = "open",
    job: str | None = None,
    client: str | None = None,
    source: str = "md_stats",
) -> pa.RecordBatch:
    """A metadata target's seconds."""
    ts = seconds(first, last)
    n = len(ts)
    return build_table_batch(
        METADATA,
        {
            "ts_ns": ts,
            "interval_ns": np.full(n, S),
            "server": ["mds1"] * n,
            "target": [target] * n,
            "op": [op] * n,
            "count": np.full(n, count),
            "job_id": [job] * n,
            "client": [client] * n,
            "source": [source] * n,
        },
    )


def well(node: str, first: int, last: int, *, probe: str = "agent", state: str = "ok") -> pa.RecordBatch:
    """Words of health every minute of [first, last) seconds."""
    ts = T0 + np.arange(first, last, 60) * S
    n = len(ts)
    return build_table_batch(
        HEALTH,
        {
            "ts_ns": ts,
            "node": [node] * n,
            "probe": [probe] * n,
            "state": [state] * n,
            "interval_ns": np.full(n, MINUTE),
            "text": [f"{probe} of {node}"] * n,
        },
    )


def accounts(*rows: dict[str, object]) -> pa.RecordBatch:
    """Jobs of one cluster."""
    full = [{"cluster": "c", "nodes_count": len(row["nodes"]), "cores": 64, **row} for row in rows]  # type: ignore[arg-type]
    return build_table_batch(JOBS, columns(full))


def build(root: Path) -> Lake:
    """The site."""
    lake = Lake.open(root, create=True)
    n = 2
    put(
        lake,
        accounts(ALICE, BOB, OLD),
        *(ops("100", node, 60, 360, 2 * MIB) for node in ("n1", "n2")),
        *(ops("101", node, 120, 600, MIB, "read") for node in ("n3", "n4")),
        forwarded("f1", "100", 60, 360, 4 * MIB),
        forwarded("f2", "101", 120, 600, 6 * MIB, "read"),
        stored("OST0", 0, 600, 3 * MIB),
        stored("OST1", 0, 600, MIB),
        stored("OST2", 0, 600, 0),
        stored("OST0", 60, 360, 3 * MIB, job="100"),
        stored("OST1", 60, 360, MIB, job="100"),
        asked("MDT0", 0, 600, 5),
        asked("MDT2", 0, 600, 1000),
        asked("MDT2", 0, 600, 200, op="getattr"),
        asked("MDT2", 120, 600, 900, job="101", source="job_stats"),
        asked("MDT2", 60, 360, 50, job="100", source="job_stats"),
        asked("MDT2", 0, 600, 1000, client="login03", source="exports"),
        asked("MDT2", 0, 600, 150, client="n3", source="exports"),
        asked("MDT2", 0, 600, 50, client="n4", source="exports"),
        *(well(node, 0, 660) for node in ("n1", "n2", "oss1", "mds1", "f1", "f2")),
        well("n3", 0, 240),
        well("n4", 0, 240),
        well("n2", 0, 660, probe="llite", state="failing"),
        build_table_batch(
            EVENTS, {"ts_ns": [T0 + 240 * S], "component": ["n3"], "kind": ["gap"], "text": ["no word from n3"]}
        ),
        build_table_batch(
            EVENTS,
            {
                "ts_ns": [T0 + 100 * S] * n,
                "end_ns": [None] * n,
                "component": ["OST1", "job:101"],
                "kind": ["eviction", "missing:dxt"],
                "text": ["evicted client of bob", "bob's trace"],
            },
        ),
        build_table_batch(
            MAPPING,
            {
                "from_ns": [T0 - DAY] * 7,
                "to_ns": [None] * 7,
                "kind": ["node_forwarder"] * 4 + ["target→server"] * 3,
                "a": ["n1", "n2", "n3", "n4", "OST0", "OST1", "OST2"],
                "b": ["f1", "f1", "f2", "f2"] + ["oss1"] * 3,
            },
        ),
        build_table_batch(
            JOB_SUMMARY,
            {
                "cluster": ["c"],
                "job_id": ["100"],
                "start_ns": [ALICE["start_ns"]],
                "end_ns": [ALICE["end_ns"]],
                "user": ["alice"],
                "write_bytes": [1200 * MIB],
                "write_mode": ["N-1"],
                "files": [1],
                "phases": [1],
                "targets": [["OST0", "OST1"]],
                "made_ns": [NOW],
                "analysis_version": [1],
                "basis": ["client"],
            },
        ),
        build_finding_rows([FOUND], NOW),
    )
    return lake
