"""kill -9 of the forwarder that serves a mount under load: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plane import Plane, Workers, names, until
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse


def kills(plane: Plane, times: int, seed: int) -> None:
    """Kills whichever forwarder serves, again and again, while four processes append, write and change names."""
    chance = random.Random(seed)
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("a"), plane.address("b"))
    workers = Workers(plane.folder, point, 4)
    try:
        workers.advance(5)
        for _ in range(times):
            time.sleep(chance.uniform(0.0, 0.3))  # a random moment is the point of it
            name = plane.serving(point)
            plane.kill_forwarder(name)
            (point / "w0").stat()
            workers.advance(5)
            plane.forwarder(name)
        total, problems = workers.finish()
    finally:
        workers.kill()
    log = (plane.folder / "mnt.log").read_text()
    assert not problems, "\n".join([*problems, log])
    assert total >= 4 * 5 * (times + 1)
    assert log.count("lost (") >= times


def test_five_kills(plane: Plane) -> None:
    kills(plane, 5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_kills(plane: Plane) -> None:
    kills(plane, 50, seed=2)


def test_a_mount_answers_soon_after_its_forwarder_was_killed(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("a"), plane.address("b"))
    (point / "file").write_bytes(b"before")
    plane.kill_forwarder(plane.serving(point))
    assert (point / "file").read_bytes() == b"before"
    (point / "file").write_bytes(b"after")
    assert (plane.tree / "file").read_bytes() == b"after"


def test_without_another_forwarder_io_waits_for_the_same_one(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"))
    (point / "file").write_bytes(b"one")
    plane.kill_forwarder("a")
    # No file of the mount may be open here: starting a process would close it there, which waits for a forwarder.
    with ThreadPoolExecutor() as threads:
        written = threads.submit((point / "file").write_bytes, b"two")
        plane.forwarder("a")
        assert written.result(timeout=PATIENCE_S) == 3
    assert (plane.tree / "file").read_bytes() == b"two"


def test_when_patience_ends_io_fails_and_comes_back(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"), options=("--patience", "1"))
    (point / "file").write_bytes(b"x")
    plane.kill_forwarder("a")
    with pytest.raises(OSError, match="Input/output error"):
        names(point)
    plane.forwarder("a")

    def answers() -> bool:
        try:
            return (point / "file").read_bytes() == b"x"
        except OSError:
            return False

    until(answers, "the mount answers again")


def test_an_unlinked_file_that_is_open_outlives_its_forwarder(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("a"), plane.address("b"))
    with (point / "file").open("w+b", buffering=0) as file:
        file.write(b"still here")
        (point / "file").unlink()
        plane.kill_forwarder(plane.serving(point))
        file.seek(0)
        assert file.read() == b"still here"
        file.write(b", and writable")
        file.seek(0)
        assert file.read() == b"still here, and writable"
        assert Path(f"/proc/self/fd/{file.fileno()}").read_bytes() == b"still here, and writable"
    assert names(point) == []
