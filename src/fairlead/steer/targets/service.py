"""The metadata service: one store for several forwarders, a thread for each of their connections.

A forwarder whose connections are all lost keeps its locks for `LOCKS_KEPT_S`, its open files for `HOLDS_KEPT_S`.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import struct
import threading
from contextlib import suppress
from typing import Any

import msgspec

from fairlead.core.access import tokens
from fairlead.core.clock import monotonic_s, now_ns
from fairlead.core.errors import ForwardingError
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.base import Lock
from fairlead.steer.fs.wire.address import Address, listen_on_address, refuse_plain_token
from fairlead.steer.fs.wire.handshake import (
    DEADLINE_S,
    HELLO,
    Hello,
    Refusal,
    Welcome,
    choose_handshake_version,
    generate_handshake_id,
    is_handshake_id,
    pack_handshake_answer,
    parse_handshake_prefix,
    read_handshake_hello,
)
from fairlead.steer.targets import protocol
from fairlead.steer.targets.inode import Inode
from fairlead.steer.targets.store import LocalStore

LOCKS_KEPT_S = 2.0
HOLDS_KEPT_S = 60.0
RECLAIM_S = 5.0
"""After a start forwarders say what they hold, for this long; meanwhile nobody gets new locks."""
log = logging.getLogger("fairlead.forwarding.metadata")
_decode = msgspec.msgpack.Decoder(protocol.Request).decode


class MetadataService:
    """Serves a store on one address until `close`."""

    def __init__(
        self, store: LocalStore, address: Address, key: bytes | None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._tls = tls if address.kind == "tls" else None
        self._store = store
        self._key = key
        self._boot = generate_handshake_id()
        self._table = protocol.build_protocol_calls()
        self._guard = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._connections: dict[str, int] = {}
        self._gone: dict[str, float] = {}
        self._left: set[str] = set()
        self._channels: dict[str, set[bytes]] = {}
        self._ended = threading.Event()
        self._reclaiming_until = 0.0 if store.fresh else monotonic_s() + RECLAIM_S
        self._listener, self.address = listen_on_address(address)
        self._listener.setblocking(True)
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        threading.Thread(target=self._look_for_the_gone, name="gone", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), name="channel", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with self._guard:
            if self._ended.is_set():
                sock.close()
                return
            self._sockets.add(sock)
        holder = ""
        try:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock.settimeout(DEADLINE_S)
                plain, sock = sock, self._tls.wrap_socket(sock, server_side=True)
                with self._guard:
                    self._sockets.discard(plain)
                    self._sockets.add(sock)
            hello = self._greet(sock)
            channel = bytes.fromhex(hello.session)
            resumed = self._enter(hello.node, channel)
            holder = hello.node
            sock.sendall(pack_handshake_answer(Welcome("metadata", self._boot, self._store.tree, resumed=resumed)))
            sock.settimeout(None)
            self._answer_calls(sock, holder, channel)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.info("a connection ended: %s", error)
        finally:
            sock.close()
            with self._guard:
                self._sockets.discard(sock)
                if holder:
                    self._connections[holder] -= 1
                    if not self._connections[holder]:
                        del self._connections[holder]
                        self._gone[holder] = monotonic_s()

    def _greet(self, sock: socket.socket) -> Hello:
        sock.settimeout(DEADLINE_S)
        head = _receive(sock, HELLO.size)
        oldest, newest, length = parse_handshake_prefix(head)
        hello = read_handshake_hello(_receive(sock, length))
        try:
            if not is_handshake_id(hello.node) or not choose_handshake_version(oldest, newest):
                raise ValueError("not a forwarder of this release")
            self._admit(sock, hello)
        except ValueError as error:
            sock.sendall(
                pack_handshake_answer(Refusal(f"metadata service: {error}", "check the token and the release"))
            )
            raise
        return hello

    def _enter(self, holder: str, channel: bytes) -> bool:
        """Counts a connection of a forwarder; whether what it holds is still known."""
        with self._guard:
            known = holder in self._connections or holder in self._gone
            self._connections[holder] = self._connections.get(holder, 0) + 1
            self._channels.setdefault(holder, set()).add(channel)
            # Locks of one that was away for long are gone: it has to say what it holds.
            away = self._gone.pop(holder, None)
            return known and (away is None or monotonic_s() - away < LOCKS_KEPT_S)

    def _admit(self, sock: socket.socket, hello: Hello) -> None:
        if self._key is not None:
            claims = tokens.check_token(self._key, hello.token, now_ns())
            if not claims.any_user or claims.job:
                raise ValueError("the token is for a job or a user, not for a forwarder (token issue --any-user)")
        elif sock.family == socket.AF_UNIX:
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", credentials)[1] not in (0, os.geteuid()):
                raise ValueError("another user's process")

    def _answer_calls(self, sock: socket.socket, holder: str, channel: bytes) -> None:
        while True:
            request = _decode(protocol.receive_protocol_frame(sock))
            call = self._table.get(request.name)
            if call is None:
                raise ValueError(f"no call {request.name!r}")
            arguments = call.arguments.decode(request.arguments)
            number = request.number
            try:
                reply = self._carry_out(call, arguments, holder, channel, number)
            except OSError as error:
                reply = protocol.encode((number, error.errno or errno.EIO, error.strerror or ""))
            protocol.send_protocol_frame(sock, reply)
            if request.name == "leave":
                return

    def _carry_out(
        self, call: protocol.Call, arguments: tuple[Any, ...], holder: str, channel: bytes, number: int
    ) -> bytes:
        act = call.act
        if call.name in protocol.IN_MEMORY:
            result = getattr(self, f"_{call.name}")(holder, *arguments)
            if call.name == "leave":
                self._store.forget_replies([channel])
        elif call.reads:
            result = self._store.read(act, *arguments)
        else:
            return self._store.write_once(
                channel, number, lambda records: protocol.encode((number, 0, act(records, *arguments)))
            )
        return protocol.encode((number, 0, result))

    # -- calls in memory -------------------------------------------------------------------------------------------

    def _hold(self, holder: str, ino: int) -> None:
        self._store.residents.hold(holder, ino)

    def _release(self, holder: str, ino: int) -> None:
        self._store.residents.release(holder, ino)

    def _condemn(self, _holder: str, ino: int) -> Inode | None:
        return None if monotonic_s() < self._reclaiming_until else self._store.condemn(ino)

    def _lock(self, holder: str, space: int, ino: int, owner: int, lock: Lock, again: bool) -> None:
        if not again and monotonic_s() < self._reclaiming_until:
            raise build_os_error(errno.EAGAIN)
        self._store.residents.locks.take_lock(space, ino, owner, lock, holder)

    def _conflicting(self, holder: str, space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
        return self._store.residents.locks.find_conflict(space, ino, owner, lock, holder)

    def _unlock_owner(self, holder: str, space: int, ino: int, owner: int) -> None:
        self._store.residents.locks.drop_owner(space, ino, owner, holder)

    def _sync(self, _holder: str) -> None:
        self._store.sync()

    def _leave(self, holder: str) -> None:
        with self._guard:
            self._left.add(holder)

    # -- ends ------------------------------------------------------------------------------------------------------

    def _look_for_the_gone(self) -> None:
        while not self._ended.wait(0.2):
            now = monotonic_s()
            with self._guard:
                gone = [(holder, now - since) for holder, since in self._gone.items()]
            for holder, away in gone:
                left = holder in self._left
                if left or away > LOCKS_KEPT_S:
                    self._store.residents.locks.drop_holder(holder)
                if left or away > HOLDS_KEPT_S:
                    self._forget(holder)

    def _forget(self, holder: str) -> None:
        with self._guard:
            if holder not in self._gone:  # it has come back meanwhile
                return
            self._left.discard(holder)
            del self._gone[holder]
            channels = self._channels.pop(holder, set())
        self._store.residents.drop(holder)
        with suppress(OSError):
            self._store.forget_replies(list(channels))

    def close(self) -> None:
        """Ends all connections and the store."""
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self.address.kind == "unix":
            with suppress(OSError):
                os.unlink(self.address.place)
        with self._guard:
            sockets = list(self._sockets)
        for sock in sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        until = monotonic_s() + 5
        while self._sockets and monotonic_s() < until:
            self._ended.wait(0.01)
            threading.Event().wait(0.01)
        self._store.close()


def run_metadata_service(
    store: str, address: Address, key: bytes | None, tls: ssl.SSLContext | None = None
) -> MetadataService:
    """Opens the store and serves it. A network address without a key is refused, and `tls:` without `tls`."""
    if address.kind != "unix" and key is None:
        raise ForwardingError("a network address needs a key", where=str(address), remedy="give --token-key FILE")
    if address.kind == "tls" and tls is None:
        raise ForwardingError(
            "a tls: address needs a certificate", where=str(address), remedy="give --tls-cert and --tls-key"
        )
    refuse_plain_token(address)
    opened = LocalStore(store)
    try:
        return MetadataService(opened, address, key, tls)
    except BaseException:
        opened.close()
        raise


def _receive(sock: socket.socket, length: int) -> bytes:
    parts = b""
    while len(parts) < length:
        part = sock.recv(length - len(parts))
        if not part:
            raise ConnectionResetError("the connection was closed")
        parts += part
    return parts
