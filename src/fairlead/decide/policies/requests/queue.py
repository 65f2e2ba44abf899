"""The discipline a forwarder runs: an order among lanes, and the limits that hold lanes back.

A lane that is held back leaves the order, so that it costs nothing until what holds it changes. A request that waits
alone never enters the order at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import ceil

from fairlead.decide.policies.requests.contract import METADATA, Running, Waiting
from fairlead.decide.policies.requests.limits import FREE, JOB_AT_MOST, JOB_OVER, TARGET_OVER, USER_AT_MOST, Limits
from fairlead.decide.policies.requests.orders import (
    CAPPED,
    IDLE,
    ORDERED,
    TIMED,
    YIELDING,
    Lane,
    Order,
    pull_order_lane,
    push_order_lane,
)

ALONG = 64
"""Requests of a lane that are looked at for going along with another one."""
LANES = 8192
"""Lanes that are remembered; above it the empty ones are dropped."""
_JOB, _TARGET, _USER = range(3)


class RequestQueue:
    """A `Discipline`: see `contract`. Not thread-safe. Calls cost O(log lanes), O(1) for a request that waits alone;
    `finish` lets in again what waited for that job or target."""

    def __init__(self, order: Order, limits: Limits) -> None:
        self.limits = limits
        self._order = order
        self._ended: Callable[[Waiting, int], None] | None = getattr(order, "ended", None)
        self._only: Waiting | None = None  # the one that waits, when it waits alone
        self._count = 0
        self._turn = 0
        self._user: int | None = None  # the first one seen
        self._shared = False  # whether there is another, whom a worker is kept for
        self._version = limits.version
        self._lanes: dict[tuple[str | int, int, object | None, int | None], Lane] = {}
        self._by_time: list[tuple[int, int, Lane]] = []  # held back by a rate, until then
        self._capped: dict[tuple[int, object], list[Lane]] = {}  # by (kind, job, target or user) that must end one
        self._yielding: list[tuple[int, int, Lane]] = []  # of these, the ones that may run while nothing else can

    def __len__(self) -> int:
        return self._count

    def add(self, waiting: Waiting, now_ns: int) -> None:
        """As `Discipline.add`."""
        self._turn = waiting.turn = self._turn + 1
        self._order.seen(waiting, now_ns)
        if not self._shared and waiting.user != self._user:
            self._shared = self._user is not None
            self._user = waiting.user
        self._count += 1
        if self._count == 1:
            self._only = waiting
            return
        only = self._only
        if only is not None:
            self._only = None
            self._queue(only, now_ns)
        self._queue(waiting, now_ns)

    def _queue(self, waiting: Waiting, now_ns: int) -> None:
        key = (waiting.job, waiting.op_class, waiting.target, waiting.user)
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= LANES:
                self._lanes = {k: kept for k, kept in self._lanes.items() if kept.state != IDLE}
            lane = self._lanes[key] = Lane(*key)
        lane.queue.append(waiting)
        if lane.state == IDLE:
            self._enter(lane, now_ns)

    def _enter(self, lane: Lane, now_ns: int) -> None:
        if lane.queue:
            lane.state = ORDERED
            self._order.enter(lane, now_ns)
        else:
            lane.state = IDLE

    def take(self, now_ns: int, running: Running) -> Waiting | None:
        """As `Discipline.take`."""
        only = self._only
        if only is not None:
            self._only = None
            limits = self.limits
            if (
                limits.find_hold(only.job, only.target, running, only.user if self._shared else None) < JOB_AT_MOST
                and self._free_ns(only) <= now_ns
            ):
                self._charge(only, now_ns)
                self._count = 0
                return only
            self._queue(only, now_ns)
        elif not self._count:
            return None
        if self._by_time:
            self._release(now_ns)
        return self._first(now_ns, running) or (self._first_over(now_ns, running) if self._yielding else None)

    def _first(self, now_ns: int, running: Running) -> Waiting | None:
        order, limits = self._order, self.limits
        while (lane := order.pick(now_ns)) is not None:
            if lane.queue:
                held = limits.find_hold(lane.job, lane.target, running, lane.user if self._shared else None)
                if held == FREE:
                    free_ns = self._free_ns(lane)
                    if free_ns <= now_ns:
                        return self._serve(lane, now_ns)
                    self._until(lane, free_ns)
                else:
                    self._cap(lane, held)
            else:
                lane.state = IDLE  # emptied by `drop`
            order.settle(None)
        return None

    def _first_over(self, now_ns: int, running: Running) -> Waiting | None:
        """The order is empty: the first of what is over a cap, by arrival, may have the worker."""
        yielding = self._yielding
        while yielding:
            lane = pull_order_lane(yielding)
            lane.yields = False
            if lane.state != YIELDING:
                continue
            if not lane.queue:
                lane.state = IDLE
                continue
            held = self.limits.find_hold(lane.job, lane.target, running, lane.user if self._shared else None)
            if held >= JOB_AT_MOST:
                self._cap(lane, held)
                continue
            free_ns = self._free_ns(lane)
            if free_ns > now_ns:
                self._until(lane, free_ns)
                continue
            self._order.enter(lane, now_ns)
            self._order.pick(now_ns)
            return self._serve(lane, now_ns)
        return None

    def _serve(self, lane: Lane, now_ns: int) -> Waiting:
        waiting = lane.queue.popleft()
        self._order.settle(waiting)
        self._enter(lane, now_ns)
        self._charge(waiting, now_ns)
        self._count -= 1
        if not self._count:
            self._order.emptied()
        return waiting

    def _until(self, lane: Lane, free_ns: int) -> None:
        lane.state = TIMED
        heappush(self._by_time, (free_ns, id(lane), lane))

    def _cap(self, lane: Lane, held: int) -> None:
        if held == USER_AT_MOST:
            key: tuple[int, object] = (_USER, lane.user)
        else:
            key = (_JOB, lane.job) if held in (JOB_OVER, JOB_AT_MOST) else (_TARGET, lane.target)
        self._capped.setdefault(key, []).append(lane)
        if held > TARGET_OVER:
            lane.state = CAPPED
            return
        lane.state = YIELDING
        if not lane.yields:
            lane.yields = True
            push_order_lane(self._yielding, lane)

    def _free_ns(self, what: Waiting | Lane) -> int:
        if not self.limits.rated:
            return 0
        free_ns = 0.0
        for bucket in self.limits.list_buckets(what.job, what.target):
            # A rate in bytes has nothing to say about metadata.
            if bucket.operations or what.op_class != METADATA:
                free_ns = max(free_ns, bucket.free_ns())
        return ceil(free_ns)

    def _charge(self, waiting: Waiting, now_ns: int) -> None:
        if self.limits.rated:
            for bucket in self.limits.list_buckets(waiting.job, waiting.target):
                bucket.charge(waiting, now_ns)

    def _release(self, now_ns: int) -> None:
        by_time = self._by_time
        changed = self._version != self.limits.version
        self._version = self.limits.version
        while by_time and (changed or by_time[0][0] <= now_ns):
            self._enter(heappop(by_time)[2], now_ns)

    def take_along(
        self, waiting: Waiting, choose: Callable[[list[Waiting]], Sequence[Waiting]], now_ns: int
    ) -> Sequence[Waiting]:
        """As `Discipline.take_along`."""
        only = self._only
        if only is not None:
            if (only.job, only.op_class, only.target, only.user) != (
                waiting.job,
                waiting.op_class,
                waiting.target,
                waiting.user,
            ):
                return ()
            chosen = choose([only])
            if chosen:
                self._only = None
                self._count = 0
                self._charge(only, now_ns)
            return chosen
        lane = self._lanes.get((waiting.job, waiting.op_class, waiting.target, waiting.user))
        if lane is None or not lane.queue:
            return ()
        chosen = choose(list(islice(lane.queue, ALONG)))
        for one in chosen:
            lane.queue.remove(one)
            self._order.charge(one, now_ns)
            self._charge(one, now_ns)
        self._count -= len(chosen)
        if chosen and not self._count:
            self._order.emptied()
        return chosen

    def finish(self, waiting: Waiting, now_ns: int) -> None:
        """As `Discipline.finish`."""
        if self._ended is not None:
            self._ended(waiting, now_ns)
        if self._capped:
            for key in ((_JOB, waiting.job), (_TARGET, waiting.target), (_USER, waiting.user)):
                for lane in self._capped.pop(key, ()):
                    if lane.state in (CAPPED, YIELDING):
                        self._enter(lane, now_ns)

    def drop(self, waiting: Waiting) -> bool:
        """As `Discipline.drop`; O(requests of its lane)."""
        if self._only is waiting:
            self._only = None
            self._count = 0
            return True
        lane = self._lanes.get((waiting.job, waiting.op_class, waiting.target, waiting.user))
        if lane is None or waiting not in lane.queue:
            return False
        lane.queue.remove(waiting)  # an empty lane leaves the order when it is picked
        self._count -= 1
        return True

    def wake_ns(self, now_ns: int) -> int | None:
        """As `Discipline.wake_ns`."""
        by_time = self._by_time
        while by_time and not by_time[0][2].queue:
            heappop(by_time)[2].state = IDLE
        if not by_time:
            return None
        return now_ns if self._version != self.limits.version else max(by_time[0][0], now_ns)
