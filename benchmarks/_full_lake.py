"""A full lake for benchmarks of what is asked of it: 288 forwarders, 864 targets, jobs of many users, operations.

Not here: asking (`questions`, `web`). Everything in it is drawn.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.model.finding import Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows
from fairlead.core.model.tables import HEALTH, JOB_SUMMARY, JOBS, OPS, PHASE, ROLLUP, build_table_batch
from fairlead.store.compaction import compact_tables
from fairlead.store.lake import Lake

S, MINUTE, HOUR, DAY = 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
FORWARDERS, TARGETS, NODES, JOBS_A_DAY, USERS = 288, 864, 40_960, 1_200, 400
BATCH = 1_000_000


def words(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    """A dictionary column."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string()))


def rollups(kind: str, layer: str, names: list[str], span: tuple[int, int], step: int, seed: int) -> pa.RecordBatch:
    """Every component in every step of the span: most of them nearly idle, as Beacon found them."""
    rng = np.random.default_rng(seed)
    starts = np.arange(span[0], span[1], step)
    n = len(starts) * len(names)
    load = rng.exponential(0.02, n) * 2.5e9 * step / S
    return build_table_batch(
        ROLLUP,
        {
            "ts_ns": np.tile(starts, len(names)),
            "interval_ns": np.full(n, step),
            "kind": words(np.zeros(n), [kind]),
            "id": words(np.repeat(np.arange(len(names)), len(starts)), names),
            "layer": words(np.zeros(n), [layer]),
            "read_bytes": (load * 0.4).astype(np.int64),
            "write_bytes": (load * 0.6).astype(np.int64),
            "read_ops": (load / 1e6).astype(np.int64),
            "write_ops": (load / 1e6).astype(np.int64),
            "metadata_ops": rng.integers(0, 1000, n),
            "samples": np.ones(n, np.int64),
            "used_bytes_max": np.full(n, 10**12) if kind == "target" else None,
            "capacity_bytes": np.full(n, 10**13) if kind == "target" else None,
        },
    )


def job_rollups(first: int, step: int, starts: np.ndarray, ends: np.ndarray, seed: int) -> pa.RecordBatch:
    """Jobs of a day in three layers, and their parts of two forwarders and four targets."""
    rng = np.random.default_rng(seed)
    begin, stop = starts // step, np.maximum(ends // step, starts // step + 1)
    lengths = stop - begin
    job = np.repeat(np.arange(len(starts)), lengths)
    ts = (np.arange(len(job)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(begin, lengths)) * step
    names = [str(first + k) for k in range(len(starts))]
    moved = rng.exponential(1e9, len(job)).astype(np.int64)
    none = np.zeros(len(job))
    parts = [(none, ["job"], job, names, layer, None) for layer in ("client", "forwarder", "target")]
    parts += [(none, ["forwarder"], (job + k) % FORWARDERS, FORWARDER_NAMES, "forwarder", job) for k in range(2)]
    parts += [(none, ["target"], (job * 3 + k) % TARGETS, TARGET_NAMES, "target", job) for k in range(4)]
    batches = [
        build_table_batch(
            ROLLUP,
            {
                "ts_ns": ts,
                "interval_ns": np.full(len(job), step),
                "kind": words(kind, kinds),
                "id": words(ids, of),
                "layer": words(np.zeros(len(job)), [layer]),
                "job_id": None if owner is None else words(owner, names),
                "read_bytes": moved // 3,
                "write_bytes": moved,
                "read_ops": moved >> 20,
                "write_ops": moved >> 20,
                "metadata_ops": moved >> 22,
                "samples": np.ones(len(job), np.int64),
            },
        )
        for kind, kinds, ids, of, layer, owner in parts
    ]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


FORWARDER_NAMES = [f"fwd{k:03d}" for k in range(FORWARDERS)]
TARGET_NAMES = [f"OST{k:04x}" for k in range(TARGETS)]


def ops_rows(number: int, rows: int, start_ns: int, span_ns: int) -> pa.RecordBatch:
    """Runs of operations of 512 nodes, as `benchmarks/lake.py` has them."""
    rng = np.random.default_rng(number)
    start = np.sort(start_ns + rng.integers(0, span_ns, rows))
    took = rng.integers(2_000, 4_000_000, rows)
    node = rng.integers(0, 512, rows)
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": start + took,
            "busy_ns": took,
            "node": words(node, [f"n{k:05d}" for k in range(512)]),
            "job_id": words(node * 200 // 512, [str(900_000 + k) for k in range(200)]),
            "rank": rng.integers(0, 4096, rows, dtype=np.int32),
            "interface": words(np.zeros(rows), ["POSIX"]),
            "op": words(rng.integers(0, 2, rows), ["read", "write"]),
            "file_id": rng.integers(0, 5000, rows) * 7_919_333_777,
            "offset": rng.integers(0, 1 << 18, rows) << 12,
            "size": np.int64(4096) << rng.integers(0, 9, rows),
            "stride": np.full(rows, 4096),
            "count": rng.integers(1, 400, rows),
        },
    )


def judged(first: int, starts: np.ndarray, ends: np.ndarray, users: list[str], day: int) -> list[pa.RecordBatch]:
    """Summaries, phases and findings of a day's jobs: one in forty lost time."""
    rng = np.random.default_rng(day + 7)
    n = len(starts)
    moved = rng.exponential(2e10, n).astype(np.int64)
    who = {
        "cluster": ["tl"] * n,
        "job_id": [str(first + k) for k in range(n)],
        "user": users,
        "project": [f"p{k:02d}" for k in rng.integers(0, 60, n)],
        "program": [f"prog{k:02d}" for k in rng.integers(0, 90, n)],
        "nodes_count": np.full(n, 64),
        "processes": np.full(n, 256),
        "made_ns": ends,
        "analysis_version": np.ones(n, np.int64),
    }
    summary = build_table_batch(
        JOB_SUMMARY,
        who
        | {
            "start_ns": starts,
            "end_ns": ends,
            "cores": np.full(n, 256),
            "io_processes": np.full(n, 64),
            "io_nodes": np.full(n, 64),
            "read_bytes": moved // 3,
            "write_bytes": moved,
            "read_ops": moved >> 20,
            "write_ops": moved >> 20,
            "metadata_ops": moved >> 22,
            "iops": rng.exponential(1e3, n),
            "read_bandwidth_bytes_per_s": rng.exponential(1e9, n),
            "write_bandwidth_bytes_per_s": rng.exponential(1e9, n),
            "write_mode": [("N-N", "N-M", "N-1", "1-1")[k] for k in rng.integers(0, 4, n)],
            "read_mode": [("N-N", "N-M", "N-1", "1-1")[k] for k in rng.integers(0, 4, n)],
            "basis": ["client"] * n,
            "forwarders": [[FORWARDER_NAMES[(k + j) % FORWARDERS] for j in range(2)] for k in range(n)],
            "targets": [[TARGET_NAMES[(k * 3 + j) % TARGETS] for j in range(4)] for k in range(n)],
        },
    )
    lost = np.where(rng.random(n) < 1 / 40, rng.exponential(300, n), 0.0)
    phase = build_table_batch(
        PHASE,
        who
        | {
            "job_start_ns": starts,
            "number": np.ones(n, np.int32),
            "kind": ["write"] * n,
            "start_ns": starts,
            "end_ns": np.minimum(ends, starts + 300 * S),
            "active_ns": np.full(n, 200 * S),
            "bytes": moved,
            "rate_per_s": moved / 200,
            "request_bytes": np.full(n, 1e6),
            "mode": ["N-N"] * n,
            "expected_s": np.full(n, 200.0),
            "lost_s": lost,
            "abnormal": np.where(lost > 0, 0.97, 0.02),
        },
    )
    told = [
        StoredFinding(
            cluster="tl",
            job_id=str(first + k),
            user=users[k],
            finding=Finding(
                id=f"f{first + k}",
                rule="slow_interference",
                title=f"job {first + k} lost {lost[k]:.0f} s to a neighbour",
                subject=Subject("job", str(first + k)),
                from_ns=int(starts[k]),
                to_ns=int(ends[k]),
                severity="high",
                confidence=0.9,
                category="interference",
                cost_s=float(lost[k]),
                analysis_version="1",
            ),
        )
        for k in np.flatnonzero(lost > 0).tolist()
    ]
    finding = build_finding_rows(told, int(ends.max()))
    return [summary, phase, finding]


def build(
    root: Path, records: int, days: int, now_ns: int, *, job_days: int = 0, found: bool = False
) -> dict[str, float]:
    """A lake of about `records` rows; the rest beside rollups, jobs and health are operations. `job_days`: so many days
    have jobs (with their hours), `days` the rollups of every component; `found`: with what analysis makes of jobs."""
    lake = Lake.open(root, create=True)
    today = now_ns // DAY * DAY
    made = 0
    started = time.perf_counter()
    with lake.open_writer("main") as writer:

        def put(name: str, *tables: pa.RecordBatch) -> None:
            nonlocal made
            taking = writer.open_batch(f"bench:{name}")
            for table in tables:
                for at in range(0, table.num_rows, BATCH):
                    taking.add(table.slice(at, BATCH))
                made += table.num_rows
            taking.commit()

        for day in range(max(days, job_days)):
            begin = today - day * DAY
            end = min(begin + DAY, now_ns)
            rng = np.random.default_rng(day)
            starts = np.sort(begin + rng.integers(0, DAY, JOBS_A_DAY))
            starts = starts[starts < end]
            ends = starts + (rng.exponential(3600, len(starts)) * S).astype(np.int64) + 10 * S
            first = 1_000_000 + day * JOBS_A_DAY
            over = ends <= now_ns
            users = [f"u{k:03d}" for k in rng.integers(0, USERS, len(starts))]
            put(
                f"jobs:{day}",
                build_table_batch(
                    JOBS,
                    {
                        "cluster": ["tl"] * len(starts),
                        "job_id": [str(first + k) for k in range(len(starts))],
                        "user": users,
                        "project": [f"p{k:02d}" for k in rng.integers(0, 60, len(starts))],
                        "program": [f"prog{k:02d}" for k in rng.integers(0, 90, len(starts))],
                        "start_ns": starts,
                        "end_ns": pa.array(ends, mask=~over),
                        "nodes": [[f"n{(k * 37 + j) % NODES:05d}" for j in range(64)] for k in range(len(starts))],
                        "nodes_count": np.full(len(starts), 64),
                        "state": ["COMPLETED" if x else "RUNNING" for x in over],
                    },
                ),
            )
            if found and over.any():
                put(
                    f"judged:{day}",
                    *judged(first, starts[over], ends[over], [u for u, x in zip(users, over, strict=True) if x], day),
                )
            if day >= days:
                put(f"rollup:{day}:{HOUR}", job_rollups(first, HOUR, starts, np.minimum(ends, end), day))
                if day % 20 == 0:
                    writer.flush()
                continue
            for step in (MINUTE, HOUR):
                put(
                    f"rollup:{day}:{step}",
                    rollups("forwarder", "forwarder", FORWARDER_NAMES, (begin, end // step * step), step, day),
                    rollups("target", "target", TARGET_NAMES, (begin, end // step * step), step, day + 50),
                    job_rollups(first, step, starts, np.minimum(ends, end), day),
                )
            if day == 0:
                live = max(begin, now_ns // S * S - 2 * HOUR)
                recent = ends > live
                put(
                    "rollup:seconds",
                    rollups("forwarder", "forwarder", FORWARDER_NAMES, (live, now_ns // S * S), S, 99),
                    job_rollups(first, S, np.maximum(starts, live)[recent], np.minimum(ends, end)[recent], 98),
                )
            if day < 2:
                minutes = np.arange(begin, end, MINUTE)
                hosts = FORWARDER_NAMES + [f"oss{k:03d}" for k in range(FORWARDERS)]
                n = len(minutes) * len(hosts)
                put(
                    f"health:{day}",
                    build_table_batch(
                        HEALTH,
                        {
                            "ts_ns": np.tile(minutes, len(hosts)),
                            "node": words(np.repeat(np.arange(len(hosts)), len(minutes)), hosts),
                            "probe": words(np.zeros(n), ["agent"]),
                            "state": words(np.zeros(n), ["ok"]),
                            "interval_ns": np.full(n, MINUTE),
                        },
                    ),
                )
            writer.flush()
        number = 0
        while made < records:
            start = today - DAY * (1 + number % max(1, days - 1))
            put(f"ops:{number}", ops_rows(number, min(BATCH, records - made), start, DAY))
            number += 1
            if number % 4 == 0:
                writer.flush()
        compact_tables(lake, writer, keep_hours=None)
    return {"records": made, "build_s": time.perf_counter() - started}
