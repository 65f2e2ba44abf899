"""What the study measures of a run: slowdown of I/O, its parts, occupancy and spread, idle cores, and fairness.

Bandet, Boito and Pallez 2024, section on metrics; reference names in the docstrings. Pure columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.cycles.cycle_model import Outcome

F64 = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Measures:
    """`slowdown` (K,): rho = I/O time over V / b(n_perf), NaN for an application without a whole phase in the window;
    its parts `granted` (rho_io: what the granted count costs alone) and `contention` (rho_con: what others cost).
    `occupancy` (N,) and `spread`, its maximum less its minimum; `idle`: cores that wait for I/O, as a share of the
    machine's; `stretch` (K,): cycle with I/O over the cycle it would have alone at n_perf; `fairness`: Jain's index of
    1 / slowdown; `unfinished`: applications without a whole phase."""

    slowdown: F64
    granted: F64
    contention: F64
    stretch: F64
    occupancy: F64
    spread: float
    idle: float
    fairness: float
    unfinished: int

    @property
    def mean(self) -> float:
        """Mean slowdown of those that have one."""
        return float(np.nanmean(self.slowdown)) if (~np.isnan(self.slowdown)).any() else float("nan")

    @property
    def longest(self) -> float:
        """The largest slowdown."""
        return float(np.nanmax(self.slowdown)) if (~np.isnan(self.slowdown)).any() else float("nan")

    def compute_percentile(self, share: float) -> float:
        """Of the slowdowns, `share` in 0..100."""
        return float(np.nanpercentile(self.slowdown, share)) if (~np.isnan(self.slowdown)).any() else float("nan")


def measure_cycle_fairness(values: F64) -> float:
    """Jain's index of fairness of positive values: 1 all alike, 1 / n one has all. NaN without values."""
    known = values[np.isfinite(values)]
    return float(known.sum() ** 2 / (len(known) * (known**2).sum())) if len(known) and known.any() else float("nan")


def compute_cycle_measures(
    outcome: Outcome, best_s: F64, work_s: F64, compute_s: F64, cores: F64, machine_cores: float
) -> Measures:
    """`best_s` (K,): V / b(n_perf); `work_s` (K,): V / b(n) as granted; `compute_s` (K,): T; `cores` (K,): Q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        io = np.where(outcome.phases > 0, outcome.io_s / outcome.io_share, np.nan)
        slowdown = np.where(best_s > 0, io / best_s, 1.0)
        granted = np.where(best_s > 0, work_s / best_s, 1.0)
        stretch = np.where(best_s + compute_s > 0, (compute_s + io) / (compute_s + best_s), 1.0)
        occupancy = outcome.busy_s / outcome.window_s if outcome.window_s else np.full(len(outcome.busy_s), np.nan)
    idle = float((outcome.waiting_s * cores).sum() / (outcome.window_s * machine_cores)) if outcome.window_s else np.nan
    return Measures(
        slowdown=slowdown,
        granted=granted,
        contention=slowdown - granted,
        stretch=stretch,
        occupancy=occupancy,
        spread=float(occupancy.max() - occupancy.min()) if len(occupancy) else 0.0,
        idle=idle,
        fairness=measure_cycle_fairness(1.0 / slowdown[~np.isnan(slowdown)]),
        unfinished=int(np.isnan(slowdown).sum()),
    )
