"""Policies of paths: the static map, allocation policies on both layers, the settings AIOT makes along a path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.decide.policies.allocation.contract import NONE, Applications, Decision, Running
from fairlead.decide.policies.paths import tunings
from fairlead.decide.policies.paths.aiot import Aiot
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant
from fairlead.decide.policies.paths.dfra import Dfra
from fairlead.decide.policies.paths.flow import find_flow_bucket
from fairlead.decide.policies.paths.path_from_allocation import (
    FORWARDERS,
    TARGETS,
    PathFromAllocation,
    build_allocation_application,
    build_allocation_entry,
    list_allocation_counts,
)
from fairlead.decide.policies.paths.static_map import StaticMap
from fairlead.decide.registered_policies import find_registered_path_policy

RNG = np.random.default_rng(0)
GB = 1e9


def land(forwarders: int = 4, targets: int = 8) -> Site:
    return Site(
        forwarders=build_site_layer("forwarder", tuple(f"fwd{i}" for i in range(forwarders)), 2 * GB),
        targets=build_site_layer("target", tuple(f"ost{i}" for i in range(targets)), 1 * GB),
        default_forwarder=np.repeat(np.arange(forwarders), 16),
        cores=1024.0,
    )


def job(**more: object) -> ExpectedJob:
    given: dict[str, object] = {
        "job_id": "1",
        "node_count": 16,
        "node_ids": tuple(range(16)),
        "cores": 64.0,
        "io_processes": 64,
        "processes": 64,
        "mode": "N-N",
        "write_bytes": 60 * GB,
        "compute_s": 100.0,
        "runs_known": 2,
        "bandwidth_bytes_per_s": 5 * GB,
    }
    return ExpectedJob(**(given | more))  # type: ignore[arg-type]


def why(grant: Grant, what: str) -> str:
    return next(reason.why for reason in grant.reasons if reason.what == what)


class Widest:
    """As many of the first available as the highest bandwidth asks for; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Applications, Running, Layer]] = []

    def decide(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:
        raise NotImplementedError

    def arrive(self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator) -> Decision:  # noqa: ARG002
        self.asked.append((application, running, pool))
        column = int(application.best[0])
        count = int(application.counts[column])
        row = np.full((1, int(application.counts.max())), NONE)
        row[0, : min(count, len(pool.usable))] = pool.usable[:count]
        return Decision(np.array([column]), row)


def test_static_map_leaves_what_the_site_does_and_says_what_that_is() -> None:
    grant = StaticMap().grant(job(node_ids=(3, 17, 18)), land(), RNG)
    assert replace(grant, reasons=()) == Grant()
    assert why(grant, "forwarders") == "the site's map gives its 3 nodes fwd0, fwd1"


def test_static_map_grants_no_sick_forwarder_and_says_so() -> None:
    here = land()
    here.forwarders.sick[0] = True
    grant = StaticMap().grant(job(), here, RNG)
    assert grant.forwarders == ()
    assert "though fwd0 is sick or reserved" in why(grant, "forwarders")


@pytest.mark.parametrize("policy", [StaticMap(), Dfra(), Aiot(), PathFromAllocation(Widest())])
@pytest.mark.parametrize("forwarders", [0, 4])
def test_where_nothing_is_sound_nothing_is_granted(policy: object, forwarders: int) -> None:
    here = land(forwarders)
    here.forwarders.sick[:] = True
    here.targets.sick[:4] = True
    here.targets.reserved[4:] = True
    grant = policy.grant(job(), here, RNG)  # type: ignore[attr-defined]
    assert grant.forwarders == ()
    assert grant.targets == ()
    assert grant.reasons


@pytest.mark.parametrize("policy", [StaticMap(), Dfra(), Aiot(), PathFromAllocation(Widest())])
def test_a_job_nothing_is_known_of_is_left_alone(policy: object) -> None:
    grant = policy.grant(ExpectedJob(job_id="1"), land(), RNG)  # type: ignore[attr-defined]
    assert (grant.forwarders, grant.targets, grant.isolated) == ((), (), False)
    assert grant.reasons


def test_an_allocation_policy_is_asked_for_both_layers() -> None:
    policy = Widest()
    here = land()
    here.targets.sick[0] = True
    grant = PathFromAllocation(policy).grant(job(), here, RNG)
    # 5 GB/s alone: 4 forwarders of 2 GB/s, 8 targets of 1 GB/s, of which only 7 are sound: the most is 4.
    assert grant.forwarders == (0, 1, 2, 3)
    assert grant.targets == (1, 2, 3, 4)
    assert grant.stripe_count is None  # 64 processes have a file each: none need be cut
    assert PathFromAllocation(Widest()).grant(job(mode="N-1", files=1), here, RNG).stripe_count == 4
    forwarding, storing = (asked[0] for asked in policy.asked)
    assert forwarding.bandwidth[0, :3].tolist() == [2 * GB, 4 * GB, 5 * GB]
    assert np.isnan(storing.bandwidth[0, 3])
    assert storing.volume[0] == 60 * GB
    assert "5 GB/s, as it reached" in why(grant, "forwarders")
    assert "1 sick passed over" in why(grant, "targets")


def test_a_seen_curve_goes_before_peaks() -> None:
    application, told = build_allocation_application(
        job(forwarder_curve=((1, 1 * GB), (4, 2.5 * GB))), land(), FORWARDERS
    )
    assert application is not None
    assert application.bandwidth[0, :3].tolist() == [1 * GB, 1.5 * GB, 2.5 * GB]
    assert "known at 2 counts" in told


def test_what_is_not_known_is_said() -> None:
    application, told = build_allocation_application(
        job(compute_s=None, bandwidth_bytes_per_s=None), land(), FORWARDERS
    )
    assert application is not None
    assert application.bandwidth[0, 2] == pytest.approx(64 * 90e6)
    assert "64 clients" in told
    assert "compute time not known (taken as 0)" in told


def test_sums_of_components_stand_for_who_runs() -> None:
    policy = Widest()
    here = land()
    here.targets.occupancy[:3] = 0.25, 0.5, 0.125
    here.targets.jobs[:3] = 1, 2, 1
    PathFromAllocation(policy).grant(job(), here, RNG)
    running = policy.asked[1][1]
    assert running.stress == pytest.approx(0.875)
    assert running.users.tolist() == [1, 2, 1, 0, 0, 0, 0, 0]
    assert len(running) == 4  # each user of each target stands for itself
    assert running.resources[:4, 0].tolist() == [0, 1, 1, 2]
    assert running.time_s[:4].tolist() == [0.25, 0.25, 0.25, 0.125]


def test_ours_sees_who_runs_in_the_sums_of_components() -> None:
    here = land()
    here.forwarders.occupancy[:] = 0.6, 0.6, 0.1, 0.6
    here.forwarders.jobs[:] = 3, 3, 1, 3
    narrow = job(bandwidth_bytes_per_s=1 * GB)
    assert find_registered_path_policy("joint").grant(narrow, here, RNG).forwarders == (2,)
    assert find_registered_path_policy("joint-light").grant(narrow, here, RNG).forwarders == (2,)


def test_a_caller_that_keeps_rows_is_given_them_back() -> None:
    policy = Widest()
    here = land()
    running = Running(4, list_allocation_counts(here, FORWARDERS))
    here = replace(here, forwarders=replace(here.forwarders, running=running))
    entered = build_allocation_entry(job(), here, FORWARDERS, (1, 3))
    assert entered is not None
    row = running.enter(*entered)
    share = 15.0 / 115.0  # 60 GB at 4 GB/s beside 100 s of computing
    assert running.occupancy.tolist() == pytest.approx([0, share, 0, share])
    PathFromAllocation(policy).grant(job(), here, RNG)
    assert policy.asked[0][1] is running
    assert len(running) == 1
    running.leave(row)
    assert running.stress == pytest.approx(0)
    assert build_allocation_entry(job(), here, TARGETS, ()) is None


def test_a_policy_that_grants_a_sick_component_does_not_pass() -> None:
    class Careless(Widest):
        def arrive(
            self, application: Applications, running: Running, pool: Layer, rng: np.random.Generator
        ) -> Decision:
            return super().arrive(application, running, replace(pool, sick=np.zeros(len(pool), np.bool_)), rng)

    here = land()
    here.forwarders.sick[0] = True
    with pytest.raises(ValueError, match="sick or reserved"):
        PathFromAllocation(Careless()).grant(job(), here, RNG)


def test_names_of_allocation_policies_are_path_policies() -> None:
    assert isinstance(find_registered_path_policy("dfra"), Dfra)
    assert isinstance(find_registered_path_policy("best-bandwidth+greedy-clairvoyant"), PathFromAllocation)
    with pytest.raises(KeyError):
        find_registered_path_policy("nothing-of-the-kind")


def test_dfra_isolates_where_its_own_forwarder_is_crowded() -> None:
    here = land()
    here.forwarders.jobs[:2] = 3
    here.forwarders.load[0] = 0.8
    small = job(io_processes=32, bandwidth_bytes_per_s=None)  # ceil(32 x 0.09 / 2) = 2 against one of the map
    assert len(Dfra().grant(small, here, RNG).forwarders) == 2
    fits = replace(here, client_bandwidth=50e6)  # ceil(32 x 0.05 / 2) = 1
    grant = Dfra().grant(small, fits, RNG)
    assert grant.isolated
    assert grant.forwarders == (2,)
    assert "fwd0 busy to 80%" in why(grant, "forwarders")


def test_six_buckets_of_load() -> None:
    loads = np.array([0.0, 0.01, 0.2, 0.21, 0.6, 0.61, 0.8, 1.0])
    assert find_flow_bucket(loads).tolist() == [0, 1, 1, 2, 3, 4, 4, 5]


def test_aiot_uses_no_target_below_a_sick_server() -> None:
    servers = build_site_layer("server", ("a", "b"), 4 * GB)
    servers.sick[0] = True
    here = replace(land(), servers=servers, server_of=np.arange(8) // 4)
    grant = Aiot().grant(job(), here, RNG)
    assert set(grant.targets) == {4, 5, 6, 7}


def test_where_one_layer_has_no_room_the_other_still_carries_the_job() -> None:
    full = land()
    full.forwarders.sick[:] = True
    grant = Aiot(tuned=False).grant(job(bandwidth_bytes_per_s=3 * GB), full, RNG)
    assert (grant.forwarders, len(grant.targets)) == ((), 4)  # 3 targets of 1 GB/s, of which 4 may be granted
    full = land()
    full.targets.load[:] = 1.0
    grant = Aiot(tuned=False).grant(job(bandwidth_bytes_per_s=3 * GB), full, RNG)
    assert (len(grant.forwarders), len(grant.targets)) == (2, 1)


def test_prefetch_is_the_share_of_a_file() -> None:
    reads = job(read_bytes=10 * GB, files=1024, request_bytes=64e3)
    assert tunings.tune_prefetch(reads, land(), (0, 1))[0] == 500_000  # 256 MB x 2 / 1024
    assert tunings.tune_prefetch(replace(reads, request_bytes=1e6), land(), (0, 1))[0] is None
    crowded = land()
    crowded.forwarders.load[1] = 0.7
    value, reason = tunings.tune_prefetch(reads, crowded, (0, 1))
    assert value is None
    assert "70% used" in reason.why


def test_metadata_share_only_for_who_is_heavy_and_shares() -> None:
    shared = land()
    shared.forwarders.jobs[0] = 2
    assert tunings.tune_metadata_share(job(mdops=500.0), shared, (0,))[0] == 0.5
    assert tunings.tune_metadata_share(job(mdops=500.0), shared, (1,))[0] is None
    assert tunings.tune_metadata_share(job(mdops=200.0), shared, (0,))[0] is None


def test_stripes_of_a_shared_file_and_of_many() -> None:
    # 5 GB/s in all against 1 GB/s a target: 5, and 8 may be granted; 64 MiB apart between 64 processes: 1 MiB.
    count, stripe, _ = tunings.tune_stripes(job(mode="N-1", files=1, offset_difference_bytes=64 * 2.0**20), land())
    assert (count, stripe) == (8, 1 << 20)
    assert tunings.tune_stripes(job(files=64), land())[:2] == (1, None)
    assert tunings.tune_stripes(job(mode=""), land())[:2] == (None, None)


def test_a_stripe_is_whole_64_kib_and_not_less() -> None:
    odd = job(mode="N-1", files=1, offset_difference_bytes=64 * 100_000.0)
    assert tunings.tune_stripes(odd, land())[1] == 65_536
    assert tunings.tune_stripes(replace(odd, offset_difference_bytes=64.0), land())[1] == 65_536


def test_small_files_lie_on_the_metadata_target() -> None:
    assert tunings.tune_dom(job(files=5000, file_bytes=100_000.0))[0] == 131_072
    assert tunings.tune_dom(job(files=5000, file_bytes=2e6))[0] is None
    assert tunings.tune_dom(job(files=3, file_bytes=1000.0))[0] is None


def test_a_shared_file_gets_as_many_targets_as_stripes() -> None:
    grant = Aiot().grant(job(mode="N-1", files=1, bandwidth_bytes_per_s=1.5 * GB), land(), RNG)
    assert grant.stripe_count == 2
    assert len(grant.targets) == 2
