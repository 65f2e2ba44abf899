"""What request disciplines come to when requests are small beside I/O phases: shares of a resource, weights and caps.

The simulators take these. Not here: single requests, workers and their caps, bursts of a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.decide.policies.requests.discipline_spec import build_discipline
from fairlead.decide.policies.requests.fair import REQUEST_BYTES
from fairlead.decide.policies.requests.limits import Bucket
from fairlead.decide.sim.cycles.cycle_model import Sharing

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
BEHIND = 1e-9
"""Weight of what is served only while nothing else waits, beside 1."""


@dataclass(frozen=True, kw_only=True)
class Streams:
    """K applications as a forwarder sees them in their I/O phases. `under_way` (K,): requests each keeps waiting or
    running; `request_bytes` (K,), 0 for metadata; `request_s` (K,): seconds of the resource one request takes;
    `iteration_s` (K,): mean time from phase to phase. `job` and `target` are names that limits are asked by."""

    under_way: F64
    request_bytes: F64
    request_s: F64
    iteration_s: F64
    job: tuple[str, ...] = ()
    target: object | None = None

    @staticmethod
    def build_alike(iteration_s: object) -> Streams:
        """Applications that differ in their iterations only: one request of 1 MiB under way, a millisecond each."""
        seconds = np.asarray(iteration_s, np.float64)
        ones = np.ones(len(seconds))
        return Streams(under_way=ones, request_bytes=ones * (1 << 20), request_s=ones * 1e-3, iteration_s=seconds)

    def __len__(self) -> int:
        """K."""
        return len(self.under_way)

    @property
    def metadata(self) -> NDArray[np.bool_]:
        """(K,): whether it moves no data."""
        return np.asarray(self.request_bytes <= 0)


@dataclass(frozen=True, kw_only=True)
class Together:
    """One resource more that flows cross: of `members` (M,), with `cost` (M,) of its units for one of amount, and
    `capacity` units a second."""

    members: I64
    cost: F64
    capacity: float


@dataclass(frozen=True, kw_only=True)
class FluidLimits:
    """What rates of a discipline come to, in the engine's terms. `cap` (K,): amount a second each may reach (bytes;
    operations for metadata), inf: no limit. `together`: rates that several pass, of a target or a pool."""

    cap: F64
    together: tuple[Together, ...] = ()


def build_fluid_sharing(order: str, streams: Streams) -> Sharing:
    """How applications that do I/O at the same time share the time of a resource under an order (`fifo`, `share:0.3`),
    for `fairlead.decide.sim.cycles.cycle_model.simulate_cycles`. Raises UsageError for an order without a fluid limit.

    - `fifo`: everybody's requests pass in turn: shares are as what each keeps under way, requests x seconds a request.
    - `job-fair`: equal service cost (bytes + 64 KiB a request); as time of the resource, seconds a request / cost.
    - `metadata-first`: data is served while no metadata waits.
    - `share:P`: requests of the two classes pass as P : 1 - P, inside a class as fifo. Exact while all of a class do
      I/O at once: fixed weights do not know who is away, so one of two of its class gets less here than it would.
    - `set-10`: sets by round(log10(iteration)), 10^-set each, inside a set one after the other (Boito et al., TPDS
      2023).
    - `exclusive`: one after the other.
    """
    name, _, argument = order.partition(",")[0].partition(":")
    k = len(streams)
    own = np.arange(k)
    if name == "exclusive":
        return Sharing(queue=np.zeros(k, np.int64), weight=np.ones(1))
    if name == "set-10":
        seconds = np.maximum(streams.iteration_s, 1.0)
        numbers, queue = np.unique(np.rint(np.log10(seconds)), return_inverse=True)
        return Sharing(queue=queue.astype(np.int64), weight=10.0 ** -(numbers - (numbers[0] if k else 0)))
    held_s = streams.under_way * streams.request_s
    if name == "fifo":
        return Sharing(queue=own, weight=_scaled(held_s))
    if name == "job-fair":
        return Sharing(queue=own, weight=_scaled(streams.request_s / (REQUEST_BYTES + streams.request_bytes)))
    if name == "metadata-first":
        return Sharing(queue=own, weight=_scaled(np.where(streams.metadata, held_s, held_s * BEHIND)))
    if name == "share":
        part = _share(order, argument)
        of_class = np.where(streams.metadata, part, 1.0 - part)
        number = np.where(
            streams.metadata, streams.under_way[streams.metadata].sum(), streams.under_way[~streams.metadata].sum()
        )
        return Sharing(queue=own, weight=_scaled(np.maximum(of_class, BEHIND) * held_s / number))
    raise UsageError(
        f"{order!r} has no fluid limit",
        where="order",
        remedy="one of fifo, job-fair, metadata-first, share:P, set-10, exclusive",
    )


def _share(order: str, argument: str) -> float:
    """P of `share:P`."""
    try:
        part = float(argument)
    except ValueError:
        part = float("nan")
    if not 0 <= part <= 1:
        raise UsageError(f"{order!r} has no metadata share", where="order", remedy="share:P with P from 0 to 1")
    return part


def compute_fluid_weights(order: str, streams: Streams) -> F64:
    """(K,) weights of flows of `fairlead.decide.sim.engine` under an order whose shares are side by side. Raises
    UsageError for those that serve one application after the other: flows of an engine all run."""
    found = build_fluid_sharing(order, streams)
    if len(found.weight) < len(streams):
        raise UsageError(
            f"{order!r} serves one application after the other, but flows run in parallel",
            where="order",
            remedy="simulate it with fairlead.decide.sim.cycles",
        )
    return found.weight[found.queue]


def build_fluid_limits(spec: str, streams: Streams) -> FluidLimits:
    """What the rates of a discipline's spec (`job-fair,rate-job:100M`) hold applications to in the long run. A rate in
    bytes does not hold metadata; one in operations holds data by the bytes of its requests."""
    limits = build_discipline(spec, workers=16, seed=0).limits
    jobs = streams.job or tuple(str(i) for i in range(len(streams)))
    cap = np.full(len(streams), np.inf)
    passed: dict[int, tuple[Bucket, list[int], list[float]]] = {}
    for i, job in enumerate(jobs):
        alone = len(limits.list_buckets(job, None))
        for place, bucket in enumerate(limits.list_buckets(job, streams.target)):
            cost = _cost(bucket, float(streams.request_bytes[i]))
            if cost is None:
                continue
            if place < alone:
                cap[i] = min(cap[i], bucket.rate.per_s / cost)
            else:  # the bucket of a target or a pool is one object for all that pass it
                _, members, costs = passed.setdefault(id(bucket), (bucket, [], []))
                members.append(i)
                costs.append(cost)
    return FluidLimits(
        cap=cap,
        together=tuple(
            Together(members=np.array(members, np.int64), cost=np.array(costs), capacity=bucket.rate.per_s)
            for bucket, members, costs in passed.values()
        ),
    )


def _cost(bucket: Bucket, request_bytes: float) -> float | None:
    """Units of a rate for one of amount; None where it holds nothing back."""
    if request_bytes <= 0:
        return 1.0 if bucket.operations else None
    return 1.0 / request_bytes if bucket.operations else 1.0


def _scaled(weight: F64) -> F64:
    """Weights with the largest 1: only their ratios count."""
    most = float(weight.max()) if len(weight) else 1.0
    if not most > 0:
        raise UsageError("requests take no time", where="streams", remedy="give under_way and request_s above 0")
    return np.asarray(np.maximum(weight / most, np.finfo(np.float64).tiny))
