"""The first exchange on a connection: who the client is, what both sides can do, or a refusal with its reason.

Each side sends HELLO (16 bytes) and JSON. Blocking calls for the client, pure parts for the forwarder.
"""

from __future__ import annotations

import os
import re
import socket
from array import array
from collections.abc import Sequence
from enum import StrEnum
from struct import Struct

import msgspec

from fairlead.core.clock import monotonic_s
from fairlead.core.errors import RefusedError, UnreachableError
from fairlead.steer.fs.fuse.abi import MAX_WRITE
from fairlead.steer.fs.wire.frames import MAGIC, VERSION

OLDEST = VERSION
"""Oldest version this side still speaks."""
HELLO = Struct("<8sHHI")
"""MAGIC; the client: oldest and newest version it speaks; the forwarder: the version chosen (0: refused), 0; length of
the JSON that follows."""
MAX_JSON = 16 << 10
"""Longest JSON of either side."""
DEADLINE_S = 10.0
_NODE_CHARACTERS = 255
_ID = re.compile(r"[0-9a-f]{32}")


class Feature(StrEnum):
    """What a connection may use when both sides name it."""

    SLOTS = "slots"
    """Data in shared memory (unix sockets): a memfd comes with the Hello."""
    CHECKSUM = "checksum"
    """Every frame carries a CRC-32, slot data included."""
    DESCRIPTORS = "descriptors"
    """An answer to OPEN or CREATE may carry the file's descriptor (unix sockets)."""
    LEASES = "leases"
    """The client keeps what it read until the forwarder revokes it."""


class JobSource(StrEnum):
    """Where a mount has a job's id from."""

    CGROUP = "cgroup"
    ENVIRONMENT = "environment"
    OPTION = "option"


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job as a mount announces it (Own.JOB): whose requests bear its index."""

    job_id: str
    user: str = ""
    uid: int = -1
    node: str = ""
    rank: int = -1
    cluster: str = ""
    name: str = ""
    source: str = ""
    """One of `JobSource`; empty: an older release, which did not say."""
    proof: str = ""
    """A prolog's signature: a token of the role `job` for this job and user."""


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client says of itself."""

    session: str
    """32 hex digits, chosen at random by the client; the same when it connects again."""
    secret: str
    """32 hex digits: proof, when it connects again, that the session is its own."""
    node: str
    user: str = ""
    uid: int = -1
    mount: str = ""
    """Where it is mounted, for messages."""
    token: str = ""
    features: tuple[str, ...] = ()
    slots: int = 0
    """Number of slots in the memory that is passed along."""


class Welcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a forwarder says of itself."""

    forwarder: str
    """Its name."""
    boot: str
    """32 hex digits drawn when it started: another value means it has been started again."""
    export: str
    features: tuple[str, ...] = ()
    max_write: int = MAX_WRITE
    resumed: bool = False
    """The session's open files are still here; else the client must open them again (Own.REOPEN)."""
    grace_s: float = 10.0
    """How long a session's open files and locks outlive its connection."""
    root: int = 0
    """Inode number of the tree's root; forwarders of one tree agree on it."""
    version: int = VERSION


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a forwarder does not want the client."""

    refused: str
    remedy: str = ""


def generate_handshake_id() -> str:
    """A random session id or secret."""
    return os.urandom(16).hex()


def is_handshake_id(text: str) -> bool:
    """32 hex digits."""
    return _ID.fullmatch(text) is not None


def pack_handshake_hello(hello: Hello, oldest: int = OLDEST, newest: int = VERSION) -> bytes:
    """The client's message."""
    text = msgspec.json.encode(hello)
    return HELLO.pack(MAGIC, oldest, newest, len(text)) + text


def pack_handshake_answer(answer: Welcome | Refusal) -> bytes:
    """The forwarder's message."""
    text = msgspec.json.encode(answer)
    version = answer.version if isinstance(answer, Welcome) else 0
    return HELLO.pack(MAGIC, version, 0, len(text)) + text


def parse_handshake_prefix(prefix: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    """Oldest and newest version and the length of the JSON; ValueError when this is no Hello."""
    magic, oldest, newest, length = HELLO.unpack_from(prefix)
    if magic != MAGIC:
        raise ValueError("not a fairlead client")
    if length > MAX_JSON:
        raise ValueError(f"a Hello of {length} bytes; {MAX_JSON} are allowed")
    return oldest, newest, length


def read_handshake_hello(text: bytes | bytearray | memoryview) -> Hello:
    """The client's Hello; ValueError when it is none."""
    try:
        hello = msgspec.json.decode(text, type=Hello)
    except msgspec.DecodeError as error:
        raise ValueError(f"a Hello that cannot be read: {error}") from None
    if not is_handshake_id(hello.session) or not is_handshake_id(hello.secret):
        raise ValueError("session and secret must be 32 hex digits")
    if not hello.node.isprintable() or len(hello.node) > _NODE_CHARACTERS:
        raise ValueError("the name of the node is none")  # it goes into log lines and records
    return hello


def choose_handshake_version(oldest: int, newest: int) -> int:
    """The newest version both sides speak; 0 when there is none."""
    chosen = min(newest, VERSION)
    return chosen if chosen >= max(oldest, OLDEST) else 0


def exchange_handshake(
    sock: socket.socket, hello: Hello, *, descriptor: int = -1, deadline_s: float = DEADLINE_S, where: str = ""
) -> Welcome:
    """Sends the Hello (with the slots' memory when `descriptor` is one) and returns the forwarder's Welcome.

    RefusedError when it says no, UnreachableError when it does not answer in time or not sensibly. The socket's
    timeout is left as it was.
    """
    patience = sock.gettimeout()
    until = monotonic_s() + deadline_s
    try:
        _send_all(sock, pack_handshake_hello(hello), [descriptor] if descriptor >= 0 else [], until)
        magic, version, _, length = HELLO.unpack(_receive(sock, HELLO.size, until))
        if magic != MAGIC or length > MAX_JSON:
            raise UnreachableError("what answers is no forwarder", where=where, remedy="check the address")
        text = _receive(sock, length, until)
    except OSError as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        raise UnreachableError(f"the forwarder does not answer: {reason}", where=where, remedy="try again") from error
    finally:
        sock.settimeout(patience)
    return _read_answer(text, version, where)


def _read_answer(text: bytes, version: int, where: str) -> Welcome:
    try:
        if version == 0:
            no = msgspec.json.decode(text, type=Refusal)
            raise RefusedError(no.refused, where=where, remedy=no.remedy or None)
        welcome = msgspec.json.decode(text, type=Welcome)
    except msgspec.DecodeError as error:
        raise UnreachableError("what answers is no forwarder", where=where, remedy="check the address") from error
    if not OLDEST <= version <= VERSION or welcome.max_write < MAX_WRITE:
        raise RefusedError(
            f"the forwarder speaks version {version} with {welcome.max_write} bytes a write; this client cannot",
            where=where,
            remedy="use the same release of fairlead on both sides",
        )
    return msgspec.structs.replace(welcome, version=version)


def _send_all(sock: socket.socket, data: bytes, descriptors: Sequence[int], until: float) -> None:
    view = memoryview(data)
    sock.settimeout(_left(until))
    if descriptors:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors).tobytes())
        view = view[sock.sendmsg([view], [rights]) :]
    if view:
        sock.sendall(view)


def _receive(sock: socket.socket, length: int, until: float) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        sock.settimeout(_left(until))
        part = sock.recv(length - len(parts))
        if not part:
            raise ConnectionResetError("the connection was closed")
        parts += part
    return bytes(parts)


def _left(until: float) -> float:
    left = until - monotonic_s()
    if left <= 0:
        raise TimeoutError
    return left
