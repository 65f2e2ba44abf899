"""The result of a detector of abnormal phases: one judgement for each row of a PHASE table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class PhaseJudgement:
    """Arrays of P, the rows of the judged PHASE table in order. NaN: not known (nothing to compare with)."""

    abnormal: NDArray[np.bool_]
    confidence: F64
    """How sure it is that the phase was slower than by chance, in [0, 1]. Calibrated where the detector says so."""
    expected_s: F64
    """Seconds as much work usually takes in this category."""
    lost_s: F64
    """Seconds beyond that; not below 0."""
    runs: NDArray[np.int64]
    """Other phases it was compared with."""
    rung: NDArray[np.int8]
    """Which rung of the ladder of categories they were of (`history.category.LADDER`); -1: none."""

    @staticmethod
    def build_unknown(count: int) -> PhaseJudgement:
        """Return the judgement of `count` phases of which nothing is known."""
        unknown = np.full(count, np.nan)
        return PhaseJudgement(
            abnormal=np.zeros(count, np.bool_),
            confidence=unknown,
            expected_s=unknown.copy(),
            lost_s=unknown.copy(),
            runs=np.zeros(count, np.int64),
            rung=np.full(count, -1, np.int8),
        )
