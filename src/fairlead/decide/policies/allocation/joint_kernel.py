"""The loops of the joint policy, compiled: an estimate of every slowdown, and a search that betters it.

And what one more costs beside those that run. Not here: what is asked and answered (`joint`). Loads numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.jit import compile_jit_function

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Bits = NDArray[np.bool_]


class Facts(NamedTuple):
    """What does not change. `time` (K, C) seconds of I/O alone, inf: not possible; `compute` (K,); `per_second` (K,):
    1 / best time, 0 for an application without I/O; `idle` (K,): what I/O all the time adds to `cost`; `counts` (C,);
    `ease` (N,): 1 / speed; `usable`; `base` (N,): transfers met there that are not these applications'; `far`
    (W + 1,), `back` and `chance`: the estimate's constants."""

    time: F64
    compute: F64
    per_second: F64
    idle: F64
    counts: I64
    ease: F64
    usable: I64
    base: F64
    far: F64
    back: float
    chance: float


class State(NamedTuple):
    """A decision and its estimate. `choice`, `granted` (K,), `resources` (K, W), `held` (K, N). `met` (N,): transfers
    there in the mean; `yields` (N,): how much fewer with one less; `part`, `give` (K, W): what each transfer adds to
    them; `spread` (K, K): p (1 - p) with p the part of the row's resources that are the column's too; `varies` (K,):
    u (1 - u) with u the share of time in I/O; `odds` (K,): sum of spread x varies; `slow` (K,): I/O time over the time
    alone; `cost` (K,)."""

    choice: I64
    granted: I64
    resources: I64
    held: Bits
    met: F64
    yields: F64
    part: F64
    give: F64
    spread: F64
    varies: F64
    odds: F64
    slow: F64
    cost: F64


@compile_jit_function
def _begin_state(facts: Facts, choice: I64, resources: I64) -> State:
    """The state of a decision, which is copied, before anything is estimated."""
    k, width = resources.shape
    n = len(facts.ease)
    state = State(
        choice.copy(),
        facts.counts[choice],
        resources.copy(),
        np.zeros((k, n), np.bool_),
        facts.base.copy(),
        np.zeros(n),
        np.zeros((k, width)),
        np.zeros((k, width)),
        np.zeros((k, k)),
        np.zeros(k),
        np.zeros(k),
        np.ones(k),
        np.ones(k),
    )
    for i in range(k):
        for w in range(state.granted[i]):
            state.held[i, resources[i, w]] = True
    for i in range(k):
        _update_overlap(state, i)
    return state


@compile_jit_function
def _update_overlap(state: State, i: int) -> None:
    """Row and column i of `spread` anew."""
    count, spread = state.granted, state.spread
    mine = state.resources[i]
    n = count[i]
    each = 1.0 / n if n else 0.0
    for j in range(len(count)):
        common = 0
        for w in range(n):
            if state.held[j, mine[w]]:
                common += 1
        if common == 0 or j == i:
            spread[i, j] = 0.0
            spread[j, i] = 0.0
            continue
        p = common * each
        spread[i, j] = p * (1.0 - p)
        p = common / count[j]
        spread[j, i] = p * (1.0 - p)


@compile_jit_function
def _estimate_one(facts: Facts, state: State, i: int) -> None:
    """Application i anew beside the others as they are."""
    t = facts.time[i, state.choice[i]]
    n = state.granted[i]
    if n == 0 or t <= 0.0:
        return
    met, yields, part, give = state.met, state.yields, state.part, state.give
    mean = 0.0
    worst = 0.0
    square = 0.0
    for w in range(n):
        r = state.resources[i, w]
        others = met[r] - part[i, w] - facts.back * part[i, w] * (yields[r] - give[i, w])
        q = (1.0 + max(others, 0.0)) * facts.ease[r]
        mean += q
        square += q * q
        worst = max(worst, q)
    mean /= n
    slow = worst
    if n > 1:
        fixed = max(square / n - mean * mean, 0.0)
        slow = max(worst, mean + facts.far[n] * math.sqrt(fixed + facts.chance * max(state.odds[i], 0.0)))
    rate = t / (facts.compute[i] + t * slow)
    u = rate * slow
    state.slow[i] = slow
    state.varies[i] = u * (1.0 - u)
    state.cost[i] = t * slow * facts.per_second[i] + facts.idle[i] * u
    for w in range(n):
        r = state.resources[i, w]
        others = met[r] - part[i, w] - facts.back * part[i, w] * (yields[r] - give[i, w])
        new = rate * (1.0 + max(others, 0.0)) * facts.ease[r]
        fewer = rate * (1.0 - new) * facts.ease[r]
        met[r] += new - part[i, w]
        yields[r] += fewer - give[i, w]
        part[i, w] = new
        give[i, w] = fewer


@compile_jit_function
def _settle_estimate(facts: Facts, state: State, rounds: int) -> float:
    """`rounds` over all applications, towards the fixed point; the mean cost."""
    k = len(state.choice)
    for _ in range(rounds):
        for i in range(k):
            total = 0.0
            for j in range(k):
                total += state.spread[i, j] * state.varies[j]
            state.odds[i] = total
            _estimate_one(facts, state, i)
    return state.cost.mean()  # type: ignore[no-any-return]


@compile_jit_function
def estimate_joint_cost(facts: Facts, choice: I64, resources: I64, slow: F64) -> float:
    """The mean cost of a decision, from nothing; `slow` (K,) is filled."""
    state = _begin_state(facts, choice, resources)
    cost = _settle_estimate(facts, state, 12)
    slow[:] = state.slow
    return cost


@compile_jit_function
def _change_application(facts: Facts, state: State, i: int, column: int, mine: I64, touched: Bits) -> None:
    """Application i gets another count and the resources `mine`; one round over it and those it touches or touched."""
    k = len(state.choice)
    n = facts.counts[column]
    touched[:] = False
    for w in range(state.granted[i]):
        r = state.resources[i, w]
        touched[r] = True
        state.held[i, r] = False
        state.met[r] -= state.part[i, w]
        state.yields[r] -= state.give[i, w]
        state.part[i, w] = 0.0
        state.give[i, w] = 0.0
    for j in range(k):
        state.odds[j] -= state.spread[j, i] * state.varies[i]
    state.choice[i], state.granted[i] = column, n
    state.resources[i, n:] = -1
    for w in range(n):
        r = mine[w]
        state.resources[i, w] = r
        state.held[i, r] = True
        touched[r] = True
    _update_overlap(state, i)
    total = 0.0
    for j in range(k):
        total += state.spread[i, j] * state.varies[j]
    state.odds[i] = total
    _estimate_one(facts, state, i)
    for j in range(k):
        state.odds[j] += state.spread[j, i] * state.varies[i]
    for j in range(k):
        if j != i:
            for w in range(state.granted[j]):
                if touched[state.resources[j, w]]:
                    _estimate_one(facts, state, j)
                    break


@compile_jit_function
def _copy_state(source: State, target: State) -> None:
    """What every change touches; `_put_back` does the rest."""
    target.met[:] = source.met
    target.yields[:] = source.yields
    target.part[:, :] = source.part
    target.give[:, :] = source.give
    target.varies[:] = source.varies
    target.odds[:] = source.odds
    target.slow[:] = source.slow
    target.cost[:] = source.cost


@compile_jit_function
def _put_back(state: State, kept: State, i: int) -> None:
    """Count, resources and overlap of application i as `kept`."""
    for w in range(state.granted[i]):
        state.held[i, state.resources[i, w]] = False
    state.choice[i], state.granted[i] = kept.choice[i], kept.granted[i]
    state.resources[i] = kept.resources[i]
    for w in range(state.granted[i]):
        state.held[i, state.resources[i, w]] = True
    state.spread[i, :] = kept.spread[i, :]
    state.spread[:, i] = kept.spread[:, i]


@compile_jit_function
def _keep_application(state: State, kept: State, i: int) -> None:
    """Count, resources and overlap of application i into `kept`."""
    kept.choice[i], kept.granted[i] = state.choice[i], state.granted[i]
    kept.resources[i] = state.resources[i]
    kept.spread[i, :] = state.spread[i, :]
    kept.spread[:, i] = state.spread[:, i]


@compile_jit_function
def _draw_below(chance: NDArray[np.uint64], limit: int) -> int:
    """A whole number from 0 to limit - 1; `chance` (1,) goes on (xorshift)."""
    z = chance[0]
    z ^= z << np.uint64(13)
    z ^= z >> np.uint64(7)
    z ^= z << np.uint64(17)
    chance[0] = z
    return np.int64((z >> np.uint64(11)) % np.uint64(limit))  # type: ignore[return-value]


@compile_jit_function
def _draw_uniform(chance: NDArray[np.uint64]) -> float:
    """A number from 0 to 1."""
    return _draw_below(chance, 1 << 30) / float(1 << 30)


@compile_jit_function
def _pick_least(
    weight: F64, among: I64, n: int, taken: int, out: I64, noise: float, chance: NDArray[np.uint64]
) -> None:
    """Behind the first `taken` of `out` those `among` of least `weight` (each made up to `noise` heavier) that are not
    in `out` yet, up to n."""
    for w in range(taken, n):
        chosen = -1
        lowest = np.inf
        for r in among:
            if weight[r] >= lowest:
                continue
            free = True
            for v in range(w):
                if out[v] == r:
                    free = False
                    break
            if not free:
                continue
            heavy = weight[r] * (1.0 + noise * _draw_uniform(chance))
            if heavy < lowest or chosen < 0:
                lowest = heavy
                chosen = r
        out[w] = chosen


@compile_jit_function
def _propose_change(
    facts: Facts, state: State, i: int, weight: F64, mine: I64, chance: NDArray[np.uint64]
) -> tuple[int, int]:
    """Another column for application i (-1: none is proposed), its resources in `mine`, whom it exchanges with (-1).

    The least met; of its own, and more; one of its own for another; those of another application; an exchange.
    """
    k = len(state.choice)
    usable = facts.usable
    old, had = state.choice[i], state.granted[i]
    c = old if _draw_below(chance, 2) == 0 else _draw_below(chance, len(facts.counts))
    n = facts.counts[c]
    if n > len(usable) or facts.time[i, c] == np.inf:
        return -1, -1
    kind = _draw_below(chance, 4)
    j = -1
    if kind >= 2:
        for _ in range(4):
            other = _draw_below(chance, k)
            if other != i and facts.time[other, state.choice[other]] > 0.0 and (kind == 3 or state.granted[other] == n):
                j = other
                break
        if j < 0:
            kind = 0
    if kind <= 1:
        for r in range(len(weight)):
            weight[r] = (1.0 + state.met[r]) * facts.ease[r]
        for w in range(had):
            r = state.resources[i, w]
            weight[r] -= state.part[i, w] * facts.ease[r]
    if kind == 0:
        _pick_least(weight, usable, n, 0, mine, 0.3, chance)
    elif kind == 1:
        if n < had:
            _pick_least(weight, state.resources[i, :had], n, 0, mine, 0.1, chance)
        elif n > had:
            mine[:had] = state.resources[i, :had]
            _pick_least(weight, usable, n, had, mine, 0.3, chance)
        else:
            mine[:n] = state.resources[i, :n]
            mine[_draw_below(chance, n)] = usable[_draw_below(chance, len(usable))]
            twice = 0
            for w in range(n):
                for v in range(w):
                    if mine[v] == mine[w]:
                        twice += 1
            if twice:
                return -1, -1
    else:
        c = state.choice[j]
        n = facts.counts[c]
        mine[:n] = state.resources[j, :n]
        if kind == 3 and (facts.time[i, c] == np.inf or facts.time[j, old] == np.inf):
            return -1, -1
    if c == old:
        same = True
        for w in range(n):
            same = same and state.held[i, mine[w]]
        if same:
            return -1, -1
    return c, j if kind == 3 else -1


@compile_jit_function
def search_joint_decision(
    facts: Facts, choice: I64, resources: I64, heat: float, trials: int, chance: NDArray[np.uint64], slow: F64
) -> float:
    """Betters `choice` and `resources` in place by the mean cost of the estimate; returns it. Never worse than before.

    Simulated annealing of `trials` changes. One for the worse is kept with chance exp(-loss / warmth); warmth falls
    from `heat` times the mean cost of one of K applications to nothing.
    """
    k, width = resources.shape
    state = _begin_state(facts, choice, resources)
    kept = _begin_state(facts, choice, resources)
    first = now = _settle_estimate(facts, state, 12)
    _copy_state(state, kept)
    top, top_choice, top_resources = now, choice.copy(), resources.copy()
    weight = np.zeros(len(facts.ease))
    mine = np.zeros(width, np.int64)
    touched = np.zeros(len(facts.ease), np.bool_)
    for trial in range(trials):
        i = _draw_below(chance, k)
        if facts.time[i, state.choice[i]] <= 0.0:
            continue
        column, j = _propose_change(facts, state, i, weight, mine, chance)
        if column < 0:
            continue
        _keep_application(state, kept, i)
        if j >= 0:
            _keep_application(state, kept, j)
            _change_application(facts, state, j, kept.choice[i], kept.resources[i], touched)
        _change_application(facts, state, i, column, mine, touched)
        found = state.cost.mean()
        warmth = heat * top / k * (1.0 - trial / trials) ** 2
        if found < now or (warmth > 0.0 and _draw_uniform(chance) < math.exp((now - found) / warmth)):
            now = _settle_estimate(facts, state, 1)
            _copy_state(state, kept)
            if now < top:
                top = now
                top_choice[:], top_resources[:, :] = state.choice, state.resources
            continue
        _put_back(state, kept, i)
        if j >= 0:
            _put_back(state, kept, j)
        _copy_state(kept, state)
    top = estimate_joint_cost(facts, top_choice, top_resources, slow)
    if top > first:  # rounding of an estimate that was not settled
        return estimate_joint_cost(facts, choice, resources, slow)
    choice[:], resources[:, :] = top_choice, top_resources
    return top


@compile_jit_function
def compute_joint_prices(
    rows: I64,
    time: F64,
    best: F64,
    compute: F64,
    idle: F64,
    held: F64,
    resources: I64,
    ease: F64,
    far: F64,
    met: F64,
    price: F64,
) -> None:
    """How many transfers there are on each resource in the mean (`met`), and what one more there costs the applications
    of `rows` (`price`): the change of the sum of their costs, shared by the slowest of each's resources. Six rounds."""
    width = resources.shape[1]
    part = np.zeros((len(rows), width))
    q = np.zeros(width)
    for turn in range(6):
        for e in range(len(rows)):
            i = rows[e]
            t = time[i]
            n = 0
            mean = 0.0
            square = 0.0
            worst = 0.0
            for w in range(width):
                r = resources[i, w]
                if r < 0 or t <= 0.0:
                    break
                q[w] = (1.0 + held[i] * max(met[r] - part[e, w], 0.0)) * ease[r]
                mean += q[w]
                square += q[w] * q[w]
                worst = max(worst, q[w])
                n += 1
            if n == 0:
                continue
            mean /= n
            slow = max(worst, mean + far[n] * math.sqrt(max(square / n - mean * mean, 0.0)))
            whole = compute[i] + t * slow
            if turn < 5:
                for w in range(n):
                    new = held[i] * t * q[w] / whole
                    met[resources[i, w]] += new - part[e, w]
                    part[e, w] = new
                continue
            shares = 0.0
            for w in range(n):
                shares += (q[w] / worst) ** 8
            more = (t / best[i] if best[i] > 0 else 0.0) + idle[i] * t * compute[i] / (whole * whole)
            for w in range(n):
                r = resources[i, w]
                price[r] += held[i] * more * (q[w] / worst) ** 8 / shares * ease[r]


@compile_jit_function
def choose_joint_grant(
    time: F64,
    best: float,
    compute: float,
    idle: float,
    held: F64,
    counts: I64,
    ease: F64,
    usable: I64,
    met: F64,
    price: F64,
    far: F64,
    chance: float,
    out: I64,
) -> int:
    """The column and the resources (`out`) of one more: least own cost and price. Of each count the cheapest among the
    resources on which there is no more than some bound are tried, for rising bounds."""
    order = usable[np.argsort(((1.0 + met) * ease)[usable], kind="mergesort")]
    picked = -1
    lowest = np.inf
    chosen = np.full(len(out), -1, np.int64)
    for c in range(len(counts)):
        n = counts[c]
        if n > len(order) or time[c] == np.inf:
            continue
        limit = n
        while True:
            among = order[:limit]
            cheap = among[np.argsort(price[among], kind="mergesort")[:n]]
            mean = 0.0
            square = 0.0
            worst = 0.0
            excess = 0.0
            most = 0.0
            for r in cheap:
                q = (1.0 + held[c] * met[r]) * ease[r]
                excess += held[c] * met[r] * ease[r]
                most = max(most, ease[r])
                mean += q
                square += q * q
                worst = max(worst, q)
            mean /= n
            slow = worst
            if n > 1:
                fixed = max(square / n - mean * mean, 0.0)
                spread = mean + far[n] * math.sqrt(fixed + chance * held[c] * max(mean - 1.0, 0.0))
                # The largest of some meetings is no more than all of them: tighter where few are met.
                slow = max(worst, min(spread, most + excess))
            whole = compute + time[c] * slow
            own = time[c] * slow / best if best > 0 else 1.0
            if whole > 0.0:
                own += idle * time[c] * slow / whole
                for r in cheap:
                    own += held[c] * time[c] * (1.0 + held[c] * met[r]) * ease[r] / whole * price[r]
            if own < lowest - 1e-12:
                lowest = own
                picked = c
                chosen[:n] = cheap
                chosen[n:] = -1
            if limit == len(order):
                break
            limit = min(limit + max(limit // 4, 1), len(order))
    out[:] = chosen
    return picked
