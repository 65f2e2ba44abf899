"""Policies of every family: built-ins by name in explicit tables, imported lazily; site plug-ins through entry points.

Nothing registers itself by being imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.core.extensions import find_extension_maker, find_extensions, load_extension_object, make_extension

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.decide.policies.allocation.contract import Policy
    from fairlead.decide.policies.next_run.contract import Predictor
    from fairlead.decide.policies.paths.contract import PathPolicy
    from fairlead.decide.policies.placement.files import Placement
    from fairlead.decide.policies.requests.orders import Order

PLACEMENTS: dict[str, str] = {
    "round-robin": "fairlead.decide.policies.placement.files:RoundRobin",
    "weighted-random": "fairlead.decide.policies.placement.files:WeightedRandom",
    "least-open": "fairlead.decide.policies.placement.files:LeastOpen",
}
"""Rules that choose the targets of a new file; each is made with a seed."""

REQUEST_ORDERS: dict[str, str] = {
    "fifo": "fairlead.decide.policies.requests.orders:Fifo",
    "metadata-first": "fairlead.decide.policies.requests.orders:MetadataFirst",
    "share": "fairlead.decide.policies.requests.orders:Share",
    "job-fair": "fairlead.decide.policies.requests.fair:JobFair",
    "set-10": "fairlead.decide.policies.requests.fair:SetTen",
    "exclusive": "fairlead.decide.policies.requests.fair:Exclusive",
}
"""Orders among the requests of a forwarder; each is made with the text after its name in a spec and a seed."""

ALLOCATIONS: dict[str, str] = {
    "random": "fairlead.decide.policies.allocation.published:Random",
    "static": "fairlead.decide.policies.allocation.published:Static",
    "best-bandwidth": "fairlead.decide.policies.allocation.published:BestBandwidth",
    "n-sys": "fairlead.decide.policies.allocation.published:NSys",
    "tcpu": "fairlead.decide.policies.allocation.tcpu:Tcpu",
    "mckp": "fairlead.decide.policies.allocation.mckp:Mckp",
    "mckp-direct": "fairlead.decide.policies.allocation.mckp:MckpDirect",
    "size": "fairlead.decide.policies.allocation.published:Size",
    "process": "fairlead.decide.policies.allocation.published:Process",
    "oracle": "fairlead.decide.policies.allocation.published:Oracle",
}
"""How many resources: published allocations, made without arguments."""

PLACINGS: dict[str, str] = {
    "random": "fairlead.decide.policies.placement.applications:RandomPlacing",
    "greedy-non-clairvoyant": "fairlead.decide.policies.placement.applications:GreedyNonClairvoyant",
    "greedy-clairvoyant": "fairlead.decide.policies.placement.applications:GreedyClairvoyant",
    "pools": "fairlead.decide.policies.placement.applications:Pools",
    "round-robin": "fairlead.decide.policies.placement.applications:RoundRobinPlacing",
    "weighted-random": "fairlead.decide.policies.placement.applications:WeightedRandomPlacing",
    "straw": "fairlead.decide.policies.placement.applications:Straw",
}
"""Which resources: published placements of applications, made without arguments."""

JOINT_POLICIES: dict[str, str] = {
    "joint": "fairlead.decide.policies.allocation.joint:Joint",
    "joint-light": "fairlead.decide.policies.allocation.joint:JointLight",
}
"""How many and which at once: ours."""

PATH_POLICIES: dict[str, str] = {
    "static-map": "fairlead.decide.policies.paths.static_map:StaticMap",
    "dfra": "fairlead.decide.policies.paths.dfra:Dfra",
    "aiot": "fairlead.decide.policies.paths.aiot:Aiot",
}
"""The path of an arriving job. Any other name is that of an allocation policy, on both layers."""

PREDICTORS: dict[str, str] = {
    "last-run": "fairlead.decide.policies.next_run.simple:LastRun",
    "most-frequent": "fairlead.decide.policies.next_run.simple:MostFrequent",
    "n-gram": "fairlead.decide.policies.next_run.ngram:NGram",
    "learned": "fairlead.decide.policies.next_run.learned:LearnedPredictor",
}
"""What the next run of a job is expected to be like."""


def list_registered_placements() -> list[str]:
    """Names of all placements: built-ins, then entry points of `fairlead.placements`."""
    return [*PLACEMENTS, *sorted(find_extensions("fairlead.placements").keys() - PLACEMENTS.keys())]


def find_registered_placement(name: str) -> Callable[[int], Placement]:
    """What makes the placement of that name from a seed. Raises KeyError for an unknown name."""
    target = PLACEMENTS.get(name)
    return load_extension_object(target) if target else find_extension_maker("fairlead.placements", name)  # type: ignore[return-value]


def list_registered_orders() -> list[str]:
    """Names of all orders of requests: built-ins, then entry points of `fairlead.request_orders`."""
    return [*REQUEST_ORDERS, *sorted(find_extensions("fairlead.request_orders").keys() - REQUEST_ORDERS.keys())]


def find_registered_order(name: str) -> Callable[[str, int], Order]:
    """What makes the order of that name from the text after it and a seed. Raises KeyError for an unknown name."""
    target = REQUEST_ORDERS.get(name)
    return load_extension_object(target) if target else find_extension_maker("fairlead.request_orders", name)  # type: ignore[return-value]


def list_registered_policies() -> list[str]:
    """Joint policies, then ALLOCATION+PLACEMENT pairs, then entry points of `fairlead.policies`."""
    pairs = [f"{allocation}+{placing}" for allocation in ALLOCATIONS for placing in PLACINGS]
    return [*JOINT_POLICIES, *pairs, *sorted(find_extensions("fairlead.policies").keys() - JOINT_POLICIES.keys())]


def find_registered_policy(name: str) -> Policy:
    """The policy of that name: `joint`, a pair as `tcpu+greedy-clairvoyant`, or a plug-in. KeyError for another."""
    from fairlead.decide.policies.allocation.contract import Pair

    if name in JOINT_POLICIES:
        return load_extension_object(JOINT_POLICIES[name])()  # type: ignore[operator, no-any-return]
    allocation, plus, placing = name.partition("+")
    if plus:
        return Pair(load_extension_object(ALLOCATIONS[allocation])(), load_extension_object(PLACINGS[placing])())  # type: ignore[operator]
    return make_extension("fairlead.policies", name)  # type: ignore[no-any-return]


def list_registered_path_policies() -> list[str]:
    """Built-in path policies, then entry points of `fairlead.path_policies`. Any other policy is valid as well."""
    return [*PATH_POLICIES, *sorted(find_extensions("fairlead.path_policies").keys() - PATH_POLICIES.keys())]


def find_registered_path_policy(name: str) -> PathPolicy:
    """The path policy of that name; an allocation policy's name gives it on both layers. KeyError for another."""
    if name in PATH_POLICIES:
        return load_extension_object(PATH_POLICIES[name])()  # type: ignore[operator, no-any-return]
    if name in find_extensions("fairlead.path_policies"):
        return make_extension("fairlead.path_policies", name)  # type: ignore[no-any-return]
    from fairlead.decide.policies.paths.path_from_allocation import PathFromAllocation

    return PathFromAllocation(find_registered_policy(name))


def _list_predictors() -> list[str]:
    """Names of all predictors of the next run: built-ins, then entry points of `fairlead.predictors`."""
    return [*PREDICTORS, *sorted(find_extensions("fairlead.predictors").keys() - PREDICTORS.keys())]


def build_registered_predictor(name: str) -> Predictor:
    """A fresh predictor of that name, which has seen nothing. Raises KeyError for an unknown name."""
    target = PREDICTORS.get(name)
    return load_extension_object(target)() if target else make_extension("fairlead.predictors", name)  # type: ignore[operator, no-any-return]
