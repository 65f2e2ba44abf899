"""The loop of `expectation`, compiled: for each phase the others of its categories, what they lead one to expect, and
how sure it is that it lost time. Not here: what goes in and comes out (`expectation`).

Imported by functions: loads numba.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairlead.core.jit import compile_jit_function

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

WINDOW = 64
"""At most so many others are compared with a phase: those nearest in time, so that a machine may change."""
OF_ONE_JOB = 4
"""At most so many of one job in a row: a run of a thousand checkpoints is one run."""
FURTHEST = 4096
ROUNDS, CLOSE = 12, 0.01
FREEDOM = 6.0
"""Degrees of freedom of the noise (Student's t): its tails are heavier than a bell curve's."""
SPREAD_ROWS = 6.0
"""The prior of a category's spread counts as so many rows."""
FAST_SHARE = 0.7
"""The centre is first sought here in the rates in order: what is slowed lies below."""
NODES, REACH = 81, 12.0
FAR_WEIGHT = 0.05
NORM = math.gamma((FREEDOM + 1) / 2) / (math.sqrt(FREEDOM * math.pi) * math.gamma(FREEDOM / 2))


@compile_jit_function
def _density(z: float) -> float:
    x = 1.0 + z * z / FREEDOM
    return float(NORM / (x * x * x * math.sqrt(x)))  # x to the power of -(FREEDOM + 1) / 2


@compile_jit_function
def _gathered(
    order: I64, low: int, high: int, start: I64, job: I64, mine: int, at_ns: int, batch: bool, taken: I64
) -> int:
    """Rows of `order[low:high]` (in time order) nearest to `at_ns`, not of job `mine`; in `taken`. How many."""
    first, last = low, high
    while first < last:
        middle = (first + last) >> 1
        if start[order[middle]] < at_ns:
            first = middle + 1
        else:
            last = middle
    down, up = first - 1, first
    count = 0
    before, before_count, after, after_count = -1, 0, -1, 0
    for _ in range(FURTHEST):
        left = down >= low
        right = batch and up < high
        if count >= WINDOW or not (left or right):
            break
        if left and (not right or at_ns - start[order[down]] <= start[order[up]] - at_ns):
            row = order[down]
            down -= 1
            who = job[row]
            before_count = before_count + 1 if who == before else 1
            before = who
            if who == mine or before_count > OF_ONE_JOB:
                continue
        else:
            row = order[up]
            up += 1
            who = job[row]
            after_count = after_count + 1 if who == after else 1
            after = who
            if who == mine or after_count > OF_ONE_JOB:
                continue
        taken[count] = row
        count += 1
    return count


@compile_jit_function
def _quantile(values: F64, weights: F64, count: int, share: float) -> float:
    order = np.argsort(values[:count])
    half = share * weights[:count].sum()
    sofar = 0.0
    for at in order:
        sofar += weights[at]
        if sofar >= half:
            return float(values[at])
    return float(values[order[count - 1]])


@compile_jit_function
def _centre(
    values: F64,
    weights: F64,
    count: int,
    prior: float,
    prior_variance: float,
    spread: float,
    slowed: float,
    mean: float,
) -> tuple[float, float, float]:
    """Centre, its variance and the spread of values of which a share `slowed` lies `mean` or so too low: expectation
    and maximisation of a mixture of t noise and noise less an exponential, shrunk to the prior."""
    sigma = spread
    middle = _quantile(values, weights, count, FAST_SHARE)
    # Few rows say little of where the fast ones lie: the prior has its share from the beginning.
    own = sigma * sigma / max(weights[:count].sum(), 1e-9)
    middle = (middle / own + prior / prior_variance) / (1.0 / own + 1.0 / prior_variance)
    variance = prior_variance
    for _ in range(ROUNDS):
        total = centre = squares = rows = 0.0
        for i in range(count):
            z = (values[i] - middle) / sigma
            fine = (1.0 - slowed) * _density(z) / sigma
            below = middle - values[i]
            slow = slowed / mean * (math.exp(-below / mean) if below > 0 else math.exp(-0.5 * z * z))
            chance = weights[i] * fine / (fine + slow)
            heavy = chance * (FREEDOM + 1.0) / (FREEDOM + z * z)
            total += heavy
            centre += heavy * values[i]
            squares += heavy * (values[i] - middle) ** 2
            rows += chance
        sigma2 = (squares + SPREAD_ROWS * spread * spread) / (rows + SPREAD_ROWS)
        variance = 1.0 / (total / sigma2 + 1.0 / prior_variance)
        before = middle
        middle = variance * (centre / sigma2 + prior / prior_variance)
        sigma = math.sqrt(sigma2)
        if abs(middle - before) < CLOSE * sigma:
            break
    return middle, variance, sigma


@compile_jit_function
def _surely(distance: float, scale: float, least: float, slowed: float, mean: float) -> float:
    """How likely a value `distance` below its centre was slowed by `least` or more."""
    fine = (1.0 - slowed) * _density(distance / scale) / scale
    more = any_ = 0.0
    step = 2.0 * REACH / (NODES - 1)
    for node in range(NODES):
        u = -REACH + node * step
        slow = distance - u * scale
        if slow < 0.0:
            continue
        value = math.exp(-slow / mean) / mean * _density(u) * step
        any_ += value
        if slow >= least:
            more += value
    whole = fine + slowed * any_
    return float(slowed * more / whole) if whole > 0.0 else 0.0


@compile_jit_function
def run_mixture_kernel(
    first: int,
    last: int,
    low: I64,
    high: I64,
    order: I64,
    rate: F64,
    volume: F64,
    request: F64,
    still: F64,
    start: I64,
    job: I64,
    my_amount: F64,
    my_active: F64,
    my_silent: F64,
    my_volume: F64,
    my_request: F64,
    my_start: I64,
    my_job: I64,
    prior: F64,
    block: I64,
    spread: F64,
    between: F64,
    slowed: F64,
    mean: F64,
    batch: bool,
    judging: int,
    least: float,
    wide: float,
    confidence: F64,
    expected: F64,
    took: F64,
    runs: I64,
    rung: I64,
) -> None:
    """Judges phases [first, last). `low`, `high` (rungs, P): their categories in `order` (rungs, H), in time order, -1
    where they have none. `rate` (log2 a second), `volume`, `request` (log2), `still` (silent time for each active),
    `start`, `job`: of the history, (H,). `my_*`: of the judged; `my_amount` log2. `prior`, `spread`, `between`,
    `slowed`, `mean`: by block of history, see `expected`. Out: the last five."""
    rungs = low.shape[0]
    taken = np.empty(WINDOW, np.int64)
    values, weights, quiet = np.empty(WINDOW), np.empty(WINDOW), np.empty(WINDOW)
    for p in range(first, last):
        b = block[p]
        if b < 0 or not math.isfinite(my_amount[p]) or not my_active[p] > 0.0:
            continue
        middle, variance, sigma = prior[b], 16.0, 1.0
        best, silence, size, count = -1, 0.0, -1, 0
        for k in range(rungs - 1, -1, -1):
            if low[k, p] < 0:
                continue
            # The same rows as on the rung before say nothing new.
            if high[k, p] - low[k, p] != size:
                size = high[k, p] - low[k, p]
                found = _gathered(order[k], low[k, p], high[k, p], start, job, my_job[p], my_start[p], batch, taken)
                if found == 0:
                    # Nobody is alike on this rung; on a narrower one may be somebody: rungs ask for different things.
                    size = -1
                    continue
                count = found
                for i in range(count):
                    row = taken[i]
                    values[i] = rate[row]
                    away = (volume[row] - my_volume[p]) / wide
                    other = 0.0 if math.isnan(request[row] - my_request[p]) else request[row] - my_request[p]
                    weights[i] = max(math.exp(-0.5 * (away * away + other * other)), FAR_WEIGHT)
                    quiet[i] = still[row]
                apart = variance + between[b, k] ** 2
                middle, variance, sigma = _centre(
                    values, weights, count, middle, apart, spread[b, k], slowed[b], mean[b]
                )
                # More than any of them ever got is not expected, whatever their kind is like.
                middle = min(middle, values[:count].max())
                silence = _quantile(quiet, weights, count, 0.75)
            if k <= judging and count > 0:
                best = k
                runs[p] = count
        if best < 0:
            continue
        extra = max(my_silent[p] - silence * my_active[p], 0.0)
        time = my_active[p] + extra
        distance = middle - (my_amount[p] - math.log2(time))
        confidence[p] = _surely(distance, math.sqrt(sigma * sigma + variance), least, slowed[b], mean[b])
        expected[p] = 2.0 ** (my_amount[p] - middle)
        took[p] = time
        rung[p] = best
