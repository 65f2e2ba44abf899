"""Published detectors of abnormal phases by clustering, to hold ours against (Beacon; Yang et al., ACM TOS 2023,
section 6; first NSDI 2019).

`two_stage` groups phases alike in I/O mode and volume, then looks for outliers in how fast they went. `one_stage` is
the baseline it was published against: time and volume at once. Both use DBSCAN (Ester et al., KDD 1996). The
published parameters are incomplete; here they follow from rules: `min_samples` is twice the dimensions (Sander et al.,
1998), `eps` the knee of the k-distance curve.

scikit-learn's DBSCAN keeps all neighbours of all points, which takes memory quadratic in the number of equal phases.
Equal points are therefore counted once, with their number as weight, on a grid that is made coarser until at most
MOST_POINTS different points are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN
from sklearn.neighbors import NearestNeighbors

from fairlead.explain.analysis.anomalies.detector_output import PhaseJudgement
from fairlead.explain.analysis.anomalies.phase_arrays import PhaseFigures, extract_phase_arrays, flatten_rates_to_arrays
from fairlead.explain.analysis.history.rate_bins import SILENT, compute_bin_rates
from fairlead.explain.analysis.table_columns import combine_column_codes, read_code_column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_POINTS = 4000
"""Different points of one clustering at most."""
OUTLIER = -1


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


def two_stage(phases: pa.Table, params: TwoStageParams | None = None) -> PhaseJudgement:
    """What the two-stage clustering says of rows of PHASE, all of them taken together.

    A phase without a mode is grouped with the others of its kind without. Those whose group is too small to have a
    density, or whose rates are not known, are not judged. `confidence` is the share of time in the low intervals of
    outliers, 0 of others: no probability.
    """
    params = params or TwoStageParams()
    result = PhaseJudgement.build_unknown(phases.num_rows)
    figures = extract_phase_arrays(phases)
    bins, times, row = flatten_rates_to_arrays(phases)
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
            compute_bin_rates(bins[cells]), times[cells], place, len(mine), params.intervals, params.fastest
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


def groups_of(phases: pa.Table, figures: PhaseFigures, usable: NDArray[np.bool_], grid: float) -> I64:
    """The first stage: groups alike in kind, mode and volume, -1 where none."""
    group = np.full(phases.num_rows, -1, np.int64)
    sort = combine_column_codes([read_code_column(phases, "kind"), read_code_column(phases, "mode")])
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


@dataclass(frozen=True)
class OneStageParams:
    """`logarithms`: cluster those of time and volume instead of these themselves, which is stronger than what was
    published: a line of equal rate then looks alike at all sizes. `grid`: step in deviations of each."""

    logarithms: bool = False
    grid: float = 1 / 64


def one_stage(phases: pa.Table, params: OneStageParams | None = None) -> PhaseJudgement:
    """What DBSCAN on (time, volume), both by their standard deviation, says of rows of PHASE, each kind apart: outliers
    slower than the median are abnormal. `confidence` is 1 or 0: no probability."""
    params = params or OneStageParams()
    result = PhaseJudgement.build_unknown(phases.num_rows)
    figures = extract_phase_arrays(phases)
    kind = read_code_column(phases, "kind")
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


@dataclass(frozen=True)
class Clusters:
    """`labels` (P,): the cluster of each point, OUTLIER for none. The parameters it was found with."""

    labels: I64
    eps: float
    min_samples: int


def clusters(points: F64, grid: float, min_samples: int | None = None) -> Clusters:
    """Clusters of points (P, D), taken on a grid of steps `grid` or coarser. With fewer than `min_samples` points there
    is no density to speak of: all are outliers."""
    count, dimensions = points.shape
    least = 2 * dimensions if min_samples is None else min_samples
    if count < least:
        return Clusters(np.full(count, OUTLIER, np.int64), 0.0, least)
    cells, at, grid = _on_grid(points, grid)
    weight = np.bincount(at, minlength=len(cells)).astype(np.float64)
    eps = max(knee(*_k_distances(cells, weight, least)), grid)
    found = DBSCAN(eps=eps * (1 + 1e-9), min_samples=least).fit(cells, sample_weight=weight)
    return Clusters(np.asarray(found.labels_, np.int64)[at], eps, least)


def _on_grid(points: F64, grid: float) -> tuple[F64, I64, float]:
    """Different points on the grid, in order, which of them each is, and the step that was coarse enough."""
    while True:
        cells, at = np.unique(np.rint(points / grid).astype(np.int64), axis=0, return_inverse=True)
        if len(cells) <= MOST_POINTS:
            return np.asarray(cells * grid, np.float64), np.asarray(at.reshape(-1), np.int64), grid
        grid *= 2


def _k_distances(cells: F64, weight: F64, k: int) -> tuple[F64, F64]:
    """Distance from each cell within which `k` points lie, itself counted, and the cells' weights."""
    near = min(k, len(cells))
    distance, neighbour = NearestNeighbors(n_neighbors=near).fit(cells).kneighbors(cells)
    reached = np.cumsum(weight[neighbour], axis=1) >= k
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), near - 1)
    return distance[np.arange(len(cells)), first], weight


def knee(distances: F64, weight: F64) -> float:
    """Where the curve of sorted distances turns up: the point furthest below the line from its first to its last
    (Satopaa et al., 2011). `weight`: how many points each distance is of."""
    order = np.argsort(distances, kind="stable")
    # A cell of many points is a level stretch of the curve: it counts with both its ends.
    after = np.cumsum(weight[order])
    curve = np.repeat(distances[order], 2)
    place = np.stack([after - weight[order], after], axis=1).reshape(-1)
    if curve[-1] <= curve[0]:
        return float(curve[-1])
    x = place / place[-1]
    y = (curve - curve[0]) / (curve[-1] - curve[0])
    return float(curve[int(np.argmax(x - y))])
