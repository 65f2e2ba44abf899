"""Requests on a directory: the contract of trees through the kernel's messages, broken messages, sessions."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.kit.testing.tree_contract import expect_contract_error
from fairlead.steer.fs import sessions
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations.dispatch import Operations, UnknownHandle, UnknownNode
from fairlead.steer.fs.trees.base import ROOT, FileTree
from fairlead.steer.fs.trees.directory import DirectoryTree
from request_contract import Client, RequestContract


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[FileTree]:
    made = DirectoryTree(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(tree: FileTree) -> Client:
    return Client(Operations(tree))


class TestRequestsOnADirectory(RequestContract):
    pass


@pytest.mark.parametrize(
    "op", sorted(set(Op) - {Op.REMOVEXATTR, Op.READLINK, Op.STATFS, Op.SYNCFS, Op.OPENDIR, Op.FSYNCDIR})
)
def test_an_empty_message_is_refused(client: Client, op: Op) -> None:
    with pytest.raises(OSError) as caught:
        client.ask(op, ROOT)
    assert caught.value.errno in (errno.EINVAL, errno.ENOSYS)


def test_broken_messages_end_in_an_error_number(client: Client, tmp_path: Path) -> None:
    chance = random.Random(20)
    node, handle = client.create(ROOT, b"a")
    buffer = memoryview(bytearray(4096))
    answers = 0
    for _ in range(3000):
        op = chance.choice(sorted(Op))
        body = bytearray(chance.randbytes(chance.randrange(0, 100)))
        if chance.random() < 0.5 and len(body) >= 8:
            body[:8] = handle.to_bytes(8, "little")
        try:
            # The root's own mode stays, or the test could not be cleaned up.
            nodes = [node] if op == Op.SETATTR else [ROOT, node, 12345]
            client.ask(op, chance.choice(nodes), bytes(body), buffer, handle=chance.randrange(4))
            answers += 1
        except (OSError, UnknownNode, UnknownHandle):
            pass
    assert answers > 0
    client.operations.end(client.handles)


def test_offsets_beyond_what_a_file_has(client: Client) -> None:
    node, handle = client.create(ROOT, b"a")
    with expect_contract_error(errno.EINVAL):
        client.read(node, handle, (1 << 64) - 1)
    with pytest.raises(OSError):
        client.write(node, handle, b"x", 1 << 63)


def test_unknown_handles(client: Client) -> None:
    node, _ = client.create(ROOT, b"a")
    for call in (
        lambda: client.read(node, 77),
        lambda: client.write(node, 77, b"x"),
        lambda: client.readdir(ROOT, 77),
        lambda: client.flush(node, 77),
        lambda: client.lock(node, 77, 1, 0),
    ):
        with pytest.raises(UnknownHandle):
            call()
    client.release(node, 77)


def test_a_node_is_forgotten_when_the_kernel_gave_back_every_telling(client: Client) -> None:
    node, handle = client.create(ROOT, b"a")
    client.release(node, handle)
    client.lookup(ROOT, b"a")
    client.ask(Op.FORGET, node, abi.FORGET_IN.pack(1))
    assert client.getattr(node).size == 0
    client.ask(Op.FORGET, node, abi.FORGET_IN.pack(1))
    with pytest.raises(UnknownNode):
        client.getattr(node)


def test_a_node_another_session_knows_is_not_forgotten(client: Client) -> None:
    node, _ = client.create(ROOT, b"a")
    other = Client(client.operations)
    other.lookup(ROOT, b"a")
    body = abi.BATCH_FORGET_IN.pack(1, 0) + abi.FORGET_ONE.pack(node, 1)
    client.ask(Op.BATCH_FORGET, 0, body)
    assert client.getattr(node).nlink == 1
    other.operations.end(other.handles)
    with pytest.raises(UnknownNode):
        other.getattr(1 << 50)


def test_a_node_that_was_placed_is_forgotten_too(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"data")
    node = (tmp_path / "a").stat().st_ino + 1
    client.operations.tree.place(node, [(ROOT, b"a")])
    assert client.getattr(node).size == 4
    client.ask(Op.FORGET, node, abi.FORGET_IN.pack(3))
    with pytest.raises(UnknownNode):
        client.getattr(node)


def test_the_end_of_a_session_closes_and_forgets(client: Client, tmp_path: Path) -> None:
    node, handle = client.create(ROOT, b"a")
    client.write(node, handle, b"x")
    client.ask(Op.UNLINK, ROOT, b"a\0")
    client.operations.end(client.handles)
    assert list((tmp_path / ".fairlead" / "kept").iterdir()) == []
    assert client.handles.files == {}
    with pytest.raises((OSError, UnknownNode)):
        client.getattr(node)


def test_an_open_sent_again_replaces_the_first(client: Client) -> None:
    node, handle = client.create(ROOT, b"a")
    first = client.handles.files[handle]
    client.ask(Op.OPEN, node, abi.OPEN_IN.pack(os.O_RDWR, 0), handle=handle)
    assert client.handles.files[handle] is not first
    client.write(node, handle, b"x")


def test_reopening_neither_truncates_nor_creates(client: Client) -> None:
    node, handle = client.create(ROOT, b"a")
    client.write(node, handle, b"data")
    client.release(node, handle)
    client.operations.reopen(client.handles, node, 90, os.O_RDWR | os.O_TRUNC | os.O_CREAT | os.O_EXCL, folder=False)
    assert client.read(node, 90) == b"data"
    client.operations.reopen(client.handles, ROOT, 91, 0, folder=True)
    assert {entry.name for entry in client.readdir(ROOT, 91)} == {b".", b"..", b"a"}


def test_a_file_made_by_another_client_meanwhile_is_opened(client: Client) -> None:
    node, handle = client.create(ROOT, b"a", os.O_RDWR | os.O_EXCL)
    client.write(node, handle, b"data")
    again, second = client.create(ROOT, b"a", os.O_RDWR)
    assert again == node
    assert client.read(node, second) == b"data"
    with expect_contract_error(errno.EEXIST):
        client.create(ROOT, b"a", os.O_RDWR | os.O_EXCL)
    client.create(ROOT, b"a", os.O_RDWR | os.O_TRUNC)
    assert client.getattr(node).size == 0


@pytest.mark.parametrize("plus", [False, True])
def test_listings_that_are_too_much_together_go_on_where_they_were(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plus: bool
) -> None:
    monkeypatch.setattr(sessions, "MOST_ENTRIES", 200)
    for number in range(150):
        (tmp_path / f"f{number:03}").touch()
    first = client.opendir(ROOT)
    begun = client.readdir(ROOT, first, plus=plus)
    others = [client.opendir(ROOT) for _ in range(3)]
    held = [folder for folder in client.handles.folders.values() if folder.entries is not None]
    assert len(held) == 1
    found = [entry.name for entry in begun]
    offset = begun[-1].next_offset
    while more := client.readdir(ROOT, first, offset, plus=plus):
        found += [entry.name for entry in more]
        offset = more[-1].next_offset
    assert len(set(found)) == len(found) == 152
    for handle in others:
        assert client.readdir(ROOT, handle, plus=plus)


def test_what_a_worker_opens_for_a_session_that_has_ended_is_closed(client: Client, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node, _ = client.lookup(ROOT, b"file")
    client.handles.close_all()
    client.open(node)
    client.create(ROOT, b"other")
    assert not client.handles.files
    assert isinstance(client.operations.tree, DirectoryTree)
    assert not client.operations.tree._open
