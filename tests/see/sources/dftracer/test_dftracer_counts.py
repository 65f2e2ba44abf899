"""Real DFTracer traces: events, bytes and paths equal a plain count of their JSON lines."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from dftracer_writing import Read, read
from fairlead.see.sources.registered_sources import list_registered_sources, load_registered_source

CM1 = [f"cm1_1_48_20240926/cm1-DEFAULT-{pid}-preload.pfw.gz" for pid in range(3537780, 3537788)]
TRACES = [*CM1, "test.pfw.gz", "test_data1.pfw"]
WORDS = {
    "__xstat": "stat",
    "__fxstat": "stat",
    "__lxstat": "stat",
    "fclose": "close",
    "fopen": "open",
    "fopen64": "open",
    "lseek": "seek",
    "fread": "read",
    "Fread": "read",
    "ftruncate": "truncate",
    "remove": "unlink",
}

pytestmark = pytest.mark.shared_data


def _events(path: Path) -> list[dict]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in raw.split(b"\n") if line.strip(b" []")]


def _bytes(event: dict) -> int | None:
    ret = event["args"].get("ret")
    if WORDS.get(event["name"], event["name"]) not in ("read", "write") or ret is None:
        return None
    return max(int(ret), 0) * (event["args"]["size"] if event["name"] == "fread" else 1)


@pytest.fixture(params=[False, True], ids=["json", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.parametrize("name", TRACES)
def test_events_bytes_and_paths(shared_data: Path, name: str, compiled: bool) -> None:
    path = shared_data / "dftracer" / name
    events = [e for e in _events(path) if e["ph"] == "X" and e["cat"] != "dftracer"]
    got = read(path, compiled=compiled)
    rows = got.rows
    expected = Counter((e["cat"], WORDS.get(e["name"], e["name"])) for e in events)
    assert Counter((r["interface"], r["op"]) for r in rows) == expected
    for row, found, path_found in zip(rows, events, got.paths(), strict=True):
        assert row["start_ns"] == int(found["ts"]) * 1000
        assert row["busy_ns"] == int(found["dur"]) * 1000
        assert row["size"] == _bytes(found)
        assert (path_found is None) == ("fhash" not in found["args"] and "fname" not in found["args"])
        if "fname" in found["args"]:
            assert path_found == found["args"]["fname"]
    assert got.job.end_ns is not None


@pytest.mark.parametrize("name", CM1)
def test_cm1_processes(shared_data: Path, name: str) -> None:
    path = shared_data / "dftracer" / name
    got = read(path)
    rank = CM1.index(name)
    assert set(got.column("rank")) == {rank}
    assert set(got.column("node")) == {"corona173"}
    assert (got.job.program, got.job.nodes, got.job.processes) == ("./cm1.exe", ["corona173"], 1)
    # 16-bit hashes: some stand for two paths. All other operations must have the path of their hash.
    assert got.kinds == ["hash_collisions"]
    meanings: dict[int, set[str]] = {}
    events = _events(path)
    for event in events:
        if event["name"] == "FH":
            meanings.setdefault(event["args"]["value"], set()).add(event["args"]["name"])
    hashes = [e["args"].get("fhash") for e in events if e["ph"] == "X" and e["cat"] != "dftracer"]
    assert all(path in meanings[code] for path, code in zip(got.paths(), hashes, strict=True))
    doubtful = sum(len(paths) > 1 for paths in meanings.values())
    assert got.missing[0].why.startswith(f"{doubtful} of")


def test_offsets_continue_each_other(shared_data: Path) -> None:
    """Every read of the DLIO trace follows the one before: its 1,000 reads of 131,072 bytes of one file."""
    got = read(shared_data / "dftracer" / "test.pfw.gz")
    reads = [row for row in got.rows if row["op"] == "read"]
    assert [row["offset"] for row in reads] == [131_072 * i for i in range(len(reads))]
    assert len(reads) == 1000


def test_all_traces_are_recognised_by_content(shared_data: Path) -> None:
    for name in TRACES:
        path = shared_data / "dftracer" / name
        raw = path.read_bytes()
        head = (gzip.decompress(raw) if path.suffix == ".gz" else raw)[:8192]
        assert next(n for n in list_registered_sources() if load_registered_source(n).accepts(head, path)) == "dftracer"


def test_one_trace_of_all_processes(shared_data: Path, tmp_path: Path) -> None:
    """All processes' lines in one file, as DFTracer's merge writes them, are read as eight ranks."""
    parts = [gzip.decompress((shared_data / "dftracer" / name).read_bytes()) for name in CM1]
    merged = tmp_path / "all.pfw"
    merged.write_bytes(b"".join(parts))
    apart: list[Read] = [read(shared_data / "dftracer" / name) for name in CM1]
    got = read(merged, compiled=True)
    assert got.job.processes == 8
    assert got.ops.num_rows == sum(part.ops.num_rows for part in apart)
    assert set(got.column("rank")) == set(range(8))
    columns = ["start_ns", "rank", "op", "size", "offset", "file_id", "handle"]
    separate = pa.concat_tables([part.ops for part in apart]).select(columns)
    assert got.ops.select(columns).to_pylist() == separate.to_pylist()
