"""A forwarder: listens, admits clients, and lets a crew of workers carry out what they ask of one tree.

One thread at a time, the leader, calls `gather`; all that belongs to connections but their answers happens there.
"""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from errno import EINTR
from typing import TYPE_CHECKING

from fairlead.core.access.token_ledger import RevokedTokens
from fairlead.core.clock import monotonic_ns
from fairlead.steer.forwarding.forwarder.admission import Admission
from fairlead.steer.forwarding.forwarder.aggregation import Aggregation
from fairlead.steer.forwarding.forwarder.buffers import BufferPool
from fairlead.steer.forwarding.forwarder.client_sessions import Session, SessionCloser, Sessions
from fairlead.steer.forwarding.forwarder.connection import Connection, FrameError
from fairlead.steer.forwarding.forwarder.exactly_once import Guard
from fairlead.steer.forwarding.forwarder.execution import Execution, Records
from fairlead.steer.forwarding.forwarder.intake import Intake
from fairlead.steer.forwarding.forwarder.job_proofs import JobProofs
from fairlead.steer.forwarding.forwarder.lease_grants import LeaseGrants
from fairlead.steer.forwarding.forwarder.listeners import Listeners, Settings
from fairlead.steer.forwarding.forwarder.lock_waiters import ParkedRequests
from fairlead.steer.forwarding.forwarder.token_watch import TokenWatch
from fairlead.steer.forwarding.forwarder.user_limits import FileLimits, find_file_capacity
from fairlead.steer.forwarding.forwarder.workers import WorkerPool
from fairlead.steer.fs.sessions import Handles
from fairlead.steer.fs.trees.base import ROOT
from fairlead.steer.fs.wire.address import Address
from fairlead.steer.fs.wire.handshake import Feature, Welcome, generate_handshake_id

if TYPE_CHECKING:
    from fairlead.decide.policies.requests.contract import Discipline
    from fairlead.steer.forwarding.forwarder.request import Request
    from fairlead.steer.fs.operations.dispatch import Operations

__all__ = ["Server", "Settings"]
log = logging.getLogger("fairlead.forwarder")
_EVENTS = 128
_IN, _OUT = select.EPOLLIN | select.EPOLLRDHUP, select.EPOLLOUT
_GONE = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP
_LATE_NS = 3_000_000_000
"""A request older than this may be another forwarder's by now (clients leave one that is silent for 10 s)."""
_LAST_READS = 256
_LINES_PER_S = 20


class Server:
    """Serves one tree. `start`, then `close`; everything else happens in its threads."""

    def __init__(
        self,
        operations: Operations,
        discipline: Discipline,
        settings: Settings,
        *,
        records: Records | None = None,
        intents_folder: int | None = None,
    ) -> None:
        """`intents_folder`: a descriptor of the tree's place for intents, this object's from now on; None: none."""
        revoked = RevokedTokens(settings.key_file)  # raises before anything is open
        self.settings = settings
        self.boot = generate_handshake_id()
        self.operations = operations
        operations.tells_made = True
        self._records = records
        self._guard = Guard(operations, intents_folder, self.boot) if intents_folder is not None else None
        new_intents = self._guard.get_session if self._guard is not None else None
        self.sessions = Sessions(Handles, int(settings.grace_s * 1e9), new_intents)
        self._parked = ParkedRequests()
        self._buffers = BufferPool()
        target_of = getattr(operations.tree, "find_target_name", None)
        admission = Admission(settings.key, settings.allow, lambda: revoked.ids)
        self._tokens = TokenWatch(settings.key, admission, revoked, self._say)
        self._checks_tokens = settings.key is not None
        self._files = FileLimits(find_file_capacity())
        self._intake = Intake(
            self._buffers,
            self._interrupt,
            target_of,
            self._released,
            proofs=JobProofs(settings.job_key, settings.allow),
            answer_token=self._tokens.answer_token,
        )
        self._connections: dict[int, Connection] = {}
        self._resumed: deque[Connection] = deque()
        self._next_end_ns: int | None = None  # when a session next ends
        self._closing = False
        self._lines = 0
        self._lines_second = 0
        self._epoll = select.epoll()
        self._poke = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._poke, _IN)
        aggregation = Aggregation()
        self._crew = WorkerPool(self, self._carry_out, discipline, size=settings.workers, aggregation=aggregation)
        lends = Feature.LEASES in settings.features
        self._lending = LeaseGrants(operations, self._crew.wait_less) if lends else None
        self._leases = self._lending.leases if self._lending is not None else None
        self._execution = Execution(
            operations,
            self._buffers,
            self._parked,
            records,
            self._guard,
            aggregation,
            self._lending,
            self._files,
            again=self._crew.add,
            listen=self._listen_again,
            wait_less=self._crew.wait_less,
            queue_length=discipline.__len__,
        )
        self._carry = self._execution.carry_out
        self._closer = SessionCloser(self._end_session)
        welcome = Welcome(
            forwarder=settings.name,
            boot=self.boot,
            export=operations.tree.name,
            grace_s=settings.grace_s,
            root=operations.tree.stat(ROOT).st_ino,
        )
        self._reception = Listeners(
            settings,
            self._epoll,
            self.sessions,
            self._buffers,
            welcome,
            admission,
            change_mask=self._change_mask,
            admitted=self._admitted,
            replaced=self._replaced,
            say=self._say,
        )

    def listen(self, address: Address) -> Address:
        """Listens there too (before `start`) and returns the address, with the port that was chosen for port 0.

        RefusedError when it cannot, or must not without a token key.
        """
        return self._reception.listen(address)

    def start(self) -> None:
        """Starts to serve."""
        self._closer.start()
        self._crew.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Finishes what is being carried out, ends all connections, removes the unix sockets, closes the tree."""
        if self._closing:
            return
        self._closing = True
        self._reception.stop_listening()
        ended = self._crew.stop(timeout_s)
        for connection in self._connections.values():
            connection.flush()
            connection.end()
        self._reception.close()
        self._closer.stop(timeout_s)
        if ended:  # else a worker is stuck in the file system below; the process ends anyway
            self._epoll.close()
            os.close(self._poke)
            self.operations.tree.close()
            if self._guard is not None:
                self._guard.close()

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def wake(self) -> None:
        """Ends the leader's waiting."""
        os.eventfd_write(self._poke, 1)

    def gather(self, timeout_ns: int | None) -> list[Request]:
        """See `crew.Gathering`."""
        requests: list[Request] = []
        connections = self._connections
        for fd, event in self._epoll.poll(self._patience(timeout_ns), _EVENTS):
            connection = connections.get(fd)
            if connection is not None:
                if event & _OUT:
                    connection.flush()
                    if not connection.listening:
                        self._listen_if_relaxed(connection)
                if event & ~_OUT:
                    self._receive(connection, requests, event)
            elif fd == self._poke:
                os.eventfd_read(fd)
            else:
                self._reception.handle_ready(fd)
        if self._resumed:
            self._take_in_more(requests)
        if self._next_end_ns is not None or len(self._parked) or self._reception.next_deadline_ns is not None:
            self._look_after_time(requests)
        if self._checks_tokens and self._connections:
            now = monotonic_ns()
            if self._tokens.next_ns <= now:
                self._tokens.look_after_time(self._connections.values(), now)
        if self._leases:
            for connection in self._leases.list_overdue(monotonic_ns()):
                self._lose(connection, "ended: it has not dropped what it cached in time", warn=True)
        return requests

    def _patience(self, timeout_ns: int | None) -> float:
        """Seconds to wait: until the first thing that has a time."""
        if timeout_ns == 0:
            return 0.0
        ends = self._next_end_ns
        parked = self._parked.find_next_ns()
        hello = self._reception.next_deadline_ns
        leases = self._leases.find_next_ns() if self._leases else None
        tokens = self._tokens.next_ns if self._checks_tokens and self._connections else None
        if ends is None and parked is None and hello is None and leases is None and tokens is None:
            return -1.0 if timeout_ns is None else timeout_ns / 1e9
        until = min(time for time in (ends, parked, hello, leases, tokens) if time is not None)
        wait = max(0, until - monotonic_ns())
        return (wait if timeout_ns is None else min(wait, timeout_ns)) / 1e9

    def _look_after_time(self, requests: list[Request]) -> None:
        now = monotonic_ns()
        requests += self._parked.take_due(now)
        hello = self._reception.next_deadline_ns
        if hello is not None and hello <= now:
            self._reception.look_after_time(now)
        if self._next_end_ns is not None and self._next_end_ns <= now:
            for session in self.sessions.pop_expired(now):
                self._closer.close(session)
            self._next_end_ns = self.sessions.find_next_end_ns()

    def _end_session(self, session: Session) -> None:
        if self._records is not None:
            self._records.record_disconnect(session.id)
        try:
            self.operations.end(session.handles)
            self._files.end(session.handles)
            if self._guard is not None:
                self._guard.end(session.id, farewell=session.farewell)
        except Exception:  # one session's fault must not keep the others from being ended
            log.exception("client %s: its open files could not all be closed", session.node)
        released = self._parked.take_unlocked(None)
        if released:
            self._crew.add(released)

    def _admitted(self, connection: Connection) -> None:
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, _IN)
        if connection.leases and self._leases is not None:
            self._leases.join(connection)
        if self._records is not None:
            self._records.record_connect(connection.session.node, connection.session.id)

    def _replaced(self, connection: Connection) -> None:
        self._lose(connection, "its client has connected again")

    def _receive(self, connection: Connection, requests: list[Request], event: int) -> None:
        try:
            if event & _GONE:
                if connection.listening:
                    self._hear_out(connection)
                self._lose(connection, "closed by the client")
                return
            open_still = connection.receive()
            self._take_in(connection, requests)
        except FrameError as fault:
            self._lose(connection, f"ended: {fault}", warn=True)
        except OSError as error:
            self._lose(connection, str(error))
        except Exception:  # a defect that one client's frame brings to light must not end the service of all others
            log.exception("%s: a bug in fairlead; the connection is closed", connection.name)
            self._lose(connection, "ended")
        else:
            if not open_still:
                self._lose(connection, "closed by the client")

    def _hear_out(self, connection: Connection) -> None:
        """The last words of a client that has gone. Nobody waits for answers, and if this process was stopped, another
        forwarder has carried it all out and more since: only a farewell counts."""
        for _ in range(_LAST_READS):
            more = connection.receive()
            while (frame := connection.take_frame()) is not None:
                self._intake.accept_frame(connection, frame, 0)
            if not more:
                return

    def _take_in(self, connection: Connection, requests: list[Request]) -> None:
        """Makes requests of what has come in, until the client has asked enough for now."""
        accept, take_frame = self._intake.accept_frame, connection.take_frame
        now = monotonic_ns()
        while not connection.is_crowded():
            frame = take_frame()
            if frame is None:
                return
            request = accept(connection, frame, now)
            if request is not None:
                requests.append(request)
            if not connection.filled:
                return
        with connection.lock:
            connection.backlog = True
            if connection.listening:
                connection.listening = False
                self._change_mask(connection)
        self._listen_if_relaxed(connection)  # the workers may have answered all of it just now

    def _take_in_more(self, requests: list[Request]) -> None:
        """What had come in from clients that may now go on."""
        while self._resumed:
            connection = self._resumed.popleft()
            if not connection.dead:
                self._receive(connection, requests, 0)

    def _lose(self, connection: Connection, why: str, *, warn: bool = False) -> None:
        if warn:
            self._say("%s: %s", connection.name, why)
        self._connections.pop(connection.fd, None)
        parked = list(connection.parked.values())
        self._parked.drop(parked)
        connection.parked.clear()
        connection.end()
        self._reception.remove(connection)
        self._detach(connection)
        if connection.leases and self._leases is not None:
            for answer in self._leases.leave(connection):
                answer()

    def _released(self, connection: Connection, number: int) -> None:
        """A client has dropped what was taken back."""
        if self._leases is not None:
            for answer in self._leases.confirm_release(connection, number):
                answer()

    def _detach(self, connection: Connection) -> None:
        session = connection.session
        if session.connection is not connection:
            return
        session.connection = None
        session.lost_ns = monotonic_ns()
        if connection.farewell:
            session.farewell = True
            session.lost_ns = 1  # long ago: ends with the next look at the time
            self._next_end_ns = 0
        else:
            self._next_end_ns = self.sessions.find_next_end_ns()

    def _carry_out(self, request: Request) -> None:
        if monotonic_ns() - request.arrived_ns > _LATE_NS:
            together, request.along = [request, *request.along], ()
            for one in together:
                if not one.connection.is_hung_up():
                    self._carry(one)
            return
        self._carry(request)

    def _interrupt(self, request: Request) -> None:
        """Only waiting for a lock is given up: programs do not expect EINTR from anything else."""
        if self._parked.interrupt(request):
            connection = request.connection
            connection.pending.pop(request.number, None)
            connection.answer(request.number, -EINTR, b"")

    def _change_mask(self, connection: Connection) -> None:
        """Tells the kernel what to wait for; the connection's lock is held."""
        if not connection.dead:
            mask = (_IN if connection.listening else 0) | (_OUT if connection.writing else 0)
            self._epoll.modify(connection.fd, mask)

    def _listen_again(self, request: Request) -> None:
        self._listen_if_relaxed(request.connection)

    def _listen_if_relaxed(self, connection: Connection) -> None:
        if connection.is_relaxed():
            with connection.lock:
                if connection.listening or connection.dead:
                    return
                connection.listening = True
                backlog, connection.backlog = connection.backlog, False
                self._change_mask(connection)
            if backlog:
                self._resumed.append(connection)
                self.wake()

    def _say(self, text: str, *values: object) -> None:
        """A line about a client, but never more of them than anybody reads."""
        second = monotonic_ns() // 1_000_000_000
        if second != self._lines_second:
            if self._lines > _LINES_PER_S:
                log.warning("%d more lines about clients were left out", self._lines - _LINES_PER_S)
            self._lines_second, self._lines = second, 0
        self._lines += 1
        if self._lines <= _LINES_PER_S:
            log.warning(text, *values)
