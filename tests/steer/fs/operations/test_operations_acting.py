"""Acting as the user who asks: identity of a thread, groups, and what goes with it in requests."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.trees import system_calls, thread_identity
from fairlead.steer.fs.trees.base import ROOT
from fairlead.steer.fs.trees.directory import DirectoryTree
from request_contract import Client

NOBODY = 65534
needs_root = pytest.mark.skipif(not thread_identity.enabled, reason="acting as other users needs root")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    tree = DirectoryTree(tmp_path)
    tmp_path.chmod(0o777)
    client = Client(Operations(tree))
    yield client
    thread_identity.switch_thread_user(os.geteuid(), os.getegid())
    client.operations.end(client.handles)
    tree.close()


def identity() -> tuple[str, str, str]:
    """User and group for files, and further groups, of this thread."""
    said = Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text(encoding="ascii")
    lines = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    return lines["Uid"].split()[3], lines["Gid"].split()[3], lines["Groups"].strip()


def test_without_root_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_identity, "enabled", False)
    before = identity()
    thread_identity.switch_thread_user(12345, 12345)
    assert identity() == before


@needs_root
def test_identity_is_set_and_given_back() -> None:
    try:
        thread_identity.switch_thread_user(NOBODY, NOBODY)
        assert identity()[:2] == (str(NOBODY), str(NOBODY))
        with thread_identity.forwarder_identity:
            assert identity()[:2] == ("0", "0")
            with thread_identity.forwarder_identity:
                assert identity()[:2] == ("0", "0")
        assert identity()[:2] == (str(NOBODY), str(NOBODY))
        thread_identity.switch_thread_user(thread_identity.NOBODY_IN, thread_identity.NOBODY_IN)
        assert identity()[:2] == ("0", "0")
    finally:
        thread_identity.switch_thread_user(0, 0)


@needs_root
def test_a_step_that_fails_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise PermissionError(1, "refused")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(system_calls, "call_setfsuid", refuse)
            with pytest.raises(PermissionError):
                thread_identity.switch_thread_user(NOBODY, NOBODY)
            with pytest.raises(PermissionError), thread_identity.forwarder_identity:
                pass
        thread_identity.switch_thread_user(NOBODY, NOBODY)
        assert identity()[:2] == (str(NOBODY), str(NOBODY))
    finally:
        thread_identity.switch_thread_user(0, 0)


@needs_root
def test_groups_are_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10**18]
    groups = [[7001]]
    monkeypatch.setattr(thread_identity, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(thread_identity, "_groups", {})
    monkeypatch.setattr(os, "getgrouplist", lambda *_: groups[0])
    try:
        thread_identity.switch_thread_user(NOBODY, NOBODY)
        assert identity()[2] == "7001"
        groups[0] = [7001, 7002]
        thread_identity.switch_thread_user(NOBODY, NOBODY)
        assert identity()[2] == "7001"
        now[0] += 61 * 10**9
        thread_identity.switch_thread_user(NOBODY, NOBODY)
        assert identity()[2] == "7001 7002"
    finally:
        monkeypatch.undo()
        thread_identity.switch_thread_user(0, 0)


def test_a_user_the_system_does_not_know_has_his_group_only() -> None:
    assert thread_identity.find_thread_identity_groups(3_000_000_123, 77) == [77]


@needs_root
def test_set_group_id_of_a_folder_is_inherited(client: Client) -> None:
    folder = client.mkdir(ROOT, b"d", 0o2777)
    client.setattr(folder, abi.Valid.MODE | abi.Valid.GID, mode=0o2777, gid=4321)
    thread_identity.switch_thread_user(NOBODY, NOBODY)
    node, _ = client.create(folder, b"a")
    st = client.getattr(node)
    assert (st.uid, st.gid) == (NOBODY, 4321)
    assert client.getattr(client.mkdir(folder, b"e")).mode & stat.S_ISGID


@needs_root
def test_requests_in_nobodys_name_write(client: Client) -> None:
    thread_identity.switch_thread_user(NOBODY, NOBODY)
    node, handle = client.create(ROOT, b"a", mode=0o600)
    thread_identity.switch_thread_user(thread_identity.NOBODY_IN, thread_identity.NOBODY_IN)
    assert client.write(node, handle, b"x") == 1


@needs_root
def test_set_id_bits_go_although_the_writer_does_not_own_the_file(client: Client) -> None:
    node, handle = client.create(ROOT, b"a", mode=0o777)
    client.release(node, handle)
    client.operations.tree.clears_set_id = False
    for flags, ask in ((os.O_WRONLY, "write"), (os.O_WRONLY | os.O_TRUNC, "open")):
        client.setattr(node, abi.Valid.MODE, mode=0o6777)
        thread_identity.switch_thread_user(NOBODY, NOBODY)
        if ask == "write":
            client.write(node, client.open(node, flags), b"x", flags=abi.WRITE_KILL_SUIDGID)
        else:
            client.ask(Op.OPEN, node, abi.OPEN_IN.pack(flags, 1), handle=99)
        thread_identity.switch_thread_user(0, 0)
        assert stat.S_IMODE(client.getattr(node).mode) == 0o777


@needs_root
def test_a_program_may_be_run_but_not_read(client: Client) -> None:
    node, handle = client.create(ROOT, b"a", mode=0o711)
    client.write(node, handle, b"#!")
    thread_identity.switch_thread_user(NOBODY, NOBODY)
    with pytest.raises(PermissionError):
        client.open(node, os.O_RDONLY)
    run = client.open(node, os.O_RDONLY | 0x20)
    assert client.read(node, run) == b"#!"
    with pytest.raises(PermissionError):
        client.open(node, os.O_RDWR | 0x20)
