"""What a tree must answer to the kernel's requests: a client that packs them as the kernel does, and a contract class
`class TestMine(RequestContract)` with a fixture `tree`. The trees' own calls are in `testing.trees`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from fairlead.kit.testing.tree_contract import SECOND, expect_contract_error
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op, Valid
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.sessions import Handles, UnknownHandle
from fairlead.steer.fs.trees.base import ROOT, FileTree
from file_contract import END, FREE, READ, WRITE

_NONE = memoryview(b"")
_SETATTR = (
    *("fh", "size", "owner", "atime", "mtime", "ctime", "atimensec", "mtimensec", "ctimensec"),
    *("mode", "unused4", "uid", "gid", "unused5"),
)


class Attributes(NamedTuple):
    """Attributes as the kernel is told them."""

    ino: int
    size: int
    blocks: int
    atime: int
    mtime: int
    ctime: int
    atimensec: int
    mtimensec: int
    ctimensec: int
    mode: int
    nlink: int
    uid: int
    gid: int
    rdev: int
    blksize: int
    flags: int


class Named(NamedTuple):
    """A name in a directory as READDIR tells it."""

    name: bytes
    inode: int
    next_offset: int
    kind: int
    node: int


class Client:
    """One session. Every method is one request; `uid` is not asked for (the thread's caller is)."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.handles = Handles()
        self._next = 0

    def ask(self, op: int, node: int, body: bytes = b"", data: memoryview = _NONE, handle: int = 0) -> bytes | int:
        """Any request."""
        return self.operations.execute(self.handles, op, node, handle, memoryview(body), data)

    def reply(self, op: int, node: int, body: bytes = b"", data: memoryview = _NONE, handle: int = 0) -> bytes:
        """A request whose reply is a body."""
        answer = self.ask(op, node, body, data, handle)
        assert isinstance(answer, bytes)
        return answer

    def handle(self) -> int:
        """A number not used yet."""
        self._next += 1
        return self._next

    @staticmethod
    def entry(reply: bytes) -> tuple[int, Attributes]:
        """Node and attributes of an entry."""
        node, generation, entry_valid, attr_valid, _, _ = abi.ENTRY.unpack_from(reply)
        assert (generation, entry_valid) == (0, attr_valid)
        return node, Attributes(*abi.ATTR.unpack_from(reply, abi.ENTRY.size))

    def lookup(self, parent: int, name: bytes) -> tuple[int, Attributes]:
        """LOOKUP."""
        return self.entry(self.reply(Op.LOOKUP, parent, name + b"\0"))

    def getattr(self, node: int, handle: int | None = None) -> Attributes:
        """GETATTR."""
        flags = 0 if handle is None else abi.GETATTR_FH
        reply = self.reply(Op.GETATTR, node, abi.GETATTR_IN.pack(flags, 0, handle or 0))
        assert len(reply) == abi.ATTR_OUT.size + abi.ATTR.size
        return Attributes(*abi.ATTR.unpack_from(reply, abi.ATTR_OUT.size))

    def setattr(self, node: int, valid: int, **values: int) -> Attributes:
        """SETATTR of the attributes in `valid`."""
        body = abi.SETATTR_IN.pack(valid, 0, *(values.get(name, 0) for name in _SETATTR))
        return Attributes(*abi.ATTR.unpack_from(self.reply(Op.SETATTR, node, body), abi.ATTR_OUT.size))

    def create(
        self, parent: int, name: bytes, flags: int = os.O_RDWR, mode: int = 0o644, umask: int = 0
    ) -> tuple[int, int]:
        """CREATE; node and handle."""
        handle = self.handle()
        body = abi.CREATE_IN.pack(flags | os.O_CREAT, stat.S_IFREG | mode, umask, 0) + name + b"\0"
        reply = self.reply(Op.CREATE, parent, body, handle=handle)
        opened, _, _ = abi.OPEN_OUT.unpack_from(reply, abi.ENTRY.size + abi.ATTR.size)
        assert opened == handle
        return self.entry(reply)[0], handle

    def open(self, node: int, flags: int = os.O_RDWR) -> int:
        """OPEN; the handle."""
        handle = self.handle()
        reply = self.reply(Op.OPEN, node, abi.OPEN_IN.pack(flags, 0), handle=handle)
        assert abi.OPEN_OUT.unpack(reply)[0] == handle
        return handle

    def read(self, node: int, handle: int, offset: int = 0, size: int = 1 << 16) -> bytes:
        """READ."""
        buffer = memoryview(bytearray(size))
        done = self.ask(Op.READ, node, abi.READ_IN.pack(handle, offset, size, 0, 0, 0, 0), buffer)
        assert isinstance(done, int)
        return bytes(buffer[:done])

    def write(self, node: int, handle: int, data: bytes, offset: int = 0, flags: int = 0) -> int:
        """WRITE; the number of bytes written."""
        body = abi.WRITE_IN.pack(handle, offset, len(data), flags, 0, 0, 0)
        return int(abi.WRITE_OUT.unpack(self.reply(Op.WRITE, node, body, memoryview(data)))[0])

    def flush(self, node: int, handle: int, owner: int = 0) -> None:
        """FLUSH."""
        self.ask(Op.FLUSH, node, abi.FLUSH_IN.pack(handle, 0, 0, owner))

    def release(self, node: int, handle: int) -> None:
        """RELEASE."""
        self.ask(Op.RELEASE, node, abi.RELEASE_IN.pack(handle, 0, 0, 0))

    def mkdir(self, parent: int, name: bytes, mode: int = 0o755, umask: int = 0) -> int:
        """MKDIR; the node."""
        body = abi.MKDIR_IN.pack(mode, umask) + name + b"\0"
        return self.entry(self.reply(Op.MKDIR, parent, body))[0]

    def opendir(self, node: int) -> int:
        """OPENDIR; the handle."""
        handle = self.handle()
        self.ask(Op.OPENDIR, node, abi.OPEN_IN.pack(0, 0), handle=handle)
        return handle

    def readdir(self, node: int, handle: int, offset: int = 0, size: int = 4096, *, plus: bool = False) -> list[Named]:
        """READDIR or READDIRPLUS: one reply."""
        op = Op.READDIRPLUS if plus else Op.READDIR
        reply = self.reply(op, node, abi.READ_IN.pack(handle, offset, size, 0, 0, 0, 0))
        assert len(reply) <= size
        found = []
        at = 0
        while at < len(reply):
            told = 0
            if plus:
                told = abi.ENTRY.unpack_from(reply, at)[0]
                at += abi.ENTRY.size + abi.ATTR.size
            inode, following, length, kind = abi.DIRENT.unpack_from(reply, at)
            at += abi.DIRENT.size
            found.append(Named(reply[at : at + length], inode, following, kind, told))
            at += length + (-length % 8)
        return found

    def lock(
        self, node: int, handle: int, owner: int, kind: int, start: int = 0, end: int = END, flags: int = 0
    ) -> None:
        """SETLK."""
        self.ask(Op.SETLK, node, abi.LK_IN.pack(handle, owner, start, end, kind, 1, flags, 0))

    def holder(self, node: int, handle: int, owner: int, kind: int = WRITE) -> tuple[int, int, int, int]:
        """GETLK of the whole file: start, end, kind, pid."""
        body = abi.LK_IN.pack(handle, owner, 0, END, kind, 1, 0, 0)
        start, end, found, pid = abi.LK_OUT.unpack(self.reply(Op.GETLK, node, body))
        return start, end, found, pid


def every_name(client: Client, node: int, size: int = 4096, *, plus: bool = False) -> Sequence[Named]:
    """A whole directory, reply after reply."""
    handle = client.opendir(node)
    found: list[Named] = []
    while more := client.readdir(node, handle, found[-1].next_offset if found else 0, size, plus=plus):
        found += more
    client.ask(Op.RELEASEDIR, node, abi.RELEASE_IN.pack(handle, 0, 0, 0))
    return found


class RequestContract:
    """The contract. A subclass gives the fixture `tree`: empty, new, closed after the test."""

    @pytest.fixture
    def client(self, tree: FileTree) -> Client:
        """A session."""
        return Client(Operations(tree))

    def test_a_file_from_creation_to_removal(self, client: Client) -> None:
        node, handle = client.create(ROOT, b"a", umask=0o027, mode=0o666)
        assert stat.S_IMODE(client.getattr(node).mode) == 0o640
        assert client.write(node, handle, b"hello") == 5
        assert client.read(node, handle, 1, 3) == b"ell"
        assert client.getattr(node, handle).size == 5
        client.flush(node, handle)
        client.ask(Op.FSYNC, node, abi.FSYNC_IN.pack(handle, 0, 0))
        client.release(node, handle)
        with pytest.raises(UnknownHandle):
            client.read(node, handle)
        client.ask(Op.UNLINK, ROOT, b"a\0")
        with expect_contract_error(errno.ENOENT):
            client.lookup(ROOT, b"a")

    def test_names_in_requests(self, client: Client) -> None:
        folder = client.mkdir(ROOT, b"d", 0o777, 0o022)
        assert stat.S_IMODE(client.getattr(folder).mode) == 0o755
        link, st = client.entry(client.reply(Op.SYMLINK, folder, b"l\0target/of it\0"))
        assert client.reply(Op.READLINK, link) == b"target/of it"
        assert st.size == len(b"target/of it")
        node, st = client.entry(
            client.reply(Op.MKNOD, folder, abi.MKNOD_IN.pack(stat.S_IFIFO | 0o666, 0, 0o002, 0) + b"f\0")
        )
        assert st.mode == stat.S_IFIFO | 0o664
        same, st = client.entry(client.reply(Op.LINK, ROOT, abi.LINK_IN.pack(node) + b"g\0"))
        assert (same, st.nlink) == (node, 2)
        client.ask(Op.RENAME, ROOT, abi.RENAME_IN.pack(folder) + b"g\0h\0")
        with expect_contract_error(errno.EEXIST):
            client.ask(Op.RENAME2, folder, abi.RENAME2_IN.pack(folder, 1, 0) + b"h\0f\0")
        with expect_contract_error(errno.EINVAL):
            client.ask(Op.RENAME2, folder, abi.RENAME2_IN.pack(folder, 4, 0) + b"h\0i\0")
        assert client.lookup(folder, b"h")[0] == node
        for name in (b"l", b"f", b"h"):
            client.ask(Op.UNLINK, folder, name + b"\0")
        client.ask(Op.RMDIR, ROOT, b"d\0")
        with expect_contract_error(errno.ENOENT):
            client.lookup(ROOT, b"d")

    def test_attributes_in_requests(self, client: Client) -> None:
        node, handle = client.create(ROOT, b"a")
        client.write(node, handle, b"0123456789")
        assert client.setattr(node, Valid.SIZE | Valid.FH, size=4, fh=handle).size == 4
        assert client.setattr(node, Valid.SIZE, size=7).size == 7
        assert stat.S_IMODE(client.setattr(node, Valid.MODE, mode=stat.S_IFREG | 0o711).mode) == 0o711
        st = client.setattr(node, Valid.ATIME | Valid.MTIME, atime=5, atimensec=6, mtime=7, mtimensec=8)
        assert (st.atime, st.atimensec, st.mtime, st.mtimensec) == (5, 6, 7, 8)
        st = client.setattr(node, Valid.MTIME | Valid.MTIME_NOW)
        assert st.mtime > 7
        assert st.atime == 5

    def test_times_before_1970(self, client: Client) -> None:
        node, _ = client.create(ROOT, b"a")
        st = client.setattr(node, Valid.MTIME, mtime=(1 << 64) - 10, mtimensec=5)
        if st.mtime != 0:
            assert (st.mtime, st.mtimensec) == ((1 << 64) - 10, 5)

    def test_set_id_bits_go_with_a_write(self, client: Client) -> None:
        node, handle = client.create(ROOT, b"a")
        mode = client.setattr(node, Valid.MODE, mode=0o6755).mode
        assert stat.S_IMODE(mode) == 0o6755
        client.write(node, handle, b"x", flags=abi.WRITE_KILL_SUIDGID)
        if not client.operations.tree.clears_set_id or os.geteuid() != 0:
            assert stat.S_IMODE(client.getattr(node).mode) == 0o755

    @pytest.mark.parametrize("plus", [False, True])
    def test_a_directory_in_pieces(self, client: Client, plus: bool) -> None:
        folder = client.mkdir(ROOT, b"d")
        given = {}
        for number in range(100):
            name = b"n" * (number % 30) + b"%d" % number
            node, handle = client.create(folder, name)
            client.release(node, handle)
            given[name] = node
        for size in (512, 4096, 1 << 20):
            found = every_name(client, folder, size, plus=plus)
            assert len(found) == 102
            told = {entry.name: entry for entry in found}
            for name, node in given.items():
                assert told[name].inode == node - 1
                if plus:
                    assert told[name].node == node
            assert told[b"."].node == told[b".."].node == 0

    def test_a_listing_stays_as_it_was_while_names_go(self, client: Client) -> None:
        for number in range(50):
            node, handle = client.create(ROOT, b"file%d" % number)
            client.release(node, handle)
        handle = client.opendir(ROOT)
        seen = client.readdir(ROOT, handle, 0, 512)
        for entry in seen:
            if entry.name not in (b".", b".."):
                client.ask(Op.UNLINK, ROOT, entry.name + b"\0")
        while more := client.readdir(ROOT, handle, seen[-1].next_offset, 512):
            seen += more
        assert len({entry.name for entry in seen}) == 52
        again = client.readdir(ROOT, handle, 0, 1 << 16)
        assert 2 < len(again) < 52

    def test_a_name_that_goes_before_readdirplus(self, client: Client) -> None:
        client.mkdir(ROOT, b"d")
        handle = client.opendir(ROOT)
        client.ask(Op.RMDIR, ROOT, b"d\0")
        found = {entry.name: entry.node for entry in client.readdir(ROOT, handle, plus=True)}
        assert found == {b".": 0, b"..": 0, b"d": 0}

    def test_extended_attributes_in_requests(self, client: Client) -> None:
        node, _ = client.create(ROOT, b"a")
        body = abi.SETXATTR_IN.pack(5, 0) + b"user.k\0" + b"a\0b\0c"
        try:
            client.ask(Op.SETXATTR, node, body)
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP
            pytest.skip("no user attributes on this file system")
        probe = client.reply(Op.GETXATTR, node, abi.GETXATTR_IN.pack(0, 0) + b"user.k\0")
        assert abi.GETXATTR_OUT.unpack(probe) == (5, 0)
        assert client.reply(Op.GETXATTR, node, abi.GETXATTR_IN.pack(5, 0) + b"user.k\0") == b"a\0b\0c"
        with expect_contract_error(errno.ERANGE):
            client.ask(Op.GETXATTR, node, abi.GETXATTR_IN.pack(4, 0) + b"user.k\0")
        size, _ = abi.GETXATTR_OUT.unpack(client.reply(Op.LISTXATTR, node, abi.GETXATTR_IN.pack(0, 0)))
        listed = client.reply(Op.LISTXATTR, node, abi.GETXATTR_IN.pack(size, 0))
        assert b"user.k\0" in listed
        assert len(listed) == size
        client.ask(Op.REMOVEXATTR, node, b"user.k\0")
        with expect_contract_error(errno.ENODATA):
            client.ask(Op.GETXATTR, node, abi.GETXATTR_IN.pack(5, 0) + b"user.k\0")

    def test_space_in_requests(self, client: Client) -> None:
        reply = client.reply(Op.STATFS, ROOT)
        assert len(reply) == 80
        assert abi.STATFS_OUT.unpack(reply)[6] == 255

    def test_locks_in_requests(self, client: Client) -> None:
        node, handle = client.create(ROOT, b"a")
        client.lock(node, handle, 1, WRITE, 0, 9)
        with pytest.raises(BlockingIOError):
            client.lock(node, handle, 2, READ, 9, 9)
        assert client.holder(node, handle, 2)[:3] == (0, 9, WRITE)
        assert client.holder(node, handle, 1)[2] == FREE
        client.flush(node, handle, 1)
        client.lock(node, handle, 2, WRITE)
        client.flush(node, handle, 2)

    def test_owners_of_two_sessions_are_two(self, client: Client) -> None:
        node, handle = client.create(ROOT, b"a")
        other = Client(client.operations)
        theirs = other.open(other.lookup(ROOT, b"a")[0])
        client.lock(node, handle, 7, WRITE)
        with pytest.raises(BlockingIOError):
            other.lock(node, theirs, 7, WRITE)
        client.operations.end(client.handles)
        other.lock(node, theirs, 7, WRITE)
        other.operations.end(other.handles)

    def test_flock_in_requests(self, client: Client) -> None:
        node, one = client.create(ROOT, b"a")
        two = client.open(node)
        client.lock(node, one, 1, WRITE, flags=abi.LK_FLOCK)
        with pytest.raises(BlockingIOError):
            client.lock(node, two, 1, READ, flags=abi.LK_FLOCK)
        client.release(node, one)
        client.lock(node, two, 1, READ, flags=abi.LK_FLOCK)

    def test_the_rest(self, client: Client) -> None:
        node, handle = client.create(ROOT, b"a")
        client.write(node, handle, b"x" * 100)
        body = abi.LSEEK_IN.pack(handle, 0, os.SEEK_HOLE, 0)
        assert abi.LSEEK_OUT.unpack(client.reply(Op.LSEEK, node, body)) == (100,)
        client.ask(Op.ACCESS, node, abi.ACCESS_IN.pack(os.R_OK, 0))
        client.ask(Op.SYNCFS, ROOT, bytes(8))
        client.ask(Op.FSYNCDIR, ROOT, abi.FSYNC_IN.pack(0, 0, 0))
        for op in (Op.BMAP, Op.IOCTL, Op.POLL, Op.STATX, 99, 0x10001):
            with expect_contract_error(errno.ENOSYS):
                client.ask(op, node)

    def test_validity(self, tree: FileTree) -> None:
        client = Client(Operations(tree, entry_valid_ns=2 * SECOND + 5))
        node, _ = client.create(ROOT, b"a")
        reply = client.reply(Op.LOOKUP, ROOT, b"a\0")
        assert abi.ENTRY.unpack_from(reply) == (node, 0, 2, 2, 5, 5)
        assert abi.ATTR_OUT.unpack_from(client.reply(Op.GETATTR, node, bytes(16))) == (2, 5, 0)
