"""Whether a neighbour's load and the victim's rate go opposite ways, and how often chance alone would do that. Pure.

After Hill's dose and response: a load that does not move with the loss is weak evidence, whoever's it is. Loads and
rates that come and go on their own agree by chance more often than independent seconds would: so the load is moved
along the axis, and counted how often it fits as well elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.interference.load_arrays import F64

FEWEST = 12
"""Active seconds of the victim below which nothing is said."""


@dataclass(frozen=True)
class Doses:
    """By job (J,). `response`: correlation of its load with what the victim lacked, in [-1, 1]; `by_chance`: share of
    shifted loads that fit as well; `high_rate`/`low_rate`: the victim's mean rate while the load was high and low.
    NaN: the load did not change, or too little was recorded."""

    response: F64
    by_chance: F64
    high_rate: F64
    low_rate: F64


def estimate_doses(load: F64, rate: F64, active: np.ndarray) -> Doses:
    """`load` (J, T) of the neighbours, `rate` (T,) of the victim, `active` (T,) where it asked for something."""
    jobs = len(load)
    nothing = np.full(jobs, np.nan)
    at = np.flatnonzero(active & np.isfinite(rate))
    if len(at) < FEWEST or np.ptp(rate[at]) <= 0:
        return Doses(nothing, nothing.copy(), nothing.copy(), nothing.copy())
    x, y = load[:, at], -rate[at]
    x0, y0 = x - x.mean(axis=1, keepdims=True), y - y.mean()
    # A load that hardly moves tells nothing, whatever its last digits do.
    moves = x.std(axis=1) > 0.02
    norm = np.sqrt((x0**2).sum(axis=1) * (y0**2).sum())
    spectrum = np.fft.rfft(x0, axis=1).conj() * np.fft.rfft(y0)
    shifted = np.fft.irfft(spectrum, len(at), axis=1) / np.where(norm > 0, norm, 1.0)[:, None]
    response = shifted[:, 0]
    elsewhere = shifted[:, 2:-1]
    chance = (elsewhere >= response[:, None] - 1e-12).mean(axis=1)
    high = x >= (x.min(axis=1) + 0.5 * np.ptp(x, axis=1))[:, None]
    low = x <= (x.min(axis=1) + 0.2 * np.ptp(x, axis=1))[:, None]
    means = [(part * rate[at]).sum(axis=1) / np.maximum(part.sum(axis=1), 1) for part in (high, low)]
    return Doses(*(np.where(moves, values, np.nan) for values in (response, chance, *means)))
