"""On a network a token decides who may ask, as whom and for which job; TLS keeps it from others."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import wire_client
from fairlead.core.access.tls import build_tls_client_context, build_tls_server_context
from fairlead.core.access.tokens import Claims, issue_token, make_token_key, read_token_key
from fairlead.core.clock import now_ns
from fairlead.core.errors import FairleadError, RefusedError, UnreachableError
from fairlead.steer.forwarding.forwarder.admission import find_admission_loopback_uid, require_admission_key
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trees import system_calls, thread_identity
from fairlead.steer.fs.wire.address import parse_address
from fairlead.steer.fs.wire.frames import NO_SLOT, PLACE_STEP, REOPEN_IN, Own
from waiting import PATIENCE_S
from wire_client import WIRE_UID, WireClient, node_of, serving

KEY = bytes(range(32))
EACCES, EPERM = -13, -1


ROOT = {"key": KEY, "allow": frozenset({"any-user", "root"})}
"""A site that has spelled out that a token may act as anybody."""


def token(**claims) -> str:
    """A token; without a user, one for any user."""
    claims.setdefault("expires_s", now_ns() // 1_000_000_000 + 3600)
    claims.setdefault("any_user", "uid" not in claims)
    return issue_token(KEY, Claims(**claims))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tree").mkdir(mode=0o777)
    (tmp_path / "tree").chmod(0o777)
    (tmp_path / "tree" / "file").write_bytes(b"content" * 50_000)
    return tmp_path / "tree"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with: apt-get install openssl")
    place = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", place / "key.pem", "-out", place / "cert.pem", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return place


def test_without_a_valid_token_nobody_is_served(folder) -> None:
    with serving(folder, "tcp:127.0.0.1:0", **ROOT) as (addresses, _):
        for wrong in ("", "nonsense", "a.b", token(expires_s=1), issue_token(bytes(32), Claims(2**33))):
            with pytest.raises(RefusedError, match="token"):
                WireClient(addresses[0], token=wrong)
        with WireClient(addresses[0], token=token()) as client:
            assert client.lookup(b"file").error == 0


def test_a_job_s_token_announces_no_other_job(folder) -> None:
    with (
        serving(folder, "tcp:127.0.0.1:0", **ROOT) as (addresses, _),
        WireClient(addresses[0], token=token(job="17")) as client,
    ):
        assert client.announce(1, "18").error == EPERM
        assert client.announce(1, "17").error == 0
        assert client.announce(2, "").error == EPERM
        assert client.lookup(b"file").error == 0


def test_a_user_s_token_acts_as_that_user_only(folder) -> None:
    uid = 12345 if thread_identity.enabled else os.geteuid()
    with serving(folder, "tcp:127.0.0.1:0", **ROOT) as (addresses, _):
        with WireClient(addresses[0], token=token(uid=uid), uid=uid) as client:
            assert client.create(b"mine", 3).error == 0
            assert (folder / "mine").stat().st_uid == uid
        with WireClient(addresses[0], token=token(uid=uid), uid=uid + 1) as client:
            assert client.lookup(b"file").error == EACCES
        with WireClient(addresses[0], token=token(uid=uid), uid=0) as client:  # root is nobody special here
            assert client.create(b"squashed", 3).error == 0
            assert (folder / "squashed").stat().st_uid == uid
        if not thread_identity.enabled:
            with pytest.raises(RefusedError, match="cannot act as"):
                WireClient(addresses[0], token=token(uid=uid + 1))


def _placed(client, node: int, *steps: tuple[int, bytes]) -> int:
    body = b"".join(PLACE_STEP.pack(parent, len(name), 0) + name for parent, name in steps)
    return client.ask(Own.PLACE, node, body).error


def test_a_user_does_not_guess_his_way_past_a_closed_directory(folder) -> None:
    if not thread_identity.enabled:
        pytest.skip("only root acts as others")
    (folder / "closed").mkdir(mode=0o700)
    (folder / "closed" / "open").mkdir(mode=0o777)
    (folder / "closed" / "open").chmod(0o777)
    (folder / "closed" / "open" / "file").write_bytes(b"not for others")
    with (
        serving(folder, "tcp:127.0.0.1:0", **ROOT) as (addresses, _),
        WireClient(addresses[0], token=token()) as root,
        WireClient(addresses[0], token=token(uid=12345)) as client,
    ):
        closed = node_of(root.lookup(b"closed"))
        inner = node_of(root.lookup(b"open", closed))
        file = node_of(root.lookup(b"file", inner))
        way = ((1, b"closed"), (closed, b"open"), (inner, b"file"))
        link = abi.LINK_IN.pack(file) + b"stolen\0"
        for _ in range(2):
            assert client.open(file, 5, os.O_RDONLY).error > 0
            assert client.ask(Op.GETATTR, file, abi.GETATTR_IN.pack(0, 0, 0)).error > 0
            assert client.lookup(b"file", inner).error > 0
            assert client.create(b"new", 6, parent=inner).error > 0
            assert client.ask(Op.LINK, 1, link).error > 0
            assert client.ask(Own.REOPEN, file, REOPEN_IN.pack(os.O_RDONLY, 0, 0), handle=7).error > 0
            assert client.ask(Own.REOPEN, inner, REOPEN_IN.pack(0, 1, 0), handle=8).error > 0
            assert _placed(client, file, *way) == EACCES
        assert client.read(file, 7, 100).error > 0
        (folder / "closed").chmod(0o755)
        assert _placed(client, file, *way) == 0
        assert client.open(file, 5, os.O_RDONLY).error == 0
        assert client.read(file, 5, 100).body == b"not for others"


@pytest.mark.parametrize("name", [b"security.capability", b"security.other", b"trusted.mine"])
def test_a_user_has_no_attributes_of_root_s(folder, name) -> None:
    if not thread_identity.enabled:
        pytest.skip("only root acts as others")
    value = struct.pack("<5I", 0x02000001, 1 << 21, 0, 0, 0)  # a program with it would have CAP_SYS_ADMIN
    body = abi.SETXATTR_IN.pack(len(value), 0) + name + b"\0" + value
    with serving(folder, "tcp:127.0.0.1:0", **ROOT) as (addresses, _):
        with WireClient(addresses[0], token=token(uid=12345)) as client:
            theirs = node_of(client.lookup(b"file"))
            own = node_of(client.create(b"mine", 3))
            assert client.ask(Op.SETXATTR, theirs, body).error == EPERM
            assert client.ask(Op.SETXATTR, own, body).error == EPERM
        with WireClient(addresses[0], token=token()) as root:  # the threads have not lost anything
            answer = root.ask(Op.SETXATTR, node_of(root.lookup(b"mine")), body)
            assert answer.error in (0, -errno.EOPNOTSUPP, EPERM if not _is_mighty() else 0)
        assert name.decode() not in os.listxattr(folder / "file")


def _is_mighty() -> bool:
    """Whether this process itself may set such attributes (root of a container may not)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return effective & system_calls.POWERS == system_calls.POWERS


def test_a_session_is_not_taken_over_with_another_user_s_token(folder) -> None:
    if not thread_identity.enabled:
        pytest.skip("only root acts as others")
    with (
        serving(folder, "tcp:127.0.0.1:0", **ROOT) as (addresses, _),
        WireClient(addresses[0], token=token(uid=1000)) as mine,
    ):
        with pytest.raises(RefusedError, match="other rights"):
            WireClient(addresses[0], session=mine.session, secret=mine.secret, token=token(uid=1001))
        assert mine.lookup(b"file").error == 0


def test_beyond_this_machine_a_key_is_needed() -> None:
    for address in ("tcp:0.0.0.0:0", "tls:10.1.2.3:0", "tcp:example.org:1", "tcp::::0"):
        with pytest.raises(FairleadError, match="token key"):
            require_admission_key(parse_address(address), None)
        if address.startswith("tls:"):
            require_admission_key(parse_address(address), KEY)
        else:
            with pytest.raises(RefusedError, match="plain text"):
                require_admission_key(parse_address(address), KEY)
            require_admission_key(parse_address(address.replace("tcp:", "tcp+plain:")), KEY)
    for address in ("tcp:127.0.0.1:0", "tls:localhost:0", "unix:/run/fw", "tcp:[::1]:1"):
        require_admission_key(parse_address(address), None)


def test_on_the_loopback_the_kernel_says_who_it_is(folder) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as server,
    ):
        assert find_admission_loopback_uid(*client.getsockname(), server.getsockname()[1]) == os.geteuid()
        assert find_admission_loopback_uid("127.0.0.1", 1, 1) == -1
    with serving(folder, "tcp:127.0.0.1:0") as (addresses, _), WireClient(addresses[0], uid=WIRE_UID) as client:
        assert client.lookup(b"file").error == 0


@pytest.mark.skipif(not thread_identity.enabled, reason="only root can be somebody else")
def test_on_a_unix_socket_everybody_is_who_he_is(folder, tmp_path) -> None:
    script = (
        "import os, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from wire_client import WireClient\n"
        "os.setgroups([]); os.setgid(12321); os.setuid(12321)\n"
        "with WireClient(sys.argv[1], uid=12321) as me:\n"
        "    assert me.create(b'his', 1).error == 0\n"
        "with WireClient(sys.argv[1], uid=0) as root:\n"
        "    assert root.create(b'not-roots', 1).error == 0\n"
        "with WireClient(sys.argv[1], uid=777) as other:\n"
        "    assert other.create(b'other', 1).error == -13\n"
    )
    with tempfile.TemporaryDirectory(prefix="fl", dir="/tmp") as open_to_all:
        Path(open_to_all).chmod(0o755)
        with serving(folder, f"unix:{open_to_all}/fw") as (addresses, _):
            support = str(Path(wire_client.__file__).parent)
            done = subprocess.run(
                [sys.executable, "-c", script, addresses[0], support], capture_output=True, text=True, timeout=120
            )
    assert done.returncode == 0, done.stderr
    assert (folder / "his").stat().st_uid == 12321
    assert (folder / "not-roots").stat().st_uid == 12321
    assert not (folder / "other").exists()


def test_over_tls_everything_works_as_without(folder, certificate) -> None:
    settings = {**ROOT, "tls": build_tls_server_context(certificate / "cert.pem", certificate / "key.pem")}
    trust = build_tls_client_context(certificate / "cert.pem")
    with serving(folder, "tls:127.0.0.1:0", **settings) as (addresses, _):

        def work(number: int) -> None:
            with WireClient(addresses[0], token=token(), tls=trust, checksum=number % 2 == 1) as client:
                node = node_of(client.create(b"tls %d" % number, 1))
                data = os.urandom(1 << 20)
                assert client.write(node, 1, data, slot=NO_SLOT).error == 0
                for size in (1, 100, 16_384, 16_385, 70_000, 1 << 20):
                    assert client.read(node, 1, size).body == data[:size]
                for _ in range(50):
                    assert client.lookup(b"file").error == 0
                # Many at once, so that some wait in the library and not in the kernel.
                for _ in range(100):
                    client.send(Op.LOOKUP, 1, b"file\0")
                assert all(client.receive().error == 0 for _ in range(100))
            done.append(number)

        done: list[int] = []
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert sorted(done) == [0, 1, 2]


def test_a_certificate_nobody_vouches_for_is_refused(folder, certificate) -> None:
    settings = {**ROOT, "tls": build_tls_server_context(certificate / "cert.pem", certificate / "key.pem")}
    with serving(folder, "tls:127.0.0.1:0", **settings) as (addresses, _):
        with pytest.raises(RefusedError, match="not trusted"):
            WireClient(addresses[0], token=token())
        with pytest.raises(UnreachableError):  # no TLS at all
            WireClient(addresses[0].replace("tls:", "tcp:"), token=token())
        with WireClient(addresses[0], token=token(), tls=build_tls_client_context(certificate / "cert.pem")) as client:
            assert client.lookup(b"file").error == 0


def test_keys_are_for_their_owner_only(tmp_path) -> None:
    path = tmp_path / "key"
    make_token_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_token_key(path)) == 32
    with pytest.raises(RefusedError, match="already there"):
        make_token_key(path)
    path.chmod(0o640)
    with pytest.raises(RefusedError, match="others can read"):
        read_token_key(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(FairleadError, match="not a token key"):
        read_token_key(path)
    with pytest.raises(FairleadError, match="cannot be read"):
        read_token_key(tmp_path / "missing")
