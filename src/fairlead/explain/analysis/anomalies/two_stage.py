"""Abnormal phases by two-stage clustering with performance vectors, as published (Beacon; Yang et al., ACM TOS 2023,
section 6; first NSDI 2019): phases alike in I/O mode and volume first, then outliers in how fast they went.

The published parameters are not all told; here they follow from rules (`density`). Not here: the one-stage clustering
it is held against (`one_stage`), and the detector that compares with a program's own history (`expected`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.analysis.anomalies.density import OUTLIER, clusters
from fairlead.explain.analysis.anomalies.detector_output import Judged
from fairlead.explain.analysis.anomalies.phase_arrays import Measured, measured, rate_cells
from fairlead.explain.analysis.history.columns import codes, combined
from fairlead.explain.analysis.history.rate_bins import SILENT, middle_of

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class TwoStageParams:
    """`intervals`: N of the performance vector; the `low` lowest of them are slow; `low_share` of its time there makes
    an outlier abnormal. `fastest`: TH_max is this quantile of the group's rates, or one fast second would set the
    scale of all (1: it does). The grids: of log2 volume and of shares of time."""

    intervals: int = 5
    low: int = 2
    low_share: float = 0.5
    fastest: float = 0.9
    volume_grid: float = 1 / 32
    share_grid: float = 1 / 64


def two_stage(phases: pa.Table, params: TwoStageParams | None = None) -> Judged:
    """What the two-stage clustering says of rows of PHASE, all of them taken together.

    A phase without a mode is grouped with the others of its kind without. Those whose group is too small to have a
    density, or whose rates are not known, are not judged. `confidence` is the share of time in the low intervals of
    outliers, 0 of others: no probability.
    """
    params = params or TwoStageParams()
    result = Judged.nothing(phases.num_rows)
    figures = measured(phases)
    bins, times, row = rate_cells(phases)
    moving = bins != SILENT
    bins, times, row = bins[moving], times[moving], row[moving]
    usable = figures.known & (np.bincount(row, times, phases.num_rows) > 0)
    group = groups_of(phases, figures, usable, params.volume_grid)
    low_time = np.zeros(phases.num_rows)
    outlier = np.zeros(phases.num_rows, np.bool_)
    order = np.argsort(row, kind="stable")
    bins, times, row = bins[order], times[order], row[order]
    first = np.searchsorted(row, np.arange(phases.num_rows + 1))
    by_group = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[by_group], np.arange(int(group.max(initial=-1)) + 2))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        mine = by_group[begin:end]
        cells = np.concatenate([np.arange(first[one], first[one + 1]) for one in mine])
        place = np.repeat(np.arange(len(mine)), first[mine + 1] - first[mine])
        shares = performance_vectors(
            middle_of(bins[cells]), times[cells], place, len(mine), params.intervals, params.fastest
        )
        found = clusters(shares, params.share_grid)
        if (found.labels == OUTLIER).all():
            continue
        low_time[mine] = shares[:, : params.low].sum(axis=1)
        outlier[mine] = found.labels == OUTLIER
        usual = float(np.median(figures.rate[mine][found.labels != OUTLIER]))
        result.expected_s[mine] = figures.amount[mine] / np.exp2(usual)
        result.lost_s[mine] = np.maximum(figures.active_s[mine] - result.expected_s[mine], 0.0)
        result.runs[mine] = len(mine) - 1
        result.confidence[mine] = np.where(outlier[mine], low_time[mine], 0.0)
    result.abnormal[:] = outlier & (low_time > params.low_share)
    return result


def groups_of(phases: pa.Table, figures: Measured, usable: NDArray[np.bool_], grid: float) -> I64:
    """The first stage: groups alike in kind, mode and volume, -1 where none."""
    group = np.full(phases.num_rows, -1, np.int64)
    sort = combined([codes(phases, "kind"), codes(phases, "mode")])
    made = 0
    for one in np.unique(sort[usable]).tolist():
        mine = np.flatnonzero(usable & (sort == one))
        # Mode and volume are two dimensions, though within one mode only the volume differs.
        labels = clusters(np.log2(figures.amount[mine])[:, None], grid, min_samples=4).labels
        group[mine] = np.where(labels == OUTLIER, -1, labels + made)
        made += int(labels.max(initial=-1)) + 1
    return group


def performance_vectors(rates: F64, times: F64, row: I64, rows: int, intervals: int, fastest: float = 1.0) -> F64:
    """Share of each phase's time in each of `intervals` equal parts of (TH_min, TH_max], the range of `rates` of the
    whole group up to its quantile `fastest`, what is faster counting as that: (rows, intervals)."""
    low, high = float(rates.min()), float(np.quantile(rates, fastest))
    part = np.ceil((rates - low) / (high - low) * intervals) - 1 if high > low else np.full(len(rates), intervals - 1)
    part = np.clip(part, 0, intervals - 1).astype(np.int64)
    sums = np.bincount(row * intervals + part, times, rows * intervals).reshape(rows, intervals)
    return np.asarray(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300))
