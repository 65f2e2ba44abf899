"""What a mount without a forwarder records: the program's own counts, and with passthrough opens and closes only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from fairlead.see.sources.spool import SpoolSource
from mounting import environment, local_mount
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse

PROGRAM = """
import json, mmap, os, sys, threading
folder = sys.argv[1]
counts = {}
turn = threading.Lock()

def count(word, number=1):
    with turn:
        counts[word] = counts.get(word, 0) + number

def work(number):
    buffer = mmap.mmap(-1, 65536)      # whole pages: a request is not split
    fd = os.open(f"{folder}/f{number}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
    count("create")
    for k in range(50):
        count("bytes_written", os.pwrite(fd, memoryview(buffer)[: 4096 << k % 5], k << 16))
        count("write")
    for k in range(30):
        count("bytes_read", os.preadv(fd, [memoryview(buffer)[:4096]], (k * 7 % 50) << 16))
        count("read")
    os.fsync(fd)
    count("fsync")
    os.close(fd)
    count("close")
    os.rename(f"{folder}/f{number}", f"{folder}/g{number}")
    count("rename")

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number in range(4):
    os.unlink(f"{folder}/g{number}")
    count("unlink")
print(json.dumps(counts))
"""


def _run(folder: Path, runtime: Path) -> Counter[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env={**environment(runtime), "FAIRLEAD_JOB_ID": "4711"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return Counter(json.loads(done.stdout))


def _recorded(spool: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in sorted(spool.glob("*.batch")):
        for item in SpoolSource().read(path):
            if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == b"ops":
                for row in item.select(["job_id", "op", "size", "count"]).to_pylist():
                    if row["job_id"] != "4711":
                        continue
                    counts[row["op"]] += row["count"]
                    if row["op"] in ("read", "write"):
                        word = "bytes_read" if row["op"] == "read" else "bytes_written"
                        counts[word] += row["size"] * row["count"]
    return counts


def test_every_request_is_recorded(tmp_path: Path) -> None:
    source, folder, spool = (tmp_path / name for name in ("source", "mount", "spool"))
    source.mkdir()
    folder.mkdir()
    with local_mount(source, folder, "--spool", spool, "--passthrough=off", state=tmp_path) as mount:
        counted = _run(folder, mount.runtime)
        assert mount.end() == 0, mount.said()
    found = _recorded(spool)
    assert {word: found[word] for word in counted} == dict(counted)


@pytest.mark.skipif(os.geteuid() != 0, reason="passthrough needs root")
def test_passthrough_is_recorded_by_opens_and_closes(tmp_path: Path) -> None:
    source, folder, spool = (tmp_path / name for name in ("source", "mount", "spool"))
    source.mkdir()
    folder.mkdir()
    with local_mount(source, folder, "--spool", spool, state=tmp_path) as mount:
        counted = _run(folder, mount.runtime)
        assert mount.end() == 0, mount.said()
        if "opens and closes only" not in mount.said():
            pytest.skip("this kernel has no FUSE passthrough")
    found = _recorded(spool)
    for word in ("create", "close", "rename", "unlink"):
        assert found[word] == counted[word], word
    if found["write"]:
        pytest.skip("the file system below refuses passthrough")
    assert found["read"] == 0
