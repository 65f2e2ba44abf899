"""Behaviours: classes of runs of one category that move about as much, numbered as they first appear.

Leader clustering (Hartigan, 1975): a run joins the nearest class whose first run is within a factor of two in every
figure, else it opens a class. A number never changes when later runs come. Not here: predicting (`contract`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.policies.next_run.contract import Category

F64 = NDArray[np.float64]
REACH = 1.0
"""Doublings by which a figure may differ from that of the class's first run."""
TRIVIAL_BYTES = 2.0**20
TRIVIAL_OPERATIONS = 2.0**7
"""Less than these is all the same."""


def compute_behaviour_figures(
    read_bytes: object, write_bytes: object, metadata_ops: object = None, phases: object = None
) -> F64:
    """(R, 4): logarithms (of 2) by which runs are told apart; NaN where a figure is not known."""
    columns = []
    read = np.asarray(read_bytes, np.float64)
    for values, least in (
        (read, TRIVIAL_BYTES),
        (write_bytes, TRIVIAL_BYTES),
        (metadata_ops, TRIVIAL_OPERATIONS),
        (phases, 1.0),
    ):
        column = np.full(read.shape, np.nan) if values is None else np.asarray(values, np.float64)
        columns.append(np.log2(np.maximum(column, least)))
    return np.stack(columns, axis=-1)


@dataclass
class Behaviours:
    """State: the first run of each class of each category. `reach` in doublings."""

    reach: float = REACH
    leaders: dict[Category, F64] = field(default_factory=dict)

    def place(self, category: Category, run: F64) -> int:
        """The behaviour of a run (F,), which opens a class where none is near. Figures not known of both do not
        count."""
        known = self.leaders.get(category)
        if known is None:
            self.leaders[category] = run[None, :].copy()
            return 0
        apart = np.abs(known - run)
        worst = np.max(np.where(np.isnan(apart), 0.0, apart), axis=1)
        best = int(np.argmin(worst))
        if worst[best] <= self.reach:
            return best
        self.leaders[category] = np.concatenate([known, run[None, :]])
        return len(known)


def classify_run_behaviours(
    categories: Sequence[Category], runs: F64, ended: F64, reach: float = REACH
) -> NDArray[np.int64]:
    """(R,) the behaviour of each run, classes opened in the order in which runs `ended`."""
    found = np.zeros(len(categories), np.int64)
    state = Behaviours(reach)
    for at in np.argsort(ended, kind="stable").tolist():
        found[at] = state.place(categories[at], runs[at])
    return found
