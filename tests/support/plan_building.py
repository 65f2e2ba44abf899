"""A made machine and a sound plan on it, for tests of plans: four forwarders, eight targets, one pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec.structs import replace as changed

from fairlead.core.model.plan import Expectation, Plan, PlannedJob, PlanReason
from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.decide.policies.paths.checker import Ground, Reservation

NOW = 1_728_036_600 * 10**9
FORWARDERS = tuple(f"fwd{k}" for k in range(1, 7))
TARGETS = tuple(f"lfs-OST{k:04x}" for k in range(8))


def marked(layer: Layer, field: str, *names: str) -> Layer:
    """A layer with a mark (sick, reserved) or a job on some of its components."""
    column = getattr(layer, field).copy()
    for name in names:
        column[layer.names.index(name)] = True
    return replace(layer, **{field: column})


def ground() -> Ground:
    """fwd5 and OST0007 are sick, fwd4 is kept for job 77, fwd6 and the pool `vis` are barred to all but ops; fwd3
    serves a job. Nodes n1 and n2 go by fwd1, n3 by fwd2 and n4 by fwd3."""
    forwarders = build_site_layer("forwarder", FORWARDERS, 2.5e9, mdops=20_000.0)
    forwarders = marked(marked(marked(forwarders, "sick", "fwd5"), "reserved", "fwd4"), "jobs", "fwd3")
    targets = marked(build_site_layer("target", TARGETS, 1e9), "sick", "lfs-OST0007")
    site = Site(
        forwarders=forwarders,
        targets=targets,
        default_forwarder=np.array([0, 0, 1, 2], np.int64),
        forwarder_counts=(1, 2, 4),
        stripe_counts=(1, 2, 4),
        pools={"flash": (0, 1), "vis": (2, 3)},
    )
    barred = Reservation(
        components=frozenset({"fwd6"}),
        pools=frozenset({"vis"}),
        why="kept for visualisation",
        concerns=lambda user, _: user != "ops",
    )
    return Ground(
        site=site,
        now_ns=NOW,
        barred=(barred,),
        reserved_for={"fwd4": "77"},
        nodes={f"n{k + 1}": k for k in range(4)},
    )


def plan(**fields: object) -> Plan:
    """A sound plan with some fields changed."""
    base = Plan(
        job=PlannedJob(job_id="42", user="ada", program="cast", node_count=2, nodes=["n1", "n2"]),
        policy="aiot",
        state_ns=NOW,
        forwarders=["fwd1", "fwd2"],
        default_forwarders=["fwd1"],
        file_system="lfs",
        mount="/lfs",
        targets=["lfs-OST0004", "lfs-OST0005"],
        pool="f42",
        stripe_count=2,
        stripe_bytes=1 << 20,
        prefetch_bytes=4 << 20,
        metadata_share=0.5,
        metadata_ops_per_s=20_000.0,
        dom_bytes=1 << 20,
        hints={"striping_factor": "2"},
        expected=Expectation(basis="last run", runs_known=3, mode="N-1"),
        reasons=[PlanReason(what="forwarders", why="two carry it")],
    )
    return changed(base, **fields)


def of_job(**fields: object) -> Plan:
    """A sound plan of a job that is described otherwise."""
    return plan(job=changed(plan().job, **fields))
