"""Files whose descriptor a forwarder of this machine sends: the kernel reads and writes them itself.

Not here: how descriptors arrive (`link`), what the kernel is told about a file (`fuse.passthrough`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.fs.client.link import Link
from fairlead.steer.fs.fuse.abi import IN_HEADER, OPEN_OUT, Op
from fairlead.steer.fs.fuse.passthrough import BackingFiles, supports_passthrough
from fairlead.steer.fs.wire.frames import Flag
from fairlead.steer.fs.wire.handshake import Feature

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.reply_effects import ReplyEffects
    from fairlead.steer.fs.client.dial import Connection
    from fairlead.steer.fs.fuse.negotiation import Session

_NODE = Struct("<Q")
_FLAGS = Struct("<I")
_DESCRIPTOR = int(Flag.DESCRIPTOR)
_OPENING = (Op.OPEN, Op.CREATE, Op.TMPFILE)
PASSTHROUGH_NOTICE = "passthrough: reads and writes go in the kernel, the trace holds opens and closes only"


def explain_no_passthrough(connection: Connection, session: Session, *, cache: bool) -> str:
    """Why files cannot be handed to the kernel; empty when they can."""
    if cache:
        return "the mount has a cache"
    if not supports_passthrough():
        return "it needs CAP_SYS_ADMIN"
    if not session.passthrough:
        return "this kernel has no FUSE passthrough"
    return explain_no_passthrough_descriptors(connection)


def explain_no_passthrough_descriptors(connection: Connection) -> str:
    """Why this connection brings no descriptors; empty when it does."""
    if Feature.DESCRIPTORS in connection.welcome.features:
        return ""
    if connection.address.kind != "unix":
        return f"{connection.address} is no unix socket"
    return f"the forwarder {connection.address} was started without --descriptors"


class PassthroughFiles:
    """The files of one mount that the kernel reads and writes itself. The mount's thread only.

    All openings of a file are alike, or the kernel fails them with EIO: the first one decides.

                  opened with a descriptor            the last handle is closed
        closed ------------------------------> kernel ------------------------> closed
               ------------------------------> plain  ------------------------> closed
                  without (append; refused)    (through the forwarder)

    No descriptor is kept: a registered file is the kernel's, also when the forwarder that opened it has gone.
    """

    def __init__(self, fd: int, say: Callable[[str], None]) -> None:
        """`fd`: the mount's device."""
        self._backings = BackingFiles(fd)
        self._say = say
        self._told = False
        self._writers: set[int] = set()
        self._plain: dict[int, int] = {}  # node by handle: open through the forwarder
        self._plain_nodes: dict[int, int] = {}

    def learn_from(self, answers: ReplyEffects) -> None:
        """Follows RELEASE from now on."""
        self._writers = answers.passthrough_writers
        before = answers.effects[Op.RELEASE]
        assert before is not None

        def released(entry: Entry, body: memoryview) -> None:
            before(entry, body)
            self._released(entry.handle)

        answers.effects[Op.RELEASE] = released

    def take_reply(self, link: Link, flags: int, entry: Entry | None, error: int, body: memoryview) -> None:
        """Takes a reply. If it opens a file the kernel can take over, its body is changed in place."""
        descriptor = link.take_along() if flags & _DESCRIPTOR else -1
        try:
            if entry is not None and not error and entry.op in _OPENING and len(body) >= OPEN_OUT.size:
                self._opened(entry, descriptor, body)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _opened(self, entry: Entry, descriptor: int, body: memoryview) -> None:
        node = entry.node if entry.op == Op.OPEN else int(_NODE.unpack_from(body)[0])
        handle = entry.handle
        plain = self._plain_nodes.get(node, 0)
        if not plain and (descriptor >= 0 or self._backings.has(node)):
            at = len(body) - OPEN_OUT.size
            before = bytes(body[at:])
            after = self._backings.hand_over(node, handle, descriptor, before)
            if after != before:
                body[at:] = after
                message = entry.message
                if message is None or _FLAGS.unpack_from(message, IN_HEADER.size)[0] & os.O_ACCMODE != os.O_RDONLY:
                    self._writers.add(handle)
                return
            if not self._told:
                self._told = True
                self._say(
                    f"passthrough: the kernel does not take a file ({os.strerror(self._backings.refused)}): such files"
                    " are read and written through the forwarder"
                )
        self._plain[handle] = node
        self._plain_nodes[node] = plain + 1

    def _released(self, handle: int) -> None:
        node = self._plain.pop(handle, None)
        if node is None:
            self._writers.discard(handle)
            self._backings.release_handle(handle)
            return
        left = self._plain_nodes[node] - 1
        if left:
            self._plain_nodes[node] = left
        else:
            del self._plain_nodes[node]
