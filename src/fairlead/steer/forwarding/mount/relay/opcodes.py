"""How a mount treats each opcode of the kernel. Only a table."""

from __future__ import annotations

from fairlead.steer.fs.fuse.abi import HANDLE_FIRST, Op
from fairlead.steer.fs.wire.frames import Flag

OPCODES = 64
DATA, COPIED, OPENS, HANDLE, LOCAL, ASKED, CLOSED = range(7)
"""DATA: the message stays in its slot. COPIED: the message is kept. OPENS: as COPIED, and a handle is chosen. HANDLE:
as COPIED, and the body begins with a handle. LOCAL: needs no forwarder. ASKED, CLOSED: may be answered here, else as
COPIED and HANDLE."""


def _build_treatments() -> list[int]:
    """By opcode: how a request is treated."""
    table = [COPIED] * OPCODES
    for op in (Op.READ, Op.WRITE):
        table[op] = DATA
    for op in (Op.OPEN, Op.OPENDIR, Op.CREATE, Op.TMPFILE):
        table[op] = OPENS
    for number in HANDLE_FIRST:
        table[number] = HANDLE
    for op in (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT, Op.DESTROY):
        table[op] = LOCAL
    for op in (Op.GETXATTR, Op.SETXATTR, Op.REMOVEXATTR, Op.GETATTR, Op.SETATTR):
        table[op] = ASKED
    table[Op.FLUSH] = CLOSED
    return table


TREATMENTS = _build_treatments()
_NAMING = (Op.CREATE, Op.MKNOD, Op.MKDIR, Op.SYMLINK, Op.LINK, Op.UNLINK, Op.RMDIR, Op.RENAME, Op.RENAME2)
REQUEST_FLAGS = [int(Flag.PARENT) if op in _NAMING else 0 for op in range(OPCODES)]
"""By opcode: flags of the request."""
