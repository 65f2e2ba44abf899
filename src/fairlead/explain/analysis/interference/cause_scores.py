"""How likely a neighbour is the main cause: one logistic model with its coefficients, and how they were made. Pure.

Made on tuning plays only (season of the made machine, seeds 1 and 2, ten plays each) by maximum likelihood with a ridge
of 1: one row for each neighbour of each phase that lost half of its time or more, and of innocent ones taken for slow,
996 in all; 1 where its removal, simulated, gave back most (95 % of the best) of the time lost. Not here: the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.interference.load_arrays import F64

COEFFICIENTS: dict[str, float] = {
    "constant": -4.01,
    "share": 3.39,
    "alone": 3.12,
    "lead": 3.84,
    "response": 0.56,
    "by_chance": -1.0,
    "conspicuous": -1.49,
}
"""`share`: of the lost time that fell to it; `alone`: of it what would come back if only it were gone; `lead`: its
part of what fell to it and to the next best candidate; `response` and `by_chance` as in `dose_response` (0 and 0.5
where unknown); `conspicuous`: whether any feature shows."""


@dataclass(frozen=True)
class Inputs:
    """Arrays by neighbour (J,)."""

    share: F64
    alone: F64
    lead: F64
    response: F64
    by_chance: F64
    conspicuous: F64

    def stack_columns(self) -> F64:
        """(J, 7) in order of COEFFICIENTS."""
        response = np.maximum(np.nan_to_num(self.response, nan=0.0), 0.0)
        chance = np.nan_to_num(self.by_chance, nan=0.5)
        return np.stack(
            [np.ones(len(self.share)), self.share, self.alone, self.lead, response, chance, self.conspicuous], axis=1
        )


def compute_cause_scores(inputs: Inputs) -> F64:
    """Probability for each neighbour."""
    total = inputs.stack_columns() @ np.array(list(COEFFICIENTS.values()))
    made: F64 = 1.0 / (1.0 + np.exp(-total))
    return made


def compute_score_leads(costs: F64) -> F64:
    """Each one's part of its own and the best other's cost; 0 where both are nothing."""
    if not len(costs):
        return costs
    order = np.sort(costs)[::-1]
    second = order[1] if len(order) > 1 else 0.0
    rival = np.where(costs >= order[0], second, order[0])
    both = costs + rival
    made: F64 = np.where(both > 0, costs / np.where(both > 0, both, 1.0), 0.0)
    return made
