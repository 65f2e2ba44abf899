"""Leader and followers: the leader waits for requests and carries the next one out itself; no request is handed over.

Waking another thread costs more than a small request. So the leader hands its post over only before a request that is
expected to be long, and a watchdog takes it away when a request turns out to be. A worker's states:

    idle          woken by the leader or the watchdog ──► leading
    leading       nothing to carry out ──► `gather` ──► leading
                  a short request ──► carrying out, still the leader ──► leading
                  a long request ──► the post goes to an idle worker; carrying out
    carrying out  done: no leader ──► leading; a request waits ──► carrying out; else idle
    watchdog      a leader inside one request for STUCK_NS loses its post to an idle worker

Invariants: there is at most one leader; `gather` is called by the leader alone; at most `size` requests are carried out
at once, by `size + 1` threads, so that one is always left to lead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Protocol

from fairlead.core.clock import monotonic_ns, sleep_s
from fairlead.decide.policies.requests.contract import WRITE, Discipline, Running
from fairlead.steer.forwarding.forwarder.aggregation import Aggregation
from fairlead.steer.forwarding.forwarder.request import LONG, Request
from fairlead.steer.fs.trees import thread_identity

log = logging.getLogger("fairlead.forwarder")
STUCK_NS = 2_000_000
"""A leader that is inside one request for longer loses its post."""
_WATCH_S = 0.002
_WATCH_ON = 25
"""Looks without work after which the watchdog sleeps until there is some."""
_LOOK_NS = 400_000
"""With requests waiting, the leader looks for new ones (which may come first) this often."""
_SLOW_NS = 200_000
"""Requests that take longer on average are worth waking a thread for, so that others need not wait."""
_DEAR_NS = 25_000
"""Small writes that take longer on average gain by being made one; looking for them costs quicker ones too much."""
_LARGE_SHIFT = 17
_KINDS = 6
"""Each class (3), small and large (128 KiB and more)."""


class Gathering(Protocol):
    """Where requests come from."""

    def gather(self, timeout_ns: int | None) -> list[Request]:
        """Wait for events (at most `timeout_ns`; None: no limit), handle them and return the requests to be queued."""

    def wake(self) -> None:
        """Make a waiting `gather` return; any thread."""


class _Worker:
    __slots__ = ("thread", "wake")

    def __init__(self) -> None:
        self.wake = Lock()
        self.wake.acquire()
        self.thread: Thread | None = None


class WorkerPool:
    """`size` workers at most carry out requests; one thread more, so that there is always one to lead."""

    def __init__(
        self,
        gathering: Gathering,
        carry_out: Callable[[Request], None],
        discipline: Discipline,
        *,
        size: int,
        aggregation: Aggregation | None = None,
    ) -> None:
        self.queued = discipline
        self._aggregation = aggregation
        self.running = Running()
        self._gathering = gathering
        self._carry_out = carry_out
        self._size = size
        self._lock = Lock()
        self._leader: _Worker | None = None
        self._idle: list[_Worker] = []
        self._stopping = False
        self._busy_since = 0  # when the leader began with a request; 0 while it leads
        self._sleeps_until: int | None = 0  # how long `gather` waits; None: for ever; 0: it does not wait
        self._mean_ns = [_SLOW_NS] * _KINDS  # moving average of the service time of each kind
        self._watch = Lock()
        self._watch.acquire()
        self._watching = False
        self._workers = [_Worker() for _ in range(size + 1)]
        self._watchdog = Thread(target=self._watch_leader, name="watchdog", daemon=True)

    def start(self) -> None:
        """Starts the threads."""
        for number, worker in enumerate(self._workers):
            worker.thread = Thread(target=self._work, args=(worker,), name=f"worker-{number}", daemon=True)
            worker.thread.start()
        self._watchdog.start()

    def stop(self, timeout_s: float) -> bool:
        """Ends the threads after what they are at; False when some did not end in time."""
        with self._lock:
            self._stopping = True
            idle, self._idle = self._idle, []
            if not self._watching:
                self._watching = True
                self._watch.release()
        for worker in idle:
            worker.wake.release()
        self._gathering.wake()
        until = monotonic_ns() + int(timeout_s * 1e9)
        for thread in [worker.thread for worker in self._workers] + [self._watchdog]:
            if thread is not None and thread.ident is not None:
                thread.join(max(0.0, (until - monotonic_ns()) / 1e9))
        return not any(worker.thread is not None and worker.thread.is_alive() for worker in self._workers)

    def add(self, requests: Sequence[Request]) -> None:
        """Queues requests again that were parked; any thread."""
        now = monotonic_ns()
        with self._lock:
            for request in requests:
                self.queued.add(request, now)
        self._gathering.wake()

    def drop(self, request: Request) -> bool:
        """Takes a waiting request out; False when a worker has it."""
        with self._lock:
            return self.queued.drop(request)

    def wait_less(self, until_ns: int) -> None:
        """Makes the leader wait no longer than until then; any thread."""
        sleeps = self._sleeps_until
        if sleeps is None or sleeps > until_ns:
            self._gathering.wake()

    def _work(self, me: _Worker) -> None:
        lock, queued, running, mean_ns = self._lock, self.queued, self.running, self._mean_ns
        carry_out, gathering = self._carry_out, self._gathering
        done: Request | None = None
        arrived: list[Request] = []
        looked_ns = began_ns = 0
        thread_identity.limit_thread_powers()
        while True:
            with lock:
                now = monotonic_ns()
                if done is not None:
                    running.note_end(done)
                    queued.finish(done, now)
                    kind = done.op_class + 3 if done.size >> _LARGE_SHIFT else done.op_class
                    mean_ns[kind] += (now - began_ns - mean_ns[kind]) >> 3
                    done = None
                for request in arrived:
                    queued.add(request, now)
                if self._stopping:
                    return
                if self._leader is None:
                    self._leader = me
                leading = self._leader is me
                waiting = len(queued)
                chosen = self._choose(waiting, now, leading, looked_ns) if waiting else None
                timeout_ns = None
                if chosen is None:
                    timeout_ns = self._rest(me, waiting, now, leading, looked_ns)
            arrived = []
            if chosen is not None:
                began_ns = now
                try:
                    carry_out(chosen)
                except Exception:  # a worker that ended would be missed for ever
                    log.exception("a bug in fairlead")
                done = chosen
            elif leading:
                try:
                    arrived = gathering.gather(timeout_ns)
                except Exception:  # a leader that ended would end the service of all
                    log.exception("a bug in fairlead")
                    sleep_s(_WATCH_S)
                self._sleeps_until = 0
                looked_ns = monotonic_ns()
            else:
                me.wake.acquire()

    def _choose(self, waiting: int, now: int, leading: bool, looked_ns: int) -> Request | None:
        """The one of the `waiting` requests to carry out now, entered as running; None when none may run, or the leader
        should look for new ones first. The lock is held."""
        queued, running = self.queued, self.running
        # Invariant "at most `size`": checked and entered under one lock.
        if running.total >= self._size or (leading and now - looked_ns > _LOOK_NS):
            return None
        request: Request | None = queued.take(now, running)  # type: ignore[assignment]  # what was added was a Request
        if request is None:
            return None
        running.note_start(request)
        aggregation = self._aggregation
        if waiting > 1 and aggregation is not None and request.op_class == WRITE and self._mean_ns[WRITE] > _DEAR_NS:
            request.along = aggregation.take_adjacent(queued, request, now)
        if leading:
            if waiting > 1 and self._idle and self._expects_long(request):
                # Invariant "one leader": the post is free before the worker that takes it is woken.
                self._leader = None
                self._idle.pop().wake.release()
            else:
                self._busy_since = now
                if not self._watching:
                    self._watching = True
                    self._watch.release()
        return request

    def _rest(self, me: _Worker, waiting: int, now: int, leading: bool, looked_ns: int) -> int | None:
        """How long the leader waits in `gather` (ns; None: until something comes); any other worker becomes idle. The
        lock is held."""
        if not leading:
            wake = self.queued.wake_ns(now) if waiting and self.running.total < self._size else None
            if wake is not None:
                self.wait_less(wake)
            self._idle.append(me)
            return None
        self._busy_since = 0
        timeout_ns: int | None = None
        if waiting and now - looked_ns > _LOOK_NS:
            timeout_ns = 0
        elif waiting:
            wake = self.queued.wake_ns(now) if self.running.total < self._size else None
            timeout_ns = None if wake is None else max(0, wake - now)
        self._sleeps_until = None if timeout_ns is None else now + timeout_ns
        return timeout_ns

    def _expects_long(self, request: Request) -> bool:
        kind = request.op_class + 3 if request.size >> _LARGE_SHIFT else request.op_class
        return self._mean_ns[kind] > _SLOW_NS or request.op in LONG

    def _watch_leader(self) -> None:
        quiet = 0
        self._watch.acquire()
        while True:
            sleep_s(_WATCH_S)
            busy_since = self._busy_since
            if busy_since and monotonic_ns() - busy_since > STUCK_NS:
                with self._lock:
                    if self._stopping:
                        return
                    # Invariant "one leader": `busy_since` is unchanged, so the leader is still inside that request.
                    if self._busy_since == busy_since and self._leader is not None and self._idle:
                        self._leader = None
                        self._busy_since = 0
                        self._idle.pop().wake.release()
            quiet = 0 if busy_since else quiet + 1
            if quiet > _WATCH_ON or self._stopping:
                with self._lock:
                    if self._stopping:
                        return
                    if self._busy_since:
                        continue
                    self._watching = False
                self._watch.acquire()
                quiet = 0
