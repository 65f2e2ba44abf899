"""What a forwarder needs before it can carry out a request it refused: where a node is, a handle opened again.

The request stays in the ledger until it is answered:

                UNKNOWN_NODE, UNKNOWN_HANDLE                 last step answered
    +------+ -----------------------------> +-----------+ --------------------> +------+
    | sent |                                | repairing |                       | sent |  with Flag.RETRY, if it was
    +------+ -------------> +-----------+   +-----------+                       +------+  sent to another forwarder
       |        BUSY        | postponed | ------------------------------------> +------+
       |                    +-----------+            after 20 ms                | sent |
       |                                                                        +------+
       +--> answered: EIO, ESTALE after too many refusals, or the error of the last step
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.fs.client.own_requests import build_own_place_request, build_own_reopen_request
from fairlead.steer.fs.fuse.abi import COPY_IN, IN_HEADER, LINK_IN, RENAME_IN, Op
from fairlead.steer.fs.wire.frames import Flag, Own, Refusal

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount

_MOST = 12
"""Refusals of one request before it gets ESTALE."""
_MOST_BUSY = 3000
_RELEASES = (Op.RELEASE, Op.RELEASEDIR)
_BODY = IN_HEADER.size


class Step(NamedTuple):
    """One message that restores state: PLACE or REOPEN. `handle` goes into its prefix."""

    opcode: int
    message: bytes
    handle: int


class Repairs:
    """Requests that were refused, and the steps still to be sent for each."""

    def __init__(self, mount: RelayMount) -> None:
        self._mount = mount
        self._steps: dict[int, list[Step]] = {}
        self.postponed: list[int] = []
        """Requests the forwarder was too busy for."""

    def repair_request(self, number: int, entry: Entry, refusal: int) -> None:
        """Does what the refusal of a request of the kernel asks for."""
        mount = self._mount
        ledger = mount.ledger
        ledger.requests[number] = entry
        attempts = ledger.attempts[number] = ledger.attempts.get(number, 0) + 1
        if attempts > (_MOST_BUSY if refusal == Refusal.BUSY else _MOST):
            mount.finish(number, -errno.EIO if refusal == Refusal.BUSY else -errno.ESTALE)
        elif refusal == Refusal.BUSY:
            self.postponed.append(number)
        elif refusal == Refusal.UNKNOWN_JOB:
            mount.failover.announce_jobs(everything=True)
            self._resend(number)
        elif refusal == Refusal.UNKNOWN_HANDLE:
            self._open_again(number, entry)
        else:
            self._place(number, entry)

    def resend_postponed(self) -> None:
        """Sends again what the forwarder was too busy for."""
        waiting, self.postponed = self.postponed, []
        for number in waiting:
            if number in self._mount.ledger.requests and number not in self._mount.ledger.unsent:
                self._resend(number)
        if self._mount.link is not None:
            self._mount.flush()

    def _place(self, number: int, entry: Entry) -> None:
        steps = [step for node in _nodes_of(entry) if (step := self._place_step(node)) is not None]
        if entry.handle in self._mount.holdings.handles:
            steps += self._handle_steps(entry.handle)
        if not steps:
            self._mount.finish(number, -errno.ESTALE)
            return
        self._begin(number, steps)

    def _open_again(self, number: int, entry: Entry) -> None:
        holdings, nodes = self._mount.holdings, self._mount.nodes
        held = holdings.handles.get(entry.handle)
        if entry.op in _RELEASES and (held is None or not nodes.is_unlinked(held.node)):
            # A close of a file the forwarder never had open succeeds; an unlinked file must be opened again, so that
            # its last close removes it.
            self._mount.finish(number, 0)
            return
        steps = [step for handle in _handles_of(entry) for step in self._handle_steps(handle)]
        if not steps:
            self._mount.finish(number, -errno.ESTALE)
            return
        self._begin(number, steps)

    def _place_step(self, node: int) -> Step | None:
        steps = self._mount.nodes.find_steps(node)
        return Step(int(Own.PLACE), build_own_place_request(node, steps), 0) if steps else None

    def _handle_steps(self, handle: int) -> list[Step]:
        held = self._mount.holdings.handles.get(handle)
        if held is None:
            return []
        place = self._place_step(held.node)
        again = Step(int(Own.REOPEN), build_own_reopen_request(held.node, held.flags, directory=held.directory), handle)
        return [again] if place is None else [place, again]

    def _begin(self, number: int, steps: list[Step]) -> None:
        self._steps[number] = steps
        self._next(number)

    def _next(self, number: int) -> None:
        mount = self._mount
        link, ledger = mount.link, mount.ledger
        steps = self._steps.get(number)
        if link is None:
            return
        if not steps:
            self._steps.pop(number, None)
            self._resend(number)
            return
        step = steps.pop(0)
        own = next(ledger.ids)
        ledger.requests[own] = Entry(op=step.opcode, handle=step.handle)
        ledger.repairs[own] = number
        link.put(own, 0, step.handle, step.message)

    def continue_repair(self, own: int, error: int) -> None:
        """A step was answered.

        A refused step is not an error of the request, which is sent again, refused again and repaired again: a place
        may be forgotten before it is used, because FORGETs of an earlier file with the same inode number go out late
        and nothing orders the workers of a forwarder.
        """
        ledger = self._mount.ledger
        number = ledger.repairs.pop(own, None)
        if number is None or number not in ledger.requests:
            return
        if error < 0 and not self._steps.get(number):
            self._steps.pop(number, None)
            self._mount.finish(number, error)
            return
        self._next(number)

    def _resend(self, number: int) -> None:
        mount = self._mount
        if mount.link is not None:
            mount.send(number, int(Flag.RETRY) if number in mount.retried else 0)


def _nodes_of(entry: Entry) -> list[int]:
    """The nodes a request names."""
    message, op = entry.message, entry.op
    nodes = [entry.node]
    if message is not None:
        if op in (Op.RENAME, Op.RENAME2):
            nodes.append(RENAME_IN.unpack_from(message, _BODY)[0])
        elif op == Op.LINK:
            nodes.append(LINK_IN.unpack_from(message, _BODY)[0])
        elif op == Op.COPY_FILE_RANGE:
            nodes.append(COPY_IN.unpack_from(message, _BODY)[2])
    return nodes


def _handles_of(entry: Entry) -> list[int]:
    """The handles a request names."""
    if entry.op == Op.COPY_FILE_RANGE and entry.message is not None:
        return [entry.handle, COPY_IN.unpack_from(entry.message, _BODY)[3]]
    if entry.op in (Op.GETATTR, Op.SETATTR) and entry.message is not None:
        at = _BODY + 8  # both have the handle there, GETATTR_IN and SETATTR_IN
        return [int.from_bytes(entry.message[at : at + 8], "little")]
    return [entry.handle]
