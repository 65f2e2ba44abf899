"""Bandwidth over a run, from the records of client and forwarder, is what an IOR-like load reports of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.model.tables import FORWARDER, OPS
from fairlead.see.sources.spool import SpoolSource
from mounting import environment, forwarded_mount, open_folder
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse

LOAD = """
import json, mmap, os, sys, time
path, phase = sys.argv[1], sys.argv[2]
buffer = mmap.mmap(-1, 1 << 20)
count, blocks = 1024, 256
fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
view = memoryview(buffer)
begun = time.clock_gettime_ns(time.CLOCK_REALTIME)
for block in range(count):
    if phase == "write":
        assert os.pwrite(fd, view, block % blocks << 20) == 1 << 20
    else:
        assert os.preadv(fd, [view], block % blocks << 20) == 1 << 20
ended = time.clock_gettime_ns(time.CLOCK_REALTIME)
os.close(fd)
print(json.dumps({"bytes": count << 20, "seconds": (ended - begun) / 1e9}))
"""
RUNS = 4
TOLERANCE = 0.005


def _load(path: Path, phase: str, runtime: Path, job: str) -> float:
    """Bytes a second the load reports of one phase."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path), phase],
        env={**environment(runtime), "FAIRLEAD_JOB_ID": job},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return float(told["bytes"] / told["seconds"])


def _table(spool: Path, schema: pa.Schema) -> pa.Table:
    name = schema.metadata[b"fairlead.table"]
    batches = [
        item
        for path in sorted(spool.glob("*.batch"))
        for item in SpoolSource().read(path)
        if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == name
    ]
    return pa.Table.from_batches(batches, schema)


def test_recorded_bandwidth_is_that_of_the_load() -> None:
    """The best of a few runs of a phase: between two calls a busy machine may do anything, the records cannot know."""
    with open_folder() as place:
        export, folder, state, spool = (place / name for name in ("export", "mnt", "state", "spool"))
        for one in (export, folder, state):
            one.mkdir()
        with forwarded_mount(
            export, folder, "--spool", spool, state=state, forwarder_options=("--spool", spool)
        ) as mount:
            own = {
                (phase, run): _load(folder / "data", phase, mount.runtime, f"{phase}{run}")
                for phase in ("write", "read")
                for run in range(RUNS)
            }
        ops, forwarder = _table(spool, OPS.schema), _table(spool, FORWARDER.schema)
    for phase in ("write", "read"):
        apart = []
        for run in range(RUNS):
            mine = pc.and_(
                pc.equal(ops["job_id"].cast(pa.string()), f"{phase}{run}"), pc.equal(ops["op"].cast(pa.string()), phase)
            )
            rows = ops.filter(mine)
            moved = pc.sum(pc.multiply(rows["size"], rows["count"])).as_py()
            assert moved == 1024 << 20
            seconds = (pc.max(rows["end_ns"]).as_py() - pc.min(rows["start_ns"]).as_py()) / 1e9
            apart.append(abs(moved / seconds / own[phase, run] - 1))
            there = forwarder.filter(pc.equal(forwarder["job_id"].cast(pa.string()), f"{phase}{run}"))
            there = there.filter(pc.equal(there["op_class"].cast(pa.string()), phase))
            assert pc.sum(there["bytes"]).as_py() == moved
        assert min(apart) <= TOLERANCE, (phase, apart)
