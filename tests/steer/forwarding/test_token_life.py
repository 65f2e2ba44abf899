"""A token on open connections: it expires, is renewed, is revoked; what is stolen, replayed or forged opens nothing."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from fairlead.core.access.token_ledger import RevokedTokens, revoke_token
from fairlead.core.access.tokens import Claims, issue_token, make_token_key, read_token_claims, read_token_key
from fairlead.core.clock import now_ns, sleep_s
from fairlead.core.errors import FairleadError, RefusedError
from fairlead.steer.forwarding.forwarder.client_sessions import ANY_USER, Authority
from fairlead.steer.forwarding.forwarder.job_proofs import JobProofs
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.fs.wire.frames import JOB_IN, Own
from fairlead.steer.fs.wire.handshake import Identity, JobSource
from waiting import wait_until
from wire_client import WireClient, message, node_of, serving

UID = 12345
pytestmark = pytest.mark.skipif(not thread_identity.enabled, reason="only root acts as others")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    tree.chmod(0o777)
    (tree / "file").write_bytes(b"content")
    (tree / "root-only").write_bytes(b"secret")
    (tree / "root-only").chmod(0o600)
    make_token_key(tmp_path / "key")
    return tmp_path


def _token(site: Path, life_s: int = 3600, *, age_s: int = 0, **claims: object) -> str:
    now_s = now_ns() // 10**9
    values = {"uid": UID, "id": "00000000000000aa", "life_s": life_s, "until_s": now_s + age_s, **claims}
    return issue_token(read_token_key(site / "key"), Claims(now_s + life_s, **values))  # type: ignore[arg-type]


def _serving(site: Path, **settings: object):  # type: ignore[no-untyped-def]
    key = site / "key"
    return serving(site / "tree", "tcp:127.0.0.1:0", key=read_token_key(key), key_file=key, **settings)


def _until_error(client: WireClient, error: int) -> None:
    wait_until(lambda: client.lookup(b"file").error == error, f"error {error}")


def test_an_open_connection_ends_with_its_token_and_goes_on_with_a_fresh_one(site: Path) -> None:
    with _serving(site) as (addresses, _), WireClient(addresses[0], token=_token(site, 3), uid=UID) as client:
        node = node_of(client.lookup(b"file"))
        assert client.open(node, 7, os.O_RDONLY).error == 0
        _until_error(client, -errno.EKEYEXPIRED)
        assert client.read(node, 7, 10).error == -errno.EKEYEXPIRED
        assert client.ask(Own.TOKEN, 0).error == -errno.EKEYEXPIRED, "too late to ask for a fresh one"
        assert client.ask(Own.TOKEN, 0, _token(site, uid=UID + 1).encode()).error == -errno.EPERM
        assert client.ask(Own.TOKEN, 0, b"nonsense").error == -errno.EACCES
        assert client.ask(Own.TOKEN, 0, _token(site).encode()).error == 0
        assert client.read(node, 7, 10).body == b"content"


def test_a_token_is_renewed_until_its_maximum_age(site: Path) -> None:
    with (
        _serving(site) as (addresses, _),
        WireClient(addresses[0], token=_token(site, 60, age_s=90), uid=UID) as client,
    ):
        sleep_s(1.1)
        fresh = client.ask(Own.TOKEN, 0)
        assert fresh.error == 0
        before, after = read_token_claims(_token(site, 60, age_s=90)), read_token_claims(fresh.body.decode())
        assert (after.id, after.uid, after.job) == (before.id, UID, "")
        with WireClient(addresses[0], token=fresh.body.decode(), uid=UID) as again:
            assert again.lookup(b"file").error == 0
    with _serving(site) as (addresses, _), WireClient(addresses[0], token=_token(site, 60), uid=UID) as client:
        assert client.ask(Own.TOKEN, 0).error == -errno.EKEYEXPIRED, "may not be renewed"


def test_a_revoked_token_opens_nothing_now_or_after_a_restart(site: Path) -> None:
    token = _token(site, age_s=90_000)
    with _serving(site) as (addresses, _), WireClient(addresses[0], token=token, uid=UID) as client:
        sleep_s(1.1)
        fresh = client.ask(Own.TOKEN, 0)
        assert fresh.error == 0
        assert client.lookup(b"file").error == 0
        revoke_token(site / "key", "00000000000000aa", 1)
        _until_error(client, -errno.EKEYREVOKED)
        assert client.ask(Own.TOKEN, 0, token.encode()).error == -errno.EACCES
        with pytest.raises(RefusedError, match="revoked"):
            WireClient(addresses[0], token=token)
    with _serving(site) as (addresses, _), pytest.raises(RefusedError, match="revoked"):
        WireClient(addresses[0], token=fresh.body.decode())
    with (site / "key.revoked").open("a") as file:
        file.write("half a li\n")
    with pytest.raises(FairleadError, match="not the id of a token"):
        RevokedTokens(site / "key")


def test_tokens_of_root_of_any_user_and_of_nobody_are_refused_by_default(site: Path) -> None:
    old = _token(site, uid=-1)
    for token, said in (
        (_token(site, uid=0), "--allow root"),
        (_token(site, uid=-1, any_user=True), "--allow any-user"),
        (old, "older release"),
    ):
        with _serving(site) as (addresses, _), pytest.raises(RefusedError, match=said):
            WireClient(addresses[0], token=token)
    for allow in ({"any-user"}, {"any-user", "root"}):
        with (
            _serving(site, allow=frozenset(allow)) as (addresses, _),
            WireClient(addresses[0], token=_token(site, uid=-1, any_user=True), uid=0) as root,
        ):
            node = node_of(root.lookup(b"root-only"))
            assert root.open(node, 1, os.O_RDONLY).error == (0 if "root" in allow else -errno.EACCES)


def test_a_stolen_token_is_its_user_s_and_a_replayed_hello_is_not_another_session(site: Path) -> None:
    with _serving(site) as (addresses, _), WireClient(addresses[0], token=_token(site), uid=0) as thief:
        node = node_of(thief.lookup(b"root-only"))
        assert thief.open(node, 1, os.O_RDONLY).error == -errno.EACCES
        with pytest.raises(RefusedError, match="another client"):
            WireClient(addresses[0], session=thief.session, token=_token(site))
    expired = _token(site, -1)
    with _serving(site) as (addresses, _), pytest.raises(RefusedError, match="expired"):
        WireClient(addresses[0], token=expired)


def test_only_a_proven_job_has_a_share_of_its_own(site: Path) -> None:
    key = read_token_key(site / "key")
    signed = issue_token(key, Claims(now_ns() // 10**9 + 60, "7", UID, "job"))
    user, trusted = Authority(UID, claims=Claims(1)), Authority(ANY_USER, claims=Claims(1))
    proofs, named = JobProofs(key, ()), JobProofs(key, ("job-environment",))
    cases = [
        (user, Identity("7", source=JobSource.CGROUP), False),  # its own mount says so
        (user, Identity("7", proof=signed), True),
        (user, Identity("8", proof=signed), False),
        (Authority(UID + 1, claims=Claims(1)), Identity("7", proof=signed), False),
        (user, Identity("7", proof=_token(site)), False),
        (Authority(UID, job="7", claims=Claims(1)), Identity("7"), True),
        (trusted, Identity("7", uid=5, source=JobSource.CGROUP), True),
        (trusted, Identity("7", uid=5, source=JobSource.ENVIRONMENT), False),
        (Authority(), Identity("7"), True),  # this machine, who may be anybody
    ]
    for authority, identity, proven in cases:
        job = identity.job_id
        share, label = proofs.decide_share(authority, identity, 1)
        assert ((share, label) == (job, job)) == proven, (authority, identity)
        assert isinstance(share, str) == proven
        assert named.decide_share(authority, identity, 1)[1] == job


def _announce(client: WireClient, index: int, identity: Identity) -> int:
    return client.ask(Own.JOB, 0, JOB_IN.pack(index, 0) + msgspec.json.encode(identity)).error


def test_made_up_jobs_take_no_more_than_their_user_s_half(site: Path) -> None:
    """24 made-up job ids against one honest job: which of them the forwarder serves while both wait."""
    with _serving(site, order="job-fair", workers=2) as (addresses, server):
        order: list[int] = []
        execution = server._execution
        carry = execution._execute_operation

        def slowly(handles, op, node, handle, body, data):  # type: ignore[no-untyped-def]
            if op == Op.GETATTR:
                order.append(thread_identity.get_thread_user()[0])
                sleep_s(0.002)
            return carry(handles, op, node, handle, body, data)

        execution._execute_operation = slowly
        for op in (Op.GETATTR,):
            execution._actions[int(op)] = execution._execute
        with (
            WireClient(addresses[0], token=_token(site), uid=UID) as greedy,
            WireClient(addresses[0], token=_token(site, uid=UID + 1), uid=UID + 1) as honest,
        ):
            for n in range(1, 25):
                assert _announce(greedy, n, Identity(f"made-up-{n}", source=JobSource.CGROUP)) == 0
            body = abi.GETATTR_IN.pack(0, 0, 0)
            for client, jobs in ((greedy, 24), (honest, 1)):
                frames = b""
                for n in range(200):
                    client.number += 1
                    text = message(Op.GETATTR, 1, body, uid=client.uid)
                    frames += client.frame(text, number=client.number, job=1 + n % jobs if jobs > 1 else 0)
                client.sock.sendall(frames)
            for client in (greedy, honest):
                for _ in range(200):
                    assert client.receive().error == 0
    first = order.index(UID + 1)
    contested = Counter(order[first : len(order) - 1 - order[::-1].index(UID + 1)])
    share = contested[UID + 1] / contested.total()
    print(f"honest job against 24 made-up ones: {share:.1%} of {contested.total()} requests")
    assert share >= 0.45


def test_one_user_s_open_files_leave_room_for_others(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.steer.forwarding.forwarder.server.find_file_capacity", lambda: 2000)
    with (
        _serving(site) as (addresses, server),
        WireClient(addresses[0], token=_token(site), uid=UID) as greedy,
        WireClient(addresses[0], token=_token(site), uid=UID) as second,
        WireClient(addresses[0], token=_token(site, uid=UID + 1), uid=UID + 1) as other,
    ):
        node = node_of(greedy.lookup(b"file"))
        errors = Counter(greedy.open(node, handle, os.O_RDONLY).error for handle in range(1, 2500))
        assert set(errors) == {0, -errno.EMFILE}
        node = node_of(second.lookup(b"file"))
        again = Counter(second.open(node, handle, os.O_RDONLY).error for handle in range(1, 2500))
        held = errors[0] + again[0]
        assert again[0] > 0, "its other mounts go on"
        assert held <= 1000
        node = node_of(other.lookup(b"file"))
        opened = sum(other.open(node, handle, os.O_RDONLY).error == 0 for handle in range(1, 501))
        print(f"one user holds {errors[0]} + {again[0]} of 2000 files, another opens {opened} of 500")
        assert opened >= 300
        for handle in range(1, 2500):
            release = abi.RELEASE_IN.pack(handle, 0, 0, 0)
            assert greedy.ask(Op.RELEASE, node, release, handle=handle).error in (0, 2)
        assert greedy.open(node, 9999, os.O_RDONLY).error == 0
        assert server._files._total == 1 + again[0] + opened


def test_connections_of_one_user_share_what_they_may_hold(site: Path) -> None:
    with _serving(site) as (addresses, server):
        clients = [WireClient(addresses[0], token=_token(site), uid=UID) for _ in range(64)]
        other = WireClient(addresses[0], token=_token(site, uid=UID + 1), uid=UID + 1)
        try:
            held = [c for c in server._connections.values() if c.session.authority.uid == UID]
            assert sum(c.most_pending for c in held) <= 1024
            assert sum(c.most_held for c in held) <= 256 << 20
            assert sum(c.most_jobs for c in held) <= 16_384
            assert other.lookup(b"file").error == 0
            for index in range(1, 1000):
                assert _announce(clients[0], index, Identity(f"j{index}")) == 0
            assert all(len(c.jobs) <= c.most_jobs + 1 for c in held)
            assert clients[0].ask(Op.LOOKUP, 1, b"file\0", job=900).error == 0
        finally:
            for client in (*clients, other):
                client.close()
