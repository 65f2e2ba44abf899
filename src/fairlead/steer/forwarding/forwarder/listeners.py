"""Where clients arrive: listeners, handshakes, who gets in. Only the leader calls it; the rest is the server's."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EMFILE, ENFILE
from pathlib import Path

import msgspec

from fairlead.core.access.tokens import HOW_TO_GET_ONE
from fairlead.core.clock import monotonic_ns, sleep_s
from fairlead.steer.forwarding.forwarder.admission import Admission, require_admission_key
from fairlead.steer.forwarding.forwarder.buffers import BufferPool
from fairlead.steer.forwarding.forwarder.client_sessions import Sessions
from fairlead.steer.forwarding.forwarder.connection import Connection
from fairlead.steer.forwarding.forwarder.handshakes import PendingHandshake
from fairlead.steer.forwarding.forwarder.user_limits import share_among_connections
from fairlead.steer.fs.wire.address import Address, listen_on_address
from fairlead.steer.fs.wire.frames import VERSION
from fairlead.steer.fs.wire.handshake import OLDEST, Feature, Hello, Welcome, pack_handshake_answer
from fairlead.steer.fs.wire.slots import Slots, take_slots
from fairlead.steer.fs.wire.stream import keep_stream_alive, open_stream, widen_stream_buffers

HELLO_NS = 10_000_000_000
"""How long a client may take to say who it is."""
MOST_ARRIVALS = 1024
MOST_CONNECTIONS = 8192
MOST_OF_A_USER = 512
"""Connections of one user that is not root."""
_FEW_CONNECTIONS = 8
_SAME_MACHINE = (Feature.SLOTS, Feature.DESCRIPTORS)
_AT_ONCE = 64


@dataclass(slots=True)
class Settings:
    """What a forwarder is told when it is started."""

    name: str = ""
    workers: int = 16
    key: bytes | None = None
    """Checks tokens; without it nothing beyond this machine may be listened on."""
    tls: ssl.SSLContext | None = None
    grace_s: float = 10.0
    """How long a client's open files and locks outlive its connection."""
    features: tuple[Feature, ...] = field(default=(Feature.SLOTS, Feature.CHECKSUM))
    allow: frozenset[str] = frozenset()
    """What the site spells out, of `admission.ALLOWED`."""
    key_file: Path | None = None
    """Where the key is; beside it are the ids of revoked tokens."""
    job_key: bytes | None = None
    """Checks what prologs sign."""


class Listeners:
    """Turns sockets into connections of sessions. `admitted` is told of each, `replaced` of one whose client has come
    again; `say` writes a line about a client."""

    def __init__(
        self,
        settings: Settings,
        epoll: select.epoll,
        sessions: Sessions,
        buffers: BufferPool,
        welcome: Welcome,
        admission: Admission,
        *,
        change_mask: Callable[[Connection], None],
        admitted: Callable[[Connection], None],
        replaced: Callable[[Connection], None],
        say: Callable[..., None],
    ) -> None:
        self.next_deadline_ns: int | None = None
        """When a client that has not said who it is will next be let go; None: there is none."""
        self._settings = settings
        self._epoll = epoll
        self._sessions = sessions
        self._buffers = buffers
        self._welcome = welcome
        self._change_mask = change_mask
        self._admitted = admitted
        self._replaced = replaced
        self._say = say
        self._admission = admission
        self._listeners: dict[int, tuple[socket.socket, Address]] = {}
        self._arrivals: dict[int, PendingHandshake] = {}
        self._of_user: dict[int, list[Connection]] = {}
        self._connected = 0

    def listen(self, address: Address) -> Address:
        """Listens there and returns the address, with the port that was chosen for port 0.

        RefusedError when it cannot, or must not without a token key.
        """
        require_admission_key(address, self._settings.key)
        sock, bound = listen_on_address(address)
        self._listeners[sock.fileno()] = (sock, bound)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        return bound

    def stop_listening(self) -> None:
        """Ends the listeners and removes their unix sockets."""
        for sock, address in self._listeners.values():
            if address.kind == "unix":
                try:
                    os.unlink(address.place)
                except OSError as error:
                    self._say("the socket %s could not be removed: %s", address.place, error)
            sock.close()

    def close(self) -> None:
        """Lets go who has not been admitted yet."""
        for arrival in self._arrivals.values():
            arrival.close()

    def handle_ready(self, fd: int) -> bool:
        """Something has come on a descriptor; False when it is none of this object's."""
        if fd in self._listeners:
            self._accept(*self._listeners[fd])
        elif fd in self._arrivals:
            self._greet(fd)
        else:
            return False
        return True

    def remove(self, connection: Connection) -> None:
        """A connection that was admitted has ended."""
        self._connected -= 1
        uid = connection.session.authority.uid
        if uid >= 0:
            left = self._of_user[uid]
            left.remove(connection)
            share_among_connections(left)
            if not left:
                del self._of_user[uid]

    def look_after_time(self, now_ns: int) -> None:
        """Lets go who has not said who it is in time."""
        for fd, arrival in list(self._arrivals.items()):
            if arrival.deadline_ns <= now_ns:
                self._forget(fd)
                self._say("%s: did not say who it is in time", arrival.name)
                arrival.refuse("no Hello in time")
        self.next_deadline_ns = min((arrival.deadline_ns for arrival in self._arrivals.values()), default=None)

    def _accept(self, listener: socket.socket, address: Address) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                self._say("cannot accept: %s", error)
                if error.errno in (EMFILE, ENFILE):
                    sleep_s(0.01)  # the next attempt fails as well, until somebody leaves
                return
            if self._connected >= MOST_CONNECTIONS:
                sock.close()
                self._say("too many clients: one was turned away")
                continue
            if len(self._arrivals) >= MOST_ARRIVALS:
                # Who comes to stay says so at once: the one that has been silent for longest makes room.
                oldest = next(iter(self._arrivals))
                silent = self._arrivals[oldest]
                self._forget(oldest)
                self._say("%s: let go, it had not said who it is and others wait", silent.name)
                silent.close()
            deadline = monotonic_ns() + HELLO_NS
            try:
                if address.kind == "unix":
                    widen_stream_buffers(sock)
                keep_stream_alive(sock)
                arrival = PendingHandshake(sock, self._settings.tls if address.kind == "tls" else None, deadline)
            except OSError:  # it has gone again
                sock.close()
                continue
            fd = arrival.sock.fileno()
            self._arrivals[fd] = arrival
            self._epoll.register(fd, select.EPOLLIN)
            if self.next_deadline_ns is None:
                self.next_deadline_ns = deadline
            self._greet(fd)

    def _forget(self, fd: int) -> None:
        del self._arrivals[fd]
        self._epoll.unregister(fd)
        if not self._arrivals:
            self.next_deadline_ns = None

    def _greet(self, fd: int) -> None:
        arrival = self._arrivals[fd]
        try:
            hello = arrival.advance()
            if hello is None:
                return
            self._forget(fd)
            self._admit(arrival, hello)
        except PermissionError as no:
            self._say("%s: refused: %s", arrival.name, no)
            arrival.refuse(str(no), HOW_TO_GET_ONE if "token" in str(no) else "")
        except (ValueError, OSError) as fault:
            if fd in self._arrivals:
                self._forget(fd)
            self._say("%s: %s", arrival.name, fault)
            if isinstance(fault, ValueError):
                arrival.refuse(str(fault))
            else:
                arrival.close()

    def _count_most(self) -> int:
        """How many connections a user may have: never more than are left free, so that others find some."""
        return max(_FEW_CONNECTIONS, min(MOST_OF_A_USER, MOST_CONNECTIONS - self._connected))

    def _admit(self, arrival: PendingHandshake, hello: Hello) -> None:
        if not arrival.version:
            arrival.refuse(
                f"no common version: this forwarder speaks {OLDEST} to {VERSION}",
                "use the same release of fairlead on both sides",
            )
            return
        authority = self._admission.decide_authority(arrival.sock, hello)
        if authority.uid >= 0 and len(self._of_user.get(authority.uid, ())) >= self._count_most():
            raise PermissionError(f"uid {authority.uid} has too many connections")
        features = [feature for feature in self._settings.features if feature in hello.features]
        if arrival.sock.family != socket.AF_UNIX:
            features = [feature for feature in features if feature not in _SAME_MACHINE]
        slots = _slots(arrival, hello, features)
        try:
            session, resumed = self._sessions.attach(hello, authority)
        except PermissionError:
            if slots is not None:
                slots.close()
            raise
        if session.connection is not None:
            self._replaced(session.connection)
        connection = Connection(
            open_stream(arrival.sock),
            session,
            slots,
            self._buffers,
            name=f"{hello.node} ({arrival.name})",
            checksum=Feature.CHECKSUM in features,
            change_mask=self._change_mask,
        )
        connection.descriptors = Feature.DESCRIPTORS in features
        connection.leases = Feature.LEASES in features
        self._connected += 1
        if authority.uid >= 0:
            together = self._of_user.setdefault(authority.uid, [])
            together.append(connection)
            share_among_connections(together)
        session.connection = connection
        session.lost_ns = 0
        welcome = msgspec.structs.replace(
            self._welcome, features=tuple(features), resumed=resumed, version=arrival.version
        )
        with suppress(OSError):  # gone already: the leader finds out when it receives
            connection.stream.send((pack_handshake_answer(welcome),))
        self._admitted(connection)


def _slots(arrival: PendingHandshake, hello: Hello, features: list[Feature]) -> Slots | None:
    descriptor = arrival.take_descriptor()
    if Feature.SLOTS not in features:
        if descriptor >= 0:
            os.close(descriptor)
        return None
    if descriptor < 0:
        features.remove(Feature.SLOTS)
        return None
    return take_slots(descriptor, hello.slots)
