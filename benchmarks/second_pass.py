"""Second pass: what merging across the nodes of a job saves on eight patterns of applications, and how fast it is.

Run: `python benchmarks/second_pass.py [--quick]`. Every case is checked to give each row back. Durations and gaps are
drawn from a bundled DXT log where there is one, else from a lognormal.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from _history import append
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fairlead.core.compression.node_groups import merge_node_groups, split_node_groups
from fairlead.core.compression.operation_runs import merge_operation_runs
from fairlead.core.model.tables import OP_GROUPS, OPS, TableSpec, build_table_batch, build_table_word_column
from fairlead.see.sources.darshan import DarshanSource
from fairlead.store.days_and_tiers import compute_days
from fairlead.store.part_files import write_part_files

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
EPOCH = 1_700_000_000_000_000_000
PER_NODE = 4
MIB = 1 << 20
PAPER = (
    ("APT", 5.4, 2.1),
    ("WRF", 14.2, 3.8),
    ("DNDC", 10.1, 3.4),
    ("XCFD", 12.2, 3.8),
    ("GKUA", 34.6, 3.6),
    ("CAM", 9.2, 4.4),
    ("AWP", 15.1, 3.2),
    ("Shentu", 22.2, 2.6),
)
"""First and second pass in Beacon (TOS 2023), in bytes of its own records."""
I64 = NDArray[np.int64]


class Times:
    """Draws how long an operation takes and how long until the next."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.busy, self.gap = self._recorded()

    def _recorded(self) -> tuple[I64, I64]:
        for log in sorted((SHARED / "darshan" / "drishti").rglob("*.darshan")):
            batches = [
                b
                for b in DarshanSource().read(log)
                if isinstance(b, pa.RecordBatch) and b.schema.metadata[b"fairlead.table"] == b"ops"
            ]
            if not batches:
                continue
            ops = pa.Table.from_batches(batches)
            start, end = ops["start_ns"].to_numpy(), ops["end_ns"].to_numpy()
            busy, gap = (end - start)[end > start], start[1:] - end[:-1]
            gap = gap[(gap > 0) & (gap < 10_000_000)]
            if len(busy) > 500 and len(gap) > 500:
                self.source = log.name
                return busy, gap
        self.source = "lognormal"
        return (
            np.exp(self.rng.normal(14, 0.7, 4096)).astype(np.int64),
            np.exp(self.rng.normal(11, 1, 4096)).astype(np.int64),
        )

    def sequence(self, ranks: int, each: int, scale: float = 1.0) -> tuple[I64, I64]:
        """(start since the burst began, duration), int64[ranks, each]: ranks begin within some milliseconds."""
        busy = np.maximum(self.rng.choice(self.busy, (ranks, each)) * scale, 1000).astype(np.int64)
        gap = self.rng.choice(self.gap, (ranks, each))
        gap[:, 0] = np.abs(self.rng.normal(0, 3_000_000, ranks)).astype(np.int64)
        end = np.cumsum(busy + gap, axis=1)
        return end - busy, busy


def table(nodes: int, parts: list[dict[str, object]]) -> pa.Table:
    """Operations as OPS, node after node, each by time."""
    made = []
    for part in parts:
        start = np.asarray(part["start"]) + EPOCH
        shape = start.shape
        rank = np.broadcast_to(np.asarray(part["rank"])[:, None], shape).ravel()
        rows = rank.size

        def wide(value: object, shape: tuple[int, ...] = shape) -> I64:
            return np.broadcast_to(np.asarray(value), shape).ravel()

        sized = part["size"] is not None
        made.append(
            pa.Table.from_batches(
                [
                    build_table_batch(
                        OPS,
                        {
                            "start_ns": start.ravel(),
                            "end_ns": start.ravel() + wide(part["busy"]),
                            "busy_ns": wide(part["busy"]),
                            "node": pa.DictionaryArray.from_arrays(
                                pa.array((rank // PER_NODE).astype(np.int32)),
                                pa.array([f"cn{k:05d}" for k in range(nodes)]),
                            ),
                            "job_id": build_table_word_column("1001", rows),
                            "rank": rank.astype(np.int32),
                            "interface": build_table_word_column("POSIX", rows),
                            "fs": build_table_word_column("/scratch", rows),
                            "op": build_table_word_column(str(part["op"]), rows),
                            "file_id": wide(part["file"]),
                            "handle": wide(part["file"]) % 1000,
                            **({"offset": wide(part["offset"]), "size": wide(part["size"])} if sized else {}),
                            "count": np.ones(rows, np.int64),
                        },
                    )
                ]
            )
        )
    whole = pa.concat_tables(made).unify_dictionaries().combine_chunks()
    node = whole["node"].chunk(0).indices.to_numpy()
    return whole.take(pa.array(np.lexsort((whole["start_ns"].to_numpy(), node))))


def patterns(nodes: int, bursts: int) -> dict[str, Callable[[Times], pa.Table]]:
    """Makers of operations, by name."""
    ranks = nodes * PER_NODE
    every = np.arange(ranks)
    own = every[:, None] * 7919 + 10**12

    def data(
        t: Times,
        op: str,
        who: I64,
        each: int,
        size: int,
        place: Callable[[int, I64], object],
        file: object,
        scale: float = 1.0,
    ) -> list[dict[str, object]]:
        made = []
        for burst in range(bursts):
            start, busy = t.sequence(len(who), each, scale)
            made.append(
                {
                    "start": start + burst * 10 * 10**9,
                    "busy": busy,
                    "rank": who,
                    "op": op,
                    "size": size,
                    "offset": place(burst, np.arange(each)[None, :]),
                    "file": file,
                }
            )
        return made

    def metadata(t: Times, words: tuple[str, ...], who: I64, each: int, file: object) -> list[dict[str, object]]:
        made = []
        for burst in range(bursts):
            start, busy = t.sequence(len(who), each * len(words), 0.1)
            for at, word in enumerate(words):
                made.append(
                    {
                        "start": start[:, at :: len(words)] + burst * 10 * 10**9,
                        "busy": busy[:, at :: len(words)],
                        "rank": who,
                        "op": word,
                        "size": None,
                        "file": file,
                    }
                )
        return made

    leaders = every[::PER_NODE]
    nth = every[:, None]
    return {
        "checkpoint N-N": lambda t: table(
            nodes,
            [
                *metadata(t, ("open", "close"), every, 1, own),
                *data(t, "write", every, 64, MIB, lambda b, k: (b * 64 + k) * MIB, own),
            ],
        ),
        "N-1 strided": lambda t: table(
            nodes, data(t, "write", every, 64, 256 << 10, lambda b, k: ((b * 64 + k) * ranks + nth) * (256 << 10), 77)
        ),
        "N-M aggregated": lambda t: table(
            nodes,
            data(
                t,
                "write",
                leaders,
                64,
                4 * MIB,
                lambda b, k: (b * 64 + k) * 4 * MIB + (leaders[:, None] // 64) * 2**34,
                leaders[:, None] // 64 + 500,
            ),
        ),
        "small random reads": lambda t: table(
            nodes, data(t, "read", every, 64, 4096, lambda _, k: t.rng.integers(0, 1 << 22, (ranks, k.size)) * 4096, 77)
        ),
        "metadata storm": lambda t: table(
            nodes, metadata(t, ("create", "close", "stat", "unlink"), every, 16, own * 64 + np.arange(16)[None, :])
        ),
        "collective": lambda t: table(
            nodes,
            data(
                t,
                "write",
                leaders,
                16,
                16 * MIB,
                lambda b, k: ((b * 16 + k) * nodes + leaders[:, None] // PER_NODE) * 16 * MIB,
                77,
                4.0,
            ),
        ),
        "restart read": lambda t: table(
            nodes,
            [
                *data(t, "read", every, 1, 1024, lambda _, k: 0 * k, 78),
                *data(t, "read", every, 64, MIB, lambda b, k: (b * 64 + k) * MIB, own),
            ],
        ),
        "log append": lambda t: table(
            nodes, data(t, "write", every, 32, 200, lambda b, k: (b * 32 + k) * 200, own, 0.02)
        ),
    }


def stored(spec: TableSpec, rows: pa.Table) -> int:
    """Bytes of the Parquet files the lake writes for these rows."""
    if not rows.num_rows:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return sum(part.size for part in write_part_files(Path(folder), spec, rows, compute_days(rows, spec, None)))


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables of operations hold the same rows, whatever their order."""
    lists = ("gaps_ns", "durations_ns")
    keys = [(f.name, "ascending") for f in OPS.schema if f.name not in lists]

    def plain(one: pa.Table) -> pa.Table:
        columns = {
            f.name: one[f.name].cast(pa.string()) if pa.types.is_dictionary(f.type) else one[f.name]
            for f in OPS.schema
            if f.name not in lists
        }
        return pa.table(columns).sort_by(keys).combine_chunks()

    return bool(plain(left).equals(plain(right)))


def measured(ops: pa.Table) -> dict[str, float]:
    """Figures of one case."""
    runs = merge_operation_runs(ops)
    begin = time.process_time()
    rest, groups = merge_node_groups(runs)
    seconds = time.process_time() - begin
    assert same(pa.concat_tables([rest, split_node_groups(groups)]), runs), "rows were lost"
    sizes = [stored(OPS, ops), stored(OPS, runs), stored(OPS, rest) + stored(OP_GROUPS, groups)]
    rows = [ops.num_rows, runs.num_rows, rest.num_rows + groups.num_rows]
    return {
        "operations": rows[0],
        "runs": rows[1],
        "rows": rows[2],
        "first_rows": rows[0] / rows[1],
        "second_rows": rows[1] / rows[2],
        "first_bytes": sizes[0] / sizes[1],
        "second_bytes": sizes[1] / sizes[2],
        "bytes_per_run": sizes[1] / rows[1],
        "bytes_per_run_after": sizes[2] / rows[1],
        "bytes_per_operation": sizes[2] / rows[0],
        "m_rows_per_s": rows[1] / seconds / 1e6,
    }


def main() -> int:
    """Measure, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="64 nodes instead of 512")
    arguments = parser.parse_args()
    nodes = 64 if arguments.quick else 512
    times = Times(seed=1)
    merge_node_groups(patterns(8, 1)["collective"](times))  # warm
    shown = Table(
        title=f"second pass, {nodes} nodes x {PER_NODE} ranks, times from {times.source}", title_justify="left"
    )
    for name in (
        "pattern",
        "operations",
        "runs",
        "rows",
        "1st rows",
        "2nd rows",
        "1st bytes",
        "2nd bytes",
        "B/run",
        "after",
        "B/op",
        "M runs/s",
    ):
        shown.add_column(name, justify="left" if name == "pattern" else "right")
    figures: dict[str, object] = {"quick": arguments.quick, "nodes": nodes, "times_from": times.source}
    for name, make in patterns(nodes, 3).items():
        found = measured(make(times))
        figures[name] = {key: round(value, 2) for key, value in found.items()}
        shown.add_row(
            name,
            *(f"{found[k]:,.0f}" for k in ("operations", "runs", "rows")),
            *(
                f"{found[k]:.1f}"
                for k in (
                    "first_rows",
                    "second_rows",
                    "first_bytes",
                    "second_bytes",
                    "bytes_per_run",
                    "bytes_per_run_after",
                    "bytes_per_operation",
                    "m_rows_per_s",
                )
            ),
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(shown)
    console.print("Beacon's own, in bytes (first/second): " + ", ".join(f"{n} {a}/{b}" for n, a, b in PAPER))
    console.print(
        "fairlead's bytes are zstd Parquet before and after, and keep every row's own times; rows were compared"
    )
    append("second_pass", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
