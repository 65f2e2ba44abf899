"""Orders among users and jobs: `job-fair`, `set-10` and `exclusive`. They share by service cost, in virtual time.

Start-time fair queueing (Goyal et al., SIGCOMM'96): every group has a tag that grows by cost/weight with each request
served; the smallest tag is next; a group that was idle starts at the tag served last, so it is next at once and has no
credit for its idle time.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from fairlead.decide.policies.requests.contract import Waiting
from fairlead.decide.policies.requests.orders import Lane, refuse_order_argument

REQUEST_BYTES = 64 << 10
"""What a request costs beside its bytes, in bytes: about what a worker could have moved meanwhile."""
REMEMBERED = 4096
"""Groups and jobs that are remembered; above it those without any claim are dropped."""
NS_PER_S = 1_000_000_000


def _compute_cost(waiting: Waiting) -> int:
    """Service cost of a request, in bytes."""
    return REQUEST_BYTES + waiting.size


class _Group:
    """Lanes that are served from one share, by rank, then arrival."""

    __slots__ = ("lanes", "tag", "weight")

    def __init__(self, tag: float, weight: float) -> None:
        self.tag = tag
        self.weight = weight
        self.lanes: list[tuple[int, int, int, Lane]] = []


class _Shares:
    """Groups by key, served in proportion to their weights. O(log groups + log lanes) a call."""

    __slots__ = ("_groups", "_heap", "_largest", "_now", "_picked")

    def __init__(self) -> None:
        self._groups: dict[object, _Group] = {}
        self._heap: list[tuple[float, int, int, _Group]] = []
        self._now = 0.0  # virtual time: the tag of the group served last
        self._largest = 0.0
        self._picked: _Group | None = None

    def enter(self, key: object, weight: float, lane: Lane, rank: int) -> None:
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= REMEMBERED:
                self._groups = {k: g for k, g in self._groups.items() if g.lanes or g.tag > self._now}
            group = self._groups[key] = _Group(self._now, weight)
        heappush(group.lanes, (rank, lane.queue[0].turn, id(lane), lane))
        if len(group.lanes) == 1:
            if group.tag < self._now:
                group.tag = self._now
            self._activate(group)

    def _activate(self, group: _Group) -> None:
        heappush(self._heap, (group.tag, group.lanes[0][1], id(group), group))

    def pick(self) -> Lane | None:
        while self._heap:
            tag, _, _, group = heappop(self._heap)
            if tag != group.tag:  # charged since it was put there
                self._activate(group)
                continue
            self._picked = group
            return heappop(group.lanes)[3]
        return None

    def settle(self, amount: int) -> None:
        group = self._picked
        assert group is not None, "settle follows a pick"  # noqa: S101
        if amount:
            self._now = group.tag
            group.tag += amount / group.weight
            if group.tag > self._largest:
                self._largest = group.tag
        if group.lanes:
            self._activate(group)

    def charge(self, key: object, amount: int) -> None:
        group = self._groups.get(key)
        if group is not None:
            group.tag += amount / group.weight
            if group.tag > self._largest:
                self._largest = group.tag

    def is_waiting(self) -> bool:
        return any(group.lanes for group in self._groups.values())

    def emptied(self) -> None:
        # Nobody waits any more: nobody keeps a claim on what was served till now.
        self._now = self._largest


class JobFair:
    """Every user that waits gets an equal share of service, and every waiting job of a user an equal part of that; who
    was idle is next at once. Where nothing is known of users, jobs share."""

    def __init__(self, argument: str = "", seed: int = 0) -> None:  # noqa: ARG002
        refuse_order_argument(argument)
        self._users = _Shares()
        self._jobs: dict[int | None, _Shares] = {}  # of each user
        self._picked: _Shares | None = None
        self._served: set[_Shares] = set()  # whose jobs were served since something last waited

    def seen(self, waiting: Waiting, now_ns: int) -> None:
        """Nothing to know."""

    def enter(self, lane: Lane, now_ns: int) -> None:  # noqa: ARG002
        """In its job's share of its user's share, by the arrival of its head."""
        # Invariant: a user's group holds one entry for each lane its jobs hold, so both run empty together.
        self._users.enter(lane.user, 1.0, lane, 0)
        jobs = self._jobs.get(lane.user)
        if jobs is None:
            if len(self._jobs) >= REMEMBERED:
                self._jobs = {user: shares for user, shares in self._jobs.items() if shares.is_waiting()}
            jobs = self._jobs[lane.user] = _Shares()
        jobs.enter(lane.job, 1.0, lane, 0)

    def pick(self, now_ns: int) -> Lane | None:  # noqa: ARG002
        """The first lane of the job that had the least service, of the user that had the least."""
        lane = self._users.pick()
        if lane is None:
            return None
        self._picked = self._jobs[lane.user]
        return self._picked.pick()

    def settle(self, served: Waiting | None) -> None:
        """Charges the user and the job."""
        assert self._picked is not None, "settle follows a pick"  # noqa: S101
        cost = 0 if served is None else _compute_cost(served)
        self._users.settle(cost)
        self._picked.settle(cost)
        self._served.add(self._picked)

    def charge(self, waiting: Waiting, now_ns: int) -> None:  # noqa: ARG002
        """Charges the user and the job."""
        cost = _compute_cost(waiting)
        self._users.charge(waiting.user, cost)
        if (jobs := self._jobs.get(waiting.user)) is not None:
            jobs.charge(waiting.job, cost)
            self._served.add(jobs)

    def emptied(self) -> None:
        """Forgets who had more."""
        self._users.emptied()
        for jobs in self._served:
            jobs.emptied()
        self._served.clear()


class _Rhythm:
    """When a job's I/O phases begin. A pause of `pause_ns` in which nothing arrived or ended ends a phase."""

    __slots__ = ("first_ns", "last_ns", "phase_ns", "phases")

    def __init__(self, now_ns: int) -> None:
        self.first_ns = self.phase_ns = self.last_ns = now_ns
        self.phases = 1

    def seen(self, now_ns: int, pause_ns: int) -> None:
        if now_ns - self.last_ns >= pause_ns:
            self.phases += 1
            self.phase_ns = now_ns
        self.last_ns = now_ns

    def iteration_ns(self, now_ns: int) -> float:
        """Mean time between the beginnings of its phases; while there is only one, or the last one lasts longer than
        that, what is known of it: it is at least so long."""
        mean = (self.phase_ns - self.first_ns) / (self.phases - 1) if self.phases > 1 else 0.0
        return max(mean, now_ns - self.phase_ns)


class SetTen:
    """IO-SETS with Set-10 (Boito et al., TPDS 2023): jobs are grouped by the order of magnitude of their mean
    iteration length, set = round(log10(seconds)); a set has priority 10^-set and gets priority/sum of the priorities
    of the sets that wait; inside a set one job at a time, the one whose phase began first. A worker that its requests
    leave free takes the next job's."""

    def __init__(self, argument: str = "", seed: int = 0, *, pause_ns: int = NS_PER_S) -> None:  # noqa: ARG002
        refuse_order_argument(argument)
        self._shares = _Shares()
        self._rhythms: dict[str | int, _Rhythm] = {}
        self._pause_ns = pause_ns

    def seen(self, waiting: Waiting, now_ns: int) -> None:
        """Follows the phases of its job."""
        rhythm = self._rhythms.get(waiting.job)
        if rhythm is not None:
            rhythm.seen(now_ns, self._pause_ns)
            return
        if len(self._rhythms) >= REMEMBERED:
            kept = sorted(self._rhythms.items(), key=lambda pair: pair[1].last_ns)[REMEMBERED // 2 :]
            self._rhythms = dict(kept)
        self._rhythms[waiting.job] = _Rhythm(now_ns)

    def ended(self, waiting: Waiting, now_ns: int) -> None:
        """A request has ended: a job whose requests take long does not pause meanwhile."""
        rhythm = self._rhythms.get(waiting.job)
        if rhythm is not None:
            rhythm.last_ns = now_ns

    def set_of(self, job: str | int, now_ns: int) -> int:
        """Number of the set a job is in now. A job that was never seen, or whose phases are shorter than a second, is
        in set 0."""
        rhythm = self._rhythms.get(job)
        seconds = 0.0 if rhythm is None else rhythm.iteration_ns(now_ns) / NS_PER_S
        return round(math.log10(seconds)) if seconds > 1 else 0

    def enter(self, lane: Lane, now_ns: int) -> None:
        """In the share of its job's set, by the beginning of the job's phase."""
        number = self.set_of(lane.job, now_ns)
        rhythm = self._rhythms.get(lane.job)
        self._shares.enter(number, 10.0**-number, lane, rhythm.phase_ns if rhythm is not None else now_ns)

    def pick(self, now_ns: int) -> Lane | None:  # noqa: ARG002
        """The first lane of the set whose turn it is."""
        return self._shares.pick()

    def settle(self, served: Waiting | None) -> None:
        """Charges the set."""
        self._shares.settle(0 if served is None else _compute_cost(served))

    def charge(self, waiting: Waiting, now_ns: int) -> None:
        """Charges the set."""
        self._shares.charge(self.set_of(waiting.job, now_ns), _compute_cost(waiting))

    def emptied(self) -> None:
        """Forgets which set had more."""
        self._shares.emptied()


class Exclusive(SetTen):
    """One job at a time, the one whose I/O phase began first (exclusive FCFS, the baseline of Boito et al., TPDS 2023):
    Set-10 with a single set. A worker that its requests leave free takes the next job's."""

    def set_of(self, job: str | int, now_ns: int) -> int:  # noqa: ARG002
        """All are in one."""
        return 0
