"""kill -9 of a mount, and the end of one whose forwarder is gone: the folder is usable again, nothing is harmed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from contextlib import suppress

import pytest

from plane import Plane, names, until
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse


def test_a_killed_mount_is_taken_off_by_the_next_one(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"))
    (point / "file").write_bytes(b"acknowledged")
    process = plane.mounts.pop(point)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(OSError) as failed:
        names(point)
    assert failed.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    done = plane.command("mount", plane.address("a"), str(point))
    assert done.returncode == 0, done.stderr
    try:
        assert (point / "file").read_bytes() == b"acknowledged"
    finally:
        assert plane.command("umount", str(point)).returncode == 0


def test_locks_of_a_killed_mount_go_after_the_grace_period(plane: Plane) -> None:
    plane.forwarder("a", "--grace", "0.5")
    point, other = (plane.mount(name, plane.address("a")) for name in ("mnt", "other"))
    (point / "file").write_bytes(b"x")
    held = os.open(point / "file", os.O_RDWR)
    with (other / "file").open("r+b") as wanted:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.lockf(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process = plane.mounts.pop(point)
        process.send_signal(signal.SIGKILL)
        process.wait()

        def granted() -> bool:
            try:
                fcntl.lockf(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        until(granted, "the lock is free")
    with suppress(OSError):  # its mount is dead
        os.close(held)
    plane.command("umount", "--force", str(point))


def test_sigterm_ends_a_mount_whose_forwarder_is_gone(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"))
    (point / "file").write_bytes(b"x")
    plane.kill_forwarder("a")
    process = plane.mounts.pop(point)
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    assert names(point) == []
