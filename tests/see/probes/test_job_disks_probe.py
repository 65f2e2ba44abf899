"""I/O of jobs at a node's disks: both versions of control groups, and a real group that writes to a real disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.see.agent.deltas import Deltas
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.job_disks import JobDisks

MIB = 1 << 20
BLKIO = Path("/sys/fs/cgroup/blkio")


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def name_device(root: Path, numbers: str, name: str, *, partition: bool = False) -> None:
    place = root / "sys/devices" / name
    place.mkdir(parents=True)
    if partition:
        (place / "partition").write_text("1\n")
    (root / "sys/dev/block").mkdir(parents=True, exist_ok=True)
    (root / "sys/dev/block" / numbers).symlink_to(place)


def test_groups_of_version_2(tmp_path: Path) -> None:
    """One row a job and device; devices a group did nothing at, and partitions, are no rows."""
    put(tmp_path / "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    name_device(tmp_path, "259:0", "nvme0n1")
    name_device(tmp_path, "259:1", "nvme0n1p1", partition=True)
    group = tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_17/io.stat"
    text = "259:0 rbytes={} wbytes={} rios=2 wios=3 dbytes=0 dios=0\n259:1 rbytes=9 wbytes=9 rios=9 wios=9\n8:0 \n"
    put(group, text.format(4096, 8192))
    probe, deltas = JobDisks(str(tmp_path), "n1"), Deltas()
    (reading,) = probe.read(0).readings
    assert reading.rows == {("17", "nvme0n1"): [4096, 8192, 2, 3]}
    assert list(deltas.advance(reading, 0)) == []
    group.write_text(text.format(4096, 9192))
    put(tmp_path / "sys/fs/cgroup/system.slice/n1_slurmstepd.scope/job_18/io.stat", text.format(1, 0))
    grown = {row.key[0]: row.values[:2] for row in deltas.advance(probe.read(0).readings[0], 5 * 10**9)}
    assert grown == {"17": [0, 1000], "18": [1, 0]}, "a job that came since began at zero"


def test_groups_of_version_1(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/blkio/slurm/uid_1000/job_9"
    with pytest.raises(AbsentError, match="no control group counts I/O"):
        JobDisks(str(tmp_path), "n1").read(0)
    put(tmp_path / "sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes", "")
    rows = "8:0 Read {}\n8:0 Write {}\n8:0 Sync 1\n8:0 Async 2\n8:0 Total 3\nTotal 3\n"
    put(group / "blkio.throttle.io_service_bytes_recursive", rows.format(512, 1024))
    put(group / "blkio.throttle.io_serviced_recursive", rows.format(1, 2))
    (reading,) = JobDisks(str(tmp_path), "n1").read(0).readings
    assert reading.rows == {("9", "8:0"): [512, 1024, 1, 2]}, "a device without a name keeps its numbers"
    put(tmp_path / "sys/fs/cgroup/blkio/slurm/uid_1000/job_9/blkio.throttle.io_serviced_recursive", "nonsense\n" * 5)
    assert JobDisks(str(tmp_path), "n1").read(0).readings[0].rows["9", "8:0"] == [512, 1024, 0, 0]


@pytest.fixture
def job_group() -> Iterator[Path]:
    """A real group where Slurm makes a job's with version 1."""
    if os.geteuid() != 0 or not (BLKIO / "blkio.throttle.io_service_bytes").exists():
        pytest.skip("needs root and a cgroup v1 blkio hierarchy at /sys/fs/cgroup/blkio")
    group = BLKIO / f"slurm_fairlead{os.getpid()}" / "uid_0" / "job_4711"
    group.mkdir(parents=True)
    number = Path(__file__).stat().st_dev
    # Linux 6.10 and later count at a disk only after some group had a limit there: one that is never reached.
    with suppress(OSError):
        limit = f"{os.major(number)}:{os.minor(number)} {1 << 50}"
        (group / "blkio.throttle.write_bps_device").write_text(limit)
    yield group
    for folder in (group, group.parent, group.parent.parent):
        folder.rmdir()


def test_a_real_group_counts_what_a_process_in_it_moved(job_group: Path, tmp_path: Path) -> None:
    """16 MiB written past the cache and 8 MiB read back, to the byte."""
    probe = JobDisks("/", "here")
    program = (
        "import mmap, os, sys\n"
        "open(sys.argv[2] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "size = 1 << 20\n"
        "block = mmap.mmap(-1, size)\n"
        "block.write(os.urandom(size))\n"
        "out = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)\n"
        "for _ in range(16): os.write(out, block)\n"
        "os.lseek(out, 0, 0)\n"
        "for _ in range(8): os.readv(out, [block])\n"
    )
    place = Path(__file__).resolve().parents[3] / f".job-disks-{os.getpid()}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, str(place), str(job_group)], capture_output=True, text=True, check=False
        )
        if done.returncode and "Invalid argument" in done.stderr:
            pytest.skip("the file system here has no direct I/O")
        assert done.returncode == 0, done.stderr
        rows = {key: row for key, row in probe.read(0).readings[0].rows.items() if key[0] == "4711"}
        assert len(rows) == 1, rows
        ((read, written, reads, writes),) = rows.values()
        assert written == 16 * MIB
        assert 8 * MIB <= read <= 8 * MIB + 65536, "and what the interpreter itself read"
        assert reads >= 8
        assert writes >= 16
    finally:
        place.unlink(missing_ok=True)
