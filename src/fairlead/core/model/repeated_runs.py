"""Repeated runs of one program and what was measured around each, as columns. Not here: ranking the factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Repeated runs, N of them. `performance`: in any unit, larger is faster. `group`: what was run where (runs are
    compared with the median of their own group only). `time`: in any unit. `factors`: by name, N values, NaN where not
    measured. `families`: factors that are tellings of one thing, by its name; others are families of their own."""

    performance: F64
    group: NDArray[np.int64]
    time: F64
    factors: Mapping[str, F64]
    families: Mapping[str, Sequence[str]] = field(default_factory=dict)
