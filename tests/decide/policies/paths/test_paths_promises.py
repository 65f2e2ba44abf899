"""What every policy of paths promises, whatever the machine: nothing sick or reserved, nothing twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.decide.policies.paths.aiot import Aiot
from fairlead.decide.policies.paths.contract import ExpectedJob, PathPolicy
from fairlead.decide.policies.paths.dfra import Dfra
from fairlead.decide.policies.paths.flow import Weights, compute_flow_capacity, find_flow
from fairlead.decide.policies.paths.static_map import StaticMap
from fairlead.decide.registered_policies import find_registered_path_policy

POLICIES: tuple[PathPolicy, ...] = (
    StaticMap(),
    Dfra(),
    Aiot(),
    find_registered_path_policy("best-bandwidth+greedy-clairvoyant"),
)


def components(rng: np.random.Generator, kind: str, count: int) -> Layer:
    """Any state; loads differ, so that no choice hangs on the order of names."""
    made = build_site_layer(kind, tuple(f"{kind}{place}" for place in range(count)), 1.0)
    return replace(
        made,
        bandwidth=rng.uniform(0.2e9, 4e9, count),
        mdops=np.where(rng.random(count) < 0.5, 1e4, np.nan),
        load=np.where(rng.random(count) < 0.1, np.nan, rng.permutation(count) / max(count, 1)),
        sick=rng.random(count) < 0.3,
        jobs=rng.integers(0, 4, count),
        occupancy=rng.permutation(count) / max(count, 1),
        reserved=rng.random(count) < 0.15,
    )


def site(rng: np.random.Generator) -> Site:
    forwarders, servers = int(rng.integers(0, 12)), int(rng.integers(1, 5))
    targets = int(rng.integers(0, 16))
    known = rng.random() < 0.6
    return Site(
        forwarders=components(rng, "fwd", forwarders),
        targets=components(rng, "ost", targets),
        servers=components(rng, "oss", servers if known else 0),
        server_of=rng.integers(0, servers, targets) if known else np.zeros(0, np.int64),
        default_forwarder=rng.integers(-1, forwarders, 64) if forwarders else np.zeros(0, np.int64),
        forwarder_counts=(1, 2, 4, 8),
        cores=1000.0,
    )


def expected(rng: np.random.Generator) -> ExpectedJob:
    def perhaps(value: float) -> float | None:
        return None if rng.random() < 0.2 else float(value)

    nodes = int(rng.integers(1, 64))
    return ExpectedJob(
        job_id="1",
        node_count=nodes,
        node_ids=tuple(range(nodes)),
        cores=float(nodes),
        io_processes=nodes * 4,
        mode=str(rng.choice(["N-N", "N-M", "N-1", "1-1", ""])),
        read_bytes=perhaps(rng.lognormal(23, 3)),
        write_bytes=perhaps(rng.lognormal(23, 3)),
        compute_s=perhaps(100),
        mdops=perhaps(rng.lognormal(4, 2)),
        bandwidth_bytes_per_s=perhaps(rng.lognormal(21, 2)),
        request_bytes=perhaps(1e5),
        file_bytes=perhaps(1e6),
        files=int(rng.integers(1, 999)),
        offset_difference_bytes=perhaps(1e8),
        runs_known=int(rng.integers(0, 3)),
    )


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_sick_or_reserved_is_granted_and_nothing_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    here, job = site(rng), expected(rng)
    for policy in POLICIES:
        grant = policy.grant(job, here, np.random.default_rng(seed))
        for places, layer in ((grant.forwarders, here.forwarders), (grant.targets, here.targets)):
            chosen = list(places)
            assert len(set(chosen)) == len(chosen)
            assert not (layer.sick | layer.reserved)[chosen].any()
        assert grant.reasons
        assert all(reason.why for reason in grant.reasons)
        if grant.isolated:
            assert not here.forwarders.jobs[list(grant.forwarders)].any()
        assert grant == policy.grant(job, here, np.random.default_rng(seed))


def shuffled(layer: Layer, order: np.ndarray) -> Layer:
    columns = ("bandwidth", "iops", "mdops", "load", "sick", "jobs", "occupancy", "reserved")
    return replace(
        layer, names=tuple(layer.names[i] for i in order), **{name: getattr(layer, name)[order] for name in columns}
    )


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_components_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    here, job = site(rng), expected(rng)
    # Every load is known, and no two jobs counts tie inside a bucket of load.
    here = replace(here, servers=build_site_layer("oss", ()), server_of=np.zeros(0, np.int64))
    for layer in (here.forwarders, here.targets):
        layer.load[:] = rng.permutation(len(layer)) / max(len(layer), 1)
        layer.jobs[:] = 1 + rng.permutation(len(layer))
    first, second = rng.permutation(len(here.forwarders)), rng.permutation(len(here.targets))
    back = np.argsort(first)
    table = here.default_forwarder
    moved = replace(
        here,
        forwarders=shuffled(here.forwarders, first),
        targets=shuffled(here.targets, second),
        default_forwarder=np.where(table >= 0, back[table] if len(back) else table, -1),
    )
    for policy in (StaticMap(), Dfra(), Aiot()):
        before, after = policy.grant(job, here, rng), policy.grant(job, moved, rng)
        assert sorted(before.forwarders) == sorted(int(first[place]) for place in after.forwarders)
        assert sorted(before.targets) == sorted(int(second[place]) for place in after.targets)
        assert before.stripe_count == after.stripe_count


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), asked=st.floats(0.05, 30.0))
def test_the_flow_carries_no_more_than_capacities_and_all_it_can(seed: int, asked: float) -> None:
    rng = np.random.default_rng(seed)
    here = site(rng)
    weights = Weights.weigh_demand((asked * 1e9, 0.0, 0.0), (1e9, None, None))
    found = find_flow(here.forwarders, here.targets, weights, servers=here.servers, server_of=here.server_of)
    carried = found.met * weights.demand
    rooms = []
    for layer, taken in ((here.forwarders, found.forwarders), (here.targets, found.targets)):
        if len(layer):
            room = compute_flow_capacity(layer, weights)
            assert carried <= room[list(taken)].sum() + 1e-6 if taken else carried == pytest.approx(0)
            rooms.append(np.where(layer.sick | layer.reserved, 0.0, room))
    if not len(here.servers):
        # One path after another is the most there is where every forwarder reaches every target.
        most = min([weights.demand, *(room.sum() for room in rooms)])
        assert carried == pytest.approx(most, rel=1e-6, abs=1e-6)
    elif len(here.targets):
        below = [0.0] * len(here.servers)
        for target, owner in enumerate(here.server_of):
            below[int(owner)] += float(rooms[-1][target])
        fit = ~(here.servers.sick | here.servers.reserved)
        through = np.minimum(below, np.where(fit, compute_flow_capacity(here.servers, weights), 0.0)).sum()
        most = min([weights.demand, float(through), *(float(room.sum()) for room in rooms[:-1])])
        assert carried == pytest.approx(most, rel=1e-6, abs=1e-6)
