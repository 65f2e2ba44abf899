"""Capacity-weighted greedy flow over forwarders, storage servers and targets (AIOT: Yang et al., IPDPS 2022).

A demand is pushed along one path after another, each the least loaded open one, until it is met. Every push fills a
component or ends the search, so it takes O(components + links). Not here: what the demand is (`aiot`).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from fairlead.core.model.site import Layer
from fairlead.decide.policies.paths.contract import F64, I64
from fairlead.decide.policies.paths.layer import compute_layer_use, find_sound_in_layer

BUCKETS = 6
"""Load 0, (0, 20], (20, 40], ..., (80, 100] %."""
DUST = 1e-9
"""What is left of a capacity after rounding, as a share of the demand."""


@dataclass(frozen=True)
class Flow:
    """`forwarders`, `targets`: places in the order they were taken; `met`: share of the demand that found a path."""

    forwarders: tuple[int, ...]
    targets: tuple[int, ...]
    met: float


@dataclass(frozen=True)
class Weights:
    """`x`: x1, x2, x3 of bandwidth, IOPS and MDOPS; `share` of each in what is asked for, 1 in all. Capacities come out
    in usual forwarders, as `demand` does."""

    x: tuple[float, ...]
    share: tuple[float, ...]
    demand: float

    @staticmethod
    def weigh_demand(
        wanted: tuple[float, float, float], units: tuple[float | None, float | None, float | None]
    ) -> Weights:
        """From what a job wants a second of each and what one usual forwarder gives: x = share / unit. Measures without
        a unit or a demand weigh nothing."""
        parts = [want / unit if unit and want > 0 else 0.0 for want, unit in zip(wanted, units, strict=True)]
        whole = sum(parts)
        if whole <= 0:
            return Weights((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0)
        share = tuple(part / whole for part in parts)
        x = tuple(one / unit if unit else 0.0 for one, unit in zip(share, units, strict=True))
        return Weights(x, share, sum(weight * want for weight, want in zip(x, wanted, strict=True)))

    @staticmethod
    def weigh_equally(
        wanted: tuple[float, float, float], units: tuple[float | None, float | None, float | None]
    ) -> Weights:
        """As printed: x1 Y1 = x2 Y2 = x3 Y3, of the measures with a unit. A job that asks for one measure only then
        counts a third of what it is in that measure."""
        known = sum(unit is not None for unit in units)
        share = tuple(1.0 / known if unit else 0.0 for unit in units)
        x = tuple(one / unit if unit else 0.0 for one, unit in zip(share, units, strict=True))
        return Weights(x, share, sum(weight * want for weight, want in zip(x, wanted, strict=True)))


def compute_flow_capacity(components: Layer, weights: Weights) -> F64:
    """(N,) c = (x1 Y1 + x2 Y2 + x3 Y3)(1 - U). A measure that a component has no figure for is left out and the others
    stand for it (targets serve no metadata); with no figure at all it takes what is asked."""
    return np.asarray(_compute_idle_capacity(components, weights) * (1.0 - compute_layer_use(components)))


def _compute_idle_capacity(components: Layer, weights: Weights) -> F64:
    """`compute_flow_capacity` if nobody used them."""
    whole, told = np.zeros(len(components)), np.zeros(len(components))
    peaks = (components.bandwidth, components.iops, components.mdops)
    for x, share, peak in zip(weights.x, weights.share, peaks, strict=True):
        if x > 0:
            known = np.isfinite(peak) & (peak > 0)
            whole += np.where(known, x * np.where(known, peak, 0.0), 0.0)
            told += np.where(known, share, 0.0)
    return np.where(told > 0, whole / np.where(told > 0, told, 1.0), weights.demand)


def find_flow_bucket(load: F64) -> I64:
    """Which of the six buckets each load (0 to 1) is in."""
    return np.ceil(np.round(load * (BUCKETS - 1), 9)).astype(np.int64)


def order_flow_places(components: Layer, places: I64) -> list[int]:
    """`places` bucket by bucket; inside one, who has waited longest comes first, told by how few jobs it serves."""
    load = compute_layer_use(components)[places]
    found: list[int] = places[np.lexsort((places, components.jobs[places], find_flow_bucket(load)))].tolist()
    return found


def find_flow(
    forwarders: Layer,
    targets: Layer,
    weights: Weights,
    *,
    servers: Layer | None = None,
    server_of: I64 | None = None,
    most_forwarders: int | None = None,
    most_targets: int | None = None,
) -> Flow:
    """Places that carry the demand. A layer without components (no forwarders) does not limit. Sick, reserved and full
    ones carry nothing, nor does a target whose server is one. `most_...`: no more than so many are taken."""
    above = _Layer.of(forwarders, weights, most_forwarders)
    below = _Leaves(targets, weights, servers, server_of, most_targets)
    left, dust = weights.demand, weights.demand * DUST
    while left > dust:
        first = above.head(dust) if above is not None else (0, left)
        path = below.head(dust) if first is not None else None
        if first is None or path is None:
            break
        push = min(left, first[1], path)
        if above is not None:
            above.take(push)
        below.take(push)
        left -= push
    met = 1.0 - left / weights.demand if weights.demand > 0 else 0.0
    taken = () if above is None else tuple(above.taken)
    return Flow(taken, tuple(below.taken), met)


class _Layer:
    """Components in the order they are taken, with what each can still carry."""

    def __init__(self, order: list[int], room: list[float], most: int | None) -> None:
        self.waiting = deque(order)
        self.room = room
        self.most = len(order) if most is None else most
        self.taken: list[int] = []

    @staticmethod
    def of(components: Layer, weights: Weights, most: int | None) -> _Layer | None:
        if not len(components):
            return None
        return _Layer(
            order_flow_places(components, find_sound_in_layer(components)),
            compute_flow_capacity(components, weights).tolist(),
            most,
        )

    def head(self, dust: float) -> tuple[int, float] | None:
        """The component at the head that can carry something, and how much; None when there is none left."""
        while self.waiting and self.room[self.waiting[0]] <= dust:
            self.waiting.popleft()
        if not self.waiting:
            return None
        one = self.waiting[0]
        if len(self.taken) >= self.most and one not in self.taken[-1:]:
            return None
        return one, self.room[one]

    def take(self, amount: float) -> None:
        one = self.waiting[0]
        if one not in self.taken[-1:]:
            self.taken.append(one)
        self.room[one] -= amount


class _Leaves:
    """Targets below their servers: the least loaded server's least loaded target is next. A server that has carried
    something goes to the end of its bucket, so that a job's targets are on different servers where they can be."""

    def __init__(
        self, targets: Layer, weights: Weights, servers: Layer | None, server_of: I64 | None, most: int | None
    ) -> None:
        self.any = len(targets) > 0
        self.room: list[float] = compute_flow_capacity(targets, weights).tolist()
        known = servers is not None and server_of is not None and len(server_of) == len(targets)
        owner = np.asarray(server_of).tolist() if known else [0] * len(targets)
        self.below: dict[int, deque[int]] = {}
        for target in order_flow_places(targets, find_sound_in_layer(targets)):
            self.below.setdefault(owner[target], deque()).append(target)
        if known and servers is not None:
            self.server_room: list[float] = compute_flow_capacity(servers, weights).tolist()
            self.load: list[float] = compute_layer_use(servers).tolist()
            self.full: list[float] = np.maximum(_compute_idle_capacity(servers, weights), 1e-300).tolist()
            ranked = [one for one in order_flow_places(servers, find_sound_in_layer(servers)) if one in self.below]
        else:
            # Servers are not known: all targets hang below one that does not limit.
            self.server_room, self.load, self.full = [math.inf], [0.0], [math.inf]
            ranked = [0] if 0 in self.below else []
        self.queues: list[deque[int]] = [deque() for _ in range(BUCKETS)]
        for one in ranked:
            self.queues[self._bucket(one)].append(one)
        self.most = len(targets) if most is None else most
        self.taken: dict[int, None] = {}
        self.now = (0, 0, 0)

    def _bucket(self, server: int) -> int:
        return math.ceil(round(self.load[server] * (BUCKETS - 1), 9))

    def head(self, dust: float) -> float | None:
        """What the best path below can carry; None when nothing can."""
        if not self.any:
            return math.inf
        for level, waiting in enumerate(self.queues):
            while waiting:
                server = waiting[0]
                targets = self.below[server]
                while targets and self.room[targets[0]] <= dust:
                    targets.popleft()
                if targets and self.server_room[server] > dust:
                    if len(self.taken) >= self.most and targets[0] not in self.taken:
                        return None
                    self.now = level, server, targets[0]
                    return min(self.room[targets[0]], self.server_room[server])
                waiting.popleft()
        return None

    def take(self, amount: float) -> None:
        """Carries `amount` on the path `head` told of."""
        if not self.any:
            return
        level, server, target = self.now
        self.taken[target] = None
        self.room[target] -= amount
        self.server_room[server] -= amount
        self.load[server] = min(self.load[server] + amount / self.full[server], 1.0)
        self.queues[level].popleft()
        self.queues[self._bucket(server)].append(server)
