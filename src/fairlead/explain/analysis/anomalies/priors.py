"""What all categories together say before any one does: how wide they are, how far apart, how many phases are slow.

The empirical part of empirical Bayes, by robust estimates in columns. Few categories are taken together with stated
defaults. Not here: the estimate of one category (`mixture_kernel`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.explain.analysis.history.category import NONE
from fairlead.explain.analysis.table_columns import combine_column_codes

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
SPREAD, BETWEEN, SLOWED, MEAN = 0.25, 1.0, 0.05, 1.5
"""Before anything is known: octaves of a category's noise and between categories, the share of slow phases, how many
octaves those are slow. Beacon (TOS 2023, section 6) found 4.8 % of jobs abnormal."""
DEFAULT_GROUPS, DEFAULT_ROWS, DEFAULT_SLOW = 5.0, 100.0, 10.0
"""How many categories, rows and slow rows the defaults count as."""
LEAST_SPREAD, LEAST_BETWEEN = 0.02, 0.05
CENTRE = 0.6
MAD = 1.4826


@dataclass(frozen=True)
class Priors:
    """By block of history (B,): overall `middle` (log2), share `slowed`, its `mean` octaves; by block and rung (B, K):
    `spread` in a category, `between` it and the rung before. `block` (P,): which one a phase takes, -1: none."""

    block: I64
    middle: F64
    spread: F64
    between: F64
    slowed: F64
    mean: F64


def estimate_priors(rate: F64, codes: I64, job: I64, rows: I64) -> Priors:
    """Priors of histories of the first `rows` (P,) of `rate` (H,), with categories `codes` (K, H)."""
    lengths, block = np.unique(rows, return_inverse=True)
    empty = len(lengths) > 0 and lengths[0] == 0
    if empty:
        lengths, block = lengths[1:], block - 1
    found = [_prior(rate[:n], codes[:, :n], job[:n]) for n in lengths.tolist()]
    rungs = len(codes)
    return Priors(
        block=np.asarray(block, np.int64),
        middle=np.array([one[0] for one in found]),
        spread=np.array([one[1] for one in found]).reshape(-1, rungs),
        between=np.array([one[2] for one in found]).reshape(-1, rungs),
        slowed=np.array([one[3] for one in found]),
        mean=np.array([one[4] for one in found]),
    )


def _prior(rate: F64, codes: I64, job: I64) -> tuple[float, F64, F64, float, float]:
    middle = float(np.median(rate))
    rungs = len(codes)
    spread, between = np.full(rungs, SPREAD), np.full(rungs, BETWEEN)
    parent = np.full(len(rate), middle)
    best = np.full(len(rate), np.nan)
    wide = np.full(len(rate), np.nan)
    for k in range(rungs - 1, -1, -1):
        code = codes[k]
        inside = np.flatnonzero(code != NONE)
        if not len(inside):
            continue
        # One row of a job in each category: phases of one run are more alike than runs.
        _, one = np.unique(combine_column_codes([code[inside], job[inside]]), return_index=True)
        row = inside[one]
        size, centre, median = _centres(code[row], rate[row], int(code.max()) + 1)
        groups = np.flatnonzero(size >= 2)
        many = size[code[row]] >= 3
        above = rate[row][many] - median[code[row]][many]
        above = above[above > 0]
        weight = float((size >= 3).sum())
        own = float(np.clip(MAD * np.median(above), LEAST_SPREAD, 4.0)) if len(above) else SPREAD
        spread[k] = (own * weight + SPREAD * DEFAULT_GROUPS) / (weight + DEFAULT_GROUPS)
        count = np.bincount(code[row], minlength=len(size))
        up = np.bincount(code[row], parent[row], len(size)) / np.maximum(count, 1)
        if len(groups):
            apart = (MAD * float(np.median(np.abs(centre[groups] - up[groups])))) ** 2
            noise = float(np.median(1.57 * spread[k] ** 2 / size[groups]))
            own = max(apart - noise, LEAST_BETWEEN**2)
            weight = float(len(groups))
            between[k] = np.sqrt((own * weight + BETWEEN**2 * DEFAULT_GROUPS) / (weight + DEFAULT_GROUPS))
        here = inside[size[code[inside]] >= 2]
        parent[here] = centre[code[here]]
        told = inside[size[code[inside]] >= 4]
        best[told], wide[told] = centre[code[told]], spread[k]
    below = best - rate
    known = np.isfinite(below)
    slow = known & (below > np.maximum(0.5, 4.0 * wide))
    slowed = (slow.sum() + SLOWED * DEFAULT_ROWS) / (known.sum() + DEFAULT_ROWS)
    mean = (below[slow].sum() + MEAN * DEFAULT_SLOW) / (slow.sum() + DEFAULT_SLOW)
    return middle, spread, between, float(np.clip(slowed, 0.01, 0.3)), float(np.clip(mean, 0.5, 4.0))


def _centres(code: I64, rate: F64, groups: int) -> tuple[I64, F64, F64]:
    """Rows, centre (a little above the median: what is slowed lies below) and median of each category."""
    order = np.lexsort((rate, code))
    size = np.bincount(code, minlength=groups)
    begin = np.concatenate([[0], np.cumsum(size)[:-1]])
    ordered = np.append(rate[order], np.nan)
    last = np.maximum(size - 1, 0)
    middle = 0.5 * (ordered[begin + last // 2] + ordered[np.minimum(begin + (last + 1) // 2, len(rate))])
    centre = ordered[np.minimum(begin + np.ceil(CENTRE * last).astype(np.int64), len(rate))]
    return size, centre, middle
