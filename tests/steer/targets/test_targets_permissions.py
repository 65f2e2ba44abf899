"""Who may do what in a striped tree, for callers no kernel has checked; objects stay the forwarder's own."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.fs.trees.base import ROOT, Change
from fairlead.steer.targets.inode import Inode, Who
from fairlead.steer.targets.permissions import check_permission
from fairlead.steer.targets.tree import TargetsTree, open_tree
from targets_building import read_file, write_file, write_targets

ONE, TWO = 54321, 54322


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[TargetsTree]:
    if not thread_identity.enabled:
        pytest.skip("only root acts as other users")
    made = open_tree(str(write_targets(tmp_path)))
    made.change(ROOT, Change(mode=0o1777), None)
    yield made
    thread_identity.switch_thread_user(0, 0)
    made.close()


def _refused(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno == number


def test_modes_hold(tree: TargetsTree, tmp_path: Path) -> None:
    thread_identity.switch_thread_user(ONE, ONE)
    node = write_file(tree, b"mine", b"data")
    st = tree.change(node, Change(mode=0o640), None)
    assert (st.st_uid, st.st_gid) == (ONE, ONE)
    with thread_identity.forwarder_identity:
        (found,) = tmp_path.glob("t?/objects/*/*")
        assert (found.stat().st_uid, stat.S_IMODE(found.stat().st_mode)) == (0, 0o600)
    thread_identity.switch_thread_user(TWO, ONE)
    assert read_file(tree, node) == b"data"
    _refused(errno.EACCES, lambda: tree.open(node, os.O_RDWR))
    thread_identity.switch_thread_user(TWO, TWO)
    _refused(errno.EACCES, lambda: tree.open(node, os.O_RDONLY))
    _refused(errno.EACCES, lambda: tree.access(node, os.R_OK))
    _refused(errno.EACCES, lambda: tree.change(node, Change(size=0), None))
    _refused(errno.EPERM, lambda: tree.change(node, Change(mode=0o777), None))
    _refused(errno.EPERM, lambda: tree.change(node, Change(uid=TWO), None))
    _refused(errno.EPERM, lambda: tree.change(node, Change(mtime_ns=1), None))
    _refused(errno.EACCES, lambda: tree.set_attribute(node, b"user.x", b"1", 0))
    _refused(errno.EPERM, lambda: tree.set_attribute(node, b"trusted.x", b"1", 0))
    _refused(errno.EPERM, lambda: tree.mknod(ROOT, b"device", stat.S_IFCHR | 0o600, 0x103))


def test_the_sticky_bit_holds(tree: TargetsTree) -> None:
    thread_identity.switch_thread_user(ONE, ONE)
    write_file(tree, b"mine", b"data")
    thread_identity.switch_thread_user(TWO, TWO)
    write_file(tree, b"other", b"data")
    _refused(errno.EPERM, lambda: tree.unlink(ROOT, b"mine"))
    _refused(errno.EPERM, lambda: tree.rename(ROOT, b"mine", ROOT, b"x", 0))
    _refused(errno.EPERM, lambda: tree.rename(ROOT, b"other", ROOT, b"mine", 0))
    tree.unlink(ROOT, b"other")


def test_directories_are_closed_by_their_mode(tree: TargetsTree) -> None:
    thread_identity.switch_thread_user(ONE, ONE)
    folder, _ = tree.mkdir(ROOT, b"d", 0o711)
    node = write_file(tree, b"a", b"data", folder)
    thread_identity.switch_thread_user(TWO, TWO)
    assert tree.lookup(folder, b"a")[0] == node
    _refused(errno.EACCES, lambda: tree.list_entries(folder))
    _refused(errno.EACCES, lambda: write_file(tree, b"b", b"", folder))
    _refused(errno.EACCES, lambda: tree.unlink(folder, b"a"))
    thread_identity.switch_thread_user(ONE, ONE)
    tree.change(folder, Change(mode=0o600), None)
    _refused(errno.EACCES, lambda: tree.lookup(folder, b"a"))


def test_a_group_is_inherited_where_asked_for(tree: TargetsTree) -> None:
    folder, _ = tree.mkdir(ROOT, b"d", 0o777)
    tree.change(folder, Change(gid=TWO), None)
    tree.change(folder, Change(mode=0o2777), None)
    thread_identity.switch_thread_user(ONE, ONE)
    below, st = tree.mkdir(folder, b"e", 0o755)
    assert st.st_gid == TWO
    assert st.st_mode & stat.S_ISGID
    assert tree.stat(write_file(tree, b"a", b"", below)).st_gid == TWO


def test_reopening_is_for_the_owner(tree: TargetsTree) -> None:
    thread_identity.switch_thread_user(ONE, ONE)
    node = write_file(tree, b"a", b"data")
    tree.change(node, Change(mode=0), None)
    tree.reopen(node, os.O_RDWR).close()
    thread_identity.switch_thread_user(TWO, TWO)
    _refused(errno.EACCES, lambda: tree.reopen(node, os.O_RDONLY))


@pytest.mark.parametrize("mode", [0o700, 0o070, 0o007, 0o000, 0o640])
@pytest.mark.parametrize("mask", range(8))
def test_the_first_class_that_fits_decides(mode: int, mask: int) -> None:
    inode = Inode(1, stat.S_IFREG | mode, 1, ONE, ONE, 0, 0, 0, 0, 0)
    for who, bits in (
        (Who(ONE, TWO), mode >> 6),
        (Who(TWO, ONE), mode >> 3),
        (Who(TWO, TWO, [ONE]), mode >> 3),
        (Who(TWO, TWO), mode),
    ):
        if mask & ~bits & 7:
            with pytest.raises(PermissionError):
                check_permission(inode, mask, who)
        else:
            check_permission(inode, mask, who)
    check_permission(inode, mask, None)
