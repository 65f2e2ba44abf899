"""kill -9 of writers of a spool at any moment: what is in it is whole, in order, and can be taken in."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from fairlead.see.ingest import find_ingest_traces, ingest_jobs
from fairlead.see.sources.spool import SpoolSource
from fairlead.store.lake import Lake
from mounting import wait_until

WRITER = """
import sys
from fairlead.core.clock import monotonic_ns
from fairlead.steer.fs.trace.recorder import Trace
from fairlead.core.batches.spool import Spool
spool = Spool(sys.argv[1], node="n1", writer="mount:/m")
trace = Trace(spool, fs="tree", mount_point="/m", drain_s=0.001, file_s=0.002)
trace.start()
print("on", flush=True)
while True:
    for k in range(3000):
        at = monotonic_ns()
        trace.record_request(16, 5, 9, k * 7919 % 1009 << 12, 4096, at, at + 1, 0, 0)
    trace.flush()
"""
KILLS = 6


def test_no_torn_file_is_ever_seen(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    draw = random.Random(11)
    for _ in range(KILLS):
        before = len(list(spool.glob("*.batch")))
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(spool)], stdout=subprocess.PIPE) for _ in range(2)
        ]
        try:
            for writer in writers:
                assert writer.stdout is not None
                assert writer.stdout.readline() == b"on\n"
            wanted = before + draw.randrange(1, 12)
            wait_until(lambda wanted=wanted: len(list(spool.glob("*.batch"))) >= wanted, "files in the spool")
        finally:
            for writer in writers:
                writer.kill()
                writer.communicate()
    seqs: dict[str, list[int]] = {}
    paths = sorted(spool.glob("*.batch"))
    for path in paths:
        assert list(SpoolSource().read(path))
        seqs.setdefault(SpoolSource()._first(path).boot_id, []).append(SpoolSource()._first(path).seq)
    assert len(seqs) > KILLS
    assert all(numbers == sorted(set(numbers)) for numbers in seqs.values())
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer("main") as writer:
        states = [outcome.state for outcome in ingest_jobs(writer, find_ingest_traces([spool])[0])]
    assert states == ["added"] * len(paths)
