"""A mount whose requests go to forwarders: one thread between the kernel's device and the connection.

Requests are read into slots the forwarder shares, so data is never copied here. Not here: what happens when the
connection is lost (`failover`), what replies teach (`answers`).
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
from fairlead.steer.forwarding.mount.local_replies import KernelAnswers, to_stderr
from fairlead.steer.forwarding.mount.no_reply_requests import NoReplyRequests
from fairlead.steer.forwarding.mount.opcodes import (
    CLOSED,
    COPIED,
    DATA,
    HANDLE,
    LOCAL,
    OPCODES,
    OPENS,
    REQUEST_FLAGS,
    WAYS,
)
from fairlead.steer.forwarding.mount.prefetched_attributes import ATTRIBUTES_BYTES
from fairlead.steer.forwarding.mount.recovery.failover import Failover
from fairlead.steer.forwarding.mount.recovery.generations import HAS_ENTRY, Generations
from fairlead.steer.forwarding.mount.replies import ReplyEffects
from fairlead.steer.fs.client.dial import Connection, Dial
from fairlead.steer.fs.client.held_state import Holdings
from fairlead.steer.fs.client.job_identity import Jobs
from fairlead.steer.fs.client.link import Link, LinkLostError
from fairlead.steer.fs.client.node_names import Nodes
from fairlead.steer.fs.client.pending_requests import Entry, Ledger
from fairlead.steer.fs.fuse.abi import IN_HEADER, OUT_HEADER, Op
from fairlead.steer.fs.wire.frames import HEAD_BYTES, MAX_FRAME, PREFIX_BYTES, REPLY, Flag
from fairlead.steer.fs.wire.slots import SLOT_BYTES

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.passthrough_files import PassthroughFiles
    from fairlead.steer.fs.fuse.device import Device
    from fairlead.steer.fs.trace.recorder import Trace

_SLOT, _PARENT = int(Flag.SLOT), int(Flag.PARENT)
_READ, _WRITE, _RELEASE = int(Op.READ), int(Op.WRITE), int(Op.RELEASE)
_RELEASES = (_RELEASE, int(Op.RELEASEDIR))
_BATCH = 16
"""Requests read in one go before the connection gets its turn again."""
_FH_OFFSET, _FH, _COUNT = Struct("<QQI"), Struct("<Q"), Struct("<I")
_LAZY_S = 0.001
_READABLE, _WRITABLE = select.EPOLLIN, select.EPOLLOUT


class RelayMount:
    """Serves a mount from a forwarder. `run` returns when the mount is gone or `stop` was called.

    `device`: mounted, INIT answered (`negotiation.start`). `connection`: the first one (`dial.any()`), made before
    the mount so that a wrong address is an error of the command and not of the mount; None: made in the background.
    """

    def __init__(
        self,
        device: Device,
        dial: Dial,
        connection: Connection | None = None,
        *,
        trace: Trace | None = None,
        jobs: Jobs | None = None,
        descriptors: PassthroughFiles | None = None,
        patience_s: float = 60.0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.device, self.descriptors = device, descriptors
        self.dial = dial
        self.nodes = Nodes()
        self.generations = Generations()
        self.holdings = Holdings()
        self.ledger = Ledger()
        self.jobs = Jobs() if jobs is None else jobs
        self.link: Link | None = None
        """The connection; None while there is none."""
        self.outlet: Link | None = None
        """Where new requests go: the connection, or None while they must wait."""
        self.retried: set[int] = set()
        """Requests that were sent again on this connection because another one broke."""
        self.served = 0
        """Requests answered to the kernel so far."""
        self._answers = ReplyEffects(self.nodes, self.holdings, descriptors)
        self._trace, self._hot = trace, getattr(trace, "hot", (max, b"", iter(()), 1))
        if trace is not None:
            trace.identities = self.jobs.identities
        self._say = say if say is not None else to_stderr
        self._handles = 0
        self._opened_by: dict[int, int] = {}  # job by handle: a RELEASE is on nobody's behalf
        self._views: list[memoryview] = []
        self._vectors: list[tuple[memoryview]] = []
        self._free: list[int] = []
        self._silent = NoReplyRequests(self, trace)
        self._ended = False
        self._poll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._wishes: deque[Callable[[], None]] = deque()
        self._reading = False
        self._lazy = False
        self._link_events = 0
        self._fd = device.fd
        self._kernel = KernelAnswers(device.fd, self._say)
        self.answer = self._kernel.answer
        self.failover = Failover(self, patience_s=patience_s)
        os.set_blocking(device.fd, False)
        self._poll.register(self._wake, _READABLE)
        if connection is not None:
            self.attach(Link(connection))

    # -- from other threads ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends `run` soon. For other threads and signal handlers."""
        self._ended = True
        self.wake()

    def wake(self) -> None:
        """Makes the thread of the mount look at what was wished for."""
        os.eventfd_write(self._wake, 1)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Has `action` called by the thread of the mount."""
        self._wishes.append(action)
        self.wake()

    def remap(self, addresses: Sequence[str], *, within_s: float = 30.0) -> str:
        """Moves the mount to other forwarders and returns the address it is at then; I/O waits, none fails.

        UnreachableError or RefusedError when none of them takes it: the mount then stays where it is.
        """
        return self.failover.remap(addresses, within_s=within_s)

    def status(self) -> dict[str, object]:
        """What the mount is doing, for its control socket."""
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
        if self.link is None:
            if not self._views:
                self.take_memory([memoryview(bytearray(SLOT_BYTES)) for _ in range(4)])
            self.failover.seek()
        try:
            while not self._ended and not self._kernel.gone:
                try:
                    self._turn()
                except LinkLostError as lost:
                    self.lost(str(lost))
        finally:
            self.failover.end()
            if self.link is not None:
                self.link.close()
                self.link = None
            self._poll.close()

    def _turn(self) -> None:
        """Waits for something and does it."""
        self._arm()
        events = self._poll.poll(_LAZY_S if self._lazy else self.failover.pause_s())
        if self._lazy and not events:
            self._lazy = False
            if self.link is not None:
                self.link.flush()
        for descriptor, event in events:
            if descriptor == self._fd:
                if event & _READABLE:
                    self._requests()
                else:
                    self._ended = True  # EPOLLERR: unmounted
            elif descriptor == self._wake:
                os.eventfd_read(descriptor)
                while self._wishes:
                    self._wishes.popleft()()
            else:
                self._link_ready(event)
        if self.link is None:
            self.failover.step()

    def _arm(self) -> None:
        """Listens to the device only while there is room for what it says, to the connection as it needs."""
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
            self._replies(link)
            while link.secure and link.sock.pending():  # type: ignore[attr-defined]
                self._replies(link)

    # -- requests ----------------------------------------------------------------------------------------------

    def _requests(self) -> None:
        free, requests, ledger = self._free, self.ledger.requests, self.ledger
        views, vectors, known = self._views, self._vectors, self.jobs.known
        fd, link, opened_by, answers = self._fd, self.outlet, self._opened_by, self._answers
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
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                if error.errno != errno.ENODEV:
                    raise
                self._ended = True
                break
            view = views[slot]
            _, op, unique, node, uid, _, pid, _, _ = IN_HEADER.unpack_from(view)
            way = WAYS[op] if op < OPCODES else COPIED
            if way >= LOCAL:
                if way == LOCAL:
                    self._silent.take(op, unique, node, view[:length])
                    continue
                known_answer = answers.known(op, node, view[:length])
                if known_answer is not None:
                    self.answer(unique, *known_answer)
                    continue
                if way == CLOSED:
                    way = HANDLE
            now = monotonic_ns()
            hit = known.get(pid)
            job = hit[0] if hit is not None and now < hit[1] else self._job(pid, uid, now)
            number = next(ledger.ids)
            if way == DATA:
                handle, offset, size = _FH_OFFSET.unpack_from(view, 40)
                if not pid:
                    job = opened_by.get(handle, job)
                free.pop()
                requests[number] = (unique, op, slot, node, handle, offset, size, now, job, None)
                urgent = True
                if op == _WRITE:
                    answers.written.add(handle)
                if link is None:
                    ledger.unsent[number] = None
                elif link.slots is not None:
                    link.put_slotted(number, job, slot, view, size if op == _WRITE else 0)
                else:
                    link.put(number, job, 0, view[:length])
            else:
                message = bytes(view[:length])
                chosen = handle = 0
                if way == OPENS:
                    self._handles = chosen = handle = self._handles + 1
                    opened_by[handle] = job
                elif way == HANDLE:
                    (handle,) = _FH.unpack_from(message, 40)
                    if not pid:
                        job = opened_by.get(handle, job)
                    if op in _RELEASES:
                        opened_by.pop(handle, None)
                if op == _RELEASE:
                    released = True
                else:
                    urgent = True
                requests[number] = (unique, op, -1, node, handle, 0, 0, now, job, message)
                if link is None:
                    ledger.unsent[number] = None
                else:
                    link.put(number, job, chosen, message, REQUEST_FLAGS[op] if op < OPCODES else 0)
            if len(requests) == 1:
                break  # one at a time: nothing else is there most likely, so it goes out at once
        if link is None:
            return
        if released and not urgent:
            self._lazy = True  # nobody waits for a RELEASE: it goes with the next request, or in a moment
        else:
            link.flush()

    def _job(self, pid: int, uid: int, now: int) -> int:
        index = self.jobs.find(pid, uid, now)
        if self.jobs.unannounced:
            self.failover.announce()
        return index

    # -- replies -----------------------------------------------------------------------------------------------

    def _replies(self, link: Link) -> None:
        if not link.receive():
            return
        requests, free, views = self.ledger.requests, self._free, self._views
        buffer, view, fd, teach = link.buffer, link.view, self._fd, self._answers.effects
        trace, (pack, ring, place, room) = self._trace, self._hot
        at, end = link.begin, link.end
        while end - at >= PREFIX_BYTES:
            length, flags, _, number, error, _, count, crc = REPLY.unpack_from(buffer, at)
            begin = at + PREFIX_BYTES
            stop = begin + length
            if stop > end:
                if length > MAX_FRAME:
                    raise LinkLostError("a reply longer than allowed")
                break
            entry = requests.get(number)
            if link.checksum:
                in_slot = views[entry[2]][HEAD_BYTES : HEAD_BYTES + count] if entry and flags & _SLOT else None
                link.check(at, length, flags, crc, in_slot)
            at = link.begin = stop
            if self.descriptors is not None:
                self.descriptors.take(link, flags, entry, error, view[begin:stop])
            if entry is None:
                if number == 0:
                    self.failover.handle_notice(error, view[begin:stop])
                continue
            unique, op, slot, node, handle, offset, size, started, job, message = requests.pop(number)
            if error > 0 or not unique:
                self.failover.special(number, entry, error, view[begin:stop])
                continue
            if flags & _SLOT and op == _READ:
                if count > size:
                    raise LinkLostError("a reply with more data than was asked for")
                answer = views[slot]
                OUT_HEADER.pack_into(answer, HEAD_BYTES - 16, 16 + count, error, unique)
                answer = answer[HEAD_BYTES - 16 : HEAD_BYTES + count]
                size = count
            else:
                if not error and length >= 40 and op < OPCODES and HAS_ENTRY[op]:
                    made = _FH.unpack_from(buffer, begin)[0]
                    nodes = self.nodes
                    self.generations.mark(op, view[begin:stop], held=nodes.held(made), named=not nodes.unlinked(made))
                if flags & _PARENT and length >= ATTRIBUTES_BYTES:
                    length -= ATTRIBUTES_BYTES
                    stop -= ATTRIBUTES_BYTES
                    self._answers.prefetched.put(node, bytes(view[stop : stop + ATTRIBUTES_BYTES]))
                OUT_HEADER.pack_into(buffer, begin - 16, 16 + length, error, unique)
                answer = view[begin - 16 : stop]
                if op == _READ:
                    size = length
                elif op == _WRITE and not error:
                    (size,) = _COUNT.unpack_from(buffer, begin)
            try:
                os.write(fd, answer)
            except OSError as failed:
                self._kernel.refused(failed, unique)
            if slot >= 0:
                free.append(slot)
            elif not error or op == _RELEASE:
                lesson = teach[op] if op < 64 else None
                if lesson is not None:
                    lesson(entry, view[begin:stop])
            elif error == -errno.ENODATA and op == Op.GETXATTR:
                self._answers.remember_absent(entry)
            self.served += 1
            if trace is not None:
                if slot < 0:
                    assert message is not None
                    trace.told(op, node, handle, message, view[begin:stop], started, monotonic_ns(), job, -error)
                elif trace.on:
                    pack(ring, next(place) % room, op, job, -error, node, handle, offset, size, started, monotonic_ns())
        # What came of the replies (repairs, forgotten nodes) goes out together.
        link.flush()

    def finish(self, number: int, error: int) -> None:
        """Ends an outstanding request with an errno of the mount's own."""
        entry = self.ledger.requests.pop(number)
        self.ledger.unsent.pop(number, None)
        self.ledger.attempts.pop(number, None)
        self.done(entry, error)

    def done(self, entry: Entry, error: int) -> None:
        """Answers a request that is no longer in the ledger, without a body."""
        unique, op, slot, node, handle, offset, _, started, job, message = entry
        if slot >= 0:
            self._free.append(slot)
        if not unique:
            return
        self.answer(unique, error)
        if not error or op == _RELEASE:
            lesson = self._answers.effects[op]
            if lesson is not None:
                lesson(entry, memoryview(b""))
        if self._trace is not None:
            if message is not None:
                self._trace.told(op, node, handle, message, memoryview(b""), started, monotonic_ns(), job, -error)
            elif self._trace.on:
                self._trace.request(op, node, handle, offset, 0, started, monotonic_ns(), job, -error)

    # -- the connection ----------------------------------------------------------------------------------------

    def attach(self, link: Link) -> None:
        """Takes a connection that is ready: its memory, then everything outstanding on it."""
        if link.slots is not None:
            self.take_memory(list(link.slots.views))
        elif not self._views or self.failover.was_shared:
            self.take_memory([memoryview(bytearray(SLOT_BYTES)) for _ in range(24)])
        self.failover.was_shared = link.slots is not None
        self.link = self.outlet = link
        self._link_events = _READABLE
        self._poll.register(link.descriptor, _READABLE)
        self.failover.announce(everything=True)
        ledger = self.ledger
        try:
            waiting = [number for number, entry in ledger.requests.items() if entry[0]]
            self.retried = {number for number in waiting if number not in ledger.unsent}
            ledger.unsent.clear()
            for number in waiting:
                self.send(number, int(Flag.RETRY) if number in self.retried else 0)
            link.flush()
        except LinkLostError as lost:
            self.lost(str(lost))

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
            chosen = handle if op < OPCODES and WAYS[op] == OPENS else 0
            link.put(number, job, chosen, message, flags | (REQUEST_FLAGS[op] if op < OPCODES else 0))

    def take_memory(self, views: list[memoryview]) -> None:
        """From now on requests are read into these slots."""
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

    def lost(self, reason: str) -> None:
        """The connection broke."""
        link = self.detach()
        if link is not None:
            self._say(f"forwarder {link.connection.address} lost ({reason}); looking for another")
            link.close()
            self.failover.seek()

    def hold(self) -> None:
        """New requests wait; answers still come in."""
        self.outlet = None

    def resume_requests(self) -> None:
        """New requests go out again, first those that waited."""
        self.outlet = self.link
        try:
            for number in list(self.ledger.unsent):
                self.send(number)
            self.ledger.unsent.clear()
            self.flush()
        except LinkLostError as lost:
            self.lost(str(lost))

    def flush(self) -> None:
        """Sends what is gathered."""
        if self.link is not None:
            try:
                self.link.flush()
            except LinkLostError as lost:
                self.lost(str(lost))

    def say(self, text: str) -> None:
        """A line for the log."""
        self._say(text)
