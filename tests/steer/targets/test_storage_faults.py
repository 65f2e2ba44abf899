"""Storage that fails: a full target, a target that has gone, an I/O error. Who is hit hears it; the others work."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError
from fairlead.steer.fs.trees.base import ROOT, Change
from fairlead.steer.targets.check import check_store
from fairlead.steer.targets.tree import TargetsTree
from faults import Faults, faulty
from targets_building import opened, read_file, write_file, write_targets


def _target_of(tree: TargetsTree, node: int) -> str:
    layout = tree.get_attribute(node, b"user.fairlead.layout").decode()
    return layout.rpartition("targets=")[2]


def _on(tree: TargetsTree, target: str, data: bytes) -> int:
    """A file whose only object is on that target."""
    for number in range(50):
        node = write_file(tree, f"{target}-{number}".encode(), data)
        if _target_of(tree, node) == target:
            return node
    raise AssertionError(f"nothing was placed on {target}")


@pytest.fixture(params=["t0"])
def small(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder: Path = tmp_path / request.param
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a file system of a size needs root and mount(8)")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_target_stops_its_writer_only(tmp_path: Path, small: Path) -> None:
    file = write_targets(tmp_path, "stripe_count = 1")
    with opened(file) as tree:
        node = _on(tree, "t0", b"start")
        writer = tree.open(node, os.O_RDWR)
        piece = memoryview(bytes(1 << 20))

        def fill() -> None:
            for number in range(20):
                writer.write_from(piece, number << 20)

        with pytest.raises(OSError) as caught:
            fill()
        assert caught.value.errno == errno.ENOSPC
        writer.close()
        size = tree.stat(node).st_size
        assert 0 < size <= 8 << 20
        for number in range(6):
            other = write_file(tree, b"other%d" % number, b"data")
            assert _target_of(tree, other) != "t0", "a full target takes no new file"
            assert read_file(tree, other) == b"data"
        assert len(read_file(tree, node)) == size
        tree.unlink(ROOT, next(entry.name for entry in tree.list_entries(ROOT) if entry.node == node))
        assert os.statvfs(small).f_bavail > 1000
        assert not check_store(tree.store, tree.targets).faults


def test_a_target_that_has_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write_targets(tmp_path, "stripe_count = 1")
    with opened(file) as tree:
        lost, kept = _on(tree, "t0", b"lost"), _on(tree, "t1", b"kept")
        size = tree.stat(lost).st_size
        (tmp_path / "t0").rename(tmp_path / "away")
        with caplog.at_level(logging.ERROR), pytest.raises(OSError) as caught:
            read_file(tree, lost)
        assert caught.value.errno == errno.EIO
        assert "target t0" in caplog.text
        assert tree.stat(lost).st_size == size, "a size that was recorded is still known"
        assert read_file(tree, kept) == b"kept"
        for number in range(4):
            assert _target_of(tree, write_file(tree, b"new%d" % number, b"x")) != "t0"
        with pytest.raises(OSError) as caught:
            tree.open(lost, os.O_RDWR).write_from(memoryview(b"x"), 0)
        assert caught.value.errno == errno.EIO
        assert {problem.kind for problem in check_store(tree.store, tree.targets).problems} == {"target"}
        (tmp_path / "away").rename(tmp_path / "t0")
        assert read_file(tree, lost) == b"lost"
        assert not check_store(tree.store, tree.targets).problems


def test_an_unmounted_target_gets_no_objects(tmp_path: Path) -> None:
    file = write_targets(tmp_path, "stripe_count = 3\nstripe_size = 4096")
    with opened(file) as tree:
        node, _, made = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        made.write_from(memoryview(b"x"), 0)
        # What is left of an unmounted disk is an empty directory.
        for name in ("t0", "t1", "t2"):
            (tmp_path / name).rename(tmp_path / f"{name}-away")
            (tmp_path / name).mkdir()
        with pytest.raises(OSError) as caught:
            made.write_from(memoryview(bytes(8192)), 4096)
        assert caught.value.errno == errno.EIO
        assert not any(list((tmp_path / name).iterdir()) for name in ("t0", "t1", "t2"))
        for name in ("t0", "t1", "t2"):
            (tmp_path / name).rmdir()
            (tmp_path / f"{name}-away").rename(tmp_path / name)
        assert made.write_from(memoryview(bytes(8192)), 4096) == 8192
        made.close()
        assert tree.stat(node).st_size == 12288


def test_a_lost_object_is_an_error_and_not_zeros(tmp_path: Path) -> None:
    file = write_targets(tmp_path, "stripe_count = 3\nstripe_size = 4096")
    with opened(file) as tree:
        node = write_file(tree, b"a", bytes(range(256)) * 200)
        gone = next((tmp_path / "t1" / "objects").rglob("*.*"))
        gone.unlink()
        with pytest.raises(OSError) as caught:
            read_file(tree, node)
        assert caught.value.errno == errno.EIO
        found = check_store(tree.store, tree.targets)
        assert [problem.kind for problem in found.problems] == ["missing"]
        assert found.faults == 1
        check_store(tree.store, tree.targets, repair=True)
        assert len(read_file(tree, node)) == 51200, "now it is a hole"
        assert not check_store(tree.store, tree.targets).problems


def test_an_io_error_reaches_the_caller(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    faults = Faults()
    with opened(file) as tree:
        write_file(tree, b"a", b"data")
        broken = faulty(tree, faults)
        faults.fail("read_into", errno.EIO, after=1, times=1)
        node, _ = broken.lookup(ROOT, b"a")
        opened_file = broken.open(node, os.O_RDONLY)
        buffer = memoryview(bytearray(4))
        assert opened_file.read_into(buffer, 0) == 4
        with pytest.raises(OSError) as caught:
            opened_file.read_into(buffer, 0)
        assert caught.value.errno == errno.EIO
        assert opened_file.read_into(buffer, 0) == 4
        assert faults.calls["read_into"] == 3
        opened_file.close()


def test_an_object_that_cannot_be_opened(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    with opened(file) as tree:
        node = write_file(tree, b"a", b"data")
        path = next(tmp_path.glob("t?/objects/*/*"))
        path.unlink()
        path.symlink_to("/etc/passwd")
        with pytest.raises(OSError):
            read_file(tree, node)


def test_a_target_of_another_tree_is_refused(tmp_path: Path) -> None:
    with opened(write_targets(tmp_path / "one")) as tree:
        write_file(tree, b"a", b"data")
    file = write_targets(tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "t0")
    shutil.copytree(tmp_path / "one" / "t0", tmp_path / "two" / "t0")
    with pytest.raises(ConfigError, match="of tree"), opened(file):
        pass


def test_a_truncation_that_fails_is_finished_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_targets(tmp_path, "stripe_count = 3\nstripe_size = 4096")
    with opened(file) as tree:
        node = write_file(tree, b"a", b"x" * 50_000)

        def broken(descriptor: int, length: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", broken)
            for _ in range(2):
                with pytest.raises(OSError):
                    tree.change(node, Change(size=5000), None)
            assert tree.stat(node).st_size == 5000
            with pytest.raises(OSError):
                read_file(tree, node)
        assert {problem.kind for problem in check_store(tree.store, tree.targets).problems} == {
            "unfinished",
            "oversize",
        }
        tree.change(node, Change(size=60_000), None)
        assert read_file(tree, node) == b"x" * 5000 + bytes(55_000)
        assert not check_store(tree.store, tree.targets).problems


@pytest.mark.parametrize("small", ["metadata"], indirect=True)
def test_a_full_disk_under_the_metadata(tmp_path: Path, small: Path) -> None:
    file = write_targets(tmp_path)
    with opened(file) as tree:
        (small / "ballast").write_bytes(bytes(3 << 20))
        made = 0

        def fill() -> None:
            nonlocal made
            for number in range(20_000):
                tree.mkdir(ROOT, b"%d" % number, 0o755)
                made = number + 1

        with pytest.raises(OSError) as caught:
            fill()
        assert caught.value.errno == errno.ENOSPC
        assert len(tree.list_entries(ROOT)) == made + 2
        (small / "ballast").unlink()
        tree.mkdir(ROOT, b"one more", 0o755)
        tree.sync_directory(ROOT)
    with opened(file) as tree:
        assert len(tree.list_entries(ROOT)) == made + 3
