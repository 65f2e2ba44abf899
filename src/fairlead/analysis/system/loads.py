"""Load of all components of a kind, minute by minute, as one array; and which jobs make it.

Not here: what is too much (`provision`, `imbalance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.analysis.system.scope import F64, MINUTE_NS, Scope, floats, moved


@dataclass(frozen=True)
class Grid:
    """`bytes[component, minute]` moved; NaN: no row of it. A component without rows in the window is not in it."""

    ids: list[str]
    bytes: F64
    waits: tuple[F64, F64]
    """Time waited (ns) and how many requests waited, 0 where not told."""

    def watched(self) -> int:
        """Minutes of which anything is known of any component."""
        return int((~np.isnan(self.bytes)).any(axis=0).sum())


def grid_of(scope: Scope, kind: str) -> Grid | None:
    """The grid of a kind that counts as its own layer (forwarder, target); None where nothing tells of any."""
    rows = scope.sums(kind, (kind,))
    if not rows.num_rows:
        return None
    ids = rows["id"].to_numpy(zero_copy_only=False)
    names, place = np.unique(ids.astype(str), return_inverse=True)
    minute = (rows["ts_ns"].to_numpy() - scope.from_ns) // MINUTE_NS
    shape = (len(names), scope.minutes)
    grid = np.full(shape, np.nan)
    grid[place, minute] = moved(rows)
    wait, waits = np.zeros(shape), np.zeros(shape)
    wait[place, minute] = np.nan_to_num(floats(rows, "wait_ns"))
    waits[place, minute] = np.nan_to_num(floats(rows, "waits"))
    return Grid(names.tolist(), grid, (wait, waits))


def jobs_on(scope: Scope, kind: str, ids: Sequence[str], most: int = 8) -> list[tuple[str, float]]:
    """Jobs by their share of the traffic of these components, largest first; empty where jobs are not told apart. Parts
    of no known job count, so that shares are of the whole."""
    parts = scope.sums(kind, (kind,), by=("id", "job_id"), jobs=True)
    whole = scope.sums(kind, (kind,), by=("id",))
    wanted = pa.array(list(ids), pa.string())
    parts = parts.filter(pc.is_in(parts["id"], wanted))
    total = float(np.nansum(moved(whole.filter(pc.is_in(whole["id"], wanted)))))
    if not parts.num_rows or not total:
        return []
    names, place = np.unique(parts["job_id"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    sums = np.bincount(place, np.nan_to_num(moved(parts)), len(names)) / total
    order = np.argsort(-sums, kind="stable")[:most]
    return [(str(names[k]), float(min(1.0, sums[k]))) for k in order if sums[k] > 0]


def jain(loads: NDArray[np.float64]) -> float:
    """Jain's index of fairness: 1 where all are alike, 1/n where one has it all."""
    return float(loads.sum() ** 2 / (len(loads) * (loads**2).sum())) if loads.any() else 1.0
