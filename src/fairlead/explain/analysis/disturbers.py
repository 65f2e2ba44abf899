"""Which job made others wait at a forwarder they share: waits while its load was high against waits while it was low.

Pure. A job is accused only where its own demand grew (requests, bytes or metadata operations), so that one which is
itself held up by a slow target is not. Not here: slow targets (`slow_targets`), words (`culprits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fairlead.explain.analysis.component_flows import NO_JOB, Bools, Floats, Flow


@dataclass(frozen=True)
class DisturberLimits:
    """What counts as evidence: waits are the 90th percentile of a window."""

    wait_ratio: float = 3.0
    wait_growth_s: float = 10e-3
    mean_growth_s: float = 3e-3
    """Least growth of the mean wait: what a few requests wait longer is not worth an accusation."""
    demand_ratio: float = 2.0
    windows: int = 3
    """Fewest windows of high and of low load each."""
    requests_in_window: int = 3
    worker_growth: float = 0.3
    """Workers more that the disturber keeps busy, on average, while its load is high."""
    separation: float = 0.85
    """Least chance that a window of high load has the longer wait of a pair."""
    by_chance: float = 0.1
    """Largest share of shifted loads that may separate the waits as well."""
    own_growth: float = 1.5
    """Growth of the victim's own demand above which only its busy windows are compared."""
    rival: float = 0.5


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """One job made another wait at one forwarder. Waits are medians over windows, in seconds."""

    forwarder: str
    disturber: str
    victim: str
    from_ns: int
    to_ns: int
    wait_p50_s: float
    wait_p90_s: float
    usual_wait_p50_s: float
    usual_wait_p90_s: float
    kind: str
    """What of the disturber grew most: `requests`, `bytes` or `metadata`."""
    demand_per_s: float
    usual_demand_per_s: float
    workers: float
    """Workers of the forwarder it kept busy on average while its load was high, and otherwise (`usual_workers`)."""
    usual_workers: float
    worker_share: float
    """Its share of the time all workers were busy while its load was high."""
    separation: float
    by_chance: float | None
    """Share of shifted loads that separate the waits as well; None where there were too few windows to shift."""
    windows: int
    usual_windows: int
    confidence: float
    waited_s: float
    """Seconds the victim's requests waited beyond the usual, summed over requests."""


def find_disturbers(
    flows: Sequence[Flow], slow: Bools | None = None, limits: DisturberLimits | None = None
) -> list[Disturbance]:
    """Pairs of disturber and victim with evidence, the costliest first; one disturber for a victim at a forwarder.

    `slow` marks windows in which a target was slow: windows are compared within them and outside them, never across.
    """
    limits = limits or DisturberLimits()
    found = [
        one
        for flow in flows
        for victim in range(len(flow.jobs))
        if (one := _disturbed(flow, victim, slow, limits)) is not None
    ]
    return sorted(found, key=lambda one: -one.waited_s)


def _disturbed(flow: Flow, victim: int, slow: Bools | None, limits: DisturberLimits) -> Disturbance | None:
    """The job that made `victim` wait at this forwarder, if the evidence is there."""
    everything = np.ones(flow.axis.count, bool)
    strata = [everything] if slow is None or not slow.any() else [~slow, slow]
    best: Disturbance | None = None
    for stratum in strata:
        others = [job for job in range(len(flow.jobs)) if job != victim and flow.jobs[job] != NO_JOB]
        growth = {job: _growth(flow, job, stratum, limits) for job in others}
        most = max((value for value in growth.values()), default=0.0)
        for job in others:
            # What a lesser load did cannot be told apart from what the greater one at the same time did.
            if growth[job] < limits.worker_growth or growth[job] < limits.rival * most:
                continue
            one = _pair(flow, victim, job, stratum, limits)
            if one is not None and (best is None or one.workers > best.workers):
                best = one
    return best


def _levels(load: Floats) -> tuple[float, float]:
    """The usual and the high level of a load."""
    low, high = np.quantile(load, (0.2, 0.95))
    return float(low), float(high)


def _workers(flow: Flow, job: int) -> Floats:
    load: Floats = flow.service_s[job] / flow.axis.window_s
    return load


def _growth(flow: Flow, job: int, stratum: Bools, limits: DisturberLimits) -> float:
    if int(stratum.sum()) < 2 * limits.windows:
        return 0.0
    low, high = _levels(_workers(flow, job)[stratum])
    return high - low


@dataclass(frozen=True)
class _Doses:
    """Windows of high and of low load of the disturber in which the victim asked something."""

    high: Bools
    low: Bools


def _doses(flow: Flow, victim: int, job: int, stratum: Bools, limits: DisturberLimits) -> _Doses | None:
    load = _workers(flow, job)
    bottom, top = _levels(load[stratum])
    asked = stratum & (flow.requests[victim] >= limits.requests_in_window)
    high = asked & (load >= bottom + 0.5 * (top - bottom))
    low = asked & (load <= bottom + 0.2 * (top - bottom))
    if high.any() and low.any():
        own = flow.requests[victim]
        busy = float(np.median(own[high]))
        if busy > limits.own_growth * float(np.median(own[low])):
            low &= own >= busy / limits.own_growth
    if high.sum() < limits.windows or low.sum() < limits.windows:
        return None
    return _Doses(high, low)


def _pair(flow: Flow, victim: int, job: int, stratum: Bools, limits: DisturberLimits) -> Disturbance | None:
    """The verdict on one pair."""
    doses = _doses(flow, victim, job, stratum, limits)
    if doses is None:
        return None
    waits = flow.wait_p90_s[victim]
    loaded, usual = float(np.median(waits[doses.high])), float(np.median(waits[doses.low]))
    if loaded < limits.wait_ratio * usual or loaded - usual < limits.wait_growth_s:
        return None
    demand = _demand(flow, job, doses)
    if demand[1] < limits.demand_ratio * demand[2] or demand[1] == 0:
        return None
    busy = flow.service_s[:, doses.high].sum(axis=1)
    if busy[job] < busy[victim]:
        return None
    separation = _separation(waits[doses.high], waits[doses.low])
    chance = _by_chance(flow, victim, job, stratum, separation, limits)
    if separation < limits.separation or (chance is not None and chance > limits.by_chance):
        return None
    mean = np.divide(flow.wait_s[victim], flow.requests[victim], out=np.zeros_like(waits), where=doses.high | doses.low)
    growth = mean[doses.high] - np.median(mean[doses.low])
    if np.median(growth) < limits.mean_growth_s:
        return None
    beyond = growth * flow.requests[victim][doses.high]
    at = np.flatnonzero(doses.high)
    load = _workers(flow, job)
    return Disturbance(
        forwarder=flow.name,
        disturber=flow.jobs[job],
        victim=flow.jobs[victim],
        from_ns=flow.axis.from_ns(int(at[0])),
        to_ns=flow.axis.to_ns(int(at[-1])),
        wait_p50_s=float(np.median(flow.wait_p50_s[victim][doses.high])),
        wait_p90_s=loaded,
        usual_wait_p50_s=float(np.median(flow.wait_p50_s[victim][doses.low])),
        usual_wait_p90_s=usual,
        kind=demand[0],
        demand_per_s=demand[1],
        usual_demand_per_s=demand[2],
        workers=float(load[doses.high].mean()),
        usual_workers=float(load[doses.low].mean()),
        worker_share=float(busy[job] / busy.sum()),
        separation=separation,
        by_chance=chance,
        windows=int(doses.high.sum()),
        usual_windows=int(doses.low.sum()),
        confidence=_confidence(doses, separation, chance, loaded / max(usual, 1e-4)),
        waited_s=float(np.maximum(beyond, 0).sum()),
    )


def _demand(flow: Flow, job: int, doses: _Doses) -> tuple[str, float, float]:
    """What of a job's demand grew most: its name, and its rate per second while the load was high and low."""
    best: tuple[str, float, float] = ("requests", 0.0, 0.0)
    growth = 0.0
    for name in ("metadata", "bytes", "requests"):
        rates = getattr(flow, name)[job] / flow.axis.window_s
        high, low = float(rates[doses.high].mean()), float(rates[doses.low].mean())
        # A little is added to the usual rate: from nothing, everything has grown without bound.
        grown = high / (low + 0.02 * max(float(rates.max()), 1e-12))
        if grown > growth * 1.2:
            best, growth = (name, high, low), grown
    return best


def _separation(high: Floats, low: Floats) -> float:
    """Chance that of a window of each kind the one of high load has the longer wait; a tie counts half."""
    above = (high[:, None] > low[None, :]).mean()
    return float(above + 0.5 * (high[:, None] == low[None, :]).mean())


def _by_chance(
    flow: Flow, victim: int, job: int, stratum: Bools, actual: float, limits: DisturberLimits
) -> float | None:
    """Share of circular shifts of the load that separate the waits as well; None with too few windows to say.

    Loads and waits that both come and go on their own agree by chance more often than independent seconds would.
    """
    at = np.flatnonzero(stratum & (flow.requests[victim] >= limits.requests_in_window))
    if len(at) < 12:
        return None
    load, waits = _workers(flow, job)[at], flow.wait_p90_s[victim][at]
    bottom, top = _levels(load)
    as_well = shifts = 0
    for shift in range(2, len(at) - 1):
        moved = np.roll(load, shift)
        high, low = moved >= bottom + 0.5 * (top - bottom), moved <= bottom + 0.2 * (top - bottom)
        if high.sum() and low.sum():
            shifts += 1
            as_well += _separation(waits[high], waits[low]) >= actual
    return as_well / shifts if shifts else None


def _confidence(doses: _Doses, separation: float, chance: float | None, ratio: float) -> float:
    """Between 0.5 and 0.99: more windows, a cleaner separation, less chance and a larger growth make it surer."""
    windows = min(1.0, float(min(doses.high.sum(), doses.low.sum())) / 8)
    clean = (separation - 0.5) * 2
    lucky = 0.5 if chance is None else 1 - 5 * min(chance, 0.2)
    size = min(1.0, float(np.log(ratio) / np.log(10)))
    return round(0.5 + 0.49 * (0.3 * windows + 0.3 * clean + 0.2 * lucky + 0.2 * size), 2)
