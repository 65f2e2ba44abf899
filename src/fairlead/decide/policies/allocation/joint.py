"""Ours: how many resources and which, decided together by an estimate of what applications cost one another.

The estimate and the search are in `joint_kernel`; docs/explanation/joint-allocation.md explains both. No simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import NONE, Applications, Decision, Running

if TYPE_CHECKING:
    from fairlead.decide.policies.allocation.joint_kernel import Facts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
TOGETHER = 192
"""Applications that are searched together; more are granted in such groups, the most stressing first."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Constants of the estimate and the search: fitted on even scenarios of FORGE, the weights of idle cores on all.

    `back`: how much of what I cost others I am spared myself; `chance`: how much of the chance differences between my
    resources is felt; `idle`: weight of the idle share of cores beside the mean slowdown, in proportion more where
    published decisions leave less than `hardly_idle` idle; `doubt`: how much less b(n) is believed for each doubling of
    n where few curves are told for many applications (means of classes); `starts`: from how many published decisions;
    `trials` changes an application (`least_trials` in all at least), with `heat` at first.
    """

    back: float = 1.25
    chance: float = 0.9
    idle: float = 5.0
    hardly_idle: float = 0.08
    doubt: float = 0.12
    starts: int = 1
    heat: float = 0.1
    trials: int = 250
    least_trials: int = 20_000


class Joint:
    """Allocation and placement by local search on an estimate. Knows what TCPU knows: b(n), V, T and Q."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.tuning = tuning or Tuning()

    def decide(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:
        """See `Policy`. O(trials x K x W) for K up to `TOGETHER`, linear in K above."""
        return _decide(applications, pool, rng, self.tuning)

    def arrive(
        self,
        application: Applications,
        running: Running,
        pool: Layer,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Decision:
        """See `Policy`. O(R x W + N log N) with R rows of `running`; nothing is random."""
        compute = running.compute_s
        return _arrive(application, running, pool, running.time_s, running.best_s, compute, self.tuning)


class JointLight:
    """The same search with BestBandwidth's information only: curves b(n). Every application is taken to spend
    `share` of its cycle on I/O when it has one resource."""

    def __init__(self, tuning: Tuning | None = None, share: float = 0.15) -> None:
        self.tuning = tuning or Tuning(idle=0.0, trials=120, least_trials=8_000)
        self.share = share

    def decide(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:
        """See `Policy`."""
        return _decide(self._assumed(applications), pool, rng, self.tuning)

    def arrive(
        self,
        application: Applications,
        running: Running,
        pool: Layer,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Decision:
        """See `Policy`. Of those that run only their counts and places are used."""
        alive = running.alive & (running.choice >= 0)
        time = np.where(alive, self.share, 0.0)
        return _arrive(self._assumed(application), running, pool, time, time, 1.0 - time, self.tuning)

    def _assumed(self, applications: Applications) -> Applications:
        k = len(applications)
        first = applications.bandwidth[np.arange(k), np.argmax(~np.isnan(applications.bandwidth), axis=1)]
        return replace(
            applications, volume=self.share * first, compute_s=np.full(k, 1.0 - self.share), cores=np.ones(k)
        )


def _speed(pool: Layer) -> F64:
    top = float(pool.performance[pool.usable].max()) if len(pool.usable) else 1.0
    return np.maximum(pool.performance / (top if top > 0 else 1.0), 1e-3)


def _far(width: int) -> F64:
    """How far the largest of n like values is above their mean, in standard deviations of the n (n = 0..width)."""
    known_n = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    known = np.array([1.0, 1.0, 1.19, 1.52, 1.83, 2.10, 2.36])
    return np.asarray(np.interp(np.arange(width + 1), known_n, known))


def _decide(applications: Applications, pool: Layer, rng: np.random.Generator, tuning: Tuning) -> Decision:
    k, usable = len(applications), pool.usable
    width = int(applications.counts.max())
    resources = np.full((k, width), NONE, np.int64)
    choice = np.full(k, NONE, np.int64)
    seed = int(rng.integers(1, 2**62))
    if not k or not len(usable):
        return Decision(choice, resources)
    if len(usable) < applications.counts[0]:
        choice[:] = 0
        resources[:, : len(usable)] = usable
        return Decision(choice, resources)
    applications = _doubted(_usable(applications, pool), tuning.doubt)
    base = np.zeros(len(pool))
    heavy = applications.stress[np.arange(k), applications.least]
    order = np.argsort(-heavy, kind="stable")
    for rows in np.array_split(order, -(-k // TOGETHER)):
        rows = np.sort(rows)
        some = applications.select_rows(rows)
        choice[rows], resources[rows], slow = _search(some, pool, base, seed, tuning)
        if len(rows) < k:
            _add(base, some, choice[rows], resources[rows], slow)
    return Decision(choice, resources)


def _usable(applications: Applications, pool: Layer) -> Applications:
    """An application of which no count is left, since too few resources are available, is taken to be as fast on the
    smallest count as on its first."""
    known = ~np.isnan(applications.bandwidth)
    stuck = ~(known & (applications.counts <= len(pool.usable))).any(axis=1)
    if not stuck.any():
        return applications
    bandwidth = applications.bandwidth.copy()
    bandwidth[stuck, 0] = bandwidth[stuck, np.argmax(known[stuck], axis=1)]
    return replace(applications, bandwidth=bandwidth)


def _doubted(applications: Applications, doubt: float) -> Applications:
    """Where four applications or more share a curve, in the mean, curves are of classes and larger n are doubted.

    A mean curve tells too short a time: the mean of 1 / b is above 1 / mean of b, the more so the further from b(1).
    """
    k = len(applications)
    relative = applications.bandwidth / np.nanmax(applications.bandwidth, axis=1, keepdims=True)
    if k < 8 or 4 * len(np.unique(np.round(np.nan_to_num(relative), 9), axis=0)) > k:
        return applications
    return replace(applications, bandwidth=applications.bandwidth / (1.0 + doubt * np.log2(applications.counts)))


def _add(base: F64, applications: Applications, choice: I64, resources: I64, slow: F64) -> None:
    """What these applications put on each resource, for those that are granted after them."""
    alone = applications.time_s[np.arange(len(choice)), choice]
    whole = applications.compute_s + alone * slow
    share = np.where(whole > 0, alone * slow / np.where(whole > 0, whole, 1.0), 0.0)
    there = resources >= 0
    np.add.at(base, resources[there], np.broadcast_to(share[:, None], resources.shape)[there])


def estimate_joint_slowdowns(
    applications: Applications, decision: Decision, pool: Layer, tuning: Tuning | None = None
) -> F64:
    """(K,): the slowdown each application of a decision is expected to have: I/O time over V / b(n_perf)."""
    from fairlead.decide.policies.allocation import joint_kernel

    rows = np.arange(len(applications))
    slow = np.ones(len(applications))
    facts = _facts(applications, pool, np.zeros(len(pool)), tuning or Tuning())
    joint_kernel.estimate_joint_cost(facts, decision.choice, np.ascontiguousarray(decision.resources), slow)
    best = applications.time_s.min(axis=1)
    granted = applications.time_s[rows, decision.choice]
    return np.asarray(slow * np.where(best > 0, granted / np.where(best > 0, best, 1.0), 1.0))


def _facts(applications: Applications, pool: Layer, base: F64, tuning: Tuning) -> Facts:
    from fairlead.decide.policies.allocation.joint_kernel import Facts

    best = applications.time_s.min(axis=1)
    held = max(float(applications.cores.sum()), 1e-9)
    return Facts(
        time=np.ascontiguousarray(applications.time_s),
        compute=applications.compute_s.astype(np.float64),
        per_second=np.where(best > 0, 1.0 / np.where(best > 0, best, 1.0), 0.0),
        idle=tuning.idle * len(applications) * applications.cores / held,
        counts=applications.counts.astype(np.int64),
        ease=1.0 / _speed(pool),
        usable=pool.usable,
        base=base.copy(),
        far=_far(int(applications.counts.max())),
        back=tuning.back,
        chance=tuning.chance,
    )


def _idle_share(applications: Applications, choice: I64, slow: F64) -> float:
    """Share of the applications' cores that wait for I/O."""
    waiting = applications.time_s[np.arange(len(choice)), choice] * slow
    whole = waiting + applications.compute_s
    share = np.where(whole > 0, waiting / np.where(whole > 0, whole, 1.0), 0.0)
    return float((applications.cores * share).sum() / max(float(applications.cores.sum()), 1e-9))


def _search(applications: Applications, pool: Layer, base: F64, seed: int, tuning: Tuning) -> tuple[I64, I64, F64]:
    from fairlead.decide.policies.allocation import joint_kernel

    k = len(applications)
    facts = _facts(applications, pool, base, tuning)
    found: list[tuple[float, I64, I64, F64]] = []
    starts = _starts(applications, pool, base)
    least_idle = np.inf
    for choice, resources in starts:
        slow = np.ones(k)
        joint_kernel.estimate_joint_cost(facts, choice, resources, slow)
        least_idle = min(least_idle, _idle_share(applications, choice, slow))
    facts = facts._replace(idle=facts.idle * max(1.0, tuning.hardly_idle / max(least_idle, 1e-3)))
    for choice, resources in starts:
        slow = np.ones(k)
        found.append((float(joint_kernel.estimate_joint_cost(facts, choice, resources, slow)), choice, resources, slow))
    found.sort(key=lambda start: start[0])
    chance = np.array([seed], np.uint64)
    trials = max(tuning.trials * k, tuning.least_trials) // tuning.starts
    top = found[0]
    for _, choice, resources, slow in found[: tuning.starts]:
        cost = float(joint_kernel.search_joint_decision(facts, choice, resources, tuning.heat, trials, chance, slow))
        if cost <= top[0]:
            top = cost, choice, resources, slow
    return top[1:]


def _starts(applications: Applications, pool: Layer, base: F64) -> list[tuple[I64, I64]]:
    """Published decisions to start from: n_perf and n_sys, and between them what a load of 1 allows, each spread by
    decreasing count and by occupancy (Bandet, Boito and Pallez 2024)."""
    k = len(applications)
    allowed = (applications.counts[None, :] <= len(pool.usable)) & np.isfinite(applications.time_s)
    time = np.where(allowed, applications.time_s, np.inf)
    stress = np.where(allowed, applications.stress, np.inf)
    fastest = np.argmin(time, axis=1)
    least = np.minimum(np.argmin(stress, axis=1), fastest)
    out = []
    for choice in (fastest, least, _between(applications, stress, least, fastest, len(pool.usable))):
        for clairvoyant in (False, True):
            alone = applications.time_s[np.arange(k), choice]
            whole = applications.compute_s + alone
            share = np.where(whole > 0, alone / np.where(whole > 0, whole, 1.0), 0.0)
            out.append((choice.astype(np.int64), _spread(applications.counts, choice, share, pool, base, clairvoyant)))
    return out


def _between(applications: Applications, stress: F64, least: I64, fastest: I64, resources: int) -> I64:
    """From n_sys towards n_perf, what wins most core time for its stress first, while the load stays within 1."""
    rows = np.arange(len(least))
    choice = least.copy()
    room = resources - float(stress[rows, least].sum())
    gain = applications.cpu_load[rows, fastest] - applications.cpu_load[rows, least]
    cost = stress[rows, fastest] - stress[rows, least]
    for i in np.argsort(-gain / np.maximum(cost, 1e-12), kind="stable"):
        if cost[i] <= room:
            choice[i] = fastest[i]
            room -= cost[i]
    return choice


def _spread(counts: I64, choice: I64, share: F64, pool: Layer, base: F64, clairvoyant: bool) -> I64:
    """By decreasing count round-robin, or by decreasing share of time to the least occupied."""
    usable = pool.usable
    out = np.full((len(choice), int(counts.max())), NONE, np.int64)
    occupied, turn = base.copy(), 0
    for i in np.argsort(-share if clairvoyant else -counts[choice], kind="stable"):
        n = int(counts[choice[i]])
        if clairvoyant:
            mine = usable[np.argsort(occupied[usable], kind="stable")[:n]]
            occupied[mine] += share[i]
        else:
            mine = usable[(turn + np.arange(n)) % len(usable)]
            turn += n
        out[i, : len(mine)] = mine
    return out


def _arrive(
    application: Applications, running: Running, pool: Layer, time: F64, best: F64, compute: F64, tuning: Tuning
) -> Decision:
    from fairlead.decide.policies.allocation import joint_kernel

    width = int(application.counts.max())
    blank = np.full((1, width), NONE, np.int64)
    usable = pool.usable
    if not len(usable):
        return Decision(np.array([NONE]), blank)
    if len(usable) < application.counts[0]:
        blank[0, : len(usable)] = usable
        return Decision(np.zeros(1, np.int64), blank)
    application = _usable(application, pool)
    met, price = np.zeros(len(pool)), np.zeros(len(pool))
    rows = np.flatnonzero(running.alive & (running.choice >= 0))
    ease = 1.0 / _speed(pool)
    cores = float(application.cores[0])
    usual = (running.cores_used + cores) / (len(running) + 1) if running.cores_used > 0 else cores
    weight = tuning.idle / max(usual, 1e-9)
    joint_kernel.compute_joint_prices(
        rows,
        time,
        best,
        compute,
        weight * running.cores,
        running.held,
        running.resources,
        ease,
        _far(running.resources.shape[1]),
        met,
        price,
    )
    column = joint_kernel.choose_joint_grant(
        application.time_s[0],
        float(application.time_s[0].min()),
        float(application.compute_s[0]),
        weight * cores,
        application.held[0],
        application.counts,
        ease,
        usable,
        met,
        price,
        _far(width),
        0.5 * tuning.chance,
        blank[0],
    )
    return Decision(np.array([column], np.int64), blank)
