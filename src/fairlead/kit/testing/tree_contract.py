"""What every tree of the forwarding plane must do with names and attributes, as a pytest class with a fixture `tree`:
`class TestMine(TreeContract, OpenFileContract)`. Open files and locks: `OpenFileContract` of the tests.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairlead.steer.fs.trees.base import NOW, OWN_FOLDER, ROOT, Change, Entry, FileTree, OpenFile, Stat, UnknownNode

END = (1 << 63) - 1
READ, WRITE, FREE = int(fcntl.F_RDLCK), int(fcntl.F_WRLCK), int(fcntl.F_UNLCK)
NOREPLACE, EXCHANGE = 1, 2
BAD_NAMES = (b"", b".", b"..", b"a/b", b"/", b"../x", b"a\0b")
SECOND = 1_000_000_000


@contextmanager
def expect_contract_error(number: int) -> Iterator[None]:
    """Expects an OSError of that number."""
    with pytest.raises(OSError) as caught:
        yield
    assert caught.value.errno == number, f"{caught.value} instead of {os.strerror(number)}"


def put_contract_file(tree: FileTree, name: bytes, data: bytes = b"", parent: int = ROOT, mode: int = 0o644) -> int:
    """A closed file with that content; its node."""
    node, _, file = tree.create(parent, name, os.O_RDWR | os.O_EXCL, mode)
    if data:
        assert file.write_from(memoryview(data), 0) == len(data)
    file.close()
    return node


def read_contract_content(file: OpenFile, size: int = 1 << 16, offset: int = 0) -> bytes:
    """What a read gives."""
    buffer = memoryview(bytearray(size))
    return bytes(buffer[: file.read_into(buffer, offset)])


def read_contract_file(tree: FileTree, node: int) -> bytes:
    """Content of a file."""
    file = tree.open(node, os.O_RDONLY)
    try:
        return read_contract_content(file)
    finally:
        file.close()


def list_contract_names(tree: FileTree, node: int = ROOT) -> set[bytes]:
    """Names in a directory but `.` and `..`."""
    return {entry.name for entry in tree.list_entries(node)} - {b".", b".."}


class TreeContract:
    """Names, attributes, directories. A subclass gives the fixture `tree`: empty, new, closed after the test."""

    # Names

    def test_root_is_a_directory(self, tree: FileTree) -> None:
        st = tree.stat(ROOT)
        assert stat.S_ISDIR(st.st_mode)
        assert st.st_nlink == 2
        assert list_contract_names(tree) == set()
        assert {entry.name for entry in tree.list_entries(ROOT)} == {b".", b".."}

    def test_create_then_lookup(self, tree: FileTree) -> None:
        node, st, file = tree.create(ROOT, b"a", os.O_RDWR | os.O_EXCL, 0o640)
        assert node == st.st_ino + 1 == file.node
        assert stat.S_ISREG(st.st_mode)
        assert stat.S_IMODE(st.st_mode) == 0o640
        assert (st.st_size, st.st_nlink) == (0, 1)
        file.close()
        found, again = tree.lookup(ROOT, b"a")
        assert found == node
        assert again.st_mode == st.st_mode

    def test_names_are_bytes(self, tree: FileTree) -> None:
        given = {b"\xff\xfe", "naïve".encode(), b" lead", b"new\nline", b"-rf", b"n" * 255}
        for name in given:
            put_contract_file(tree, name, name)
        assert list_contract_names(tree) == given
        for name in given:
            assert read_contract_file(tree, tree.lookup(ROOT, name)[0]) == name

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_names_of_more_than_one_component_are_refused(self, tree: FileTree, name: bytes) -> None:
        put_contract_file(tree, b"a")
        if name not in (b".", b".."):
            with expect_contract_error(errno.EINVAL):
                tree.lookup(ROOT, name)
        with expect_contract_error(errno.EINVAL):
            tree.create(ROOT, name, os.O_RDWR, 0o644)
        with expect_contract_error(errno.EINVAL):
            tree.mkdir(ROOT, name, 0o755)
        with expect_contract_error(errno.EINVAL):
            tree.symlink(ROOT, name, b"x")
        with expect_contract_error(errno.EINVAL):
            tree.unlink(ROOT, name)
        with expect_contract_error(errno.EINVAL):
            tree.rename(ROOT, b"a", ROOT, name, 0)
        assert list_contract_names(tree) == {b"a"}

    def test_too_long_a_name(self, tree: FileTree) -> None:
        with expect_contract_error(errno.ENAMETOOLONG):
            tree.lookup(ROOT, b"n" * 256)
        with expect_contract_error(errno.ENAMETOOLONG):
            tree.create(ROOT, b"n" * 256, os.O_RDWR, 0o644)

    def test_dots_stay_inside(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        assert tree.lookup(folder, b".")[0] == folder
        assert tree.lookup(folder, b"..")[0] == ROOT
        assert tree.lookup(ROOT, b"..")[0] == ROOT

    def test_own_folder_is_hidden(self, tree: FileTree) -> None:
        put_contract_file(tree, b"a")
        with expect_contract_error(errno.ENOENT):
            tree.lookup(ROOT, OWN_FOLDER)
        for call in (
            lambda: tree.create(ROOT, OWN_FOLDER, os.O_RDWR, 0o644),
            lambda: tree.mkdir(ROOT, OWN_FOLDER, 0o755),
            lambda: tree.symlink(ROOT, OWN_FOLDER, b"a"),
            lambda: tree.unlink(ROOT, OWN_FOLDER),
            lambda: tree.rmdir(ROOT, OWN_FOLDER),
            lambda: tree.rename(ROOT, OWN_FOLDER, ROOT, b"b", 0),
            lambda: tree.rename(ROOT, b"a", ROOT, OWN_FOLDER, 0),
        ):
            with expect_contract_error(errno.EPERM):
                call()
        assert list_contract_names(tree) == {b"a"}

    def test_own_folder_is_a_plain_name_elsewhere(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        put_contract_file(tree, OWN_FOLDER, b"x", folder)
        assert list_contract_names(tree, folder) == {OWN_FOLDER}

    def test_nothing_under_a_file(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        with pytest.raises(OSError) as caught:
            tree.lookup(node, b"x")
        assert caught.value.errno in (errno.ENOTDIR, errno.ESTALE)

    def test_lookup_of_nothing(self, tree: FileTree) -> None:
        with expect_contract_error(errno.ENOENT):
            tree.lookup(ROOT, b"a")

    def test_a_node_never_seen(self, tree: FileTree) -> None:
        with pytest.raises(UnknownNode):
            tree.stat(1 << 40)
        with pytest.raises(UnknownNode):
            tree.lookup(1 << 40, b"a")
        with pytest.raises(UnknownNode):
            tree.open(1 << 40, os.O_RDONLY)

    # Making and removing

    def test_exclusive_create(self, tree: FileTree) -> None:
        put_contract_file(tree, b"a")
        with expect_contract_error(errno.EEXIST):
            tree.create(ROOT, b"a", os.O_RDWR | os.O_EXCL, 0o644)

    def test_create_of_what_is_there_opens_it(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data", mode=0o600)
        found, st, file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        assert (found, st.st_size, stat.S_IMODE(st.st_mode)) == (node, 4, 0o600)
        assert read_contract_content(file) == b"data"
        file.close()
        _, st, file = tree.create(ROOT, b"a", os.O_RDWR | os.O_TRUNC, 0o644)
        assert st.st_size == 0
        file.close()

    def test_mkdir_and_rmdir(self, tree: FileTree) -> None:
        folder, st = tree.mkdir(ROOT, b"d", 0o750)
        assert stat.S_ISDIR(st.st_mode)
        assert stat.S_IMODE(st.st_mode) == 0o750
        with expect_contract_error(errno.EEXIST):
            tree.mkdir(ROOT, b"d", 0o755)
        put_contract_file(tree, b"a", parent=folder)
        with expect_contract_error(errno.ENOTEMPTY):
            tree.rmdir(ROOT, b"d")
        with expect_contract_error(errno.EISDIR):
            tree.unlink(ROOT, b"d")
        with expect_contract_error(errno.ENOTDIR):
            tree.rmdir(folder, b"a")
        tree.unlink(folder, b"a")
        tree.rmdir(ROOT, b"d")
        assert list_contract_names(tree) == set()

    def test_deep_directories(self, tree: FileTree) -> None:
        node = ROOT
        for level in range(40):
            node, _ = tree.mkdir(node, b"d%d" % level, 0o755)
        found = put_contract_file(tree, b"leaf", b"deep", node)
        assert read_contract_file(tree, found) == b"deep"

    def test_more_directories_than_are_kept_open(self, tree: FileTree) -> None:
        folders = [tree.mkdir(ROOT, b"d%d" % number, 0o755)[0] for number in range(60)]
        for number, folder in enumerate(folders):
            put_contract_file(tree, b"a", b"%d" % number, folder)
        for number, folder in enumerate(folders):
            assert read_contract_file(tree, tree.lookup(folder, b"a")[0]) == b"%d" % number

    def test_symlinks_are_not_followed(self, tree: FileTree) -> None:
        node, st = tree.symlink(ROOT, b"out", b"/etc")
        assert stat.S_ISLNK(st.st_mode)
        assert tree.readlink(node) == b"/etc"
        with pytest.raises(OSError):
            tree.lookup(node, b"passwd")
        with pytest.raises(OSError):
            tree.open(node, os.O_RDONLY)
        with pytest.raises(OSError):
            tree.list_entries(node)
        with pytest.raises(OSError):
            tree.create(ROOT, b"out", os.O_RDWR, 0o644)

    def test_readlink_of_a_file(self, tree: FileTree) -> None:
        with pytest.raises(OSError):
            tree.readlink(put_contract_file(tree, b"a"))

    def test_fifos_and_sockets(self, tree: FileTree) -> None:
        for name, kind in ((b"fifo", stat.S_IFIFO), (b"socket", stat.S_IFSOCK), (b"file", stat.S_IFREG)):
            node, st = tree.mknod(ROOT, name, kind | 0o600, 0)
            assert stat.S_IFMT(st.st_mode) == kind
            assert tree.lookup(ROOT, name)[0] == node
        with pytest.raises(OSError):
            tree.open(tree.lookup(ROOT, b"fifo")[0], os.O_RDONLY)

    def test_entries(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        put_contract_file(tree, b"f", parent=folder)
        tree.mkdir(folder, b"e", 0o755)
        tree.symlink(folder, b"l", b"f")
        kinds = {entry.name: entry.kind for entry in tree.list_entries(folder)}
        assert set(kinds) == {b".", b"..", b"f", b"e", b"l"}
        for name, kind in ((b"f", stat.S_IFREG), (b"e", stat.S_IFDIR), (b"l", stat.S_IFLNK)):
            assert kinds[name] in (0, kind >> 12)
        for entry in tree.list_entries(folder):
            if entry.name not in (b".", b".."):
                assert entry.node == tree.lookup(folder, entry.name)[0]

    def test_a_thousand_entries(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        given = {b"file-with-a-name-%04d" % number for number in range(1000)}
        for name in given:
            tree.mknod(folder, name, stat.S_IFREG | 0o644, 0)
        found = [entry.name for entry in tree.list_entries(folder)]
        assert len(found) == 1002
        assert set(found) - {b".", b".."} == given

    def test_entries_of_a_file(self, tree: FileTree) -> None:
        with pytest.raises(OSError):
            tree.list_entries(put_contract_file(tree, b"a"))

    def test_hard_links(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        linked, st = tree.link(node, folder, b"b")
        assert (linked, st.st_nlink) == (node, 2)
        tree.unlink(ROOT, b"a")
        assert tree.stat(node).st_nlink == 1
        assert read_contract_file(tree, node) == b"data"
        with expect_contract_error(errno.EEXIST):
            tree.link(node, folder, b"b")

    def test_every_name_of_a_file_is_remembered(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        for name in (b"b", b"c", b"e"):
            tree.link(node, ROOT, name)
        for name in (b"e", b"a", b"c"):
            tree.unlink(ROOT, name)
            assert read_contract_file(tree, node) == b"data"

    def test_link_of_a_directory(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        with expect_contract_error(errno.EPERM):
            tree.link(folder, ROOT, b"e")

    # Renaming

    def test_rename(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        tree.rename(ROOT, b"a", folder, b"b", 0)
        assert list_contract_names(tree) == {b"d"}
        assert tree.lookup(folder, b"b")[0] == node
        assert read_contract_file(tree, node) == b"data"

    def test_rename_of_a_directory_keeps_what_is_in_it(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        node = put_contract_file(tree, b"a", b"data", folder)
        tree.rename(ROOT, b"d", ROOT, b"e", 0)
        assert read_contract_file(tree, node) == b"data"
        assert list_contract_names(tree, folder) == {b"a"}

    def test_rename_over_a_file(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"new")
        old = put_contract_file(tree, b"b", b"old")
        tree.rename(ROOT, b"a", ROOT, b"b", 0)
        assert tree.lookup(ROOT, b"b")[0] == node
        assert list_contract_names(tree) == {b"b"}
        with pytest.raises((OSError, UnknownNode)):
            tree.stat(old)

    def test_rename_errors(self, tree: FileTree) -> None:
        put_contract_file(tree, b"a")
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        below, _ = tree.mkdir(folder, b"e", 0o755)
        with expect_contract_error(errno.ENOENT):
            tree.rename(ROOT, b"x", ROOT, b"y", 0)
        with expect_contract_error(errno.EISDIR):
            tree.rename(ROOT, b"a", ROOT, b"d", 0)
        with expect_contract_error(errno.ENOTDIR):
            tree.rename(ROOT, b"d", ROOT, b"a", 0)
        with expect_contract_error(errno.EINVAL):
            tree.rename(ROOT, b"d", below, b"f", 0)
        tree.mkdir(ROOT, b"g", 0o755)
        with expect_contract_error(errno.ENOTEMPTY):
            tree.rename(ROOT, b"g", ROOT, b"d", 0)

    def test_rename_without_replacing(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        put_contract_file(tree, b"b")
        with expect_contract_error(errno.EEXIST):
            tree.rename(ROOT, b"a", ROOT, b"b", NOREPLACE)
        tree.rename(ROOT, b"a", ROOT, b"c", NOREPLACE)
        assert tree.lookup(ROOT, b"c")[0] == node

    def test_exchange(self, tree: FileTree) -> None:
        one, two = put_contract_file(tree, b"a", b"1"), put_contract_file(tree, b"b", b"2")
        tree.rename(ROOT, b"a", ROOT, b"b", EXCHANGE)
        assert tree.lookup(ROOT, b"a")[0] == two
        assert tree.lookup(ROOT, b"b")[0] == one
        assert (read_contract_file(tree, one), read_contract_file(tree, two)) == (b"1", b"2")
        with expect_contract_error(errno.ENOENT):
            tree.rename(ROOT, b"a", ROOT, b"x", EXCHANGE)

    def test_rename_onto_another_name_of_the_same_file(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a", b"data")
        tree.link(node, ROOT, b"b")
        tree.rename(ROOT, b"a", ROOT, b"b", 0)
        assert list_contract_names(tree) == {b"a", b"b"}
        assert tree.stat(node).st_nlink == 2

    # Attributes

    def test_mode(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        for mode in (0o600, 0o4755, 0o000, 0o777):
            assert stat.S_IMODE(tree.change(node, Change(mode=mode), None).st_mode) == mode
            assert stat.S_IMODE(tree.stat(node).st_mode) == mode

    def test_times(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        before = tree.stat(node)
        st = tree.change(node, Change(mtime_ns=SECOND + 5), None)
        assert (st.st_mtime_ns, st.st_atime_ns) == (SECOND + 5, before.st_atime_ns)
        st = tree.change(node, Change(atime_ns=7 * SECOND), None)
        assert (st.st_mtime_ns, st.st_atime_ns) == (SECOND + 5, 7 * SECOND)
        st = tree.change(node, Change(atime_ns=NOW, mtime_ns=NOW), None)
        assert min(st.st_atime_ns, st.st_mtime_ns) >= before.st_mtime_ns - SECOND
        file = tree.open(node, os.O_RDWR)
        assert tree.change(node, Change(mtime_ns=9 * SECOND), file).st_mtime_ns == 9 * SECOND
        file.close()

    def test_times_of_a_link_are_its_own(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        before = tree.stat(node).st_mtime_ns
        link, _ = tree.symlink(ROOT, b"l", b"a")
        assert tree.change(link, Change(mtime_ns=5 * SECOND), None).st_mtime_ns == 5 * SECOND
        assert tree.stat(node).st_mtime_ns == before

    def test_a_write_is_seen_in_size_and_time(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        tree.change(node, Change(mtime_ns=SECOND), None)
        file = tree.open(node, os.O_WRONLY)
        file.write_from(memoryview(b"abc"), 0)
        st = tree.stat(node)
        assert st.st_size == 3
        assert st.st_mtime_ns > SECOND
        file.close()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
    def test_owner(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        st = tree.change(node, Change(uid=1234), None)
        assert st.st_uid == 1234
        st = tree.change(node, Change(gid=4321), None)
        assert (st.st_uid, st.st_gid) == (1234, 4321)

    def test_space(self, tree: FileTree) -> None:
        found = tree.statfs()
        assert found.f_blocks >= found.f_bfree >= 0
        assert found.f_namemax == 255

    def test_access(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        tree.access(node, os.R_OK | os.W_OK)

    def test_extended_attributes(self, tree: FileTree) -> None:
        node = put_contract_file(tree, b"a")
        try:
            tree.set_attribute(node, b"user.one", b"1", 0)
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP
            pytest.skip("no user attributes on this file system")
        tree.set_attribute(node, b"user.empty", b"", 0)
        assert tree.get_attribute(node, b"user.one") == b"1"
        assert tree.get_attribute(node, b"user.empty") == b""
        assert {b"user.one", b"user.empty"} <= set(tree.attribute_names(node))
        with expect_contract_error(errno.EEXIST):
            tree.set_attribute(node, b"user.one", b"2", os.XATTR_CREATE)
        with expect_contract_error(errno.ENODATA):
            tree.set_attribute(node, b"user.two", b"2", os.XATTR_REPLACE)
        tree.remove_attribute(node, b"user.one")
        with expect_contract_error(errno.ENODATA):
            tree.get_attribute(node, b"user.one")
        with expect_contract_error(errno.ENODATA):
            tree.remove_attribute(node, b"user.one")

    # Forgetting and ending

    def test_a_forgotten_node_is_unknown_or_the_same(self, tree: FileTree) -> None:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        node = put_contract_file(tree, b"a", b"data", folder)
        tree.forget([node, folder])
        tree.forget([1 << 40])
        try:
            assert read_contract_file(tree, node) == b"data"
        except UnknownNode:
            tree.place(node, [(ROOT, b"d"), (folder, b"a")])
            assert read_contract_file(tree, node) == b"data"

    def test_entries_are_entries(self, tree: FileTree) -> None:
        put_contract_file(tree, b"a")
        assert all(isinstance(entry, Entry) for entry in tree.list_entries(ROOT))

    def test_attributes_have_every_name(self, tree: FileTree) -> None:
        st: Stat = tree.stat(put_contract_file(tree, b"a", b"x" * 5000))
        assert st.st_blocks > 0
        assert st.st_blksize > 0
        assert st.st_rdev == 0
        assert st.st_ctime_ns > 0
        assert st.st_uid == os.geteuid()
        assert st.st_gid >= 0
