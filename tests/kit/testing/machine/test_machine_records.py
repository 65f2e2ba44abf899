"""The made machine's records: the same bytes at every layer, whatever the interval; the same from the same seed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.rows import build_batch_rows
from fairlead.core.compression.operation_runs import expand_operation_runs, merge_operation_runs
from fairlead.core.model.tables import TABLES
from fairlead.kit.testing import machine
from fairlead.kit.testing.machine import Play, wire_bodies
from fairlead.store.lake import Lake

SECONDS = 240


@pytest.fixture(scope="module", params=["small", "two_layer"])
def play(request: pytest.FixtureRequest) -> Play:
    return (
        machine.play_small_machine(5, SECONDS)
        if request.param == "small"
        else machine.play_two_layer_machine(5, SECONDS)
    )


@pytest.fixture(scope="module")
def tables(play: Play) -> dict[str, pa.Table]:
    return play.build_tables()


def by_job(table: pa.Table, value: str) -> dict[str, int]:
    grouped = table.select(["job_id", value]).group_by("job_id").aggregate([(value, "sum")])
    return {k: v for k, v in zip(*(grouped.column(i).to_pylist() for i in range(2)), strict=True) if v}


def client_bytes(ops: pa.Table, op: str) -> dict[str, int]:
    mine = ops.filter(pc.equal(ops["op"], op))
    return by_job(mine.append_column("bytes", pc.multiply(mine["size"], mine["count"])), "bytes")


def of_source(table: pa.Table, source: str) -> pa.Table:
    return table.filter(pc.equal(table["source"], source))


@pytest.mark.parametrize("op", ["read", "write"])
def test_what_clients_moved_arrives_at_every_layer(play: Play, tables: dict[str, pa.Table], op: str) -> None:
    moved = client_bytes(tables["ops"], op)
    assert sum(moved.values()) > 1 << 30
    assert by_job(of_source(tables["target"], "job_stats"), f"{op}_bytes") == moved
    total = pc.sum(of_source(tables["target"], "obdfilter")[f"{op}_bytes"]).as_py()
    assert total == sum(moved.values())
    assert pc.sum(tables["device"][f"{op}_bytes"]).as_py() == total
    if len(play.machine.forwarders):
        forwarded = tables["forwarder"].filter(pc.equal(tables["forwarder"]["op_class"], op))
        assert by_job(forwarded, "bytes") == moved
    else:
        assert "forwarder" not in tables
    assert pc.sum(tables["pfs_client"][f"{op}_bytes"]).as_py() == total


def test_metadata_operations_arrive(play: Play, tables: dict[str, pa.Table]) -> None:
    ops = tables["ops"]
    asked = ops.filter(pc.invert(pc.is_in(ops["op"].cast(pa.string()), pa.array(["read", "write"]))))
    per_job = by_job(asked, "count")
    assert {"open", "close"} <= set(asked["op"].to_pylist())
    assert by_job(of_source(tables["metadata"], "job_stats"), "count") == per_job
    assert pc.sum(of_source(tables["metadata"], "md_stats")["count"]).as_py() == sum(per_job.values())
    assert pc.sum(of_source(tables["metadata"], "exports")["count"]).as_py() == sum(per_job.values())


def test_histograms_hold_every_request() -> None:
    forwarder = machine.play_small_machine(5, SECONDS).build_tables()["forwarder"]
    rows = forwarder.filter(pc.is_valid(forwarder["requests"]))
    for column in ("wait_ns_histogram", "service_ns_histogram"):
        sums = [sum(bins) for bins in rows[column].to_pylist()]
        assert sums == rows["requests"].to_pylist()


def test_intervals_add_up_to_the_whole(play: Play, tables: dict[str, pa.Table]) -> None:
    rows: Counter[str] = Counter()
    moved = 0
    for part in play.iterate_intervals(37):
        rows.update({name: table.num_rows for name, table in part.items()})
        moved += sum(client_bytes(part["ops"], "write").values()) if "ops" in part else 0
    assert moved == sum(client_bytes(tables["ops"], "write").values())
    assert rows == {name: table.num_rows for name, table in tables.items()}


def test_rows_are_what_they_should_be(play: Play, tables: dict[str, pa.Table]) -> None:
    ops = tables["ops"]
    start, end, busy = (ops[name].to_numpy() for name in ("start_ns", "end_ns", "busy_ns"))
    assert (end - start >= busy).all()
    assert (busy > 0).all()
    assert (end <= play.origin_ns + SECONDS * 10**9).all()
    nodes = {job["job_id"]: set(job["nodes"]) for job in tables["jobs"].to_pylist()}
    assert all(row["node"] in nodes[row["job_id"]] for row in ops.select(["node", "job_id"]).to_pylist()[::17])
    assert set(ops["file_id"].to_pylist()) <= set(tables["files"]["file_id"].to_pylist())
    assert set(tables["files"]["file_id"].to_pylist()) == set(tables["layouts"]["file_id"].to_pylist())
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name].schema), name


def test_runs_are_runs(tables: dict[str, pa.Table]) -> None:
    """Expanded and merged again they do not become more: they are as the first pass would leave them."""
    sample = tables["ops"].slice(0, 400)
    single = expand_operation_runs(sample)
    assert single.num_rows == pc.sum(sample["count"]).as_py()
    assert merge_operation_runs(single).num_rows <= sample.num_rows * 1.01


def test_every_second_has_every_target(play: Play, tables: dict[str, pa.Table]) -> None:
    whole = of_source(tables["target"], "obdfilter")
    assert whole.num_rows == len(play.machine.targets) * SECONDS
    assert pc.min(pc.subtract(whole["capacity_bytes"], whole["used_bytes"])).as_py() > 0


def test_wire_batches_hold_the_same_and_fill_a_lake(play: Play, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    manifest = wire_bodies.write_wire_bodies(play, tmp_path / "posts", 60)
    assert manifest["rows"] == sum(table.num_rows for table in tables.values())
    assert manifest["operations"] == pc.sum(tables["ops"]["count"]).as_py()
    assert manifest == json.loads((tmp_path / "posts" / "manifest.json").read_text())
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer() as writer:
        for entry in manifest["files"]:
            data = (tmp_path / "posts" / entry["file"]).read_bytes()
            assert len(data) == entry["bytes"]
            for batch in decode_stream_batches(io.BytesIO(data), entry["file"]):
                header = batch.header
                taken = writer.open_batch(f"{header.node}/{header.boot_id}/{header.table}", header.seq)
                for rows in build_batch_rows(batch, entry["file"]):
                    assert isinstance(rows, pa.RecordBatch)
                    taken.add(rows)
                assert taken.commit()
    for op in ("read", "write"):
        found = lake.query("SELECT job_id, sum(size * count)::BIGINT AS n FROM ops WHERE op = ? GROUP BY 1", [op])
        assert {row["job_id"]: row["n"] for row in found.to_pylist()} == client_bytes(tables["ops"], op)
    bytes_there = lake.query("SELECT sum(write_bytes)::BIGINT AS n FROM target WHERE source = 'obdfilter'").to_pylist()
    assert bytes_there[0]["n"] == sum(client_bytes(tables["ops"], "write").values())


def test_columns_survive_the_wire(play: Play, tables: dict[str, pa.Table]) -> None:
    for name, table in tables.items():
        batch = table.combine_chunks().to_batches()[0]
        data = wire_bodies.Cut(name, batch).encode(0, batch.num_rows, "n", "0" * 32, 1)
        (decoded,) = decode_stream_batches(io.BytesIO(data), name)
        (back,) = build_batch_rows(decoded, name)
        assert isinstance(back, pa.RecordBatch)
        for field in batch.schema:
            if field.name != "nodes":  # lists of words have no form on the wire: the job feed brings them
                assert back.column(field.name).to_pylist() == batch.column(field.name).to_pylist(), (name, field.name)


def test_same_seed_same_records_in_another_process() -> None:
    short = machine.play_small_machine(11, 60)
    code = (
        "from hashlib import blake2b\nfrom fairlead.kit.testing import machine\n"
        "from fairlead.kit.testing.machine import wire_bodies\n"
        "bodies = wire_bodies.build_wire_bodies(machine.play_small_machine(11, 60))\n"
        "print(blake2b(b''.join(b.data for b in bodies)).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == blake2b(b"".join(b.data for b in wire_bodies.build_wire_bodies(short))).hexdigest()
    other = machine.play_small_machine(12, 60)
    assert not np.array_equal([j.submit_s for j in short.drawn], [j.submit_s for j in other.drawn])
