"""Serving requests without a kernel: a socket pair that keeps messages apart stands in for /dev/fuse."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.steer.forwarding.mount.local.local_mount import LocalMount
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Init, Op
from fairlead.steer.fs.fuse.device import Device
from fairlead.steer.fs.fuse.negotiation import Session
from fairlead.steer.fs.trees.directory import DirectoryTree
from mounting import DEADLINE_S

SESSION = Session(Init(0), 45, abi.MAX_WRITE)


class Kernel:
    """The other end of the device: sends requests, keeps replies by number."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(DEADLINE_S)
        self.sock = sock
        self.unique = 0
        self.replies: dict[int, tuple[int, bytes]] = {}

    def send(self, op: int, node: int, body: bytes = b"") -> int:
        self.unique += 2
        length = abi.IN_HEADER.size + len(body)
        self.sock.send(abi.IN_HEADER.pack(length, op, self.unique, node, os.geteuid(), os.getegid(), 0, 0, 0) + body)
        return self.unique

    def reply(self, unique: int) -> tuple[int, bytes]:
        while unique not in self.replies:
            message = self.sock.recv(abi.MESSAGE_BYTES)
            length, error, number = abi.OUT_HEADER.unpack_from(message)
            assert length == len(message)
            assert number not in self.replies, "answered twice"
            self.replies[number] = (-error, message[abi.OUT_HEADER.size :])
        return self.replies[unique]

    def call(self, op: int, node: int, body: bytes = b"") -> bytes:
        error, answer = self.reply(self.send(op, node, body))
        if error:
            raise OSError(error, os.strerror(error))
        return answer

    def create(self, name: bytes) -> tuple[int, int]:
        """Node and handle of a new file in the root."""
        answer = self.call(Op.CREATE, 1, abi.CREATE_IN.pack(os.O_RDWR | os.O_CREAT, 0o100644, 0o022, 0) + name + b"\0")
        node = abi.ENTRY.unpack_from(answer)[0]
        return node, abi.OPEN_OUT.unpack_from(answer, len(answer) - abi.OPEN_OUT.size)[0]

    def open(self, node: int) -> int:
        return int(abi.OPEN_OUT.unpack(self.call(Op.OPEN, node, abi.OPEN_IN.pack(os.O_RDWR, 0)))[0])


class Slow(DirectoryTree):
    """A tree whose statvfs hangs until it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.inside = threading.Semaphore(0)

    def statfs(self) -> os.statvfs_result:
        self.inside.release()
        assert self.gate.wait(DEADLINE_S)
        return super().statfs()


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Slow]:
    tree = Slow(tmp_path)
    yield tree
    tree.close()


@pytest.fixture
def kernel(tree: Slow) -> Iterator[Kernel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for sock in (ours, theirs):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    device = Device(theirs.fileno(), "/nowhere", read_only=False, through_fusermount=False)
    mount = LocalMount(device, SESSION, tree, workers=4)
    thread = threading.Thread(target=mount.run, daemon=True)
    thread.start()
    yield Kernel(ours)
    tree.gate.set()
    ours.close()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    theirs.close()


def test_reads_and_writes(kernel: Kernel, tmp_path: Path) -> None:
    _, handle = kernel.create(b"file")
    data = os.urandom(100_000)
    answer = kernel.call(Op.WRITE, 2, abi.WRITE_IN.pack(handle, 5, len(data), 0, 0, 0, 0) + data)
    assert abi.WRITE_OUT.unpack(answer)[0] == len(data)
    assert (tmp_path / "file").read_bytes() == b"\0" * 5 + data
    assert kernel.call(Op.READ, 2, abi.READ_IN.pack(handle, 0, 65536, 0, 0, 0, 0)) == (b"\0" * 5 + data)[:65536]
    assert kernel.call(Op.READ, 2, abi.READ_IN.pack(handle, 100_000, 65536, 0, 0, 0, 0)) == data[-5:]
    assert kernel.call(Op.READ, 2, abi.READ_IN.pack(handle, 200_000, 65536, 0, 0, 0, 0)) == b""


def test_errors_are_answered(kernel: Kernel) -> None:
    for op, node, body, number in [
        (Op.LOOKUP, 1, b"absent\0", errno.ENOENT),
        (Op.READ, 1, abi.READ_IN.pack(99, 0, 10, 0, 0, 0, 0), errno.EBADF),
        (Op.GETATTR, 1 << 60, abi.GETATTR_IN.pack(0, 0, 0), errno.ESTALE),
        (Op.BMAP, 1, b"", errno.ENOSYS),
        (999, 1, b"", errno.ENOSYS),
    ]:
        assert kernel.reply(kernel.send(op, node, body))[0] == number, op
    for op in (Op.OPEN, Op.SETATTR, Op.RENAME2, Op.SETLK, Op.FALLOCATE):
        assert kernel.reply(kernel.send(op, 1))[0] == errno.EINVAL, "a message without its body"
    assert kernel.call(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0))


def test_a_stuck_leader_is_replaced(kernel: Kernel, tree: Slow) -> None:
    stuck = [kernel.send(Op.STATFS, 1) for _ in range(3)]
    for _ in stuck:
        assert tree.inside.acquire(timeout=DEADLINE_S), "one worker each"
    assert kernel.call(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0)), "the fourth worker serves"
    assert not set(stuck) & set(kernel.replies)
    tree.gate.set()
    for unique in stuck:
        assert kernel.reply(unique)[0] == 0


def test_with_every_worker_busy_requests_wait(kernel: Kernel, tree: Slow) -> None:
    stuck = [kernel.send(Op.STATFS, 1) for _ in range(4)]
    for _ in stuck:
        assert tree.inside.acquire(timeout=DEADLINE_S)
    later = kernel.send(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0))
    tree.gate.set()
    for unique in [*stuck, later]:
        assert kernel.reply(unique)[0] == 0
    for _ in range(50):
        kernel.call(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0))


def _lock(handle: int, owner: int, kind: int) -> bytes:
    return abi.LK_IN.pack(handle, owner, 0, 100, kind, 1, 0, 0)


def test_a_lock_that_waits_is_granted_later(kernel: Kernel) -> None:
    node, first = kernel.create(b"file")
    second = kernel.open(node)
    kernel.call(Op.SETLK, node, _lock(first, 1, 1))
    assert kernel.reply(kernel.send(Op.SETLK, node, _lock(second, 2, 1)))[0] == errno.EAGAIN
    waits = kernel.send(Op.SETLKW, node, _lock(second, 2, 1))
    for _ in range(20):
        kernel.call(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0))
    assert waits not in kernel.replies
    kernel.call(Op.SETLK, node, _lock(first, 1, 2))
    assert kernel.reply(waits)[0] == 0
    assert kernel.reply(kernel.send(Op.SETLK, node, _lock(first, 1, 1)))[0] == errno.EAGAIN


@pytest.mark.parametrize("early", [False, True])
def test_a_lock_that_waits_is_interrupted(kernel: Kernel, early: bool) -> None:
    """Also when the interrupt is read before the request it is for."""
    node, first = kernel.create(b"file")
    second = kernel.open(node)
    kernel.call(Op.SETLK, node, _lock(first, 1, 1))
    if early:
        kernel.send(Op.INTERRUPT, 0, abi.INTERRUPT_IN.pack(kernel.unique + 4))
        waits = kernel.send(Op.SETLKW, node, _lock(second, 2, 1))
    else:
        waits = kernel.send(Op.SETLKW, node, _lock(second, 2, 1))
        kernel.send(Op.INTERRUPT, 0, abi.INTERRUPT_IN.pack(waits))
    assert kernel.reply(waits)[0] == errno.EINTR
    kernel.call(Op.SETLK, node, _lock(first, 1, 2))
    kernel.call(Op.SETLK, node, _lock(first, 1, 1))


def test_a_node_is_forgotten_when_every_look_up_is(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node = abi.ENTRY.unpack_from(kernel.call(Op.LOOKUP, 1, b"file\0"))[0]
    assert abi.ENTRY.unpack_from(kernel.call(Op.LOOKUP, 1, b"file\0"))[0] == node
    kernel.send(Op.FORGET, node, abi.FORGET_IN.pack(1))
    assert kernel.call(Op.GETATTR, node, abi.GETATTR_IN.pack(0, 0, 0))
    kernel.send(Op.BATCH_FORGET, 0, abi.BATCH_FORGET_IN.pack(1, 0) + abi.FORGET_ONE.pack(node, 1))
    assert kernel.reply(kernel.send(Op.GETATTR, node, abi.GETATTR_IN.pack(0, 0, 0)))[0] == errno.ESTALE
    assert abi.ENTRY.unpack_from(kernel.call(Op.LOOKUP, 1, b"file\0"))[0] == node


def test_a_number_that_is_used_again_is_another_node(kernel: Kernel) -> None:
    """The kernel still holds the removed folder; the file system may give its inode number to the next."""
    seen = []
    for index in range(3):
        name = b"folder%d\0" % index
        seen.append(abi.ENTRY.unpack_from(kernel.call(Op.MKDIR, 1, abi.MKDIR_IN.pack(0o755, 0o022) + name))[:2])
        assert abi.ENTRY.unpack_from(kernel.call(Op.LOOKUP, 1, name))[:2] == seen[-1]
        kernel.call(Op.RMDIR, 1, name)
    assert len(set(seen)) == 3
    for node, _ in seen:
        kernel.send(Op.FORGET, node, abi.FORGET_IN.pack(2))
    assert kernel.call(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0))


def test_a_defect_is_told_and_answered(kernel: Kernel, tree: Slow, capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> os.statvfs_result:
        raise RuntimeError("broken invariant")

    tree.statfs = broken  # type: ignore[method-assign]
    assert kernel.reply(kernel.send(Op.STATFS, 1))[0] == errno.EIO
    assert kernel.call(Op.GETATTR, 1, abi.GETATTR_IN.pack(0, 0, 0))
    assert "broken invariant" in capfd.readouterr().err
