"""A site of two people who may not see each other, and a third of the first one's project: for tests of rights.

`site` is all but what others do; `others` adds that: on things of their own, and on those of the first when she is not
there. From T0 on fifteen minutes are told of, and one job of three hours before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.model.finding import Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import (
    DEVICE,
    EVENTS,
    FILES,
    JOB_SUMMARY,
    MAPPING,
    OPS,
    PFS_CLIENT,
    PORT,
    USAGE,
    build_table_batch,
)
from fairlead.store.lake import Lake
from questions_site import DAY, HOUR, MIB, T0, S, accounts, asked, forwarded, put, seconds, stored, well

END = 900
NOW = T0 + END * S
HERS = {
    "job_id": "100",
    "user": "alice",
    "project": "climate",
    "program": "wrf",
    "nodes": ["n1", "n2"],
    "start_ns": T0 + 61 * S,
    "end_ns": T0 + 361 * S,
    "state": "COMPLETED",
}
AGAIN = {
    "job_id": "300",
    "user": "alice",
    "project": "private",
    "program": "cdo",
    "nodes": ["n1"],
    "start_ns": T0 + 420 * S,
    "end_ns": T0 + 500 * S,
    "state": "COMPLETED",
}
MATES = {
    "job_id": "200",
    "user": "dana",
    "project": "climate",
    "program": "icon",
    "nodes": ["n6"],
    "start_ns": T0 + 240 * S,
    "end_ns": T0 + 480 * S,
    "state": "COMPLETED",
}
OLD = {
    "job_id": "90",
    "user": "alice",
    "project": "climate",
    "program": "wrf",
    "nodes": ["n1", "n2"],
    "start_ns": T0 - 3 * HOUR,
    "end_ns": T0 - 3 * HOUR + 200 * S,
    "state": "COMPLETED",
}
BUSY = {
    "n1": [(61, 361), (420, 500)],
    "n2": [(61, 361)],
    "n6": [(240, 480)],
    "f1": [(61, 500)],
    "OST0": [(61, 500)],
    "MDT0": [(61, 500)],
}
"""When things are used by her or her mate, seconds after T0."""


@dataclass(frozen=True)
class Other:
    """A job of somebody else, and what it did: seconds after T0."""

    number: str
    first: int
    last: int
    nodes: Sequence[str] = ("n3", "n4")
    forwarder: str = "f2"
    target: str = "OST2"
    mdt: str = "MDT2"
    size: int = 7919
    user: str = "bob"
    cluster: str = "c"
    project: str = "fusion"
    program: str = "gkua"
    file: str = "/scratch/bob/secret.dat"
    told: bool = True


@dataclass(frozen=True)
class _Work:
    """What one job did."""

    account: dict[str, object]
    first: int
    last: int
    forwarder: str
    target: str
    mdt: str
    size: int
    file: int
    tables: list[pa.RecordBatch] = field(default_factory=list)


def _ops(node: str, work: _Work) -> pa.RecordBatch:
    start = T0 + np.arange(work.first, work.last) * S
    n = len(start)
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": start + S // 2,
            "busy_ns": np.full(n, S // 2),
            "node": [node] * n,
            "job_id": [work.account["job_id"]] * n,
            "rank": np.zeros(n, np.int32),
            "interface": ["POSIX"] * n,
            "fs": ["/scratch"] * n,
            "op": ["write"] * n,
            "file_id": np.full(n, work.file),
            "offset": np.arange(n) * work.size,
            "size": np.full(n, work.size),
            "count": np.ones(n, np.int64),
        },
    )


def _beside(node: str, work: _Work) -> list[pa.RecordBatch]:
    """Counters of a node that know no jobs."""
    ts = seconds(work.first, work.last)
    n = len(ts)
    each, size = np.full(n, S), np.full(n, work.size)
    return [
        build_table_batch(
            PFS_CLIENT,
            {
                "ts_ns": ts,
                "interval_ns": each,
                "node": [node] * n,
                "write_bytes": size,
                "read_bytes": np.zeros(n, np.int64),
                "source": ["llite"] * n,
            },
        ),
        build_table_batch(
            DEVICE,
            {
                "ts_ns": ts,
                "interval_ns": each,
                "node": [node] * n,
                "device": ["sda"] * n,
                "write_bytes": size,
                "read_bytes": np.zeros(n, np.int64),
                "busy_ns": each // 3,
            },
        ),
        build_table_batch(
            PORT,
            {
                "ts_ns": ts,
                "interval_ns": each,
                "switch": ["sw"] * n,
                "port": [node] * n,
                "rx_bytes": size,
                "tx_bytes": np.zeros(n, np.int64),
            },
        ),
    ]


def _did(work: _Work) -> list[pa.RecordBatch]:
    job, many = str(work.account["job_id"]), len(work.account["nodes"])  # type: ignore[arg-type]
    moved = work.size * many
    nodes: Sequence[str] = work.account["nodes"]  # type: ignore[assignment]
    return [
        *(_ops(node, work) for node in nodes),
        *(one for node in nodes for one in _beside(node, work)),
        forwarded(work.forwarder, job, work.first, work.last, moved),
        stored(work.target, work.first, work.last, moved),
        stored(work.target, work.first, work.last, moved, job=job),
        asked(work.mdt, work.first, work.last, 3),
        asked(work.mdt, work.first, work.last, 3, job=job, source="job_stats"),
        asked(work.mdt, work.first, work.last, 3, client=nodes[0], source="exports"),
    ]


def _summary(account: dict[str, object], work: _Work) -> pa.RecordBatch:
    took = work.last - work.first
    return build_table_batch(
        JOB_SUMMARY,
        {
            **{name: [account[name]] for name in ("job_id", "start_ns", "end_ns", "user", "project", "program")},
            "cluster": [account.get("cluster", "c")],
            "write_bytes": [work.size * took],
            "write_mode": ["N-1"],
            "files": [1],
            "phases": [1],
            "targets": [[work.target]],
            "forwarders": [[work.forwarder]],
            "made_ns": [NOW],
            "analysis_version": [1],
            "basis": ["client"],
            "nodes_count": [len(account["nodes"])],
            "cores": [64],  # type: ignore[arg-type]
        },
    )


def finding(number: str, user: str, culprit: str, target: str, *, text: str) -> StoredFinding:
    """A finding about a job that blames another."""
    return StoredFinding(
        finding=Finding(
            id=f"f0{number:0>10}",
            rule="job.interference",
            title=f"Job {number} lost 60 s to job {culprit} at {target}",
            subject=Subject("job", number),
            from_ns=T0 + 120 * S,
            to_ns=T0 + 300 * S,
            severity="high",
            confidence=0.9,
            category="high_bandwidth",
            culprits=[Subject("job", culprit)],
            evidence=[Evidence(text=text)],
            cost_s=60.0,
            analysis_version="1",
        ),
        cluster="c",
        job_id=number,
        user=user,
        components=[Subject("target", target)],
    )


def sick(component: str, first: int, last: int, jobs: Sequence[str]) -> Incident:
    """An incident of a target."""
    return Incident(
        id=f"i{component}{first}",
        layer="target",
        component=component,
        from_ns=T0 + first * S,
        to_ns=T0 + last * S,
        kind="degraded",
        measured=1.0,
        peak=10.0,
        share_of_peak=0.1,
        hint="one_client",
        confidence=0.9,
        jobs=list(jobs),
        evidence=[Evidence(text="it was slow")],
        missing=[],
    )


def site(root: Path) -> Lake:
    """Everything that is hers, her mate's or nobody's."""
    lake = Lake.open(root, create=True)
    works = [
        (HERS, _Work(HERS, 61, 361, "f1", "OST0", "MDT0", 2 * MIB, 7)),
        (AGAIN, _Work(AGAIN, 420, 500, "f1", "OST0", "MDT0", MIB, 7)),
        (MATES, _Work(MATES, 240, 480, "f1", "OST0", "MDT0", 3 * MIB, 9)),
        (OLD, _Work(OLD, -3 * 3600, -3 * 3600 + 200, "f1", "OST0", "MDT0", MIB, 7)),
    ]
    nodes = ["n1", "n2", "n3", "n4", "n6"]
    put(
        lake,
        accounts(*(account for account, _ in works)),
        *(one for _, work in works for one in _did(work)),
        *(_summary(account, work) for account, work in works),
        *(well(name, -3 * 3600, END) for name in (*nodes, "f1", "f2", "oss1", "mds1")),
        build_table_batch(
            MAPPING,
            {
                "from_ns": [T0 - DAY] * 14,
                "to_ns": [None] * 14,
                "kind": ["node_forwarder"] * 5 + ["target→server"] * 4 + ["node→port"] * 5,
                "a": [*nodes, "OST0", "OST2", "MDT0", "MDT2", *nodes],
                "b": ["f1", "f1", "f2", "f2", "f1", "oss1", "oss2", "mds1", "mds2", *(f"sw/{name}" for name in nodes)],
            },
        ),
        build_table_batch(
            FILES,
            {
                "file_id": [7, 9],
                "fs": ["/scratch"] * 2,
                "first_seen_ns": [T0 - DAY] * 2,
                "path": ["/scratch/alice/run.nc", "/scratch/dana/run.nc"],
            },
        ),
        build_table_batch(
            USAGE,
            {
                "ts_ns": [NOW - 300 * S] * 2,
                "fs": ["scratch"] * 2,
                "target": ["OST0"] * 2,
                "owner_kind": ["user"] * 2,
                "owner": ["alice", "dana"],
                "used_bytes": [10 * MIB, 20 * MIB],
            },
        ),
        build_finding_rows([finding("100", "alice", "200", "OST0", text="dana's icon was next to it")], NOW),
        build_incident_rows([sick("OST0", 100, 200, ["100"])], NOW),
    )
    return lake


def others(lake: Lake, jobs: Sequence[Other]) -> None:
    """What other people do there."""
    tables: list[pa.RecordBatch] = []
    for place, job in enumerate(jobs):
        account: dict[str, object] = {
            "job_id": job.number,
            "user": job.user,
            "project": job.project,
            "program": job.program,
            "nodes": list(job.nodes),
            "start_ns": T0 + job.first * S,
            "end_ns": T0 + job.last * S,
            "state": "COMPLETED",
            "cluster": job.cluster,
            "name": f"{job.user}-run",
        }
        file = 1000 + place
        work = _Work(account, job.first, job.last, job.forwarder, job.target, job.mdt, job.size, file)
        tables += [accounts(account), *_did(work), _summary(account, work)]
        tables += [
            build_table_batch(
                FILES, {"file_id": [file], "fs": ["/scratch"], "first_seen_ns": [T0], "path": [job.file]}
            ),
            build_table_batch(
                EVENTS,
                {
                    "ts_ns": [T0 + job.first * S] * 2,
                    "component": [job.target, f"job:{job.number}"],
                    "kind": ["eviction", "missing:dxt"],
                    "text": [f"evicted {job.user}"] * 2,
                },
            ),
            build_table_batch(
                USAGE,
                {
                    "ts_ns": [NOW - 300 * S],
                    "fs": ["scratch"],
                    "target": ["OST0"],
                    "owner_kind": ["user"],
                    "owner": [job.user],
                    "used_bytes": [99 * MIB],
                },
            ),
        ]
        if job.told:
            tables += [
                build_finding_rows(
                    [finding(job.number, job.user, "4711", job.target, text=f"{job.program} waited")], NOW
                ),
                build_incident_rows([sick(job.target, job.first, job.last, [job.number])], NOW),
            ]
    put(lake, *tables, stream="others")
