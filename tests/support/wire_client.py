"""A client of the forwarding protocol for tests: says what it is told to say, right or wrong."""

from __future__ import annotations

import os
import select
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from fairlead.decide.policies.requests import build_discipline
from fairlead.steer.forwarding.forwarder.server import Server, Settings
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.fs.wire.address import connect_address, parse_address
from fairlead.steer.fs.wire.frames import HEAD_BYTES, JOB_IN, NO_SLOT, PREFIX_BYTES, REPLY, REQUEST, Flag, Own
from fairlead.steer.fs.wire.handshake import Feature, Hello, Identity, exchange_handshake, generate_handshake_id
from fairlead.steer.fs.wire.slots import make_slots

WAIT_S = 60.0
WIRE_UID = os.geteuid()


class Answer(NamedTuple):
    number: int
    error: int
    body: bytes


def message(op: int, node: int, body: bytes = b"", *, uid: int = 0, gid: int = 0, length: int | None = None) -> bytes:
    whole = abi.IN_HEADER.size + len(body) if length is None else length
    return abi.IN_HEADER.pack(whole, op, 0, node, uid, gid, 1, 0, 0) + body


class WireClient:
    """A connection with the handshake done."""

    def __init__(
        self, address, *, slots=0, session="", secret="", token="", checksum=False, tls=None, uid=0, extra=()
    ) -> None:
        self.session = session or generate_handshake_id()
        self.secret = secret or generate_handshake_id()
        self.uid = uid
        self.checksum = checksum
        self.sock = connect_address(parse_address(str(address)), timeout_s=WAIT_S, tls=tls)
        self.slots = make_slots(slots) if slots else None
        features = [*extra, *([Feature.SLOTS] if slots else []), *([Feature.CHECKSUM] if checksum else [])]
        hello = Hello(self.session, self.secret, "testnode", token=token, features=tuple(features), slots=slots)
        try:
            self.welcome = exchange_handshake(
                self.sock, hello, descriptor=self.slots.descriptor if self.slots else -1, deadline_s=WAIT_S
            )
        except Exception:
            self.close()
            raise
        self.number = 0

    def close(self) -> None:
        self.sock.close()
        if self.slots is not None:
            self.slots.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def frame(self, text: bytes, *, handle=0, slot=NO_SLOT, flags=0, number=0, job=0, slot_data=b"") -> bytes:
        crc = 0
        if self.checksum:
            flags |= Flag.CHECKSUM
            crc = crc32(slot_data, crc32(text))
        if slot != NO_SLOT:
            flags |= Flag.SLOT
        return REQUEST.pack(len(text), flags, job, number, handle, slot, crc) + text

    def send(self, op, node, body=b"", *, number=0, length=None, **prefix) -> int:
        self.number = number or self.number + 1
        text = message(op, node, body, uid=self.uid, length=length)
        self.sock.sendall(self.frame(text, number=self.number, **prefix))
        return self.number

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.sock.recv(count - len(parts))
            if not part:
                raise ConnectionResetError("ended by the forwarder")
            parts += part
        return bytes(parts)

    def receive(self) -> Answer:
        length, flags, _, number, error, slot, in_slot, crc = REPLY.unpack(self._exactly(PREFIX_BYTES))
        body = self._exactly(length)
        data = bytes(self.slots.data[slot][:in_slot]) if flags & Flag.SLOT else b""
        if self.checksum:
            assert flags & Flag.CHECKSUM
            assert crc32(data, crc32(body)) == crc
        return Answer(number, error, body + data)

    def ask(self, op, node, body=b"", **prefix) -> Answer:
        number = self.send(op, node, body, **prefix)
        answer = self.receive()
        assert answer.number == number
        return answer

    def lookup(self, name: bytes, parent: int = 1) -> Answer:
        return self.ask(Op.LOOKUP, parent, name + b"\0")

    def create(self, name: bytes, handle: int, *, parent: int = 1, flags: int = 2, **prefix) -> Answer:
        body = abi.CREATE_IN.pack(flags, 0o100644, 0, 0) + name + b"\0"
        return self.ask(Op.CREATE, parent, body, handle=handle, **prefix)

    def open(self, node: int, handle: int, flags: int = 2) -> Answer:
        return self.ask(Op.OPEN, node, abi.OPEN_IN.pack(flags, 0), handle=handle)

    def write(self, node: int, handle: int, data: bytes, offset: int = 0, *, slot=NO_SLOT) -> Answer:
        body = abi.WRITE_IN.pack(handle, offset, len(data), 0, 0, 0, 0)
        if slot == NO_SLOT:
            return self.ask(Op.WRITE, node, body + data)
        self.slots.data[slot][: len(data)] = data
        return self.ask(Op.WRITE, node, body, slot=slot, length=HEAD_BYTES + len(data), slot_data=data)

    def read(self, node: int, handle: int, size: int, offset: int = 0, *, slot=NO_SLOT) -> Answer:
        return self.ask(Op.READ, node, abi.READ_IN.pack(handle, offset, size, 0, 0, 0, 0), slot=slot)

    def announce(self, index: int, job_id: str) -> Answer:
        import msgspec

        return self.ask(Own.JOB, 0, JOB_IN.pack(index, 0) + msgspec.json.encode(Identity(job_id)))

    def lock(self, node: int, handle: int, owner: int, kind: int, *, wait: bool = False) -> int:
        body = abi.LK_IN.pack(handle, owner, 0, (1 << 63) - 1, kind, 1, 0, 0)
        return self.send(Op.SETLKW if wait else Op.SETLK, node, body)

    def readable(self, wait_s: float) -> bool:
        """True when something has come in, now or within that time."""
        return bool(select.select([self.sock], [], [], wait_s)[0])

    def ended(self) -> bool:
        """True when the forwarder ends the connection (what it still sends is thrown away)."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


def node_of(answer: Answer) -> int:
    assert answer.error == 0, answer
    return abi.ENTRY.unpack_from(answer.body)[0]


@contextmanager
def serving(folder: Path, *addresses: str, order: str = "fifo", tree=None, **settings):
    """A forwarder of `folder` in this process; yields its addresses and itself."""
    settings.setdefault("workers", 4)
    options = Settings(name="test", **settings)
    queue = build_discipline(order, workers=options.workers, seed=1)
    server = Server(Operations(tree or DirectoryTree(folder)), queue, options)
    try:
        bound = [server.listen(parse_address(text)) for text in addresses]
        server.start()
        yield [str(address) for address in bound], server
    finally:
        server.close()


def raw_connection(address: str) -> socket.socket:
    """A connection that has said nothing yet."""
    return connect_address(parse_address(address), timeout_s=WAIT_S)
