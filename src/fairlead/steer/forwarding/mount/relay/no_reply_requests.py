"""Requests the kernel expects no reply to: forgotten nodes, interrupts; and the end of the mount."""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.steer.fs.client.own_requests import build_own_request
from fairlead.steer.fs.fuse.abi import BATCH_FORGET_IN, FORGET_ONE, IN_HEADER, Op

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount
    from fairlead.steer.fs.trace.recorder import Trace

_FORGETS = 128
"""Forgotten nodes sent to the forwarder in one message."""
_PATIENT_S = 2.0
"""Without a forwarder for this time, any request may be interrupted."""
_NUMBER = Struct("<Q")


class NoReplyRequests:
    """Carries out such requests."""

    def __init__(self, mount: RelayMount, trace: Trace | None) -> None:
        self._mount = mount
        self._trace = trace
        self._forgotten: list[tuple[int, int]] = []

    def handle_request(self, op: int, unique: int, node: int, message: memoryview) -> None:
        """One request."""
        if op == Op.FORGET:
            self._forget(node, _NUMBER.unpack_from(message, IN_HEADER.size)[0])
        elif op == Op.BATCH_FORGET:
            count = BATCH_FORGET_IN.unpack_from(message, IN_HEADER.size)[0]
            begin = IN_HEADER.size + BATCH_FORGET_IN.size
            for at in range(begin, begin + count * FORGET_ONE.size, FORGET_ONE.size):
                self._forget(*FORGET_ONE.unpack_from(message, at))
        elif op == Op.INTERRUPT:
            self._interrupt(_NUMBER.unpack_from(message, IN_HEADER.size)[0])
        else:
            self._mount.answer(unique, 0)

    def _forget(self, node: int, lookups: int) -> None:
        mount = self._mount
        if mount.nodes.forget(node, lookups):
            mount.generations.forget(node)
            if self._trace is not None:
                self._trace.record_forget(node)
        forgotten = self._forgotten
        forgotten.append((node, lookups))
        if len(forgotten) >= _FORGETS:
            link = mount.outlet
            if link is not None:
                body = BATCH_FORGET_IN.pack(len(forgotten), 0) + b"".join(FORGET_ONE.pack(*one) for one in forgotten)
                link.put(next(mount.ledger.ids), 0, 0, build_own_request(Op.BATCH_FORGET, 0, body))
            forgotten.clear()

    def _interrupt(self, unique: int) -> None:
        mount, ledger = self._mount, self._mount.ledger
        number = ledger.find_unique(unique)
        if number is None:
            return
        if mount.link is None:
            # Programs expect EINTR of a lock. Any other request gets it only after a wait, and never one that was sent:
            # it may have been carried out.
            waits = ledger.requests[number].op == Op.SETLKW
            if waits or (number in ledger.unsent and mount.failover.count_outage_s() > _PATIENT_S):
                mount.finish(number, -errno.EINTR)
        else:
            mount.link.put(next(ledger.ids), 0, 0, build_own_request(Op.INTERRUPT, 0, _NUMBER.pack(number)))
