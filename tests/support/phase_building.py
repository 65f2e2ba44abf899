"""Rows of PHASE for tests: runs of a program, one phase each, an hour apart. Not here: what is tested with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from fairlead.core.model.tables import PHASE
from fairlead.explain.analysis.history.rate_bins import find_rate_bins

S = 1_000_000_000
HOUR = 3600 * S
BEGIN = 1_700_000_000 * S


def phase(job: int, rate: float = 1e9, seconds: float = 10.0, **more: object) -> dict[str, object]:
    """One write of number `job` at `rate` bytes a second."""
    start = BEGIN + job * HOUR
    row: dict[str, object] = {
        "cluster": "c",
        "job_id": str(job),
        "job_start_ns": start - 60 * S,
        "number": 0,
        "kind": "write",
        "start_ns": start,
        "end_ns": start + int(seconds * S),
        "active_ns": int(seconds * S),
        "bytes": int(rate * seconds),
        "ops": int(rate * seconds / (1 << 20)) + 1,
        "metadata_ops": 0,
        "rate_per_s": rate,
        "request_bytes": float(1 << 20),
        "mode": "N-N",
        "io_processes": 64,
        "nodes_count": 16,
        "processes": 64,
        "user": "ada",
        "program": "flow",
        "rate_bins": [int(find_rate_bins(rate))],
        "rate_ns": [int(seconds * S)],
        "basis": "client",
        "made_ns": 1,
        "analysis_version": 1,
    }
    return row | more


def table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([dict(row) for row in rows], PHASE.schema)


def runs(rates: Sequence[float], volume: float = 1e10, **more: object) -> pa.Table:
    """Runs of one program that move `volume` bytes at these rates, one after the other."""
    return table([phase(i, rate, volume / rate, **more) for i, rate in enumerate(rates)])
