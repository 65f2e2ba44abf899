"""What a mount tells a forwarder before a request can be carried out, where the forwarder has forgotten it again or
knows it wrong.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.steer.forwarding.forwarder.exactly_once import Guard
from fairlead.steer.forwarding.mount.recovery.repairs import Repairs
from fairlead.steer.forwarding.mount.relay.ledger import Entry, Ledger
from fairlead.steer.fs.client.dial import Dial
from fairlead.steer.fs.client.held_state import F_WRLCK, HeldLock, Holdings
from fairlead.steer.fs.client.link import Link
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.client.own_requests import (
    IN_HEADER,
    build_own_place_request,
    build_own_request,
    exchange_own_request,
)
from fairlead.steer.fs.client.reclaim import reclaim_open_files
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import ROOT, Op
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.sessions import Handles
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.fs.trees.unlinked_files import open_unlinked_folder
from fairlead.steer.fs.wire.frames import Own, Refusal
from wire_client import WireClient, node_of, serving

UNKNOWN_NODE, UNKNOWN_HANDLE = int(Refusal.UNKNOWN_NODE), int(Refusal.UNKNOWN_HANDLE)
FLUSH, NODE, HANDLE = 41, 7, 5


class Room:
    """The repairs of a mount that has the file `f` open, and a FLUSH of it under way."""

    def __init__(self) -> None:
        self.ledger, self.holdings, self.nodes = Ledger(), Holdings(), Nodes()
        self.nodes.record_lookup(NODE, ROOT, b"f")
        self.holdings.record_open(HANDLE, NODE, os.O_WRONLY)
        self.told: list[tuple[int, int]] = []  # number and opcode of what fairlead itself asked
        self.sent: list[int] = []
        self.ended: list[tuple[int, int]] = []
        link = SimpleNamespace(put=self._put)
        mount: Any = SimpleNamespace(
            link=link,
            ledger=self.ledger,
            holdings=self.holdings,
            nodes=self.nodes,
            retried=set(),
            send=lambda number, _: self.sent.append(number),
            finish=lambda *ended: self.ended.append(ended),
        )
        self.repairs = Repairs(mount)

    def _put(self, number: int, _job: int, _handle: int, message: bytes) -> None:
        self.told.append((number, IN_HEADER.unpack_from(message)[1]))

    def refused(self, refusal: int) -> None:
        entry = Entry(99, int(Op.FLUSH), -1, NODE, HANDLE, 0, 0, 0, 0, b"")
        self.repairs.repair_request(FLUSH, entry, refusal)

    def answered(self, error: int) -> int:
        """Answers the last thing that was told; its opcode."""
        number, opcode = self.told[-1]
        self.ledger.requests.pop(number, None)
        self.repairs.continue_repair(number, error)
        return opcode


def test_what_is_forgotten_before_it_is_used_is_told_again() -> None:
    room = Room()
    room.refused(UNKNOWN_HANDLE)
    assert room.answered(0) == Own.PLACE
    assert room.answered(UNKNOWN_NODE) == Own.REOPEN  # a FORGET came in between
    assert room.ended == []
    assert room.sent == [FLUSH]
    room.refused(UNKNOWN_HANDLE)
    assert room.answered(0) == Own.PLACE
    assert room.answered(0) == Own.REOPEN
    assert room.sent == [FLUSH, FLUSH]
    assert room.ended == []


def test_an_error_of_the_last_step_is_that_of_the_request() -> None:
    room = Room()
    room.refused(UNKNOWN_HANDLE)
    room.answered(-errno.ESTALE)
    room.answered(-errno.EACCES)
    assert (room.sent, room.ended) == ([], [(FLUSH, -errno.EACCES)])


def test_what_is_refused_for_ever_ends_with_estale() -> None:
    room = Room()
    for _ in range(100):
        room.refused(UNKNOWN_HANDLE)
        if room.ended:
            break
        room.answered(0)
        room.answered(UNKNOWN_NODE)
    assert room.ended == [(FLUSH, -errno.ESTALE)]
    assert len(room.sent) < 20


def test_a_forget_of_an_earlier_file_takes_the_place_of_the_new_one(tmp_path: Path) -> None:
    """Why the above can be: numbers are used again, and FORGETs are late."""
    node = _made(tmp_path / "f")
    place = build_own_place_request(node, [(ROOT, b"f")])[IN_HEADER.size :]
    reopen = b"".join((os.O_RDWR.to_bytes(4, "little"), bytes(12)))
    flush = abi.FLUSH_IN.pack(HANDLE, 0, 0, 0)
    with serving(tmp_path, f"unix:{tmp_path}.sock") as (addresses, _), WireClient(addresses[0]) as client:
        assert client.ask(Op.FLUSH, node, flush).error == UNKNOWN_HANDLE
        assert client.ask(Own.PLACE, node, place).error == 0
        client.send(Op.FORGET, node, abi.FORGET_IN.pack(3))
        while client.ask(Own.REOPEN, node, reopen, handle=HANDLE).error == 0:  # requests are carried out in any order
            client.ask(Op.RELEASE, node, abi.RELEASE_IN.pack(HANDLE, 0, 0, 0))
        assert client.ask(Own.REOPEN, node, reopen, handle=HANDLE).error == UNKNOWN_NODE
        assert client.ask(Own.PLACE, node, place).error == 0
        assert client.ask(Own.REOPEN, node, reopen, handle=HANDLE).error == 0
        assert client.ask(Op.FLUSH, node, flush).error == 0


def test_a_node_that_was_moved_through_another_forwarder_is_asked_for(tmp_path: Path) -> None:
    _made(tmp_path / "f")
    with serving(tmp_path, f"unix:{tmp_path}.sock") as (addresses, _), WireClient(addresses[0]) as client:
        node = node_of(client.lookup(b"f"))
        (tmp_path / "f").rename(tmp_path / "g")
        attributes = abi.GETATTR_IN.pack(0, 0, 0)
        assert client.ask(Op.GETATTR, node, attributes).error == UNKNOWN_NODE
        for name, error in ((b"f", -errno.ESTALE), (b"g", 0)):
            place = build_own_place_request(node, [(ROOT, name)])[IN_HEADER.size :]
            assert client.ask(Own.PLACE, node, place).error == error
        assert client.ask(Op.GETATTR, node, attributes).error == 0


class Forgetful(DirectoryTree):
    """Forgets the first place it is told, as when a FORGET of another client comes at once."""

    told = 0

    def place(self, node: int, steps: Sequence[tuple[int, bytes]]) -> None:
        super().place(node, steps)
        self.told += 1
        if self.told == 1:
            self.forget((node,))


def test_an_open_file_with_a_lock_is_had_again_though_its_place_was_forgotten(tmp_path: Path) -> None:
    node = _made(tmp_path / "f")
    tree = Forgetful(tmp_path)
    said: list[str] = []
    with serving(tmp_path, f"unix:{tmp_path}.sock", tree=tree) as (addresses, _):
        link = Link(Dial(addresses).connect_any())
        try:
            reclaim_open_files(link, *_locked(node), said.append)
            assert (said, tree.told) == ([], 2)
            flush = build_own_request(Op.FLUSH, node, abi.FLUSH_IN.pack(HANDLE, 0, 0, 0))
            assert exchange_own_request(link, iter((1000,)), flush)[0] == 0
        finally:
            link.close()


def test_an_open_file_that_is_gone_is_said_once(tmp_path: Path) -> None:
    node = _made(tmp_path / "f")
    (tmp_path / "f").unlink()
    said: list[str] = []
    with serving(tmp_path, f"unix:{tmp_path}.sock") as (addresses, _):
        link = Link(Dial(addresses).connect_any())
        try:
            reclaim_open_files(link, *_locked(node), said.append)
        finally:
            link.close()
    assert len(said) == 1


def test_a_request_about_a_node_that_has_moved_is_not_on_record(tmp_path: Path) -> None:
    """It is sent again under its number: what came of it the first time must not be its answer."""
    _made(tmp_path / "f")
    tree = DirectoryTree(tmp_path)
    guard, handles = Guard(Operations(tree), open_unlinked_folder(tree.root, b"intents"), "1" * 32), Handles()
    try:
        node, _ = tree.lookup(ROOT, b"f")
        (tmp_path / "f").rename(tmp_path / "g")
        intents = guard.get_session("0" * 32)
        body = memoryview(abi.LINK_IN.pack(node) + b"h\0")
        request = SimpleNamespace(
            session=SimpleNamespace(handles=handles),
            number=1,
            op=int(Op.LINK),
            node=ROOT,
            handle=0,
            flags=0,
            body=body,
            data=None,
        )
        with pytest.raises(OSError) as failed:
            guard.execute(intents, request)  # type: ignore[arg-type]
        assert failed.value.errno == errno.ESTALE
        assert intents.find(1) is None
    finally:
        guard.close()
        tree.close()


def _made(path: Path) -> int:
    path.write_bytes(b"x")
    return path.stat().st_ino + 1


def _locked(node: int) -> tuple[Nodes, Holdings, Iterator[int]]:
    """What a mount knows of `f`, open and locked."""
    nodes, holdings, ledger = Nodes(), Holdings(), Ledger()
    nodes.record_lookup(node, ROOT, b"f")
    holdings.record_open(HANDLE, node, os.O_RDWR)
    holdings.record_lock(HeldLock(node, HANDLE, 9, 0, 10, F_WRLCK, 1, flock=False))
    return nodes, holdings, ledger.ids
