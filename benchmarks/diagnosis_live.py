"""How long after a job's end its findings are in the lake, at 10,000 job ends an hour.

Made-up records of a busy machine lie in a lake; the analysis step is run as its loop does, with a clock that goes on
by what each step took. One job in twenty is disturbed. Prints seconds from a job's end being known to its batch being
in the lake, and appends them to benchmarks/history.ndjson. Not here: whether they are right (`diagnosis.py`).
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from _history import append

from fairlead.core import clock
from fairlead.core.model.tables import HEALTH, JOBS, ROLLUP, build_table_batch
from fairlead.explain.diagnosing.ended_jobs import summarise_ended_jobs
from fairlead.store.lake import Lake

S = 10**9
T0 = 1_760_000_000 * S // (3600 * S) * 3600 * S
AN_HOUR = 10_000
PROGRAMS, FORWARDERS, TARGETS = 50, 16, 64
EARLIER = 20
"""Runs of each program that were over before."""
BURST_S = 20


def main() -> int:
    """Runs the benchmark; 1 when a finding took 5 s or more."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="One minute of job ends instead of ten.")
    seconds = 60 if options.parse_args().quick else 600
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.open(Path(folder) / "lake", create=True)
        ends = fill(lake, seconds)
        waited, findings, busy, processor = play(lake, ends, seconds)
    figures = {
        "jobs": len(waited),
        "earlier": PROGRAMS * EARLIER,
        "seconds": seconds,
        "findings": findings,
        "p50_s": float(np.median(waited)),
        "p95_s": float(np.quantile(waited, 0.95)),
        "p99_s": float(np.quantile(waited, 0.99)),
        "longest_s": float(np.max(waited)),
        "busy_share": busy,
        "processor_share": processor,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "processor_load": os.getloadavg()[0],
    }
    append("diagnosis_live", {name: round(value, 3) for name, value in figures.items()})
    sys.stdout.write("\n".join(f"{name:>15}  {value:,.3f}" for name, value in figures.items()) + "\n")
    return int(figures["p99_s"] >= 5.0)


def fill(lake: Lake, seconds: int) -> dict[str, int]:
    """Jobs that end one after the other from T0 + 1800 s on, earlier runs of each program, and what was counted;
    when each ends."""
    rng = np.random.default_rng(7)
    count = AN_HOUR * seconds // 3600
    rows: list[dict[str, object]] = []
    rollup: list[dict[str, object]] = []
    ends: dict[str, int] = {}
    for number in range(PROGRAMS * EARLIER + count):
        past = number < PROGRAMS * EARLIER
        program = number % PROGRAMS
        at = (
            number * 1500 / (PROGRAMS * EARLIER) if past else 1800 + (number - PROGRAMS * EARLIER) * seconds / count
        ) + 60
        end = T0 + int(at * S)
        job, start = f"{number}", end - 60 * S
        factor = 3 if not past and number % 20 == 0 else 1
        amount = int((4 << 30) * float(rng.lognormal(0.0, 0.05)))
        if not past:
            ends[job] = end
        rows.append(
            {
                "cluster": "c",
                "job_id": job,
                "user": f"u{program % 40}",
                "program": f"prog{program}",
                "start_ns": start,
                "end_ns": end,
                "nodes": [f"n{program % 64}"],
                "nodes_count": 1,
                "processes": 16,
                "state": "COMPLETED",
            }
        )
        for second in range(5, 5 + BURST_S // 2 * factor):
            ts = start // S * S + second * S
            part = amount // (BURST_S // 2 * factor)
            shared = {
                "ts_ns": ts,
                "write_bytes": part,
                "read_bytes": 0,
                "write_ops": part >> 20,
                "read_ops": 0,
                "wait_ns": 1_000_000 * factor * (part >> 20),
                "waits": part >> 20,
            }
            for kind, name, layer in (
                ("forwarder", f"f{program % FORWARDERS}", "forwarder"),
                ("target", f"OST{program % TARGETS:04x}", "target"),
            ):
                rollup += [{**shared, "kind": kind, "id": name, "layer": layer, "job_id": who} for who in (None, job)]
                rollup.append({**shared, "kind": "job", "id": job, "layer": layer, "job_id": None})
    until = int(1800 + seconds + 240)
    health = [
        {"ts_ns": T0 + s * S, "node": f"n{n}", "probe": "agent", "state": "ok"}
        for n in range(64)
        for s in range(0, until, 2)
    ]
    rollup += [
        {"ts_ns": T0 + s * S, "kind": kind, "id": name.format(n), "layer": kind, "job_id": None, "write_bytes": 0}
        for kind, name, most in (("forwarder", "f{}", FORWARDERS), ("target", "OST{:04x}", TARGETS))
        for n in range(most)
        for s in range(until)
    ]
    fine = columns(rollup)
    with lake.open_writer("main") as writer:
        batch = writer.open_batch("benchmark")
        batch.add(build_table_batch(JOBS, columns(rows)))
        batch.add(build_table_batch(HEALTH, columns(health)))
        for interval in (1, 60, 3600):
            begins = np.asarray(fine["ts_ns"]) // (interval * S) * (interval * S)
            batch.add(
                build_table_batch(ROLLUP, {**fine, "ts_ns": begins, "interval_ns": np.full(len(begins), interval * S)})
            )
        batch.commit()
        writer.flush()
    return ends


def columns(rows: list[dict[str, object]]) -> dict[str, object]:
    """Rows as columns."""
    table = pa.Table.from_pylist(rows)
    return {name: table[name] for name in table.column_names}


def play(lake: Lake, ends: dict[str, int], seconds: int) -> tuple[np.ndarray, int, float, float]:
    """Seconds each job waited, findings, and the share of the time that was worked, and that a processor worked (1: one
    of them all the time)."""
    first = T0 + 1830 * S
    waited: list[float] = []
    findings, worked = 0, 0.0
    with lake.open_writer("analysis") as writer:
        while summarise_ended_jobs(lake, writer, first).more:  # the past, and what is compiled the first time
            pass
        writer.flush()
        used = time.process_time()
        now, done = first, {job for job, end in ends.items() if end <= first}
        while now < T0 + (1800 + seconds + 60) * S and len(done) < len(ends):
            begun = clock.monotonic_s()
            made = summarise_ended_jobs(lake, writer, now, quick=True)
            took = clock.monotonic_s() - begun
            findings, worked = findings + made.findings, worked + took
            there = lake.query("SELECT job_id FROM job_summary WHERE end_ns <= $now AND made_ns = $now", {"now": now})[
                "job_id"
            ].to_pylist()
            waited += [(now - ends[job]) / S + took for job in there if job in ends and job not in done]
            done |= ends.keys() & set(there)
            now += int(max(1.0, took) * S)
        used = time.process_time() - used
    played = (now - first) / S
    return np.array(waited), findings, worked / played, used / played


if __name__ == "__main__":
    sys.exit(main())
