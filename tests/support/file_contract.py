"""What every tree of the forwarding plane must do with open files, their data and their locks, also when another
forwarder serves the same tree. Names and attributes are in `testing.trees`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator

import pytest

from fairlead.kit.testing.tree_contract import (
    expect_contract_error,
    list_contract_names,
    put_contract_file,
    read_contract_content,
    read_contract_file,
)
from fairlead.steer.fs.trees.base import ROOT, Change, FileTree, Lock, UnknownNode

END = (1 << 63) - 1
READ, WRITE, FREE = int(fcntl.F_RDLCK), int(fcntl.F_WRLCK), int(fcntl.F_UNLCK)


class OpenFileContract:
    """Data, removed files, locks. A subclass gives the fixture `tree` as for `TreeContract`, and `again`."""

    def again(self, tree: FileTree) -> FileTree:
        """The same tree as another forwarder has it."""
        raise NotImplementedError

    @pytest.fixture
    def other(self, tree: FileTree) -> Iterator[FileTree]:
        """A second forwarder's tree on the same storage."""
        second = self.again(tree)
        yield second
        second.close()

    # Data

    def test_write_then_read(self, tree: FileTree) -> None:
        _, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        assert file.write_from(memoryview(b"hello"), 0) == 5
        assert file.write_from(memoryview(b"world"), 10) == 5
        assert read_contract_content(file) == b"hello" + bytes(5) + b"world"
        assert read_contract_content(file, 3, 1) == b"ell"
        assert read_contract_content(file, 100, 15) == b""
        assert read_contract_content(file, 100, 1 << 40) == b""
        assert file.stat().st_size == 15
        file.close()

    def test_a_large_piece(self, tree: FileTree) -> None:
        data = os.urandom(3 << 20)
        node = put_contract_file(tree, b"a", data)
        file = tree.open(node, os.O_RDONLY)
        assert read_contract_content(file, len(data) + 10) == data
        assert read_contract_content(file, 70_000, 1_234_567) == data[1_234_567:1_304_567]
        file.close()

    def test_append(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"start")
        one, two = tree.open(node, os.O_WRONLY | os.O_APPEND), tree.open(node, os.O_WRONLY | os.O_APPEND)
        one.write_from(memoryview(b"1"), 0)
        two.write_from(memoryview(b"2"), 0)
        one.write_from(memoryview(b"3"), 2)
        one.close()
        two.close()
        assert read_contract_file(tree, node) == b"start123"

    def test_open_with_truncation(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        file = tree.open(node, os.O_WRONLY | os.O_TRUNC)
        assert file.stat().st_size == 0
        file.close()

    def test_open_modes_hold(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        file = tree.open(node, os.O_RDONLY)
        with expect_contract_error(errno.EBADF):
            file.write_from(memoryview(b"x"), 0)
        file.close()
        file = tree.open(node, os.O_WRONLY)
        with expect_contract_error(errno.EBADF):
            read_contract_content(file)
        file.close()

    def test_open_of_a_directory(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        with expect_contract_error(errno.EISDIR):
            tree.open(folder, os.O_RDWR)

    def test_truncate(self, tree: FileTree) -> None:
        node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        file.write_from(memoryview(b"0123456789"), 0)
        file.truncate(4)
        assert read_contract_content(file) == b"0123"
        file.truncate(6)
        assert read_contract_content(file) == b"0123\0\0"
        assert tree.change(node, Change(size=2), None).st_size == 2
        assert tree.change(node, Change(size=3), file).st_size == 3
        assert read_contract_content(file) == b"01\0"
        file.close()

    def test_sync(self, tree: FileTree) -> None:
        _, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        file.write_from(memoryview(b"x"), 0)
        file.sync(True)
        file.sync(False)
        file.flush()
        file.close()
        tree.sync_directory(ROOT)
        tree.sync()

    def test_holes(self, tree: FileTree) -> None:
        _, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        file.write_from(memoryview(b"x" * 4096), 1 << 20)
        size = (1 << 20) + 4096
        data = file.seek(0, os.SEEK_DATA)
        assert 0 <= data <= 1 << 20
        assert file.seek(1 << 20, os.SEEK_HOLE) == size
        with expect_contract_error(errno.ENXIO):
            file.seek(size, os.SEEK_DATA)
        file.close()

    def test_allocate(self, tree: FileTree) -> None:
        _, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        try:
            file.allocate(0, 0, 10_000)
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP
        else:
            assert file.stat().st_size == 10_000
            file.allocate(1, 0, 20_000)
            assert file.stat().st_size == 10_000
        file.close()

    def test_copy_between_files(self, tree: FileTree) -> None:
        source = tree.open(put_contract_file(tree, b"a", b"0123456789"), os.O_RDONLY)
        _, _, file = tree.create(ROOT, b"b", os.O_RDWR, 0o644)
        try:
            copied = source.copy_to(2, file, 1, 5)
        except OSError as error:
            assert error.errno in (errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL)
        else:
            assert read_contract_content(file) == b"\0" + b"23456"[:copied]
        source.close()
        file.close()

    # Files that are open while names go

    def test_an_open_file_outlives_its_name(self, tree: FileTree) -> None:
        node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        file.write_from(memoryview(b"data"), 0)
        tree.unlink(ROOT, b"a")
        assert list_contract_names(tree) == set()
        assert read_contract_content(file) == b"data"
        assert file.stat().st_nlink == 0
        assert tree.stat(node).st_nlink == 0
        assert tree.change(node, Change(size=2), None).st_size == 2
        assert read_contract_content(file) == b"da"
        file.close()
        with pytest.raises((OSError, UnknownNode)):
            tree.stat(node)

    def test_an_open_file_outlives_being_replaced(self, tree: FileTree) -> None:
        old = tree.open(put_contract_file(tree, b"b", b"old"), os.O_RDWR)
        put_contract_file(tree, b"a", b"new")
        tree.rename(ROOT, b"a", ROOT, b"b", 0)
        assert read_contract_content(old) == b"old"
        assert old.stat().st_nlink == 0
        assert read_contract_file(tree, tree.lookup(ROOT, b"b")[0]) == b"new"
        old.close()

    def test_a_removed_name_is_free_for_another_file(self, tree: FileTree) -> None:
        node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        tree.unlink(ROOT, b"a")
        assert put_contract_file(tree, b"a", b"second") != node
        file.write_from(memoryview(b"first"), 0)
        assert read_contract_content(file) == b"first"
        file.close()
        assert read_contract_file(tree, tree.lookup(ROOT, b"a")[0]) == b"second"

    def test_temporary_file(self, tree: FileTree) -> None:
        try:
            node, st, file = tree.create_temporary(ROOT, os.O_RDWR | os.O_TMPFILE, 0o600)
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP
            pytest.skip("no temporary files on this file system")
        assert st.st_nlink == 0
        file.write_from(memoryview(b"data"), 0)
        assert list_contract_names(tree) == set()
        assert tree.link(node, ROOT, b"named")[1].st_nlink == 1
        assert tree.stat(node).st_nlink == 1
        file.close()
        assert read_contract_file(tree, tree.lookup(ROOT, b"named")[0]) == b"data"

    # Locks

    def test_locks_exclude_owners(self, tree: FileTree) -> None:
        file = tree.open(put_contract_file(tree, b"a", bytes(100)), os.O_RDWR)
        file.lock(1, Lock(0, 9, WRITE, 11))
        file.lock(2, Lock(10, 19, WRITE, 22))
        with pytest.raises(BlockingIOError):
            file.lock(2, Lock(5, 14, READ, 22))
        found = file.find_conflict(2, Lock(0, END, READ, 22))
        assert found is not None
        assert (found.start, found.end, found.kind) == (0, 9, WRITE)
        assert file.find_conflict(1, Lock(0, 9, WRITE, 11)) is None
        file.lock(1, Lock(0, 9, FREE, 11))
        file.lock(2, Lock(5, 14, READ, 22))
        file.unlock_owner(2)
        file.lock(1, Lock(0, END, WRITE, 11))
        file.unlock_owner(1)
        file.close()

    def test_read_locks_are_shared(self, tree: FileTree) -> None:
        file = tree.open(put_contract_file(tree, b"a"), os.O_RDWR)
        file.lock(1, Lock(0, END, READ, 1))
        file.lock(2, Lock(0, END, READ, 2))
        with pytest.raises(BlockingIOError):
            file.lock(1, Lock(0, 0, WRITE, 1))
        file.unlock_owner(2)
        file.lock(1, Lock(0, 0, WRITE, 1))
        file.unlock_owner(1)
        file.close()

    def test_locks_of_one_owner_split_and_merge(self, tree: FileTree) -> None:
        file = tree.open(put_contract_file(tree, b"a"), os.O_RDWR)
        file.lock(1, Lock(0, 99, WRITE, 1))
        file.lock(1, Lock(40, 59, FREE, 1))
        file.lock(2, Lock(40, 59, WRITE, 2))
        for start in (0, 60):
            with pytest.raises(BlockingIOError):
                file.lock(2, Lock(start, start, READ, 2))
        file.unlock_owner(1)
        file.lock(2, Lock(0, END, WRITE, 2))
        file.unlock_owner(2)
        file.close()

    def test_locks_through_two_open_files(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        one, two = tree.open(node, os.O_RDWR), tree.open(node, os.O_RDWR)
        one.lock(1, Lock(0, END, WRITE, 1))
        two.lock(1, Lock(0, 9, WRITE, 1))
        with pytest.raises(BlockingIOError):
            two.lock(2, Lock(0, END, READ, 2))
        one.unlock_owner(1)
        two.lock(2, Lock(0, END, READ, 2))
        two.unlock_owner(2)
        one.close()
        two.close()

    def test_flock(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        one, two = tree.open(node, os.O_RDWR), tree.open(node, os.O_RDWR)
        one.flock(READ)
        two.flock(READ)
        with pytest.raises(BlockingIOError):
            two.flock(WRITE)
        one.flock(FREE)
        two.flock(WRITE)
        with pytest.raises(BlockingIOError):
            one.flock(READ)
        two.close()
        one.flock(WRITE)
        one.close()

    # Two forwarders of one tree

    def test_another_forwarder_is_told_the_place(self, tree: FileTree, other: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        node = put_contract_file(tree, b"a", b"data", folder)
        with pytest.raises(UnknownNode):
            other.stat(node)
        other.place(node, [(ROOT, b"d"), (folder, b"a")])
        assert read_contract_file(other, node) == b"data"

    def test_a_wrong_place_is_refused(self, tree: FileTree, other: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        put_contract_file(tree, b"b")
        for steps in ([(ROOT, b"b")], [(ROOT, b"x")], [(7, b"a")], []):
            with expect_contract_error(errno.ESTALE):
                other.place(node, steps)

    def test_changes_of_another_forwarder_are_seen(self, tree: FileTree, other: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"one")
        found, _ = other.lookup(ROOT, b"a")
        assert found == node
        file = other.open(found, os.O_WRONLY)
        file.write_from(memoryview(b"two and more"), 0)
        file.close()
        assert read_contract_file(tree, node) == b"two and more"
        assert tree.stat(node).st_size == 12

    def test_a_name_that_is_another_file_now(self, tree: FileTree, other: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"one")
        hold = tree.open(node, os.O_RDONLY)
        other.lookup(ROOT, b"a")
        tree.unlink(ROOT, b"a")
        put_contract_file(tree, b"a", b"two")
        with expect_contract_error(errno.ESTALE):
            other.stat(node)
        with expect_contract_error(errno.ESTALE):
            other.open(node, os.O_RDWR | os.O_TRUNC)
        assert read_contract_file(tree, tree.lookup(ROOT, b"a")[0]) == b"two"
        hold.close()

    def test_reopen(self, tree: FileTree, other: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        other.place(node, [(ROOT, b"a")])
        file = other.reopen(node, os.O_RDWR | os.O_TRUNC)
        assert read_contract_content(file) == b"data"
        file.close()

    def test_reopen_of_a_removed_file(self, tree: FileTree, other: FileTree) -> None:
        node, _, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        file.write_from(memoryview(b"data"), 0)
        tree.unlink(ROOT, b"a")
        taken = other.reopen(node, os.O_RDWR)
        assert read_contract_content(taken) == b"data"
        assert taken.stat().st_nlink == 0
        assert other.stat(node).st_nlink == 0
        taken.close()
        file.close()

    def test_reopen_of_nothing(self, tree: FileTree) -> None:
        with pytest.raises((OSError, UnknownNode)):
            tree.reopen(1 << 40, os.O_RDONLY)

    def test_locks_exclude_forwarders(self, tree: FileTree, other: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        found, _ = other.lookup(ROOT, b"a")
        one, two = tree.open(node, os.O_RDWR), other.open(found, os.O_RDWR)
        one.lock(1, Lock(0, 9, WRITE, 1))
        with pytest.raises(BlockingIOError):
            two.lock(1, Lock(0, 9, WRITE, 1))
        assert two.find_conflict(1, Lock(0, END, WRITE, 1)) is not None
        one.unlock_owner(1)
        two.lock(1, Lock(0, 9, WRITE, 1))
        two.unlock_owner(1)
        one.close()
        two.close()

    def test_flock_excludes_forwarders(self, tree: FileTree, other: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        found, _ = other.lookup(ROOT, b"a")
        one, two = tree.open(node, os.O_RDWR), other.open(found, os.O_RDWR)
        one.flock(WRITE)
        with pytest.raises(BlockingIOError):
            two.flock(READ)
        one.close()
        two.flock(READ)
        two.close()
