"""Run-length merging of client operations: operations per second on one core, and bytes per operation in the lake.

Run: `python benchmarks/compress.py [--quick] [LOG...]`. Without logs, every DXT log under the shared data is measured.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.compression.merger import Merger
from fairlead.core.compression.operation_runs import expand_operation_runs, merge_operation_runs
from fairlead.core.model.tables import OPS, build_table_batch, build_table_word_column
from fairlead.see.sources.darshan import DarshanSource
from fairlead.see.sources.darshan.container import read_container_header
from fairlead.see.sources.darshan.regions import LogFile
from fairlead.store.days_and_tiers import compute_days
from fairlead.store.part_files import write_part_files

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
BATCH = 1 << 18
STREAMS = 64
KEPT = (
    "kept of a run: operation, node, rank, file, handle, size, every offset, count, order; first start, last end, busy "
    "time. not kept without --exact-times: the start and duration of each operation inside a run (at most 1 s long, no "
    "gap of 10 ms in it)."
)


def synthetic(operations: int, offsets: str, *, interleaved: bool) -> pa.RecordBatch:
    """Back-to-back 4 KiB writes of 64 ranks to a file each: streams one after the other, or interleaved by time."""
    rng = np.random.default_rng(1)
    each = operations // STREAMS
    gaps, took = rng.integers(500, 20_000, (STREAMS, each)), rng.integers(2_000, 40_000, (STREAMS, each))
    end = np.cumsum(gaps + took, axis=1) + 1_700_000_000_000_000_000
    nth = np.arange(each)
    offset = {
        "contiguous": np.broadcast_to(nth * 4096, (STREAMS, each)),
        "strided": nth * 4096 * STREAMS + np.arange(STREAMS)[:, None] * 4096,
        "random": rng.integers(0, 1 << 22, (STREAMS, each)) * 4096,
    }[offsets]
    rank = np.repeat(np.arange(STREAMS), each)
    columns = {
        "start_ns": (end - took).ravel(),
        "end_ns": end.ravel(),
        "busy_ns": took.ravel(),
        "rank": rank,
        "file_id": rank * 7919,
        "offset": offset.ravel(),
    }
    if interleaved:
        by_time = np.argsort(columns["start_ns"], kind="stable")
        columns = {name: values[by_time] for name, values in columns.items()}
    rows = len(rank)
    words = {name: build_table_word_column(name, rows) for name in ("node", "job_id", "interface", "fs", "op")}
    sizes = {"size": np.full(rows, 4096), "count": np.ones(rows, np.int64)}
    return build_table_batch(OPS, columns | words | sizes)


def best(action: Callable[[], object], repeats: int) -> float:
    """Least processor time of some runs, in seconds: other work on the machine is left out."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def streamed(ops: pa.Table) -> pa.Table:
    """What ingest does: batch by batch through a `Merger`."""
    merger = Merger()
    parts = [merger.push(batch) for batch in ops.to_batches(max_chunksize=BATCH)]
    return pa.concat_tables([*parts, merger.flush()])


def read(log: Path) -> tuple[pa.Table | None, int]:
    """Operations of one log (None without DXT) and the bytes its compressed DXT regions take."""
    batches = [
        item
        for item in DarshanSource().read(log)
        if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == b"ops"
    ]
    if not batches:
        return None, 0
    with log.open("rb") as file:
        modules = read_container_header(LogFile(file.fileno(), log.stat().st_size, str(log))).modules
    traced = sum(module.compressed_bytes for module in modules if module.name.startswith("DXT"))
    return pa.Table.from_batches(batches), traced


def lake_bytes(runs: pa.Table) -> int:
    """Bytes of the Parquet files the lake writes for these rows, footers included."""
    with tempfile.TemporaryDirectory() as folder:
        return sum(part.size for part in write_part_files(Path(folder), OPS, runs, compute_days(runs, OPS, None)))


def cases(real: pa.Table | None, operations: int) -> Iterator[tuple[str, pa.Table]]:
    """What is merged, one at a time."""
    for interleaved in (False, True):
        for offsets in ("contiguous", "strided", "random"):
            order = f"{STREAMS} streams by time" if interleaved else "stream by stream"
            ops = synthetic(operations, offsets, interleaved=interleaved)
            yield f"{offsets}, {order}", pa.Table.from_batches([ops])
    if real is not None:
        yield "bundled DXT logs", real


def speed(real: pa.Table | None, *, quick: bool) -> tuple[Table, dict[str, object]]:
    """Million operations per second, from Arrow columns to Arrow runs, on one core."""
    table = Table(title="first pass, one core", title_justify="left")
    for name in ("operations", "rows", "runs", f"M ops/s at once (batches of {BATCH:,})", "as a stream"):
        table.add_column(name, justify="left" if name == "operations" else "right")
    figures: dict[str, object] = {}
    for name, ops in cases(real, 1 << 20 if quick else 1 << 22):
        batches = ops.to_batches(max_chunksize=BATCH)
        repeats = 2 if quick else 5
        at_once = best(lambda batches=batches: [merge_operation_runs(batch) for batch in batches], repeats)
        stream = best(lambda ops=ops: streamed(ops), repeats)
        rates = [len(ops) / seconds / 1e6 for seconds in (at_once, stream)]
        runs = len(streamed(ops))
        table.add_row(name, f"{len(ops):,}", f"{runs:,}", *(f"{rate:.1f}" for rate in rates))
        figures[name] = {"m_ops_per_s": round(rates[0], 1), "streamed": round(rates[1], 1), "runs": runs}
    return table, figures


def sizes(logs: list[tuple[str, pa.Table, int]]) -> tuple[Table, dict[str, object]]:
    """Bytes per original operation: as DXT keeps it, and in the lake's Parquet; each log alone, then all."""
    table = Table(title="bytes per original operation", title_justify="left")
    for name in ("log", "operations", "runs", "DXT's own", "in the lake", "with exact times", "not merged"):
        table.add_column(name, justify="left" if name == "log" else "right")
    everything = pa.concat_tables([ops for _, ops, _ in logs])
    rows = [*logs, ("all of them, in one lake", everything, sum(traced for _, _, traced in logs))]
    figures: dict[str, object] = {}
    for name, ops, traced in rows:
        runs, exact = merge_operation_runs(ops, by_time=True), merge_operation_runs(ops, by_time=True, exact_times=True)
        assert len(expand_operation_runs(exact)) == len(ops)
        each = [size / len(ops) for size in (traced, lake_bytes(runs), lake_bytes(exact), lake_bytes(ops))]
        last = name == rows[-1][0]
        table.add_row(
            name[:44],
            f"{len(ops):,}",
            f"{len(runs):,}",
            *(f"{size:.2f}" for size in each),
            style="bold" if last else None,
        )
        if last:
            named = ("dxt", "lake", "lake_exact_times", "lake_not_merged")
            figures = {"operations": len(ops), "runs": len(runs)}
            figures |= {f"{key}_bytes_per_op": round(size, 2) for key, size in zip(named, each, strict=True)}
    table.caption = "a small log alone pays for a Parquet footer of some 5 kB; in a lake, logs share it"
    return table, figures


def main() -> int:
    """Measure, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows, two runs each instead of five")
    parser.add_argument("logs", nargs="*", type=Path)
    arguments = parser.parse_args()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    pa.set_cpu_count(1)
    paths = arguments.logs or sorted(SHARED.rglob("*.darshan"))
    logs = [(path.name, *read(path)) for path in paths]
    traced = [(name, ops, size) for name, ops, size in logs if ops is not None]
    console = Console(width=None if sys.stdout.isatty() else 132)
    real = pa.concat_tables([ops for _, ops, _ in traced]).combine_chunks() if traced else None
    table, rates = speed(real, quick=arguments.quick)
    console.print(table)
    figures: dict[str, object] = {"quick": arguments.quick, "first_pass": rates}
    if traced:
        table, figures["in_the_lake"] = sizes(traced)
        console.print(table)
        console.print(KEPT)
    else:
        print("no DXT logs: name some, or set FAIRLEAD_SHARED_DATA", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"peak memory {peak:.0f} MiB, the generated operations included")
    os.sched_setaffinity(0, cores)
    append("compress", figures | {"peak_mib": round(peak)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
