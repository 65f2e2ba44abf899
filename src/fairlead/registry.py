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

    from fairlead.policies.allocation.contract import Policy
    from fairlead.policies.next_run.contract import Predictor
    from fairlead.policies.paths.contract import PathPolicy
    from fairlead.policies.placement.files import Placement
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
    "round-robin": "fairlead.policies.placement.files:RoundRobin",
    "weighted-random": "fairlead.policies.placement.files:WeightedRandom",
    "least-open": "fairlead.policies.placement.files:LeastOpen",
}
"""Rules that choose the targets of a new file; each is made with a seed."""

REQUEST_ORDERS: dict[str, str] = {
    "fifo": "fairlead.policies.requests.orders:Fifo",
    "metadata-first": "fairlead.policies.requests.orders:MetadataFirst",
    "share": "fairlead.policies.requests.orders:Share",
    "job-fair": "fairlead.policies.requests.fair:JobFair",
    "set-10": "fairlead.policies.requests.fair:SetTen",
    "exclusive": "fairlead.policies.requests.fair:Exclusive",
}
"""Orders among the requests of a forwarder; each is made with the text after its name in a spec and a seed."""

ALLOCATIONS: dict[str, str] = {
    "random": "fairlead.policies.allocation.simple:Random",
    "static": "fairlead.policies.allocation.simple:Static",
    "best-bandwidth": "fairlead.policies.allocation.simple:BestBandwidth",
    "n-sys": "fairlead.policies.allocation.simple:NSys",
    "tcpu": "fairlead.policies.allocation.tcpu:Tcpu",
    "mckp": "fairlead.policies.allocation.mckp:Mckp",
    "mckp-direct": "fairlead.policies.allocation.mckp:MckpDirect",
    "size": "fairlead.policies.allocation.simple:Size",
    "process": "fairlead.policies.allocation.simple:Process",
    "oracle": "fairlead.policies.allocation.simple:Oracle",
}
"""How many resources: published allocations, made without arguments."""

PLACINGS: dict[str, str] = {
    "random": "fairlead.policies.placement.applications:RandomPlacing",
    "greedy-non-clairvoyant": "fairlead.policies.placement.applications:GreedyNonClairvoyant",
    "greedy-clairvoyant": "fairlead.policies.placement.applications:GreedyClairvoyant",
    "pools": "fairlead.policies.placement.applications:Pools",
    "round-robin": "fairlead.policies.placement.applications:RoundRobinPlacing",
    "weighted-random": "fairlead.policies.placement.applications:WeightedRandomPlacing",
    "straw": "fairlead.policies.placement.applications:Straw",
}
"""Which resources: published placements of applications, made without arguments."""

JOINT_POLICIES: dict[str, str] = {
    "joint": "fairlead.policies.allocation.joint:Joint",
    "joint-light": "fairlead.policies.allocation.joint:JointLight",
}
"""How many and which at once: ours."""

PATH_POLICIES: dict[str, str] = {
    "static-map": "fairlead.policies.paths.static_map:StaticMap",
    "dfra": "fairlead.policies.paths.dfra:Dfra",
    "aiot": "fairlead.policies.paths.aiot:Aiot",
}
"""The path of an arriving job. Any other policy name `path_policy` takes is an allocation policy, on both layers."""

PREDICTORS: dict[str, str] = {
    "last-run": "fairlead.policies.next_run.simple:LastRun",
    "most-frequent": "fairlead.policies.next_run.simple:MostFrequent",
    "n-gram": "fairlead.policies.next_run.ngram:NGram",
    "learned": "fairlead.policies.next_run.learned:Learned",
}
"""What the next run of a job is expected to be like."""


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


def policy_names() -> list[str]:
    """Joint policies, then ALLOCATION+PLACEMENT pairs, then entry points of `fairlead.policies`."""
    pairs = [f"{allocation}+{placing}" for allocation in ALLOCATIONS for placing in PLACINGS]
    return [*JOINT_POLICIES, *pairs, *sorted(_plugins("fairlead.policies").keys() - JOINT_POLICIES.keys())]


def policy(name: str) -> Policy:
    """The policy of that name: `joint`, a pair as `tcpu+greedy-clairvoyant`, or a plug-in. KeyError for another."""
    from fairlead.policies.allocation.contract import Pair

    if name in JOINT_POLICIES:
        return _load(JOINT_POLICIES[name])()  # type: ignore[operator, no-any-return]
    allocation, plus, placing = name.partition("+")
    if plus:
        return Pair(_load(ALLOCATIONS[allocation])(), _load(PLACINGS[placing])())  # type: ignore[operator]
    return _plugins("fairlead.policies")[name].load()()  # type: ignore[no-any-return]


def path_policy_names() -> list[str]:
    """Built-in path policies, then entry points of `fairlead.path_policies`; `policy_names` are taken as well."""
    return [*PATH_POLICIES, *sorted(_plugins("fairlead.path_policies").keys() - PATH_POLICIES.keys())]


def path_policy(name: str) -> PathPolicy:
    """The path policy of that name; an allocation policy's name gives it on both layers. KeyError for another."""
    if name in PATH_POLICIES:
        return _load(PATH_POLICIES[name])()  # type: ignore[operator, no-any-return]
    if name in _plugins("fairlead.path_policies"):
        return _plugins("fairlead.path_policies")[name].load()()  # type: ignore[no-any-return]
    from fairlead.policies.paths.studied import Studied

    return Studied(policy(name))


def predictor_names() -> list[str]:
    """Names of all predictors of the next run: built-ins, then entry points of `fairlead.predictors`."""
    return [*PREDICTORS, *sorted(_plugins("fairlead.predictors").keys() - PREDICTORS.keys())]


def predictor(name: str) -> Predictor:
    """A fresh predictor of that name, which has seen nothing. Raises KeyError for an unknown name."""
    target = PREDICTORS.get(name)
    made = _load(target) if target else _plugins("fairlead.predictors")[name].load()
    return made()  # type: ignore[operator, no-any-return]


@cache
def _plugins(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}
