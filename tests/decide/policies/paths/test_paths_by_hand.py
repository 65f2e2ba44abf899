"""DFRA and AIOT on cases worked out by hand from the papers' formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.model.site import Site, build_site_layer
from fairlead.decide.policies.paths.aiot import Aiot
from fairlead.decide.policies.paths.contract import ExpectedJob
from fairlead.decide.policies.paths.dfra import Dfra
from fairlead.decide.policies.paths.flow import Weights, find_flow

RNG = np.random.default_rng(0)
GB = 1e9


def names(kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}{place}" for place in range(count))


def taihulight(counts: tuple[int, ...] = tuple(range(1, 101))) -> Site:
    """512 compute nodes a forwarder of 2.5 GB/s, 100 MB/s an I/O process (FAST 2019); 80 mapped, 20 spare."""
    return Site(
        forwarders=build_site_layer("forwarder", names("fwd", 100), 2.5 * GB),
        targets=build_site_layer("target", names("ost", 8), 1 * GB),
        default_forwarder=np.arange(40_960) // 512,
        forwarder_counts=counts,
        client_bandwidth=100e6,
    )


def big(**more: object) -> ExpectedJob:
    given: dict[str, object] = {
        "job_id": "1",
        "node_count": 1024,
        "node_ids": tuple(range(1024)),
        "io_processes": 1024,
        "mode": "N-N",
        "write_bytes": 120 * GB,
        "runs_known": 1,
    }
    return ExpectedJob(**(given | more))  # type: ignore[arg-type]


def test_dfra_gives_capacity_by_its_formula() -> None:
    # N_fwd = ceil(1024 x 100 MB/s / 2.5 GB/s) = ceil(40.96) = 41, the map gives 1024 / 512 = 2.
    grant = Dfra().grant(big(), taihulight(), RNG)
    assert len(grant.forwarders) == 41
    assert not grant.isolated
    assert "ask for 41" in grant.reasons[0].why


def test_dfra_counts_nodes_where_a_node_is_one_client() -> None:
    # 4 processes a node share the node's client: ceil(256 x 0.1 / 2.5) = ceil(10.24) = 11.
    land = replace(taihulight(), client="node")
    grant = Dfra().grant(big(node_count=256, node_ids=tuple(range(256)), io_processes=1024), land, RNG)
    assert len(grant.forwarders) == 11


def test_dfra_takes_what_may_be_granted() -> None:
    grant = Dfra().grant(big(), taihulight((1, 2, 4, 8)), RNG)
    assert len(grant.forwarders) == 8
    assert "8 can be granted" in grant.reasons[0].why


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"write_bytes": 19.9 * GB}, "20 GB are required"),
        ({"io_processes": 31}, "32 are required"),
        ({"mode": "N-M"}, "its mode is N-M"),
        ({"runs_known": 0}, "no earlier run"),
        ({"write_bytes": None}, "its volume is not known"),
    ],
)
def test_dfra_leaves_who_is_not_eligible_on_the_map(facts: dict[str, object], why: str) -> None:
    grant = Dfra().grant(big(**facts), taihulight(), RNG)
    assert grant.forwarders == ()  # the site's map
    assert why in grant.reasons[0].why


def test_dfra_bounds_of_eligibility_are_inside() -> None:
    edge = big(write_bytes=20 * GB, io_processes=32, node_ids=(0,), node_count=32)
    # ceil(32 x 0.1 / 2.5) = 2 against one of the map.
    assert len(Dfra().grant(edge, taihulight(), RNG).forwarders) == 2


def test_dfra_isolates_metadata_heavy_jobs_on_unused_forwarders() -> None:
    land = taihulight()
    land.forwarders.jobs[:90] = 3
    grant = Dfra().grant(big(mode="1-1", mdops=800.0), land, RNG)
    assert grant.isolated
    assert grant.forwarders == (90, 91)  # as many as its map gives, of the ten that serve nobody
    assert "800 operations/s" in grant.reasons[0].why


def test_dfra_avoids_a_sick_forwarder_of_the_map() -> None:
    land = taihulight()
    land.forwarders.sick[1] = True
    land.forwarders.load[2:] = 0.5
    land.forwarders.load[40] = 0.1
    grant = Dfra().grant(big(runs_known=0), land, RNG)
    assert grant.forwarders == (0, 40)
    assert "fwd1 of the site's map sick" in grant.reasons[0].why


def aiot_case() -> Site:
    """Three forwarders of 2.5 GB/s; two servers of 3 GB/s with two targets of 1 GB/s each."""
    forwarders = replace(build_site_layer("forwarder", names("f", 3), 2.5 * GB), load=np.array([0.5, 0.1, 0.0]))
    servers = replace(build_site_layer("server", names("s", 2), 3 * GB), load=np.array([0.3, 0.0]))
    targets = replace(build_site_layer("target", names("t", 4), 1 * GB), load=np.array([0.0, 0.0, 0.5, 0.0]))
    return Site(
        forwarders=forwarders,
        targets=targets,
        servers=servers,
        server_of=np.array([0, 0, 1, 1]),
        forwarder_counts=(1, 2, 4),
        stripe_counts=(1, 2, 4),
    )


def test_aiot_flow_by_hand() -> None:
    # In forwarders of 2.5 GB/s the job asks for 4 / 2.5 = 1.6. Capacities (1 - U) Y: f2 1, f1 0.9, f0 0.5; s1 1.2,
    # s0 0.84; t3, t0, t1 0.4, t2 0.2. Buckets: f2 | f1 | f0; s1 | s0 (20, 40].
    #   f2 s1 t3 0.4 (t3 full; s1 at 33 %, behind s0 in its bucket)   f2 s0 t0 0.4 (t0 full; s0 at 63 %)
    #   f2 s1 t2 0.2 (f2 and t2 full; s1 at 50 %, no target left)     f1 s0 t1 0.4 (t1 full: nothing is left below)
    land = aiot_case()
    weights = Weights.weigh_demand((4 * GB, 0.0, 0.0), (2.5 * GB, None, None))
    assert weights.demand == pytest.approx(1.6)
    found = find_flow(land.forwarders, land.targets, weights, servers=land.servers, server_of=land.server_of)
    assert found.forwarders == (2, 1)
    assert found.targets == (3, 0, 2, 1)
    assert found.met == pytest.approx(1.4 / 1.6)


def test_aiot_grants_what_the_flow_found() -> None:
    job = ExpectedJob(job_id="1", mode="N-N", io_processes=64, bandwidth_bytes_per_s=4 * GB, files=64, runs_known=3)
    grant = Aiot().grant(job, aiot_case(), RNG)
    assert grant.forwarders == (1, 2)
    assert grant.targets == (0, 1, 2, 3)
    assert grant.stripe_count == 1  # many files of one process each are not cut
    assert "= 1.60 forwarders, 87.5% found a path" in grant.reasons[0].why


def isolation_bed() -> Site:
    """The paper's own test of isolation (section IV.C): 4 forwarders, 4 storage nodes of 3 OSTs; OST1 is busy, OST2
    abnormal. Macdrp runs on Fwd2."""
    forwarders = build_site_layer("forwarder", ("Fwd1", "Fwd2", "Fwd3", "Fwd4"), 2.5 * GB, mdops=10_000.0)
    targets = build_site_layer("target", tuple(f"OST{n}" for n in range(1, 13)), 0.8 * GB)
    forwarders.load[1], forwarders.jobs[1] = 0.9, 1
    targets.load[0] = 1.0
    targets.sick[1] = True
    servers = build_site_layer("server", ("SN1", "SN2", "SN3", "SN4"), 2.4 * GB)
    servers.load[0] = 0.5
    return Site(
        forwarders=forwarders,
        targets=targets,
        servers=servers,
        server_of=np.arange(12) // 3,
        default_forwarder=np.arange(2048) // 512,
    )


def test_aiot_leaves_the_busy_and_the_abnormal_target_alone() -> None:
    # XCFD: N-N, high bandwidth. 2.4 GB/s are 0.96 forwarders and three targets on the three idle storage nodes.
    xcfd = ExpectedJob(job_id="xcfd", mode="N-N", io_processes=512, files=512, bandwidth_bytes_per_s=2.4 * GB)
    grant = Aiot().grant(xcfd, isolation_bed(), RNG)
    assert grant.forwarders == (0,)
    names_of = {isolation_bed().targets.names[place] for place in grant.targets}
    assert len(names_of) == 4  # three, rounded up to what may be granted
    assert not names_of & {"OST1", "OST2"}


def test_aiot_puts_a_metadata_heavy_job_where_nobody_is() -> None:
    # Quantum shared Fwd2 with Macdrp by the site's map; there are idle ones, so nothing of P:(1-P) is needed.
    quantum = ExpectedJob(job_id="quantum", mode="N-N", io_processes=512, mdops=5000.0)
    grant = Aiot().grant(quantum, isolation_bed(), RNG)
    assert grant.forwarders == (0,)
    assert grant.metadata_share is None
    crowded = isolation_bed()
    crowded.forwarders.jobs[:] = 1
    assert Aiot().grant(quantum, crowded, RNG).metadata_share == 0.5


@pytest.mark.parametrize(("apart", "stripe"), [(16, 4), (4, 1)])
def test_aiot_stripes_of_the_papers_figure_10(apart: int, stripe: int) -> None:
    # Four processes share 16 MiB: a quarter each in a row (4 MiB stripes), or turns of 1 MiB, 4 MiB apart (1 MiB).
    shared = ExpectedJob(
        job_id="1",
        mode="N-1",
        io_processes=4,
        files=1,
        bandwidth_bytes_per_s=3.2 * GB,
        offset_difference_bytes=apart * 2.0**20,
    )
    grant = Aiot().grant(shared, isolation_bed(), RNG)
    assert (grant.stripe_count, grant.stripe_bytes) == (4, stripe << 20)


def test_aiot_weights_as_printed() -> None:
    # x1 Y1 = x2 Y2 = x3 Y3: a job of bandwidth alone is a third of what it is in bandwidth.
    weights = Weights.weigh_equally((2.5 * GB, 0.0, 0.0), (2.5 * GB, 50_000.0, 10_000.0))
    assert [x * y for x, y in zip(weights.x, (2.5e9, 5e4, 1e4), strict=True)] == pytest.approx([1 / 3] * 3)
    assert weights.demand == pytest.approx(1 / 3)


def test_aiot_weighs_three_measures() -> None:
    # Per forwarder 2.5 GB/s, 50,000 I/O/s, 10,000 names/s: the job asks for 0.4, 0.2 and 1.4 of one, 2 in all, so the
    # shares are 0.2, 0.1, 0.7 and x = share / peak. Demand: 0.2 x 0.4 + 0.1 x 0.2 + 0.7 x 1.4 = 1.08.
    weights = Weights.weigh_demand((1 * GB, 10_000.0, 14_000.0), (2.5 * GB, 50_000.0, 10_000.0))
    assert weights.share == pytest.approx((0.2, 0.1, 0.7))
    assert weights.x == pytest.approx((0.2 / 2.5e9, 0.1 / 5e4, 0.7 / 1e4))
    assert weights.demand == pytest.approx(1.08)
