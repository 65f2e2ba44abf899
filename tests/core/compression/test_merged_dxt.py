"""Every bundled DXT log through merging and back: nothing lost, times within their bounds, exact times exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.compression.merger import Merger
from fairlead.core.compression.operation_runs import BOUNDARY_NS, GAP_NS, expand_operation_runs, merge_operation_runs
from fairlead.core.model.tables import OPS
from fairlead.see.sources.darshan import DarshanSource

pytestmark = pytest.mark.shared_data
WORDS = ("op", "interface", "node")
NUMBERS = ("rank", "file_id", "offset", "size")


def operations(log: Path) -> pa.Table | None:
    batches = [
        item
        for item in DarshanSource().read(log)
        if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == OPS.name.encode()
    ]
    return pa.Table.from_batches(batches) if batches else None


def logs(shared_data: Path) -> list[tuple[Path, pa.Table]]:
    found = [
        (log, operations(log)) for log in sorted(shared_data.rglob("*.darshan")) if b"DXT" not in log.name.encode()
    ]
    return [(log, ops) for log, ops in found if ops is not None]


def same(left: pa.Table, right: pa.Table, names: tuple[str, ...]) -> None:
    for name in names:
        a, b = left[name].combine_chunks(), right[name].combine_chunks()
        if name in WORDS:
            a, b = a.cast(pa.string()), b.cast(pa.string())
        assert a.equals(b), name


def per_second(ops: pa.Table) -> dict[int, int]:
    second = ops["start_ns"].to_numpy() // BOUNDARY_NS
    moved = ops["size"].fill_null(0).to_numpy() * ops["count"].to_numpy()
    seconds, place = np.unique(second, return_inverse=True)
    totals = np.zeros(len(seconds), np.int64)
    np.add.at(totals, place, moved)
    return dict(zip(seconds.tolist(), totals.tolist(), strict=True))


def test_every_log_comes_back(shared_data: Path) -> None:
    seen = 0
    for _, ops in logs(shared_data):
        seen += len(ops)
        runs = merge_operation_runs(ops)
        # DXT lies record by record, so runs in the order of their first operations expand to the log itself.
        same(expand_operation_runs(runs), ops, WORDS + NUMBERS)
        exact = expand_operation_runs(merge_operation_runs(ops, exact_times=True))
        same(exact, ops, WORDS + NUMBERS + ("start_ns", "end_ns", "busy_ns"))
        assert per_second(runs) == per_second(ops)
        merged = runs.filter(pa.compute.greater(runs["count"], 1))
        assert (merged["start_ns"].to_numpy() // BOUNDARY_NS == (merged["end_ns"].to_numpy() - 1) // BOUNDARY_NS).all()
        assert (merged["busy_ns"].to_numpy() <= merged["end_ns"].to_numpy() - merged["start_ns"].to_numpy()).all()
    assert seen > 500_000


def test_no_gap_inside_a_run(shared_data: Path) -> None:
    for _, ops in logs(shared_data):
        exact = merge_operation_runs(ops, exact_times=True)
        gaps = exact["gaps_ns"].combine_chunks().flatten().to_numpy()
        assert ((gaps >= 0) & (gaps < GAP_NS)).all()


def by_stream(ops: pa.Table) -> pa.Table:
    """Rows stream after stream, each as it lies."""
    words = ops["interface"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)
    return ops.take(pa.array(np.lexsort((ops["file_id"].to_numpy(), ops["rank"].to_numpy(), words))))


def test_order_of_starts_comes_back(shared_data: Path) -> None:
    """What a store sorted by start needs: a file's reads and writes in the order they happened, not apart as in DXT."""
    for _, ops in logs(shared_data):
        runs = merge_operation_runs(ops, by_time=True)
        assert (np.diff(runs["start_ns"].to_numpy()) >= 0).all()
        by_start = ops.take(pa.array(np.argsort(ops["start_ns"].to_numpy(), kind="stable")))
        same(by_stream(expand_operation_runs(runs)), by_stream(by_start), WORDS + NUMBERS)


def test_a_log_in_batches_merges_as_the_whole(shared_data: Path) -> None:
    for _, ops in logs(shared_data):
        merger = Merger()
        parts = [merger.push(batch) for batch in ops.to_batches(max_chunksize=10_000)]
        got = pa.concat_tables([*parts, merger.flush()])
        assert len(got) == len(merge_operation_runs(ops))
        assert per_second(got) == per_second(ops)
