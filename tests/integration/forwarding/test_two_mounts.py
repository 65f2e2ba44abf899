"""Two mounts of one tree, at one forwarder or at two: what one does the other sees, and locks hold between them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plane import Plane, until

pytestmark = [pytest.mark.fuse, pytest.mark.timeout(280)]


@pytest.fixture(params=["one forwarder", "two forwarders"])
def mounts(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, Path]]:
    plane = Plane(tmp_path)
    try:
        plane.forwarder("a")
        second = "a"
        if request.param == "two forwarders":
            plane.forwarder("b")
            second = "b"
        yield plane.mount("first", plane.address("a")), plane.mount("second", plane.address(second))
    finally:
        plane.close()


def test_data_is_seen_at_once_and_names_within_their_validity(mounts: tuple[Path, Path]) -> None:
    first, second = mounts
    with (first / "file").open("wb", buffering=0) as file:
        file.write(b"one")
        with (second / "file").open("rb", buffering=0) as other:
            assert other.read(10) == b"one"
            file.write(b", two")
            assert os.pread(other.fileno(), 10, 3) == b", two"
    os.rename(first / "file", first / "renamed")
    until(lambda: os.listdir(second) == ["renamed"], "the rename is seen")
    os.unlink(second / "renamed")
    until(lambda: not (first / "renamed").exists(), "the removal is seen")


def test_appends_of_both_are_all_there(mounts: tuple[Path, Path]) -> None:
    first, second = mounts
    files = [os.open(point / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for point in (first, second)]
    for number in range(100):
        for file in files:
            os.write(file, b"%d\n" % number)
    for file in files:
        os.close(file)
    assert sorted(map(int, (first / "log").read_text().split())) == sorted([*range(100), *range(100)])


@pytest.mark.parametrize("kind", ["posix", "flock"])
def test_locks_exclude_the_other_mount(mounts: tuple[Path, Path], kind: str) -> None:
    first, second = mounts
    lock = fcntl.lockf if kind == "posix" else fcntl.flock
    (first / "file").write_bytes(b"x")
    with (first / "file").open("r+b") as held, (second / "file").open("r+b") as wanted:
        lock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            lock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock(held, fcntl.LOCK_UN)

        def granted() -> bool:
            try:
                lock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        until(granted, "the lock is free")


WAIT = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
print("waiting", flush=True)
fcntl.lockf(file, fcntl.LOCK_EX)
print("granted", flush=True)
"""


def test_who_waits_for_a_lock_gets_it_or_can_be_killed(mounts: tuple[Path, Path]) -> None:
    first, second = mounts
    (first / "file").write_bytes(b"x")
    held = os.open(first / "file", os.O_RDWR)
    waiting: list[subprocess.Popen[str]] = []
    try:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-c", WAIT, str(second / "file")], stdout=subprocess.PIPE, text=True
            )
            waiting.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
        waiting[0].send_signal(signal.SIGKILL)
        assert waiting[0].wait(timeout=60) == -signal.SIGKILL
        fcntl.lockf(held, fcntl.LOCK_UN)
        assert waiting[1].communicate(timeout=60)[0] == "granted\n"
    finally:
        os.close(held)
        for process in waiting:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
