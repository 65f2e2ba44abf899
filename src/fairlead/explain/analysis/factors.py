"""Which of the things measured around runs explain the slow ones: factors ranked by what forgetting them would cost.

A correlation coefficient asks whether speed and a factor move along a line, over all runs alike; slow runs are few,
and what makes them slow sets in beyond a threshold. So a robust model of the runs of the past is asked about later
ones, and a factor counts for as much as the answer gets worse when its values are shuffled. Pure. Not here: where the
factors are from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.repeated_runs import Runs

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class FactorLimits:
    """`slow`: a run below this share of its group's median. `past`: share of the runs, the earliest, that are learnt
    from. `shuffles` of each family."""

    slow: float = 0.8
    past: float = 0.7
    shuffles: int = 20
    least_slow: int = 5


@dataclass(frozen=True, kw_only=True)
class RankedFactor:
    """A family of factors. `loss`: by how much the later runs are told apart worse (area under the ROC curve) without
    it; `spread` the standard deviation of that over the shuffles."""

    family: str
    loss: float
    spread: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """`auc`: chance that of a slow and another later run the slow one is told. `baseline` and `baseline_auc`: the
    factor whose correlation with performance is strongest in the past, and the same chance by its value alone.
    `ranked`: best first. `runs`, `slow`: later runs, and how many were slow."""

    auc: float
    baseline: str
    baseline_r: float
    baseline_auc: float
    ranked: Sequence[RankedFactor]
    runs: int
    slow: int


def rank_slow_run_factors(runs: Runs, limits: FactorLimits | None = None) -> Explanation | None:
    """What explains slow runs, judged on runs later than those learnt from. None when the later runs hold too few slow
    ones (or nothing else) to say. The same runs in any order give the same explanation."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    limits = limits or FactorLimits()
    names = sorted(runs.factors)
    order = np.lexsort((*(runs.factors[name] for name in reversed(names)), runs.performance, runs.group, runs.time))
    relative, past = _relative(runs, order, limits)
    usable = np.isfinite(relative)
    order, relative, past = order[usable], relative[usable], past[usable]
    slow = relative < np.log(limits.slow)
    later = ~past
    if slow[later].sum() < limits.least_slow or (~slow[later]).sum() < limits.least_slow or not slow[past].any():
        return None
    names = [name for name in names if _varies(runs.factors[name][order][past])]
    columns = [runs.factors[name][order] for name in names]
    table = np.column_stack([*columns, runs.group[order].astype(np.float64)])
    # Runs that failed in part are outliers by orders of magnitude: absolute error, or they are all that is learnt.
    model = HistGradientBoostingRegressor(
        loss="absolute_error", max_depth=3, max_iter=200, learning_rate=0.05, random_state=0
    )
    model.fit(table[past], relative[past])
    auc = _auc(slow[later], -model.predict(table[later]))
    name, r, baseline_auc = _correlated(names, columns, relative, past, slow)
    ranked = _ranked(model, table[later], slow[later], auc, names, runs.families, limits.shuffles)
    return Explanation(
        auc=auc,
        baseline=name,
        baseline_r=r,
        baseline_auc=baseline_auc,
        ranked=ranked,
        runs=int(later.sum()),
        slow=int(slow[later].sum()),
    )


def _relative(runs: Runs, order: NDArray[np.int64], limits: FactorLimits) -> tuple[F64, Bools]:
    """Logarithm of performance over the group's median in the past (NaN: none), and which runs are the past."""
    performance = runs.performance[order]
    known = np.isfinite(performance) & (performance > 0)
    group, time = runs.group[order], runs.time[order]
    past = time <= np.quantile(time[known], limits.past) if known.any() else np.zeros(len(order), np.bool_)
    relative = np.full(len(order), np.nan)
    for one in np.unique(group):
        mine = known & (group == one)
        if (mine & past).any():
            relative[mine] = np.log(performance[mine] / np.median(performance[mine & past]))
    return relative, past


def _varies(values: F64) -> bool:
    """Whether a factor was measured, and not always the same: else it explains nothing."""
    known = values[np.isfinite(values)]
    return len(known) > 1 and bool(known.min() < known.max())


def _auc(slow: Bools, score: F64) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(slow, score))


def _correlated(
    names: Sequence[str], columns: Sequence[F64], relative: F64, past: Bools, slow: Bools
) -> tuple[str, float, float]:
    """The factor that correlates best (Pearson) in the past, and how well it tells later slow runs."""
    best = ("", 0.0)
    for name, values in zip(names, columns, strict=True):
        here = past & np.isfinite(values)
        if here.sum() < 3:
            continue
        r = float(np.corrcoef(values[here], relative[here])[0, 1])
        if abs(r) > abs(best[1]):
            best = (name, r)
    if not best[0]:
        return "", 0.0, 0.5
    values = columns[list(names).index(best[0])]
    filled = np.where(np.isfinite(values), values, np.nanmedian(values[past]))
    return best[0], best[1], _auc(slow[~past], -np.sign(best[1]) * filled[~past])


def _ranked(
    model: object,
    table: F64,
    slow: Bools,
    auc: float,
    names: Sequence[str],
    families: Mapping[str, Sequence[str]],
    shuffles: int,
) -> list[RankedFactor]:
    told = {name for members in families.values() for name in members}
    whole = {**families, **{name: [name] for name in names if name not in told}}
    rng = np.random.default_rng(0)
    found = []
    for family in sorted(whole):
        places = [names.index(name) for name in whole[family] if name in names]
        if not places:
            continue
        losses = []
        for _ in range(shuffles):
            other = table.copy()
            other[:, places] = table[rng.permutation(len(table))][:, places]
            losses.append(auc - _auc(slow, -model.predict(other)))  # type: ignore[attr-defined]
        found.append(RankedFactor(family=family, loss=float(np.mean(losses)), spread=float(np.std(losses))))
    return sorted(found, key=lambda one: (-one.loss, one.family))
