"""Rollups: rows of `ops` a second that become sums by second, minute and hour, and how many rows these are.

Run: `python benchmarks/rollups.py [--quick]`. One thread of ours; Arrow may use the other core for hashing.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.model.tables import OPS, build_table_batch, build_table_word_column
from fairlead.store.rollups import derive_rollups

EPOCH = 1_700_000_000_000_000_000


def runs(rows: int, nodes: int, longest_ns: int) -> pa.Table:
    """Runs of thirty seconds, node after node as agents send them; a job has 32 nodes."""
    rng = np.random.default_rng(1)
    node = np.sort(rng.integers(0, nodes, rows))
    start = EPOCH + rng.integers(0, 30 * 10**9, rows)
    took = rng.integers(10_000, longest_ns, rows)

    def words(codes: np.ndarray, prefix: str) -> pa.DictionaryArray:
        names = pa.array([f"{prefix}{k}" for k in range(int(codes.max()) + 1)])
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names)

    op = pa.DictionaryArray.from_arrays(
        pa.array(rng.choice(4, rows, p=(0.35, 0.45, 0.1, 0.1)).astype(np.int32)),
        pa.array(["read", "write", "open", "close"]),
    )
    return pa.Table.from_batches(
        [
            build_table_batch(
                OPS,
                {
                    "start_ns": start,
                    "end_ns": start + took,
                    "busy_ns": took,
                    "node": words(node, "cn"),
                    "job_id": words(node // 32, "job"),
                    "interface": build_table_word_column("POSIX", rows),
                    "fs": build_table_word_column("/scratch", rows),
                    "op": op,
                    "size": rng.integers(1, 1 << 22, rows),
                    "count": rng.integers(1, 20, rows),
                },
            )
        ]
    )


def main() -> int:
    """Measure, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows, two runs each instead of five")
    arguments = parser.parse_args()
    rows = 500_000 if arguments.quick else 2_000_000
    shown = Table(title=f"rollups of {rows:,} rows of ops", title_justify="left")
    for name in ("case", "rollup rows", "M rows/s of processor time", "M rows/s of wall time"):
        shown.add_column(name, justify="left" if name == "case" else "right")
    figures: dict[str, object] = {"quick": arguments.quick, "rows": rows}
    cases = {
        "1,024 nodes, within a second": (1024, 20_000_000),
        "40,960 nodes, within a second": (40_960, 20_000_000),
        "1,024 nodes, up to 3 s long": (1024, 3 * 10**9),
    }
    for name, (nodes, longest) in cases.items():
        ops = runs(rows, nodes, longest)
        derive_rollups({"ops": ops.slice(0, 1000)})
        best = [float("inf")] * 2
        for _ in range(2 if arguments.quick else 5):
            begin = time.process_time(), time.perf_counter()
            made = derive_rollups({"ops": ops})["rollup"]
            best = [
                min(b, now - at)
                for b, now, at in zip(best, (time.process_time(), time.perf_counter()), begin, strict=True)
            ]
        whole = made.filter(
            pc.and_(pc.equal(made["kind"].cast(pa.string()), "job"), pc.equal(made["interval_ns"], 3600 * 10**9))
        )
        moved = pc.sum(
            pc.multiply(ops["size"], ops["count"]).filter(pc.equal(ops["op"].cast(pa.string()), "write"))
        ).as_py()
        assert pc.sum(whole["write_bytes"]).as_py() == moved, "bytes were lost"
        rates = [rows / seconds / 1e6 for seconds in best]
        shown.add_row(name, f"{made.num_rows:,}", *(f"{rate:.1f}" for rate in rates))
        figures[name] = {
            "rollup_rows": made.num_rows,
            "m_rows_per_cpu_s": round(rates[0], 1),
            "m_rows_per_s": round(rates[1], 1),
        }
    Console(width=None if sys.stdout.isatty() else 120).print(shown)
    append("rollups", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
