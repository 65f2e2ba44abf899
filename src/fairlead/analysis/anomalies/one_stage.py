"""Abnormal phases by clustering time and volume at once: the baseline the two-stage clustering was published against
(Beacon; Yang et al., ACM TOS 2023, section 6). Not here: detectors that are better (`two_stage`, `expected`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairlead.analysis.anomalies.density import OUTLIER, clusters
from fairlead.analysis.anomalies.judged import Judged
from fairlead.analysis.anomalies.measured import measured
from fairlead.analysis.history.columns import codes


@dataclass(frozen=True)
class OneStageParams:
    """`grid`: step of log2 seconds and log2 volume."""

    grid: float = 1 / 32


def one_stage(phases: pa.Table, params: OneStageParams | None = None) -> Judged:
    """What DBSCAN on (log time, log volume) says of rows of PHASE, each kind apart: outliers slower than the median
    are abnormal. `confidence` is 1 or 0: no probability."""
    params = params or OneStageParams()
    result = Judged.nothing(phases.num_rows)
    figures = measured(phases)
    kind = codes(phases, "kind")
    for one in np.unique(kind[figures.known]).tolist():
        mine = np.flatnonzero(figures.known & (kind == one))
        points = np.log2(np.stack([figures.active_s[mine], figures.amount[mine]], axis=1))
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
