"""Bodies made to hurt: few bytes that want much memory, headers that poison what comes after them, impossible times."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.batches import bulk, decoding
from fairlead.core.batches.decoding import MAX_BATCHES, MAX_COLUMNS
from fairlead.core.batches.encoding import (
    MAGIC,
    PREFIX,
    Header,
    compute_encoding_checksum,
    encode_batch,
    encode_fractions,
    encode_lists,
    encode_numbers,
    encode_same_word,
    encode_words,
)
from fairlead.core.batches.rows import decode_batch_rows
from fairlead.core.errors import CorruptInputError, InputError, OversizeError, TooOldError, UnfitError
from fairlead.see.collector.batch_checks import check_batches
from fairlead.see.collector.refusal import Refusal
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups
from fairlead.store.writer import Writer

NOW = 1_760_000_000 * 10**9
LAST = (1 << 63) - 1
LIMIT = 256 << 20


def batch_as_told(told: dict[str, Any], raw: bytes) -> bytes:
    """A batch whose header says what it is told to say; its sums hold."""
    payload = zlib.compress(raw, 1)
    about = {
        "format": 1,
        "table": "ops",
        "version": 1,
        "node": "n1",
        "boot_id": "b",
        "seq": 1,
        "rows": 0,
        "layer": "agent",
        "writer": "agent",
        "first_ns": NOW,
        "last_ns": NOW,
        "job": None,
        "columns": [],
        "raw_bytes": len(raw),
        "checksum": compute_encoding_checksum(payload),
        **told,
    }
    text = json.dumps(about).encode()
    return PREFIX.pack(MAGIC, len(text), len(payload), zlib.crc32(text)) + text + payload


def of_table(table: str, columns: dict[str, Any], rows: int = 3, **told: Any) -> bytes:
    header = Header(
        **{
            "table": table,
            "version": 1,
            "node": "n1",
            "boot_id": "b",
            "seq": 1,
            "rows": rows,
            "layer": "agent",
            "writer": "agent",
            "first_ns": NOW,
            "last_ns": NOW + rows,
            **told,
        }
    )
    return encode_batch(header, columns)


def ops(told: dict[str, Any] | None = None, **over: Any) -> bytes:
    columns = {
        "start_ns": encode_numbers([NOW, NOW + 1, NOW + 2]),
        "end_ns": encode_numbers([NOW + 1, NOW + 2, NOW + 3]),
        "busy_ns": encode_numbers([1] * 3),
        "node": encode_same_word("n1", 3),
        "interface": encode_same_word("posix", 3),
        "op": encode_same_word("write", 3),
        "file_id": encode_numbers([1] * 3),
        "size": encode_numbers([4096] * 3),
        "count": encode_numbers([1] * 3),
        **over,
    }
    return of_table("ops", columns, **(told or {}))


def integer(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def many_columns() -> bytes:
    count = 20_000
    columns = [[f"c{number}", "i64=", 8] for number in range(count)]
    return batch_as_told({"version": 9, "rows": 16384, "columns": columns}, b"".join(map(integer, range(count))))


def columns_left_out() -> bytes:
    columns = [["ts_ns", "i64=", 8], ["target", "word=", 5]]
    return batch_as_told({"table": "target", "rows": 8 << 20, "columns": columns}, integer(NOW) + b'["a"]')


def one_long_text_for_all_rows() -> bytes:
    text = json.dumps(["x" * 5000]).encode()
    columns = [["file_id", "i64=", 8], ["fs", "word=", len(text)], ["path", "word=", len(text)]]
    return batch_as_told({"table": "files", "rows": 1 << 18, "columns": columns}, integer(1) + text + text)


def many_small_of_many_constants() -> bytes:
    told = {"table": "jobs", "rows": 16384}
    names = [f"c{number}" for number in range(1000)]
    columns = [[name, "i64=", 8] for name in names]
    return b"".join(
        batch_as_told(
            {**told, "seq": seq, "version": 9, "columns": columns},
            b"".join(integer(seq << 20 | number) for number in range(1000)),
        )
        for seq in range(8)
    )


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (many_columns, CorruptInputError),
        (columns_left_out, OversizeError),
        (one_long_text_for_all_rows, OversizeError),
        (many_small_of_many_constants, InputError),
    ],
)
def test_few_bytes_do_not_become_much_memory(make: Callable[[], bytes], fault: type[Exception]) -> None:
    body = make()
    assert len(body) < 1 << 20
    with pytest.raises(fault):
        decode_batch_rows(body, limit=LIMIT)


def test_constants_of_few_rows_are_counted_and_keep_no_more_alive_than_they_say() -> None:
    told = [decoding._constant(integer(10**15 + number), "i64", 1) for number in range(100)]
    assert sum(made for _, made in told) == 800
    assert all((array if array.base is None else array.base).nbytes <= 16 for array, _ in told)
    again, made = decoding._constant(integer(10**15 + 99), "i64", 1)
    assert (again.tolist(), made) == ([10**15 + 99], 0)
    assert decoding._held[0] <= decoding._SHARED_BYTES


def test_a_body_of_too_many_batches_is_refused_before_all_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BATCHES == 20_000
    monkeypatch.setattr(decoding, "MAX_BATCHES", 10)
    body = b"".join(ops({"seq": seq}) for seq in range(12))
    with pytest.raises(Refusal) as refused:
        check_batches(body, raw_bytes=LIMIT, node="")
    assert refused.value.status == 413
    assert len(decode_batch_rows(body, "the log", 1 << 40)) == 12, "the log may hold bodies that were joined"


def test_headers_of_megabytes_and_deep_nesting_are_refused() -> None:
    deep = b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}"
    for text in (deep, b"[" * 100_000, b'{"format":1}'):
        with pytest.raises(Refusal) as refused:
            check_batches(PREFIX.pack(MAGIC, len(text), 0, zlib.crc32(text)) + text, raw_bytes=LIMIT, node="")
        assert refused.value.status == 400
    long_name = batch_as_told({"version": 9, "rows": 1, "columns": [["x" * 300, "i64=", 8]]}, integer(1))
    with pytest.raises(Refusal):
        check_batches(long_name, raw_bytes=LIMIT, node="")
    assert MAX_COLUMNS >= 256


@pytest.mark.parametrize("name", ["writer", "layer", "node", "boot_id", "table"])
def test_what_is_no_text_is_refused(name: str) -> None:
    for value in ("\ud800", "x" * 5000):
        with pytest.raises(Refusal) as refused:
            check_batches(batch_as_told({name: value}, b""), raw_bytes=LIMIT, node="")
        assert refused.value.status == 400


@pytest.mark.parametrize(
    "job",
    [
        {"job_id": "1", "start_ns": 1 << 70},
        {"job_id": "\ud800"},
        {"job_id": "x" * (1 << 20)},
        {"job_id": 7},
        {"job_id": "1", "start_ns": -LAST, "end_ns": LAST},
        {"job_id": "1", "hints": {"a": "\udc00"}},
        {},
    ],
)
def test_a_job_told_wrongly_takes_nothing_away_and_poisons_nothing(tmp_path: Path, job: dict[str, Any]) -> None:
    """In the request, in the log read again, in the tables."""
    lake = Lake.open(tmp_path / "lake", create=True)
    with Writer(lake.place, "main", now_ns=lambda: NOW, derive=derive_rollups) as writer:
        body = ops({"job": job})
        assert writer.take_batches(body, check_batches(body, raw_bytes=LIMIT, node="n1")) == (1, 0)
        assert lake.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 3}]
        writer.close(flush=False)
    with Writer(lake.place, "main", now_ns=lambda: NOW, derive=derive_rollups):
        assert lake.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 3}]


EXTREMES = {
    "ops of 292 years": ops(end_ns=encode_numbers([LAST] * 3)),
    "ops that end before they start": ops(end_ns=encode_numbers([-LAST, 0, 5])),
    "sizes": ops(size=encode_numbers([LAST, -LAST, 0]), count=encode_numbers([LAST, 1, 2])),
    "strides": ops(
        stride=encode_numbers([LAST] * 3), offset=encode_numbers([-LAST] * 3), count=encode_numbers([LAST] * 3)
    ),
    "intervals": of_table(
        "port",
        {
            "ts_ns": encode_numbers([NOW] * 3),
            "switch": encode_same_word("s", 3),
            "port": encode_same_word("p\x1b[2J", 3),
            "interval_ns": encode_numbers([LAST, -LAST, 0]),
            "tx_bytes": encode_numbers([LAST, LAST, -LAST]),
            "rate_bytes_per_s": encode_fractions([float("nan"), float("inf"), -0.0]),
        },
    ),
    "counters": of_table(
        "target",
        {
            "ts_ns": encode_numbers([NOW] * 3),
            "target": encode_same_word("t" * 255, 3),
            "interval_ns": encode_numbers([10**9] * 3),
            "read_bytes": encode_numbers([LAST] * 3),
            "write_bytes": encode_numbers([-1, LAST, LAST]),
            "read_rpcs": encode_numbers([-1] * 3),
        },
    ),
    "events": of_table(
        "events",
        {
            "ts_ns": encode_numbers([NOW] * 3),
            "end_ns": encode_numbers([-LAST, LAST, 0]),
            "component": encode_same_word("\x00\x1b]0;x\x07", 3),
            "kind": encode_same_word("gap", 3),
            "text": encode_same_word("\x1b[2J", 3),
        },
    ),
    "lists": ops(gaps_ns=encode_lists([[LAST, -LAST], None, []]), durations_ns=encode_lists([[1] * 5, None, []])),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_rows_of_extremes_are_carried_and_make_few_files(tmp_path: Path, name: str) -> None:
    """One row of an hour of a wrong clock must not make a file of every day since 1677."""
    body = EXTREMES[name]
    lake = Lake.open(tmp_path / "lake", create=True)
    with Writer(lake.place, "main", now_ns=lambda: NOW, derive=derive_rollups) as writer:
        found = check_batches(body, raw_bytes=LIMIT, node="n1")
        assert writer.take_batches(body, found) == (1, 0)
        writer.flush()
        table = found[0].header.table
        assert lake.query(f"SELECT count(*) AS n FROM {table}").to_pylist() == [{"n": 3}]  # noqa: S608
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) < 100


@pytest.mark.parametrize(
    ("first_ns", "last_ns", "fault"),
    [(LAST, None, UnfitError), (NOW, LAST, UnfitError), (0, None, TooOldError), (-LAST, NOW, UnfitError)],
)
def test_what_has_no_time_of_its_own_is_held_to_its_headers(
    tmp_path: Path, first_ns: int, last_ns: int | None, fault: type[Exception]
) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    columns = {"file_id": encode_numbers([5]), "fs": encode_words(["x"]), "path": encode_words(["/a"])}
    body = of_table("files", columns, 1, first_ns=first_ns, last_ns=last_ns)
    with Writer(lake.place, "main", now_ns=lambda: NOW) as writer, pytest.raises(fault):
        writer.take_batches(body, check_batches(body, raw_bytes=LIMIT, node="n1"))


def test_small_batches_of_constants_are_counted_as_what_they_take(tmp_path: Path) -> None:
    """Back-pressure goes by the memory of rows that wait: it must not be told by the wire's size."""
    names = ("start_ns", "end_ns", "busy_ns", "file_id", "size", "count", "offset", "stride", "handle")
    columns: dict[str, Any] = {name: encode_numbers([NOW] * 1024) for name in names}
    columns |= {name: encode_same_word("x", 1024) for name in ("node", "interface", "op")}
    body = b"".join(of_table("ops", columns, 1024, seq=seq, last_ns=NOW) for seq in range(50))
    lake = Lake.open(tmp_path / "lake", create=True)
    with Writer(lake.place, "main", now_ns=lambda: NOW) as writer:
        batches = bulk.parse_bulk_batches(body)
        assert batches is not None
        chosen, ticket, tables = writer.append_small([(body, batches)])
        assert chosen == [0]
        assert ticket is not None
        writer.settle(ticket)
        assert writer.backlog_bytes >= sum(rows.nbytes for rows in tables.values()) > 50 * 1024 * 8 * len(names)


def test_words_that_senders_choose_are_not_remembered_without_bound() -> None:
    before = bulk._remembered.cache_info().currsize
    for number in range(50):
        assert len(bulk._parsed(json.dumps([f"{number}-{place}" for place in range(1000)]).encode())) == 1000
    assert bulk._remembered.cache_info().currsize == before
    columns = [[f"c{number}", "i64=", 8] for number in range(1000)]
    assert bulk._layout(json.dumps(columns).encode()) is None
