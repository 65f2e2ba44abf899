"""What each neighbour and each faulty component took of the victim's time, in seconds. Pure.

At a component the loss of a second falls to those who held it: by the time their requests were in service where
workers are what is short, else by bytes and requests. Not more than what they held would have been worth to the victim.
Not here: where the time was lost (`congestion`), whether a load moves with the loss (`dose_response`), wording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.interference.congestion import ComponentCongestion, Congestion, compute_congestion_use
from fairlead.explain.analysis.interference.load_arrays import F64, Component, Loads


@dataclass(frozen=True)
class Blame:
    """Seconds of the victim: `jobs` (J,) what each took, in order of `Loads.jobs` (the victim's own is 0), `where`
    (C, J) the same by component of the path, `alone` (J,) what the victim would have back if only that job were gone,
    `faults` (C,) what known faults took. `holding` (C, J): mean share of the component each job held while time was
    lost there. `load` (J, T): how much of the path each held, by interval; `shares`: of each component, by interval
    (J, T)."""

    jobs: F64
    where: F64
    alone: F64
    faults: F64
    holding: F64
    load: F64
    shares: Sequence[F64]
    unexplained_s: float


def assign_blame(loads: Loads, found: Congestion) -> Blame:
    """The seconds lost, shared out."""
    jobs, count = len(loads.jobs), loads.axis.count
    where, faults = np.zeros((len(found.held), jobs)), np.zeros(len(found.held))
    holding, load = np.zeros((len(found.held), jobs)), np.zeros((jobs, count))
    alone = np.zeros(jobs)
    total = float(found.lost.sum())
    # What is left of a striped job runs at a small part of its usual rate, whatever it gets: so no more than the mean.
    mean = float((found.loss * found.lost).sum() / total) if total > 0 else 0.0
    loss = np.minimum(found.loss, min(mean, found.lost_share))
    shares = []
    for row, held in enumerate(found.held):
        share = _compute_held_shares(loads.components[held.place], held)
        shares.append(share)
        others = share.sum(axis=0) - share[0]
        fault = _fault_share(held, share[0], others)
        here = found.lost * held.at
        rest = here * (1.0 - fault)
        worth = _worth(share[0], others, loss)
        alone += (_worth(share[0], share, loss) * rest).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(others > 0, share / np.where(others > 0, others, 1.0), 0.0)
        each[0] = 0.0
        where[row] = (each * (rest * worth)).sum(axis=1)
        faults[row] = float((here * fault).sum())
        weight = here if here.sum() > 0 else found.inside
        holding[row] = (share * weight).sum(axis=1) / max(float(weight.sum()), 1e-12)
        load += share * (here.sum() / max(float(found.lost.sum()), 1e-12))
    alone[0] = 0.0
    return Blame(
        jobs=where.sum(axis=0),
        where=where,
        alone=alone,
        faults=faults,
        holding=holding,
        load=load,
        shares=shares,
        unexplained_s=max(total - float(where.sum()) - float(faults.sum()), 0.0),
    )


def _compute_held_shares(one: Component, held: ComponentCongestion) -> F64:
    """How much of what was had of a component each job had, by interval (J, T); columns add up to 1 or are 0."""
    by_cost = _shares(np.nan_to_num(compute_congestion_use(one.parts, one.kind)))
    busy = np.nan_to_num(one.parts.busy_s)
    if one.kind != "forwarder" or not busy.any():
        return by_cost
    # Near its peak a forwarder is short of bandwidth; far below it, of workers.
    full = np.clip((np.nan_to_num(held.util) - 0.6) / 0.3, 0.0, 1.0)
    return full * by_cost + (1.0 - full) * _shares(busy)


def _shares(amounts: F64) -> F64:
    total = amounts.sum(axis=0)
    shares: F64 = amounts / np.where(total > 0, total, 1.0)
    return shares


def _fault_share(held: ComponentCongestion, mine: F64, others: F64) -> F64:
    """Of what was lost here, what the missing capacity explains: it against what others had of the rest."""
    left = 1.0 - held.faulty
    crowd = left * others / np.where(mine + others > 0, mine + others, 1.0)
    share: F64 = np.where(held.faulty > 0, held.faulty / np.maximum(held.faulty + crowd, 1e-12), 0.0)
    return share


def _worth(mine: F64, others: F64, loss: F64) -> F64:
    """How much of its loss the victim would have back if it had what the others held, at most 1."""
    lacking = loss / np.maximum(1.0 - loss, 0.02)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(mine > 0, others / np.where(mine > 0, mine, 1.0), np.where(others > 0, np.inf, 0.0))
        worth: F64 = np.where(lacking > 0, np.minimum(gain / np.where(lacking > 0, lacking, 1.0), 1.0), 1.0)
    return worth


def order_by_blame(values: Sequence[float] | F64) -> list[int]:
    """Places of the values, largest first; those equal in their order."""
    return sorted(range(len(values)), key=lambda k: (-float(values[k]), k))
