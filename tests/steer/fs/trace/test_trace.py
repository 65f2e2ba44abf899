"""The client's trace: every request is in a run, under the path its node had when it ended; nothing ever waits."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.batches.spool import Spool
from fairlead.core.clock import monotonic_ns
from fairlead.core.compression.operation_runs import expand_operation_runs
from fairlead.core.model.identity import compute_file_identity
from fairlead.core.model.tables import OPS
from fairlead.see.sources.spool import SpoolSource
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.fuse.messages import NAME_AT
from fairlead.steer.fs.trace import recorder
from fairlead.steer.fs.trace.path_names import PathNames
from fairlead.steer.fs.trace.recorder import Trace
from fairlead.steer.fs.trace.result_ring import RECORD, Ring
from fairlead.steer.fs.trace.runs import Runs
from fairlead.steer.fs.wire.handshake import Identity

READ, WRITE = int(Op.READ), int(Op.WRITE)
MS = 1_000_000


def _record_name(
    trace: Trace, op: Op, parent: int, name: bytes, began: int, ended: int, job: int, *, node: int = 0, handle: int = 0
) -> None:
    """A request about a name that succeeded, as the kernel sends it."""
    message = bytes(NAME_AT[op]) + name + b"\0"
    reply = memoryview(node.to_bytes(8, "little") if node else b"")
    trace.record_message(int(op), parent, handle, message, reply, began, ended, job)


def _trace(folder: Path, **options: int) -> Trace:
    trace = Trace(Spool(folder, node="n1", writer="mount:/m"), fs="tree", mount_point="/m", **options)  # type: ignore[arg-type]
    trace.identities = {
        1: Identity(job_id="77", user="ada", rank=0),
        2: Identity(job_id="77", user="ada", rank=1),
        3: Identity(job_id="78", user="bob"),
    }
    return trace


def _rows(folder: Path, table: str = "ops") -> list[dict[str, object]]:
    rows = []
    for path in sorted(folder.glob("*.batch")):
        for item in SpoolSource().read(path):
            if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == table.encode():
                rows += item.to_pylist()
    return rows


def test_a_sequential_write_is_one_run_under_its_path(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    # Inside one second, wherever the wall clock stands.
    at = monotonic_ns()
    _record_name(trace, Op.CREATE, 1, b"out", at, at + 10, 1, node=5, handle=9)
    for k in range(100):
        trace.record_request(WRITE, 5, 9, k * 4096, 4096, at + k * 10, at + k * 10 + 5, 1, 0)
    trace.record_request(int(Op.RELEASE), 5, 9, -1, 0, at + 2000, at + 2001, 1, 0)
    trace.close()
    rows = _rows(tmp_path)
    assert sum(row["count"] for row in rows) == 102  # type: ignore[misc]
    writes = [row for row in rows if row["op"] == "write"]
    assert len(writes) <= 2  # two when the second turned in the middle of it
    assert {(row["size"], row["stride"]) for row in writes} <= {(4096, 4096), (4096, None)}
    assert {row["file_id"] for row in rows} == {compute_file_identity("tree", "/m/out")}
    assert {(row["job_id"], row["rank"], row["interface"], row["node"]) for row in rows} == {("77", 0, "fuse", "n1")}
    assert _rows(tmp_path, "files")[0]["path"] == "/m/out"


def test_each_job_has_files_of_its_own(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    at = monotonic_ns()
    for job in (1, 2, 3, 0):
        trace.record_request(READ, 5, job + 10, 0, 100 + job, at, at + 1, job, 0)
    trace.close()
    jobs = []
    for path in sorted(tmp_path.glob("*.batch")):
        items = list(SpoolSource().read(path))
        names = {item.job_id for item in items if not isinstance(item, pa.RecordBatch)}  # type: ignore[union-attr]
        rows = [row for item in items if isinstance(item, pa.RecordBatch) for row in item.to_pylist()]
        assert {row["job_id"] for row in rows} - {None} == names
        jobs.append((sorted(names), sorted(row["rank"] if row["rank"] is not None else -1 for row in rows)))
    assert sorted(jobs) == [([], [-1]), (["77"], [0, 1]), (["78"], [-1])]


def test_a_full_ring_loses_and_says_so(tmp_path: Path) -> None:
    trace = _trace(tmp_path, capacity=64)
    at = monotonic_ns()
    for k in range(100):
        trace.record_request(READ, 5, 9, k, 1, at, at + 1, 1, 0)
    trace.close()
    assert sum(row["count"] for row in _rows(tmp_path)) == 63  # type: ignore[misc]
    assert min(int(row["offset"]) for row in _rows(tmp_path)) == 37  # type: ignore[call-overload]
    (event,) = _rows(tmp_path, "events")
    assert event["kind"] == "operations_lost"
    assert "37" in str(event["text"])


def test_the_ring_goes_round() -> None:
    ring = Ring(8)
    for start in range(5):
        for k in range(6):
            ring.put(READ, start, 0, k, 1, 2, 3, 4, 5)
        records = [one for part in ring.take_parts(everything=True)[1] for one in RECORD.iter_unpack(part) if one[0]]
        assert [(one[3], one[5]) for one in records] == [(start, k) for k in range(6)]
    assert ring.dropped == 0


def test_nothing_is_lost_while_another_thread_takes(tmp_path: Path) -> None:
    trace = _trace(tmp_path, capacity=1 << 12)
    trace.start()
    told = 0
    at = monotonic_ns()
    for k in range(60_000):
        if k % 3000 == 0:
            trace.flush()  # nothing may be overwritten here
        trace.record_request(READ, 5, 9, (k * 37 % 101) << 12, 4096, at, at + 1, 1, 0)
        told += 1
    trace.close()
    assert sum(row["count"] for row in _rows(tmp_path)) == told  # type: ignore[misc]
    assert "trace" not in {thread.name for thread in threading.enumerate()}


def test_a_failed_request_moved_nothing(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    at = monotonic_ns()
    trace.record_request(WRITE, 5, 1, 0, 10, at, at, 1, 28)
    trace.flush()
    for k in range(2000):
        trace.record_request(WRITE, 5, 1, k * 10, 10, at, at, 1, 5)
    trace.close()
    assert {row["size"] for row in _rows(tmp_path)} == {0}
    assert sum(int(row["count"]) for row in _rows(tmp_path)) == 2001  # type: ignore[call-overload]


def test_a_recycled_node_is_another_file(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    at = monotonic_ns()
    _record_name(trace, Op.CREATE, 1, b"a", at, at, 1, node=5, handle=1)
    trace.record_request(WRITE, 5, 1, 0, 10, at, at, 1, 0)
    _record_name(trace, Op.UNLINK, 1, b"a", at, at, 1)
    trace.record_request(WRITE, 5, 1, 10, 11, at, at, 1, 0)  # open still
    trace.record_forget(5)
    _record_name(trace, Op.CREATE, 1, b"b", at, at, 1, node=5, handle=2)
    trace.record_request(WRITE, 5, 2, 0, 12, at, at, 1, 0)
    trace.close()
    paths = {row["file_id"]: row["path"] for row in _rows(tmp_path, "files")}
    found = {(row["op"], row["size"]): paths[row["file_id"]] for row in _rows(tmp_path)}
    assert found[("write", 10)] == found[("write", 11)] == found[("unlink", None)] == "/m/a"
    assert found[("write", 12)] == "/m/b"


def test_a_renamed_folder_renames_what_is_below() -> None:
    names = PathNames("fs", "/m")
    names.bind(2, 1, b"d")
    names.bind(3, 2, b"e")
    names.bind(4, 3, b"f")
    assert names.find_file(4) == (compute_file_identity("fs", "/m/d/e/f"), "/m/d/e/f")
    names.move(1, b"d", 1, b"z")
    assert names.find_file(4) == (compute_file_identity("fs", "/m/z/e/f"), "/m/z/e/f")
    names.bind(5, 1, b"q")
    names.move(1, b"z", 1, b"q", exchange=True)
    assert (names.find_file(4) or (0, ""))[1] == "/m/q/e/f"
    assert (names.find_file(5) or (0, ""))[1] == "/m/z"
    names.forget(3)
    assert names.find_file(99) is None
    assert (names.find_below(1, b"q") or (0, ""))[1] == "/m/q"
    assert (names.find_below(1, b"\xff") or (0, ""))[1] == "/m/\\xff"
    assert (PathNames("fs", "/").find_below(1, b"x") or (0, ""))[1] == "/x"


def test_names_are_learnt_while_recording_is_off(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    at = monotonic_ns()
    trace.on = False
    _record_name(trace, Op.CREATE, 1, b"a", at, at, 1, node=5, handle=1)
    trace.on = True
    trace.record_request(WRITE, 5, 1, 0, 10, at, at, 1, 0)
    trace.close()
    assert [row["op"] for row in _rows(tmp_path)] == ["write"]
    assert _rows(tmp_path, "files")[0]["path"] == "/m/a"


def _message(op: Op, node: int, body: bytes) -> bytes:
    return abi.IN_HEADER.pack(40 + len(body), op, 1, node, 0, 0, 0, 0, 0) + body


def test_messages_of_the_kernel_tell_names_and_extents(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    at = monotonic_ns()
    entry = memoryview(Struct("<Q").pack(7) + bytes(120))
    nothing = memoryview(b"")

    def tell(op: Op, body: bytes, reply: memoryview = nothing, node: int = 1, error: int = 0) -> None:
        trace.record_message(int(op), node, 0, _message(op, node, body), reply, at, at + 1, 1, error)

    tell(Op.MKDIR, abi.MKDIR_IN.pack(0o755, 0) + b"d\0", entry)
    tell(Op.LOOKUP, b"none\0", error=2)
    tell(Op.SETATTR, abi.SETATTR_IN.pack(abi.Valid.SIZE, *[0] * 15), node=7)
    tell(Op.SETATTR, abi.SETATTR_IN.pack(abi.Valid.MODE, *[0] * 15), node=7)
    tell(Op.SETATTR, abi.SETATTR_IN.pack(abi.Valid.MTIME, *[0] * 15), node=7)
    tell(Op.FSYNC, abi.FSYNC_IN.pack(3, 1, 0), node=7)
    tell(Op.FSYNC, abi.FSYNC_IN.pack(3, 0, 0), node=7)
    tell(Op.COPY_FILE_RANGE, abi.COPY_IN.pack(3, 4096, 7, 4, 0, 100, 0), node=7)
    tell(Op.FALLOCATE, abi.FALLOCATE_IN.pack(3, 0, 100, 0, 0), node=7)
    tell(Op.SYMLINK, b"link\0target\0", memoryview(Struct("<Q").pack(8) + bytes(120)))
    tell(Op.RENAME2, abi.RENAME2_IN.pack(7, 0, 0) + b"link\0moved\0")
    tell(Op.GETATTR, abi.GETATTR_IN.pack(0, 0, 0), node=8)
    name = b"listed"
    dirent = abi.ENTRY.pack(9, *[0] * 5) + bytes(88) + abi.DIRENT.pack(8, 1, len(name), 8) + name + bytes(2)
    tell(Op.READDIRPLUS, abi.READ_IN.pack(3, 0, 4096, 0, 0, 0, 0), memoryview(dirent), node=7)
    trace.record_request(READ, 9, 4, 0, 1, at, at + 1, 1, 0)
    tell(Op.UNLINK, b"gone\0", error=2)
    tell(Op.INTERRUPT, bytes(8))
    trace.close()
    paths = {row["file_id"]: row["path"] for row in _rows(tmp_path, "files")}
    found = [(row["op"], paths.get(row["file_id"])) for row in _rows(tmp_path)]  # type: ignore[call-overload]
    assert sorted(found) == sorted(
        [
            ("mkdir", "/m/d"),
            ("lookup", "/m/none"),
            ("truncate", "/m/d"),
            ("chmod", "/m/d"),
            ("utimens", "/m/d"),
            ("fdatasync", "/m/d"),
            ("fsync", "/m/d"),
            ("copy", "/m/d"),
            ("allocate", "/m/d"),
            ("symlink", "/m/link"),
            ("rename", "/m/link"),
            ("stat", "/m/d/moved"),
            ("readdir", "/m/d"),
            ("read", "/m/d/listed"),
            ("unlink", "/m/gone"),
        ]
    )


REQUEST = st.tuples(
    st.sampled_from([READ, WRITE, int(Op.GETATTR)]),
    st.integers(1, 3),  # handle
    st.sampled_from([0, 1, 2, 3, 10, 1 << 40]),  # offset
    st.sampled_from([1, 4096]),  # size
    st.sampled_from([0, 1, MS, 9 * MS, 10 * MS, 600 * MS]),  # idle before
    st.sampled_from([0, 1, MS, 1100 * MS]),  # duration
    st.integers(1, 3),  # job
)


@given(st.lists(REQUEST, max_size=60))
@settings(deadline=None)
def test_runs_hold_every_request_in_order_inside_its_second(told: list[tuple[int, ...]]) -> None:
    runs = Runs()
    now = 1_700_000_000 * 1_000_000_000 + 900 * MS
    expected: dict[int, list[tuple[object, ...]]] = {}
    for op, handle, offset, size, idle, took, job in told:
        start = now = now + idle
        now += took
        runs.add(op, job, None, handle, handle, offset, size, start, now)
        data = op in (READ, WRITE)
        word = "read" if op == READ else "write" if data else "stat"
        expected.setdefault(handle, []).append((word, offset if data else None, size if data else None, job, took))
    runs.finish()
    for handle, wanted in expected.items():
        mine = [run for run in runs.closed if run.handle == handle]
        table = pa.table(
            {
                "start_ns": [r.start for r in mine],
                "end_ns": [r.end for r in mine],
                "busy_ns": [r.busy for r in mine],
                "interface": ["fuse"] * len(mine),
                "op": [r.word for r in mine],
                "rank": [r.job for r in mine],
                "offset": pa.array([r.offset if r.offset >= 0 else None for r in mine], pa.int64()),
                "size": pa.array([r.size if r.size >= 0 else None for r in mine], pa.int64()),
                "stride": pa.array([r.stride if r.count > 1 and r.offset >= 0 else None for r in mine], pa.int64()),
                "count": [r.count for r in mine],
            }
        )
        rows = expand_operation_runs(table).to_pylist()
        assert [(r["op"], r["offset"], r["size"], r["rank"]) for r in rows] == [one[:4] for one in wanted]
        assert sum(r.busy for r in mine) == sum(one[4] for one in wanted)  # type: ignore[misc]
        for run in mine:
            assert run.count == 1 or run.end <= (run.start // 1_000_000_000 + 1) * 1_000_000_000
    assert set(OPS.schema.names) >= {"offset", "stride"}


TOLD = st.lists(
    st.tuples(
        st.sampled_from([READ, WRITE, int(Op.GETATTR), int(Op.SETATTR), int(Op.FORGET)]),
        st.integers(0, 2),  # handle
        st.integers(5, 7),  # node
        st.sampled_from([0, 1, 2, 3, 10]),  # offset
        st.sampled_from([1, 8]),  # size, or what a SETATTR sets
        st.integers(0, 3),  # job
        st.sampled_from([None, None, None, None, b"x", b"y"]),  # the node gets another name first
    ),
    max_size=60,
)


@given(TOLD)
@settings(deadline=None, max_examples=60)
def test_many_at_once_are_recorded_as_one_by_one(told: list[tuple[int, int, int, int, int, int, bytes | None]]) -> None:
    found = []
    at = monotonic_ns()
    for many in (0, 1 << 60):
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
            patched.setattr(recorder, "MANY", many)
            patched.setattr(recorder, "_PER_NAME", 0)
            trace = _trace(Path(folder), capacity=1 << 10)
            trace.record_entry(6, 1, b"six")
            for k, (op, handle, node, offset, size, job, name) in enumerate(told):
                if name is not None:
                    _record_name(trace, Op.LOOKUP, 1, name, at + 20 * k, at + 20 * k + 1, job, node=node)
                trace.record_request(op, node, handle, offset, size, at + 20 * k + 5, at + 20 * k + 10, job, 0)
                if k % 16 == 15:
                    trace.flush()
            trace.close()
            paths = {row["file_id"]: row["path"] for row in _rows(Path(folder), "files")}
            runs = _rows(Path(folder))
        streams: dict[object, list[object]] = {}
        if runs:
            for row in expand_operation_runs(pa.Table.from_pylist(runs, OPS.schema), by_time=True).to_pylist():
                path = paths.get(row["file_id"])
                assert (path is None) == (row["file_id"] is None)
                streams.setdefault((row["job_id"], row["rank"], row["handle"], path), []).append(
                    (row["op"], row["offset"], row["size"])
                )
        for (_, _, handle, path), operations in streams.items():  # type: ignore[misc]
            if handle is None and path is None:  # several nodes: only inside each is there an order
                operations.sort(key=repr)
        found.append((streams, sum(int(row["busy_ns"]) for row in runs)))  # type: ignore[call-overload]
    assert found[0] == found[1]


def test_a_busy_second_is_recorded_whole(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    at = monotonic_ns()
    _record_name(trace, Op.CREATE, 1, b"out", at, at, 1, node=5, handle=9)
    for k in range(5000):
        trace.record_request(WRITE, 5, 9, k << 12, 4096, at + 2 * k, at + 2 * k + 1, 1 + k // 2500, 0)
        trace.record_request(READ, 8, 4, (k * 37 % 101) << 12, 512, at + 2 * k, at + 2 * k + 1, 0, 0)
    trace.close()
    rows = _rows(tmp_path)
    for job, rank, op, size, count in (
        ("77", 0, "write", 4096, 2500),
        ("77", 1, "write", 4096, 2500),
        (None, None, "read", 512, 5000),
    ):
        mine = [row for row in rows if (row["job_id"], row["rank"], row["op"]) == (job, rank, op)]
        assert sum(int(row["count"]) for row in mine) == count  # type: ignore[call-overload]
        assert {row["size"] for row in mine} == {size}
        if op == "write":
            assert len(mine) <= 3
            assert {row["file_id"] for row in mine} == {compute_file_identity("tree", "/m/out")}


@pytest.mark.parametrize("module", ["fs.trace", "forwarding.forwarder.records", "forwarding.record_spool"])
def test_recording_needs_no_arrow(module: str) -> None:
    program = (
        f"import sys, fairlead.steer.{module}\nassert not {{'numpy', 'pyarrow', 'rich', 'pandas'}} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
