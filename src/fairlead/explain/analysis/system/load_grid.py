"""Load of all components of a kind, minute by minute, as one array; and which jobs make it.

Not here: what is too much (`forwarder_provision`, `imbalance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.site_file import FORWARDED, SERVED
from fairlead.explain.analysis.system.scope import MINUTE_NS, Scope
from fairlead.explain.analysis.table_columns import F64, read_float_column, sum_byte_columns


@dataclass(frozen=True)
class Grid:
    """`bytes[component, minute]` moved; NaN: no row of it. A component without any row is in it, with zeros, only where
    the agent of its host said that it watched."""

    ids: list[str]
    bytes: F64
    waits: tuple[F64, F64]
    """Time waited (ns) and how many requests waited, 0 where not told."""

    def count_watched_minutes(self) -> int:
        """Minutes of which anything is known of any component."""
        return int((~np.isnan(self.bytes)).any(axis=0).sum())


def build_load_grid(scope: Scope, kind: str) -> Grid | None:
    """The grid of a kind that counts as its own layer (forwarder, target); None where nothing tells of any."""
    rows = scope.sum_rollups(kind, (kind,))
    if not rows.num_rows:
        return None
    ids = rows["id"].to_numpy(zero_copy_only=False)
    names = np.unique(np.concatenate([ids.astype(str), np.array(sorted(_idle(scope, kind)), str)]))
    place = np.searchsorted(names, ids.astype(str))
    minute = (rows["ts_ns"].to_numpy() - scope.from_ns) // MINUTE_NS
    shape = (len(names), scope.minutes)
    grid = np.full(shape, np.nan)
    grid[~np.isin(names, ids.astype(str))] = 0.0
    grid[place, minute] = sum_byte_columns(rows)
    wait, waits = np.zeros(shape), np.zeros(shape)
    wait[place, minute] = np.nan_to_num(read_float_column(rows, "wait_ns"))
    waits[place, minute] = np.nan_to_num(read_float_column(rows, "waits"))
    return Grid(names.tolist(), grid, (wait, waits))


def _idle(scope: Scope, kind: str) -> set[str]:
    """Components that are told of (who serves whom) and whose host's agent was well in the window."""
    health = scope.get_table("health")
    inside = (pc.field("ts_ns") >= scope.from_ns) & (pc.field("ts_ns") < scope.to_ns)
    well = health.filter(inside & (pc.field("probe") == "agent") & (pc.field("state") == "ok"))
    nodes = set(well["node"].cast(pa.string()).unique().to_pylist())
    mapping = scope.get_table("mapping")
    if not nodes or not mapping.num_rows:
        return set()
    now = (pc.field("from_ns") < scope.to_ns) & (pc.field("to_ns").is_null() | (pc.field("to_ns") > scope.from_ns))
    told = FORWARDED if kind == "forwarder" else SERVED
    rows = mapping.filter(now & (pc.field("kind") == told))
    if kind == "forwarder":
        return set(rows["b"].unique().to_pylist()) & nodes
    return {target for target, host in zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True) if host in nodes}


def list_load_grid_jobs(scope: Scope, kind: str, ids: Sequence[str], most: int = 8) -> list[tuple[str, float]]:
    """Jobs by their share of the traffic of these components, largest first; empty where jobs are not told apart. Parts
    of no known job count, so that shares are of the whole."""
    parts = scope.sum_rollups(kind, (kind,), by=("id", "job_id"), jobs=True)
    whole = scope.sum_rollups(kind, (kind,), by=("id",))
    wanted = pa.array(list(ids), pa.string())
    parts = parts.filter(pc.is_in(parts["id"], wanted))
    total = float(np.nansum(sum_byte_columns(whole.filter(pc.is_in(whole["id"], wanted)))))
    if not parts.num_rows or not total:
        return []
    names, place = np.unique(parts["job_id"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    sums = np.bincount(place, np.nan_to_num(sum_byte_columns(parts)), len(names)) / total
    order = np.argsort(-sums, kind="stable")[:most]
    return [(str(names[k]), float(min(1.0, sums[k]))) for k in order if sums[k] > 0]


def compute_load_grid_fairness(loads: NDArray[np.float64]) -> float:
    """Jain's index of fairness: 1 where all are alike, 1/n where one has it all."""
    return float(loads.sum() ** 2 / (len(loads) * (loads**2).sum())) if loads.any() else 1.0
