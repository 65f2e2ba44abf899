"""One request on its way through a forwarder, and what is known of each opcode. No sockets, no execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.decide.policies.requests.contract import METADATA, READ, WRITE, Waiting
from fairlead.steer.fs.fuse.abi import NO_REPLY, Op
from fairlead.steer.fs.wire.frames import Own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.steer.forwarding.forwarder.client_sessions import Session
    from fairlead.steer.forwarding.forwarder.connection import Connection

CLASS_OF = {int(Op.READ): READ, int(Op.WRITE): WRITE, int(Op.COPY_FILE_RANGE): WRITE, int(Op.FALLOCATE): WRITE}
"""Class of an opcode; every other one is METADATA."""
SILENT = frozenset(int(op) for op in NO_REPLY)
"""Requests nobody expects an answer to."""
REPEATABLE = frozenset(
    int(op)
    for op in (
        Op.LOOKUP,
        Op.FORGET,
        Op.BATCH_FORGET,
        Op.INTERRUPT,
        Op.GETATTR,
        Op.READLINK,
        Op.READ,
        Op.STATFS,
        Op.GETXATTR,
        Op.LISTXATTR,
        Op.FLUSH,
        Op.FSYNC,
        Op.FSYNCDIR,
        Op.READDIR,
        Op.READDIRPLUS,
        Op.GETLK,
        Op.ACCESS,
        Op.LSEEK,
        Op.BMAP,
        Op.SYNCFS,
        Op.STATX,
        Own.JOB,
        Own.PLACE,
        Own.PING,
        Own.RELEASE_LEASE,
        Own.TOKEN,
    )
)
"""Requests that may be carried out twice. The answers of all others are kept for a client that asks again."""
UNLOCKING = frozenset(int(op) for op in (Op.SETLK, Op.SETLKW, Op.FLUSH, Op.RELEASE))
"""Requests that may give back a lock somebody waits for."""
LONG = frozenset(int(op) for op in (Op.FSYNC, Op.FSYNCDIR, Op.SYNCFS, Op.FALLOCATE, Op.COPY_FILE_RANGE))
"""Requests that are likely to keep a worker busy."""
OPENING = frozenset(int(op) for op in (Op.OPEN, Op.CREATE, Op.TMPFILE, Own.REOPEN))
HANDED = frozenset(int(op) for op in (Op.OPEN, Op.CREATE, Op.TMPFILE))
"""Requests whose answer may carry the descriptor of the file they opened."""
NAMING = frozenset(
    int(op)
    for op in (
        Op.CREATE,
        Op.MKNOD,
        Op.MKDIR,
        Op.SYMLINK,
        Op.LINK,
        Op.UNLINK,
        Op.RMDIR,
        Op.RENAME,
        Op.RENAME2,
    )
)
"""Requests that make or remove a name in the header's node: its attributes may go with the answer (Flag.PARENT)."""
KNOWN = frozenset(int(op) for op in Op) | frozenset(int(op) for op in Own)


class Request(Waiting):
    """A request: what waits for a worker (`Waiting`), and all that is needed to carry it out and to answer."""

    __slots__ = (
        "along",
        "body",
        "buffer",
        "connection",
        "data",
        "delay_ns",
        "due_ns",
        "flags",
        "gid",
        "handle",
        "holds",
        "in_slot",
        "interrupted",
        "label",
        "moved",
        "node",
        "number",
        "op",
        "reply_buffer",
        "session",
        "slot",
        "uid",
        "written",
    )

    def __init__(
        self,
        connection: Connection,
        session: Session,
        op: int,
        number: int,
        node: int,
        handle: int,
        uid: int,
        gid: int,
        flags: int,
        slot: int,
        job: str | int,
        label: str | int,
        size: int,
        body: memoryview,
        data: memoryview | None,
        arrived_ns: int,
    ) -> None:
        self.op_class = CLASS_OF.get(op, METADATA)
        self.job = job
        self.target = None
        self.size = size
        self.arrived_ns = arrived_ns
        self.item = None
        self.turn = 0
        self.user = uid
        self.label = label
        """The job it is recorded under; `job` is the one whose share it takes."""
        self.connection = connection
        """Where the answer goes; another one when the client has connected again."""
        self.session = session
        self.op = op
        self.number = number
        self.node = node
        self.handle = handle
        self.uid = uid
        self.gid = gid
        self.flags = flags
        self.slot = slot
        self.body = body
        self.data = data
        """WRITE: what to write. READ with a slot: where to. Else None."""
        self.buffer: bytearray | None = None
        """Goes back to the buffers when the request has been answered."""
        self.holds = 0
        """Bytes it is charged with at its connection until it is answered."""
        self.along: Sequence[Request] = ()
        """Writes that are carried out together with this one (`aggregation`)."""
        self.moved = 0
        """Bytes read or written, once it has been carried out."""
        self.in_slot: memoryview | None = None
        """READ with a slot, carried out: the data in it."""
        self.reply_buffer: bytearray | None = None
        """READ without a slot, carried out: the buffer that holds the answer."""
        self.written = False
        """The write has been carried out with others; only its answer is due."""
        self.interrupted = False
        self.due_ns = 0
        self.delay_ns = 0
