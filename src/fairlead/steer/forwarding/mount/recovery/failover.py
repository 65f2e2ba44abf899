"""When the forwarder is lost or another is wanted: connect, restore files and locks there, send requests again.

Connecting and restoring is done by a thread, so that the mount's own goes on reading requests, interrupting and ending.
Not here: what is restored (`fs.client.held_state`), what one refused request needs (`repairs`).

                     link lost                       patience_s is over
    +---------+ ------------------> +---------+ ----------------------> +---------+
    | serving |                     | seeking |                         | failing |  requests get EIO
    +---------+ <------------------ +---------+                         +---------+
      |  ^  ^      a forwarder answers,   ^                                  |
      |  |  |      state restored         |                                  |
      |  |  +--------------------------------------- a forwarder answers ----+
      |  |                                |
      |  | not drained in _DRAIN_S        | drained: locks move to the new forwarder;
      |  | (stays where it is)            | or a link is lost
      |  |                                |
      |  +-------------------------- +--------+
      +----------------------------> | moving |  new requests wait, the old forwarder finishes
          remap: the new one answers +--------+
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from fairlead.core.clock import monotonic_s
from fairlead.core.errors import FairleadError, RefusedError, UnreachableError
from fairlead.steer.forwarding.mount.recovery.forwarder_timeout import ForwarderTimeout
from fairlead.steer.forwarding.mount.recovery.repairs import Repairs
from fairlead.steer.forwarding.mount.relay.ledger import Entry
from fairlead.steer.forwarding.mount.relay.passthrough_files import explain_no_passthrough_descriptors
from fairlead.steer.fs.client.link import Link, LinkLostError
from fairlead.steer.fs.client.own_requests import build_own_job_request, build_own_request, send_own_farewell
from fairlead.steer.fs.client.reclaim import reclaim_locks, reclaim_open_files
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.wire.address import Address, parse_address
from fairlead.steer.fs.wire.frames import Notice, Own

if TYPE_CHECKING:
    from fairlead.steer.forwarding.mount.recovery.token_renewal import TokenRenewal
    from fairlead.steer.forwarding.mount.relay.lease_returns import LeaseReturns
    from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0
_TICK_S = 0.1
_DRAIN_S = 20.0
"""How long a remap waits for the old forwarder to answer everything."""
_RELEASES = (Op.RELEASE, Op.RELEASEDIR)


class Failover:
    """The state of a mount's connection, in `state`. All methods but `remap` are the mount's thread's."""

    def __init__(self, mount: RelayMount, *, patience_s: float) -> None:
        self._mount = mount
        self._patience_s = patience_s
        self.state = "serving"
        self.count = 0
        """Connections after the first one."""
        self.was_shared = False
        """Whether the last connection had shared slots."""
        self.lease_returns: LeaseReturns | None = None
        """Drops what the kernel keeps, in a mount with a cache."""
        self.token: TokenRenewal | None = None
        """Keeps the token in force, in a mount with one."""
        self._since = 0.0
        self._generation = 0
        """Raised when a new search begins: what an older one finds is closed."""
        self.timeout = ForwarderTimeout(mount)
        self._repairs = Repairs(mount)
        self._ending = threading.Event()
        self._next: Link | None = None
        self._drain_until = 0.0
        self._moved: SimpleQueue[str | FairleadError] | None = None
        self._shelf: dict[int, Entry] = {}
        """Lock requests that wait at the old forwarder while the mount moves."""
        self._complained = False

    # -- a connection was lost ---------------------------------------------------------------------------------

    def seek(self) -> None:
        """Looks for a forwarder in the background, beginning with the last one."""
        if self._next is not None:
            self._next.close()
            self._next = None
            self._tell(UnreachableError("the old forwarder was lost meanwhile", remedy="the mount looks for another"))
        self._unshelve()
        if self.lease_returns is not None:
            self.lease_returns.drop_all()
        self.state = "seeking"
        self._since = monotonic_s()
        self._complained = False
        self._start(self._seek, self._mount.dial.addresses, self._mount.dial.current)

    def _start(self, work: object, *arguments: object) -> None:
        self._generation += 1
        threading.Thread(
            target=work,  # type: ignore[arg-type]
            args=(self._generation, *arguments),
            name="failover",
            daemon=True,
        ).start()

    def _seek(self, generation: int, addresses: list[Address], first: int) -> None:
        pause = _FIRST_PAUSE_S
        told = ""
        while self._current(generation):
            for step in range(len(addresses)):
                index = (first + step) % len(addresses)
                try:
                    link = Link(self._mount.dial.connect(addresses[index], timeout_s=2.0))
                except (UnreachableError, RefusedError) as error:
                    if isinstance(error, RefusedError) and str(error) != told:
                        told = str(error)
                        self._mount.log(told)
                    continue
                if self._reclaimed(link):
                    self._mount.call_soon(lambda link=link, index=index: self._arrived(link, generation, index))  # type: ignore[misc]
                    return
            self._ending.wait(pause)
            pause = min(pause * 1.5, _LAST_PAUSE_S)

    def _reclaimed(self, link: Link, old: Link | None = None) -> bool:
        """Restores open unlinked files and locks; false when the connection broke meanwhile. `old` is closed."""
        try:
            mount = self._mount
            if not link.connection.welcome.resumed:
                reclaim_open_files(link, mount.nodes, mount.holdings, mount.ledger.ids, mount.log)
            if old is not None:
                # An unlinked file is open at the new forwarder before the old one closes it: its last close removes it.
                with suppress(LinkLostError):
                    send_own_farewell(old, mount.ledger.ids)
                old.close()
            if not link.connection.welcome.resumed:
                # Locks only now: the old forwarder had them until it was left, and two may not hold one lock.
                reclaim_locks(link, mount.holdings, mount.ledger.ids, mount.log)
        except LinkLostError:
            link.close()
            return False
        return True

    def _current(self, generation: int) -> bool:
        return generation == self._generation and not self._ending.is_set()

    def _arrived(self, link: Link, generation: int, index: int) -> None:
        if generation != self._generation or self._ending.is_set():
            link.close()
            return
        self._mount.dial.current = index
        self._serve(link)

    def _serve(self, link: Link) -> None:
        self.state = "serving"
        self.count += 1
        self._mount.log(f"served by {link.connection.address}")
        if self.lease_returns is not None:
            self.lease_returns.drop_all()
        if self._mount.passthrough is not None and (why := explain_no_passthrough_descriptors(link.connection)):
            self._mount.log(f"passthrough: none for files opened from now on: {why}")
        self._mount.attach(link)

    def check_patience(self) -> None:
        """Called every _TICK_S while there is no connection: gives up waiting after the patience."""
        if self.state == "seeking" and monotonic_s() - self._since > self._patience_s:
            self.state = "failing"
            self._mount.log(f"no forwarder for {self._patience_s:.0f} s: requests get EIO until there is one")
        if self.state == "failing":
            for number, entry in list(self._mount.ledger.requests.items()):
                # A close succeeds: what was open went with the forwarder.
                self._mount.finish(number, 0 if entry.op in _RELEASES else -errno.EIO)

    def count_outage_s(self) -> float:
        """Seconds without a connection."""
        return 0.0 if self.state == "serving" else monotonic_s() - self._since

    def pause_s(self) -> float:
        """Seconds the mount's thread may wait for events; -1: for ever."""
        if self._repairs.postponed:
            self._repairs.resend_postponed()
            return 0.02
        if self.state == "serving":
            return self.timeout.pause_s()
        if self.state == "moving":
            self._drained()
        return _TICK_S

    def end(self) -> None:
        """The mount ends."""
        link = self._mount.link
        if link is not None:
            with suppress(LinkLostError):
                send_own_farewell(link, self._mount.ledger.ids)
        self._ending.set()
        self._generation += 1
        if self._next is not None:
            self._next.close()
        self._tell(UnreachableError("the mount has ended"))

    # -- other forwarders are wanted ---------------------------------------------------------------------------

    def remap(self, addresses: Sequence[str], *, within_s: float) -> str:
        """See `RelayMount.remap`. For other threads."""
        wanted = [parse_address(text) for text in addresses]
        if not wanted:
            raise UnreachableError("no forwarder was named", remedy="give at least one address")
        done: SimpleQueue[str | FairleadError] = SimpleQueue()
        self._mount.call_soon(lambda: self._remap(wanted, done))
        try:
            outcome = done.get(timeout=within_s)
        except Empty:
            raise UnreachableError(
                "the mount has not moved in time", remedy="look at its log; it goes on where it is"
            ) from None
        if isinstance(outcome, FairleadError):
            raise outcome
        return outcome

    def _remap(self, wanted: list[Address], done: SimpleQueue[str | FairleadError]) -> None:
        mount = self._mount
        if self._moved is not None:
            done.put(RefusedError("the mount is being moved already", remedy="try again in a moment"))
            return
        if mount.link is None:
            mount.dial.addresses[:] = wanted
            mount.dial.current = 0
            self.seek()
            done.put(str(wanted[0]))
            return
        here = mount.link.connection.address
        if here in wanted:
            mount.dial.addresses[:] = wanted
            mount.dial.current = wanted.index(here)
            if wanted[0] == here:
                done.put(str(here))
                return
        self._moved = done
        self._start(self._prepare, wanted)

    def _prepare(self, generation: int, wanted: list[Address]) -> None:
        """Connects to the first of them that answers."""
        error: FairleadError = UnreachableError("no forwarder answers")
        for index, address in enumerate(wanted):
            try:
                link = Link(self._mount.dial.connect(address))
            except (UnreachableError, RefusedError) as failed:
                error = failed
                continue
            self._mount.call_soon(lambda link=link, index=index: self._drain(link, wanted, index, generation))  # type: ignore[misc]
            return
        self._mount.call_soon(lambda: self._tell(error))

    def _drain(self, link: Link, wanted: list[Address], index: int, generation: int) -> None:
        mount = self._mount
        if generation != self._generation:
            link.close()
            self._tell(UnreachableError("the forwarder was lost meanwhile", remedy="the mount looks for another"))
            return
        mount.dial.addresses[:] = wanted
        mount.dial.current = index
        old = mount.link
        assert old is not None
        if old.connection.address == link.connection.address:
            link.close()
            self._tell(str(old.connection.address))
            return
        self.state = "moving"
        self._next = link
        self._drain_until = monotonic_s() + _DRAIN_S
        mount.hold_requests()
        # A lock request may wait for ever, so it does not count as outstanding: it is interrupted here, and sent to the
        # new forwarder when the old one has answered EINTR.
        for number, entry in list(mount.ledger.requests.items()):
            if entry.op == Op.SETLKW and entry.unique:
                self._shelf[number] = entry
                mount.ledger.requests[number] = entry._replace(unique=0)
                old.put(next(mount.ledger.ids), 0, 0, build_own_request(Op.INTERRUPT, 0, number.to_bytes(8, "little")))
        old.flush()

    def _drained(self) -> None:
        """Changes to the new forwarder once the old one has answered everything; no request is at both."""
        mount, link = self._mount, self._next
        if link is None:
            return
        if mount.ledger.count_waiting():
            if monotonic_s() > self._drain_until:
                self._next = None
                link.close()
                self.state = "serving"
                mount.resume_requests()
                self._tell(UnreachableError("the old forwarder has not finished in time", remedy="try again later"))
            return
        old = mount.detach()
        assert old is not None
        self._next = None
        self.state = "seeking"
        self._since = monotonic_s()
        self._start(self._change, old, link)

    def _change(self, generation: int, old: Link, link: Link) -> None:
        """Moves open files and locks to the new forwarder."""
        kept = self._reclaimed(link, old)
        old.close()
        self._mount.call_soon(lambda: self._changed(link if kept else None, generation))

    def _changed(self, link: Link | None, generation: int) -> None:
        if link is None or generation != self._generation:
            self.seek()
            self._tell(UnreachableError("the new forwarder was lost at once", remedy="the mount looks for another"))
            return
        self._serve(link)
        self._tell(str(link.connection.address))

    def _tell(self, outcome: str | FairleadError) -> None:
        if self._moved is not None:
            self._moved.put(outcome)
            self._moved = None

    def _unshelve(self) -> None:
        """Lock requests of the shelf wait for the next connection."""
        for number, entry in self._shelf.items():
            self._mount.ledger.requests[number] = entry
            self._mount.ledger.unsent[number] = None
        self._shelf.clear()

    # -- replies that are not for the kernel -----------------------------------------------------------------------

    def announce_jobs(self, *, everything: bool = False) -> None:
        """Sends the forwarder the jobs it does not know yet."""
        mount = self._mount
        jobs = mount.jobs
        indexes = list(jobs.identities) if everything else jobs.unannounced
        link = mount.outlet
        if link is not None:
            for index in indexes:
                number = next(mount.ledger.ids)
                mount.ledger.requests[number] = Entry(op=int(Own.JOB), job=index)
                link.put(number, 0, 0, build_own_job_request(index, msgspec.json.encode(jobs.identities[index])))
        jobs.unannounced.clear()

    def settle_reply(self, number: int, entry: Entry, error: int, body: memoryview) -> None:
        """Takes a refusal, or the answer to a request of fairlead's own."""
        shelved = self._shelf.pop(number, None)
        if shelved is not None:
            if error == -errno.EINTR:
                self._mount.ledger.requests[number] = shelved
                if self._mount.outlet is None:
                    self._mount.ledger.unsent[number] = None
                else:
                    self._mount.send(number)
            else:
                self._mount.answer_error(shelved, min(error, 0))
        elif entry.unique:
            self._repairs.repair_request(number, entry, error)
        elif entry.op == Own.JOB:
            if error and not self._complained:
                self._complained = True
                self._mount.log("the forwarder does not accept a job of this mount: its requests go without a name")
        elif entry.op == Own.TOKEN:
            if self.token is not None:
                self.token.settle(entry, error, bytes(body))
        else:
            self._repairs.continue_repair(number, error)

    def handle_notice(self, kind: int, body: memoryview) -> None:
        """Takes a message the forwarder sent without being asked."""
        link = self._mount.link
        if self.lease_returns is not None and link is not None and kind == Notice.REVOKE:
            self.lease_returns.drop_revoked(link, body)
