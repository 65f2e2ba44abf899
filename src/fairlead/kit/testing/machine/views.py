"""What a site's watching shows of a play: all of it, or less, or with clocks that are off.

Not here: what is made of the records (`observed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.kit.testing.machine.client_rows import NS
from fairlead.kit.testing.machine.play import Play

LAYERS = {
    "client": ("ops", "files", "layouts"),
    "forwarder": ("forwarder",),
    "target": ("target",),
    "metadata": ("metadata",),
    "mount": ("pfs_client",),
    "network": ("port", "device"),
    "mapping": ("mapping",),
}
"""What can be left out, and the tables that are then missing."""
_TIMES = ("ts_ns", "start_ns", "end_ns")


@dataclass(frozen=True)
class View:
    """`without`: layers (keys of LAYERS) nothing is recorded of. `skew_s`: deviation of the clocks of the nodes, each
    off by its own constant, in seconds. `interval_s`: of all counters. `files`: sums by process and file as Darshan
    logs tell them (they give the I/O mode where there is no client trace). `stored`: rows of a longer interval are
    spread over its seconds, as a lake keeps them; else one row an interval."""

    without: Sequence[str] = ()
    skew_s: float = 0.0
    interval_s: int = 1
    files: bool = False
    stored: bool = False


FULL = View()
ORDINARY = View(without=("client", "forwarder", "network"), interval_s=10, files=True)
"""Accounting, llite and job_stats, counters of targets every 10 s, and a directory of Darshan logs."""


def apply_play_view(play: Play, view: View) -> dict[str, pa.Table]:
    """The records of the play by table, as far as `view` goes; under `file_counters` its sums by file."""
    tables = play.build_tables()
    if view.files:
        tables["file_counters"] = sum_view_io(tables["ops"])
    gone = {name for layer in view.without for name in LAYERS[layer]}
    kept = {name: table for name, table in tables.items() if name not in gone}
    if view.skew_s:
        kept = {name: _skewed(table, view.skew_s, play.seed) for name, table in kept.items()}
    return kept


def _skewed(table: pa.Table, skew_s: float, seed: int) -> pa.Table:
    """Times shifted by what the clock of the row's node is off; the scheduler's and the map's are right."""
    if "node" not in table.schema.names:
        return table
    node = table["node"].cast(pa.string()).combine_chunks().dictionary_encode()
    off = [
        int(np.random.default_rng([seed, 31, *name.encode()]).normal(0.0, skew_s) * NS)
        for name in node.dictionary.to_pylist()
    ]
    shift = pa.array(np.array(off, np.int64)[node.indices.to_numpy()])
    for name in _TIMES:
        if name in table.schema.names:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pc.add(table[name], shift))
    return table


def sum_view_io(ops: pa.Table) -> pa.Table:
    """Sums of operations by job, node, rank and file, as `JobData.io` wants them."""
    word = ops["op"].cast(pa.string())
    reads, writes = pc.equal(word, "read"), pc.equal(word, "write")
    moved = pc.multiply(pc.fill_null(ops["size"], 0), ops["count"])
    zero = pa.scalar(0, pa.int64())
    table = pa.table(
        {
            "job_id": ops["job_id"],
            "node": ops["node"],
            "rank": ops["rank"],
            "file_id": ops["file_id"],
            "read_bytes": pc.if_else(reads, moved, zero),
            "write_bytes": pc.if_else(writes, moved, zero),
            "read_time_ns": pc.if_else(reads, ops["busy_ns"], zero),
            "write_time_ns": pc.if_else(writes, ops["busy_ns"], zero),
            "metadata_time_ns": pc.if_else(pc.or_(reads, writes), zero, ops["busy_ns"]),
        }
    )
    return _sum_by_keys(table, ("job_id", "node", "rank", "file_id"))


def _sum_by_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sums of all other columns over equal keys."""
    rest = [name for name in table.schema.names if name not in keys]
    found = table.group_by(list(keys)).aggregate([(name, "sum") for name in rest])
    return pa.table({**{k: found[k] for k in keys}, **{name: found[f"{name}_sum"] for name in rest}})
