"""Who may use a forwarder, and as whom: peer credentials on unix sockets, tokens on networks.

Decides; sends nothing.

    token sent, or needed (network, with a key) ── invalid ──► refused
    network, valid token ── of a user ───────────────────────► that user, and the job of the token
                         ── of root, for any user, of none ──► refused, unless the site allows it by name
    network without a key ── owner of the socket unknown ────► refused   (loopback only: the kernel's table says)
    root, or the forwarder's own user ───────────────────────► any user
    another user ── the forwarder runs as root ──────────────► that user only
                 ── it does not ─────────────────────────────► refused
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from struct import Struct

from fairlead.core.access import tokens
from fairlead.core.clock import now_ns
from fairlead.core.errors import RefusedError
from fairlead.steer.forwarding.forwarder.client_sessions import ANY_BUT_ROOT, Authority
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.fs.wire.address import Address, is_local_address, refuse_plain_token
from fairlead.steer.fs.wire.handshake import Hello

ALLOWED = ("any-user", "root", "job-environment")
"""What a site may spell out: tokens for any user; that tokens act as root; job ids nothing proves."""
_CREDENTIALS = Struct("3i")
_PROC_NET = Path("/proc/net")
_ESTABLISHED = "01"


def _read_peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """Process, user and group at the other end of a unix socket, by the kernel's word."""
    pid, uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid


def describe_admission_peer(sock: socket.socket) -> str:
    """What to call the other end in messages."""
    if sock.family == socket.AF_UNIX:
        pid, uid, _ = _read_peer_credentials(sock)
        return f"pid {pid} of uid {uid}"
    place = sock.getpeername()
    return f"{place[0]}:{place[1]}"


def find_admission_loopback_uid(host: str, port: int, own_port: int) -> int:
    """The user that owns the other end of a loopback connection (from the kernel's table); -1 when it is not there."""
    if host.startswith("127."):
        wanted = f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}"
        table = _PROC_NET / "tcp"
    elif host == "::1":
        wanted = f"{'0' * 24}01000000:{port:04X}"
        table = _PROC_NET / "tcp6"
    else:
        return -1
    try:
        with table.open() as rows:
            for row in rows:
                fields = row.split()
                if fields[1] == wanted and fields[2].endswith(f":{own_port:04X}") and fields[3] == _ESTABLISHED:
                    return int(fields[7])
    except (OSError, ValueError, IndexError):
        return -1
    return -1


def require_admission_key(address: Address, key: bytes | None) -> None:
    """Refuses to listen where anybody on a network could ask without a token, or read the tokens of others."""
    if key is None and not is_local_address(address):
        raise RefusedError(
            "without a token key this would serve anyone who can reach it",
            where=str(address),
            remedy="make a key (fairlead token make-key FILE) and give it with --token-key, or listen on unix:PATH",
        )
    refuse_plain_token(address)


class Admission:
    """The rules of one forwarder. `key` checks tokens (None: there are none), `allow` is what the site spells out, of
    `ALLOWED`; `revoked` returns the ids of tokens that are no longer worth anything."""

    def __init__(
        self, key: bytes | None, allow: Collection[str] = (), revoked: Callable[[], Collection[str]] = frozenset
    ) -> None:
        self._key = key
        self._allow = allow
        self._revoked = revoked
        self._own_uid = os.geteuid()

    def decide_authority(self, sock: socket.socket, hello: Hello) -> Authority:
        """As whom this client may act; PermissionError with the reason when it may not at all."""
        network = sock.family != socket.AF_UNIX
        job = ""
        if self._key is not None and (network or hello.token):
            authority = self.check_token(hello.token, bound=network)
            if network:
                return authority
            job = authority.job
        if network:
            place = sock.getpeername()
            uid, gid = find_admission_loopback_uid(place[0], place[1], sock.getsockname()[1]), -1
            if uid < 0:
                raise PermissionError("nobody knows who you are; connect from this machine or with a token")
        else:
            _, uid, gid = _read_peer_credentials(sock)
        # Invariant: only who could read every file of the tree anyway may act as any user.
        if uid in (0, self._own_uid):
            return Authority(job=job)
        return self._as_user(Authority(uid, gid, job))

    def check_token(self, token: str, *, bound: bool = True) -> Authority:
        """What a token entitles to; PermissionError with the reason when it is nothing. `bound`: it says who acts."""
        assert self._key is not None
        try:
            claims = tokens.check_token(self._key, token, now_ns())
        except ValueError as error:
            raise PermissionError(str(error)) from None
        token_id = tokens.get_token_id(token, claims)
        if token_id in self._revoked():
            raise PermissionError(f"the token {token_id} was revoked")
        authority = Authority(claims.uid, -1, claims.job, claims, token_id)
        if not bound or claims.uid > 0:
            return self._as_user(authority)
        if claims.uid == 0:
            if "root" not in self._allow:
                raise PermissionError("the token is root's, and this forwarder was not started with --allow root")
            return authority
        if not claims.any_user:
            raise PermissionError(
                "the token names no user: an older release made such tokens for any user; make one for a user"
            )
        if "any-user" not in self._allow:
            raise PermissionError("the token is for any user, and this forwarder was not started with --allow any-user")
        return authority if "root" in self._allow else authority._replace(uid=ANY_BUT_ROOT)

    def _as_user(self, authority: Authority) -> Authority:
        uid = authority.uid
        if uid >= 0 and not thread_identity.enabled and uid != self._own_uid:
            raise PermissionError(f"this forwarder runs as uid {self._own_uid} and cannot act as uid {uid}")
        return authority
