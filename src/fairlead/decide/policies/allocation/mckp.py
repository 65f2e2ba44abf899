"""MCKP (Bez et al., IPDPS 2021): counts of resources as a multiple-choice knapsack, so that each resource has one user.

One class an application, one item an allowed count: weight n, value b(n), capacity the number of resources.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.allowed_counts import BOOL, find_allowed_counts
from fairlead.decide.policies.allocation.contract import F64, I64, NONE, Applications, Running


@dataclass(frozen=True)
class Mckp:
    """The largest sum of bandwidths with exactly one item of each application and no more resources than there are:
    exact, O(W items) by dynamic programming, of equal answers the one of fewer resources for the later application.

    Where not even the smallest counts fit (more applications than resources), each gets its item of least weight, the
    count `default` where that is allowed, and resources are shared: the published policy leaves that to the site.
    An application whose curve is not known comes in with a bandwidth for the site's default count alone, and gets that.
    `direct`: 0 is an item where the bandwidth without any resource is known. `dividing`: only counts that divide the
    number of nodes.
    """

    direct: bool = False
    dividing: bool = False
    default: int = 1

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        fits = find_allowed_counts(applications, pool, dividing=self.dividing)
        weight, value = self._items(applications, fits, pool)
        chosen = choose_mckp_items(weight, value, len(pool.usable))
        if chosen is None:
            return self._without(applications, fits, value)
        return np.asarray(chosen - 1, np.int64)  # item 0 is straight to the file system

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`: the best that resources without a user allow; those that run keep theirs."""
        fits = find_allowed_counts(application, pool, dividing=self.dividing)
        weight, value = self._items(application, fits, pool)
        chosen = choose_mckp_items(weight, value, int((running.users[pool.usable] == 0).sum()))
        if chosen is None:
            return int(self._without(application, fits, value)[0])
        return int(chosen[0]) - 1

    def _items(self, applications: Applications, fits: BOOL, pool: Layer) -> tuple[I64, F64]:
        """Weights (C + 1,) and values (K, C + 1), -inf: no such item. No item weighs more than there is."""
        direct = applications.direct if self.direct else np.full(len(applications), np.nan)
        value = np.column_stack([direct, np.where(fits, applications.bandwidth, np.nan)])
        return np.concatenate([[0], np.minimum(applications.counts, len(pool.usable))]), np.where(
            np.isnan(value), -np.inf, value
        )

    def _without(self, applications: Applications, fits: BOOL, value: F64) -> I64:
        wanted = fits[:, applications.counts == self.default].any(axis=1)
        at_default = int(np.searchsorted(applications.counts, self.default))
        smallest = np.where(wanted, at_default, np.argmax(fits, axis=1))
        nothing = ~fits.any(axis=1) | np.isfinite(value[:, 0])
        return np.asarray(np.where(nothing, NONE, smallest), np.int64)


class MckpDirect(Mckp):
    """With 0, straight to the file system, among the items."""

    def __init__(self) -> None:
        super().__init__(direct=True)


def choose_mckp_items(weight: I64, value: F64, capacity: int) -> I64 | None:
    """(K,) item of each class with the largest sum of `value` (K, items; -inf: no such item), weights (items,) within
    `capacity`; None where there is no way. Of equal items the first."""
    if not len(value):
        return np.zeros(0, np.int64)
    from fairlead.decide.policies.allocation import mckp_kernel

    chosen = np.zeros(len(value), np.int64)
    found = mckp_kernel.solve_mckp_knapsack(
        weight.astype(np.int64), np.ascontiguousarray(value, np.float64), capacity, chosen
    )
    return chosen if found else None
