"""Mounts with `--cache`: what one of them changes the others see at once, though their kernels keep what they read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairlead.core.errors import RefusedError
from fairlead.steer.fs.client.dial import Dial
from plane import DEADLINE_S, Plane, names, until


@pytest.fixture
def pair(plane: Plane) -> tuple[Path, Path]:
    """Two mounts with a cache of one forwarder."""
    plane.forwarder("a", "--sole")
    one, two = (plane.mount(name, plane.address("a"), options=("--cache",)) for name in ("one", "two"))
    return one, two


def test_leases_are_refused_by_a_forwarder_without_them(plane: Plane) -> None:
    plane.forwarder("a")
    with pytest.raises(RefusedError, match="leases"):
        Dial([plane.address("a")], leases=True).connect_any()


@pytest.mark.fuse
@pytest.mark.parametrize("options", [(), ("--sole", "--descriptors")])
def test_a_mount_with_a_cache_is_refused_and_leaves_nothing(plane: Plane, options: tuple[str, ...]) -> None:
    plane.forwarder("a", *options)
    point = plane.folder / "mnt"
    point.mkdir()
    done = plane.command("mount", "--cache", plane.address("a"), str(point))
    assert done.returncode == 8
    assert "leases" in done.stderr
    assert "--sole" in done.stderr
    assert "mount without --cache" in done.stderr
    assert names(point) == []
    assert str(point) not in Path("/proc/self/mounts").read_text()


@pytest.mark.fuse
def test_a_cached_file_is_read_again_without_the_forwarder(plane: Plane, pair: tuple[Path, Path]) -> None:
    one, two = pair
    data = os.urandom(300_000)
    (one / "file").write_bytes(data)
    assert (two / "file").read_bytes() == data
    with (two / "file").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 1 << 20, 0) == data
        before = plane.status(two)["requests"]
        for _ in range(100):
            assert os.pread(file.fileno(), 1 << 20, 0) == data
            assert os.fstat(file.fileno()).st_size == len(data)
        assert plane.status(two)["requests"] - before < 10
        # And the next change is seen through the same descriptor.
        with (one / "file").open("r+b", buffering=0) as other:
            for number in range(20):
                os.pwrite(other.fileno(), b"%08d" % number, 4000)
                assert os.pread(file.fileno(), 8, 4000) == b"%08d" % number


@pytest.mark.fuse
def test_all_that_one_changes_the_other_sees(pair: tuple[Path, Path]) -> None:
    one, two = pair
    for turn, (writer, reader) in enumerate([(one, two), (two, one)] * 5):
        (writer / "file").write_bytes(b"x" * (100 + turn))
        with (reader / "file").open("rb", buffering=0) as file:
            kept = file.fileno()
            assert os.fstat(kept).st_size == 100 + turn
            assert os.pread(kept, 1000, 0) == b"x" * (100 + turn)
            with (writer / "file").open("ab") as more:
                more.write(b"more")
            assert os.pread(kept, 1000, 0) == b"x" * (100 + turn) + b"more"
            os.truncate(writer / "file", 10)
            assert os.fstat(kept).st_size == 10
            assert os.pread(kept, 1000, 0) == b"x" * 10
            os.utime(writer / "file", ns=(turn, 1_000_000_007 + turn))
            assert os.fstat(kept).st_mtime_ns == 1_000_000_007 + turn
            (writer / "file").chmod(0o640 + turn % 2)
            assert os.fstat(kept).st_mode & 0o777 == 0o640 + turn % 2
            (writer / "link").hardlink_to(writer / "file")
            assert os.fstat(kept).st_nlink == 2
            (writer / "file").unlink()
            assert os.fstat(kept).st_nlink == 1
            assert names(reader) == ["link"]
            (writer / "new").write_bytes(b"new")
            (writer / "new").replace(writer / "link")
            assert os.fstat(kept).st_nlink == 0
            assert (reader / "link").read_bytes() == b"new"
            (writer / "link").rename(writer / "other")
            assert not (reader / "link").exists()
            assert (reader / "other").read_bytes() == b"new"
            (reader / "other").unlink()
            assert not (writer / "other").exists()
            before = reader.stat().st_nlink
            (writer / "folder").mkdir()
            assert reader.stat().st_nlink == before + 1
            (reader / "folder").rmdir()
            assert names(writer) == []


@pytest.mark.fuse
def test_a_client_without_a_cache_is_seen_too(plane: Plane, pair: tuple[Path, Path]) -> None:
    cached, plain = pair[0], plane.mount("plain", plane.address("a"))
    (plain / "file").write_bytes(b"first")
    with (cached / "file").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 9, 0) == b"first"
        for number in range(20):
            with (plain / "file").open("r+b", buffering=0) as other:
                os.pwrite(other.fileno(), b"%05d" % number, 0)
            assert os.pread(file.fileno(), 9, 0) == b"%05d" % number


WORKER = """
import fcntl, os, random, sys
folder, log, seed = sys.argv[1:4]
chance = random.Random(seed)
# The lock is outside of the mounts, and so are files that hold what those in the mount must hold.
lock = os.open(log + ".lock", os.O_RDWR | os.O_CREAT)
kept = {}
for turn in range(300):
    fcntl.flock(lock, fcntl.LOCK_EX)
    name = f"f{chance.randrange(4)}"
    mine, true = f"{folder}/{name}", f"{log}-{name}"
    if name in kept and os.path.exists(true) and os.fstat(kept[name]).st_ino == os.stat(mine).st_ino:
        with open(true, "rb") as file:
            wanted = file.read()
        if os.fstat(kept[name]).st_nlink:  # else another file has got its number
            assert os.pread(kept[name], 1 << 20, 0) == wanted, (turn, "kept", name)
            assert os.fstat(kept[name]).st_size == len(wanted), (turn, "size", name)
    assert os.path.exists(mine) == os.path.exists(true), (turn, "there", name)
    if os.path.exists(true):
        with open(mine, "rb") as a, open(true, "rb") as b:
            assert a.read() == b.read(), (turn, "data", name)
    what = chance.randrange(6)
    if what < 3:
        at, data = chance.randrange(20000), os.urandom(chance.randrange(1, 9000))
        for path in (mine, true):
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            os.pwrite(fd, data, at)
            os.close(fd)
    elif what == 3 and os.path.exists(true):
        size = chance.randrange(20000)
        os.truncate(mine, size)
        os.truncate(true, size)
    elif what == 4 and os.path.exists(true) and chance.random() < 0.5:
        os.unlink(mine)
        os.unlink(true)
    elif what == 5 and os.path.exists(true):
        other = f"f{chance.randrange(4)}"
        os.rename(mine, f"{folder}/{other}")
        os.rename(true, f"{log}-{other}")
    if name in kept:
        os.close(kept.pop(name))
    if os.path.exists(mine):
        kept[name] = os.open(mine, os.O_RDONLY)
        os.pread(kept[name], 1 << 20, 0)
    fcntl.flock(lock, fcntl.LOCK_UN)
"""


def _together(program: str, *each: tuple[str, ...]) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
        for arguments in each
    ]
    try:
        said = [process.communicate(timeout=DEADLINE_S * 2)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * len(running), said


@pytest.mark.fuse
def test_random_operations_of_two_agree(plane: Plane, pair: tuple[Path, Path]) -> None:
    log = str(plane.folder / "log")
    _together(WORKER, *((str(point), log, str(seed)) for seed, point in enumerate(pair)))


CROWD = """
import os, random, sys
folder, seed = sys.argv[1:3]
chance = random.Random(seed)
for turn in range(300):
    name = f"{folder}/c{chance.randrange(3)}"
    what = chance.randrange(5)
    if what < 2:
        fd = os.open(name, os.O_RDWR)
        os.pwrite(fd, os.urandom(6000), chance.randrange(8000))
        os.close(fd)
    elif what < 4:
        with open(name, "rb") as file:
            file.read()
    else:
        own = f"{folder}/own-{seed}"
        os.mkdir(own)
        os.rename(own, own + "-moved")
        os.rmdir(own + "-moved")
"""


@pytest.mark.fuse
def test_two_that_do_the_same_at_the_same_time_do_not_stop_each_other(plane: Plane, pair: tuple[Path, Path]) -> None:
    one, two = pair
    for number in range(3):
        (one / f"c{number}").write_bytes(b"")
    _together(CROWD, *((str(point), str(seed)) for seed, point in enumerate(pair * 2)))
    assert names(one) == names(two)
    for name in names(one):
        assert (one / name).read_bytes() == (two / name).read_bytes() == (plane.tree / name).read_bytes()
        assert (one / name).stat().st_mtime_ns == (two / name).stat().st_mtime_ns
    for point in pair:
        assert plane.status(point)["failovers"] == 0  # nobody was taken for dead


@pytest.mark.fuse
def test_after_the_forwarder_was_killed_nothing_old_is_read(plane: Plane, pair: tuple[Path, Path]) -> None:
    one, two = pair
    (one / "file").write_bytes(b"before")
    with (two / "file").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 9, 0) == b"before"
        plane.kill_forwarder("a")
        (plane.tree / "file").write_bytes(b"other")
        plane.forwarder("a", "--sole")
        until(lambda: all(plane.status(point)["state"] == "serving" for point in pair), "both are served again")
        until(lambda: os.pread(file.fileno(), 9, 0) == b"other", "the cache is dropped")
        (one / "file").write_bytes(b"after it")
        assert os.pread(file.fileno(), 9, 0) == b"after it"


@pytest.mark.fuse
@pytest.mark.slow
def test_a_client_that_stands_still_holds_the_others_up_for_a_while_only(plane: Plane, pair: tuple[Path, Path]) -> None:
    one, two = pair
    (one / "file").write_bytes(b"before")
    with (two / "file").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 9, 0) == b"before"
        plane.mounts[two].send_signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            (one / "file").write_bytes(b"changed")
            assert time.monotonic() - begun < DEADLINE_S
            (one / "file").write_bytes(b"again")
        finally:
            plane.mounts[two].send_signal(signal.SIGCONT)
        until(lambda: os.pread(file.fileno(), 9, 0) == b"again", "it has connected again")
        (one / "file").write_bytes(b"at once")
        assert os.pread(file.fileno(), 9, 0) == b"at once"
