"""What one component can do, from the jobs it served alone: the rates of phases that overlap on it, added up.

For a past without counters of the component; a lower bound. Pure.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
HIGH = 0.99
"""The sum that this share of a component's busy time stays below is what it can do: sums above it are edges of phases
that only seem to overlap."""


def find_highest_peak(component: I64, start_s: F64, end_s: F64, rate: F64) -> float:
    """The highest rate of any component. E entries: a phase on a component, from `start_s` to `end_s` at `rate` of
    its bytes a second. NaN where there is none."""
    known = (end_s > start_s) & np.isfinite(rate) & (rate > 0)
    if not known.any():
        return float("nan")
    who = np.concatenate([component[known], component[known]])
    when = np.concatenate([start_s[known], end_s[known]])
    step = np.concatenate([rate[known], -rate[known]])
    order = np.lexsort((when, who))
    who, when, step = who[order], when[order], step[order]
    # Steps of one component add up to nothing, so one running sum does for all.
    total = np.cumsum(step)
    lasting = np.where(who[1:] == who[:-1], np.diff(when), 0.0)
    best = float("nan")
    busy = np.flatnonzero((lasting > 0) & (total[:-1] > 1e-6 * rate[known].max()))
    for mine in np.split(busy, np.flatnonzero(np.diff(who[busy])) + 1):
        if len(mine):
            rising = mine[np.argsort(total[mine], kind="stable")]
            reached = np.cumsum(lasting[rising])
            high = float(total[rising][int(np.searchsorted(reached, HIGH * reached[-1]))])
            best = high if np.isnan(best) else max(best, high)
    return best
