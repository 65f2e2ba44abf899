"""Live monitoring into the lake: rows of `ops` a second from the wire to disk, bytes, memory, and questions meanwhile.

Run: `python benchmarks/lake_ingest.py [--quick] [--seconds N] [--threads N] [--fill ROWS]`. Batches are made
beforehand, as nodes send them after their first pass; durations and gaps are drawn from the DXT logs in
`examples/logs`. A fifth of all operations are at random offsets and become a row each, the others are runs. Both
measurements run in a process of their own.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.batches.encoding import FORMAT, LEVEL, MAGIC, PREFIX, compute_encoding_checksum
from fairlead.core.batches.rows import decode_batch_rows
from fairlead.core.clock import now_ns
from fairlead.store.inventory import take_inventory
from fairlead.store.lake import Lake
from fairlead.store.writer import Writer

ROWS = 5_000
IN_A_BODY = 4
NODES, JOBS, RANKS, FILES = 256, 32, 16, 24
RUN_MEAN = 4.0
"""Operations of a row that is a run, on average: with half of the rows single random operations a fifth are random."""
BACKLOG = 512 << 20
"""A collector refuses more (429) while this much waits."""
LIMIT_ROWS_PER_S = 50_000
ASKED_S = 40.0
HOUR_NS = 3_600_000_000_000
MIB = 1 << 20


def measured(logs: Path) -> tuple[np.ndarray, np.ndarray]:
    """Durations and gaps (ns) of the operations in the DXT logs under `logs`."""
    from fairlead.see.sources import inputs

    took, idle = [], []
    files, _ = inputs.discover_input_files([logs])
    for job in inputs.group_input_files(files):
        for path in job.files:
            tables = [
                b for b in job.source.read(path) if isinstance(b, pa.RecordBatch) and "start_ns" in b.schema.names
            ]
            for ops in (b for b in tables if "busy_ns" in b.schema.names and b.num_rows):
                start, end = ops.column("start_ns").to_numpy(), ops.column("end_ns").to_numpy()
                took.append(end - start)
                between = start[1:] - end[:-1]
                idle.append(between[(between > 0) & (between < 10_000_000)])
    return np.concatenate(took), np.concatenate(idle)


def batch(node: int, seq: int, begin_ns: int, took: np.ndarray, idle: np.ndarray) -> tuple[bytes, int, int]:
    """A node's batch, how many operations it stands for, and when its last one begins."""
    rng = np.random.default_rng([node, seq])
    random = rng.random(ROWS) < 0.5
    count = np.where(random, 1, 1 + rng.poisson(RUN_MEAN - 1, ROWS)).astype("<i8")
    which = np.repeat(np.arange(ROWS), count)
    busy = np.bincount(which, rng.choice(took, len(which)).astype(float), ROWS).astype("<i8")
    inside = np.bincount(which, rng.choice(idle, len(which)).astype(float), ROWS).astype("<i8")
    length = busy + np.where(count > 1, inside, 0)
    rank = rng.integers(0, RANKS, ROWS)
    start = np.empty(ROWS, "<i8")
    for one in range(RANKS):
        mine = np.flatnonzero(rank == one)
        steps = length[mine] + rng.choice(idle, len(mine))
        start[mine] = begin_ns + np.concatenate(([0], np.cumsum(steps)[:-1])) + rng.integers(0, 1_000_000)
    order = np.argsort(start, kind="stable")
    file = rng.integers(0, FILES, ROWS)
    size = np.where(random, 4096 << rng.integers(0, 5, ROWS), 1 << 20).astype("<i8")
    ahead = np.cumsum(np.where(random, 0, count * size)) + (seq << 32)
    offset = np.where(random, rng.integers(0, 1 << 26, ROWS) << 12, ahead).astype("<i8")
    file_id = (file + node // 8 * FILES) * 0x9E3779B97F4A7C1 % (1 << 62)
    columns: list[tuple[str, str, bytes]] = [
        ("start_ns", "i64", start[order].tobytes()),
        ("end_ns", "i64", (start + length)[order].tobytes()),
        ("busy_ns", "i64", busy[order].tobytes()),
        ("node", "word=", json.dumps([f"node{node:05d}"]).encode()),
        ("job_id", "word=", json.dumps([str(4_000_000 + node * JOBS // NODES)]).encode()),
        ("rank", "i64", (rank + node * RANKS).astype("<i8")[order].tobytes()),
        ("interface", "word=", b'["POSIX"]'),
        ("fs", "word=", b'["/scratch"]'),
        ("op", "word", rng.integers(0, 2, ROWS).astype("<i4").tobytes() + b'["read","write"]'),
        ("file_id", "i64", file_id.astype("<i8")[order].tobytes()),
        ("handle", "i64", (3 + file).astype("<i8")[order].tobytes()),
        ("offset", "i64", offset[order].tobytes()),
        ("size", "i64", size[order].tobytes()),
        ("stride", "i64", np.where(count > 1, size, 0).astype("<i8")[order].tobytes()),
        ("count", "i64", count[order].tobytes()),
    ]
    raw = b"".join(section for _, _, section in columns)
    payload = zlib.compress(raw, LEVEL)
    last = int(start.max())
    about = {
        "format": FORMAT,
        "table": "ops",
        "version": 1,
        "node": f"node{node:05d}",
        "boot_id": f"{node:032x}",
        "seq": seq,
        "rows": ROWS,
        "layer": "agent",
        "writer": "agent",
        "first_ns": int(start.min()),
        "last_ns": last,
        "job": None,
        "columns": [[name, kind, len(section)] for name, kind, section in columns],
        "raw_bytes": len(raw),
        "checksum": compute_encoding_checksum(payload),
    }
    text = json.dumps(about, separators=(",", ":")).encode()
    return PREFIX.pack(MAGIC, len(text), len(payload), zlib.crc32(text)) + text + payload, int(count.sum()), last


def make(bodies: int, first: int, begin_ns: int, target: Path, logs: Path) -> dict[str, object]:
    """Writes `bodies` bodies to `target`, from body number `first` on; returns where each ends and the operations."""
    took, idle = measured(logs)
    ends, operations, raw_at = [], 0, 0
    clock = np.full(NODES, begin_ns)
    with target.open("wb") as out:
        for number in range(first, first + bodies):
            for k in range(IN_A_BODY):
                node = (number * IN_A_BODY + k) % NODES
                data, count, last = batch(node, number * IN_A_BODY // NODES + 1, int(clock[node]), took, idle)
                clock[node] = last + 1_000_000
                operations += count
                raw_at += out.write(data)
            ends.append(raw_at)
    return {"ends": ends, "operations": operations}


def prepared(folder: Path, rows: int, begin_ns: int) -> tuple[list[Path], list[list[int]], int]:
    """Bodies of `rows` rows in two files, made by two processes."""
    bodies = -(-rows // (ROWS * IN_A_BODY))
    half = -(-bodies // 2)
    later = -(-int(LIMIT_ROWS_PER_S * ASKED_S * 3) // (ROWS * IN_A_BODY))
    # Each file holds its own nodes' later batches, so that both files can be sent at once; the third is for later.
    parts = [(half, 0, begin_ns), (half, half, begin_ns + HOUR_NS), (later, 2 * half + 64, begin_ns + 2 * HOUR_NS)]
    paths = [folder / f"bodies{n}" for n in range(3)]
    logs = Path(__file__).resolve().parents[1] / "examples" / "logs"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made = pool.starmap(make, [(*part, path, logs) for part, path in zip(parts, paths, strict=True)])
    return paths, [m["ends"] for m in made], sum(m["operations"] for m in made)


def bodies_of(path: Path, ends: list[int]) -> Iterator[bytes]:
    """The bodies in a file, as a socket would give them."""
    with path.open("rb") as file:
        at = 0
        for end in ends:
            yield file.read(end - at)
            at = end


class Sender(threading.Thread):
    """Takes bodies into a writer as fast as it can, or at `rows_per_s`, until `until`; counts what it did."""

    def __init__(
        self, writer: Writer, bodies: Iterator[bytes], until: Callable[[], bool], rows_per_s: float = 0
    ) -> None:
        super().__init__(daemon=True)
        self.writer, self.bodies, self.until, self.rows_per_s = writer, bodies, until, rows_per_s
        self.rows = self.operations = self.wire_bytes = self.refused = 0
        self.acknowledged: list[float] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failed = error
            raise

    def _run(self) -> None:
        begun = time.perf_counter()
        for body in self.bodies:
            if not self.until():
                return
            while self.writer.backlog_bytes > BACKLOG:
                self.refused += 1
                time.sleep(0.01)
            if self.rows_per_s:
                time.sleep(max(0.0, begun + self.rows / self.rows_per_s - time.perf_counter()))
            started = time.perf_counter()
            found = decode_batch_rows(body)
            taken, known = self.writer.take_batches(body, found)
            self.acknowledged.append((time.perf_counter() - started) * 1e3)
            assert (taken, known) == (len(found), 0)
            self.rows += sum(one.header.rows for one in found)
            self.wire_bytes += len(body)


def derive_of(on: bool) -> Any:
    if not on:
        return None
    from fairlead.store.rollups import derive_rollups

    return derive_rollups


def run_ingest(folder: Path, plan: dict[str, Any]) -> dict[str, object]:
    """As many rows as can be for `seconds` from `threads` senders."""
    lake = Lake.open(folder / "lake", create=True)
    stop = time.perf_counter() + plan["seconds"]
    gc.freeze()
    writer = lake.open_writer(derive=derive_of(plan["derive"]))
    senders = [
        Sender(writer, bodies_of(Path(path), ends), lambda: time.perf_counter() < stop)
        for path, ends in zip(plan["paths"][:2], plan["ends"][:2], strict=True)
    ]
    started = time.perf_counter()
    stop = started + plan["seconds"]
    highest = 0
    for sender in senders:
        sender.start()
    last_flush = started
    while any(sender.is_alive() for sender in senders):
        time.sleep(0.05)
        highest = max(highest, writer.backlog_bytes)
        if time.perf_counter() - last_flush > plan["carry_s"]:
            last_flush = time.perf_counter()
            writer.flush()
    spent = time.perf_counter() - started
    assert not any(sender.failed for sender in senders)
    backlog = writer.backlog_bytes
    rows = sum(sender.rows for sender in senders)
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    writer.close()
    drain = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    acknowledged = np.concatenate([sender.acknowledged for sender in senders])
    used = lake_bytes(lake)
    carried = lake.query("SELECT count(*) AS rows, sum(count)::BIGINT AS operations FROM ops").to_pylist()[0]
    assert carried["rows"] == rows, (carried, rows)
    return {
        "rows_per_s": rows / spent,
        "rows": rows,
        "seconds": spent,
        "operations_per_row": carried["operations"] / rows,
        "bytes_per_row": used["all"] / rows,
        "ops_bytes_per_row": used["ops"] / rows,
        "bytes_per_operation": used["all"] / carried["operations"],
        "wire_bytes_per_row": sum(sender.wire_bytes for sender in senders) / rows,
        "acknowledged_ms_p50": float(np.percentile(acknowledged, 50)),
        "acknowledged_ms_p99": float(np.percentile(acknowledged, 99)),
        "waits_for_backlog": sum(sender.refused for sender in senders),
        "backlog_mib_highest": highest / MIB,
        "backlog_mib_at_end": backlog / MIB,
        "drain_s": drain,
        "cpu_s": cpu.ru_utime + cpu.ru_stime,
        "peak_mib": peak,
        "files": used["files"],
    }


def lake_bytes(lake: Lake) -> dict[str, int]:
    """Bytes of the active files of all tables, of `ops` alone, and how many files of `ops`."""
    tables = take_inventory(lake.place).tables
    batches = sum(p.stat().st_size for p in lake.place.root.rglob("shards/*/_batches/day=*/*.parquet"))
    ops = [t for t in tables if t.table == "ops"]
    return {
        "all": sum(t.bytes for t in tables) + batches,
        "ops": sum(t.bytes for t in ops),
        "files": sum(t.files for t in ops),
    }


def run_arrivals(folder: Path, plan: dict[str, Any]) -> dict[str, object]:
    """50,000 rows a second into the filled lake, carried over and looked after, while another process asks."""
    from fairlead.store.maintenance import run_lake_maintenance

    lake = Lake.open(folder / "lake")
    writer = lake.open_writer(derive=derive_of(plan["derive"]))
    asking = threading.Event()
    sender = Sender(
        writer, bodies_of(Path(plan["paths"][2]), plan["ends"][2]), lambda: not asking.is_set(), LIMIT_ROWS_PER_S
    )
    sender.start()
    command = [sys.executable, __file__, "--role", "ask", "--folder", str(folder)]
    began = last = time.perf_counter()
    took: list[float] = []

    def look_after() -> None:
        while not asking.wait(20):
            started = time.perf_counter()
            run_lake_maintenance(lake, writer)
            took.append(time.perf_counter() - started)

    tidier = threading.Thread(target=look_after)
    tidier.start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asker:
        while asker.poll() is None:
            time.sleep(0.1)
            if time.perf_counter() - last > plan["carry_s"]:
                writer.flush()
                last = time.perf_counter()
        spent = time.perf_counter() - began
        rows = sender.rows
        assert asker.stdout is not None
        figures = json.loads(asker.stdout.read())
    asking.set()
    sender.join()
    tidier.join()
    assert sender.failed is None
    writer.close(flush=False)
    acknowledged = np.array(sender.acknowledged)
    return figures | {
        "arriving_rows_per_s": rows / spent,
        "arriving_acknowledged_ms_p99": float(np.percentile(acknowledged, 99)),
        "arriving_acknowledged_ms_max": float(acknowledged.max()),
        "maintain_s_max": max(took, default=0.0),
    }


QUESTIONS = {
    "job_seconds": (
        "SELECT ts_ns, sum(read_bytes) AS r, sum(write_bytes) AS w, sum(samples) AS n FROM rollup WHERE "
        "interval_ns = 1000000000 AND kind = 'job' AND id = $job AND ts_ns >= $from AND ts_ns < $to "
        "GROUP BY 1 ORDER BY 1"
    ),
    "node_seconds": (
        "SELECT ts_ns, sum(read_bytes) AS r, sum(write_bytes) AS w FROM rollup WHERE interval_ns = 1000000000 "
        "AND kind = 'node' AND id = $node AND job_id IS NULL AND ts_ns >= $from AND ts_ns < $to GROUP BY 1 ORDER BY 1"
    ),
    "system_minutes": (
        "SELECT ts_ns, id, sum(read_bytes) AS r, sum(write_bytes) AS w FROM rollup WHERE interval_ns = 60000000000 "
        "AND kind = 'job' AND ts_ns >= $from AND ts_ns < $to GROUP BY 1, 2 ORDER BY 1, 2"
    ),
    "job_operations": (
        'SELECT start_ns, end_ns, node, rank, op, file_id, "offset", size, count FROM ops WHERE job_id = $job '
        "AND start_ns >= $from AND start_ns < $to ORDER BY start_ns LIMIT 10000"
    ),
}
WINDOWS_S = {"job_seconds": 600, "node_seconds": 600, "system_minutes": 3 * 3600, "job_operations": 5}


def run_ask(folder: Path, plan: dict[str, Any]) -> dict[str, object]:
    """What pages ask, one after the other, of times at random; milliseconds each."""
    lake = Lake.open(folder / "lake")
    rng = np.random.default_rng(1)
    bounds = lake.query("SELECT min(ts_ns) AS first, max(ts_ns) AS last FROM rollup WHERE kind = 'job'").to_pylist()[0]
    total = lake.query("SELECT count(*) AS n FROM ops").to_pylist()[0]["n"]
    took: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    rows = dict.fromkeys(QUESTIONS, 0)
    until = time.perf_counter() + plan["asked_s"]
    while time.perf_counter() < until:
        for name, sql in QUESTIONS.items():
            window = WINDOWS_S[name] * 10**9
            # Half of all questions are about the newest there is.
            last = bounds["last"] if rng.random() < 0.5 else int(rng.integers(bounds["first"], bounds["last"]))
            span = (last - window, last)
            values: dict[str, object] = {"from": span[0], "to": span[1]}
            if "$job" in sql:
                values["job"] = str(4_000_000 + int(rng.integers(0, JOBS)))
            if "$node" in sql:
                values["node"] = f"node{int(rng.integers(0, NODES)):05d}"
            started = time.perf_counter()
            found = lake.query(sql, values, between=span)
            took[name].append((time.perf_counter() - started) * 1e3)
            rows[name] += found.num_rows
    figures: dict[str, object] = {"asked_of_rows": total}
    for name, values_ms in took.items():
        for percent in (50, 95, 99):
            figures[f"{name}_ms_p{percent}"] = float(np.percentile(values_ms, percent))
        figures[f"{name}_rows"] = rows[name] / max(1, len(values_ms))
    every = np.concatenate(list(took.values()))
    figures["page_ms_p95"] = float(np.percentile(every, 95))
    figures["asked"] = len(every)
    figures["asking_peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


ROLES = {"ingest": run_ingest, "arrivals": run_arrivals, "ask": run_ask}


def alone(role: str, folder: Path, plan: dict[str, object]) -> dict[str, Any]:
    """A role in a process of its own."""
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, __file__, "--role", role, "--folder", str(folder)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rows", type=int, default=0, help="rows made beforehand; default 1.3 M a second")
    parser.add_argument("--carry", type=float, default=15.0)
    parser.add_argument("--no-derive", action="store_true")
    parser.add_argument("--no-history", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--role", choices=ROLES)
    args = parser.parse_args()
    if args.role:
        plan = json.loads((args.folder / "plan.json").read_text())
        sys.stdout.write(json.dumps(ROLES[args.role](args.folder, plan)))
        return
    seconds = 5.0 if args.quick else args.seconds
    rows = args.rows or int(seconds * 1_300_000)
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-", dir=args.folder) as name:
        folder = Path(name)
        paths, ends, _ = prepared(folder, rows, now_ns() - 4 * HOUR_NS)
        plan = {
            "paths": list(map(str, paths)),
            "ends": ends,
            "seconds": seconds,
            "carry_s": args.carry,
            "derive": not args.no_derive,
            "asked_s": 5.0 if args.quick else ASKED_S,
        }
        figures: dict[str, Any] = {"quick": args.quick, "derive": not args.no_derive}
        figures |= alone("ingest", folder, plan)
        figures |= alone("arrivals", folder, plan)
    show(figures)
    if not args.no_history:
        append("lake_ingest", figures)


def show(figures: dict[str, Any]) -> None:
    table = Table("figure", "value")
    for key, value in figures.items():
        table.add_row(
            key, f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
        )
    Console().print(table)


if __name__ == "__main__":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    main()
