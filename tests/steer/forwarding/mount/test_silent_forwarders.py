"""Forwarders that are stopped without closing anything: their mounts go elsewhere, and nothing is done twice."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plane import Plane, names, until
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGSTOP, and waits until no thread of it runs any more."""
    process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")

    def stands() -> bool:
        try:
            return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir())
        except OSError:  # a thread has ended meanwhile
            return False

    until(stands, "every thread has stopped")


def test_a_stopped_forwarder_is_left_and_does_no_harm_when_it_goes_on(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("a"), plane.address("b"))
    (point / "data").write_bytes(b"first")
    (point / "twice").write_bytes(b"old")
    stopped = plane.forwarders[plane.serving(point)]
    descriptor = os.open(point / "data", os.O_RDWR)
    try:
        stop(stopped)
        with ThreadPoolExecutor() as threads:
            written = threads.submit(os.pwrite, descriptor, b"second", 0)
            removed = threads.submit((point / "twice").unlink)
            assert written.result(timeout=120) == 6
            removed.result(timeout=120)
        (point / "twice").write_bytes(b"new")
        os.pwrite(descriptor, b"third!", 0)
    finally:
        stopped.send_signal(signal.SIGCONT)
    # It has come to itself when it serves another client.
    other = plane.mount("other", f"unix:{plane.folder / ('a' if stopped is plane.forwarders['a'] else 'b')}.sock")
    assert (other / "twice").read_bytes() == b"new"
    assert os.pread(descriptor, 10, 0) == b"third!"
    os.close(descriptor)
    assert (plane.tree / "data").read_bytes() == b"third!"
    assert names(point) == ["data", "twice"]
    assert "silent for" in (plane.folder / "mnt.log").read_text()


def test_the_only_forwarder_is_waited_for(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"))
    descriptor = os.open(point / "data", os.O_RDWR | os.O_CREAT)
    log = plane.folder / "mnt.log"
    try:
        stop(plane.forwarders["a"])
        with ThreadPoolExecutor() as threads:
            written = threads.submit(os.pwrite, descriptor, b"patience", 0)
            until(lambda: "requests wait for it" in log.read_text(), "the mount says that it waits")
            assert not written.done()
            plane.forwarders["a"].send_signal(signal.SIGCONT)
            assert written.result(timeout=PATIENCE_S) == 8
    finally:
        plane.forwarders["a"].send_signal(signal.SIGCONT)
    os.close(descriptor)
    assert (point / "data").read_bytes() == b"patience"
    assert "lost (" not in log.read_text()
