"""The store of a forwarder whose metadata is in a metadata service: calls over a few connections, made again when lost.

A request keeps its number when it is repeated, so that the service carries it out once.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from fairlead.core.access.tls import build_tls_client_context
from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.core.errors import ConfigError, ForwardingError, UnreachableError
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees.base import Lock
from fairlead.steer.fs.wire.address import connect_address, parse_address, refuse_plain_token
from fairlead.steer.fs.wire.handshake import Hello, Welcome, exchange_handshake, generate_handshake_id
from fairlead.steer.targets import protocol
from fairlead.steer.targets.inode import Inode
from fairlead.steer.targets.locks import LockTable
from fairlead.steer.targets.records import Records

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE_S = 60.0
"""How long a call waits for a service that does not answer; EIO after that."""
_CONNECT_S = 5.0
_decode = msgspec.msgpack.Decoder(protocol.Reply).decode


def _short(owner: int) -> int:
    """A lock owner (a session and a number its client chose, 128 bits) as 63 bits, which a message can hold."""
    return owner if owner < 1 << 63 else int.from_bytes(blake2b(owner.to_bytes(32), digest_size=8).digest()) >> 1


class _Channel:
    """One connection and the number of its last request."""

    def __init__(self) -> None:
        self.session = generate_handshake_id()
        self.number = 0
        self.sock: socket.socket | None = None

    def drop(self) -> None:
        """Closes the connection."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None


class RemoteStore:
    """See `Store`."""

    shared = True

    def __init__(
        self,
        address: str,
        token_file: str | None,
        *,
        ca_file: str | None = None,
        readonly: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.readonly = readonly
        self._address = parse_address(address)
        self._token_file = token_file
        self._tls = None if ca_file is None else build_tls_client_context(Path(ca_file))
        self._patience_s = patience_s
        self._holder = generate_handshake_id()
        self._secret = generate_handshake_id()
        self._idle: list[_Channel] = []
        self._holds: set[int] = set()
        self._locks = LockTable()
        self._ended = False
        self._table = protocol.build_protocol_calls()
        channel = _Channel()
        welcome = self._connect(channel)
        self._idle.append(channel)
        self.tree = welcome.export
        """Id of the tree."""

    def _connect(self, channel: _Channel) -> Welcome:
        token = _read_token(self._token_file)  # again each time: it may have been renewed
        if token:
            refuse_plain_token(self._address)
        sock = connect_address(self._address, timeout_s=_CONNECT_S, tls=self._tls, whom="metadata service")
        try:
            # The node field carries which forwarder the channel is of.
            hello = Hello(channel.session, self._secret, node=self._holder, user="metadata", token=token)
            welcome = exchange_handshake(sock, hello, where=str(self._address))
        except BaseException:
            sock.close()
            raise
        sock.settimeout(self._patience_s)
        channel.sock = sock
        if not welcome.resumed and (self._holds or self._locks.list_locks()):
            self._tell_again(channel)
        return welcome

    def _tell_again(self, channel: _Channel) -> None:
        """The service has lost what this forwarder holds: it was started again, or this one was away too long."""
        for ino in list(self._holds):
            self._send(channel, "hold", (ino,))
        for space, ino, owner, lock in self._locks.list_locks():
            with suppress(BlockingIOError):
                self._send(channel, "lock", (space, ino, owner, lock, True))

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            channel = self._idle.pop()
        except IndexError:
            channel = _Channel()
        try:
            return self._until_answered(channel, name, arguments)
        finally:
            self._idle.append(channel)

    def _until_answered(self, channel: _Channel, name: str, arguments: tuple[Any, ...]) -> Any:
        until = monotonic_s() + self._patience_s
        numbered = 0
        pause = 0.01
        while True:
            try:
                if channel.sock is None:
                    self._connect(channel)
                if not numbered:
                    channel.number += 1
                    numbered = channel.number
                return self._send(channel, name, arguments, numbered)
            except (ConnectionError, TimeoutError, UnreachableError) as error:
                channel.drop()
                if self._ended or monotonic_s() > until:
                    raise OSError(errno.EIO, f"the metadata service at {self._address} does not answer") from error
            except ForwardingError as error:
                raise OSError(errno.EIO, str(error)) from error
            sleep_s(pause * (1 + random.random()))  # noqa: S311 - only spreads the forwarders
            pause = min(pause * 2, 1.0)

    def _send(self, channel: _Channel, name: str, arguments: tuple[Any, ...], number: int = 0) -> Any:
        assert channel.sock is not None
        protocol.send_protocol_frame(channel.sock, protocol.encode((number, name, arguments)))
        reply = _decode(protocol.receive_protocol_frame(channel.sock))
        if reply.number != number:
            raise ConnectionResetError("an answer to another question")
        if reply.error:
            raise build_os_error(reply.error)
        return self._table[name].result.decode(reply.result)

    def read(self, act: Callable[Concatenate[Records, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Asks the service."""
        assert not kwargs
        result: R = self._call(protocol.NAMES[act], args)
        return result

    def write(self, act: Callable[Concatenate[Records, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Asks the service."""
        assert not kwargs
        result: R = self._call(protocol.NAMES[act], args)
        return result

    def sync(self) -> None:
        """The service's store is durable."""
        self._call("sync", ())

    def hold(self, ino: int) -> None:
        """Tells the service."""
        self._call("hold", (ino,))
        self._holds.add(ino)

    def release(self, ino: int) -> None:
        """Tells the service."""
        self._holds.discard(ino)
        self._call("release", (ino,))

    def condemn(self, ino: int) -> Inode | None:
        """Asks the service."""
        found: Inode | None = self._call("condemn", (ino,))
        return found

    def lock(self, space: int, ino: int, owner: int, lock: Lock) -> None:
        """Asks the service."""
        owner = _short(owner)
        self._call("lock", (space, ino, owner, lock, False))
        self._locks.take_lock(space, ino, owner, lock)

    def find_conflict(self, space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
        """Asks the service."""
        found: Lock | None = self._call("conflicting", (space, ino, _short(owner), lock))
        return found

    def unlock_owner(self, space: int, ino: int, owner: int) -> None:
        """Tells the service."""
        owner = _short(owner)
        self._locks.drop_owner(space, ino, owner)
        self._call("unlock_owner", (space, ino, owner))

    def close(self) -> None:
        """Takes leave of the service."""
        self._ended = True
        for channel in self._idle:
            if channel.sock is not None:
                with suppress(OSError):
                    self._send(channel, "leave", ())
            channel.drop()
        self._idle.clear()


def _read_token(path: str | None) -> str:
    if path is None:
        return os.environ.get("FAIRLEAD_METADATA_TOKEN", "")
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token cannot be read: {error}", where=path, remedy="check `token_file`") from error
