"""How long pages wait: p50, p95 and p99 of the questions storage teams ask, of a full lake, while rows keep arriving.

Run: `python benchmarks/questions.py [--quick] [--records N] [--lake DIR] [--rate ROWS_PER_S] [--rounds N]`. The lake is
made once (288 forwarders, 864 targets, 1,200 jobs a day) and kept where `--lake` says. A process of its own writes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.analysis.rollups import derive
from fairlead.lake.compaction import compact
from fairlead.lake.inventory import inventory
from fairlead.lake.store import Lake
from fairlead.model.tables import HEALTH, JOBS, OPS, ROLLUP, batch_of
from fairlead.questions.asking import Sight
from fairlead.questions.catalog import Asking, ask, asked_of

S, MINUTE, HOUR, DAY = 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
FORWARDERS, TARGETS, NODES, JOBS_A_DAY, USERS = 288, 864, 40_960, 1_200, 400
BATCH = 1_000_000
BEACON = "95.6 % < 10 s"


def words(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    """A dictionary column."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string()))


def rollups(kind: str, layer: str, names: list[str], span: tuple[int, int], step: int, seed: int) -> pa.RecordBatch:
    """Every component in every step of the span: most of them nearly idle, as Beacon found them."""
    rng = np.random.default_rng(seed)
    starts = np.arange(span[0], span[1], step)
    n = len(starts) * len(names)
    load = rng.exponential(0.02, n) * 2.5e9 * step / S
    return batch_of(ROLLUP, {
        "ts_ns": np.tile(starts, len(names)), "interval_ns": np.full(n, step), "kind": words(np.zeros(n), [kind]),
        "id": words(np.repeat(np.arange(len(names)), len(starts)), names), "layer": words(np.zeros(n), [layer]),
        "read_bytes": (load * 0.4).astype(np.int64), "write_bytes": (load * 0.6).astype(np.int64),
        "read_ops": (load / 1e6).astype(np.int64), "write_ops": (load / 1e6).astype(np.int64),
        "metadata_ops": rng.integers(0, 1000, n), "samples": np.ones(n, np.int64),
        "used_bytes_max": np.full(n, 10**12) if kind == "target" else None,
        "capacity_bytes": np.full(n, 10**13) if kind == "target" else None,
    })  # fmt: skip


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
        batch_of(ROLLUP, {
            "ts_ns": ts, "interval_ns": np.full(len(job), step), "kind": words(kind, kinds), "id": words(ids, of),
            "layer": words(np.zeros(len(job)), [layer]), "job_id": None if owner is None else words(owner, names),
            "read_bytes": moved // 3, "write_bytes": moved, "read_ops": moved >> 20, "write_ops": moved >> 20,
            "metadata_ops": moved >> 22, "samples": np.ones(len(job), np.int64),
        })
        for kind, kinds, ids, of, layer, owner in parts
    ]  # fmt: skip
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
    return batch_of(OPS, {
        "start_ns": start, "end_ns": start + took, "busy_ns": took,
        "node": words(node, [f"n{k:05d}" for k in range(512)]),
        "job_id": words(node * 200 // 512, [str(900_000 + k) for k in range(200)]),
        "rank": rng.integers(0, 4096, rows, dtype=np.int32), "interface": words(np.zeros(rows), ["POSIX"]),
        "op": words(rng.integers(0, 2, rows), ["read", "write"]),
        "file_id": rng.integers(0, 5000, rows) * 7_919_333_777,
        "offset": rng.integers(0, 1 << 18, rows) << 12, "size": np.int64(4096) << rng.integers(0, 9, rows),
        "stride": np.full(rows, 4096), "count": rng.integers(1, 400, rows),
    })  # fmt: skip


def build(root: Path, records: int, days: int, now_ns: int) -> dict[str, float]:
    """A lake of about `records` rows; the rest beside rollups, jobs and health are operations."""
    lake = Lake.open(root, create=True)
    today = now_ns // DAY * DAY
    made = 0
    started = time.perf_counter()
    with lake.writer("main") as writer:

        def put(name: str, *tables: pa.RecordBatch) -> None:
            nonlocal made
            taking = writer.batch(f"bench:{name}")
            for table in tables:
                for at in range(0, table.num_rows, BATCH):
                    taking.add(table.slice(at, BATCH))
                made += table.num_rows
            taking.commit()

        for day in range(days):
            begin = today - day * DAY
            end = min(begin + DAY, now_ns)
            rng = np.random.default_rng(day)
            starts = np.sort(begin + rng.integers(0, DAY, JOBS_A_DAY))
            starts = starts[starts < end]
            ends = starts + (rng.exponential(3600, len(starts)) * S).astype(np.int64) + 10 * S
            first = 1_000_000 + day * JOBS_A_DAY
            over = ends <= now_ns
            put(f"jobs:{day}", batch_of(JOBS, {
                "cluster": ["tl"] * len(starts), "job_id": [str(first + k) for k in range(len(starts))],
                "user": [f"u{k:03d}" for k in rng.integers(0, USERS, len(starts))],
                "project": [f"p{k:02d}" for k in rng.integers(0, 60, len(starts))],
                "program": [f"prog{k:02d}" for k in rng.integers(0, 90, len(starts))],
                "start_ns": starts, "end_ns": pa.array(ends, mask=~over),
                "nodes": [[f"n{(k * 37 + j) % NODES:05d}" for j in range(64)] for k in range(len(starts))],
                "nodes_count": np.full(len(starts), 64), "state": ["COMPLETED" if x else "RUNNING" for x in over],
            }))  # fmt: skip
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
                put(f"health:{day}", batch_of(HEALTH, {
                    "ts_ns": np.tile(minutes, len(hosts)),
                    "node": words(np.repeat(np.arange(len(hosts)), len(minutes)), hosts),
                    "probe": words(np.zeros(n), ["agent"]), "state": words(np.zeros(n), ["ok"]),
                    "interval_ns": np.full(n, MINUTE),
                }))  # fmt: skip
            writer.flush()
        number = 0
        while made < records:
            start = today - DAY * (1 + number % max(1, days - 1))
            put(f"ops:{number}", ops_rows(number, min(BATCH, records - made), start, DAY))
            number += 1
            if number % 4 == 0:
                writer.flush()
        compact(lake, writer, keep_hours=None)
    return {"records": made, "build_s": time.perf_counter() - started}


def feed(root: Path, rate: int) -> None:
    """Writes operations with what is derived of them, 20 batches a second in all, until it is ended."""
    lake = Lake.open(root)
    with lake.writer("live", derive=derive) as writer:
        print("ready", flush=True)
        number, flushed = 0, time.monotonic()
        due = time.monotonic()
        while True:
            now = time.time_ns()
            taking = writer.batch(f"feed:{now}")
            taking.add(ops_rows(number, max(1, rate // 20), now - S, S))
            taking.commit()
            number += 1
            due += 0.05
            if time.monotonic() - flushed > 30:
                writer.flush()
                compact(lake, writer, thorough=False, keep_hours=None)
                flushed = time.monotonic()
            time.sleep(max(0.0, due - time.monotonic()))


def measure(root: Path, rounds: int, days: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of each question on the clock and on the processors, in turn, of one process; parameters differ from
    round to round."""
    asking = Asking(Lake.open(root))
    rng = np.random.default_rng(5)
    sight = Sight()

    def job_id(first: int, last: int) -> str:
        day = int(rng.integers(first, last))
        return str(1_000_000 + day * JOBS_A_DAY + int(rng.integers(0, JOBS_A_DAY // 4)))

    questions: dict[str, Callable[[int], tuple[str, str, dict[str, str]]]] = {
        "job page (of today)": lambda _: ("job", job_id(0, 1), {}),
        "job page (past)": lambda _: ("job", job_id(1, days), {}),
        "forwarder-day heat map": lambda _: ("heatmap", "", {"last": "1d"}),
        "heat map of a past day": lambda k: ("heatmap", "", {"last": "1d", "to": f"-{1 + k % max(1, days - 1)}d"}),
        "OST-day CDF": lambda _: ("cdf", "", {"last": "1d"}),
        "top users, 1 h": lambda _: ("top", "users", {"last": "1h"}),
        "top users, 1 d": lambda _: ("top", "users", {"last": "1d"}),
        "top users, 7 d": lambda _: ("top", "users", {"last": "7d"}),
        "jobs of an hour by bytes": lambda _: ("jobs", "", {"last": "1h", "sort": "bytes"}),
        "targets, 5 min": lambda _: ("targets", "", {}),
        "one target, 1 h": lambda _: ("target", TARGET_NAMES[int(rng.integers(0, TARGETS))], {}),
        "system, 1 d": lambda _: ("system", "", {}),
    }  # fmt: skip
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in questions}
    for number in range(rounds):
        for name, make in questions.items():
            question, about, given = make(number)
            asked = asked_of(question, given)
            started, worked = time.perf_counter(), time.process_time()
            ask(asking, question, about, asked, sight, time.time_ns())
            spent[name].append(((time.perf_counter() - started) * 1e3, (time.process_time() - worked) * 1e3))
    return spent


def main() -> None:
    """Builds, feeds, asks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--feed", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.feed:
        feed(options.feed, options.rate)
        return
    records = options.records or (2_000_000 if options.quick else 100_000_000)
    rounds = options.rounds or (10 if options.quick else 100)
    days = options.days or (2 if options.quick else 7)
    with tempfile.TemporaryDirectory(prefix="fairlead-questions-") as folder:
        root = options.lake or Path(folder) / "lake"
        built = {} if (root / "lake.toml").is_file() else build(root, records, days, time.time_ns())
        rows = sum(t.rows + t.waiting_rows for t in inventory(Lake.open(root).place).tables)
        writing = None
        if options.rate:
            command = [sys.executable, __file__, "--feed", str(root), "--rate", str(options.rate)]
            writing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert writing.stdout is not None
            writing.stdout.readline()
        try:
            spent = measure(root, rounds, days)
        finally:
            if writing is not None:
                writing.terminate()
                writing.wait()
    figures: dict[str, object] = {"rows": rows, "rate": options.rate, "rounds": rounds, **built}
    title = f"{rows:,} rows, {options.rate:,} rows/s arriving"
    table = Table("question", "p50 ms", "p95 ms", "p99 ms", "first ms", "CPU p95 ms", "Beacon", title=title)
    for name, each in spent.items():
        clock, worked = zip(*each, strict=True)
        p50, p95, p99 = (float(np.percentile(clock, q)) for q in (50, 95, 99))
        cpu = float(np.percentile(worked, 95))
        table.add_row(name, f"{p50:.0f}", f"{p95:.0f}", f"{p99:.0f}", f"{clock[0]:.0f}", f"{cpu:.0f}", BEACON)
        figures[name] = [round(p50, 1), round(p95, 1), round(p99, 1), round(clock[0], 1), round(cpu, 1)]
    Console().print(table)
    print(json.dumps(built))
    if not options.quick:
        append("questions", figures)


if __name__ == "__main__":
    main()
