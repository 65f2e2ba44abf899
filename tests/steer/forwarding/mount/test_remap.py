"""Moving a mount to another forwarder while it is used."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from plane import Plane, Workers, names, until
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse


def test_remap_under_load_fails_nothing(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("a"))
    workers = Workers(plane.folder, point, 3)
    try:
        for name in ("b", "a", "b"):
            workers.advance(5)
            done = plane.command("remap", str(point), plane.address(name))
            assert done.returncode == 0, done.stderr
            assert plane.serving(point) == name
        plane.kill_forwarder("a")  # nobody needs it any more
        workers.advance(5)
        _, problems = workers.finish()
    finally:
        workers.kill()
    assert not problems, "\n".join(problems)
    assert "lost" not in (plane.folder / "mnt.log").read_text()


def test_a_lock_and_an_unlinked_file_move_along(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("a"))
    other = plane.mount("other", plane.address("b"))
    (point / "locked").write_bytes(b"x" * 100)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(point)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        done = plane.command("remap", str(point), plane.address("b"))
        assert done.returncode == 0, done.stderr
        with (other / "locked").open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
        output, _ = holder.communicate("go on\n", timeout=PATIENCE_S)
        assert output == "unlinked but there\n"
    finally:
        holder.kill()
        holder.wait()
        for stream in (holder.stdin, holder.stdout):
            if stream is not None:
                stream.close()
    assert names(point) == ["locked"]


HOLD = """
import fcntl, os, sys
point = sys.argv[1]
locked = open(point + "/locked", "r+b")
fcntl.lockf(locked, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
gone = open(point + "/gone", "w+b", buffering=0)
gone.write(b"unlinked but there")
os.unlink(point + "/gone")
print("held", flush=True)
sys.stdin.readline()
gone.seek(0)
print(gone.read().decode(), flush=True)
"""


def test_a_forwarder_that_is_come_back_to_learns_what_was_renamed_meanwhile(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    point = plane.mount("mnt", plane.address("b"))
    with (point / "old").open("wb") as file:
        for name in ("a", "b"):
            done = plane.command("remap", str(point), plane.address(name))
            assert done.returncode == 0, done.stderr
            os.fchmod(file.fileno(), 0o600)  # by node: the forwarder is told where that is
        (point / "old").rename(point / "new")
        done = plane.command("remap", str(point), plane.address("a"))
        assert done.returncode == 0, done.stderr
        os.fchmod(file.fileno(), 0o640)
    assert (plane.tree / "new").stat().st_mode & 0o777 == 0o640


def test_a_forwarder_that_does_not_answer_moves_nothing(plane: Plane) -> None:
    plane.forwarder("a")
    point = plane.mount("mnt", plane.address("a"))
    done = plane.command("remap", str(point), plane.address("nobody"))
    assert done.returncode == 8
    assert "no forwarder answers" in done.stderr
    assert plane.serving(point) == "a"
    (point / "file").write_bytes(b"x")


def test_a_forwarder_of_another_tree_is_refused(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = Plane(tmp_path_factory.mktemp("elsewhere"))
    try:
        plane.forwarder("a")
        elsewhere.forwarder("z")
        point = plane.mount("mnt", plane.address("a"))
        done = plane.command("remap", str(point), elsewhere.address("z"))
        assert done.returncode == 8
        assert "another tree" in done.stderr
        assert plane.serving(point) == "a"
    finally:
        elsewhere.close()


def test_a_map_file_that_changes_moves_the_mount(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    map_file = plane.folder / "map"
    map_file.write_text(f"* {plane.address('a')}\n")
    point = plane.mount("mnt", options=("--map", str(map_file)))
    assert plane.serving(point) == "a"
    fresh = plane.folder / "fresh"
    fresh.write_text(f"* {plane.address('b')}\n")
    fresh.replace(map_file)
    until(lambda: plane.serving(point) == "b", "the mount follows its map file")
    (point / "file").write_bytes(b"x")
    assert (plane.tree / "file").read_bytes() == b"x"


def test_sighup_has_the_map_file_read_again_and_ends_nothing(plane: Plane) -> None:
    for name in ("a", "b"):
        plane.forwarder(name)
    map_file = plane.folder / "map"
    map_file.write_text(f"* {plane.address('a')}\n")
    point = plane.mount("mnt", options=("--map", str(map_file)))
    map_file.write_text(f"* {plane.address('b')}\n")
    plane.mounts[point].send_signal(signal.SIGHUP)
    until(lambda: plane.serving(point) == "b", "the mount follows its map file")
    (point / "file").write_bytes(b"x")
    assert (plane.tree / "file").read_bytes() == b"x"
    assert plane.mounts[point].poll() is None


def test_from_unix_to_tcp_and_back_with_checksums(plane: Plane) -> None:
    key = plane.folder / "key"
    token = plane.folder / "token"
    assert plane.command("token", "make-key", str(key)).returncode == 0
    issued = plane.command("token", "issue", "--key", str(key), "--user", str(os.geteuid()))
    assert issued.returncode == 0, issued.stderr
    token.write_text(issued.stdout)
    token.chmod(0o600)
    plane.forwarder("a")
    plane.forwarder("b", "--listen", "tcp:127.0.0.1:0", "--token-key", str(key), "--allow", "root")
    ready = (plane.folder / "b.log").read_text().split()
    tcp = next(word for word in ready if word.startswith("tcp:"))
    point = plane.mount("mnt", plane.address("a"), options=("--checksum", "--token", str(token)))
    workers = Workers(plane.folder, point, 2)
    try:
        for address in (tcp, plane.address("a"), tcp):
            workers.advance(5)
            done = plane.command("remap", str(point), address)
            assert done.returncode == 0, done.stderr
        workers.advance(5)
        data = bytes(range(256)) * 8192
        (point / "large").write_bytes(data)
        assert (point / "large").read_bytes() == data
        _, problems = workers.finish()
    finally:
        workers.kill()
    assert not problems, "\n".join(problems)
