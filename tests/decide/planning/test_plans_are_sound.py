"""Whatever a machine and a history are like, every policy's plans pass the checker; whatever a document, none passes
that should not, and none ends in a traceback."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.core.errors import FairleadError
from fairlead.core.model.plan import Plan, Plans, read_plan_document
from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.decide.planning.expectations import Arriving
from fairlead.decide.planning.live_site import Live, RunningJob
from fairlead.decide.planning.plan_jobs import plan_jobs_on_state
from fairlead.decide.planning.render import FORMS, render_plans
from fairlead.decide.policies.next_run.expectation import Past
from fairlead.decide.policies.paths.checker import Reservation, check_path_plans
from plan_building import FORWARDERS, NOW, TARGETS, ground, plan

POLICIES = ("aiot", "dfra", "static-map", "tcpu+greedy-clairvoyant", "best-bandwidth+random", "mckp-direct+straw")
S = 10**9


def layer(draw: st.DrawFn, kind: str, names: list[str]) -> Layer:
    n = len(names)

    def column(*values: float) -> np.ndarray:
        return np.array(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)), np.float64)

    made = build_site_layer(kind, tuple(names), 1.0)
    return replace(
        made,
        bandwidth=column(1e9, 2.5e9, 1e6, np.nan),
        iops=column(1e4, np.nan),
        mdops=column(2e4, np.nan),
        load=column(0.0, 0.3, 1.0, np.nan),
        sick=column(0, 0, 0, 1) > 0,
        reserved=column(0, 0, 0, 1) > 0,
    )


@st.composite
def machines(draw: st.DrawFn) -> Live:
    forwarders = layer(draw, "forwarder", [f"f{k}" for k in range(draw(st.integers(0, 6)))])
    targets = layer(draw, "target", [f"lfs-OST{k:04x}" for k in range(draw(st.integers(0, 10)))])
    nodes = [f"n{k}" for k in range(8)]
    default = np.array([draw(st.integers(-1, len(forwarders) - 1)) for _ in nodes], np.int64)
    counts = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)
    site = Site(
        forwarders=forwarders,
        targets=targets,
        default_forwarder=default,
        forwarder_counts=tuple(sorted(draw(counts))),
        stripe_counts=tuple(sorted(draw(counts))),
        pools={"one": (0, 1)} if len(targets) > 1 else {},
    )
    reserved = {
        name: "77"
        for name, kept in zip(
            (*forwarders.names, *targets.names), (*forwarders.reserved, *targets.reserved), strict=True
        )
        if kept
    }
    barred = (
        Reservation(
            components=frozenset(draw(st.lists(st.sampled_from(["f0", "f1", "lfs-OST0000"]), max_size=2))),
            pools=frozenset(draw(st.lists(st.just("one"), max_size=1))),
            why="so",
            concerns=lambda user, _: user != "ops",
        ),
    )
    running = tuple(
        RunningJob(
            job_id=f"r{k}",
            user="ada",
            program="cast",
            node_count=2,
            cores=8.0,
            processes=8,
            forwarders=tuple(draw(st.sets(st.integers(0, len(forwarders) - 1), max_size=2))) if len(forwarders) else (),
            targets=tuple(draw(st.sets(st.integers(0, len(targets) - 1), max_size=2))) if len(targets) else (),
        )
        for k in range(draw(st.integers(0, 2)))
    )
    for name, parts in (("forwarders", forwarders), ("targets", targets)):
        jobs = np.zeros(len(parts), np.int64)
        for job in running:
            jobs[list(getattr(job, name))] += 1
        site = replace(site, **{name: replace(parts, jobs=jobs)})
    return Live(
        site=site,
        barred=barred,
        reserved_for=reserved,
        file_system="lfs",
        nodes={n: k for k, n in enumerate(nodes)},
        running=running,
        state_ns=NOW,
        missing=(),
    )


@st.composite
def histories(draw: st.DrawFn) -> Past:
    def one(k: int) -> dict[str, object]:
        some = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 64.0, 1e4, 1e9, 6e11, 1e15]))
        start = NOW - (k + 2) * 3600 * S
        names = (
            "read_bytes",
            "write_bytes",
            "io_processes",
            "files",
            "metadata_ops",
            "mdops_in_phases",
            "iops",
            "write_bandwidth_bytes_per_s",
            "read_ops",
            "write_ops",
            "processes",
            "phases",
        )
        row: dict[str, object] = {name: draw(some) for name in names}
        return row | {
            "job_id": str(k),
            "user": "ada",
            "program": "cast",
            "start_ns": start,
            "end_ns": start + 600 * S,
            "nodes_count": draw(st.sampled_from([1, 4, 8, None])),
            "made_ns": NOW,
            "write_mode": draw(st.sampled_from(["N-N", "N-M", "N-1", "1-1", None, "odd"])),
        }

    rows = [one(k) for k in range(draw(st.integers(0, 4)))]
    names = rows[0].keys() if rows else ()
    return Past.from_rows(pa.table({name: [row[name] for row in rows] for name in names}))


def arrivals() -> list[Arriving]:
    return [
        Arriving(job_id="1", user="ada", program="/x/cast", node_count=4, nodes=("n0", "n1", "n2", "n3"), processes=64),
        Arriving(job_id="2", user="ops", program="cast", node_count=2, nodes=("n4", "zz")),
        Arriving(job_id="3", user="ada", program="cast", node_count=8),
    ]


CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


@settings(max_examples=15, **CALM)
@given(state=machines(), runs=histories(), seed=st.integers(0, 9), policy=st.sampled_from(POLICIES))
def test_plans_are_sound(state: Live, runs: Past, seed: int, policy: str) -> None:
    holds(state, runs, seed, policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*POLICIES, "joint", "joint-light"])
@settings(max_examples=200, **CALM)
@given(state=machines(), runs=histories(), seed=st.integers(0, 9))
def test_every_policy_makes_sound_plans(policy: str, state: Live, runs: Past, seed: int) -> None:
    holds(state, runs, seed, policy)


def holds(state: Live, runs: Past, seed: int, policy: str) -> None:
    made = plan_jobs_on_state(state, runs, arrivals(), policy=policy, at_ns=NOW, now_ns=NOW, seed=seed)
    assert [str(one) for one in made.violations] == []
    again = plan_jobs_on_state(state, runs, arrivals(), policy=policy, at_ns=NOW, now_ns=NOW, seed=seed)
    assert again.plans == made.plans, "the same question has the same answer, and nothing was changed by it"
    content = msgspec.json.encode(made.plans)
    assert read_plan_document(content, "here") == made.plans


NAMES = st.sampled_from([*FORWARDERS, *TARGETS, "nope", "", "-x"])
WORDS = st.one_of(
    st.none(), st.integers(-5, 1 << 40), st.floats(), st.text(max_size=4), st.booleans(), st.lists(NAMES, max_size=3)
)


@settings(max_examples=150, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(Plan.__struct_fields__), WORDS, max_size=4))
def test_documents_from_elsewhere_end_in_words_or_in_violations(changes: dict[str, object]) -> None:
    told = msgspec.to_builtins(Plans(policy="aiot", state_ns=NOW, made_ns=NOW, plans=[plan()]))
    told["plans"][0] |= changes
    try:
        found = read_plan_document(json.dumps(told).encode(), "here")
    except FairleadError:
        return
    [one] = found.plans
    violations = check_path_plans(found.plans, ground())
    bad = {"fwd4", "fwd5", "fwd6", "lfs-OST0007", "nope", "", "-x"} & {*one.forwarders, *one.targets}
    assert bool(violations) or not bad
    for form in FORMS:
        try:
            lines = render_plans(found, form)
        except FairleadError:
            continue
        assert all(line.isprintable() for line in lines.splitlines())


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=200))
def test_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(FairleadError):
        read_plan_document(content, "here")
