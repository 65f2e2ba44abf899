"""Rows for tests of the lake: one small input with rows of several tables, whose number says which input it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.batches.encoding import Header, encode_batch, encode_numbers, encode_words
from fairlead.core.batches.rows import decode_batch_rows
from fairlead.core.model.tables import EVENTS, FILE_COUNTERS, FILES, LAYOUTS, OPS, ROLLUP, build_table_batch
from fairlead.store.batch_writer import BatchWriter
from fairlead.store.writer import Writer

DAY_NS = 86_400_000_000_000
DAY_ONE = 20_000 * DAY_NS
"""2024-10-04."""
OPS_ROWS = 50
COUNTER_ROWS = 3


def ops_of(job: int, rows: int = OPS_ROWS, *, day: int = 0, node: str = "n1") -> pa.RecordBatch:
    """Runs of one job on one day, the latest first."""
    start = DAY_ONE + day * DAY_NS + np.arange(rows)[::-1] * 1_000_000
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": start + 10,
            "busy_ns": np.full(rows, 10),
            "node": [node] * rows,
            "job_id": [f"job-{job}"] * rows,
            "rank": np.arange(rows, dtype=np.int32) % 4,
            "interface": ["POSIX"] * rows,
            "op": ["write"] * rows,
            "file_id": np.full(rows, job),
            "offset": np.arange(rows) * 4096,
            "size": np.full(rows, 4096),
            "count": np.ones(rows, np.int64),
        },
    )


def fill(batch: BatchWriter, job: int, *, day: int = 0, rows: int = OPS_ROWS) -> BatchWriter:
    """An input's rows in five tables. Counters and layouts have no time of their own."""
    batch.add(ops_of(job, rows, day=day))
    batch.add(
        build_table_batch(
            FILES,
            {
                "file_id": [job],
                "fs": ["/scratch"],
                "path": [f"/scratch/{job}"],
                "first_seen_ns": [DAY_ONE + day * DAY_NS],
            },
        )
    )
    batch.add(
        build_table_batch(
            FILE_COUNTERS,
            {
                "job_id": [f"job-{job}"] * COUNTER_ROWS,
                "rank": np.arange(COUNTER_ROWS, dtype=np.int32),
                "interface": ["POSIX"] * COUNTER_ROWS,
                "file_id": np.full(COUNTER_ROWS, job),
                "read_sizes": [[job, None, 3]] * COUNTER_ROWS,
                "extra": [[("x", 0.5), ("y", None)]] * COUNTER_ROWS,
            },
        )
    )
    batch.add(build_table_batch(LAYOUTS, {"file_id": [job], "component": [0], "targets": [[1, 2]]}))
    batch.add(
        build_table_batch(
            EVENTS,
            {
                "ts_ns": [DAY_ONE + day * DAY_NS],
                "component": [f"job:{job}"],
                "kind": ["missing:x"],
                "text": ["é"],
            },
        )
    )
    return batch


def put(writer: Writer, job: int, *, day: int = 0, rows: int = OPS_ROWS) -> bool:
    """Takes one input in; False when it was known."""
    return fill(writer.open_batch(f"test:{job}", source="test", path=f"/t/{job}"), job, day=day, rows=rows).commit()


def wire(
    seq: int,
    *,
    node: str = "n1",
    boot: str = "b1",
    rows: int = OPS_ROWS,
    start_ns: int = DAY_ONE,
    job: str = "7",
    said: dict[str, object] | None = None,
    table: str = "ops",
) -> bytes:
    """A batch of `ops` as a node sends it: rows a millisecond apart from `start_ns` on, whose `file_id` is `seq`."""
    start = [start_ns + k * 1_000_000 for k in range(rows)]
    columns = {
        "start_ns": encode_numbers(start),
        "end_ns": encode_numbers([at + 10 for at in start]),
        "busy_ns": encode_numbers([10] * rows),
        "node": encode_words([node] * rows),
        "job_id": encode_words([job] * rows),
        "interface": encode_words(["POSIX"] * rows),
        "op": encode_words(["write"] * rows),
        "file_id": encode_numbers([seq] * rows),
        "offset": encode_numbers([k << 12 for k in range(rows)]),
        "size": encode_numbers([4096] * rows),
        "count": encode_numbers([1] * rows),
    }
    header = Header(table, 1, node, boot, seq, rows, "agent", "agent", start[0], start[-1], said)
    return encode_batch(header, columns)


def send(writer: Writer, *batches: bytes) -> tuple[int, int]:
    """Takes one body in: (taken, known)."""
    body = b"".join(batches)
    return writer.take_batches(body, decode_batch_rows(body))


def sums(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Rollup rows of 1 s and 60 s: bytes by node."""
    if "ops" not in tables:
        return {}
    ops = tables["ops"]
    made = []
    for interval in (10**9, 60 * 10**9):
        ts = pc.multiply(pc.divide(ops["start_ns"], interval), interval)
        cells = (
            pa.table(
                {
                    "ts_ns": ts,
                    "id": ops["node"].cast(pa.string()),
                    "write_bytes": pc.multiply(ops["size"], ops["count"]),
                }
            )
            .group_by(["ts_ns", "id"])
            .aggregate([("write_bytes", "sum")])
        )
        made.append(
            build_table_batch(
                ROLLUP,
                {
                    "ts_ns": cells["ts_ns"],
                    "interval_ns": [interval] * cells.num_rows,
                    "kind": ["node"] * cells.num_rows,
                    "id": cells["id"],
                    "layer": ["client"] * cells.num_rows,
                    "write_bytes": cells["write_bytes_sum"],
                },
            )
        )
    return {"rollup": pa.Table.from_batches(made)}
