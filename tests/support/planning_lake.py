"""A small machine in a lake for tests of planning: 64 nodes, eight forwarders, sixteen targets, history of three users.

At `NOW` jobs 500 and 501 run behind fwd03 and fwd04; forwarder fwd05 and target OST0007 are sick; nobody uses fwd06 to
fwd08.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.model.finding_incident_rows import build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import FORWARDER, JOB_SUMMARY, JOBS, TARGET, build_table_batch
from fairlead.store.lake import Lake
from questions_site import DAY, HOUR, NOW, S, columns, put

GB = 10**9
SITE = """
name = "ember"

[[nodes]]
kind = "compute"
nodes = "n[001-064]"
cores = 32

[[forwarders]]
nodes = "fwd[01-08]"
bandwidth_bytes_per_s = 2.5e9
mdops = 20000

[[routes]]
nodes = "n[001-064]"
forwarders = "fwd[01-08]"

[[file_systems]]
name = "scratch"
kind = "lustre"
mount = "/scratch"

[[file_systems.servers]]
kind = "mds"
node = "mds1"
targets = "scratch-MDT0000"
mdops = 60000

[[file_systems.servers]]
kind = "oss"
node = "oss1"
targets = "scratch-OST[0000-0007]"
write_bandwidth_bytes_per_s = 1.0e9

[[file_systems.servers]]
kind = "oss"
node = "oss2"
targets = "scratch-OST[0008-0015]"
write_bandwidth_bytes_per_s = 1.0e9

[planning]
forwarder_counts = [1, 2, 4]
stripe_counts = [1, 2, 4, 8]
client_bandwidth_bytes_per_s = 1.0e8

[[planning.pools]]
name = "flash"
targets = "scratch-OST[0000-0001]"

[[planning.barred]]
why = "kept for visualisation"
components = "fwd08"
but_users = ["vis"]

[[planning.barred]]
why = "flash is not for tests"
pools = ["flash"]
programs = ["tester"]
"""
FORWARDERS = [f"fwd{k:02d}" for k in range(1, 9)]
TARGETS = [f"scratch-OST{k:04d}" for k in range(16)]
RATES = {"fwd01": 0.6e9, "fwd03": 1.5e9, "fwd04": 1.0e9, "fwd05": 0.1e9}
"""Bytes/s of forwarders that are used."""


def nodes(first: int, last: int) -> list[str]:
    """Names of nodes."""
    return [f"n{k:03d}" for k in range(first, last + 1)]


def _run(number: int, user: str, program: str, ago_h: float, count: int, **figures: object) -> dict[str, object]:
    start = NOW - int(ago_h * HOUR)
    return {
        "cluster": "ember",
        "job_id": str(number),
        "start_ns": start,
        "end_ns": start + 1000 * S,
        "user": user,
        "program": f"/home/{user}/{program}",
        "nodes_count": count,
        "cores": 32 * count,
        "processes": 32 * count,
        "made_ns": NOW,
        "analysis_version": 1,
        "basis": "client",
        "read_bytes": 0,
        "read_ops": 0,
        "phases": 4,
        **figures,
    }


def history() -> list[dict[str, object]]:
    """Runs that ended: ada's cast (N-N, wide), ben's index (metadata), cyd's mono (one shared file), dan's load."""
    rows = []
    for k in range(4):
        rows.append(
            _run(
                100 + k,
                "ada",
                "cast",
                30 - 4 * k,
                16,
                io_processes=64,
                write_bytes=600 * GB,
                write_ops=600_000,
                write_bandwidth_bytes_per_s=6.0e9,
                write_mode="N-N",
                files=64,
                metadata_ops=4000,
                mdops_in_phases=4.0,
                iops=6000.0,
            )
        )
        rows.append(
            _run(
                200 + k,
                "ben",
                "index",
                31 - 4 * k,
                4,
                io_processes=128,
                write_bytes=GB,
                write_ops=20_000,
                write_bandwidth_bytes_per_s=20.0e6,
                write_mode="N-N",
                files=20_000,
                metadata_ops=1_500_000,
                mdops_in_phases=2500.0,
                iops=400.0,
            )
        )
        rows.append(
            _run(
                300 + k,
                "cyd",
                "mono",
                32 - 4 * k,
                8,
                io_processes=32,
                write_bytes=64 * GB,
                write_ops=64_000,
                write_bandwidth_bytes_per_s=1.8e9,
                write_mode="N-1",
                files=1,
                metadata_ops=40,
                mdops_in_phases=0.1,
                iops=1800.0,
            )
        )
        rows.append(
            _run(
                400 + k,
                "dan",
                "load",
                33 - 4 * k,
                16,
                io_processes=64,
                write_bytes=400 * GB,
                write_ops=400_000,
                write_bandwidth_bytes_per_s=2.0e9,
                write_mode="N-N",
                files=64,
                metadata_ops=400,
                mdops_in_phases=1.0,
                iops=2000.0,
            )
        )
    return rows


def accounts(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Accounts of the runs and of the two jobs that run now."""
    known = [
        {
            name: row[name]
            for name in (
                "cluster",
                "job_id",
                "user",
                "program",
                "start_ns",
                "end_ns",
                "nodes_count",
                "cores",
                "processes",
            )
        }
        | {"state": "COMPLETED", "nodes": None}
        for row in rows
    ]
    running = [
        {
            "cluster": "ember",
            "job_id": number,
            "user": "dan",
            "program": "/home/dan/load",
            "start_ns": NOW - HOUR // 3,
            "end_ns": None,
            "nodes": held,
            "nodes_count": len(held),
            "cores": 32 * len(held),
            "processes": 32 * len(held),
            "state": "RUNNING",
        }
        for number, held in (("500", nodes(17, 24)), ("501", nodes(25, 32)))
    ]
    return [*known, *running]


def _seconds(rate: dict[str, float], seconds: int) -> list[tuple[str, np.ndarray, np.ndarray]]:
    ts = NOW - (np.arange(seconds)[::-1] * S)
    return [(name, ts, np.full(seconds, int(value), np.int64)) for name, value in rate.items()]


def forwarded(seconds: int) -> pa.RecordBatch:
    """A second a row: what each forwarder moved; of fwd03 and fwd04 all of it for jobs 500 and 501."""
    owner = {"fwd03": "500", "fwd04": "501"}
    parts = _seconds({name: RATES.get(name, 0.0) for name in FORWARDERS}, seconds)
    return build_table_batch(
        FORWARDER,
        {
            "ts_ns": np.concatenate([ts for _, ts, _ in parts]),
            "interval_ns": np.full(seconds * len(parts), S),
            "node": [name for name, _, _ in parts for _ in range(seconds)],
            "job_id": [owner.get(name) for name, _, _ in parts for _ in range(seconds)],
            "op_class": ["write"] * (seconds * len(parts)),
            "requests": np.ones(seconds * len(parts), np.int64),
            "bytes": np.concatenate([moved for _, _, moved in parts]),
        },
    )


def stored(seconds: int) -> pa.RecordBatch:
    """A second a row: what each target took; OST0004 and OST0005 are busy."""
    parts = _seconds({name: 0.7e9 if name[-1] in "45" and name[-2] == "0" else 0.05e9 for name in TARGETS}, seconds)
    count = seconds * len(parts)
    return build_table_batch(
        TARGET,
        {
            "ts_ns": np.concatenate([ts for _, ts, _ in parts]),
            "interval_ns": np.full(count, S),
            "server": [f"oss{1 + int(name[-4:]) // 8}" for name, _, _ in parts for _ in range(seconds)],
            "target": [name for name, _, _ in parts for _ in range(seconds)],
            "source": ["obdfilter"] * count,
            "read_bytes": np.zeros(count, np.int64),
            "write_bytes": np.concatenate([moved for _, _, moved in parts]),
            "read_rpcs": np.zeros(count, np.int64),
            "write_rpcs": np.ones(count, np.int64),
        },
    )


def incidents() -> list[Incident]:
    """Open ones."""
    return [
        Incident(
            id="aaaa00000001",
            layer="forwarder",
            component="fwd05",
            from_ns=NOW - DAY,
            to_ns=None,
            kind="degraded",
            measured=0.1e9,
            peak=2.5e9,
            share_of_peak=0.04,
            confidence=0.9,
        ),
        Incident(
            id="aaaa00000002",
            layer="target",
            component="scratch-OST0007",
            from_ns=NOW - HOUR,
            to_ns=None,
            kind="dead",
            confidence=0.9,
        ),
    ]


def build(root: Path, *, seconds: int = 360, sick: bool = True, runs: list[dict[str, object]] | None = None) -> Lake:
    """The machine."""
    lake = Lake.open(root, create=True)
    rows = history() if runs is None else runs
    put(
        lake,
        build_table_batch(JOBS, columns(accounts(rows))),
        build_table_batch(JOB_SUMMARY, columns(rows)),
        forwarded(seconds),
        stored(seconds),
        *([build_incident_rows(incidents(), NOW)] if sick else []),
    )
    return lake


def site_file(folder: Path, text: str = SITE) -> Path:
    """The site's file."""
    path = folder / "site.toml"
    path.write_text(text, encoding="utf-8")
    return path
