"""Attributes a mount answers from memory: never those of an earlier file with the same number."""

from __future__ import annotations

import os

import pytest

from fairlead.steer.forwarding.mount.relay import prefetched_attributes
from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.forwarding.mount.relay.prefetched_attributes import ATTRIBUTES_BYTES
from fairlead.steer.forwarding.mount.relay.reply_effects import ReplyEffects
from fairlead.steer.fs.client.held_state import Holdings
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.client.own_requests import build_own_request
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import ROOT, Op
from fairlead.steer.fs.fuse.messages import ENTRY_BYTES

NODE, HANDLE = 7, 3
OF_A_DIRECTORY = bytes(range(ATTRIBUTES_BYTES))
MADE = abi.CREATE_IN.pack(os.O_RDWR, 0o644, 0, 0)
GETATTR = memoryview(build_own_request(Op.GETATTR, NODE, abi.GETATTR_IN.pack(0, 0, 0)))
GIVING = {
    Op.LOOKUP: b"f\0",
    Op.CREATE: MADE + b"f\0",
    Op.TMPFILE: MADE,
    Op.MKNOD: abi.MKNOD_IN.pack(0o100644, 0, 0, 0) + b"f\0",
    Op.MKDIR: abi.MKDIR_IN.pack(0o755, 0) + b"f\0",
    Op.SYMLINK: b"f\0target\0",
    Op.LINK: abi.LINK_IN.pack(NODE) + b"f\0",
    Op.READDIRPLUS: abi.READ_IN.pack(HANDLE, 0, 4096, 0, 0, 0, 0),
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> ReplyEffects:
    monkeypatch.setattr(prefetched_attributes, "monotonic_ns", lambda: 1)
    made = ReplyEffects(Nodes(), Holdings())
    made.prefetched.put(NODE, OF_A_DIRECTORY)
    return made


def test_a_directorys_are_given_once(answers: ReplyEffects) -> None:
    assert answers.answer_locally(Op.GETATTR, NODE, GETATTR) == (0, OF_A_DIRECTORY)
    assert answers.answer_locally(Op.GETATTR, NODE, GETATTR) is None


@pytest.mark.parametrize("op", GIVING, ids=lambda op: Op(op).name)
def test_a_file_that_has_the_number_of_a_removed_directory_does_not_get_them(answers: ReplyEffects, op: Op) -> None:
    entry = Entry(9, int(op), -1, ROOT, HANDLE, 0, 0, 0, 0, build_own_request(op, ROOT, GIVING[op]))
    body = NODE.to_bytes(8, "little") + bytes(ENTRY_BYTES - 8)
    if op == Op.READDIRPLUS:
        body += abi.DIRENT.pack(NODE - 1, 1, 1, 0o10) + b"f" + bytes(7)
    lesson = answers.effects[op]
    assert lesson is not None
    lesson(entry, memoryview(body))
    assert answers.nodes.has_node(NODE)
    assert answers.answer_locally(Op.GETATTR, NODE, GETATTR) is None
