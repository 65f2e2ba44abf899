"""Clients that do not read, die, lie about who they are, or come all at once: the others do not notice."""

from __future__ import annotations

import os
import socket
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.core.errors import RefusedError, UnreachableError
from fairlead.steer.forwarding.forwarder import listeners as reception
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.wire.address import listen_on_address, parse_address
from fairlead.steer.fs.wire.frames import MAX_FRAME, NO_SLOT, REQUEST, Flag, Own
from fairlead.steer.fs.wire.handshake import HELLO, Feature, Hello, generate_handshake_id, pack_handshake_hello
from fairlead.steer.fs.wire.slots import SLOT_BYTES
from wire_client import WAIT_S, WireClient, message, node_of, raw_connection, serving

READ_WRITE = 2


@pytest.fixture
def served(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "good").write_bytes(bytes(2 << 20))
    with serving(folder, f"unix:{tmp_path / 'fw'}", grace_s=5.0) as (addresses, server):
        yield addresses[0], server, folder


def until(condition) -> None:
    limit = monotonic_s() + WAIT_S
    while not condition():
        assert monotonic_s() < limit, "waited in vain"
        sleep_s(0.01)


def test_a_client_that_never_reads_holds_up_nobody(served) -> None:
    address, server, _ = served
    with WireClient(address) as greedy, WireClient(address) as good:
        node = node_of(greedy.lookup(b"good"))
        assert greedy.open(node, 5).error == 0
        body = abi.READ_IN.pack(5, 0, 1 << 20, 0, 0, 0, 0)
        greedy.sock.settimeout(0.5)
        with pytest.raises(TimeoutError):  # at last it is not listened to any more
            greedy.sock.sendall(
                b"".join(greedy.frame(message(Op.READ, node, body), number=1000 + n) for n in range(100_000))
            )
        for _ in range(50):
            assert good.lookup(b"good").error == 0
        (link,) = [one for one in server._connections.values() if one.pending or one.unread]
        assert link.unread + link.held <= 256 << 20
        greedy.sock.settimeout(WAIT_S)
        for number in range(50):  # and again once it reads
            answer = greedy.receive()
            assert answer.error == 0, number
            assert len(answer.body) == 1 << 20


def test_a_client_that_dies_within_a_frame_is_forgotten(served) -> None:
    address, server, _ = served
    with WireClient(address) as good:
        for size in (5, 31, 32, 40, 70_000):
            with WireClient(address) as bad:
                text = message(Op.WRITE, 1, abi.WRITE_IN.pack(1, 0, 1 << 20, 0, 0, 0, 0) + bytes(1 << 20))
                bad.sock.sendall((REQUEST.pack(len(text), 0, 0, 1, 0, NO_SLOT, 0) + text)[:size])
        assert good.lookup(b"good").error == 0
        until(lambda: server.connections == 1)
        assert good.lookup(b"good").error == 0


def test_half_a_frame_delays_only_its_own_client(served) -> None:
    address, _, _ = served
    with WireClient(address) as slow, WireClient(address) as good:
        frame = slow.frame(message(Op.LOOKUP, 1, b"good\0"), number=1)
        for byte in frame[:-1]:
            slow.sock.sendall(bytes([byte]))
        assert good.lookup(b"good").error == 0
        slow.sock.sendall(frame[-1:])
        assert slow.receive().number == 1


def test_two_hundred_clients_at_once(served) -> None:
    address, server, _ = served

    def one(number: int) -> int:
        with WireClient(address) as client:
            name = b"file %d" % number
            assert client.create(name, 1).error == 0
            return node_of(client.lookup(name))

    with ThreadPoolExecutor(50) as pool:
        nodes = list(pool.map(one, range(200)))
    assert len(set(nodes)) == 200
    until(lambda: server.connections == 0)


def test_two_hundred_that_say_nothing_do_not_keep_one_out(served, monkeypatch) -> None:
    monkeypatch.setattr(reception, "MOST_ARRIVALS", 150)
    address, _, _ = served
    silent = [raw_connection(address) for _ in range(200)]
    try:
        with WireClient(address) as good:
            assert good.lookup(b"good").error == 0
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        HELLO.pack(b"FAIRLEAD", 1, 1, 1 << 30),
        HELLO.pack(b"FAIRLEAD", 1, 1, 4) + b"null",
        HELLO.pack(b"FAIRLEAD", 1, 1, 2) + b"{}",
        HELLO.pack(b"FAIRLEAD", 1, 1, 3) + b"\xff\xfe\xfd",
        pack_handshake_hello(Hello("../../../../../../../../../etc/x", generate_handshake_id(), "n")),
        pack_handshake_hello(Hello(generate_handshake_id(), "short", "n")),
        pack_handshake_hello(Hello(generate_handshake_id(), generate_handshake_id(), "n\nready unix:/tmp/another")),
        pack_handshake_hello(Hello(generate_handshake_id(), generate_handshake_id(), "n" * 300)),
        pack_handshake_hello(Hello(generate_handshake_id(), generate_handshake_id(), "n"), 90, 99),
        pack_handshake_hello(Hello(generate_handshake_id(), generate_handshake_id(), "n"), 0, 0),
    ],
    ids=[
        "http",
        "too long",
        "null",
        "nothing",
        "no text",
        "session",
        "secret",
        "two lines",
        "a long node",
        "too new",
        "too old",
    ],
)
def test_who_does_not_say_hello_properly_is_refused(served, said) -> None:
    address, _, _ = served
    with WireClient(address) as good:
        bad = raw_connection(address)
        bad.sendall(said)
        answer = b""
        while part := bad.recv(4096):
            answer += part
        magic, version, _, length = HELLO.unpack_from(answer)
        assert (magic, version) == (b"FAIRLEAD", 0)
        assert len(answer) == HELLO.size + length
        bad.close()
        assert good.lookup(b"good").error == 0


def test_a_version_nobody_speaks_is_refused_with_both_named(served) -> None:
    address, _, _ = served
    bad = raw_connection(address)
    bad.sendall(pack_handshake_hello(Hello(generate_handshake_id(), generate_handshake_id(), "n"), 90, 99))
    assert b"this forwarder speaks 1 to 1" in bad.recv(4096)
    bad.close()


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_that_come_along_are_not_kept(served) -> None:
    address, _, _ = served
    with WireClient(address) as good:
        before = _descriptors()
        file = os.open("/dev/null", os.O_RDONLY)
        hello = Hello(generate_handshake_id(), generate_handshake_id(), "n", features=(Feature.SLOTS,), slots=2)
        for text in (pack_handshake_hello(hello), b"not even a hello, but long enough"):
            bad = raw_connection(address)
            bad.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [file] * 3).tobytes())])
            assert b"refused" in bad.recv(4096)
            bad.close()
        os.close(file)
        assert good.lookup(b"good").error == 0
        until(lambda: _descriptors() == before)


def test_memory_of_the_wrong_size_is_refused(served) -> None:
    address, _, _ = served
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, SLOT_BYTES)
    bad = raw_connection(address)
    hello = Hello(generate_handshake_id(), generate_handshake_id(), "n", features=(Feature.SLOTS,), slots=2)
    bad.sendmsg([pack_handshake_hello(hello)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [memory]).tobytes())])
    assert b"not sealed" in bad.recv(4096)
    bad.close()
    os.close(memory)


def test_a_session_is_not_given_to_who_does_not_know_its_secret(served) -> None:
    address, _, _ = served
    with WireClient(address) as mine:
        with pytest.raises(RefusedError, match="another client"):
            WireClient(address, session=mine.session)
        assert mine.lookup(b"good").error == 0


def test_a_client_that_connects_again_finds_its_files_open(served) -> None:
    address, _, _ = served
    first = WireClient(address)
    node = node_of(first.create(b"new", 7, flags=READ_WRITE))
    assert first.write(node, 7, b"before").error == 0
    with WireClient(address, session=first.session, secret=first.secret) as again:
        assert again.welcome.resumed
        assert first.ended()
        assert again.read(node, 7, 100).body == b"before"
    first.close()


def test_files_are_closed_when_a_client_stays_away(tmp_path) -> None:
    (tmp_path / "tree").mkdir()
    with serving(tmp_path / "tree", f"unix:{tmp_path / 'fw'}", grace_s=0.05) as (addresses, server):
        with WireClient(addresses[0]) as client:
            node = node_of(client.create(b"new", 7))
        until(lambda: len(server.sessions) == 0)
        with WireClient(addresses[0], session=client.session, secret=client.secret) as late:
            assert not late.welcome.resumed
            assert late.read(node, 7, 100).error > 0


def test_a_client_that_says_goodbye_is_forgotten_at_once(served) -> None:
    address, server, _ = served
    with WireClient(address) as client:
        assert client.create(b"new", 7).error == 0
        assert client.ask(Op.DESTROY, 0).error == 0
    until(lambda: len(server.sessions) == 0)


def test_what_was_done_is_not_done_again(served) -> None:
    address, _, _ = served
    first = WireClient(address)
    made = first.ask(Op.MKDIR, 1, abi.MKDIR_IN.pack(0o755, 0) + b"folder\0", number=40)
    assert made.error == 0
    gone = first.ask(Op.UNLINK, 1, b"good\0", number=41)
    assert gone.error == 0
    with WireClient(address, session=first.session, secret=first.secret) as again:
        for number, op, body in (
            (40, Op.MKDIR, abi.MKDIR_IN.pack(0o755, 0) + b"folder\0"),
            (41, Op.UNLINK, b"good\0"),
        ):
            answer = again.ask(op, 1, body, number=number, flags=int(Flag.RETRY))
            assert answer.error == 0
        assert again.ask(Op.MKDIR, 1, abi.MKDIR_IN.pack(0o755, 0) + b"folder\0", number=50).error == -17
        assert again.ask(Op.UNLINK, 1, b"good\0", number=51).error == -2
    first.close()


def test_a_live_socket_is_not_taken_over_a_dead_one_is(tmp_path) -> None:
    path = tmp_path / "fw"
    sock, _ = listen_on_address(parse_address(f"unix:{path}"))
    with pytest.raises(RefusedError, match="another forwarder"):
        listen_on_address(parse_address(f"unix:{path}"))
    sock.close()
    sock, _ = listen_on_address(parse_address(f"unix:{path}"))
    sock.close()
    path.unlink()
    path.write_text("a file")
    with pytest.raises(RefusedError, match="no socket"):
        listen_on_address(parse_address(f"unix:{path}"))
    assert path.read_text() == "a file"


def test_a_path_longer_than_a_socket_address_works(tmp_path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    (folder / "tree").mkdir()
    with serving(folder / "tree", f"unix:{folder / 'fw'}") as (addresses, _), WireClient(addresses[0]) as client:
        assert client.ask(Own.PING, 0).error == 0
    with pytest.raises(UnreachableError):
        WireClient(addresses[0])


def test_a_frame_as_long_as_allowed_is_taken(served) -> None:
    address, _, _ = served
    with WireClient(address) as client:
        text = message(Op.LOOKUP, 1, bytes(MAX_FRAME - abi.IN_HEADER.size))
        client.sock.sendall(client.frame(text, number=1))
        assert client.receive().error < 0
        assert client.lookup(b"good").error == 0
