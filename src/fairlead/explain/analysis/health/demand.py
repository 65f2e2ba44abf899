"""When more was asked of a component than it gave, and what share of its peak it gave then: cell by cell.

Pure. Each layer shows a queue in its own way; where a layer has none, same-job peers are asked (`peers`). Not here:
what follows from it for a window of time (`health_states`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.component_flows import Axis, Bools, Floats, Ints
from fairlead.explain.analysis.health.class_peaks import (
    Peak,
    Peaks,
    complete_class_peaks,
    compute_class_peak_shares,
    find_class_peak,
    find_nearby_peak_shares,
    learn_class_times,
    mark_steady_class_peaks,
)
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.load_cells import Cells, build_job_load_cells, build_load_cells

_LONGER = 1.25
"""Times longer that requests wait at a forwarder than they are served, to say that it is the narrow place: two jobs
that share its workers evenly make each other wait just as long."""
_HOLDS = 4.0
"""Requests of a job under way in a forwarder, on average, from which it can hold a forwarder's workers."""
_SAME = 0.05
"""Difference of the bytes of a target and a device, as a share of them, below which they are the same."""
_UNHINDERED = 0.8
"""Share of a job's time in a forwarder that is service, from which it does not wait."""
_UNDER_WAY = 2.0
"""Operations under way at a metadata server, on average, from which it is asked for more than it gives."""
_EVIDENCE = {
    "forwarder": "requests wait in its queue",
    "target": "its device is always busy",
    "device": "it is always busy",
    "mds": "operations on it are slow and never pause",
    "port": "packets queue for it",
    "node": "",
}


@dataclass(frozen=True)
class JudgedCells:
    """Cells of one kind with `asked` (requests queue there), `share` (of the known peak; NaN: cannot be told), `full`
    (as fast as what is around it lets it be) and `active` (it did or was asked something). `fair`: of a cell that is
    not asked, the share of its peak it shows to be able to give (NaN: nothing shown)."""

    cells: Cells
    peaks: list[Peak]
    active: Bools
    asked: Bools
    share: Floats
    full: Bools
    fair: Floats
    queues_known: bool
    evidence: str
    pairs: dict[str, str] = field(default_factory=dict)
    """The device of each target that has one."""


def judge_demand(
    loads: pa.Table, kind: str, axis: Axis, peaks: Peaks, limits: HealthLimits, servers: Mapping[str, str]
) -> JudgedCells | None:
    """Every cell of a kind judged; None where nothing was counted of it."""
    cells = build_load_cells(loads, kind, axis)
    if cells is None:
        return None
    with np.errstate(invalid="ignore"):
        active = (np.nan_to_num(cells.ops) > 0) | (np.nan_to_num(cells.bytes) > 0)
    if kind == "target":
        return _target(loads, cells, active, peaks, limits, servers)
    if kind == "mds":
        return _mds(loads, cells, active, peaks, limits)
    if kind == "forwarder":
        return _forwarder(loads, cells, active, peaks, limits)
    if kind == "device":
        return _device(cells, active, peaks, limits)
    known = complete_class_peaks(cells, peaks)
    share = compute_class_peak_shares(cells, known)
    queue = np.zeros(len(cells), np.bool_)
    if kind == "port" and np.isfinite(cells.waits).any():
        # Ticks a port waited, a second: of an idle or merely busy network there are few. Only a port that waits far
        # more than it moves packets is held up.
        with np.errstate(invalid="ignore"):
            queue = np.nan_to_num(cells.waits) > 10 * np.maximum(np.nan_to_num(cells.ops), axis.window_s)
    steady = _steady(axis, limits)
    return JudgedCells(
        cells,
        known,
        active,
        queue & mark_steady_class_peaks(cells, active | queue, steady),
        share,
        np.zeros(len(cells), bool),
        np.where(share >= limits.share, share, np.nan),
        bool(queue.any()),
        _EVIDENCE[kind],
    )


def _steady(axis: Axis, limits: HealthLimits) -> int:
    return 0 if axis.window_s > limits.coarse_s else limits.steady


# -- forwarders -------------------------------------------------------------------------------------------------------


def _forwarder(loads: pa.Table, cells: Cells, active: Bools, peaks: Peaks, limits: HealthLimits) -> JudgedCells:
    axis = cells.axis
    known = complete_class_peaks(cells, peaks)
    waiting = np.nan_to_num(cells.wait_s) / axis.window_s
    # Who finishes nothing tells no waits: then the length of the queue is what shows.
    stuck = (np.nan_to_num(cells.ops) <= 0) & (np.nan_to_num(cells.queue) >= 1)
    # Behind a lock or a metadata server requests are held in service, and some wait for a worker. A forwarder that is
    # itself the narrow place makes them wait longer than it serves them, or wait though workers are free.
    served = np.nan_to_num(cells.busy_s) / axis.window_s
    queueing = ((waiting >= limits.queue) & ((waiting >= _LONGER * served) | (served < limits.workers))) | stuck
    # A forwarder that told of its queue and of no request finished none.
    share = np.where(stuck, 0.0, compute_class_peak_shares(cells, known))
    parts = build_load_cells(loads, "forwarder", axis, parts=True)
    held = _held(parts, cells, limits) if parts is not None else np.zeros(len(cells))
    share = share + held
    asked = queueing & mark_steady_class_peaks(cells, queueing, _steady(axis, limits))
    share = find_nearby_peak_shares(cells, share, _steady(axis, limits))
    coarse = axis.window_s > limits.coarse_s
    # Of a long interval only a component that was kept busy throughout can be judged: the queue has to be deep.
    asked &= (waiting >= limits.queue * axis.window_s) | stuck if coarse else asked
    told = bool(np.isfinite(cells.wait_s).any() or np.isfinite(cells.queue).any())
    fair = np.where(active & (share >= limits.share), share, np.nan)
    return JudgedCells(
        cells,
        known,
        active | queueing,
        asked,
        share,
        np.zeros(len(cells), np.bool_),
        fair,
        told,
        _EVIDENCE["forwarder"],
    )


def _held(parts: Cells, cells: Cells, limits: HealthLimits) -> Floats:
    """By cell: how much of the forwarder is held by requests that wait for something behind it (the lock of a file
    many write to, a slow target, a metadata server that is behind): the share of their time in the forwarder that is
    service, summed over the jobs whose service takes far longer than usual, over those that do nothing but metadata,
    and over those that fill all workers and do not wait themselves."""
    usually = learn_class_times(parts).predict_s(parts)
    took = parts.busy_s
    waited = np.nan_to_num(parts.wait_s)
    with np.errstate(invalid="ignore", divide="ignore"):
        under_way = took / parts.axis.window_s
        part = took / (took + waited)
        # What metadata takes, it takes behind the forwarder.
        names_only = np.nan_to_num(parts.metadata) >= parts.ops
        long = (names_only | (took >= limits.held_ratio * usually)) & (under_way >= _HOLDS)
        filling = (under_way >= limits.workers) & (part >= _UNHINDERED)
        through = np.where(long | filling, part, 0.0)
    grid = np.zeros((len(cells.names), cells.axis.count))
    np.add.at(grid, (parts.component, parts.at), np.nan_to_num(through))
    return np.asarray(grid[cells.component, cells.at], np.float64)


# -- devices and targets ----------------------------------------------------------------------------------------------


def _device(cells: Cells, active: Bools, peaks: Peaks, limits: HealthLimits) -> JudgedCells:
    known = complete_class_peaks(cells, peaks, cells.busy_s)
    busy = np.nan_to_num(cells.busy_s) >= limits.device_busy * cells.axis.window_s
    share = find_nearby_peak_shares(cells, compute_class_peak_shares(cells, known), _steady(cells.axis, limits))
    return JudgedCells(
        cells,
        known,
        active | busy,
        busy & mark_steady_class_peaks(cells, busy, _steady(cells.axis, limits)),
        share,
        np.zeros(len(cells), np.bool_),
        _while_busy(cells, known, limits),
        bool(np.isfinite(cells.busy_s).any()),
        _EVIDENCE["device"],
    )


def _while_busy(cells: Cells, peaks: list[Peak], limits: HealthLimits) -> Floats:
    """What a device moves while it is busy, as a share of its peak: shown also by one that is asked for little."""
    best = np.array([peak.bytes_per_s or np.nan for peak in peaks])[cells.component]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = cells.bytes / cells.busy_s / best
        enough = cells.busy_s >= 0.02 * cells.axis.window_s
    return np.where(enough & (share >= limits.share), np.minimum(share, 1.0), np.nan)


def _pair_targets_with_devices(targets: Cells, devices: Cells | None) -> dict[int, int]:
    """Which device holds which target, both by place: the ones that moved the same bytes in the same intervals.

    The most alike first, each once; of several that are just as alike, in the order of their names: then it makes no
    difference, as they were asked and gave the same. A target whose bytes are no device's has none.
    """
    if devices is None:
        return {}
    left, right = (_grid(cells) for cells in (targets, devices))
    near: list[tuple[float, int, int]] = []
    for place, row in enumerate(left):
        if np.count_nonzero(row) < 10:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.abs(right - row).sum(axis=1) / row.sum()
        near += [(round(float(apart[device]), 6), place, int(device)) for device in np.flatnonzero(apart < _SAME)]
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, place, device in sorted(near):
        if place not in found and device not in taken:
            found[place] = device
            taken.add(device)
    return found


def _grid(cells: Cells) -> Floats:
    out = np.zeros((len(cells.names), cells.axis.count))
    out[cells.component, cells.at] = np.nan_to_num(cells.bytes)
    return out


def _target(
    loads: pa.Table, cells: Cells, active: Bools, peaks: Peaks, limits: HealthLimits, servers: Mapping[str, str]
) -> JudgedCells:
    axis = cells.axis
    devices = build_load_cells(loads, "device", axis)
    pairs = _pair_targets_with_devices(cells, devices)
    named_pairs = {cells.names[place]: devices.names[held] for place, held in pairs.items()} if devices else {}
    busy_s = np.full(len(cells), np.nan)
    if devices is not None and pairs:
        grid = np.full((len(devices.names), axis.count), np.nan)
        grid[devices.component, devices.at] = devices.busy_s
        held = np.array([pairs.get(place, -1) for place in range(len(cells.names))])[cells.component]
        busy_s = np.where(held >= 0, grid[held, cells.at], np.nan)
    known = complete_class_peaks(cells, peaks, busy_s if pairs else None)
    share = find_nearby_peak_shares(cells, compute_class_peak_shares(cells, known), _steady(axis, limits))
    busy = np.nan_to_num(busy_s) >= limits.device_busy * axis.window_s
    asked = busy & mark_steady_class_peaks(cells, busy, _steady(axis, limits))
    named = _find_target_servers(cells, servers, devices, pairs)
    full = np.zeros(len(cells), np.bool_)
    if named is not None:
        share, full = _by_server(cells, share, asked, named, known, peaks, limits)
    with_busy = replace(cells, busy_s=busy_s)
    fair = np.fmax(_while_busy(with_busy, known, limits), np.where(share >= limits.share, share, np.nan))
    return JudgedCells(
        cells,
        known,
        active | busy,
        asked,
        share,
        full,
        fair,
        bool(np.isfinite(busy_s).any()),
        _EVIDENCE["target"],
        named_pairs,
    )


def _find_target_servers(
    cells: Cells, servers: Mapping[str, str], devices: Cells | None = None, pairs: Mapping[int, int] | None = None
) -> Ints | None:
    """The server of each target by number, as told or by where its device is; None where neither is known."""
    told = []
    for place, name in enumerate(cells.names):
        server = servers.get(name)
        if server is None and devices is not None and pairs and place in pairs:
            server = devices.names[pairs[place]].partition("/")[0]
        told.append(server)
    if all(server is None for server in told):
        return None
    words = sorted({server for server in told if server is not None})
    alone = iter(range(len(words), len(words) + len(told)))
    return np.array([words.index(server) if server is not None else next(alone) for server in told], np.int64)


def _by_server(
    cells: Cells, share: Floats, asked: Bools, server: Ints, known: list[Peak], peaks: Peaks, limits: HealthLimits
) -> tuple[Floats, Bools]:
    """A target of a server that is full is as fast as it can be; one of a server that moves next to nothing, while
    it is asked for more, is as sick as that."""
    moved = _grid(cells) / cells.axis.window_s
    count = int(server.max()) + 1
    total = np.zeros((count, cells.axis.count))
    np.add.at(total, server, moved)
    alone = max((peak.bytes_per_s or 0.0 for peak in known), default=0.0)
    told = find_class_peak(peaks, "server", "")
    reached = np.sort(np.quantile(total, 0.999, axis=1))
    # What all servers together never reached is no limit of theirs: more than its targets' share has to be seen.
    learnt = float(reached[-2] if len(reached) >= 3 else reached[-1])
    best = told.bytes_per_s if told is not None and told.bytes_per_s else learnt
    if not best or best < 1.2 * alone or not (np.bincount(server) > 1).any():
        return share, np.zeros(len(cells), np.bool_)
    whole = total[server[cells.component], cells.at] / best
    full = (whole >= limits.full_server) & (share < 1.0)
    low = asked & (whole < limits.share) & (share < 0.5)
    return np.where(low, np.fmin(share, whole), share), full


# -- metadata servers -------------------------------------------------------------------------------------------------


def _mds(loads: pa.Table, cells: Cells, active: Bools, peaks: Peaks, limits: HealthLimits) -> JudgedCells:
    known = complete_class_peaks(cells, peaks)
    share = find_nearby_peak_shares(cells, compute_class_peak_shares(cells, known), _steady(cells.axis, limits))
    under_way = _under_way(loads, cells)
    asked = under_way >= _UNDER_WAY
    asked &= mark_steady_class_peaks(cells, asked, _steady(cells.axis, limits))
    asked &= cells.axis.window_s <= limits.coarse_s
    return JudgedCells(
        cells,
        known,
        active,
        asked,
        share,
        np.zeros(len(cells), np.bool_),
        np.where(share >= limits.share, share, np.nan),
        bool(under_way.any()),
        _EVIDENCE["mds"],
    )


def _under_way(loads: pa.Table, cells: Cells) -> Floats:
    """By cell: operations under way at the metadata server, on average, of jobs that did nothing but metadata there
    and did not wait in front of a forwarder instead. Jobs that use several servers at once are left out."""
    parts = build_load_cells(loads, "mds", cells.axis, parts=True)
    jobs = build_job_load_cells(loads, ("forwarder", "mount", "client"), cells.axis)
    out = np.zeros((len(cells.names), cells.axis.count))
    if parts is None or jobs is None:
        return np.asarray(out[cells.component, cells.at], np.float64)
    place = {name: number for number, name in enumerate(jobs.jobs)}
    job = np.array([place.get(name, -1) for name in parts.jobs], np.int64)[parts.job]
    some = np.flatnonzero((job >= 0) & (np.nan_to_num(parts.ops) > 0))
    # A job and an interval as one number: which server it asked, and whether only that one.
    when, first, servers = np.unique(
        job[some] * cells.axis.count + parts.at[some], return_index=True, return_counts=True
    )
    data = jobs.ops - np.nan_to_num(jobs.metadata)
    pure = (jobs.metadata > 0) & (data <= 0) & (np.nan_to_num(jobs.busy_s) >= np.nan_to_num(jobs.wait_s))
    rows = np.flatnonzero(pure)
    own = jobs.job[rows] * cells.axis.count + jobs.at[rows]
    found = np.minimum(np.searchsorted(when, own), max(len(when) - 1, 0))
    there = (when[found] == own) & (servers[found] == 1) if len(when) else np.zeros(len(rows), np.bool_)
    rows, found = rows[there], found[there]
    np.add.at(out, (parts.component[some[first[found]]], jobs.at[rows]), np.nan_to_num(jobs.busy_s[rows]))
    return np.asarray(out[cells.component, cells.at] / cells.axis.window_s, np.float64)
