"""Abnormal phases by clustering time and volume at once: the baseline the two-stage clustering was published against
(Beacon; Yang et al., ACM TOS 2023, section 6). Not here: detectors that are better (`two_stage`, `expected`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.anomalies.density import OUTLIER, clusters
from fairlead.explain.analysis.anomalies.detector_output import Judged
from fairlead.explain.analysis.anomalies.phase_arrays import measured
from fairlead.explain.analysis.history.columns import codes


@dataclass(frozen=True)
class OneStageParams:
    """`logarithms`: cluster those of time and volume instead of these themselves, which is stronger than what was
    published: a line of equal rate then looks alike at all sizes. `grid`: step in deviations of each."""

    logarithms: bool = False
    grid: float = 1 / 64


def one_stage(phases: pa.Table, params: OneStageParams | None = None) -> Judged:
    """What DBSCAN on (time, volume), both by their standard deviation, says of rows of PHASE, each kind apart: outliers
    slower than the median are abnormal. `confidence` is 1 or 0: no probability."""
    params = params or OneStageParams()
    result = Judged.nothing(phases.num_rows)
    figures = measured(phases)
    kind = codes(phases, "kind")
    for one in np.unique(kind[figures.known]).tolist():
        mine = np.flatnonzero(figures.known & (kind == one))
        points = np.stack([figures.active_s[mine], figures.amount[mine]], axis=1)
        points = np.log2(points) if params.logarithms else points
        deviation = points.std(axis=0)
        points = points / np.where(deviation > 0, deviation, 1.0)
        labels = clusters(points, params.grid).labels
        if (labels == OUTLIER).all():
            continue
        rate = figures.rate[mine]
        usual = float(np.median(rate[labels != OUTLIER]))
        slow = (labels == OUTLIER) & (rate < usual)
        result.abnormal[mine] = slow
        result.confidence[mine] = slow
        result.expected_s[mine] = figures.amount[mine] / np.exp2(usual)
        result.lost_s[mine] = np.maximum(figures.active_s[mine] - result.expected_s[mine], 0.0)
        result.runs[mine] = len(mine) - 1
    return result
