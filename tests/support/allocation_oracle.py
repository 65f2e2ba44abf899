"""How far is left: a bound no decision can beat, and the best decision that a long search with the simulator finds.

Neither is a policy: the bound is not reached by anything, the search knows phases and offsets and takes minutes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.policies.allocation.contract import NONE, Applications, Decision
from fairlead.decide.sim.cycles.cycle_measures import compute_cycle_measures
from fairlead.decide.sim.cycles.cycle_model import Window, simulate_cycles
from fairlead.decide.sim.workloads.published_sets import DrawnSet

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def compute_oracle_bound(applications: Applications, resources: int) -> float:
    """No decision has a lower mean slowdown in the long run, with every phase and offset known and moved at will.

    Application i on n resources needs n t_i(n) seconds of them in each cycle of T_i + rho_i t_i(n_perf), and rho_i is
    t_i(n) / t_i(n_perf) at least; all together have N. The least mean rho under these alone, with counts mixed at will,
    by Lagrange's dual in one multiplier: each multiplier gives a valid bound, the best is taken. Work of one window may
    differ from the long run by the phases that are cut by its ends.
    """
    alone = applications.time_s
    best = alone.min(axis=1)
    real = best > 0
    if not real.any():
        return 1.0
    k = len(applications)
    alone, best, compute = alone[real], best[real], applications.compute_s[real]
    need = np.where(np.isfinite(alone), applications.counts * alone, np.inf)
    least = alone / best[:, None]

    def dual(price: float) -> float:
        with np.errstate(invalid="ignore"):
            slow = (np.sqrt(price * k * need * best[:, None]) - compute[:, None]) / best[:, None]
            slow = np.maximum(slow, least)
            each = slow / k + price * need / (compute[:, None] + slow * best[:, None])
        each = np.where(np.isfinite(alone), each, np.inf)
        return float(each.min(axis=1).sum() + (k - real.sum()) / k - price * resources)

    low, high = 0.0, 1e-3
    while dual(2 * high) > dual(high):
        high *= 2
    high *= 2
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):  # the dual is concave
        left, right = high - golden * (high - low), low + golden * (high - low)
        if dual(left) < dual(right):
            low = left
        else:
            high = right
    return max(dual((low + high) / 2), dual(0.0))


@dataclass(frozen=True)
class SearchResult:
    """What a search came to: the `decision`, its mean slowdown in the window searched on, how many were simulated."""

    decision: Decision
    mean: float
    simulated: int


def simulate_oracle_slowdown(drawn: DrawnSet, choice: I64, resources: I64, window: Window) -> float:
    """Simulated; an application without a whole phase in the window counts with the window over its best time."""
    applications = drawn.applications
    work = applications.time_s[np.arange(len(applications)), choice]
    outcome = simulate_cycles(drawn.cycles, resources, work, drawn.resources, window)
    best = applications.time_s.min(axis=1)
    slow = compute_cycle_measures(outcome, best, work, applications.compute_s, applications.cores, drawn.cores).slowdown
    blank = np.isnan(slow)
    if blank.any():
        slow[blank] = window.until_s / np.maximum(best[blank], 1e-9)
    return float(slow.mean())


def search_oracle_decision(
    drawn: DrawnSet, start: Decision, window: Window, trials: int, rng: np.random.Generator, heat: float = 2e-3
) -> SearchResult:
    """The best of `trials` decisions by simulated annealing from `start` on the very run that is measured.

    A trial changes the count of an application, one of its resources, or exchanges two applications' resources; each is
    simulated. Worse ones are kept with chance exp(-loss / heat), `heat` as a share of the mean slowdown, falling to 0.
    """
    counts = drawn.applications.counts
    finite = np.isfinite(drawn.applications.time_s) & (counts <= drawn.resources)[None, :]
    choice, resources = start.choice.copy(), start.resources.copy()
    now = simulate_oracle_slowdown(drawn, choice, resources, window)
    top = SearchResult(Decision(choice.copy(), resources.copy()), now, 1)
    k, n = len(choice), drawn.resources
    for trial in range(trials):
        old_choice, old_resources = choice.copy(), resources.copy()
        i, j = int(rng.integers(k)), int(rng.integers(k))
        kind = rng.random()
        if kind < 0.4:
            column = int(rng.choice(np.flatnonzero(finite[i])))
            _resize(resources, i, int(counts[column]), n, rng)
            choice[i] = column
        elif kind < 0.7:
            mine = resources[i][resources[i] >= 0]
            free = np.setdiff1d(np.arange(n), mine)
            if len(free):
                resources[i, int(rng.integers(len(mine)))] = int(rng.choice(free))
        elif choice[i] == choice[j]:
            resources[[i, j]] = resources[[j, i]]
        elif finite[i, choice[j]] and finite[j, choice[i]]:
            resources[[i, j]] = resources[[j, i]]
            choice[i], choice[j] = choice[j], choice[i]
        new = simulate_oracle_slowdown(drawn, choice, resources, window)
        warmth = heat * now * (1.0 - trial / trials)
        if new <= now or (warmth > 0 and rng.random() < math.exp(-(new - now) / warmth)):
            now = new
            if now < top.mean:
                top = SearchResult(Decision(choice.copy(), resources.copy()), now, trial + 2)
        else:
            choice, resources = old_choice, old_resources
    return SearchResult(top.decision, top.mean, trials + 1)


def _resize(resources: I64, i: int, n: int, count: int, rng: np.random.Generator) -> None:
    """As many resources as it has are kept; more are drawn."""
    mine = rng.permutation(resources[i][resources[i] >= 0])[:n]
    more = rng.permutation(np.setdiff1d(np.arange(count), mine))[: n - len(mine)]
    resources[i] = NONE
    resources[i, :n] = np.concatenate([mine, more])
