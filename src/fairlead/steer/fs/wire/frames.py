"""Frames of the forwarding protocol: a 32-byte prefix, then the kernel's own message. Layout only, no sockets.

A request's message is the kernel's: 40-byte header, body, data. A reply's is the body alone, without the kernel's
16-byte header, whose fields are in the prefix. In an INTERRUPT the body names the request id. Requests may be carried
out in any order: a client that needs an order waits for the answer. More: docs/reference/wire-protocol.md.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct

VERSION = 1
"""Version of the frames; the handshake agrees on one both sides know."""
MAGIC = b"FAIRLEAD"

REQUEST = Struct("<IHHQQII")
"""length of what follows the prefix, flags, job, request id, handle, slot, CRC-32 of what follows and, for a WRITE, of
its data in the slot (32 bytes).

`job` indexes the jobs announced on this connection (0: none). `request id` grows within a session and is kept by a
retry. `handle` is the number the client gives what OPEN, CREATE, TMPFILE and OPENDIR open, else 0."""
REPLY = Struct("<IHHQiIII")
"""length of what follows the prefix, flags, 0, request id, error (0, -errno or a `Refusal`), slot, bytes of data in the
slot, CRC-32 of what follows and then of the data in the slot (32 bytes)."""
PREFIX_BYTES = 32
HEAD_BYTES = 80
"""First bytes of a kernel message: header and fixed part of READ and WRITE. The data of a WRITE comes after them."""
NO_SLOT = 0xFFFFFFFF
MAX_FRAME = (1 << 20) + (1 << 17)
"""Longest frame without its prefix; a longer one ends the connection."""


class Flag(IntFlag):
    """Flags of requests and replies."""

    SLOT = 1
    """READ and WRITE: the data is in the shared-memory slot (from `HEAD_BYTES` on), not in the frame."""
    CHECKSUM = 2
    """The CRC-32 field holds; without the flag it is 0."""
    RETRY = 4
    """The request may have been carried out before (by this forwarder or a lost one): resolve it by its intent."""
    DESCRIPTOR = 8
    """A reply to OPEN, CREATE or TMPFILE: the file's descriptor comes along (SCM_RIGHTS) with the first byte."""
    PARENT = 16
    """A request that makes or removes a name: its client would like to know the directory's attributes after it. A
    reply: its last 104 bytes are what GETATTR of the header's node would answer now."""


class Own(IntEnum):
    """Opcodes of fairlead's own requests, in a kernel header like the others."""

    JOB = 0x10001
    """Announces a job under an index: JOB_IN, then msgspec JSON of `Identity`."""
    PLACE = 0x10002
    """Where the header's node is: PLACE_STEP and a name, repeated, from the root down."""
    REOPEN = 0x10003
    """Opens the header's node again under the prefix's handle: REOPEN_IN."""
    PING = 0x10004
    """Nothing; answered at once."""
    RELEASE_LEASE = 0x10005
    """The client has dropped what a REVOKE took back: its number (REVOKE)."""
    TOKEN = 0x10006
    """A fresh token for this connection; empty: the forwarder is asked for one, and answers with it."""


class Notice(IntEnum):
    """Error fields of frames a forwarder sends on its own (request id 0)."""

    REVOKE = 0x20001
    """The client must drop what it keeps of some nodes: REVOKE, then the nodes (8 bytes each)."""


class Refusal(IntEnum):
    """Positive error fields: not the file system's answer but the plane's; the client resolves them itself."""

    UNKNOWN_NODE = 1
    """This forwarder has not seen the node: send PLACE, then the request again."""
    UNKNOWN_HANDLE = 2
    """This forwarder has not opened the handle: send REOPEN, then the request again."""
    UNKNOWN_JOB = 3
    """The job index was not announced on this connection."""
    BUSY = 4
    """Refused without being carried out; send it again."""


JOB_IN = Struct("<II")
"""index, 0; then JSON."""
PLACE_STEP = Struct("<QHH")
"""parent node, length of the name, 0; then the name."""
REOPEN_IN = Struct("<IIQ")
"""open flags (never O_CREAT, O_EXCL, O_TRUNC), 1 if a directory, reserved."""
REVOKE = Struct("<Q")
"""number of the revocation, which RELEASE_LEASE says again."""
NODE = Struct("<Q")
