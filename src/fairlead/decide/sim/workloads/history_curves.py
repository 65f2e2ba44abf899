"""What programs reach alone, from what they reached among others: curves with a fallback, learnt from a site's past.

Own runs first, then runs of the same behaviour class, then the machine (Bandet et al. 2024 find class means enough).
Pure. Not here: cleaning and joining of what was recorded (`history`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairlead.decide.sim.workloads.history import Phases, Runs

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
OWN, CLASS, MACHINE = 0, 1, 2
"""How well a curve is known: from own runs, from its behaviour class, from the machine's defaults."""
LEAST_RUNS = 3
"""So many runs make a program (a class) known."""
BEST = 0.9
"""Of the rates seen, this quantile is taken for what is reached alone: above it lies luck, below it contention."""
HELD = 0.8
"""A rate of this share of what its forwarders (targets) can do was held back by them: it tells little of the client."""
LEAST_BYTES = 16 << 20
"""Smaller phases are mostly opening and closing: their rates tell of themselves only."""
ALONE_MODES = (2, 3)
"""N-1 and 1-1: one file or one process is what limits, not the number of nodes."""
LEAST_IO_S = 1e-3
"""Of shorter phases no rate is told."""
_MOST = 1e9
"""Counts beyond it are no counts."""


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What is known of the machine itself. Peaks of one forwarder and one target in bytes/s (NaN: not known, then the
    highest rate seen counts), `node_rate` bytes/s of one node through its client (NaN: as seen), `mdops` of the
    metadata servers together."""

    forwarder_peak: float = np.nan
    target_peak: float = np.nan
    node_rate: float = np.nan
    mdops: float = np.nan


@dataclass(frozen=True, kw_only=True)
class CurveLookup:
    """Curves of J jobs and P phases as `sim.replay.jobs.Jobs` names them; `phase_basis` (P,) OWN, CLASS or MACHINE."""

    phase_rate: F64
    phase_basis: I64
    client_rate: F64
    forwarder_cost: F64
    target_cost: F64
    most_targets: I64
    most_forwarders: I64
    weight: F64
    behaviour: I64
    basis: I64


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Best rates by key: `rate` for one node (or, of ALONE_MODES, the whole job), how many runs it rests on, how many
    forwarders those had, and whether something beside the client held the best of them."""

    key: I64
    rate: F64
    runs: I64
    held: NDArray[np.bool_]

    def at(self, keys: I64) -> tuple[F64, I64, NDArray[np.bool_]]:
        """Rate (NaN: none), runs, held, of each key."""
        if not len(self.key):
            return np.full(len(keys), np.nan), np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        place = np.minimum(np.searchsorted(self.key, keys), len(self.key) - 1)
        known = self.key[place] == keys
        return np.where(known, self.rate[place], np.nan), np.where(known, self.runs[place], 0), known & self.held[place]


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What was learnt. `node_rate` bytes/s of one node, `forwarder_cost` and `target_cost` seconds a byte of the
    machine; `class_cost` seconds a byte at a forwarder by request class, `own` and `alike` best rates by program and
    by behaviour class."""

    node_rate: float
    forwarder_cost: float
    target_cost: float
    metadata_rate: float
    class_cost: F64
    own: _Table
    alike: _Table
    own_cost: _Table
    own_targets: dict[int, int]

    def look(self, runs: Runs, phases: Phases) -> CurveLookup:
        """Curves of these jobs, which need not be those that were learnt from."""
        keys = _keys(runs, phases)
        scale = _scale(runs, phases)
        own, own_runs, own_held = self.own.at(keys.own)
        alike, alike_runs, alike_held = self.alike.at(keys.alike)
        metadata = phases.kind == 2
        machine = np.where(metadata, self.metadata_rate, self.node_rate)
        # Something beside the client held the best own runs: they are a lower bound of what the client reaches.
        with np.errstate(invalid="ignore"):
            other = np.where(alike_held, np.fmax(alike, machine), alike)
            enough = (own_runs >= LEAST_RUNS) & ~own_held
            by_class = ~enough & (alike_runs >= LEAST_RUNS)
        rate = np.where(enough, own, np.where(by_class, np.fmax(own, other), np.fmax(own, machine)))
        basis = np.where((own_runs >= LEAST_RUNS), OWN, np.where(alike_runs >= LEAST_RUNS, CLASS, MACHINE))
        phase_rate = np.maximum(np.where(np.isnan(rate), machine, rate) * scale, 1.0)
        count = len(runs)
        weight_of = np.where(metadata, phases.operations, phases.volume)
        main = _largest(phases, count, np.where(metadata, 0.0, weight_of))
        has = main >= 0
        at = np.maximum(main, 0)
        client = np.zeros(count)
        np.maximum.at(client, phases.job, np.where(metadata, 0.0, phase_rate))
        cost, cost_runs, _ = self.own_cost.at(_program_key(runs))
        by_request = self.class_cost[keys.request[at]]
        forwarder = np.where(cost_runs > 0, cost, by_request)
        io_nodes = _io_nodes(runs)
        counted = (runs.io_processes >= 1) & (runs.io_processes <= _MOST)
        processes = np.where(counted, runs.io_processes, io_nodes)
        request = phases.request_bytes[at]
        request = np.where((request > 0) & (request < _MOST * _MOST), request, float(1 << 20))
        told = np.array([self.own_targets.get(int(p), 0) for p in runs.program], np.int64)
        seen = np.where((runs.targets >= 1) & (runs.targets <= _MOST), runs.targets, 0).astype(np.int64)
        wide = np.where(np.isin(runs.mode, ALONE_MODES), 1, processes).astype(np.int64)
        return CurveLookup(
            phase_rate=phase_rate,
            phase_basis=basis.astype(np.int64),
            client_rate=np.where(client > 0, client, self.node_rate * io_nodes),
            forwarder_cost=np.where(has, forwarder, self.forwarder_cost),
            target_cost=np.full(count, self.target_cost),
            most_targets=np.maximum(np.maximum(told, seen), wide),
            most_forwarders=np.maximum(io_nodes, 1).astype(np.int64),
            weight=np.maximum(processes * request, 1.0),
            behaviour=np.where(has, keys.alike[at], -1),
            basis=np.where(has, basis[at], MACHINE).astype(np.int64),
        )


def learn_curves(runs: Runs, phases: Phases, defaults: Defaults) -> Curves:
    """Curves from J sound runs and their P phases. Durations are never used as such: they hold the contention of their
    day."""
    keys, scale = _keys(runs, phases), _scale(runs, phases)
    metadata = phases.kind == 2
    amount = np.where(metadata, phases.operations, phases.volume)
    known = (phases.io_s >= LEAST_IO_S) & (amount > 0)
    rate = np.where(known, amount / np.where(known, phases.io_s, 1.0), np.nan)
    forwarders = _counted(runs.forwarders)[phases.job]
    used = np.fmin(forwarders, _io_nodes(runs)[phases.job])
    targets = _counted(runs.targets)[phases.job]
    told = known & ~metadata & (phases.volume >= LEAST_BYTES)
    c0 = 1.0 / _peak(defaults.forwarder_peak, (rate / used)[told])
    t0 = 1.0 / _peak(defaults.target_peak, (rate / targets)[told])
    with np.errstate(invalid="ignore"):
        held = (rate >= HELD * used / c0) | (rate >= HELD * targets / t0)
    free = told & ~held & (scale > 0) & ~np.isin(runs.mode[phases.job], ALONE_MODES)
    serial = told & np.isin(runs.mode[phases.job], ALONE_MODES)
    node = defaults.node_rate
    if not np.isfinite(node):
        some = (rate / scale)[free] if free.any() else (rate / scale)[serial if serial.any() else told]
        node = float(np.quantile(some, 0.95)) if len(some) else 1.0 / c0
    ops = (rate / scale)[known & metadata]
    metadata_rate = (
        float(np.quantile(ops, BEST)) if len(ops) else defaults.mdops if np.isfinite(defaults.mdops) else 1e3
    )
    class_cost = _class_costs(keys.request, rate, used, scale * node, c0, told)
    usable = told | (known & metadata)
    if not usable.any():
        usable = known
    return Curves(
        node_rate=node,
        forwarder_cost=c0,
        target_cost=t0,
        metadata_rate=metadata_rate,
        class_cost=class_cost,
        own=_best(keys.own, rate / scale, held, phases.job, usable & (keys.own >= 0)),
        alike=_best(keys.alike, rate / scale, held, phases.job, usable),
        own_cost=_own_costs(runs, phases, keys.alike, rate, used, c0, told),
        own_targets=_most_targets(runs),
    )


@dataclass(frozen=True)
class _Keys:
    own: I64
    alike: I64
    request: I64


REQUESTS = 16


def _keys(runs: Runs, phases: Phases) -> _Keys:
    """Codes that hold for any runs: of program, nodes, kind, mode and request class; the last three alone; requests."""
    known = phases.request_bytes > 0
    octave = np.floor(np.log2(np.where(known, phases.request_bytes, 1.0)) / 2.0)
    request = np.where(known, np.clip(octave, 0, REQUESTS - 2) + 1, 0).astype(np.int64)
    mode = runs.mode[phases.job] + 1
    alike = (phases.kind * 8 + mode) * REQUESTS + request
    program = _program_key(runs)[phases.job]
    return _Keys(np.where(program < 0, -1, program * (24 * REQUESTS) + alike), alike, request)


def _program_key(runs: Runs) -> I64:
    """Program and nodes rounded to a power of two; -1 where the program is not known."""
    scale = np.rint(np.log2(np.maximum(runs.nodes, 1.0))).astype(np.int64)
    return np.where(runs.program < 0, -1, runs.program * 64 + scale)


def _io_nodes(runs: Runs) -> F64:
    """Nodes that do I/O: as counted, else as many as processes that do, at most all."""
    guess = np.where(np.isfinite(runs.io_processes), np.fmin(runs.io_processes, runs.nodes), runs.nodes)
    return np.maximum(np.where(np.isfinite(runs.io_nodes), np.fmin(runs.io_nodes, runs.nodes), guess), 1.0)


def _counted(values: F64) -> F64:
    """Counts, NaN for what is none."""
    return np.where((values >= 1) & (values <= _MOST), values, np.nan)


def _scale(runs: Runs, phases: Phases) -> F64:
    """What a rate is divided by to compare jobs: nodes that do I/O; 1 where one file or process limits."""
    return np.where(np.isin(runs.mode, ALONE_MODES), 1.0, _io_nodes(runs))[phases.job]


def _peak(given: float, seen: F64) -> float:
    """What is told of one component, or the highest rate seen at one, whichever is more."""
    best = float(np.nanquantile(seen, 0.99)) if np.isfinite(seen).any() else np.nan
    known = [value for value in (given, best) if np.isfinite(value) and value > 0]
    return max(known) if known else 1e9


def _class_costs(request: I64, rate: F64, used: F64, able: F64, c0: float, told: NDArray[np.bool_]) -> F64:
    """(REQUESTS,) seconds a byte holds a forwarder, by request class: where clients could have filled theirs and the
    best of them did not, the requests are what costs."""
    costs = np.full(REQUESTS, c0)
    with np.errstate(invalid="ignore"):
        could = told & (able * c0 >= used) & np.isfinite(used)
    for one in np.unique(request[could]).tolist():
        seen = (rate / used)[could & (request == one)]
        if len(seen) >= 2 * LEAST_RUNS:
            best = float(np.quantile(seen, 0.95))
            costs[one] = 1.0 / best if best * c0 < HELD else c0
    return costs


def _own_costs(
    runs: Runs, phases: Phases, alike: I64, rate: F64, used: F64, c0: float, told: NDArray[np.bool_]
) -> _Table:
    """Where a program ran on different numbers of forwarders and got more from more, the fewer were full: with it, or
    with others. So one costs no more than the best of all alike phases shows."""
    rows = told & np.isfinite(used) & (runs.program[phases.job] >= 0)
    key, like = _program_key(runs)[phases.job][rows], alike[rows]
    counts, rates = used[rows], rate[rows]
    per = rates / counts
    shown = {int(one): c for one in np.unique(like) if (c := float(per[like == one].max())) > 0}
    found: dict[int, tuple[float, int]] = {}
    order = np.argsort(key, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else ():
        one, count, best = int(key[mine[0]]), counts[mine], rates[mine]
        if count.min() == count.max():
            continue
        tops = [(n, float(np.quantile(best[count == n], BEST)), int((count == n).sum())) for n in np.unique(count)]
        full = [
            (n / r, k)
            for (n, r, k), (_, more, many) in pairwise(tops)
            if more >= 1.25 * r and min(k, many) >= LEAST_RUNS
        ]
        if full:
            cost, many = min(full)
            most = 1.0 / max(shown[int(k)] for k in np.unique(like[mine]))
            found[one] = (max(min(cost, most), c0), many)
    keys = np.array(sorted(found), np.int64)
    return _Table(
        key=keys,
        rate=np.array([found[k][0] for k in keys.tolist()]),
        held=np.zeros(len(keys), np.bool_),
        runs=np.array([found[k][1] for k in keys.tolist()], np.int64),
    )


def _best(key: I64, rate: F64, held: NDArray[np.bool_], job: I64, usable: NDArray[np.bool_]) -> _Table:
    """The best rates by key, and whether something beside the client held most of them."""
    rows = np.flatnonzero(usable & np.isfinite(rate))
    rows = rows[np.argsort(key[rows], kind="stable")]
    keys, starts = np.unique(key[rows], return_index=True)
    stops = np.append(starts[1:], len(rows))[: len(starts)]
    best, runs, were_held = np.zeros(len(keys)), np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    for i, (low, high) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        mine = rows[low:high]
        best[i] = float(np.quantile(rate[mine], BEST)) if len(mine) >= 5 else float(rate[mine].max())
        top = mine[rate[mine] >= 0.9 * best[i]]
        runs[i], were_held[i] = len(np.unique(job[mine])), bool(held[top].mean() > 0.5)
    return _Table(key=keys, rate=best, runs=runs, held=were_held)


def _most_targets(runs: Runs) -> dict[int, int]:
    """The most targets a program was ever seen on."""
    found: dict[int, int] = {}
    for program, count in zip(runs.program.tolist(), runs.targets.tolist(), strict=True):
        if program >= 0 and 1 <= count <= _MOST:
            found[program] = max(found.get(program, 0), int(count))
    return found


def _largest(phases: Phases, jobs: int, amount: F64) -> I64:
    """Place of the largest phase of each job, -1 of none."""
    found = np.full(jobs, -1, np.int64)
    order = np.lexsort((amount, phases.job))
    found[phases.job[order]] = order
    return found
