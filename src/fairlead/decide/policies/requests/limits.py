"""What holds a request back though a worker is free: caps on workers, and rates of jobs, targets and pools.

A rate never holds a worker: what it holds back waits in its lane until a known time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.decide.policies.requests.contract import Running, Waiting

NS_PER_S = 1_000_000_000
FREE, JOB_OVER, TARGET_OVER, JOB_AT_MOST, TARGET_AT_MOST, USER_AT_MOST = range(6)
"""What keeps a worker from a request. Over a cap it may run while nothing else can; at the most it may not."""
BURST_S = 0.05
"""Seconds of a rate that may be used at once after idleness. The request that uses it up may be of any size."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So much a second: bytes of data, or operations of any class."""

    per_s: float
    operations: bool = False


class Bucket:
    """A token bucket in one number, the time until which it is spent. Debt is allowed: a request passes as soon as the
    bucket is not empty, and is paid for afterwards; so the long-run rate holds whatever the sizes are."""

    __slots__ = ("_burst_ns", "_ns_per_unit", "_spent_ns", "operations", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._ns_per_unit = NS_PER_S / rate.per_s
        self.operations = rate.operations
        self._burst_ns = BURST_S * NS_PER_S
        if rate.operations:  # the one that uses it up is counted in: a rate of 1/s lets one go, not two
            self._burst_ns = max(self._burst_ns - self._ns_per_unit, 0.0)
        self._spent_ns = 0.0

    def free_ns(self) -> float:
        """From when on a request may pass."""
        return self._spent_ns - self._burst_ns

    def charge(self, waiting: Waiting, now_ns: int) -> None:
        """A request passes."""
        amount = 1 if self.operations else waiting.size
        if amount:
            self._spent_ns = max(self._spent_ns, now_ns) + amount * self._ns_per_unit


@dataclass(slots=True)
class Limits:
    """Caps and rates of one forwarder. Rates may be changed while requests wait; the next `take` sees it."""

    workers: int
    job_cap: int
    """Workers one job may hold while others wait."""
    target_cap: int
    """Workers one target may hold while others wait."""
    most: int
    """Workers one job, one target or one user may ever hold."""
    every_job: tuple[Rate, ...] = ()
    every_target: tuple[Rate, ...] = ()
    every_pool: tuple[Rate, ...] = ()
    """Rates of each (target, pool); a job that was assigned to no pool is its own pool."""
    _jobs: dict[str | int, tuple[Rate, ...]] = field(default_factory=dict)
    _targets: dict[object, tuple[Rate, ...]] = field(default_factory=dict)
    _pools: dict[tuple[object, str | int], tuple[Rate, ...]] = field(default_factory=dict)
    _pool_of: dict[str | int, str | int] = field(default_factory=dict)
    _buckets: dict[tuple[str, object], tuple[Bucket, ...]] = field(default_factory=dict)
    rated: bool = False
    """Whether there is any rate at all."""
    version: int = 0
    """Grows with every change of a rate."""

    def __post_init__(self) -> None:
        self.rated = bool(self.every_job or self.every_target or self.every_pool)

    def rate_job(self, job: str | int, *rates: Rate) -> None:
        """Sets the rates of one job in place of `every_job`; none lifts them."""
        self._jobs[job] = rates
        self._set(("job", job))

    def rate_target(self, target: object, *rates: Rate) -> None:
        """Sets the rates of one target, all jobs together."""
        self._targets[target] = rates
        self._set(("target", target))

    def rate_pool(self, target: object, pool: str | int, *rates: Rate) -> None:
        """Sets the rates of one pool's share of one target (Sunway's max_perf)."""
        self._pools[target, pool] = rates
        self._set(("pool", (target, pool)))

    def assign(self, job: str | int, pool: str | int) -> None:
        """The pool a job belongs to."""
        self._pool_of[job] = pool
        self.rated = True
        self.version += 1

    def _set(self, key: tuple[str, object]) -> None:
        self._buckets.pop(key, None)
        self.rated = True
        self.version += 1

    def _made(self, key: tuple[str, object], rates: tuple[Rate, ...]) -> tuple[Bucket, ...]:
        if len(self._buckets) > 65536:
            self._buckets.clear()  # forgetting a bucket gives away one burst, no more
        buckets = self._buckets[key] = tuple(map(Bucket, rates))
        return buckets

    def list_buckets(self, job: str | int, target: object | None) -> tuple[Bucket, ...]:
        """All buckets a request of that job on that target passes."""
        known = self._buckets
        key: tuple[str, object] = ("job", job)
        found = known.get(key)
        if found is None:
            found = self._made(key, self._jobs.get(job, self.every_job))
        if target is None:
            return found
        key = ("target", target)
        more = known.get(key)
        if more is None:
            more = self._made(key, self._targets.get(target, self.every_target))
        pool = self._pool_of.get(job, job)
        key = ("pool", (target, pool))
        pooled = known.get(key)
        if pooled is None:
            pooled = self._made(key, self._pools.get((target, pool), self.every_pool))
        return found + more + pooled

    def find_hold(self, job: str | int, target: object | None, running: Running, user: int | None = None) -> int:
        """`FREE`, or what keeps a worker from it."""
        if user is not None and running.users.get(user, 0) >= self.most:
            return USER_AT_MOST
        of_job = running.jobs.get(job, 0)
        if of_job >= self.most:
            return JOB_AT_MOST
        if target is not None:
            of_target = running.targets.get(target, 0)
            if of_target >= self.most:
                return TARGET_AT_MOST
            if of_target >= self.target_cap:
                return TARGET_OVER
        return JOB_OVER if of_job >= self.job_cap else FREE
