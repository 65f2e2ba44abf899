"""Components that serve the same job, compared: DBSCAN across them, and outliers on the slow side count as evidence.

Pure. After Beacon (TOS 2023, section 6), which clusters the forwarders and OSTs of jobs on 1,024 nodes and more by
bandwidth; here also by how long each is at work, since one that was given less to do is not slow. Not here: the other
conditions for a sick component (`states`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.explain.analysis.component_flows import Bools, Floats, Ints
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.load_cells import Cells

NOISE = -1


@dataclass(frozen=True)
class PeerComparison:
    """Arrays of (components, windows). `slow`: jobs that found it an outlier on the slow side; `fine`: jobs that found
    it as fast as its peers; `ratio`: its rate over theirs, the best of these jobs (NaN: none compared). `who`: of
    every find of slowness the component, the window and the job, by place."""

    slow: Ints
    fine: Ints
    ratio: Floats
    who: list[tuple[int, int, int]]


def cluster_peers(values: Floats, eps: float, least: int) -> Ints:
    """Cluster points on a line with DBSCAN: return the cluster of each value, `NOISE` for none. O(n log n).

    A value is core with at least `least` values, itself one, within `eps`; cores within `eps` of each other are one
    cluster; what is within `eps` of a core belongs to the nearer one's. NaN is noise.
    """
    out = np.full(len(values), NOISE, np.int64)
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return out
    order = known[np.argsort(values[known], kind="stable")]
    line = values[order]
    near = np.searchsorted(line, line + eps, "right") - np.searchsorted(line, line - eps, "left")
    core = np.flatnonzero(near >= least)
    if not len(core):
        return out
    cluster = np.concatenate([[0], np.cumsum(np.diff(line[core]) > eps)])
    after = np.clip(np.searchsorted(line[core], line), 0, len(core) - 1)
    before = np.maximum(after - 1, 0)
    left = np.abs(line - line[core][before]) <= np.abs(line[core][after] - line)
    nearest = np.where(left, before, after)
    inside = np.abs(line - line[core][nearest]) <= eps
    out[order] = np.where(inside, cluster[nearest], NOISE)
    return out


def mark_slow_peers(values: Floats, eps: float, least: int) -> Bools:
    """Mark rates (any unit, positive) below the largest cluster. None is marked unless that cluster holds more than
    half of them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        line = np.where(values > 0, np.log(values), np.where(values == 0, -50.0, np.nan))
    found = cluster_peers(line, eps, least)
    inside = found[found >= 0]
    if not len(inside):
        return np.zeros(len(values), np.bool_)
    main = int(np.argmax(np.bincount(inside)))
    if int((found == main).sum()) * 2 <= int(np.isfinite(line).sum()):
        return np.zeros(len(values), np.bool_)
    return np.asarray(np.isfinite(line) & (found != main) & (line < line[found == main].min()), np.bool_)


def compare_peers(
    parts: Cells, intervals: int, windows: int, limits: HealthLimits, nodes: Mapping[str, int] | None = None
) -> PeerComparison:
    """Compare the components of each job in each window (`intervals` of the axis).

    `nodes`: nodes of each job; an absent job counts as large enough. When only one component of a job is still active,
    it is compared with the rate the others reached before.
    """
    shape = (len(parts.names), windows)
    slow, fine, ratio = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, np.nan)
    who: list[tuple[int, int, int]] = []
    window = parts.at // intervals
    good = (window < windows) & (np.nan_to_num(parts.ops) > 0)
    rows = np.flatnonzero(good)
    rows = rows[np.argsort(parts.job[rows], kind="stable")]
    if not len(rows):
        return PeerComparison(slow, fine, ratio, who)
    jobs, first = np.unique(parts.job[rows], return_index=True)
    for job, mine in zip(jobs.tolist(), np.split(rows, first[1:]), strict=True):
        if nodes is not None and nodes.get(parts.jobs[job], limits.peer_nodes) < limits.peer_nodes:
            continue
        if len(np.unique(parts.component[mine])) >= limits.peer_components:
            found = _of_job(parts, mine, window, (slow, fine, ratio), limits)
            who += [(place, span, job) for place, span in found]
    return PeerComparison(slow, fine, ratio, who)


def _of_job(
    parts: Cells, mine: Ints, window: Ints, out: tuple[Ints, Ints, Floats], limits: HealthLimits
) -> list[tuple[int, int]]:
    """Add the verdicts of one job to `out`; return where it was slow."""
    slow, fine, best = out
    found: list[tuple[int, int]] = []
    places, component = np.unique(parts.component[mine], return_inverse=True)
    spans, when = np.unique(window[mine], return_inverse=True)
    shape = (len(places), len(spans))
    cell = component * shape[1] + when
    size = shape[0] * shape[1]
    active = np.bincount(cell, minlength=size).reshape(shape)
    moved, asked = np.nan_to_num(parts.bytes[mine]), parts.ops[mine]
    # Work a second while at work: bytes, where any are moved, else operations.
    work = moved if moved.sum() > 0 else asked
    steady = limits.steady * (parts.axis.window_s <= limits.coarse_s)
    throughout, rate, count = _rates(work, cell, component, parts.at[mine], shape, steady)
    usual, longest, whole, before = np.nan, np.nan, 0.0, -2
    for at, span in enumerate(spans.tolist()):
        lasting = active[:, at].astype(np.float64)
        if span > before + 2:
            usual, longest, whole = np.nan, np.nan, 0.0
        before = span
        # Of a window in which most were at work for a moment only, those that were for longer are compared with before.
        moments = not np.isfinite(usual) and int(np.isfinite(throughout[:, at]).sum()) < limits.peer_components
        here = rate[:, at] if moments else throughout[:, at]
        known = np.isfinite(here)
        if int(known.sum()) >= limits.peer_components:
            outside = mark_slow_peers(here, limits.cluster_eps, limits.cluster_least)
            peers = known & ~outside
            longest = float(np.median(lasting[peers])) if peers.any() else np.nan
            seen = float(np.median(count[peers, at])) if peers.any() else 0.0
            # What they reach as they come to their end is not what they can: then what they reached before counts.
            if not (np.isfinite(usual) and peers.any() and seen <= 0.5 * whole):
                usual, whole = float(np.median(here[peers])) if peers.any() else np.nan, seen
        elif np.isfinite(usual):
            outside = known & (here < usual / limits.peer_ratio)
        else:
            continue
        if not usual > 0:
            continue
        late = lasting > limits.peer_longer * longest if int(known.sum()) >= limits.peer_components else known
        bad = outside & late & (here < usual / limits.peer_ratio)
        good = known & (here >= usual / limits.peer_ratio)
        slow[places[bad], span] += 1
        found += [(place, span) for place in places[bad].tolist()]
        fine[places[good], span] += 1
        best[places[known], span] = np.fmax(best[places[known], span], here[known] / usual)
    return found


def _rates(
    work: Floats, cell: Ints, component: Ints, at: Ints, shape: tuple[int, int], steady: int
) -> tuple[Floats, Floats, Ints]:
    """Work an interval, of each component and window (`shape`; `cell` is their place): the median of those intervals in
    which it was at work throughout, as the ones before and after (`steady` of them) tell, and the mean of all (NaN: in
    none); and how many intervals those were. In the first and last of a burst it was at work for a part only."""
    key = component * (int(at.max(initial=0)) + 2 * steady + 2) + at
    held = np.sort(key)
    inside = np.ones(len(key), np.bool_)
    for step in (*range(-steady, 0), *range(1, steady + 1)):
        found = np.minimum(np.searchsorted(held, key + step), len(held) - 1)
        inside &= held[found] == key + step
    count = np.bincount(cell[inside], minlength=shape[0] * shape[1]).reshape(shape)
    return _medians(work[inside], cell[inside], shape), _means(work, cell, shape), count


def _medians(work: Floats, cell: Ints, shape: tuple[int, int]) -> Floats:
    """Of each component and window (`shape`; `cell` is their place); NaN without any."""
    order = np.lexsort((work, cell))
    held, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    medians = np.full(shape[0] * shape[1], np.nan)
    medians[held] = work[order[first + count // 2]]  # of two the larger: in the other it may have been done early
    return medians.reshape(shape)


def _means(work: Floats, cell: Ints, shape: tuple[int, int]) -> Floats:
    size = shape[0] * shape[1]
    count = np.bincount(cell, minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = np.where(count > 0, np.bincount(cell, work, size) / count, np.nan)
    return means.reshape(shape)
