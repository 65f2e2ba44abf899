"""Sets of applications drawn as the scheduling study draws them (Bandet, Boito, Pallez 2024, section on workloads).

Independent streams: who draws more of one kind does not move the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.decide.policies.allocation.contract import Applications
from fairlead.decide.sim.cycles.cycle_model import Cycles
from fairlead.decide.sim.workloads.profiles import Profiles

F64 = NDArray[np.float64]
CYCLE_S = 5000.0
"""T + t(1) of every application."""
FEWEST_PHASES, MOST_PHASES = 2, 20
CORES = ((0.1, 0.75), (0.3, 0.20), (0.6, 0.05))
"""Shares of applications and the shares of the machine's cores they hold."""


@dataclass(frozen=True, kw_only=True)
class DrawnSet:
    """One set: what policies are told (`applications`), what runs (`cycles`), the scenario of each (K,), and the
    machine: `resources` (N) and `cores` (Q_cpu)."""

    applications: Applications
    cycles: Cycles
    scenario: NDArray[np.int64]
    resources: int
    cores: float

    @property
    def load(self) -> float:
        """load(pi_sys): mean stress a resource when each has its n_sys; the axis of the study's figures."""
        applications = self.applications
        return float(applications.stress[np.arange(len(applications)), applications.least].sum() / self.resources)


def compute_published_ratio(theta: float, resources: int, applications: int) -> float:
    """b with log(1 + b) = b theta N / K: X = T / t(1) ~ U[0, b] then makes the mean stress at n = 1 theta N / K, and
    the load theta. Raises UsageError where theta is not within 0 and K / N."""
    slope = theta * resources / applications
    if not 0 < slope < 1:
        raise UsageError(
            f"no workload of {applications} applications on {resources} resources has load {theta:g}",
            where="load",
            remedy=f"above 0 and below {applications / resources:g} (applications / resources)",
        )
    low, high = 0.0, 1.0
    while math.log1p(high) > high * slope:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.log1p(middle) > middle * slope else (low, middle)
    return high


def draw_published_set(
    profiles: Profiles,
    theta: float,
    applications: int,
    seed: int | tuple[int, ...],
    *,
    resources: int = 20,
    cores: float = 480.0,
) -> DrawnSet:
    """A set of K applications whose load at n = 1 is `theta` in the mean. The same seed gives the same set."""
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(5)]
    k = applications
    scenario = streams[0].integers(0, len(profiles), k)
    phases = streams[1].integers(FEWEST_PHASES, MOST_PHASES + 1, k)
    ratio = streams[2].uniform(0.0, compute_published_ratio(theta, resources, k), k)
    io_s = CYCLE_S / (1.0 + ratio)
    compute_s = CYCLE_S - io_s
    own = profiles.select_rows(scenario)
    held = _cores(k, cores)
    streams[3].shuffle(held)
    skip_s = streams[4].uniform(0.0, 1.0, k) * compute_s / phases
    return DrawnSet(
        applications=Applications.from_columns(
            own.counts,
            own.bandwidth,
            io_s * own.bandwidth[:, 0],
            compute_s,
            held,
            nodes=own.nodes,
            processes=own.processes,
            direct=own.direct,
            behaviour=own.behaviour,
        ),
        cycles=Cycles.build_equal(phases, compute_s, skip_s=skip_s),
        scenario=scenario,
        resources=resources,
        cores=cores,
    )


def _cores(applications: int, cores: float) -> F64:
    large = max(1, round(CORES[0][0] * applications))
    middle = max(1, round(CORES[1][0] * applications))
    small = max(applications - large - middle, 0)
    numbers = (large, middle, small)
    parts = [np.full(n, share * cores / n) for n, (_, share) in zip(numbers, CORES, strict=True) if n]
    return np.concatenate(parts)[:applications]
