"""Rates in bins of an eighth of a doubling, as PHASE and profiles keep them. Distributions in them add up exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

PER_DOUBLING = 8
SILENT = -1
"""The bin of no I/O."""


def find_rate_bins(rates: ArrayLike) -> NDArray[np.int64]:
    """The bin of each rate (a second): those below 1 are in bin 0, those of 0 or less or NaN are SILENT."""
    values = np.asarray(rates, np.float64)
    moving = values > 0
    logs = np.log2(np.where(moving, values, 1.0))
    return np.where(moving, np.floor(np.maximum(logs, 0.0) * PER_DOUBLING), SILENT).astype(np.int64)


def compute_bin_rates(bins: ArrayLike) -> NDArray[np.float64]:
    """The rate in the (geometric) middle of each bin; 0 of SILENT."""
    values = np.asarray(bins, np.float64)
    return np.where(values < 0, 0.0, np.exp2((np.maximum(values, 0.0) + 0.5) / PER_DOUBLING))
