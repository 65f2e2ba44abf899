"""The lake: rows taken in a second, what an acknowledgement and a commit cost, one job's page, an aggregate, memory.

Run: `python benchmarks/lake.py [--quick] [--rows N]`. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.model.tables import OPS, build_table_batch
from fairlead.store.compaction import compact_tables
from fairlead.store.inventory import take_inventory
from fairlead.store.lake import Lake

BATCH = 1_000_000
DAY_NS = 86_400_000_000_000
START_NS = 1_700_000_000_000_000_000 // DAY_NS * DAY_NS
NODES, JOBS, FILES = 512, 200, 5_000


def rows_of(number: int, rows: int) -> pa.RecordBatch:
    """What a site's nodes report in ten minutes: 512 nodes, 200 jobs, rows in no order of node or time."""
    rng = np.random.default_rng(number)
    start = START_NS + number * 600_000_000_000 + rng.integers(0, 600_000_000_000, rows)
    took = rng.integers(2_000, 4_000_000, rows)
    node = rng.integers(0, NODES, rows, dtype=np.int32)
    words = {
        "node": _word(node, [f"node{n:05d}" for n in range(NODES)]),
        "job_id": _word(node * JOBS // NODES, [str(4_000_000 + n) for n in range(JOBS)]),
        "interface": _word(np.zeros(rows, np.int32), ["POSIX"]),
        "op": _word(rng.integers(0, 2, rows, dtype=np.int32), ["read", "write"]),
    }
    return build_table_batch(
        OPS,
        words
        | {
            "start_ns": start,
            "end_ns": start + took,
            "busy_ns": took,
            "rank": rng.integers(0, 4096, rows, dtype=np.int32),
            "file_id": rng.integers(0, FILES, rows) * 7_919_333_777,
            "offset": rng.integers(0, 1 << 18, rows) << 12,
            "size": np.int64(4096) << rng.integers(0, 9, rows),
            "stride": np.full(rows, 4096),
            "count": rng.integers(1, 400, rows),
        },
    )


def _word(codes: np.ndarray, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def take_in(lake: Lake, rows: int) -> dict[str, float]:
    """Batches of a million rows from acknowledgement to Delta commit: checked, sorted, compressed, synced."""
    spent = 0.0
    with lake.open_writer() as writer:
        for number in range(rows // BATCH):
            batch = rows_of(number, BATCH)
            started = time.perf_counter()
            taking = writer.open_batch(f"bench:{number}")
            taking.add(batch)
            taking.commit()
            if number % 4 == 3:
                writer.flush()
            spent += time.perf_counter() - started
        started = time.perf_counter()
        writer.flush()
        spent += time.perf_counter() - started
    return {"append_rows_per_s": rows // BATCH * BATCH / spent}


def merge(lake: Lake, rows: int) -> dict[str, float]:
    """All files of the lake into sorted ones."""
    with lake.open_writer() as writer:
        started = time.perf_counter()
        merged = compact_tables(lake, writer)
        spent = time.perf_counter() - started
    ops = next(m for m in merged if m.table == "ops")
    [table] = [t for t in take_inventory(lake.place).tables if t.table == "ops"]
    return {
        "compact_rows_per_s": rows / spent,
        "files_before": ops.files_before,
        "files_after": ops.files_after,
        "bytes_per_row": table.bytes / table.rows,
    }


def small_commits(lake: Lake, rows: int) -> dict[str, float]:
    """200 rows at a time into the filled lake: milliseconds until they are acknowledged, and to their Delta commits
    (rows and the note of the batch: two tables)."""
    acknowledged, committed = [], []
    with lake.open_writer("small") as writer:
        for number in range(60 if rows < 10_000_000 else 200):
            batch = rows_of(number, 200)
            started = time.perf_counter()
            taking = writer.open_batch(f"small:{number}")
            taking.add(batch)
            taking.commit()
            acknowledged.append((time.perf_counter() - started) * 1e3)
            started = time.perf_counter()
            writer.flush()
            committed.append((time.perf_counter() - started) * 1e3)
        compact_tables(lake, writer, keep_hours=None)
    return {
        "acknowledge_ms": median(acknowledged),
        "commit_two_tables_ms": median(committed),
        "commit_two_tables_ms_last_tenth": median(committed[-len(committed) // 10 :]),
    }


def ask(lake: Lake, rows: int) -> dict[str, float]:
    """One job's hour, and an aggregate over everything; the first time in a process, then warm."""
    jobs = [str(4_000_000 + n) for n in range(0, JOBS, 10)]
    hours = [START_NS, START_NS + 3_600_000_000_000]
    page = (
        'SELECT start_ns, end_ns, rank, op, "offset", size, count FROM ops '
        "WHERE job_id = ? AND start_ns BETWEEN ? AND ? AND day = make_timestamp_ns(?::BIGINT)::DATE"
    )
    whole = "SELECT op, node, count(*) AS runs, sum(size * count) AS bytes, max(end_ns) AS last FROM ops GROUP BY ALL"
    first = _milliseconds(lambda: lake.query(page, [jobs[0], *hours, hours[0]]))
    warm = [_milliseconds(lambda job=job: lake.query(page, [job, *hours, hours[0]])) for job in jobs]
    found = lake.query(page, [jobs[1], *hours, hours[0]]).num_rows
    total = lake.query("SELECT count(*) AS n FROM ops").to_pylist()[0]["n"]
    assert found > 0
    assert total >= rows // BATCH * BATCH
    return {
        "one_job_hour_first_ms": first,
        "one_job_hour_ms": median(warm),
        "one_job_hour_rows": found,
        "full_aggregate_s": min(_milliseconds(lambda: lake.query(whole)) for _ in range(3)) / 1e3,
    }


def _milliseconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


STEPS: dict[str, Callable[[Lake, int], dict[str, float]]] = {
    "append": take_in,
    "compact": merge,
    "small": small_commits,
    "ask": ask,
}


def main() -> None:
    """Runs every step in its own process and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two million rows instead of twenty")
    parser.add_argument("--rows", type=int, help="how many rows")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--lake", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    rows = asked.rows or (2_000_000 if asked.quick else 20_000_000)
    if asked.step:
        figures = STEPS[asked.step](Lake.open(asked.lake, create=True), rows)
        figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(figures))
        return
    figures: dict[str, object] = {"rows": rows}
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            command = [sys.executable, __file__, "--rows", str(rows), "--step", step, "--lake", f"{folder}/lake"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            figures |= {(f"{step}_{name}" if name == "peak_mib" else name): round(v, 2) for name, v in found.items()}
    table = Table("figure", "value", title=f"lake, {rows:,} rows of ops")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}")
    Console().print(table)
    append("lake", figures)


if __name__ == "__main__":
    main()
