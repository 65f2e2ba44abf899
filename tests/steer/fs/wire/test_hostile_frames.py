"""Whatever one client sends, the forwarder lives on and serves the others."""

from __future__ import annotations

import logging
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import MAX_WRITE, Op
from fairlead.steer.fs.wire.frames import MAX_FRAME, NO_SLOT, REQUEST, Flag, Own, Refusal
from wire_client import WireClient, message, node_of, serving

READ = abi.READ_IN.pack(7, 0, 4096, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    (folder / "good").write_bytes(b"good" * 1000)
    (folder / "sub").mkdir()
    socket = tmp_path_factory.mktemp("s") / "fw"
    with serving(folder, f"unix:{socket}", grace_s=0.2) as (addresses, server), WireClient(addresses[0]) as good:
        yield addresses[0], good, folder, server


@pytest.fixture(autouse=True)
def no_defects(caplog):
    """What a client sends may be logged as its fault, never as a defect of the forwarder."""
    yield
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def still_served(good: WireClient) -> None:
    assert stat.S_ISREG(abi.ATTR.unpack_from(good.lookup(b"good").body, abi.ENTRY.size)[9])


def test_a_lookup_finds_what_is_there(served) -> None:
    _, good, folder, _ = served
    assert node_of(good.lookup(b"good")) == (folder / "good").stat().st_ino + 1
    assert good.lookup(b"missing").error == -2


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    op=st.sampled_from([*(int(op) for op in Op if op != Op.SETATTR), *map(int, Own), 0, 77, 0xFFFFFFFF]),
    node=st.sampled_from([0, 1, 2, 2**64 - 1]),
    body=st.binary(max_size=120),
    slot=st.sampled_from([NO_SLOT, 0, 1, 2, 70000]),
    flags=st.integers(0, 15),
    handle=st.integers(0, 3),
)
def test_any_message_is_answered_or_ends_its_connection_only(served, op, node, body, slot, flags, handle) -> None:
    address, good, _, _ = served
    with WireClient(address, slots=2) as bad:
        text = message(op, node, body)
        ping = bad.frame(message(Own.PING, 0), number=2)
        try:
            bad.sock.sendall(REQUEST.pack(len(text), flags, 0, 1, handle, slot, 0) + text + ping)
            while bad.receive().number != 2:
                pass
        except ConnectionError:
            pass
    still_served(good)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(min_size=1, max_size=600))
def test_any_bytes_end_their_connection_only(served, data) -> None:
    address, good, _, _ = served
    with WireClient(address) as bad:
        bad.sock.sendall(data)
    still_served(good)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(REQUEST.pack(MAX_FRAME + 1, 0, 0, 1, 0, NO_SLOT, 0), id="too long"),
        pytest.param(REQUEST.pack(0xFFFFFFFF, 0, 0, 1, 0, NO_SLOT, 0), id="4 GiB long"),
        pytest.param(REQUEST.pack(8, 0, 0, 1, 0, NO_SLOT, 0) + bytes(8), id="shorter than a header"),
        pytest.param(
            REQUEST.pack(45, 0, 0, 1, 0, NO_SLOT, 0) + message(Op.LOOKUP, 1, b"good\0", length=9000),
            id="header longer than its frame",
        ),
        pytest.param(REQUEST.pack(80, Flag.SLOT, 0, 1, 0, 2, 0) + message(Op.READ, 2, READ), id="slot beyond the last"),
        pytest.param(REQUEST.pack(80, Flag.SLOT, 0, 1, 0, NO_SLOT, 0) + message(Op.READ, 2, READ), id="no slot"),
        pytest.param(
            REQUEST.pack(45, Flag.SLOT, 0, 1, 0, 0, 0) + message(Op.LOOKUP, 1, b"good\0"), id="slot for a lookup"
        ),
        pytest.param(REQUEST.pack(60, 0, 0, 1, 0, NO_SLOT, 0) + message(Op.READ, 2, READ[:20]), id="half a READ"),
        pytest.param(
            REQUEST.pack(80, 0, 0, 1, 0, NO_SLOT, 0) + message(Op.WRITE, 2, READ, length=80 + 4096),
            id="WRITE without its data",
        ),
        pytest.param(REQUEST.pack(40, 0, 0, 0, 0, NO_SLOT, 0) + message(Op.STATFS, 1), id="request 0"),
        pytest.param(REQUEST.pack(40, Flag.CHECKSUM, 0, 1, 0, NO_SLOT, 5) + message(Op.STATFS, 1), id="wrong checksum"),
        pytest.param(
            REQUEST.pack(44, 0, 0, 0, 0, NO_SLOT, 0) + message(Op.INTERRUPT, 0, bytes(4)), id="half an INTERRUPT"
        ),
        pytest.param(
            REQUEST.pack(44, 0, 0, 1, 0, NO_SLOT, 0) + message(Own.JOB, 0, bytes(4)), id="half an announcement"
        ),
    ],
)
def test_a_frame_no_client_sends_ends_the_connection(served, frame) -> None:
    address, good, _, _ = served
    with WireClient(address, slots=2) as bad:
        bad.sock.sendall(frame)
        assert bad.ended()
    still_served(good)


def test_an_unchecked_frame_ends_a_connection_that_agreed_on_checksums(served) -> None:
    address, good, _, _ = served
    with WireClient(address, checksum=True) as bad:
        bad.checksum = False
        bad.send(Op.STATFS, 1)
        assert bad.ended()
    still_served(good)


@pytest.mark.parametrize("name", [b"..", b".", b"a/b", b"../etc", b"/etc", b"", b"x" * 300, b".fairlead"])
@pytest.mark.parametrize("op", [Op.MKDIR, Op.CREATE, Op.UNLINK, Op.RMDIR, Op.MKNOD, Op.SYMLINK, Op.RENAME])
def test_names_do_not_leave_the_tree(served, op, name) -> None:
    _, good, folder, _ = served
    fixed = {
        Op.MKDIR: abi.MKDIR_IN.pack(0o755, 0),
        Op.CREATE: abi.CREATE_IN.pack(2, 0o644, 0, 0),
        Op.MKNOD: abi.MKNOD_IN.pack(0o100644, 0, 0, 0),
        Op.RENAME: abi.RENAME_IN.pack(1),
    }
    before = sorted(folder.parent.iterdir()), sorted(folder.iterdir())
    second = {Op.SYMLINK: b"target\0", Op.RENAME: b"new\0"}.get(op, b"")
    answer = good.ask(op, 1, fixed.get(op, b"") + name + b"\0" + second, handle=9)
    assert answer.error < 0
    if op == Op.RENAME:
        assert good.ask(op, 1, fixed[op] + b"good\0" + name + b"\0").error < 0
    assert (sorted(folder.parent.iterdir()), sorted(folder.iterdir())) == before


@pytest.mark.parametrize("name", [b"a/b", b"sub/..", b"/etc/passwd", b"", b".fairlead"])
def test_lookups_do_not_leave_the_tree(served, name) -> None:
    _, good, _, _ = served
    assert good.lookup(name).error < 0


def test_the_root_has_no_parent(served) -> None:
    _, good, _, _ = served
    answer = good.lookup(b"..")
    assert answer.error < 0 or node_of(answer) == 1


def test_reads_longer_than_a_write_may_be_are_refused(served) -> None:
    address, good, _, _ = served
    with WireClient(address, slots=2) as client:
        node = node_of(client.lookup(b"good"))
        assert client.open(node, 5).error == 0
        for slot in (NO_SLOT, 1):
            assert client.read(node, 5, MAX_WRITE + 1, slot=slot).error == -22
            assert client.read(node, 5, 0xFFFFFFFF, slot=slot).error == -22
            assert client.read(node, 5, 4000, slot=slot).body == b"good" * 1000
    still_served(good)


def test_unknown_nodes_handles_and_jobs_are_refusals(served) -> None:
    _, good, _, _ = served
    assert good.ask(Op.GETATTR, 2**40, bytes(16)).error == Refusal.UNKNOWN_NODE
    assert good.read(2, 4242, 10).error == Refusal.UNKNOWN_HANDLE
    assert good.ask(Op.STATFS, 1, job=3).error == Refusal.UNKNOWN_JOB
    assert good.announce(3, "job").error == 0
    assert good.ask(Op.STATFS, 1, job=3).error == 0


def test_opcodes_that_make_no_sense_here_are_not_known(served) -> None:
    _, good, _, _ = served
    for op in (Op.INIT, Op.IOCTL, Op.POLL, Op.NOTIFY_REPLY, 0, 999):
        assert good.ask(op, 1, bytes(64)).error == -38
