"""Which storage target was slow: its time per byte and per request against its peers', for the same jobs and seconds.

Pure. A machine on which everything is slow has no slow target; neither has one where too little was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fairlead.core.model.unit_formats import MIB
from fairlead.explain.analysis.component_flows import Bools, Floats, Flow, Ints


@dataclass(frozen=True)
class SlowLimits:
    """What counts as evidence. Ratios are against the median of the peers."""

    ratio: float = 2.5
    window_ratio: float = 2.0
    excess_s: float = 1e-3
    """Least extra time of a request."""
    windows: int = 3
    requests: int = 20
    requests_in_window: int = 2
    peers: int = 2
    gap: int = 2
    """Windows without evidence that may lie inside a slow stretch."""


class SlowTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target that took longer than its peers for the same. Times are of one MiB, in seconds, while it was slow."""

    target: str
    from_ns: int
    to_ns: int
    per_mib_s: float | None
    peers_per_mib_s: float | None
    before_per_mib_s: float | None
    """The same target outside the slow stretch; None when too little was asked of it then."""
    ratio: float
    """Times slower than the peers, by the more cautious of time per byte and time per request."""
    windows: int
    requests: int
    bytes: int
    peers: int
    confidence: float
    lost_s: dict[str, float]
    """By job: extra seconds its requests spent there, summed over requests."""


def find_slow_targets(flows: Sequence[Flow], limits: SlowLimits | None = None) -> list[SlowTarget]:
    """Targets with evidence of being slow, the worst first. `flows` share one axis."""
    limits = limits or SlowLimits()
    if len(flows) < limits.peers + 1:
        return []
    ratios = _ratios(flows, limits)
    found = [_judged(flows, index, ratios, limits) for index in range(len(flows))]
    return sorted((one for one in found if one is not None), key=lambda one: -sum(one.lost_s.values()))


@dataclass(frozen=True)
class _Ratios:
    """Arrays of (targets, windows); NaN where nothing can be compared."""

    ratio: Floats
    excess_s: Floats


def _ratios(flows: Sequence[Flow], limits: SlowLimits) -> _Ratios:
    """Per target and window: its service time over what its peers would have taken for the same requests, job by job.

    Jobs count by the time they took: small requests that a low rate does not slow say little about it.
    """
    jobs = sorted({job for flow in flows for job in flow.jobs})
    shape = (len(flows), flows[0].axis.count)
    took, expected, requested = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    # A device that serves one request after the other spends at most the window's length: what is beyond was queueing.
    whole = np.stack([flow.service_s.sum(axis=0) for flow in flows])
    device = np.divide(np.minimum(whole, flows[0].axis.window_s), whole, out=np.ones(shape), where=whole > 0)
    for job in jobs:
        requests, sizes, service = (_of_job(flows, job, name) for name in ("requests", "bytes", "service_s"))
        enough = requests >= limits.requests_in_window
        per_request = _divided(service, requests, enough)
        measures = [per_request]
        if sizes.sum() > 0:
            measures += [_divided(service, sizes, enough & (sizes > 0)), _divided(service * device, sizes, enough)]
        slower = np.stack([_against_peers(value, limits.peers) for value in measures])
        # A target with larger requests has more time a request, one with smaller more a byte: slow is both.
        cautious = slower.min(axis=0)
        known = np.isfinite(cautious) & (cautious > 0)
        took[known] += service[known]
        expected[known] += service[known] / cautious[known]
        requested[known] += requests[known]
    known = requested > 0
    return _Ratios(_divided(took, expected, known), _divided(took - expected, requested, known))


def _of_job(flows: Sequence[Flow], job: str, name: str) -> Floats:
    nothing = np.zeros(flows[0].axis.count)
    rows = [(flow, flow.find_row(job)) for flow in flows]
    return np.stack([getattr(flow, name)[row] if row is not None else nothing for flow, row in rows])


def _divided(top: Floats, bottom: Floats, where: Bools) -> Floats:
    out: Floats = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=out, where=where & (bottom > 0))
    return out


def _peer_median(values: Floats, least: int) -> Floats:
    """For each target the median over the others that have a value; NaN with fewer than `least`."""
    out = np.full(values.shape, np.nan)
    for index in range(len(values)):
        others = np.delete(values, index, axis=0)
        enough = np.isfinite(others).sum(axis=0) >= least
        if enough.any():
            out[index, enough] = np.nanmedian(others[:, enough], axis=0)
    return out


def _against_peers(values: Floats, least: int) -> Floats:
    """Times the median of the peers; NaN where either is not known, or the peers took no time at all."""
    usual = _peer_median(values, least)
    return _divided(values, usual, usual > 0)


def _find_stretches(marked: Bools, against: Bools, gap: int) -> list[Ints]:
    """Groups of marked windows with at most `gap` windows that are not marked between two of them. A window
    `against` counts double: silence is not a denial."""
    groups: list[list[int]] = []
    spent = 0
    for index in range(len(marked)):
        if marked[index]:
            if groups and spent <= gap:
                groups[-1].append(index)
            else:
                groups.append([index])
            spent = 0
        elif groups:
            spent += 2 if against[index] else 1
    return [np.array(group, np.int64) for group in groups]


def _judged(flows: Sequence[Flow], index: int, ratios: _Ratios, limits: SlowLimits) -> SlowTarget | None:
    ratio = ratios.ratio[index]
    slow = (ratio >= limits.window_ratio) & (ratios.excess_s[index] >= limits.excess_s)
    fine = np.isfinite(ratio) & ~slow
    best: SlowTarget | None = None
    for windows in _find_stretches(slow, fine, limits.gap):
        one = _stretch(flows, index, windows, ratios, fine, limits)
        if one is not None and (best is None or one.windows > best.windows):
            best = one
    return best


def _stretch(
    flows: Sequence[Flow], index: int, windows: Ints, ratios: _Ratios, fine: Bools, limits: SlowLimits
) -> SlowTarget | None:
    """The verdict on one slow stretch; None when it is not enough."""
    flow, axis = flows[index], flows[index].axis
    requests = float(flow.requests[:, windows].sum())
    ratio = float(np.median(ratios.ratio[index, windows]))
    if len(windows) < limits.windows or requests < limits.requests or ratio < limits.ratio:
        return None
    denied = int(fine[windows[0] : windows[-1] + 1].sum())
    if denied > len(windows) / 3:
        return None
    others = [flow for other, flow in enumerate(flows) if other != index]
    peers = [_per_mib(other, windows) for other in others]
    compared = [value for value in peers if value is not None]
    before = np.flatnonzero(fine)
    earlier = _per_mib(flow, before) if flow.requests[:, before].sum() >= limits.requests / 2 else None
    mine = _per_mib(flow, windows)
    grown = mine is not None and earlier is not None and mine >= 1.5 * earlier
    return SlowTarget(
        target=flow.name,
        from_ns=axis.from_ns(int(windows[0])),
        to_ns=axis.to_ns(int(windows[-1])),
        per_mib_s=mine,
        peers_per_mib_s=float(np.median(compared)) if compared else None,
        before_per_mib_s=earlier,
        ratio=ratio,
        windows=len(windows),
        requests=round(requests),
        bytes=round(float(flow.bytes[:, windows].sum())),
        peers=sum(bool(other.requests[:, windows].sum() > 0) for other in others),
        confidence=_confidence(len(windows), ratio, requests, grown=grown),
        lost_s=_lost(flow, windows, ratios.ratio[index, windows]),
    )


def _per_mib(flow: Flow, windows: Ints) -> float | None:
    """Service seconds of one MiB over some windows."""
    sizes = float(flow.bytes[:, windows].sum())
    return float(flow.service_s[:, windows].sum()) / (sizes / MIB) if sizes > 0 else None


def _lost(flow: Flow, windows: Ints, ratio: Floats) -> dict[str, float]:
    """By job the part of the time spent there that the peers would not have taken."""
    extra = flow.service_s[:, windows] * (1 - 1 / np.maximum(ratio, 1.0))
    return {job: float(value) for job, value in zip(flow.jobs, extra.sum(axis=1), strict=True) if value > 0}


def _confidence(windows: int, ratio: float, requests: float, *, grown: bool) -> float:
    """Between 0.5 and 0.99: more seconds, more requests, a larger ratio and its own growth each make it surer."""
    duration = min(1.0, windows / 8)
    size = min(1.0, float(np.log(ratio) / np.log(6)))
    count = min(1.0, requests / 100)
    return round(0.5 + 0.49 * (0.3 * duration + 0.3 * size + 0.2 * count + 0.2 * grown), 2)
