"""Bins of the time histograms in records: their bounds, and what a value in a bin counts as."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

OCTAVES_NS: Floats = np.concatenate([[0.0], 2.0 ** np.arange(40)])
"""Bounds of the bins of fairlead's own records: bin b counts times of [2^(b-1), 2^b) ns, bin 0 counts 0."""


def compute_bin_middles_ns(edges_ns: Floats) -> Floats:
    """What a value in each bin counts as: the geometric middle, of a bin from zero half its upper bound."""
    low, high = edges_ns[:-1], edges_ns[1:]
    return np.where(low > 0, np.sqrt(np.maximum(low, 1.0) * high), high / 2)
