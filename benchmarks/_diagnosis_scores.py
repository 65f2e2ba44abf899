"""Scores of detectors against labels: precision, recall, F1 with confidence intervals by play, reliability.

Not here: the labelled machine (`fairlead.kit.testing.machine.labelled`), what is printed (`diagnosis`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Score:
    """Precision, recall, F1, and the 95 % interval of F1 over resampled plays; `found` true positives, `wanted` all."""

    precision: float
    recall: float
    f1: float
    low: float
    high: float
    found: int
    wanted: int


def score(said: NDArray[np.bool_], state: NDArray[np.int8], play: NDArray[np.int64], seed: int = 1) -> Score:
    """What was `said` to be abnormal against `state` (1, 0; -1 does not count), resampled by `play`."""
    _, play = np.unique(play, return_inverse=True)
    plays = int(play.max(initial=-1)) + 1
    hit, missed, false = (
        np.bincount(play[rows], minlength=plays)
        for rows in (said & (state == 1), ~said & (state == 1), said & (state == 0))
    )
    rng = np.random.default_rng(seed)
    chosen = rng.integers(plays, size=(BOOTSTRAPS, plays))
    sums = [column[chosen].sum(axis=1) for column in (hit, missed, false)]
    again = f1(*sums)
    low, high = np.quantile(again, (0.025, 0.975)) if plays else (np.nan, np.nan)
    tp, fn, fp = int(hit.sum()), int(missed.sum()), int(false.sum())
    return Score(
        tp / (tp + fp) if tp + fp else np.nan,
        tp / (tp + fn) if tp + fn else np.nan,
        float(f1(np.array(tp), np.array(fn), np.array(fp))),
        float(low),
        float(high),
        tp,
        tp + fn,
    )


def f1(hit: NDArray[np.int64], missed: NDArray[np.int64], false: NDArray[np.int64]) -> NDArray[np.float64]:
    """2 TP / (2 TP + FN + FP); 1 where there was nothing to find and nothing was said."""
    whole = 2 * hit + missed + false
    return np.where(whole > 0, 2 * hit / np.maximum(whole, 1), 1.0)


def best_threshold(value: NDArray[np.float64], state: NDArray[np.int8]) -> float:
    """The value from which on to say "abnormal" for the highest F1 there is."""
    counted = (state >= 0) & np.isfinite(value)
    order = np.argsort(-value[counted])
    true = (state[counted] == 1)[order]
    hit = np.cumsum(true)
    made = f1(hit, true.sum() - hit, np.cumsum(~true))
    return float(value[counted][order][int(np.argmax(made))]) if len(made) else np.inf


def share(right: int, of: int, z: float = 1.96) -> tuple[float, float, float]:
    """A share with its 95 % interval (Wilson)."""
    if not of:
        return np.nan, np.nan, np.nan
    p, d = right / of, 1 + z * z / of
    centre, half = (p + z * z / (2 * of)) / d, z * np.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / d
    return p, float(centre - half), float(centre + half)


def reliability(
    said: NDArray[np.float64], true: NDArray[np.bool_], edges: tuple[float, ...] = (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1)
) -> list[tuple[float, float, int, float, float]]:
    """For each bin of what was said: its bounds, how many, the mean said and the share that was true."""
    rows = []
    for low, high in pairwise(edges):
        here = (said >= low) & ((said < high) | ((high == edges[-1]) & (said <= high)))
        n = int(here.sum())
        mean, right = (float(said[here].mean()), float(true[here].mean())) if n else (np.nan, np.nan)
        rows.append((low, high, n, mean, right))
    return rows
