"""Sheets: rows of many shapes become columns that fit their table, nulls where nothing was put, small batches."""

from __future__ import annotations

import io

from agent_server import rows_of
from fairlead.core.batches.decoding import Batch, decode_stream_batches
from fairlead.core.batches.encoding import Header
from fairlead.core.batches.rows import build_batch_rows as arrow_rows
from fairlead.see.agent.row_buffers import Sheets
from fairlead.see.probes.base import Event, Reading, Service


def sheets(max_rows: int = 100) -> Sheets:
    seqs = iter(range(1, 1000))

    def header(table: str, version: int, rows: int, first: int | None, last: int | None) -> Header:
        return Header(table, version, "n1", "b", next(seqs), rows, "agent", "agent", first, last)

    return Sheets("n1", header, max_rows)


def taken(made: Sheets) -> dict[str, list[Batch]]:
    found: dict[str, list[Batch]] = {}
    for batch in decode_stream_batches(io.BytesIO(b"".join(made.take_batches())), "here"):
        assert list(arrow_rows(batch, "here"))
        found.setdefault(batch.header.table, []).append(batch)
    return found


def test_readings_of_one_table_share_a_batch_and_what_is_not_told_is_null() -> None:
    made = sheets()
    plain = Reading("target", ("target", "job_id"), ("read_bytes",), ("queue_len_mean",), {})
    sizes = Reading("target", ("target",), ("read_sizes",), ("used_bytes",), {}, constant=(("server", "oss1"),))
    made.add_reading(plain, 10, ("t0", None), [5, 3], 1)
    made.add_reading(sizes, 9, ("t1",), [[1, 2], None], None)
    made.add_reading(plain, 11, ("t2", "17"), [None, 0.5], 2)
    made.add_reading(sizes, 12, ("t3",), [[], 1 << 70], 2)
    (batch,) = taken(made)["target"]
    assert (batch.header.first_ns, batch.header.last_ns, batch.header.rows) == (9, 12, 4)
    names = ("ts_ns", "interval_ns", "server", "target", "job_id", "read_bytes", "queue_len_mean", "read_sizes")
    rows = [tuple(row[name] for name in names) for row in rows_of(batch)]
    assert rows == [
        (10, 1, "n1", "t0", None, 5, 3.0, None),
        (9, None, "oss1", "t1", None, None, None, [1, 2]),
        (11, 2, "n1", "t2", "17", None, 0.5, None),
        (12, 2, "oss1", "t3", None, None, None, []),
    ]
    assert "used_bytes" not in batch.columns, "what no table can hold is not known"
    assert made.empty


def test_long_sheets_are_cut_into_batches() -> None:
    made = sheets(max_rows=10)
    for number in range(25):
        made.add_event(Event(number, "c", "k", "x" * 5000))
    assert made.waiting_bytes > 0
    found = taken(made)["events"]
    assert [one.header.rows for one in found] == [10, 10, 5]
    assert [one.header.seq for one in found] == [1, 2, 3]
    assert made.waiting_bytes == 0
    assert len(str(rows_of(found[0])[0]["text"])) == 2000


def test_who_served_whom_is_a_row_of_mapping() -> None:
    made = sheets()
    made.add_served(Service(5, None, "job_node", "17", "n1"))
    made.add_served(Service(5, 9, "job_node", "17", "n1"))
    (batch,) = taken(made)["mapping"]
    assert [(row["from_ns"], row["to_ns"], row["a"]) for row in rows_of(batch)] == [(5, None, "17"), (5, 9, "17")]
