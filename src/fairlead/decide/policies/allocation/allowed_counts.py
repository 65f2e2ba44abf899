"""Which counts of resources an application can be granted now, and the best and the least demanding of them.

Not here: which of them a policy takes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import I64, NONE, Applications

BOOL = NDArray[np.bool_]


def find_allowed_counts(applications: Applications, pool: Layer, *, dividing: bool = False) -> BOOL:
    """(K, C): the application has a bandwidth on that many, and that many are available. `dividing`: the count divides
    its number of nodes as well, where that is known.

    Where nothing is left, the smallest count with a bandwidth: placement then grants what there is. Where no resource
    is available at all, nothing is allowed.
    """
    known = ~np.isnan(applications.bandwidth)
    if not len(pool.usable):
        return np.zeros(known.shape, np.bool_)
    fits = known & (applications.counts <= len(pool.usable))
    if dividing:
        nodes = applications.nodes[:, None]
        fits &= (nodes <= 0) | (nodes % applications.counts == 0)
    none = ~fits.any(axis=1)
    fits[none, np.argmax(known[none], axis=1)] = True
    return np.asarray(fits)


def find_best_allowed_count(applications: Applications, fits: BOOL) -> I64:
    """(K,): column of the smallest allowed count of the highest bandwidth, n_perf; NONE where nothing is allowed."""
    column = np.argmax(np.where(fits, applications.bandwidth, -np.inf), axis=1)
    return _or_none(column, fits)


def find_least_allowed_count(applications: Applications, fits: BOOL) -> I64:
    """(K,): column of the smallest allowed count of the least stress, n_sys; NONE where nothing is allowed."""
    column = np.argmin(np.where(fits, applications.stress, np.inf), axis=1)
    return _or_none(column, fits)


def find_nearest_allowed_count(applications: Applications, wanted: NDArray[np.float64], fits: BOOL) -> I64:
    """(K,): column of the allowed count nearest to `wanted` (K,), of two the smaller; NONE where nothing is allowed."""
    away = np.abs(applications.counts - wanted[:, None])
    return _or_none(np.argmin(np.where(fits, away, np.inf), axis=1), fits)


def _or_none(column: I64, fits: BOOL) -> I64:
    return np.asarray(np.where(fits.any(axis=1), column, NONE), np.int64)
