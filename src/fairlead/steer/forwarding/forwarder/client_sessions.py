"""Sessions of clients: open files and answers that outlive a lost connection for a while. No sockets.

    Hello, unknown id ──► connected ── connection lost ─────► lost ── grace_s over ──► ended
                             ▲  │                              │                        ▲
                             │  └─ DESTROY, then closed ───────┼────────────────────────┘
                             └──── Hello, same id and secret ──┘

A Hello for a session that is still connected replaces the old connection. Ended: files closed, locks released.
"""

from __future__ import annotations

import hmac
import itertools
import os
import pwd
from collections import OrderedDict
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from fairlead.core.access.tokens import Claims
from fairlead.steer.fs.wire.handshake import Hello

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.connection import Connection
    from fairlead.steer.forwarding.forwarder.exactly_once import SessionIntents
    from fairlead.steer.forwarding.forwarder.request import Request
    from fairlead.steer.fs.sessions import Handles

_numbers = itertools.count(1)
NOBODY = 65534
MAX_SESSIONS = 4096
KEPT_ANSWERS = 2048
"""More than a client may have unanswered, so that the answer to what it repeats is still here."""


ANY_USER, ANY_BUT_ROOT = -1, -2
"""Values of `Authority.uid` that are no user: the user each request names; the same, but root acts as nobody."""


class Authority(NamedTuple):
    """As whom a client may act."""

    uid: int = ANY_USER
    """This user only, or `ANY_USER`, or `ANY_BUT_ROOT`."""
    gid: int = -1
    """A group that is known to be its (-1: ask the system)."""
    job: str = ""
    """May announce this job only (empty: any)."""
    claims: Claims | None = None
    """Of the token that says so; None for who the kernel says it is."""
    token_id: str = ""
    """By which that token is revoked."""


class Session:
    """What a forwarder keeps of one mount: its open files, and what it answered last."""

    def __init__(
        self, hello: Hello, authority: Authority, handles: Handles, intents: SessionIntents | None = None
    ) -> None:
        self.id = hello.session
        self.number = next(_numbers)
        """Stands for the job of requests that name none: clients without jobs share as clients."""
        self.secret = hello.secret
        self.node = hello.node
        self.authority = authority
        self.handles = handles
        self._groups: list[int] | None = None
        self.intents = intents
        """What it is about to do, for whoever serves it next; None where the tree has no place for it."""
        self.farewell = False
        """The client has said that it will not come back."""
        self.connection: Connection | None = None
        self.lost_ns = 0
        """When its connection was lost; 0 while it has one."""
        self.running: dict[int, Request] = {}
        """Requests that a worker is at, by number: they end even when the connection is lost."""
        self._answers: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self.lock = Lock()
        """Guards `running` together with the answers."""

    def group(self, gid: int) -> int:
        """The group a request may act as that names `gid`, for a session of one user: one of his, else his first.

        Asks the system's databases once, which may take long: workers call it, the leader never.
        """
        authority = self.authority
        if gid == authority.gid:
            return gid
        groups = self._groups
        if groups is None:
            groups = self._groups = _groups(authority)
        return gid if gid in groups else groups[0]

    def finish(self, request: Request, error: int, body: bytes | memoryview) -> None:
        """A request that must not be carried out twice has been: its answer is remembered.

        A refusal and an error are not: nothing was done.
        """
        # Invariant "exactly once": from running to kept is one step for the leader, which takes the lock too.
        with self.lock:
            self.running.pop(request.number, None)
            if error == 0:
                answers = self._answers
                answers[request.number] = (error, bytes(body))
                if len(answers) > KEPT_ANSWERS:
                    answers.popitem(last=False)

    def find_answer(self, number: int) -> tuple[int, bytes] | None:
        """The answer given before, if it is known."""
        return self._answers.get(number)


def _groups(authority: Authority) -> list[int]:
    try:
        user = pwd.getpwuid(authority.uid)
    except KeyError:
        return [authority.gid if authority.gid >= 0 else NOBODY]
    first = authority.gid if authority.gid >= 0 else user.pw_gid
    return [first, *os.getgrouplist(user.pw_name, first)]


class Sessions:
    """All sessions by id. Only the leader calls it."""

    def __init__(
        self,
        new_handles: Callable[[], Handles],
        grace_ns: int,
        new_intents: Callable[[str], SessionIntents] | None = None,
    ) -> None:
        self._by_id: dict[str, Session] = {}
        self._new_handles = new_handles
        self._new_intents = new_intents
        self._grace_ns = grace_ns

    def __len__(self) -> int:
        return len(self._by_id)

    def attach(self, hello: Hello, authority: Authority) -> tuple[Session, bool]:
        """The client's session and whether it was there before; PermissionError with the reason when it is not its."""
        session = self._by_id.get(hello.session)
        if session is not None:
            # Invariant: a session never changes its owner or its rights.
            if not hmac.compare_digest(session.secret, hello.secret):
                raise PermissionError("this session belongs to another client")
            if session.authority.uid != authority.uid or session.authority.job != authority.job:
                raise PermissionError("this session was begun with other rights")
            session.authority = authority  # the same rights, perhaps for longer
            return session, True
        if len(self._by_id) >= MAX_SESSIONS:
            raise PermissionError("too many clients")
        intents = self._new_intents(hello.session) if self._new_intents is not None else None
        session = self._by_id[hello.session] = Session(hello, authority, self._new_handles(), intents)
        return session, False

    def pop_expired(self, now_ns: int) -> list[Session]:
        """Takes out the sessions whose connection has been lost for too long."""
        gone = [s for s in self._by_id.values() if s.lost_ns and now_ns - s.lost_ns >= self._grace_ns]
        for session in gone:
            del self._by_id[session.id]
        return gone

    def find_next_end_ns(self) -> int | None:
        """When the next one expires; None when none will."""
        return min((s.lost_ns + self._grace_ns for s in self._by_id.values() if s.lost_ns), default=None)


class SessionCloser:
    """One thread that ends sessions, one after the other: closing a file may take as long as the file system likes, and
    nobody shall wait for it."""

    def __init__(self, end: Callable[[Session], None]) -> None:
        self._end = end
        self._queue: SimpleQueue[Session | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="closer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self, session: Session) -> None:
        """Ends a session soon."""
        self._queue.put(session)

    def stop(self, timeout_s: float) -> None:
        """Ends the thread after what it was given."""
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while (session := self._queue.get()) is not None:
            self._end(session)
