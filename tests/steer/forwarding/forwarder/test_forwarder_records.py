"""A forwarder's records: every request is in one interval, class and job; targets, caches and clients besides."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from fairlead.core.batches.spool import Spool
from fairlead.core.model.tables import TABLES
from fairlead.see.sources.spool import SpoolSource
from fairlead.steer.forwarding.forwarder.counters import BINS, EDGES_NS, fold_forwarder_counters
from fairlead.steer.forwarding.forwarder.records import ForwarderRecords, build_forwarder_records
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.targets.objects import Counters

METADATA, READ, WRITE = 0, 1, 2
Row = dict[str, object]


def _records(folder: Path, **options: object) -> ForwarderRecords:
    spool = Spool(folder, node="n1", writer="forwarder:fwd0", layer="forwarder")
    return ForwarderRecords(spool, "fwd0", tree="/export", **options)  # type: ignore[arg-type]


def _rows(folder: Path, table: str) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(folder.glob("*.batch")):
        for item in SpoolSource().read(path):
            assert isinstance(item, pa.RecordBatch), item
            if item.schema.metadata[b"fairlead.table"] == table.encode():
                rows += item.to_pylist()
    return rows


def _total(rows: list[Row], name: str, **wanted: object) -> int:
    return sum(
        int(row[name] or 0)  # type: ignore[call-overload]
        for row in rows
        if all(row[key] == value for key, value in wanted.items())
    )


def test_requests_count_into_their_class_and_job(tmp_path: Path) -> None:
    records = _records(tmp_path)
    for k in range(10):
        records.look(k, 16 * (k + 1))
        records.executed((READ, Op.READ, "7", 1000 * k, 5_000, 4096, "c1", 0))
    records.executed((WRITE, Op.WRITE, "7", 0, 1 << 50, 100, "c1", 0))
    records.executed((WRITE, Op.WRITE, 12, 0, 1, 1, "c2", 0))  # a client without jobs
    records.executed((METADATA, Op.CREATE, "7", 5, 5, 0, "c1", 0))
    records.executed((METADATA, Op.SETATTR, "7", 5, 5, 0, "c1", -2))
    records.executed((METADATA, Op.LOOKUP, "7", 5, 5, 0, "c1", 1))  # refused: it comes again
    records.close()
    rows = _rows(tmp_path, "forwarder")
    assert _total(rows, "requests", op_class="read", job_id="7") == 10
    assert _total(rows, "bytes", op_class="read", job_id="7") == 40_960
    assert _total(rows, "requests", op_class="write", job_id="7") == 1
    assert _total(rows, "bytes", op_class="write", job_id=None) == 1
    assert _total(rows, "requests", op_class="metadata") == 2
    (read,) = [row for row in rows if row["op_class"] == "read"]
    assert len(read["wait_ns_histogram"]) == BINS == len(EDGES_NS) - 1  # type: ignore[arg-type]
    assert read["wait_ns_histogram"][0] == 1  # type: ignore[index]
    for k in range(1, 10):
        at = next(b for b in range(BINS) if EDGES_NS[b] <= 1000 * k < EDGES_NS[b + 1])
        assert read["wait_ns_histogram"][at] > 0  # type: ignore[index]
    (write,) = [row for row in rows if row["op_class"] == "write" and row["job_id"]]
    assert write["service_ns_histogram"][-1] == 1  # type: ignore[index]
    (everything,) = [row for row in rows if row["op_class"] == "all"]
    assert everything["queue_len_max"] == 9
    assert everything["queue_len_mean"] is None
    operations = {(row["client"], row["job_id"], row["op"]): row["count"] for row in _rows(tmp_path, "metadata")}
    assert operations == {("c1", "7", "create"): 1, ("c1", "7", "setattr"): 1}


def test_the_queue_is_sampled_about_each_thousandth_request(tmp_path: Path) -> None:
    records = _records(tmp_path)
    for k in range(1, 3025):
        records.executed((READ, Op.READ, "7", 0, 0, 0, "c1", 0))
        if not k & 15:
            records.look((k - 1) // 1008 * 10, k)
    records.close()
    (row,) = [row for row in _rows(tmp_path, "forwarder") if row["op_class"] == "all"]
    assert row["queue_len_mean"] == pytest.approx(10.0)
    assert row["queue_len_max"] == 20


def test_many_workers_lose_nothing(tmp_path: Path) -> None:
    records = _records(tmp_path, interval_s=0.001, file_s=0.01)
    records.start()

    def work(number: int) -> None:
        for _ in range(5000):
            records.executed((READ, Op.READ, f"job{number % 3}", 1, 1, 10, "c", 0))
            records.executed((METADATA, Op.GETATTR, f"job{number % 3}", 1, 1, 0, "c", 0))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records.close()
    rows = _rows(tmp_path, "forwarder")
    assert _total(rows, "requests", op_class="read") == 30_000
    assert _total(rows, "bytes", op_class="read", job_id="job1") == 100_000
    assert _total(_rows(tmp_path, "metadata"), "count", op="stat") == 30_000
    assert _total(_rows(tmp_path, "target"), "read_rpcs") == 30_000


def test_a_directory_is_one_target_with_its_space(tmp_path: Path) -> None:
    export = tmp_path / "export"
    export.mkdir()
    tree = DirectoryTree(export)
    records = build_forwarder_records(tree, tmp_path / "spool", "fwd0")
    records.executed((READ, Op.READ, "7", 0, 100, 4096, "c1", 0))
    records.executed((WRITE, Op.WRITE, "7", 0, 100, 10, "c1", 0))
    records.close()
    tree.close()
    (done,) = [row for row in _rows(tmp_path / "spool", "target") if row["job_id"]]
    assert (done["target"], done["read_rpcs"], done["write_bytes"]) == (str(export), 1, 10)
    assert sum(done["service_ns_histogram"]) == 2  # type: ignore[call-overload]
    (space,) = [row for row in _rows(tmp_path / "spool", "target") if not row["job_id"]]
    found = os.statvfs(export)
    assert space["capacity_bytes"] == found.f_blocks * found.f_frsize
    assert space["read_rpcs"] is None
    (client,) = _rows(tmp_path / "spool", "pfs_client")
    assert (client["node"], client["target"], client["read_bytes"], client["write_rpcs"]) == (
        "fwd0",
        str(export),
        4096,
        1,
    )


@dataclass
class _Space:
    name: str
    capacity: int | None = 1000
    used: int | None = 10
    inodes: int | None = None


@dataclass
class _Striped:
    """A striped tree as far as records go."""

    done: dict[str, dict[str, Counters]] = field(default_factory=dict)
    placed: object = None

    def report_targets(self) -> list[_Space]:
        return [_Space("t0"), _Space("t1", None, None)]

    def take_by_job(self) -> dict[str, dict[str, Counters]]:
        taken, self.done = self.done, {}
        return taken


@dataclass
class _Cache:
    hits: int = 0
    misses: int = 0
    discards: int = 0


def test_targets_and_the_cache_are_counted_by_interval(tmp_path: Path) -> None:
    striped, cache = _Striped(), _Cache()
    records = _records(tmp_path, striped=striped, cache=lambda: cache)
    for k in range(2):
        counters = Counters()
        counters.add(100 * (k + 1), True, 5)
        striped.done = {"t0": {"7": counters}}
        cache.hits += 3
        cache.discards += k
        records.flush()
    assert striped.placed is not None
    striped.placed(5, ["t0", "t1"])  # type: ignore[operator]
    striped.placed(6, ["t1"], "/run/out")  # type: ignore[operator]
    records.close()
    rows = _rows(tmp_path, "target")
    assert [row["write_bytes"] for row in rows if row["job_id"] == "7"] == [100, 200]
    assert {row["capacity_bytes"] for row in rows if row["target"] == "t0" and not row["job_id"]} == {1000}
    clients = _rows(tmp_path, "pfs_client")
    assert [(row["cache_hit"], row["cache_discard"]) for row in clients if row["cache_hit"]] == [(3, 0), (3, 1)]
    assert _total(clients, "write_rpcs", target="t0") == 2
    mapped = [(row["kind"], row["a"], row["b"]) for row in _rows(tmp_path, "mapping")]
    assert mapped == [
        ("file_targets", "/export:5", "t0"),
        ("file_targets", "/export:5", "t1"),
        ("file_targets", "/export:/run/out", "t1"),
    ]


def test_who_was_served_until_when(tmp_path: Path) -> None:
    records = _records(tmp_path)
    records.record_connect("c1", "s1")
    records.record_connect("c1", "s1")  # again, after a lost connection
    records.record_connect("c2", "s2")
    records.record_disconnect("s1")
    records.record_disconnect("s1")
    records.flush()
    ended = {(row["a"], row["b"], row["to_ns"] is not None) for row in _rows(tmp_path, "mapping")}
    assert ended == {("c1", "fwd0", False), ("c1", "fwd0", True), ("c2", "fwd0", False)}
    records.close()
    begun = {row["from_ns"] for row in _rows(tmp_path, "mapping") if row["a"] == "c2"}
    assert len(begun) == 1
    assert [row["to_ns"] is not None for row in _rows(tmp_path, "mapping") if row["a"] == "c2"] == [False, True]


def test_an_idle_forwarder_writes_only_what_space_it_has(tmp_path: Path) -> None:
    records = _records(tmp_path)
    records.flush()
    records.close()
    assert not list(tmp_path.iterdir())
    assert set(TABLES) > {"forwarder", "metadata", "pfs_client", "target", "mapping"}


def test_histograms_end_with_all_that_is_longer() -> None:
    raw = [0] * 65
    raw[BINS - 2], raw[BINS - 1], raw[64] = 1, 2, 3
    assert fold_forwarder_counters(raw) == [0] * (BINS - 2) + [1, 5]
