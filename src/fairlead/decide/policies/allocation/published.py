"""Published allocations that look at one application at a time: how many resources it gets, whatever others get.

Random, Static, BestBdw and Nsys of Bandet, Boito and Pallez 2024; SIZE, PROCESS and ORACLE of Bez et al. (IPDPS 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.allowed_counts import (
    find_allowed_counts,
    find_best_allowed_count,
    find_least_allowed_count,
    find_nearest_allowed_count,
)
from fairlead.decide.policies.allocation.contract import F64, I64, NONE, Applications, Running


class Random:
    """Any allowed count, each as likely as the others."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:
        """See `Allocation`."""
        fits = find_allowed_counts(applications, pool)
        keys = np.where(fits, rng.random(fits.shape), -1.0)
        return np.asarray(np.where(fits.any(axis=1), np.argmax(keys, axis=1), NONE), np.int64)

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`."""
        return int(self.choose(application, pool, rng)[0])


class Static:
    """n = round(Q N / Q_cpu), one at least: as many resources as its part of the machine's cores. Of the counts that
    can be granted the nearest, of two the smaller. N counts the available resources."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        wanted = np.maximum(1.0, np.round(applications.cores * len(pool.usable) / pool.cores))
        return find_nearest_allowed_count(applications, wanted, find_allowed_counts(applications, pool))

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`."""
        return int(self.choose(application, pool, rng)[0])


class BestBandwidth:
    """BestBdw: the smallest count of the highest bandwidth, n_perf."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        return find_best_allowed_count(applications, find_allowed_counts(applications, pool))

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`."""
        return int(self.choose(application, pool, rng)[0])


class NSys:
    """Nsys: the count of the least stress n t / (T + t), n_sys."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        return find_least_allowed_count(applications, find_allowed_counts(applications, pool))

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`."""
        return int(self.choose(application, pool, rng)[0])


def _proportional(applications: Applications, size: F64, total: float, pool: Layer) -> I64:
    """The allowed count nearest to round(F size / total), F available resources."""
    wanted = np.round(size / total * len(pool.usable)) if total > 0 else np.ones(len(size))
    return find_nearest_allowed_count(applications, wanted, find_allowed_counts(applications, pool))


class Size:
    """SIZE: of the pool the part that the job's nodes are of the nodes of all that run, rounded (Bez et al., IPDPS
    2021), and then to the nearest count that can be granted, of two the smaller. Where a number of nodes is not known,
    cores decide; where not even those of who runs are known, the job's part of the machine's cores does."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        return _parts(applications, applications.nodes, pool)

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`: beside those that run, which keep what they have."""
        known = not running.nodeless
        return _part(application, application.nodes, running, running.nodes_used if known else 0, pool)


class Process:
    """PROCESS: as `Size`, by the number of processes."""

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        return _parts(applications, applications.processes, pool)

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`: beside those that run, which keep what they have."""
        known = not running.processless
        return _part(application, application.processes, running, running.processes_used if known else 0, pool)


def _parts(applications: Applications, size: I64, pool: Layer) -> I64:
    by = applications.cores if (size <= 0).any() else size.astype(np.float64)
    return _proportional(applications, by, float(by.sum()), pool)


def _part(application: Applications, size: I64, running: Running, others: int, pool: Layer) -> int:
    by, total = size.astype(np.float64), float(size[0] + others)
    if size[0] <= 0 or (len(running) and not others):
        by, total = application.cores, float(application.cores[0]) + running.cores_used
        if len(running) and not running.cores_used:  # who runs is known by sums alone
            total = pool.cores
    return int(_proportional(application, by, total, pool)[0])


@dataclass(frozen=True)
class Oracle:
    """ORACLE: each its best count as if the pool were its own (Bez et al., IPDPS 2021): a bound for exclusive grants,
    which an allocation on a limited pool cannot reach. Of counts beyond the available resources the bound takes none.
    With `direct`, straight to the file system where that is known to be faster."""

    direct: bool = False

    def choose(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG002
        """See `Allocation`."""
        column = find_best_allowed_count(applications, find_allowed_counts(applications, pool))
        if not self.direct:
            return column
        reached = np.where(column < 0, 0.0, applications.bandwidth[np.arange(len(column)), column])
        return np.asarray(np.where(np.nan_to_num(applications.direct) >= reached, NONE, column), np.int64)

    def choose_one(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> int:  # noqa: ARG002
        """See `Allocation`."""
        return int(self.choose(application, pool, rng)[0])
