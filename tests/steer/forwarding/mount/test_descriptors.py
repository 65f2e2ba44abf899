"""Files a forwarder hands over to the mounts of its machine: right both ways, over a failover, none left open."""

from __future__ import annotations

import mmap
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from fairlead.see.sources.spool import SpoolSource
from fairlead.steer.fs.fuse import passthrough
from plane import Plane, until
from waiting import PATIENCE_S

pytestmark = [
    pytest.mark.fuse,
    pytest.mark.skipif(
        os.geteuid() != 0 or not passthrough.supports_passthrough(), reason="passthrough needs root (CAP_SYS_ADMIN)"
    ),
]
KIB = 1024


def passing(plane: Plane, *names: str, options: tuple[str, ...] = ()) -> Path:
    """A mount at these forwarders that the kernel takes files of."""
    for name in names:
        plane.forwarder(name, "--descriptors")
    point = plane.mount("mnt", *map(plane.address, names), options=("--passthrough", "auto", *options))
    said = (plane.folder / "mnt.log").read_text()
    if "this kernel has no FUSE passthrough" in said:
        pytest.skip("this kernel has no FUSE passthrough")
    assert "reads and writes go in the kernel" in said, said
    (point / "probe").write_bytes(b"x")
    said = (plane.folder / "mnt.log").read_text()
    if "the kernel does not take a file" in said:
        pytest.skip(said)
    return point


def requests(plane: Plane, point: Path) -> int:
    """Requests the mount has answered."""
    return int(plane.status(point)["requests"])


def open_files(pid: int) -> int:
    """Descriptors a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_reads_and_writes_pass_the_mount_and_are_right(plane: Plane) -> None:
    point = passing(plane, "a")
    with (point / "data").open("wb+", buffering=0) as file:
        before = requests(plane, point)
        for number in range(400):
            file.write(bytes([number % 251]) * 4 * KIB)
        assert os.pread(file.fileno(), 4 * KIB, 8 * KIB) == b"\x02" * 4 * KIB
        # A write clears what may make a file run as another user; the kernel asks for that, no more.
        assert requests(plane, point) - before < 200, "writes came to the mount"
        assert os.fstat(file.fileno()).st_size == (point / "data").stat().st_size == 1600 * KIB
    whole = b"".join(bytes([number % 251]) * 4 * KIB for number in range(400))
    assert (plane.tree / "data").read_bytes() == whole
    (plane.tree / "data").write_bytes(b"from below")
    assert (point / "data").read_bytes() == b"from below"
    assert (point / "data").stat().st_size == 10


def test_appends_go_through_the_forwarder(plane: Plane) -> None:
    point = passing(plane, "a")
    with (point / "log").open("ab", buffering=0) as log:
        before = requests(plane, point)
        for _ in range(50):
            log.write(b"line\n")
        assert requests(plane, point) - before >= 50
        with (point / "log").open("r+b", buffering=0) as other:  # all openings of a file are alike
            other.write(b"LINE")
            assert os.fstat(other.fileno()).st_size == os.fstat(log.fileno()).st_size == 250
    assert (point / "log").read_bytes() == (plane.tree / "log").read_bytes() == b"LINE\n" + 49 * b"line\n"


def test_appends_to_a_file_that_is_passed_fit_in(plane: Plane) -> None:
    point = passing(plane, "a")
    with (point / "log").open("wb", buffering=0) as first, (point / "log").open("ab", buffering=0) as second:
        first.write(b"passed ")
        second.write(b"appended ")
        assert os.fstat(first.fileno()).st_size == os.fstat(second.fileno()).st_size == 16
        second.write(b"twice")
    assert (point / "log").read_bytes() == (plane.tree / "log").read_bytes() == b"passed appended twice"


def test_a_file_that_is_mapped_through_an_appending_descriptor_can_be_opened(plane: Plane) -> None:
    point = passing(plane, "a")
    (point / "both").write_bytes(b"0123456789")
    with (point / "both").open("a+b", buffering=0) as appending:
        try:
            shared = mmap.mmap(appending.fileno(), 10)
        except OSError:
            pytest.skip("this kernel maps no file that is read without its cache")
        with shared, (point / "both").open("rb") as reading:
            assert reading.read() == shared[:] == b"0123456789"


def test_maps_and_truncation(plane: Plane) -> None:
    point = passing(plane, "a")
    with (point / "map").open("wb+", buffering=0) as file:
        file.write(bytes(64 * KIB))
        with mmap.mmap(file.fileno(), 64 * KIB) as shared:
            shared[100:105] = b"hello"
            assert os.pread(file.fileno(), 5, 100) == b"hello"
            os.pwrite(file.fileno(), b"world", 200)
            assert shared[200:205] == b"world"
            shared.flush()
        file.truncate(102)
        assert os.fstat(file.fileno()).st_size == 102
        assert os.pread(file.fileno(), 100, 100) == b"he"
    assert (plane.tree / "map").stat().st_size == 102
    with (point / "map").open("wb"):
        assert (plane.tree / "map").stat().st_size == 0


def test_open_files_go_on_when_their_forwarder_is_killed(plane: Plane) -> None:
    point = passing(plane, "a", "b")
    (point / "gone").write_bytes(b"old")
    with (point / "data").open("wb+", buffering=0) as file, (point / "gone").open("rb+", buffering=0) as gone:
        file.write(b"before ")
        (point / "gone").unlink()
        plane.kill_forwarder(plane.serving(point))
        file.write(b"after")  # needs no forwarder
        assert os.pread(file.fileno(), 20, 0) == b"before after"
        assert (point / "data").read_bytes() == b"before after"  # opened at the other one
        with (point / "data").open("ab", buffering=0) as log:
            log.write(b", and more")
        assert os.fstat(file.fileno()).st_size == 22
        assert gone.read() == b"old"
        os.fsync(file.fileno())
        file.truncate(6)
        assert os.fstat(file.fileno()).st_size == 6
    assert (plane.tree / "data").read_bytes() == b"before"
    assert not (plane.tree / "gone").exists()


def test_no_descriptor_is_left_after_many_files(plane: Plane) -> None:
    point = passing(plane, "a")
    mount, forwarder = plane.mounts[point].pid, plane.forwarders["a"].pid

    def round_of(count: int) -> None:
        held = []
        for number in range(count):
            held.append(os.open(point / f"f{number % 40}", os.O_RDWR | os.O_CREAT))
            os.pwrite(held[-1], b"x", number)
            if len(held) == 20:
                while held:
                    os.close(held.pop())
        assert not held

    round_of(100)
    before = open_files(mount), open_files(forwarder)
    round_of(2000)
    # A RELEASE is on nobody's behalf: the last ones may still be under way, and folders may be kept open.
    until(lambda: open_files(mount) <= before[0] + 2, "the mount has closed its files")
    until(lambda: open_files(forwarder) <= before[1] + 8, "the forwarder has closed its files")
    until(lambda: plane.status(point)["handles"] == 0, "nothing is open")


def test_forwarders_without_descriptors_are_told_once_and_serve(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"), options=("--passthrough", "auto"))
    (point / "data").write_bytes(b"through the forwarder")
    assert (point / "data").read_bytes() == b"through the forwarder"
    said = (plane.folder / "mnt.log").read_text()
    assert said.count("passthrough: none, ") == 1, said


def test_nothing_is_passed_unless_asked_for(plane: Plane) -> None:
    plane.forwarder("a", "--descriptors")
    point = plane.mount("mnt", plane.address("a"))
    (point / "data").write_bytes(b"x")
    assert "passthrough" not in (plane.folder / "mnt.log").read_text()


def test_opens_and_closes_are_recorded_and_bytes_are_not_known(plane: Plane) -> None:
    spool = plane.folder / "spool"
    point = passing(plane, "a", options=("--spool", str(spool)))
    for number in range(5):
        with (point / f"f{number}").open("wb", buffering=0) as file:
            file.write(b"x" * 4 * KIB)
    until(lambda: plane.status(point)["handles"] == 0, "the last file is closed")
    done = plane.command("umount", str(point))
    assert done.returncode == 0, done.stderr
    plane.mounts[point].wait(PATIENCE_S)
    counts: Counter[str] = Counter()
    for path in sorted(spool.rglob("*.batch")):
        for item in SpoolSource().read(path):
            if isinstance(item, pa.RecordBatch) and item.schema.metadata[b"fairlead.table"] == b"ops":
                for row in item.select(["op", "count"]).to_pylist():
                    counts[row["op"]] += row["count"]
    # Six files with the one that found out whether the kernel takes any.
    assert (counts["create"], counts["close"], counts["write"]) == (6, 6, 0), counts
