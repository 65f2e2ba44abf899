"""Built-ins by name in explicit tables, imported lazily; site plug-ins through entry points.

Nothing registers itself by being imported.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.policies.placement import Placement
    from fairlead.policies.requests.orders import Order
    from fairlead.sources.base import Source

SOURCES: dict[str, str] = {
    "darshan": "fairlead.sources.darshan:DarshanSource",
    "dftracer": "fairlead.sources.dftracer:DFTracerSource",
    "spool": "fairlead.sources.spool:SpoolSource",
    "slurm": "fairlead.sources.slurm:SlurmSource",
    "lmt": "fairlead.sources.lmt:LmtSource",
    "jobsdb": "fairlead.sources.jobsdb:JobsDbSource",
    "tokio": "fairlead.sources.tokio:TokioSource",
    "collectd": "fairlead.sources.collectd:CollectdSource",
    "gpfs": "fairlead.sources.gpfs:GpfsSource",
    "lfs": "fairlead.sources.lfs:LfsSource",
    "beacon": "fairlead.sources.beacon:BeaconSource",
    "counters": "fairlead.sources.counters:CountersSource",
}
"""Tried in this order when content is detected: the most specific magic first."""
PLACEMENTS: dict[str, str] = {
    "round-robin": "fairlead.policies.placement:RoundRobin",
    "weighted-random": "fairlead.policies.placement:WeightedRandom",
    "least-open": "fairlead.policies.placement:LeastOpen",
}
"""Rules that choose the targets of a new file; each is made with a seed."""

REQUEST_ORDERS: dict[str, str] = {
    "fifo": "fairlead.policies.requests.orders:Fifo",
    "metadata-first": "fairlead.policies.requests.orders:MetadataFirst",
    "share": "fairlead.policies.requests.orders:Share",
    "job-fair": "fairlead.policies.requests.fair:JobFair",
    "set-10": "fairlead.policies.requests.fair:SetTen",
}
"""Orders among the requests of a forwarder; each is made with the text after its name in a spec and a seed."""


def _load(target: str) -> object:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def source_names() -> list[str]:
    """Names of all sources in the order they are tried: built-ins, then entry points of `fairlead.sources`."""
    return [*SOURCES, *sorted(_plugins("fairlead.sources").keys() - SOURCES.keys())]


@cache
def source(name: str) -> Source:
    """The source of that name; its module is imported now. Raises KeyError for an unknown name."""
    if name in SOURCES:
        return _load(SOURCES[name])()  # type: ignore[operator, no-any-return]
    return _plugins("fairlead.sources")[name].load()()  # type: ignore[no-any-return]


def sources() -> dict[str, Source]:
    """All sources by name, all imported."""
    return {name: source(name) for name in source_names()}


def placement_names() -> list[str]:
    """Names of all placements: built-ins, then entry points of `fairlead.placements`."""
    return [*PLACEMENTS, *sorted(_plugins("fairlead.placements").keys() - PLACEMENTS.keys())]


def placement_class(name: str) -> Callable[[int], Placement]:
    """What makes the placement of that name from a seed. Raises KeyError for an unknown name."""
    target = PLACEMENTS.get(name)
    return _load(target) if target else _plugins("fairlead.placements")[name].load()  # type: ignore[return-value]


def request_order_names() -> list[str]:
    """Names of all orders of requests: built-ins, then entry points of `fairlead.request_orders`."""
    return [*REQUEST_ORDERS, *sorted(_plugins("fairlead.request_orders").keys() - REQUEST_ORDERS.keys())]


def request_order(name: str) -> Callable[[str, int], Order]:
    """What makes the order of that name from the text after it and a seed. Raises KeyError for an unknown name."""
    target = REQUEST_ORDERS.get(name)
    return _load(target) if target else _plugins("fairlead.request_orders")[name].load()  # type: ignore[return-value]


@cache
def _plugins(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}
