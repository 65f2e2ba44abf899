"""Many clients of one forwarder: each gets its own answers, and what one waits for holds up nobody else."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.fs.wire.frames import NO_SLOT, PREFIX_BYTES, REPLY, Flag, Own
from fairlead.steer.fs.wire.handshake import Feature
from wire_client import WAIT_S, WireClient, message, node_of, serving

WRITE_LOCK, UNLOCK = fcntl.F_WRLCK, fcntl.F_UNLCK
INTERRUPTED = -4
TRY_AGAIN = -11


class Gate(DirectoryTree):
    """A tree in which looking up `slow` takes until the gate is opened."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.opened = threading.Event()
        self.waiting = threading.Semaphore(0)

    def lookup(self, parent: int, name: bytes):
        if name == b"slow":
            self.waiting.release()
            assert self.opened.wait(WAIT_S)
        return super().lookup(parent, name)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(b"content")
    return tmp_path / "tree"


def until(condition) -> None:
    limit = monotonic_s() + WAIT_S
    while not condition():
        assert monotonic_s() < limit, "waited in vain"
        sleep_s(0.01)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_everybody_reads_what_he_wrote(folder, tmp_path, kind, checksum) -> None:
    def work(number: int) -> None:
        random = Random(number)
        with WireClient(address, slots=4 if kind == "unix" else 0, checksum=checksum) as client:
            node = node_of(client.create(b"mine %d" % number, 7))
            whole = bytearray()
            for _ in range(25):
                size = random.choice([1, 100, 4096, 70_001, 1 << 20])
                data = random.randbytes(64) * (size // 64 + 1)
                offset = random.randint(0, len(whole))
                slot = random.randrange(4) if kind == "unix" and random.random() < 0.7 else NO_SLOT
                answer = client.write(node, 7, data[:size], offset, slot=slot)
                assert abi.WRITE_OUT.unpack(answer.body)[0] == size
                whole[offset : offset + size] = data[:size]
                begin = random.randint(0, len(whole))
                slot = random.randrange(4) if kind == "unix" and random.random() < 0.7 else NO_SLOT
                answer = client.read(node, 7, min(1 << 20, random.choice([10, 5000, 1 << 20])), begin, slot=slot)
                assert answer.error == 0
                assert answer.body == whole[begin : begin + len(answer.body)]
            assert client.ask(Op.RELEASE, node, abi.RELEASE_IN.pack(7, 0, 0, 0)).error == 0
        assert (folder / f"mine {number}").read_bytes() == whole

    address = f"unix:{tmp_path / 'fw'}" if kind == "unix" else "tcp:127.0.0.1:0"
    with serving(folder, address) as (addresses, _), ThreadPoolExecutor(6) as pool:
        address = addresses[0]
        list(pool.map(work, range(6)))


@pytest.mark.parametrize("order", ["fifo", "metadata-first", "share:0.5", "job-fair", "set-10"])
def test_many_requests_at_once_are_all_answered(folder, tmp_path, order) -> None:
    with (
        serving(folder, f"unix:{tmp_path / 'fw'}", order=order) as (addresses, _),
        WireClient(addresses[0], slots=8) as client,
    ):
        node = node_of(client.lookup(b"file"))
        assert client.open(node, 5).error == 0
        assert client.announce(1, "one").error == 0
        asked = {}
        for number in range(100, 1100):
            kind = number % 3
            if kind == 0:
                client.send(Op.LOOKUP, 1, b"file\0", number=number, job=number % 2)
            elif kind == 1:
                client.send(Op.READ, node, abi.READ_IN.pack(5, 0, 100, 0, 0, 0, 0), number=number)
            else:
                body = abi.READ_IN.pack(5, 3, 100, 0, 0, 0, 0)
                client.send(Op.READ, node, body, number=number, slot=number % 8)
            asked[number] = kind
        for _ in range(1000):
            answer = client.receive()
            kind = asked.pop(answer.number)
            assert answer.error == 0
            assert len(answer.body) == (128, 7, 4)[kind]
        assert not asked


def test_a_stuck_request_does_not_stop_the_leader(folder, tmp_path) -> None:
    tree = Gate(folder)
    (folder / "slow").mkdir()
    with (
        serving(folder, f"unix:{tmp_path / 'fw'}", tree=tree, workers=3) as (addresses, _),
        WireClient(addresses[0]) as stuck,
        WireClient(addresses[0]) as good,
    ):
        numbers = {stuck.send(Op.LOOKUP, 1, b"slow\0") for _ in range(3)}
        for _ in range(2):
            assert tree.waiting.acquire(timeout=WAIT_S)
        for _ in range(100):
            assert good.lookup(b"file").error == 0
        assert not tree.waiting.acquire(blocking=False)  # one client does not get all workers
        tree.opened.set()
        answers = [stuck.receive() for _ in range(3)]
        assert {answer.number for answer in answers} == numbers
        assert {answer.error for answer in answers} == {0}


def test_with_all_workers_stuck_pings_are_still_answered(folder, tmp_path) -> None:
    tree = Gate(folder)
    with (
        serving(folder, f"unix:{tmp_path / 'fw'}", tree=tree, workers=1) as (addresses, _),
        WireClient(addresses[0]) as stuck,
        WireClient(addresses[0]) as good,
    ):
        stuck.send(Op.LOOKUP, 1, b"slow\0")
        assert tree.waiting.acquire(timeout=WAIT_S)
        assert good.ask(Own.PING, 0).error == 0
        waits = good.send(Op.LOOKUP, 1, b"file\0")
        tree.opened.set()
        assert good.receive().number == waits


def test_waiting_for_a_lock_takes_no_worker(folder, tmp_path) -> None:
    with serving(folder, f"unix:{tmp_path / 'fw'}", workers=1) as (addresses, server):
        clients = [WireClient(addresses[0]) for _ in range(5)]
        node = node_of(clients[0].lookup(b"file"))
        for client in clients:
            client.lookup(b"file")
            assert client.open(node, 5).error == 0
        holder, *waiting = clients
        holder.lock(node, 5, 1, WRITE_LOCK)
        assert holder.receive().error == 0
        numbers = [client.lock(node, 5, 2, WRITE_LOCK, wait=True) for client in waiting]
        until(lambda: len(server._parked) == 4)
        waiting[0].lock(node, 5, 3, WRITE_LOCK)
        assert waiting[0].receive().error == TRY_AGAIN
        assert holder.lookup(b"file").error == 0
        # One is interrupted, one goes away, the others get it one after the other.
        waiting[0].sock.sendall(waiting[0].frame(message(Op.INTERRUPT, 0, abi.INTERRUPT_IN.pack(numbers[0]))))
        answer = waiting[0].receive()
        assert (answer.number, answer.error) == (numbers[0], INTERRUPTED)
        waiting[1].close()
        until(lambda: len(server._parked) == 2)
        holder.lock(node, 5, 1, UNLOCK)
        assert holder.receive().error == 0
        until(lambda: len(server._parked) == 1)
        until(lambda: waiting[2].readable(0) or waiting[3].readable(0))
        first, last = (waiting[2], waiting[3]) if waiting[2].readable(0) else (waiting[3], waiting[2])
        assert first.receive().error == 0
        first.lock(node, 5, 2, UNLOCK)
        assert first.receive().error == 0
        assert last.receive().error == 0
        for client in clients:
            client.close()


def test_locks_of_a_client_that_went_away_are_given_back(folder, tmp_path) -> None:
    with (
        serving(folder, f"unix:{tmp_path / 'fw'}", grace_s=0.1) as (addresses, _),
        WireClient(addresses[0]) as waiting,
    ):
        with WireClient(addresses[0]) as holder:
            node = node_of(holder.lookup(b"file"))
            assert holder.open(node, 5).error == 0
            holder.lock(node, 5, 1, WRITE_LOCK)
            assert holder.receive().error == 0
            waiting.lookup(b"file")
            assert waiting.open(node, 5).error == 0
            waiting.lock(node, 5, 2, WRITE_LOCK, wait=True)
        assert waiting.receive().error == 0


def test_a_request_under_way_is_answered_on_the_new_connection(folder, tmp_path) -> None:
    class SlowMkdir(Gate):
        made = 0

        def mkdir(self, parent: int, name: bytes, mode: int):
            self.made += 1
            self.waiting.release()
            assert self.opened.wait(WAIT_S)
            return super().mkdir(parent, name, mode)

    tree = SlowMkdir(folder)
    with serving(folder, f"unix:{tmp_path / 'fw'}", tree=tree) as (addresses, _):
        body = abi.MKDIR_IN.pack(0o755, 0) + b"new\0"
        first = WireClient(addresses[0])
        first.send(Op.MKDIR, 1, body, number=9)
        assert tree.waiting.acquire(timeout=WAIT_S)
        first.sock.close()
        with WireClient(addresses[0], session=first.session, secret=first.secret) as again:
            again.send(Op.MKDIR, 1, body, number=9, flags=int(Flag.RETRY))
            assert again.ask(Own.PING, 0, number=10).error == 0
            tree.opened.set()
            answer = again.receive()
            assert (answer.number, answer.error) == (9, 0)
        assert tree.made == 1
        first.close()


def test_a_forwarder_that_ends_finishes_what_it_is_at(folder, tmp_path) -> None:
    tree = Gate(folder)
    (folder / "slow").mkdir()
    with (
        serving(folder, f"unix:{tmp_path / 'fw'}", tree=tree) as (addresses, server),
        WireClient(addresses[0]) as client,
    ):
        client.send(Op.LOOKUP, 1, b"slow\0")
        assert tree.waiting.acquire(timeout=WAIT_S)
        closing = threading.Thread(target=server.close)
        closing.start()
        until(lambda: not (tmp_path / "fw").exists())
        tree.opened.set()
        assert client.receive().error == 0
        assert client.ended()
        closing.join(WAIT_S)


def test_the_descriptor_of_a_file_comes_along_where_both_want_it(folder, tmp_path) -> None:
    features = (Feature.SLOTS, Feature.CHECKSUM, Feature.DESCRIPTORS)
    addresses = (f"unix:{tmp_path / 'fw'}", "tcp:127.0.0.1:0")
    with serving(folder, *addresses, features=features) as (bound, _):
        with WireClient(bound[0], extra=[Feature.DESCRIPTORS], checksum=True) as client:
            node = node_of(client.lookup(b"file"))
            for flags in (os.O_RDONLY, os.O_RDWR):
                number = client.send(Op.OPEN, node, abi.OPEN_IN.pack(flags, 0), handle=5)
                data, (descriptor,), _, _ = socket.recv_fds(client.sock, 4096, 4)
                length, got, _, answered, error, *_ = REPLY.unpack_from(data)
                assert (answered, error, len(data)) == (number, 0, PREFIX_BYTES + length)
                assert got & Flag.DESCRIPTOR
                assert os.pread(descriptor, 100, 0) == b"content"
                os.close(descriptor)
            client.send(Op.OPEN, node, abi.OPEN_IN.pack(os.O_RDWR | os.O_APPEND, 0), handle=6)
            assert socket.recv_fds(client.sock, 4096, 4)[1] == []
        with WireClient(bound[1], extra=[Feature.DESCRIPTORS]) as client:
            assert Feature.DESCRIPTORS not in client.welcome.features
            assert client.open(node_of(client.lookup(b"file")), 5).error == 0
