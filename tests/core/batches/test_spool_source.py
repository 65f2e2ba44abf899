"""Spool files as a source: what was written is read back, what is damaged is said, nothing is counted twice."""

from __future__ import annotations

import io
import json
import zlib
from array import array
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.cli.main import cli
from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.encoding import (
    MAGIC,
    PREFIX,
    Header,
    Lists,
    Numbers,
    Words,
    encode_batch,
    encode_fractions,
    encode_lists,
    encode_numbers,
    encode_words,
)
from fairlead.core.errors import CorruptInputError, InputError, UnsupportedVersionError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import TABLES
from fairlead.see.ingest import find_ingest_traces, ingest_jobs
from fairlead.see.sources.inputs import detect_input_source
from fairlead.see.sources.spool import SpoolSource
from fairlead.store.lake import Lake

NOW = 1_760_000_000 * 10**9
JOB: dict[str, object] = {"job_id": "77", "user": "ada", "start_ns": NOW, "end_ns": NOW + 10**9, "nodes": ["n1"]}


def _header(table: str, rows: int, **more: object) -> Header:
    values: dict[str, object] = {
        "table": table,
        "version": TABLES[table].version if table in TABLES else 1,
        "node": "n1",
        "boot_id": "b" * 32,
        "seq": 1,
        "rows": rows,
        "writer": "mount:/m",
        "first_ns": NOW,
        "last_ns": NOW + 10**9,
    }
    return Header(**(values | more))  # type: ignore[arg-type]


def _ops(rows: int = 3, *, seq: int = 1, job: dict[str, object] | None = JOB, **more: object) -> bytes:
    columns = {
        "start_ns": encode_numbers([NOW + k * 10**7 for k in range(rows)]),
        "end_ns": encode_numbers([NOW + k * 10**7 + 10**6 for k in range(rows)]),
        "busy_ns": encode_numbers([10**6] * rows),
        "node": encode_words(["n1"] * rows),
        "job_id": encode_words(["77"] * rows),
        "rank": encode_numbers([0] * rows),
        "interface": encode_words(["fuse"] * rows),
        "op": encode_words([("write", "read", "open")[k % 3] for k in range(rows)]),
        "file_id": encode_numbers([5] * rows),
        "offset": encode_numbers([k << 20 if k % 3 < 2 else None for k in range(rows)]),
        "size": encode_numbers([1 << 20 if k % 3 < 2 else None for k in range(rows)]),
        "count": encode_numbers([1] * rows),
    }
    return encode_batch(_header("ops", rows, seq=seq, job=job, **more), columns)


def _forwarder(rows: int = 2) -> bytes:
    columns = {
        "ts_ns": encode_numbers([NOW] * rows),
        "node": encode_words(["fwd0"] * rows),
        "op_class": encode_words(["read"] * rows),
        "wait_ns_histogram": encode_lists([([1, 2, 3], None)[k % 2] for k in range(rows)]),
        "queue_len_mean": encode_fractions([(1.5, None)[k % 2] for k in range(rows)]),
    }
    return encode_batch(_header("forwarder", rows, layer="forwarder", writer="forwarder:fwd0"), columns)


def _read(path: Path) -> list[object]:
    return list(SpoolSource().read(path))


def _file(folder: Path, *parts: bytes, name: str = "a.batch") -> Path:
    path = folder / name
    path.write_bytes(b"".join(parts))
    return path


def test_columns_of_every_kind_come_back(tmp_path: Path) -> None:
    path = _file(tmp_path, _ops(4), _forwarder())
    job, ops, forwarder = _read(path)
    assert isinstance(job, Job)
    assert (job.job_id, job.user, job.nodes, job.start_ns) == ("77", "ada", ["n1"], NOW)
    assert isinstance(ops, pa.RecordBatch)
    assert ops.schema == TABLES["ops"].schema
    assert ops.column("op").to_pylist() == ["write", "read", "open", "write"]
    assert ops.column("offset").to_pylist() == [0, 1 << 20, None, 3 << 20]
    assert ops.column("rank").type == pa.int32()
    assert isinstance(forwarder, pa.RecordBatch)
    assert forwarder.column("wait_ns_histogram").to_pylist() == [[1, 2, 3], None]
    assert forwarder.column("queue_len_mean").to_pylist() == [1.5, None]
    assert forwarder.column("bytes").to_pylist() == [None, None]


@given(
    st.lists(st.none() | st.text(max_size=5), max_size=20),
    st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=20),
    st.lists(st.none() | st.lists(st.integers(0, 1 << 40), max_size=3), max_size=20),
)
@settings(deadline=None)
def test_what_is_encoded_is_decoded(
    texts: list[str | None], integers: list[int | None], nested: list[list[int] | None]
) -> None:
    for column, rows in (
        (encode_words(texts), len(texts)),
        (encode_numbers(integers), len(integers)),
        (encode_lists(nested), len(nested)),
    ):
        (batch,) = decode_stream_batches(io.BytesIO(encode_batch(_header("ops", rows), {"c": column})), "memory")
        decoded = batch.columns.get("c")
        if decoded is None:  # a column of nulls is left out
            assert rows
            assert column.valid == bytes(rows)  # type: ignore[union-attr]
            continue
        if isinstance(decoded, Words):
            assert [None if c < 0 else decoded.words[c] for c in decoded.codes] == texts
        elif isinstance(decoded, Numbers):
            valid = decoded.valid or b"\1" * rows
            assert [v if ok else None for v, ok in zip(decoded.values, valid, strict=True)] == integers
        else:
            at = 0
            for wanted, length in zip(nested, decoded.lengths, strict=True):
                assert (None if length < 0 else decoded.values[at : at + length].tolist()) == wanted
                at += max(length, 0)


def test_a_truncated_file_gives_what_is_whole(tmp_path: Path) -> None:
    whole = _ops(4)
    for cut in (1, PREFIX.size - 1, PREFIX.size + 3, len(whole) - 1):
        items = _read(_file(tmp_path, whole, _ops(4)[:cut]))
        assert isinstance(items[-1], Missing)
        assert items[-1].kind == "truncated"
        assert [item.num_rows for item in items if isinstance(item, pa.RecordBatch)] == [4]
        with pytest.raises(CorruptInputError):
            _read(_file(tmp_path, whole[:cut]))


@given(st.data())
@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
def test_damage_never_goes_unsaid(tmp_path: Path, data: st.DataObject) -> None:
    """Any change of the bytes is refused or said, and never a crash: the checksums hold all of it."""
    raw = bytearray(_ops(5) + _forwarder())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= data.draw(st.integers(1, 255))
    path = _file(tmp_path, bytes(raw))
    try:
        items = _read(path)
    except InputError:
        return
    if bytes(raw) != _ops(5) + _forwarder():
        assert any(isinstance(item, Missing) for item in items)


def _made(about: dict[str, object], payload: bytes) -> bytes:
    """A batch whose checksums hold, whatever it says: as a hostile writer would make it."""
    base: dict[str, object] = {
        "format": 1,
        "table": "events",
        "version": 1,
        "node": "n",
        "boot_id": "b",
        "seq": 1,
        "rows": 1,
        "layer": "x",
        "writer": "w",
        "first_ns": None,
        "last_ns": None,
        "job": None,
        "columns": [],
        "raw_bytes": 0,
        "checksum": blake2b(payload, digest_size=16).hexdigest(),
    }
    text = json.dumps(base | about).encode()
    return PREFIX.pack(MAGIC, len(text), len(payload), zlib.crc32(text)) + text + payload


CODE = array("i", [0]).tobytes()
NUMBER = array("q", [7]).tobytes()
HOSTILE = {
    "a bomb": ({"raw_bytes": 10}, zlib.compress(bytes(50_000_000))),
    "an impossible size": ({"raw_bytes": 1 << 60}, zlib.compress(b"")),
    "no zlib": ({"raw_bytes": 10}, b"nonsense"),
    "rows without columns": ({"rows": 1 << 61}, zlib.compress(b"")),
    "negative rows": ({"rows": -1}, zlib.compress(b"")),
    "a code beyond its words": ({"columns": [["kind", "word", 9]], "raw_bytes": 9}, zlib.compress(CODE + b'["a"]'[:5])),
    "words that are numbers": ({"columns": [["kind", "word", 7]], "raw_bytes": 7}, zlib.compress(CODE + b"[1]")),
    "a code below null": (
        {"columns": [["kind", "word", 9]], "raw_bytes": 9},
        zlib.compress(array("i", [-2]).tobytes() + b'["a"]'),
    ),
    "a list too long": (
        {"columns": [["kind", "i64s", 12]], "raw_bytes": 12},
        zlib.compress(array("i", [9]).tobytes() + NUMBER),
    ),
    "an unknown kind": ({"columns": [["kind", "tree", 8]], "raw_bytes": 8}, zlib.compress(NUMBER)),
    "an unknown column": ({"columns": [["strange", "i64", 8]], "raw_bytes": 8}, zlib.compress(NUMBER)),
    "no columns at all": ({"columns": None}, zlib.compress(b"")),
    "columns of nothing": ({"columns": [3]}, zlib.compress(b"")),
    "trailing data after its columns": ({"raw_bytes": 8}, zlib.compress(NUMBER)),
    "a section beyond the end": ({"columns": [["ts_ns", "i64", 800]], "raw_bytes": 8}, zlib.compress(NUMBER)),
    "a list for a job": ({"job": [1]}, zlib.compress(b"")),
    "a number for a table": ({"table": 3}, zlib.compress(b"")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_batches_are_refused(name: str, tmp_path: Path) -> None:
    about, payload = HOSTILE[name]
    with pytest.raises(CorruptInputError):
        _read(_file(tmp_path, _made(about, payload)))


def test_columns_of_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    good = {
        "ts_ns": encode_numbers([NOW]),
        "component": encode_words(["c"]),
        "kind": encode_words(["k"]),
        "text": encode_words(["t"]),
    }
    assert len(_read(_file(tmp_path, encode_batch(_header("events", 1), good)))) == 1
    for bad in (
        {"kind": encode_numbers([7])},
        {"ts_ns": encode_words(["soon"])},
        {"kind": encode_words(["\ud800"])},
        {"ts_ns": encode_fractions([0.5])},
        {"strange": encode_numbers([1])},
        {"kind": encode_words([None])},
    ):
        with pytest.raises(CorruptInputError):
            _read(_file(tmp_path, encode_batch(_header("events", 1), good | bad)))


def test_newer_batches_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedVersionError):
        _read(_file(tmp_path, MAGIC[:-1] + b"2" + bytes(12)))
    with pytest.raises(UnsupportedVersionError):
        _read(_file(tmp_path, _made({"format": 2}, zlib.compress(b""))))
    (missing,) = _read(_file(tmp_path, _made({"table": "tomorrow"}, zlib.compress(b""))))
    assert isinstance(missing, Missing)
    assert missing.kind == "unknown_table"
    columns = {
        "ts_ns": encode_numbers([NOW]),
        "component": encode_words(["c"]),
        "kind": encode_words(["k"]),
        "text": encode_words(["t"]),
        "colour": encode_words(["red"]),
    }
    gap, rows = _read(_file(tmp_path, encode_batch(_header("events", 1, version=99), columns)))
    assert isinstance(gap, Missing)
    assert "colour" in gap.what
    assert isinstance(rows, pa.RecordBatch)
    assert rows.num_rows == 1


def _twice(columns: dict[str, Words | Numbers]) -> dict[str, Words | Numbers]:
    return {
        name: Words(column.codes * 2, column.words) if isinstance(column, Words) else Numbers(column.values * 2)
        for name, column in columns.items()
    }


def test_a_run_of_no_operation_is_refused(tmp_path: Path) -> None:
    columns = {
        "start_ns": encode_numbers([1]),
        "end_ns": encode_numbers([2]),
        "busy_ns": encode_numbers([1]),
        "interface": encode_words(["fuse"]),
        "op": encode_words(["read"]),
        "count": encode_numbers([0]),
    }
    with pytest.raises(CorruptInputError, match="fewer than one"):
        _read(_file(tmp_path, encode_batch(_header("ops", 1), columns)))
    with pytest.raises(CorruptInputError, match="null"):
        _read(_file(tmp_path, encode_batch(_header("ops", 2), _twice(columns) | {"count": encode_numbers([None, 1])})))
    with pytest.raises(CorruptInputError, match="rank"):
        _read(_file(tmp_path, encode_batch(_header("ops", 1), columns | {"rank": encode_numbers([1 << 40])})))
    with pytest.raises(CorruptInputError):
        _read(
            _file(
                tmp_path, encode_batch(_header("ops", 1), columns | {"rank": Lists(array("i", [1]), array("q", [1]))})
            )
        )


def test_it_is_found_by_its_content(tmp_path: Path) -> None:
    assert detect_input_source(_file(tmp_path, _ops(), name="anything.txt")).name == "spool"


def test_a_spool_is_taken_in_once(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    for seq in range(3):
        _file(spool, _ops(6, seq=seq), name=f"{seq}.batch")
    _file(spool, _forwarder(), name="9.batch")
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer("main") as writer:
        states = [outcome.state for outcome in ingest_jobs(writer, find_ingest_traces([spool])[0])]
        assert states == ["added"] * 4
        (spool / "copy.batch").write_bytes((spool / "1.batch").read_bytes())
        assert [outcome.state for outcome in ingest_jobs(writer, find_ingest_traces([spool])[0])] == ["known"] * 5
    assert lake.query("SELECT sum(count) AS n FROM ops").to_pylist() == [{"n": 18}]
    assert lake.query("SELECT count(*) AS n FROM jobs").to_pylist() == [{"n": 1}]
    assert lake.query("SELECT count(*) AS n FROM forwarder").to_pylist() == [{"n": 2}]


def test_a_report_of_a_spool_is_one_a_job_and_leaves_servers_out(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    for seq in range(3):
        _file(spool, _ops(6, seq=seq), name=f"{seq}.batch")
    _file(spool, _ops(4, seq=9, job=JOB | {"job_id": "78"}), name="7.batch")
    _file(spool, _forwarder(), name="9.batch")
    done = CliRunner().invoke(cli, ["report", str(spool), "--json", "-"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    reports = {one["job"]["id"]: one for one in told["reports"]}
    assert reports.keys() == {"77", "78"}
    assert reports["77"]["metrics"]["write_bytes"] == 6 << 20
    assert reports["77"]["metrics"]["opens"] == 6
