"""A directory as a tree: the contract of trees, and what only a directory can go wrong with."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.kit.testing.tree_contract import (
    TreeContract,
    expect_contract_error,
    list_contract_names,
    put_contract_file,
    read_contract_content,
    read_contract_file,
)
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.fs.trees.base import OWN_FOLDER, ROOT, Change, FileTree
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.fs.trees.unlinked_files import LEFT_OVER_NS
from file_contract import OpenFileContract

KEPT = Path(os.fsdecode(OWN_FOLDER)) / "kept"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="acting as other users needs root")


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[DirectoryTree]:
    made = DirectoryTree(tmp_path, folders=16)
    yield made
    made.close()


class TestDirectoryTree(TreeContract, OpenFileContract):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[FileTree]:
        made = DirectoryTree(tmp_path, folders=16)
        yield made
        made.close()

    def again(self, tree: FileTree) -> FileTree:
        return DirectoryTree(tree.name)


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    thread_identity.switch_thread_user(user, user)
    try:
        yield
    finally:
        thread_identity.switch_thread_user(0, 0)


def test_a_removed_open_file_is_kept_until_its_last_close(tree: DirectoryTree, tmp_path: Path) -> None:
    node, _, one = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
    two = tree.open(node, os.O_RDONLY)
    tree.unlink(ROOT, b"a")
    assert [path.name for path in (tmp_path / KEPT).iterdir()] == [f"{node - 1:x}"]
    assert stat.S_IMODE((tmp_path / KEPT).stat().st_mode) == 0o700
    one.close()
    assert len(list((tmp_path / KEPT).iterdir())) == 1
    two.close()
    assert list((tmp_path / KEPT).iterdir()) == []
    assert tree.stat(ROOT).st_nlink == 2


def test_a_failed_removal_keeps_nothing(tree: DirectoryTree, tmp_path: Path) -> None:
    put_contract_file(tree, b"a")
    folder, _ = tree.mkdir(ROOT, b"d", 0o755)
    put_contract_file(tree, b"x", parent=folder)
    file = tree.open(tree.lookup(ROOT, b"a")[0], os.O_RDWR)
    with expect_contract_error(errno.ENOTDIR):
        tree.rename(ROOT, b"d", ROOT, b"a", 0)
    assert file.stat().st_nlink == 1
    assert list((tmp_path / KEPT).iterdir()) == []
    file.close()


def test_the_end_of_a_forwarder_leaves_kept_files_for_another(tmp_path: Path) -> None:
    first = DirectoryTree(tmp_path)
    node, _, file = first.create(ROOT, b"a", os.O_RDWR, 0o644)
    file.write_from(memoryview(b"data"), 0)
    first.unlink(ROOT, b"a")
    first.close()
    second = DirectoryTree(tmp_path)
    taken = second.reopen(node, os.O_RDONLY)
    assert read_contract_content(taken) == b"data"
    taken.close()
    assert list((tmp_path / KEPT).iterdir()) == []
    second.close()


def test_what_was_left_long_ago_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / KEPT).mkdir(parents=True)
    (tmp_path / KEPT / "1f").write_bytes(b"left")
    DirectoryTree(tmp_path).close()
    assert (tmp_path / KEPT / "1f").exists()
    now = (tmp_path / KEPT / "1f").stat().st_ctime_ns
    monkeypatch.setattr("fairlead.steer.fs.trees.unlinked_files.now_ns", lambda: now + LEFT_OVER_NS + 1)
    DirectoryTree(tmp_path).close()
    assert not (tmp_path / KEPT / "1f").exists()


def test_nothing_outside_is_reached(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    export = tmp_path / "export"
    (export / "d").mkdir(parents=True)
    (export / "d" / "a").write_bytes(b"inside")
    tree = DirectoryTree(export)
    folder, _ = tree.lookup(ROOT, b"d")
    node, _ = tree.lookup(folder, b"a")
    # A directory on the way, and the file itself, become links to the outside behind the tree's back.
    tree.forget([])
    (export / "d").rename(export / "e")
    (export / "d").symlink_to("..")
    fresh = DirectoryTree(export)
    with expect_contract_error(errno.ESTALE):
        fresh.place(node, [(ROOT, b"d"), (folder, b"secret")])
    link, st = fresh.lookup(ROOT, b"d")
    assert stat.S_ISLNK(st.st_mode)
    with pytest.raises(OSError):
        fresh.lookup(link, b"secret")
    (export / "e" / "a").unlink()
    (export / "e" / "a").symlink_to(tmp_path / "secret")
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_TRUNC):
        with pytest.raises(OSError):
            tree.open(node, flags)
    with pytest.raises(OSError):
        tree.create(folder, b"a", os.O_RDWR | os.O_TRUNC, 0o644)
    with pytest.raises(OSError):
        tree.change(node, Change(size=0), None)
    assert (tmp_path / "secret").read_bytes() == b"secret"
    fresh.close()
    tree.close()


def test_a_directory_moved_outside_is_left_there(tmp_path: Path) -> None:
    export = tmp_path / "export"
    (export / "d").mkdir(parents=True)
    tree = DirectoryTree(export)
    folder, _ = tree.lookup(ROOT, b"d")
    assert tree.lookup(folder, b"..")[0] == ROOT
    (export / "d").rename(tmp_path / "d")
    with pytest.raises(OSError):
        tree.stat(folder)
    tree.close()


def test_another_file_system_inside_is_refused(tree: DirectoryTree) -> None:
    proc = DirectoryTree("/")
    if Path("/proc").is_mount():
        with expect_contract_error(errno.EXDEV):
            proc.lookup(ROOT, b"proc")
    proc.close()


def test_special_files_are_never_opened(tree: DirectoryTree, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    os.mknod(tmp_path / "s", stat.S_IFSOCK | 0o600)
    for name in (b"fifo", b"s"):
        node, _ = tree.lookup(ROOT, name)
        with expect_contract_error(errno.ENXIO):
            tree.open(node, os.O_RDWR)
        with expect_contract_error(errno.ESTALE):
            tree.create(ROOT, name, os.O_RDWR, 0o644)


def test_a_descriptor_is_no_other_file_after_its_close(tree: DirectoryTree) -> None:
    file = tree.open(put_contract_file(tree, b"a", b"data"), os.O_RDWR)
    descriptor = file.descriptor or 0
    file.close()
    others = [tree.open(put_contract_file(tree, b"b%d" % number, b"other"), os.O_RDONLY) for number in range(3)]
    assert descriptor not in [other.descriptor for other in others]
    with expect_contract_error(errno.EBADF):
        read_contract_content(file)
    with expect_contract_error(errno.EBADF):
        file.write_from(memoryview(b"x"), 0)
    file.close()
    for other in others:
        other.close()


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    tree = DirectoryTree(tmp_path, folders=8)
    for number in range(30):
        folder, _ = tree.mkdir(ROOT, b"d%d" % number, 0o755)
        node = put_contract_file(tree, b"a", b"x", folder)
        assert read_contract_file(tree, node) == b"x"
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 12
    tree.close()
    del tree
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_threads_share_a_tree(tree: DirectoryTree) -> None:
    folders = [tree.mkdir(ROOT, b"d%d" % number, 0o755)[0] for number in range(24)]
    failures: list[BaseException] = []

    def work(which: int) -> None:
        try:
            for turn in range(30):
                for folder in folders:
                    name = b"f%d-%d" % (which, turn)
                    node = put_contract_file(tree, name, name, folder)
                    assert read_contract_file(tree, node) == name
                    tree.unlink(folder, name)
        except BaseException as error:  # noqa: BLE001  (told to the test's own thread)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(list_contract_names(tree, folder) == set() for folder in folders)


@needs_root
def test_files_belong_to_who_asked(tree: DirectoryTree, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with acting_as(65534):
        _, st, file = tree.create(ROOT, b"a", os.O_RDWR, 0o600)
        file.close()
    assert (st.st_uid, st.st_gid) == (65534, 65534)
    put_contract_file(tree, b"b")
    assert (tmp_path / "b").stat().st_uid == 0


@needs_root
def test_what_the_caller_may_not_the_tree_does_not(tree: DirectoryTree, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"data")
    (tmp_path / "a").chmod(0o600)
    tmp_path.chmod(0o755)
    with acting_as(65534):
        node, _ = tree.lookup(ROOT, b"a")
        with pytest.raises(PermissionError):
            tree.open(node, os.O_RDONLY)
        with pytest.raises(PermissionError):
            tree.create(ROOT, b"b", os.O_RDWR, 0o644)
        with pytest.raises(PermissionError):
            tree.unlink(ROOT, b"a")
        with pytest.raises(PermissionError):
            tree.change(node, Change(mode=0o777), None)
        with pytest.raises(PermissionError):
            tree.access(node, os.R_OK)


@needs_root
def test_another_users_open_file_is_kept(tree: DirectoryTree, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with acting_as(65534):
        _, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o600)
        tree.unlink(ROOT, b"a")
    assert len(list((tmp_path / KEPT).iterdir())) == 1
    with acting_as(65534):
        file.close()
    assert list((tmp_path / KEPT).iterdir()) == []


@needs_root
def test_another_users_removed_file_is_not_opened_again_by_everybody(tree: DirectoryTree, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o600)
    file.write_from(memoryview(b"secret"), 0)
    mine, _, own_file = tree.create(ROOT, b"b", os.O_RDWR, 0o600)
    tree.change(mine, Change(mode=0, uid=65534), None)
    for name in (b"a", b"b"):
        tree.unlink(ROOT, name)
    other = DirectoryTree(tmp_path)
    with acting_as(65534):
        with pytest.raises(PermissionError):
            other.reopen(node, os.O_RDONLY)
        taken = other.reopen(mine, os.O_RDWR)
    for each in (taken, file, own_file):
        each.close()
    other.close()


@needs_root
def test_a_file_is_opened_again_by_its_owner_whatever_its_mode(tree: DirectoryTree, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with acting_as(65534):
        node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0)
        again = tree.reopen(node, os.O_RDWR)
        assert again.write_from(memoryview(b"x"), 0) == 1
    with acting_as(65533), pytest.raises(PermissionError):
        tree.reopen(node, os.O_RDONLY)
    file.close()
    again.close()


@needs_root
def test_nothing_is_kept_in_a_folder_another_user_made(tmp_path: Path) -> None:
    (tmp_path / KEPT).mkdir(parents=True)
    os.chown(tmp_path / KEPT.parent, 65534, 65534)
    tree = DirectoryTree(tmp_path)
    _, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o600)
    tree.unlink(ROOT, b"a")
    assert list((tmp_path / KEPT).iterdir()) == []
    assert file.stat().st_nlink == 0
    file.close()
    tree.close()


@needs_root
def test_a_full_device(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", small], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        tree = DirectoryTree(small)
        node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o600)
        piece, written = memoryview(bytes(4096)), 0
        with expect_contract_error(errno.ENOSPC):
            while written < 1 << 20:
                written += file.write_from(piece, written)
        assert tree.stat(node).st_size == written > 0
        tree.unlink(ROOT, b"a")
        file.close()
        assert put_contract_file(tree, b"b", b"x" * 4096)
        tree.close()
        del tree
    finally:
        subprocess.run(["umount", "-l", small], check=True)


@needs_root
def test_identity_is_of_one_thread(tree: DirectoryTree, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    owners = []

    def work() -> None:
        thread_identity.switch_thread_user(1234, 1234)
        _, st, file = tree.create(ROOT, b"theirs", os.O_RDWR, 0o600)
        owners.append(st.st_uid)
        file.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert owners == [1234]
    put_contract_file(tree, b"ours")
    assert (tmp_path / "ours").stat().st_uid == 0


def test_modes_are_exact_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        one, two = DirectoryTree(tmp_path), DirectoryTree(tmp_path)
        one.close()
        _, st = two.mkdir(ROOT, b"d", 0o777)
        assert stat.S_IMODE(st.st_mode) == 0o777
        two.close()
    finally:
        os.umask(before)
