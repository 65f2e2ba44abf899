"""How often a predictor is right, run after run in the order of time: a run counts as known only once it has ended.

Nothing is ever learned from what comes later. Not here: where sequences come from (`benchmarks/next_run.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.decide.policies.next_run.contract import Category, Predictor, Run


@dataclass(frozen=True)
class Score:
    """Of `runs` runs, `asked` began when an earlier one of their category had ended; of these `right` were predicted.
    `possible`: of those asked, how many were of a behaviour seen before, so that they could be. `sure`: the mean of
    what the predictor said of itself."""

    runs: int
    asked: int
    right: int
    possible: int
    sure: float

    @property
    def accuracy(self) -> float | None:
        """Share of the asked that were predicted; None where none was asked."""
        return self.right / self.asked if self.asked else None


def measure_predictor_accuracy(predictor: Predictor, runs: Sequence[Run], skip: int = 0) -> Score:
    """Plays `runs` (any order) to a fresh predictor. The first `skip` runs to begin are learned from, not scored."""
    starts = np.array([run.start_s for run in runs], np.float64)
    ends = np.maximum(np.array([run.end_s for run in runs], np.float64), starts)
    count = len(runs)
    # At one instant runs that begin come before those that end: who ends then is not known yet.
    order = np.lexsort((np.arange(2 * count), np.concatenate([starts, ends])))
    began = asked = right = possible = 0
    sure = 0.0
    seen: dict[Category, set[int]] = {}
    for event in order.tolist():
        run = runs[event % count]
        if event >= count:
            seen.setdefault(run.category, set()).add(run.behaviour)
            predictor.observe(run.category, (run.behaviour,))
            continue
        began += 1
        if began <= skip or run.category not in seen:
            continue
        answer = predictor.predict(run.category)
        asked += 1
        right += answer.behaviour == run.behaviour
        possible += run.behaviour in seen[run.category]
        sure += answer.sure
    return Score(max(count - skip, 0), asked, right, possible, sure / asked if asked else float("nan"))
