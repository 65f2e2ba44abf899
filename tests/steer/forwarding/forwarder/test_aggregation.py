"""Small writes that wait next to each other are one write below, and each gets its own answer."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event

import pytest

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.steer.forwarding.forwarder.server import Server
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trees.local_file import LocalFile
from wire_client import WireClient, node_of, serving

WAIT_S = 60


class Gate:
    """Holds the worker in the write of one byte until it is opened, and counts what reaches the file system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.opened = Event(), Event()
        self.writes: list[int] = []
        self.joined: list[list[int]] = []
        self.fails = False
        write_from, write_pieces = LocalFile.write_from, LocalFile.write_pieces

        def write(file: LocalFile, buffer: memoryview, offset: int) -> int:
            if len(buffer) == 1:
                self.entered.set()
                assert self.opened.wait(WAIT_S)
                sleep_s(0.005)  # only writes that take long are worth joining
            self.writes.append(len(buffer))
            return write_from(file, buffer, offset)

        def write_together(file: LocalFile, pieces: list[memoryview], offset: int) -> int:
            if self.fails:
                raise OSError(28, "no space")
            self.joined.append([len(piece) for piece in pieces])
            return write_pieces(file, pieces, offset)

        monkeypatch.setattr(LocalFile, "write_from", write)
        monkeypatch.setattr(LocalFile, "write_pieces", write_together)


@contextmanager
def served(folder: Path):
    """A forwarder with one worker."""
    (folder / "tree").mkdir()
    order = "fifo,cap-job:off,cap-target:off"
    with serving(folder / "tree", f"unix:{folder}/socket", order=order, workers=1) as (addresses, server):
        yield server, addresses[0]


def write_body(handle: int, offset: int, size: int) -> bytes:
    return abi.WRITE_IN.pack(handle, offset, size, 0, 0, 0, 0)


def wait_until_queued(server: Server, count: int) -> None:
    end = monotonic_s() + WAIT_S
    while len(server._crew.queued) < count:
        assert monotonic_s() < end
        sleep_s(0.002)


def pile_up(
    server: Server, client: WireClient, gate: Gate, node: int, parts: list[tuple[int, int, bytes]]
) -> list[int]:
    """Answers (errors) to writes (handle, offset, data) that all waited behind one that held the worker."""
    client.send(Op.WRITE, node, write_body(1, 1 << 30, 1) + b"x")
    assert gate.entered.wait(WAIT_S)
    numbers = [client.send(Op.WRITE, node, write_body(handle, at, len(data)) + data) for handle, at, data in parts]
    wait_until_queued(server, len(parts))
    gate.opened.set()
    answers = {answer.number: answer for answer in (client.receive() for _ in range(len(parts) + 1))}
    for number, (_, _, data) in zip(numbers, parts, strict=True):
        if answers[number].error == 0:
            assert abi.WRITE_OUT.unpack(answers[number].body)[0] == len(data)
    return [answers[number].error for number in numbers]


def test_adjacent_writes_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    content = Random(1).randbytes(64 * 4096)
    with served(tmp_path) as (server, address), WireClient(address) as client:
        node = node_of(client.create(b"a", 1))
        order = list(range(20))
        Random(2).shuffle(order)
        parts = [(1, n * 4096, content[n * 4096 : (n + 1) * 4096]) for n in order]
        assert pile_up(server, client, gate, node, parts) == [0] * 20
        assert gate.joined == [[4096] * 20]
        assert gate.writes == [1]
        found = client.read(node, 1, 20 * 4096)
        assert found.body == content[: 20 * 4096]


def test_two_handles_opened_alike_go_together_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    with served(tmp_path) as (server, address), WireClient(address) as client:
        node = node_of(client.create(b"a", 1))
        assert client.open(node, 2).error == 0
        assert client.open(node, 3, os.O_RDWR | os.O_DSYNC).error == 0
        parts = [(1, 0, b"a" * 100), (2, 100, b"b" * 100), (3, 200, b"c" * 100)]
        assert pile_up(server, client, gate, node, parts) == [0, 0, 0]
        assert gate.joined == [[100, 100]]
        assert client.read(node, 1, 300).body == b"a" * 100 + b"b" * 100 + b"c" * 100


def test_gaps_overlaps_and_large_writes_stay_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with served(tmp_path) as (server, address), WireClient(address) as client:
        node = node_of(client.create(b"a", 1))
        parts = [
            (1, 0, b"a" * 10),
            (1, 11, b"b" * 10),  # a gap
            (1, 5, b"c" * 3),  # an overlap
            (1, 21, b"d" * (100 << 10)),  # not small
            (1, 300_000, b"e" * 10),
            (1, 300_000, b"f" * 10),  # twice the same place
        ]
        assert pile_up(server, client, gate, node, parts) == [0] * 6
        assert gate.joined == []
        assert client.read(node, 1, 21).body == b"aaaaacccaa\0" + b"b" * 10


def test_a_write_that_fails_together_is_tried_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    gate.fails = True
    with served(tmp_path) as (server, address), WireClient(address) as client:
        node = node_of(client.create(b"a", 1))
        parts = [(1, n * 10, bytes([97 + n]) * 10) for n in range(5)]
        assert pile_up(server, client, gate, node, parts) == [0] * 5
        assert gate.writes == [1, 10, 10, 10, 10, 10]
        assert client.read(node, 1, 50).body == b"".join(data for _, _, data in parts)


def test_appending_writes_stay_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with served(tmp_path) as (server, address), WireClient(address) as client:
        node = node_of(client.create(b"a", 1, flags=os.O_RDWR | os.O_APPEND))
        parts = [(1, n * 10, b"x" * 10) for n in range(5)]
        assert pile_up(server, client, gate, node, parts) == [0] * 5
        assert gate.joined == []
