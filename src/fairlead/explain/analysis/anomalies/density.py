"""DBSCAN (Ester et al., KDD 1996) for many rows: points on a grid with weights, its parameters by rule.

scikit-learn's DBSCAN keeps all neighbours of all points, which a million phases alike would make a million squared.
Equal points are therefore taken once, with their number as weight, and the grid is made coarser until few are left.
`min_samples` is twice the dimensions (Sander et al., 1998), `eps` the knee of the k-distance curve. Not here: which
points, and what an outlier means (`two_stage`, `one_stage`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_POINTS = 4000
"""Different points of one clustering at most."""
OUTLIER = -1


@dataclass(frozen=True)
class Clusters:
    """`labels` (P,): the cluster of each point, OUTLIER for none. The parameters it was found with."""

    labels: I64
    eps: float
    min_samples: int


def clusters(points: F64, grid: float, min_samples: int | None = None) -> Clusters:
    """Clusters of points (P, D), taken on a grid of steps `grid` or coarser. With fewer than `min_samples` points there
    is no density to speak of: all are outliers."""
    from sklearn.cluster import DBSCAN

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
    from sklearn.neighbors import NearestNeighbors

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
