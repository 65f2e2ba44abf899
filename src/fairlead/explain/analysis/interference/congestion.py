"""Where the victim lost time, second by second, and which component of its path delayed it. Pure.

The loss is measured from the victim's own rate. Of each second's loss, forwarders get the share of request time spent
waiting there beyond the usual, and the components behind them the rest, as far as they show signs of congestion: use
near the known peak, or requests that take longer than the component's own quiet ones. Not here: the culprit (`blame`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairlead.core.model.incident import Incident
from fairlead.core.model.unit_formats import KIB
from fairlead.explain.analysis.interference.load_arrays import F64, Component, Loads, Measures
from fairlead.explain.analysis.interference.scene import Victim

OP_BYTES = 64.0 * KIB
"""What a request costs a component, in bytes it could have moved instead: small requests fill it, too."""
UTIL = (0.55, 0.9)
"""Use of the peak from which a component may be congested, and at which it is."""
SLOWER = (1.3, 3.0)
"""Times the quiet service time from which a component may be congested, and at which it is."""
QUIET = 0.2
"""Quantile of a component's own seconds that counts as quiet."""
LAST_OF, LAST_SHARE = 0.97, 0.08
"""A part of a job ends when it has done so much of its work; it is among the last if it ends within so much of the
phase of the very last."""
LEAST_SEEN_PEAK = 0.7
"""What use near the highest seen counts, where no peak is known: something is the highest everywhere."""


@dataclass(frozen=True)
class ComponentCongestion:
    """One component of the path. By interval (T,): `at` how much of a second's loss falls to it, in [0, 1]; `util` its
    use (NaN: no peak known). The waits of the victim there (else of everybody, `mine` False) are means a request."""

    place: int
    at: F64
    util: F64
    faulty: F64
    """Share of the loss here that a known fault explains."""
    wait_s: float | None
    usual_wait_s: float | None
    slower: float | None
    """Median of service times in the phase over the quiet ones."""
    mine: bool
    incident: Incident | None = None


@dataclass(frozen=True)
class Congestion:
    """The phase: `inside` seconds of each interval in it, `lost` seconds lost in each (T,), `rate` of the victim
    (amount a second; NaN: not recorded), and the components of its path."""

    inside: F64
    lost: F64
    rate: F64
    loss: F64
    """Share of what the victim should have got that it did not get, in [0, 1]."""
    lost_share: float
    """Share of the phase that was lost."""
    held: Sequence[ComponentCongestion]
    missing: list[str] = field(default_factory=list)


def _select_amounts(measures: Measures, kind: str) -> F64:
    """Return what a phase of this kind is measured by: bytes read or written, or metadata operations."""
    names = {"read": "read_bytes", "write": "write_bytes", "metadata": "metadata_ops"}
    values: F64 = getattr(measures, names[kind]) if kind in names else measures.moved
    return values


def compute_congestion_use(measures: Measures, kind: str) -> F64:
    """Return the use of a component as one figure: bytes plus OP_BYTES for each request; of an MDS, operations."""
    if kind == "mds":
        return measures.metadata_ops
    requests = np.nan_to_num(measures.data_ops) + (np.nan_to_num(measures.metadata_ops) if kind == "forwarder" else 0.0)
    moved = measures.moved
    return np.where(np.isnan(moved) & (requests == 0), np.nan, np.nan_to_num(moved) + requests * OP_BYTES)


def find_congestion_path(loads: Loads, victim: Victim) -> list[int]:
    """Return the indices of the components the victim used: named by its phase, or with its counts while it ran."""
    named = {("forwarder", n) for n in victim.forwarders} | {("target", n) for n in victim.targets}
    named |= {("mds", n) for n in victim.mds}
    inside = loads.axis.measure_overlap_s(victim.start_ns, victim.end_ns) > 0
    path = []
    for place, one in enumerate(loads.components):
        if one.kind == ("target" if victim.kind == "metadata" else "mds"):
            continue
        used = float(np.nansum(compute_congestion_use(one.parts.select_job(0), one.kind)[inside])) > 0
        if used or (one.kind, one.id) in named:
            path.append(place)
    return path


def find_congestion(
    loads: Loads,
    victim: Victim,
    path: Sequence[int],
    *,
    incidents: Sequence[Incident] = (),
    peaks: Mapping[tuple[str, str], float] | None = None,
    usual_wait_s: Mapping[tuple[str, str], float] | None = None,
) -> Congestion:
    """Find how much the victim lost in each interval, and at which component."""
    peaks, usual_wait_s = peaks or {}, usual_wait_s or {}
    inside = loads.axis.measure_overlap_s(victim.start_ns, victim.end_ns)
    last = find_last_congestion_parts(loads, victim.kind, path, inside)
    rate = _rate(loads, victim, path, last)
    lost, loss, missing = _lost(inside, rate, victim)
    share = float(np.clip(victim.lost_s / max(victim.expected_s + victim.lost_s, 1e-9), 0.0, 1.0))
    seen = [_signs(loads, p, inside, incidents, peaks, usual_wait_s) for p in path]
    front = [one for one in seen if one.stage == "forwarder" and (not last or one.held.place in last)]
    beside = [one.held for one in seen if one.stage == "forwarder" and last and one.held.place not in last]
    back = [one for one in seen if one.stage != "forwarder"]
    behind = np.max([one.strength for one in back], axis=0) if back else np.zeros(len(loss))
    ahead = _front_share(front, behind, np.minimum(loss, share))
    held = [*_spread(front, ahead, inside), *beside, *_spread(back, 1.0 - ahead, inside)]
    return Congestion(inside, lost, rate, loss, share, held, missing)


def find_last_congestion_parts(loads: Loads, kind: str, path: Sequence[int], inside: F64) -> list[int]:
    """Places of the forwarders whose part of the victim was at work last; empty where all were, or nothing tells.

    A process has one forwarder. When its part of the job is done it waits for the others, so that how long the phase
    took is told by the part that ended last, whenever that part was held up."""
    places = [p for p in path if loads.components[p].kind == "forwarder" and loads.components[p].counted]
    here = np.flatnonzero(inside > 0)
    ends: dict[int, int] = {}
    for place in places:
        amount = np.nan_to_num(_select_amounts(loads.components[place].parts.select_job(0), kind))[here]
        total = float(amount.sum())
        if total > 0:
            ends[place] = int(np.searchsorted(np.cumsum(amount), LAST_OF * total))
    if len(ends) < 2:
        return []
    room = max(LAST_SHARE * len(here), 1.0)
    last = [place for place, end in ends.items() if end >= max(ends.values()) - room]
    return last if len(last) < len(ends) else []


def _rate(loads: Loads, victim: Victim, path: Sequence[int], last: Sequence[int]) -> F64:
    if last:
        return np.asarray(
            np.nansum([_select_amounts(loads.components[p].parts.select_job(0), victim.kind) for p in last], axis=0)
            / loads.axis.interval_s
        )
    own = _select_amounts(loads.own.select_job(0), victim.kind)
    if np.isnan(own).all():
        best = own
        for kind in ("forwarder", "target", "mds"):
            rows = [
                _select_amounts(loads.components[p].parts.select_job(0), victim.kind)
                for p in path
                if loads.components[p].kind == kind and loads.components[p].counted
            ]
            total = np.nansum(rows, axis=0) if rows else np.zeros(0)
            if rows and total.sum() > 0 and (np.isnan(best).all() or total.sum() > np.nansum(best)):
                best = total
        own = best
    rate: F64 = own / loads.axis.interval_s
    return rate


def _lost(inside: F64, rate: F64, victim: Victim) -> tuple[F64, F64, list[str]]:
    """Seconds lost in each interval, adding up to `lost_s`; the share of its usual rate that it lacked."""
    here = inside > 0
    length = float(inside.sum())
    loss = np.zeros(len(inside))
    if length <= 0:
        return np.zeros(len(inside)), loss, ["no interval of the records lies in the phase"]
    usual_share = float(np.clip(victim.expected_s / max(victim.expected_s + victim.lost_s, 1e-9), 0.0, 1.0))
    amount = float(np.nansum(rate * inside))
    if np.isnan(rate[here]).all() or amount <= 0:
        loss[here] = 1.0 - usual_share
        return inside / length * victim.lost_s, loss, ["the job's own traffic by second"]
    usual = amount / max(victim.expected_s, 1e-9)
    lack = np.clip(1.0 - np.nan_to_num(rate) / usual, 0.0, 1.0)
    loss[here] = lack[here]
    weight = loss * inside
    total = float(weight.sum())
    if total <= 0:
        return inside / length * victim.lost_s, loss, []
    return weight / total * victim.lost_s, loss, []


@dataclass(frozen=True)
class _Signs:
    held: ComponentCongestion
    stage: str
    waited: F64 | None
    """Share of the victim's request time it waited here beyond the usual; None where waits are not recorded."""
    strength: F64
    weight: F64
    """Request time (else amount) of the victim here, by interval."""


def _signs(
    loads: Loads,
    place: int,
    inside: F64,
    incidents: Sequence[Incident],
    peaks: Mapping[tuple[str, str], float],
    usual_wait_s: Mapping[tuple[str, str], float],
) -> _Signs:
    one = loads.components[place]
    here = inside > 0
    key = (one.kind, one.id)
    faulty, left, incident = _faults(loads, one, incidents)
    util, strength, loaded = _use(one, loads.axis.interval_s, peaks.get(key), left)
    slower = _slower(one)
    during = slower[here & np.isfinite(slower)]
    if one.kind != "forwarder":
        # At a forwarder, service holds what all that lies behind it took. And a slow job makes its own requests long:
        # so long ones show congestion only where enough was asked to fill the component.
        strength = np.maximum(strength, 0.8 * _ramp(np.nan_to_num(slower, nan=1.0), *SLOWER) * loaded)
    strength = np.maximum(strength, np.where(faulty > 0, 0.8, 0.0))
    mine = one.parts.select_job(0)
    waited, wait, usual, own = _waits(one, mine, inside, usual_wait_s.get(key))
    time = np.nan_to_num(mine.busy_s) + np.nan_to_num(mine.wait_s)
    weight = time if time[here].sum() > 0 else np.nan_to_num(compute_congestion_use(mine, one.kind))
    if weight[here].sum() <= 0:
        weight = here.astype(float)
    held = ComponentCongestion(
        place=place,
        at=np.zeros(len(inside)),
        util=util,
        faulty=faulty,
        wait_s=wait,
        usual_wait_s=usual,
        mine=own,
        slower=float(np.median(during)) if len(during) else None,
        incident=incident,
    )
    return _Signs(held, one.kind, waited, strength, weight)


def _faults(loads: Loads, one: Component, incidents: Sequence[Incident]) -> tuple[F64, F64, Incident | None]:
    """By interval: the share of its capacity the component lacked, and what it had left; the longest incident."""
    lacking = np.zeros(loads.axis.count)
    longest, seconds = None, 0.0
    for incident in incidents:
        if incident.component != one.id or incident.layer not in (one.kind, "device"):
            continue
        end = incident.to_ns if incident.to_ns is not None else np.iinfo(np.int64).max
        cover = loads.axis.measure_overlap_s(incident.from_ns, end) / loads.axis.interval_s
        left = 0.02 if incident.kind == "dead" else incident.share_of_peak
        depth = 1.0 - (0.4 if left is None else float(np.clip(left, 0.02, 1.0)))
        lacking = np.maximum(lacking, (cover >= 0.5) * depth)
        if longest is None or cover.sum() > seconds:
            longest, seconds = incident, float(cover.sum())
    return lacking, 1.0 - lacking, longest


def _use(one: Component, interval_s: float, peak: float | None, left: F64) -> tuple[F64, F64, F64]:
    """By interval: use of the peak in bytes (MDS: operations; NaN: none known), how congested that makes it, and how
    much of it would be in use if each request were `OP_BYTES`, as it is for a device at random."""
    moved = one.whole.metadata_ops if one.kind == "mds" else one.whole.moved
    if np.isnan(moved).all():
        return moved, np.zeros(len(moved)), np.zeros(len(moved))
    rate = moved / interval_s
    loaded = np.nan_to_num(compute_congestion_use(one.whole, one.kind)) / interval_s
    if peak:
        util = rate / (peak * left)
        return util, _ramp(np.nan_to_num(util), *UTIL), _ramp(loaded / (peak * left), *UTIL)
    nothing = np.full(len(rate), np.nan)
    some = rate[np.isfinite(rate) & (rate > 0)]
    if len(some) < 10:
        return nothing, np.zeros(len(rate)), np.ones(len(rate))
    seen = float(np.quantile(some, 0.95))
    return nothing, LEAST_SEEN_PEAK * _ramp(np.nan_to_num(rate / (seen * left)), *UTIL), np.ones(len(rate))


def _slower(one: Component) -> F64:
    """Service time of everybody's requests over the quiet one: the smaller of time a request and time a byte, so that
    neither larger nor smaller requests alone make a component slow. NaN where unknown."""
    busy = one.whole.busy_s
    ratios = []
    for amount in (one.whole.data_ops, one.whole.moved):
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(amount > 0, busy / amount, np.nan)
        known = each[np.isfinite(each) & (each > 0)]
        if len(known) < 5:
            return np.full(len(busy), np.nan)
        ratios.append(each / np.quantile(known, QUIET))
    slower: F64 = np.fmin(*ratios)
    return slower


def _waits(
    one: Component, mine: Measures, inside: F64, told: float | None
) -> tuple[F64 | None, float | None, float | None, bool]:
    """The share of request time waited beyond the usual by interval; mean wait of a request in the phase and usually;
    whether they are the victim's own."""
    here = inside > 0
    for measures, own in ((mine, True), (one.whole, False)):
        waits, wait = measures.waits, measures.wait_s
        if not np.nansum(waits[here]) > 0:
            continue
        mean = float(np.nansum(wait[here]) / np.nansum(waits[here]))
        usual = told if told is not None else _quiet_wait(one, here)
        beyond = np.maximum(np.nan_to_num(wait) - (usual or 0.0) * np.nan_to_num(waits), 0.0)
        total = np.nan_to_num(wait) + np.nan_to_num(measures.busy_s)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(total > 0, beyond / total, 0.0)
        if np.isnan(measures.busy_s).all():
            share = np.clip(1.0 - 2.0 * (usual or 0.0) / max(mean, 1e-9), 0.0, 1.0) * (np.nan_to_num(waits) > 0)
        return share, mean, usual, own
    return None, None, told, False


def _quiet_wait(one: Component, here: np.ndarray) -> float | None:
    """Mean wait of everybody's requests in quiet seconds outside the phase; None with too few of them."""
    waits, wait = np.nan_to_num(one.whole.waits), np.nan_to_num(one.whole.wait_s)
    if not waits.any():
        waits, wait = np.nan_to_num(one.parts.waits).sum(axis=0), np.nan_to_num(one.parts.wait_s).sum(axis=0)
    outside = ~here & (waits > 0)
    if int(outside.sum()) < 5:
        return None
    return float(np.quantile(wait[outside] / waits[outside], QUIET))


def _front_share(front: Sequence[_Signs], behind: F64, loss: F64) -> F64:
    """Share of each second's loss that was lost at forwarders: of the victim's request time, what was waited there,
    against the rest as far as what lies behind is congested (`behind`); and not more of `loss` than that waiting makes.
    When only a job's last part still runs, it lacks most of its rate wherever it waits: so `loss` is at most the
    mean."""
    if not front:
        return np.zeros(len(behind))
    known = [one for one in front if one.waited is not None]
    if not known:
        return np.asarray(0.5 * np.max([one.strength for one in front], axis=0))
    weight = np.array([one.weight for one in known])
    total = weight.sum(axis=0)
    waited = np.array([one.waited for one in known])
    mean = np.where(total > 0, (waited * weight).sum(axis=0) / np.where(total > 0, total, 1.0), waited.max(axis=0))
    rest = (1.0 - mean) * behind
    most = np.minimum(1.3 * mean / np.maximum(loss, 0.1), 1.0)
    ahead: F64 = np.minimum(mean / np.maximum(mean + rest, 1e-12), most) * (mean > 0)
    return ahead


def _spread(stage: Sequence[_Signs], share: F64, inside: F64) -> list[ComponentCongestion]:
    """A stage's share of each second's loss over its components: by how much of the victim was there and how congested
    it was. What no congestion supports stays with nobody."""
    if not stage:
        return []
    weight = np.array([one.weight for one in stage])
    strength = np.array(
        [one.strength if one.waited is None else np.maximum(_ramp(one.waited, 0.05, 0.3), 0.0) for one in stage]
    )
    # A striped job waits for its slowest part: what is congested counts more than what carries most.
    present = weight > 0
    pull = strength * np.where(present.any(axis=0), present, True)
    total = pull.sum(axis=0)
    each = pull / np.maximum(total, 1e-12) * pull.max(axis=0) * share * (inside > 0)
    return [
        ComponentCongestion(
            **{**{name: getattr(one.held, name) for name in ComponentCongestion.__dataclass_fields__}, "at": each[k]}
        )
        for k, one in enumerate(stage)
    ]


def _ramp(values: F64, low: float, high: float) -> F64:
    ramp: F64 = np.clip((values - low) / (high - low), 0.0, 1.0)
    return ramp
