"""How a mount treats each opcode of the kernel. Only a table."""

from __future__ import annotations

from fairlead.services.forwarding.fuse.abi import Op

OPCODES = 64
DATA, COPIED, OPENS, HANDLE, LOCAL, ATTRIBUTE = range(6)
"""DATA stays in its slot; COPIED: the message is kept; OPENS: and a handle is chosen; HANDLE: copied, its
body begins with one; LOCAL: answered here; ATTRIBUTE: may be answered here."""


def ways() -> list[int]:
    """By opcode: how a request is treated."""
    table = [COPIED] * OPCODES
    for op in (Op.READ, Op.WRITE):
        table[op] = DATA
    for op in (Op.OPEN, Op.OPENDIR, Op.CREATE, Op.TMPFILE):
        table[op] = OPENS
    for op in (Op.RELEASE, Op.RELEASEDIR, Op.FSYNC, Op.FSYNCDIR, Op.FLUSH, Op.READDIR, Op.READDIRPLUS, Op.GETLK,
               Op.SETLK, Op.SETLKW, Op.FALLOCATE, Op.LSEEK, Op.COPY_FILE_RANGE, Op.IOCTL, Op.POLL):  # fmt: skip
        table[op] = HANDLE
    for op in (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT, Op.DESTROY):
        table[op] = LOCAL
    for op in (Op.GETXATTR, Op.SETXATTR, Op.REMOVEXATTR):
        table[op] = ATTRIBUTE
    return table


WAYS = ways()
