"""The loops of the joint policy, compiled: an estimate of every slowdown, and a local search that betters it.

Not here: what is asked and answered (`joint`). Imported when something is decided: it loads numba.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairlead.compiled import compiled

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@compiled
def overlap(i: int, count: I64, resources: I64, held: NDArray[np.bool_], spread: F64) -> None:
    """Row and column i of `spread` (K, K): p (1 - p) with p the part of the row's resources that the column's has too."""
    k = len(count)
    for j in range(k):
        if j == i:
            spread[i, i] = 0.0
            continue
        common = 0
        for w in range(count[i]):
            if held[j, resources[i, w]]:
                common += 1
        p = common / count[i] if count[i] else 0.0
        spread[i, j] = p * (1.0 - p)
        p = common / count[j] if count[j] else 0.0
        spread[j, i] = p * (1.0 - p)


@compiled
def one(
    i: int, t: float, compute: float, count: I64, resources: I64, speed: F64, chance: F64, far: F64, met: F64,
    give: F64, x: F64, a: F64, y: F64, s: F64, kappa: float, gamma: float,
) -> None:  # fmt: skip
    """Application i anew beside the others as they are: its slowdown `s`, its parts of `met` and `give`."""
    n = count[i]
    if n == 0 or t <= 0.0:
        s[i] = 1.0
        y[i] = 0.0
        return
    mean = 0.0
    worst = 0.0
    square = 0.0
    for w in range(n):
        r = resources[i, w]
        others = met[r] - x[i, w]
        others -= kappa * x[i, w] * (give[r] - a[i, w])
        q = (1.0 + max(others, 0.0)) / speed[r]
        mean += q
        square += q * q
        worst = max(worst, q)
    mean /= n
    slow = worst
    if n > 1:
        fixed = max(square / n - mean * mean, 0.0)
        slow = max(worst, mean + far[n] * math.sqrt(fixed + gamma * max(chance[i], 0.0)))
    s[i] = slow
    whole = compute + t * slow
    u = t * slow / whole
    y[i] = u * (1.0 - u)
    for w in range(n):
        r = resources[i, w]
        others = met[r] - x[i, w] - kappa * x[i, w] * (give[r] - a[i, w])
        q = (1.0 + max(others, 0.0)) / speed[r]
        part = t * q / whole
        back = part * (1.0 - part) / (q * speed[r])
        met[r] += part - x[i, w]
        give[r] += back - a[i, w]
        x[i, w] = part
        a[i, w] = back


@compiled
def leave(i: int, count: I64, resources: I64, held: NDArray[np.bool_], met: F64, give: F64, x: F64, a: F64) -> None:
    """Application i is taken off its resources."""
    for w in range(count[i]):
        r = resources[i, w]
        met[r] -= x[i, w]
        give[r] -= a[i, w]
        held[i, r] = False
        x[i, w] = 0.0
        a[i, w] = 0.0


@compiled
def value(
    time: F64, choice: I64, best: F64, compute: F64, cores: F64, s: F64, idle_weight: float, tail: float
) -> float:
    """What is made small: mean slowdown + `tail` x its root mean square + `idle_weight` x idle share of the cores."""
    k = len(choice)
    total = 0.0
    square = 0.0
    idle = 0.0
    held = 0.0
    for i in range(k):
        t = time[i, choice[i]]
        rho = t * s[i] / best[i] if best[i] > 0 else 1.0
        total += rho
        square += rho * rho
        if t > 0.0:
            idle += cores[i] * t * s[i] / (compute[i] + t * s[i])
        held += cores[i]
    return total / k + tail * math.sqrt(square / k) + (idle_weight * idle / held if held > 0 else 0.0)


@compiled
def settle(
    rounds: int, time: F64, choice: I64, compute: F64, count: I64, resources: I64, speed: F64, spread: F64, chance: F64,
    far: F64, met: F64, give: F64, x: F64, a: F64, y: F64, s: F64, kappa: float, gamma: float,
) -> None:  # fmt: skip
    """`rounds` over all applications: towards the fixed point."""
    k = len(choice)
    for _ in range(rounds):
        for i in range(k):
            total = 0.0
            for j in range(k):
                total += spread[i, j] * y[j]
            chance[i] = total
            one(i, time[i, choice[i]], compute[i], count, resources, speed, chance, far, met, give, x, a, y, s, kappa, gamma)


@compiled
def estimate(
    time: F64, compute: F64, counts: I64, choice: I64, resources: I64, speed: F64, base: F64, far: F64, kappa: float,
    gamma: float, rounds: int, s: F64,
) -> None:  # fmt: skip
    """Slowdowns `s` (K,) of a decision, from nothing."""
    k, width = resources.shape
    n = len(speed)
    count = counts[choice]
    held = np.zeros((k, n), np.bool_)
    for i in range(k):
        for w in range(count[i]):
            held[i, resources[i, w]] = True
    spread = np.zeros((k, k))
    for i in range(k):
        overlap(i, count, resources, held, spread)
    met = base.copy()
    give = np.zeros(n)
    x = np.zeros((k, width))
    a = np.zeros((k, width))
    y = np.zeros(k)
    settle(rounds, time, choice, compute, count, resources, speed, spread, np.zeros(k), far, met, give, x, a, y, s, kappa, gamma)


@compiled
def below(state: NDArray[np.uint64], limit: int) -> int:
    """A whole number from 0 to limit - 1; `state` (1,) goes on (xorshift)."""
    z = state[0]
    z ^= z << np.uint64(13)
    z ^= z >> np.uint64(7)
    z ^= z << np.uint64(17)
    state[0] = z
    return int((z >> np.uint64(11)) % np.uint64(limit))


@compiled
def least_met(met: F64, speed: F64, usable: I64, n: int, taken: I64, out: I64) -> None:
    """Behind the first `taken[0]` of `out` the least met usable resources that are not among them, up to n."""
    for w in range(taken[0], n):
        chosen = -1
        lowest = np.inf
        for r in usable:
            weight = (1.0 + met[r]) / speed[r]
            if weight < lowest:
                free = True
                for v in range(w):
                    if out[v] == r:
                        free = False
                        break
                if free:
                    lowest = weight
                    chosen = r
        out[w] = chosen


@compiled
def change(
    i: int, column: int, mine: I64, time: F64, best: F64, compute: F64, cores: F64, counts: I64, choice: I64, count: I64,
    resources: I64, held: NDArray[np.bool_], speed: F64, spread: F64, chance: F64, far: F64, met: F64, give: F64, x: F64,
    a: F64, y: F64, s: F64, touched: NDArray[np.bool_], kappa: float, gamma: float,
) -> None:  # fmt: skip
    """Application i gets another count and the resources `mine`; one round over it and those it touches or touched."""
    k = len(choice)
    n = counts[column]
    touched[:] = False
    for w in range(count[i]):
        touched[resources[i, w]] = True
    leave(i, count, resources, held, met, give, x, a)
    for j in range(k):
        chance[j] -= spread[j, i] * y[i]
    choice[i], count[i] = column, n
    for w in range(n):
        resources[i, w] = mine[w]
        held[i, mine[w]] = True
        touched[mine[w]] = True
    resources[i, n:] = -1
    overlap(i, count, resources, held, spread)
    total = 0.0
    for j in range(k):
        total += spread[i, j] * y[j]
    chance[i] = total
    one(i, time[i, column], compute[i], count, resources, speed, chance, far, met, give, x, a, y, s, kappa, gamma)
    for j in range(k):
        chance[j] += spread[j, i] * y[i]
    for j in range(k):
        if j == i:
            continue
        for w in range(count[j]):
            if touched[resources[j, w]]:
                one(j, time[j, choice[j]], compute[j], count, resources, speed, chance, far, met, give, x, a, y, s, kappa, gamma)
                break


@compiled
def search(
    time: F64, best: F64, compute: F64, cores: F64, counts: I64, choice: I64, resources: I64, speed: F64, usable: I64,
    base: F64, far: F64, kappa: float, gamma: float, idle_weight: float, tail: float, sweeps: int, trials: int,
    state: NDArray[np.uint64], s: F64,
) -> float:  # fmt: skip
    """Betters `choice` and `resources` in place, one change at a time, by `value` of the estimate; returns it.

    Each of `sweeps` goes over all applications in random order and tries of each other counts and resources, and an
    exchange with another application. At most `trials` changes are estimated. Never worse than what it began with.
    """
    k, width = resources.shape
    n = len(speed)
    columns = len(counts)
    count = counts[choice]
    held = np.zeros((k, n), np.bool_)
    for i in range(k):
        for w in range(count[i]):
            held[i, resources[i, w]] = True
    spread = np.zeros((k, k))
    for i in range(k):
        overlap(i, count, resources, held, spread)
    met, give = base.copy(), np.zeros(n)
    x, a = np.zeros((k, width)), np.zeros((k, width))
    y = np.zeros(k)
    chance = np.zeros(k)
    touched = np.zeros(n, np.bool_)
    s[:] = 1.0
    settle(12, time, choice, compute, count, resources, speed, spread, chance, far, met, give, x, a, y, s, kappa, gamma)
    now = value(time, choice, best, compute, cores, s, idle_weight, tail)
    met0, give0, x0, a0, y0, s0 = met.copy(), give.copy(), x.copy(), a.copy(), y.copy(), s.copy()
    chance0 = chance.copy()
    row0, column0, row1, column1 = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k)
    order = np.arange(k)
    own, others = np.zeros(width, np.int64), np.zeros(width, np.int64)
    sets = np.full((16 * columns + 8, width), -1, np.int64)
    picks = np.zeros(16 * columns + 8, np.int64)
    partner = np.full(16 * columns + 8, -1, np.int64)
    bare = np.zeros(n)
    taken = np.zeros(1, np.int64)
    tried = 0
    for _ in range(sweeps):
        before = now
        for e in range(k - 1, 0, -1):
            f = below(state, e + 1)
            order[e], order[f] = order[f], order[e]
        for i in order:
            if time[i, choice[i]] <= 0.0 or tried >= trials:
                continue
            bare[:] = met
            for w in range(count[i]):
                bare[resources[i, w]] -= x[i, w]
            mine = count[i]
            made = 0
            for c in range(columns):
                m = counts[c]
                if m > len(usable) or time[i, c] == np.inf:
                    continue
                taken[0] = 0
                least_met(bare, speed, usable, m, taken, sets[made])
                picks[made] = c
                made += 1
                if m != mine:  # keep what it has, as far as that goes
                    if m < mine:
                        least_met(bare, speed, resources[i, :mine], m, taken, sets[made])
                    else:
                        sets[made, :mine] = resources[i, :mine]
                        taken[0] = mine
                        least_met(bare, speed, usable, m, taken, sets[made])
                    picks[made] = c
                    made += 1
                else:  # one of its resources for another
                    for _again in range(2):
                        r = usable[below(state, len(usable))]
                        if held[i, r]:
                            continue
                        sets[made, :m] = resources[i, :m]
                        sets[made, below(state, m)] = r
                        picks[made] = c
                        made += 1
                first, second = -1, -1  # where another of as many is: its two least met
                low1, low2 = np.inf, np.inf
                for j in range(k):
                    if j != i and count[j] == m:
                        top = 0.0
                        for w in range(m):
                            top += bare[resources[j, w]] / speed[resources[j, w]]
                        if top < low1 - 1e-12:
                            second, low2 = first, low1
                            first, low1 = j, top
                        elif top < low2 - 1e-12 and top > low1 + 1e-12:
                            second, low2 = j, top
                if first >= 0:
                    sets[made, :m] = resources[first, :m]
                    picks[made] = c
                    made += 1
                if second >= 0:
                    sets[made, :m] = resources[second, :m]
                    picks[made] = c
                    made += 1
            singles = made
            partner[:made] = -1
            for _again in range(4):  # exchange with another
                j = below(state, k)
                if j == i or time[j, choice[j]] <= 0.0 or time[i, choice[j]] == np.inf or time[j, choice[i]] == np.inf:
                    continue
                partner[made] = j
                picks[made] = choice[j]
                sets[made] = resources[j]
                made += 1
            old = choice[i]
            own[:] = resources[i]
            met0[:], give0[:], y0[:], s0[:], chance0[:] = met, give, y, s, chance
            x0[:, :], a0[:, :] = x, a
            row0[:], column0[:] = spread[i], spread[:, i]
            lowest = now
            picked = -1
            for v in range(made):
                c = picks[v]
                j = partner[v]
                if c == old and j < 0:
                    same = True
                    for w in range(mine):
                        same = same and held[i, sets[v, w]]
                    if same:
                        continue
                if j >= 0:
                    others[:] = resources[j]
                    row1[:], column1[:] = spread[j], spread[:, j]
                    change(j, old, own, time, best, compute, cores, counts, choice, count, resources, held, speed, spread,
                           chance, far, met, give, x, a, y, s, touched, kappa, gamma)  # fmt: skip
                change(i, c, sets[v], time, best, compute, cores, counts, choice, count, resources, held, speed, spread,
                       chance, far, met, give, x, a, y, s, touched, kappa, gamma)  # fmt: skip
                found = value(time, choice, best, compute, cores, s, idle_weight, tail)
                tried += 1
                if found < lowest - 1e-9:
                    lowest = found
                    picked = v
                for w in range(count[i]):
                    held[i, resources[i, w]] = False
                resources[i] = own
                choice[i], count[i] = old, mine
                for w in range(mine):
                    held[i, own[w]] = True
                if j >= 0:
                    for w in range(count[j]):
                        held[j, resources[j, w]] = False
                    resources[j] = others
                    choice[j], count[j] = c, counts[c]
                    for w in range(count[j]):
                        held[j, others[w]] = True
                    spread[j, :], spread[:, j] = row1, column1
                met[:], give[:], y[:], s[:], chance[:] = met0, give0, y0, s0, chance0
                x[:, :], a[:, :] = x0, a0
                spread[i, :], spread[:, i] = row0, column0
            if picked >= 0:
                j = partner[picked]
                if j >= 0:
                    others[:] = resources[j]
                    change(j, old, own, time, best, compute, cores, counts, choice, count, resources, held, speed, spread,
                           chance, far, met, give, x, a, y, s, touched, kappa, gamma)  # fmt: skip
                change(i, picks[picked], sets[picked], time, best, compute, cores, counts, choice, count, resources, held,
                       speed, spread, chance, far, met, give, x, a, y, s, touched, kappa, gamma)  # fmt: skip
                settle(1, time, choice, compute, count, resources, speed, spread, chance, far, met, give, x, a, y, s, kappa, gamma)
                now = value(time, choice, best, compute, cores, s, idle_weight, tail)
        if tried >= trials or now > before * (1.0 - 2e-4):
            break
    settle(6, time, choice, compute, count, resources, speed, spread, chance, far, met, give, x, a, y, s, kappa, gamma)
    return value(time, choice, best, compute, cores, s, idle_weight, tail)


@compiled
def prices(
    rows: I64, time: F64, best: F64, compute: F64, cores: F64, resources: I64, speed: F64, far: F64, held: float,
    many: int, idle_weight: float, met: F64, price: F64,
) -> None:  # fmt: skip
    """How many are met on each resource (`met`), and what one more there costs those that run (`price`): the change of
    the sum of slowdowns and weighted idle cores by one more in the mean. Six rounds over `rows`."""
    n, width = len(speed), resources.shape[1]
    part = np.zeros((len(rows), width))
    q = np.zeros(width)
    for round_ in range(6):
        last = round_ == 5
        for e in range(len(rows)):
            i = rows[e]
            t = time[i]
            if t <= 0.0:
                continue
            count = 0
            mean = 0.0
            square = 0.0
            worst = 0.0
            for w in range(width):
                r = resources[i, w]
                if r < 0:
                    break
                q[w] = (1.0 + max(met[r] - part[e, w], 0.0)) / speed[r]
                mean += q[w]
                square += q[w] * q[w]
                worst = max(worst, q[w])
                count += 1
            if count == 0:
                continue
            mean /= count
            slow = max(worst, mean + far[count] * math.sqrt(max(square / count - mean * mean, 0.0)))
            whole = compute[i] + t * slow
            if last:
                high = 0.0
                for w in range(count):
                    high += (q[w] / worst) ** 8
                one_more = t / best[i] if best[i] > 0 else 0.0
                one_more += idle_weight * many * cores[i] / held * t * compute[i] / (whole * whole)
                for w in range(count):
                    r = resources[i, w]
                    price[r] += one_more * (q[w] / worst) ** 8 / high / speed[r]
                continue
            for w in range(count):
                r = resources[i, w]
                new = t * q[w] / whole
                met[r] += new - part[e, w]
                part[e, w] = new


@compiled
def beside(
    time: F64, best: float, compute: float, cores: float, counts: I64, speed: F64, usable: I64, met: F64, price: F64,
    far: F64, held: float, many: int, idle_weight: float, gamma: float, out: I64,
) -> int:  # fmt: skip
    """The column and the resources (`out`) of one more: least own slowdown and price. Of each count the cheapest among
    resources that are met no more than some bound are tried, for several bounds."""
    order = usable[np.argsort(((1.0 + met) / speed)[usable])]
    picked = -1
    lowest = np.inf
    chosen = np.zeros(len(out), np.int64)
    for c in range(len(counts)):
        n = counts[c]
        if n > len(order) or time[c] == np.inf:
            continue
        limit = n
        while True:
            among = order[:limit]
            cheap = among[np.argsort(price[among])[:n]] if limit > n else among
            mean = 0.0
            square = 0.0
            worst = 0.0
            for r in cheap:
                q = (1.0 + met[r]) / speed[r]
                mean += q
                square += q * q
                worst = max(worst, q)
            mean /= n
            slow = max(worst, mean + far[n] * math.sqrt(max(square / n - mean * mean, 0.0) + gamma * (mean - 1.0) * 0.5)) if n > 1 else worst
            whole = compute + time[c] * slow
            own = time[c] * slow / best if best > 0 else 1.0
            if whole > 0:
                own += idle_weight * many * cores / held * time[c] * slow / whole
                for r in cheap:
                    own += time[c] * (1.0 + met[r]) / speed[r] / whole * price[r]
            if own < lowest - 1e-12:
                lowest = own
                picked = c
                chosen[:n] = cheap
                chosen[n:] = -1
            if limit == len(order):
                break
            limit = min(limit + max(limit // 4, 1), len(order))
    out[: len(chosen)] = chosen
    return picked
