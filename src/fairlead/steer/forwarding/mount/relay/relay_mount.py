"""A mount whose requests go to forwarders: one thread between the kernel's device and the connection.

Requests are read into slots the forwarder shares, so data is never copied here. Not here: what happens when the
connection is lost (`recovery.failover`), what replies change (`reply_effects`).

The connection, by `link` (it) and `outlet` (where new requests go):

                  attach                      hold_requests
    +----------+ --------> +---------------+ ---------------> +----------------+
    | detached |           |   attached    |                  |      held      |
    | link -   |           | link, outlet  |                  | link, outlet - |
    +----------+ <-------- +---------------+ <--------------- +----------------+
         ^        detach                      resume_requests         |
         +------------------------------------------------------------+
                                detach (drop_link: broken)

A request of the kernel, from its reading to its answer:

    read --> answered here (no forwarder needed)
      |
      +----> unsent (no outlet) --attach, resume_requests--+
      |                                                    v
      +------------------------------------------------> sent --reply--> answered
                                                         ^  |
                     attach, with Flag.RETRY: link lost  |  |  refused
                     `Repairs`: what it lacked was sent  +--+
"""

from __future__ import annotations

import errno
import os
import select
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.mount.recovery.failover import Failover
from fairlead.steer.forwarding.mount.relay.kernel_answers import KernelAnswers
from fairlead.steer.forwarding.mount.relay.ledger import Entry, Ledger
from fairlead.steer.forwarding.mount.relay.no_reply_requests import NoReplyRequests
from fairlead.steer.forwarding.mount.relay.opcodes import (
    CLOSED,
    COPIED,
    DATA,
    HANDLE,
    LOCAL,
    OPCODES,
    OPENS,
    REQUEST_FLAGS,
    TREATMENTS,
)
from fairlead.steer.forwarding.mount.relay.prefetched_attributes import ATTRIBUTES_BYTES
from fairlead.steer.forwarding.mount.relay.reply_effects import ReplyEffects
from fairlead.steer.fs.client.dial import Connection, Dial
from fairlead.steer.fs.client.held_state import Holdings
from fairlead.steer.fs.client.job_identity import Jobs
from fairlead.steer.fs.client.link import Link, LinkLostError
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.fuse.abi import IN_HEADER, OUT_HEADER, Op
from fairlead.steer.fs.fuse.generations import HAS_ENTRY, Generations
from fairlead.steer.fs.wire.frames import HEAD_BYTES, MAX_FRAME, PREFIX_BYTES, REPLY, Flag
from fairlead.steer.fs.wire.slots import SLOT_BYTES

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.relay.passthrough_files import PassthroughFiles
    from fairlead.steer.fs.fuse.device import Device
    from fairlead.steer.fs.trace.recorder import Trace

_SLOT, _PARENT = int(Flag.SLOT), int(Flag.PARENT)
_READ, _WRITE, _RELEASE = int(Op.READ), int(Op.WRITE), int(Op.RELEASE)
_RELEASES = (_RELEASE, int(Op.RELEASEDIR))
_BATCH = 16
"""Requests read in one go before the connection gets its turn again."""
_FH_OFFSET, _FH, _COUNT = Struct("<QQI"), Struct("<Q"), Struct("<I")
_LAZY_S = 0.001
_new = tuple.__new__
_READABLE, _WRITABLE = select.EPOLLIN, select.EPOLLOUT


class RelayMount:
    """Serves a mount from a forwarder. `run` returns when the mount is gone or `stop` was called.

    `device`: mounted, INIT answered (`negotiation.answer_fuse_init`). `connection`: made before the mount, so that a
    wrong address is an error of the command. `patience_s`: how long requests wait without a forwarder, then they get
    EIO.
    """

    def __init__(
        self,
        device: Device,
        dial: Dial,
        connection: Connection,
        *,
        trace: Trace | None,
        jobs: Jobs,
        passthrough: PassthroughFiles | None,
        patience_s: float,
        say: Callable[[str], None],
    ) -> None:
        self.device, self.passthrough = device, passthrough
        self.dial = dial
        self.nodes = Nodes()
        self.generations = Generations()
        self.holdings = Holdings()
        self.ledger = Ledger()
        self.jobs = jobs
        self.link: Link | None = None
        """The connection; None while there is none."""
        self.outlet: Link | None = None
        """Where new requests go: the connection, or None while they must wait."""
        self.retried: set[int] = set()
        """Requests that were sent again on this connection: the one before broke before they were answered."""
        self.served = 0
        """Requests answered to the kernel so far."""
        self._effects = ReplyEffects(self.nodes, self.holdings, passthrough)
        self._trace, self._fast_path = trace, getattr(trace, "fast_path", (max, b"", iter(()), 1))
        if trace is not None:
            trace.identities = self.jobs.identities
        self._say = say
        self._handles = 0
        self._opened_by: dict[int, int] = {}  # job by handle: a RELEASE names no process
        self._views: list[memoryview] = []
        self._vectors: list[tuple[memoryview]] = []
        self._free: list[int] = []
        self._no_reply = NoReplyRequests(self, trace)
        self._ended = False
        self._poll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._actions: deque[Callable[[], None]] = deque()
        self._reading = False
        self._lazy = False
        self._inspect: Callable[[Link, int, int, int, int, int, int, int], None] | None = None
        self._link_events = 0
        self._fd = device.fd
        self._kernel = KernelAnswers(device.fd, self._say)
        self.answer = self._kernel.answer
        self.failover = Failover(self, patience_s=patience_s)
        os.set_blocking(device.fd, False)
        self._poll.register(self._wake, _READABLE)
        self.attach(Link(connection))

    # -- from other threads ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends `run` soon. For other threads and signal handlers."""
        self._ended = True
        self.wake()

    def wake(self) -> None:
        """Has the mount's thread look for actions."""
        os.eventfd_write(self._wake, 1)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Has the mount's thread call `action`."""
        self._actions.append(action)
        self.wake()

    def remap(self, addresses: Sequence[str], *, within_s: float = 30.0) -> str:
        """Moves the mount to other forwarders and returns the address it is at then; I/O waits, none fails.

        Raises `UnreachableError` or `RefusedError` when none of them accepts it; the mount then stays where it is.
        """
        return self.failover.remap(addresses, within_s=within_s)

    def describe(self) -> dict[str, object]:
        """State and counts, for the control socket."""
        link = self.link
        return {
            "forwarder": "" if link is None else str(link.connection.address),
            "forwarders": [str(address) for address in self.dial.addresses],
            "state": self.failover.state,
            "outstanding": len(self.ledger.requests),
            "nodes": len(self.nodes),
            "handles": len(self.holdings.handles),
            "requests": self.served,
            "failovers": self.failover.count,
        }

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until the mount is gone or `stop` is called."""
        try:
            while not self._ended and not self._kernel.gone:
                try:
                    self._turn()
                except LinkLostError as lost:
                    self.drop_link(str(lost))
        finally:
            self.failover.end()
            if self.link is not None:
                self.link.close()
                self.link = None
            self._poll.close()

    def _turn(self) -> None:
        """Waits for events and handles them."""
        self._arm()
        events = self._poll.poll(_LAZY_S if self._lazy else self.failover.pause_s())
        if self._lazy and not events:
            self._lazy = False
            if self.link is not None:
                self.link.flush()
        for descriptor, event in events:
            if descriptor == self._fd:
                if event & _READABLE:
                    self._read_requests()
                else:
                    self._ended = True  # EPOLLERR: unmounted
            elif descriptor == self._wake:
                os.eventfd_read(descriptor)
                while self._actions:
                    self._actions.popleft()()
            else:
                self._link_ready(event)
        if self.link is None:
            self.failover.check_patience()

    def _arm(self) -> None:
        """Polls the device only while a slot is free and the forwarder takes requests; the connection as it needs."""
        link = self.link
        ready = bool(self._free) and self.ledger.has_room() and not (link is not None and link.blocked)
        if ready != self._reading:
            self._reading = ready
            if ready:
                self._poll.register(self._fd, _READABLE)
            else:
                self._poll.unregister(self._fd)
        if link is not None:
            events = _READABLE | _WRITABLE if link.blocked else _READABLE
            if events != self._link_events:
                self._link_events = events
                self._poll.modify(link.descriptor, events)

    def _link_ready(self, event: int) -> None:
        link = self.link
        if link is None:
            return
        if event & _WRITABLE:
            link.flush()
        if event & ~_WRITABLE:
            self._take_replies(link)
            while link.secure and link.sock.pending():  # type: ignore[attr-defined]
                self._take_replies(link)

    # -- requests ----------------------------------------------------------------------------------------------

    def _read_requests(self) -> None:
        """Reads a batch of requests from the kernel; each is answered here or goes to the forwarder."""
        free, requests, ledger = self._free, self.ledger.requests, self.ledger
        views, vectors, known = self._views, self._vectors, self.jobs.known
        fd, link, opened_by, effects = self._fd, self.outlet, self._opened_by, self._effects
        urgent = released = False
        for _ in range(_BATCH):
            if not free:
                break
            slot = free[-1]
            try:
                length = os.readv(fd, vectors[slot])
            except BlockingIOError:
                break
            except OSError as error:
                if self._ends_batch(error):
                    break
                continue
            view = views[slot]
            _, op, unique, node, uid, _, pid, _, _ = IN_HEADER.unpack_from(view)
            treatment = TREATMENTS[op] if op < OPCODES else COPIED
            if treatment == LOCAL:
                self._no_reply.handle_request(op, unique, node, view[:length])
                continue
            if treatment > LOCAL:
                answer = effects.answer_locally(op, node, view[:length])
                if answer is not None:
                    self.answer(unique, *answer)
                    continue
                treatment = HANDLE if treatment == CLOSED else COPIED
            now = monotonic_ns()
            hit = known.get(pid)
            job = hit[0] if hit is not None and now < hit[1] else self._find_job(pid, uid, now)
            if treatment == DATA:
                handle, offset, size = _FH_OFFSET.unpack_from(view, 40)
                if not pid:
                    job = opened_by.get(handle, job)
                # A slot belongs to one request, from here until its reply is with the kernel.
                free.pop()
                number = next(ledger.ids)
                requests[number] = _new(Entry, (unique, op, slot, node, handle, offset, size, now, job, None))
                if op == _WRITE:
                    effects.dirty.add(handle)
                if link is None:
                    ledger.unsent[number] = None
                elif link.slots is not None:
                    link.put_slotted(number, job, slot, view, size if op == _WRITE else 0)
                else:
                    link.put(number, job, 0, view[:length])
                urgent = True
            else:
                self._send_message(treatment, op, unique, node, pid, job, now, bytes(view[:length]))
                if op == _RELEASE:
                    released = True
                else:
                    urgent = True
            if len(requests) == 1:
                break  # one at a time: nothing else is there most likely, so it goes out at once
        if link is None:
            return
        if released and not urgent:
            self._lazy = True  # nobody waits for a RELEASE: it goes with the next request, or in a moment
        else:
            link.flush()

    def _ends_batch(self, error: OSError) -> bool:
        """Whether nothing more can be read: the mount is gone. Raises what else broke."""
        if error.errno in (errno.EINTR, errno.ENOENT):  # ENOENT: the request was interrupted while it was read
            return False
        if error.errno != errno.ENODEV:
            raise error
        self._ended = True
        return True

    def _send_message(
        self, treatment: int, op: int, unique: int, node: int, pid: int, job: int, now: int, message: bytes
    ) -> None:
        """Sends a request that is no READ or WRITE; its message is kept, to be sent again if need be."""
        chosen = handle = 0
        if treatment == OPENS:
            # The mount chooses handles: they stay valid whatever forwarder has the file open.
            self._handles = chosen = handle = self._handles + 1
            self._opened_by[handle] = job
        elif treatment == HANDLE:
            (handle,) = _FH.unpack_from(message, 40)
            if not pid:
                job = self._opened_by.get(handle, job)
            if op in _RELEASES:
                self._opened_by.pop(handle, None)
        ledger, link = self.ledger, self.outlet
        number = next(ledger.ids)
        ledger.requests[number] = _new(Entry, (unique, op, -1, node, handle, 0, 0, now, job, message))
        if link is None:
            ledger.unsent[number] = None
        else:
            link.put(number, job, chosen, message, REQUEST_FLAGS[op] if op < OPCODES else 0)

    def _find_job(self, pid: int, uid: int, now: int) -> int:
        index = self.jobs.find(pid, uid, now)
        if self.jobs.unannounced:
            self.failover.announce_jobs()
        return index

    # -- replies -----------------------------------------------------------------------------------------------

    def _take_replies(self, link: Link) -> None:
        """Takes what has arrived and gives each whole reply to the kernel."""
        if not link.receive():
            return
        requests, free, views = self.ledger.requests, self._free, self._views
        buffer, view, fd, inspect = link.buffer, link.view, self._fd, self._inspect
        trace, (pack, ring, place, room) = self._trace, self._fast_path
        at, end = link.begin, link.end
        while end - at >= PREFIX_BYTES:
            length, flags, _, number, error, _, count, crc = REPLY.unpack_from(buffer, at)
            begin = at + PREFIX_BYTES
            stop = begin + length
            if stop > end:
                if length > MAX_FRAME:
                    raise LinkLostError("a reply longer than allowed")
                break
            if inspect is not None:
                inspect(link, at, length, flags, number, error, count, crc)
            at = link.begin = stop
            entry = requests.pop(number, None)
            if entry is None or error > 0 or not entry.unique:
                self._take_special(number, entry, error, view[begin:stop])
                continue
            if entry.slot < 0:
                self._finish_message(link, entry, flags, error, begin, stop)
                continue
            unique, op, slot, node, handle, offset, size, started, job, _ = entry
            if flags & _SLOT and op == _READ:
                if count > size:
                    raise LinkLostError("a reply with more data than was asked for")
                answer = views[slot]
                OUT_HEADER.pack_into(answer, HEAD_BYTES - 16, 16 + count, error, unique)
                answer = answer[HEAD_BYTES - 16 : HEAD_BYTES + count]
                size = count
            else:
                # The header of the kernel's answer takes the place of the end of the reply's prefix.
                OUT_HEADER.pack_into(buffer, begin - 16, 16 + length, error, unique)
                answer = view[begin - 16 : stop]
                if op == _READ:
                    size = length
                elif not error:
                    (size,) = _COUNT.unpack_from(buffer, begin)
            try:
                os.write(fd, answer)
            except OSError as failed:
                self._kernel.handle_refusal(failed, unique)
            free.append(slot)  # only now: the kernel has copied the data out of it
            self.served += 1
            if trace is not None and trace.on:
                pack(ring, next(place) % room, op, job, -error, node, handle, offset, size, started, monotonic_ns())
        # What came of the replies (repairs, forgotten nodes) goes out together.
        link.flush()

    def _inspect_reply(
        self, link: Link, at: int, length: int, flags: int, number: int, error: int, count: int, crc: int
    ) -> None:
        """For connections with checksums or descriptors: checks a reply, takes in the descriptor it brings."""
        entry = self.ledger.requests.get(number)
        if link.checksum:
            slot = self._views[entry.slot] if entry and flags & _SLOT else None
            link.check(at, length, flags, crc, None if slot is None else slot[HEAD_BYTES : HEAD_BYTES + count])
        if self.passthrough is not None:
            begin = at + PREFIX_BYTES
            self.passthrough.take_reply(link, flags, entry, error, link.view[begin : begin + length])

    def _take_special(self, number: int, entry: Entry | None, error: int, body: memoryview) -> None:
        """A reply the kernel gets nothing of: a notice, a refusal, the answer to a request of fairlead's own."""
        if entry is not None:
            self.failover.settle_reply(number, entry, error, body)
        elif number == 0:
            self.failover.handle_notice(error, body)

    def _finish_message(self, link: Link, entry: Entry, flags: int, error: int, begin: int, stop: int) -> None:
        """Gives the kernel the reply to a request that is no READ or WRITE, and remembers what it changes."""
        op, buffer, view = entry.op, link.buffer, link.view
        if not error and stop - begin >= 40 and op < OPCODES and HAS_ENTRY[op]:
            # The kernel must know every node under one generation: it is set before the kernel sees the reply.
            (made,) = _FH.unpack_from(buffer, begin)
            nodes = self.nodes
            self.generations.mark(op, view[begin:stop], held=nodes.has_node(made), named=not nodes.is_unlinked(made))
        if flags & _PARENT and stop - begin >= ATTRIBUTES_BYTES:
            stop -= ATTRIBUTES_BYTES
            self._effects.prefetched.put(entry.node, bytes(view[stop : stop + ATTRIBUTES_BYTES]))
        OUT_HEADER.pack_into(buffer, begin - 16, 16 + stop - begin, error, entry.unique)
        try:
            os.write(self._fd, view[begin - 16 : stop])
        except OSError as failed:
            self._kernel.handle_refusal(failed, entry.unique)
        self.served += 1
        self._apply_reply(entry, error, view[begin:stop])

    def _apply_reply(self, entry: Entry, error: int, body: memoryview) -> None:
        """What a request that is no READ or WRITE changes, once the kernel has its answer; its record."""
        op = entry.op
        if not error or op == _RELEASE:  # a handle is gone whatever its RELEASE says
            effect = self._effects.effects[op] if op < OPCODES else None
            if effect is not None:
                effect(entry, body)
        elif error == -errno.ENODATA and op == Op.GETXATTR:
            self._effects.remember_absent(entry)
        if self._trace is not None:
            assert entry.message is not None
            self._trace.record_message(
                op, entry.node, entry.handle, entry.message, body, entry.started_ns, monotonic_ns(), entry.job, -error
            )

    def finish(self, number: int, error: int) -> None:
        """Ends an outstanding request: answers it with 0 or -errno, without a body."""
        entry = self.ledger.requests.pop(number)
        self.ledger.unsent.pop(number, None)
        self.ledger.attempts.pop(number, None)
        self.answer_error(entry, error)

    def answer_error(self, entry: Entry, error: int) -> None:
        """Answers a request that has left the ledger, without a body; `error`: 0 or -errno."""
        if entry.slot >= 0:
            self._free.append(entry.slot)
        if not entry.unique:
            return
        self.answer(entry.unique, error)
        if entry.message is not None:
            self._apply_reply(entry, error, memoryview(b""))
        elif self._trace is not None and self._trace.on:
            _, op, _, node, handle, offset, _, started, job, _ = entry
            self._trace.record_request(op, node, handle, offset, 0, started, monotonic_ns(), job, -error)

    # -- the connection ----------------------------------------------------------------------------------------

    def attach(self, link: Link) -> None:
        """Takes a connection: its memory first, then everything outstanding is sent on it."""
        if link.slots is not None:
            self.take_memory(list(link.slots.views))
        elif not self._views or self.failover.was_shared:
            self.take_memory([memoryview(bytearray(SLOT_BYTES)) for _ in range(24)])
        self.failover.was_shared = link.slots is not None
        self.link = self.outlet = link
        self._inspect = self._inspect_reply if link.checksum or self.passthrough is not None else None
        self._link_events = _READABLE
        self._poll.register(link.descriptor, _READABLE)
        self.failover.announce_jobs(everything=True)
        ledger = self.ledger
        try:
            waiting = [number for number, entry in ledger.requests.items() if entry.unique]
            # A request that was sent before may have been carried out: the flag makes it happen once.
            self.retried = {number for number in waiting if number not in ledger.unsent}
            ledger.unsent.clear()
            for number in waiting:
                self.send(number, int(Flag.RETRY) if number in self.retried else 0)
            link.flush()
        except LinkLostError as lost:
            self.drop_link(str(lost))

    def send(self, number: int, flags: int = 0) -> None:
        """Sends an outstanding request (again)."""
        link = self.link
        assert link is not None
        _, op, slot, _, handle, _, size, _, job, message = self.ledger.requests[number]
        if message is None:
            view = self._views[slot]
            data = size if op == _WRITE else 0
            if link.slots is not None:
                link.put_slotted(number, job, slot, view, data, flags)
            else:
                link.put(number, job, 0, view[: HEAD_BYTES + data], flags)
        else:
            chosen = handle if op < OPCODES and TREATMENTS[op] == OPENS else 0
            link.put(number, job, chosen, message, flags | (REQUEST_FLAGS[op] if op < OPCODES else 0))

    def take_memory(self, views: list[memoryview]) -> None:
        """Reads requests into these slots from now on; those under way are moved there."""
        used = self.ledger.move(self._views, views)
        self._views = views
        self._vectors = [(view,) for view in views]
        self._free = [slot for slot in range(len(views) - 1, -1, -1) if slot >= used]

    def detach(self) -> Link | None:
        """Stops using the connection; everything outstanding waits for the next one."""
        link = self.link
        if link is not None:
            self._poll.unregister(link.descriptor)
            self.link = self.outlet = None
            self.ledger.forget_own()
        return link

    def drop_link(self, reason: str) -> None:
        """The connection broke: looks for a forwarder."""
        link = self.detach()
        if link is not None:
            self._say(f"forwarder {link.connection.address} lost ({reason}); looking for another")
            link.close()
            self.failover.seek()

    def hold_requests(self) -> None:
        """New requests wait; replies still arrive."""
        self.outlet = None

    def resume_requests(self) -> None:
        """New requests are sent again, after those that waited."""
        self.outlet = self.link
        try:
            for number in list(self.ledger.unsent):
                self.send(number)
            self.ledger.unsent.clear()
            self.flush()
        except LinkLostError as lost:
            self.drop_link(str(lost))

    def flush(self) -> None:
        """Sends what is buffered."""
        if self.link is not None:
            try:
                self.link.flush()
            except LinkLostError as lost:
                self.drop_link(str(lost))

    def log(self, text: str) -> None:
        """Writes a line to the log."""
        self._say(text)
