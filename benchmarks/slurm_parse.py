"""Rows per second of the Slurm source on generated `sacct -P` text and JSON: jobs, steps, node lists of 1 to 64 nodes.

`python benchmarks/slurm_parse.py [--quick] [--jobs N]`; one table on stdout.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from fairlead.see.sources.slurm import SlurmSource

HEADER = "JobID|JobIDRaw|Cluster|Partition|Account|User|Submit|Start|End|State|NNodes|AllocCPUS|NTasks|NodeList|JobName"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def columns(jobs: int, rng: random.Random) -> tuple[str, int]:
    """`sacct -P` text, each job with a batch step and a step of tasks; and its rows."""
    lines = [HEADER]
    for n in range(1, jobs + 1):
        begin = BEGIN + timedelta(seconds=n * 7)
        first, nodes = rng.randrange(1, 900), rng.choice([1, 1, 4, 64])
        times = "|".join((begin + timedelta(seconds=s)).strftime("%Y-%m-%dT%H:%M:%S") for s in (0, 30, 3000))
        listed = f"c{first:04d}" if nodes == 1 else f"c[{first:04d}-{first + nodes - 1:04d}]"
        tail = f"{times}|COMPLETED|{nodes}|{nodes * 48}"
        lines.append(f"{n}|{n}|hpc|main|acc{n % 90}|user{n % 400}|{tail}||{listed}|job{n % 50}")
        lines.append(f"{n}.batch|{n}.batch|hpc||acc{n % 90}||{tail}|1|c{first:04d}|batch")
        lines.append(f"{n}.0|{n}.0|hpc||acc{n % 90}||{tail}|{nodes * 48}|{listed}|a.out")
    return "\n".join(lines) + "\n", 3 * jobs


def document(jobs: int, rng: random.Random) -> tuple[str, int]:
    """`sacct --json` of version 0.0.40, with the parts of a step that no one reads here."""
    listed = []
    for n in range(1, jobs + 1):
        nodes = rng.choice([1, 4, 64])
        usage = [
            {"type": t, "name": "", "id": i, "count": rng.randrange(1 << 40)} for i, t in enumerate(["cpu", "mem"] * 10)
        ]
        listed.append(
            {
                "account": "acc",
                "cluster": "hpc",
                "job_id": n,
                "name": "a",
                "nodes": f"c[1-{nodes}]",
                "partition": "main",
                "state": {"current": ["COMPLETED"], "reason": "None"},
                "user": "bob",
                "time": {"start": 1715000000 + n, "end": 1715000900 + n, "submission": 1715000000},
                "tres": {"allocated": [{"type": "cpu", "count": nodes * 48}, {"type": "node", "count": nodes}]},
                "steps": [
                    {"step": {"id": f"{n}.0", "name": "a"}, "tasks": {"count": nodes}, "tres": {"requested": usage}}
                ],
            }
        )
    return json.dumps({"jobs": listed, "meta": {"slurm": {"release": "23.11"}}}, indent=1), jobs


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    options.add_argument("--jobs", type=int, default=100_000)
    given = options.parse_args()
    jobs = given.jobs // 10 if given.quick else given.jobs
    print(f"{'form':<12}{'rows':>10}{'MB':>8}{'jobs':>10}{'s':>8}{'k rows/s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make, share in (("sacct -P", columns, 1), ("json", document, 10)):
            text, rows = make(jobs // share, random.Random(1))
            path = Path(folder) / "x"
            path.write_text(text)
            best, found = float("inf"), 0
            for _ in range(3):
                began = time.perf_counter()
                items = SlurmSource(time_zone="UTC").read(path)
                found = sum(item.num_rows for item in items if isinstance(item, pa.RecordBatch))
                best = min(best, time.perf_counter() - began)
            print(f"{name:<12}{rows:>10,}{len(text) / 1e6:>8.0f}{found:>10,}{best:>8.2f}{rows / best / 1e3:>10.0f}")


if __name__ == "__main__":
    main()
