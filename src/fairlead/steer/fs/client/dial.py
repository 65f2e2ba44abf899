"""Connecting to one of several forwarders: addresses in turn, the handshake, the slots that go with it.

Not here: when to connect again (`failover`), what is sent afterwards (`link`).
"""

from __future__ import annotations

import os
import pwd
import socket
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from fairlead.core.errors import RefusedError, UnreachableError
from fairlead.steer.fs.wire.address import Address, connect_address, parse_address, refuse_plain_token
from fairlead.steer.fs.wire.handshake import Feature, Hello, Welcome, exchange_handshake, generate_handshake_id
from fairlead.steer.fs.wire.slots import Slots, make_slots
from fairlead.steer.fs.wire.stream import keep_stream_alive

SLOTS = 48
"""Slots of a mount: that many reads and writes may be under way at once."""
CONNECT_S = 5.0


class Connection(NamedTuple):
    """An agreed connection. `slots`: None where data travels in the frames."""

    sock: socket.socket
    slots: Slots | None
    welcome: Welcome
    address: Address

    def close(self) -> None:
        """Ends it and gives its memory back."""
        self.sock.close()
        if self.slots is not None:
            self.slots.close()


class Dial:
    """One client session: who it is and where its forwarders are."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        mount: str = "",
        slots: int = SLOTS,
        checksum: bool = False,
        leases: bool = False,
        descriptors: bool = False,
        node: str = "",
    ) -> None:
        self.addresses = [parse_address(text) for text in addresses]
        self.current = 0
        """Index of the address that was connected last."""
        self.session = generate_handshake_id()
        self.node = node or socket.gethostname()
        self._secret = generate_handshake_id()
        self.token = token
        """Shown at the next connection."""
        self._tls = tls
        self._mount = mount
        self._slots = slots
        self._wanted = [
            *([Feature.CHECKSUM] if checksum else []),
            *([Feature.LEASES] if leases else []),
            *([Feature.DESCRIPTORS] if descriptors else []),
        ]
        self._uid = os.geteuid()
        self._user = _user_name(self._uid)
        self.root = 0
        """Inode number of the tree's root at the first connection; another tree is refused from then on."""

    def connect(self, address: Address, *, timeout_s: float = CONNECT_S) -> Connection:
        """One attempt at one address. UnreachableError or RefusedError."""
        if self.token:
            refuse_plain_token(address)
        sock = connect_address(address, timeout_s=timeout_s, tls=self._tls)
        slots = None
        try:
            features = list(self._wanted)
            if address.kind == "unix":
                slots = make_slots(self._slots)
                features.append(Feature.SLOTS)
            hello = Hello(
                session=self.session,
                secret=self._secret,
                node=self.node,
                user=self._user,
                uid=self._uid,
                mount=self._mount,
                token=self.token,
                features=tuple(features),
                slots=0 if slots is None else slots.count,
            )
            descriptor = -1 if slots is None else slots.descriptor
            welcome = exchange_handshake(sock, hello, descriptor=descriptor, deadline_s=timeout_s, where=str(address))
            self._check(welcome, address)
            if slots is not None:
                os.close(slots.descriptor)
                slots.descriptor = -1
                if Feature.SLOTS not in welcome.features:
                    slots.close()
                    slots = None
            keep_stream_alive(sock)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            if slots is not None:
                slots.close()
            raise
        return Connection(sock, slots, welcome, address)

    def _check(self, welcome: Welcome, address: Address) -> None:
        if self.root and welcome.root and welcome.root != self.root:
            raise RefusedError(
                "this forwarder exports another tree",
                where=str(address),
                remedy="give forwarders of the same tree only",
            )
        missing = [feature for feature in self._wanted if feature not in welcome.features]
        if Feature.LEASES in missing:
            raise RefusedError(
                "a client cache needs leases, and this forwarder grants none: it may not be the only one of its tree",
                where=str(address),
                remedy="if it is, start it with --sole (and without --descriptors); else mount without --cache",
            )
        if Feature.CHECKSUM in missing:
            raise RefusedError("the forwarder does not do checksums", where=str(address), remedy="mount without them")
        if welcome.root:
            self.root = welcome.root

    def disable_descriptors(self) -> None:
        """Asks for no descriptors of files from now on."""
        self._wanted = [feature for feature in self._wanted if feature != Feature.DESCRIPTORS]

    def connect_any(self) -> Connection:
        """The first forwarder that answers, each tried once; the last error when none does."""
        error: UnreachableError | RefusedError | None = None
        for step in range(len(self.addresses)):
            index = (self.current + step) % len(self.addresses)
            try:
                connection = self.connect(self.addresses[index])
            except (UnreachableError, RefusedError) as failed:
                error = failed
                continue
            self.current = index
            return connection
        if error is None:
            raise UnreachableError("no forwarder was named", remedy="give at least one address")
        raise error


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
