"""Small batches read together are what they are one by one; what one by one is refused is never taken together."""

from __future__ import annotations

import json
import zlib
from array import array

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.batches import bulk
from fairlead.core.batches.decoding import decode_body_headers
from fairlead.core.batches.encoding import (
    MAGIC,
    PREFIX,
    Column,
    Header,
    Lists,
    Numbers,
    Words,
    encode_batch,
    encode_numbers,
    encode_words,
)
from fairlead.core.batches.rows import decode_batch_rows
from fairlead.core.errors import InputError

_INT = st.integers(-(1 << 62), 1 << 62)
_NAMES = st.sampled_from(["n0", "n1", "ä", "\x00", "a" * 40])


@st.composite
def _health(draw: st.DrawFn, seq: int) -> bytes:
    rows = draw(st.integers(1, 5))
    columns: dict[str, Column] = {
        "ts_ns": encode_numbers(draw(st.lists(_INT, min_size=rows, max_size=rows))),
        "node": encode_words(draw(st.lists(_NAMES, min_size=rows, max_size=rows))),
        "probe": encode_words(draw(st.lists(_NAMES, min_size=rows, max_size=rows))),
        "state": encode_words(["ok"] * rows),
    }
    for name in ("interval_ns", "runs", "failures", "memory_bytes"):
        if draw(st.booleans()):
            columns[name] = encode_numbers(draw(st.lists(st.none() | _INT, min_size=rows, max_size=rows)))
    if draw(st.booleans()):
        columns["text"] = encode_words(draw(st.lists(st.none() | _NAMES, min_size=rows, max_size=rows)))
    header = Header("health", 1, draw(_NAMES), "b", seq, rows, "agent", "test", draw(st.none() | _INT), None)
    return encode_batch(header, columns)


@st.composite
def _ops(draw: st.DrawFn, seq: int) -> bytes:
    rows = draw(st.integers(1, 6))

    def some(values: st.SearchStrategy[int]) -> Numbers:
        return encode_numbers(draw(st.lists(values, min_size=rows, max_size=rows)))

    columns: dict[str, Column] = {
        "start_ns": some(_INT),
        "end_ns": some(_INT),
        "busy_ns": some(_INT),
        "node": encode_words(["n0"] * rows),
        "job_id": encode_words(draw(st.lists(st.none() | _NAMES, min_size=rows, max_size=rows))),
        "rank": some(st.integers(-1, 1 << 33) if draw(st.integers(0, 9)) == 0 else st.integers(-1, 99)),
        "interface": encode_words(["POSIX"] * rows),
        "fs": encode_words(["/"] * rows),
        "op": encode_words(draw(st.lists(st.sampled_from(["read", "write"]), min_size=rows, max_size=rows))),
        "file_id": some(_INT),
        "handle": some(_INT),
        "offset": some(_INT),
        "size": some(_INT),
        "stride": some(_INT),
        "count": some(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 9)),
    }
    if draw(st.booleans()):
        lengths = draw(st.lists(st.integers(-1, 3), min_size=rows, max_size=rows))
        held = sum(max(length, 0) for length in lengths)
        columns["gaps_ns"] = Lists(array("i", lengths), array("q", range(held)))
    header = Header(
        "ops", 2, "n0", "b", seq, rows, "agent", "test", None, None, draw(st.none() | st.just({"job_id": "7"}))
    )
    return encode_batch(header, columns)


@st.composite
def _batches(draw: st.DrawFn) -> list[bytes]:
    return [draw(_health(seq) if draw(st.booleans()) else _ops(seq)) for seq in range(draw(st.integers(1, 6)))]


def _tables(body: bytes) -> dict[str, pa.Table]:
    """The rows of a body by table, read one by one; words as strings."""
    found: dict[str, list[pa.RecordBatch]] = {}
    for one in decode_batch_rows(body):
        assert one.rows is not None
        found.setdefault(one.header.table, []).append(one.rows)
    return {name: pa.Table.from_batches(some) for name, some in found.items()}


def _same(one: pa.Table, other: pa.RecordBatch) -> bool:
    return one.to_pylist() == other.to_pylist() and one.schema.equals(other.schema, check_metadata=True)


@settings(deadline=None, max_examples=150)
@given(_batches())
def test_together_they_are_what_they_are_one_by_one(parts: list[bytes]) -> None:
    body = b"".join(parts)
    found = bulk.parse_bulk_batches(body)
    assert found is not None
    assert [(one.header, one.begin, one.end) for one in found] == list(decode_body_headers(body, "here"))
    together = bulk.build_bulk_rows(found)
    try:
        wanted = _tables(body)
    except InputError:
        assert together is None
        return
    assert together is not None
    assert together.keys() == wanted.keys()
    assert all(_same(wanted[name], together[name]) for name in wanted)


@settings(deadline=None, max_examples=300)
@given(_batches(), st.data())
def test_nothing_damaged_is_taken_together(parts: list[bytes], data: st.DataObject) -> None:
    body = bytearray(b"".join(parts))
    kind = data.draw(st.sampled_from(["flip", "cut", "swap"]))
    at = data.draw(st.integers(0, len(body) - 1))
    if kind == "flip":
        body[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del body[at:]
    else:  # a header that is well-formed and says something else of the same payload
        body = bytearray(_told_otherwise(bytes(body), data))
    found = bulk.parse_bulk_batches(bytes(body))
    together = bulk.build_bulk_rows(found) if found else None
    if together is not None:
        wanted = _tables(bytes(body))  # must not raise
        assert all(_same(wanted[name], together[name]) for name in wanted)


def _told_otherwise(body: bytes, data: st.DataObject) -> bytes:
    _, header_bytes, payload_bytes, _ = PREFIX.unpack_from(body)
    first = PREFIX.size + header_bytes
    about = json.loads(body[PREFIX.size : first])
    name = data.draw(st.sampled_from([*about, "columns", "columns"]))
    if name == "columns":
        column = data.draw(st.sampled_from(about["columns"]))
        place = data.draw(st.integers(0, 2))
        column[place] = data.draw(
            st.sampled_from(["ts_ns", "node", "text", "i64", "i64=", "f64", "word", "word=", "i64s", 0, 8, -8, None, 9])
        )
    else:
        about[name] = data.draw(
            st.sampled_from([None, -1, 0, 1, 2, 1.5, 1 << 62, 1 << 63, 1 << 80, "", "x", "ops", "health", {}, [], True])
        )
    text = json.dumps(about).encode()
    return PREFIX.pack(MAGIC, len(text), payload_bytes, zlib.crc32(text)) + text + body[first:]


def test_words_are_joined_by_word_not_by_code() -> None:
    def one(seq: int, codes: list[int], known: list[str]) -> bytes:
        columns: dict[str, Column] = {
            "ts_ns": encode_numbers([seq] * len(codes)),
            "node": encode_words(["n"] * len(codes)),
            "probe": Words(array("i", codes), known),
            "state": encode_words(["ok"] * len(codes)),
        }
        return encode_batch(Header("health", 1, "n", "b", seq, len(codes)), columns)

    found = bulk.parse_bulk_batches(one(1, [0, 1], ["a", "b"]) + one(2, [1, 0], ["c", "a"]))
    assert found is not None
    together = bulk.build_bulk_rows(found)
    assert together is not None
    assert together["health"].column("probe").to_pylist() == ["a", "b", "a", "c"]
    beyond = bulk.parse_bulk_batches(one(1, [0, 2], ["a", "b"]) + one(2, [1, 0], ["c", "a"]))
    assert beyond is not None
    assert bulk.build_bulk_rows(beyond) is None  # a code without a word must not reach the words of the next batch
