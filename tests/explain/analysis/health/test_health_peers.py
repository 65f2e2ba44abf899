"""Peers, peaks, canaries, hints, durations and findings of component health, each by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import DBSCAN

from fairlead.core.model.finding import Evidence
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOBS, METADATA, TARGET, build_table_batch
from fairlead.explain.analysis.health.cause_hints import Course, find_cause_hint
from fairlead.explain.analysis.health.durations import classify_duration, count_durations, set_incident_persistence
from fairlead.explain.analysis.health.health_findings import build_health_findings, grade_health_severity
from fairlead.explain.analysis.health.limits import HealthLimits
from fairlead.explain.analysis.health.peers import NOISE, cluster_peers, mark_slow_peers
from health_loads import LIMITS, NS, PEAK, START_NS, look, rows, states_of, target

HOUR = np.arange(3600)


@pytest.mark.parametrize("seed", range(20))
def test_clusters_on_a_line_are_those_of_dbscan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(at, 0.2, int(rng.integers(1, 12))) for at in rng.uniform(-3, 3, 4)])
    ours = cluster_peers(values, 0.3, 3)
    theirs = DBSCAN(eps=0.3, min_samples=3).fit(values[:, None])
    assert ((ours == NOISE) == (theirs.labels_ == NOISE)).all()
    core = theirs.core_sample_indices_
    # Border points between two clusters may fall to either; cores may not.
    pairs = {(int(a), int(b)) for a, b in zip(ours[core], theirs.labels_[core], strict=True)}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_only_the_slow_side_is_evidence() -> None:
    rates = np.array([100.0, 105.0, 98.0, 101.0, 20.0, 500.0, np.nan])
    assert mark_slow_peers(rates, 0.5, 3).tolist() == [False, False, False, False, True, False, False]
    assert not mark_slow_peers(np.array([1.0, 10.0, 100.0, 1000.0]), 0.5, 3).any(), "all differ: nobody is the outlier"
    assert mark_slow_peers(np.array([5.0, 5.0, 5.0, 0.0]), 0.5, 3).tolist() == [False, False, False, True]


def without_devices(slow_share: float, *, same_time: bool) -> list[pa.Table]:
    """Bursts of a job over six targets; the slow one is at it longer, or (`same_time`) was given less to do."""
    out = []
    for place in range(6):
        slow = place == 2
        at_work = np.less(HOUR % 60, 50 if slow and not same_time else 20)
        rate = PEAK * 0.25 * (slow_share if slow else 1.0)
        moved = np.where(at_work, rate, 0).astype(np.int64)
        out += [
            rows("target", f"t{place}", "target", HOUR, job, write_bytes=moved, write_ops=moved >> 20)
            for job in (None, "1")
        ]
    return out


def test_where_no_queue_is_told_peers_of_the_same_job_are_the_evidence() -> None:
    (incident,) = look(without_devices(0.2, same_time=False), 3600).incidents
    assert incident.component == "t2"
    assert incident.confidence <= 0.8
    assert incident.evidence[0].metric == "share_of_peers"


def test_one_that_was_given_less_to_do_is_not_slow() -> None:
    health = look(without_devices(0.2, same_time=True), 3600)
    assert not health.incidents


def one_burst(slow_share: float, begin_s: float, told_s: float) -> list[pa.Table]:
    """A job with a file of its own on each of four targets, once, from `begin_s` on; one target is slow. What was done
    is told once a second, `told_s` after it begins, and shared out to the seconds it lies in."""
    out = []
    whole = 6 * PEAK * 0.25
    when = np.arange(-1, 3601) + told_s
    for place in range(4):
        rate = PEAK * 0.25 * (slow_share if place == 1 else 1.0)
        told = np.clip((when - begin_s) * rate, 0, whole)
        moved = np.diff(np.interp(np.arange(3601), when, told)).astype(np.int64)
        out += [
            rows("target", f"t{place}", "target", HOUR, job, write_bytes=moved, write_ops=-(-moved // (1 << 18)))
            for job in (None, "1")
        ]
    return out


BURSTS = [(600 + at + part, told_s) for at in range(5) for part in (0.1, 0.6) for told_s in (0.0, 0.3, 0.8)]


def test_a_burst_of_seconds_is_measured_by_its_whole_seconds() -> None:
    limits = replace(LIMITS, minimum_s=10.0, window_s=5.0)
    for begin_s, told_s in BURSTS:
        (incident,) = look(one_burst(0.25, begin_s, told_s), 3600, limits=limits).incidents
        assert incident.component == "t1"
        assert incident.share_of_peak == pytest.approx(0.25, abs=0.02), (begin_s, told_s)
        assert not look(one_burst(1.0, begin_s, told_s), 3600, limits=limits).incidents
        assert not look(one_burst(0.8, begin_s, told_s), 3600, limits=limits).incidents


def test_a_large_job_may_be_asked_for() -> None:
    limits = HealthLimits(minimum_s=120, peer_nodes=1024)
    tables = without_devices(0.2, same_time=False)
    assert not look(tables, 3600, limits=limits, nodes={"1": 64}).incidents
    assert look(tables, 3600, limits=limits, nodes={"1": 1024}).incidents


def canaries(slow: str, name: str = "target") -> dict[str, pa.Table]:
    """A try a minute at six targets (or of a file at six metadata servers); one takes ten times as long from 1800 s."""
    at = np.arange(30, 3600, 60)
    who = np.repeat([f"t{n}" for n in range(6)], len(at))
    when = np.tile(at, 6)
    took = np.where((who == slow) & (when >= 1800), 50_000_000, 5_000_000)
    columns = {
        "ts_ns": START_NS + when * NS,
        "interval_ns": took,
        "target": who.tolist(),
        "source": ["canary"] * len(who),
    }
    if name == "target":
        batch = build_table_batch(TARGET, {**columns, "write_bytes": np.full(len(who), 1 << 20)})
    else:
        batch = build_table_batch(
            METADATA, {**columns, "op": ["create"] * len(who), "count": np.ones(len(who), np.int64)}
        )
    return {name: pa.Table.from_batches([batch])}


def test_canaries_answer_when_nobody_asks() -> None:
    idle = [table for n in range(6) for table in target(f"t{n}", HOUR, 0.0, 0.0)]
    assert set(states_of(look(idle, 3600), "t4")) == {"idle"}
    health = look(idle, 3600, canaries=canaries("t4"))
    (incident,) = health.incidents
    assert incident.component == "t4"
    assert abs((incident.from_ns - START_NS) / NS - 1800) <= 60
    assert set(states_of(health, "t1")) == {"ok"}
    assert not look(idle, 3600, canaries=canaries("nobody")).incidents


def test_canaries_answer_for_metadata_servers() -> None:
    idle = [rows("mds", f"t{n}", "metadata", HOUR, metadata_ops=0) for n in range(6)]
    (incident,) = look(idle, 3600, canaries=canaries("t4", "metadata")).incidents
    assert (incident.layer, incident.component) == ("mds", "t4")


def test_a_canary_is_a_peak_where_none_is_known() -> None:
    idle = [table for n in range(6) for table in target(f"t{n}", HOUR, 0.0, 0.0)]
    peak = look(idle, 3600, peaks={}, canaries=canaries("nobody")).peaks["target", "t0"]
    assert peak.basis == "canary"
    assert peak.bytes_per_s == pytest.approx((1 << 20) / 0.005)


def test_shapes_and_events_hint_at_causes() -> None:
    flat = np.full(12, 0.1)
    healing = np.concatenate([np.full(8, 0.1), [0.13, 0.17, 0.21, 0.25]])
    assert find_cause_hint(Course(share=flat, over=True))[0] == "unknown"
    assert find_cause_hint(Course(share=healing, over=True))[0] == "rebuild"
    assert find_cause_hint(Course(share=healing, over=False))[0] == "unknown", "not before it has ended"
    assert find_cause_hint(Course(share=healing[::-1], over=False))[0] == "fail_slow"
    assert find_cause_hint(Course(share=flat, over=False, events=frozenset({"raid_rebuild"})))[0] == "rebuild"
    assert find_cause_hint(Course(share=flat, over=False, used=0.97))[0] == "full_target"
    assert find_cause_hint(Course(share=flat, over=False, siblings=1.0))[0] == "network"
    assert find_cause_hint(Course(share=flat, over=False, missed=0.9, missed_before=0.2))[0] == "cache_thrashing"
    assert find_cause_hint(Course(share=flat, over=False, follows_job=True))[0] == "one_client"
    assert find_cause_hint(Course(share=flat, over=False, used=0.99, dead=True))[0] == "dead"


def incident(hours: float | None, *, name: str = "t1", **more: object) -> Incident:
    to_ns = None if hours is None else START_NS + int(hours * 3600) * NS
    return Incident(
        id=f"id{hours}{name}",
        layer="target",
        component=name,
        from_ns=START_NS,
        to_ns=to_ns,
        confidence=0.9,
        **{"kind": "degraded", **more},  # type: ignore[arg-type]
    )


def test_durations_are_counted_in_the_classes_of_the_paper() -> None:
    assert [classify_duration(hours * 3600) for hours in (0, 0.99, 1, 4, 11.9, 12, 95, 96, 1e5)] == [
        0,
        0,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    now = START_NS + 200 * 3600 * NS
    (row,) = count_durations([incident(0.5), incident(2), incident(2), incident(None)], now)
    assert (row.layer, row.counts, row.open) == ("target", (1, 2, 0, 0, 1), 1)
    assert set_incident_persistence(incident(0.5), 0, now).persistence == "transient"
    assert set_incident_persistence(incident(0.5), 1, now).persistence == "recurrent"
    assert set_incident_persistence(incident(None), 0, now).persistence == "persistent"


def test_urgency_grows_with_time_and_with_the_size_of_who_is_hit() -> None:
    limits = HealthLimits()
    now = START_NS + 5 * 3600 * NS
    later = START_NS + 97 * 3600 * NS
    assert grade_health_severity(incident(None), now, 10, limits) == "warning"
    assert grade_health_severity(incident(None), later, 10, limits) == "high"
    assert grade_health_severity(incident(None), now, 2000, limits) == "high", "at once for a large job"
    assert grade_health_severity(incident(None), later, 2000, limits) == "critical"
    assert grade_health_severity(incident(None, kind="dead"), now, 0, limits) == "critical"
    assert grade_health_severity(incident(0.5), now, 0, limits) == "info"
    planned = incident(None, evidence=[Evidence(text="planned", metric="maintenance", value="maintenance")])
    assert grade_health_severity(planned, later, 2000, limits) == "info", "work that was announced is no alarm"


def test_findings_name_the_component_its_jobs_and_what_to_do() -> None:
    jobs = pa.Table.from_batches([build_table_batch(JOBS, {"job_id": ["7"], "nodes_count": [4096]})])
    asked: list[tuple[object, ...]] = []

    def advise(*given: object) -> list[object]:
        asked.append(given)
        return []

    one = incident(None, jobs=["7\x1b[31m"], share_of_peak=0.2, hint="network")
    (large,) = build_health_findings([incident(None, jobs=["7"], share_of_peak=0.2)], START_NS, jobs=jobs)
    (found,) = build_health_findings([one], START_NS, cluster="c", jobs=jobs, advise=advise)  # type: ignore[arg-type]
    assert large.finding.severity == "high"
    assert found.finding.rule == "component.degraded"
    assert (found.finding.subject.kind, found.finding.subject.id) == ("target", "t1")
    assert found.finding.category == "network"
    assert asked == [("component.degraded", "network", {"component": "t1", "share_of_peak": 0.2}, "target")]
    assert "\x1b" not in "".join(fact.text for fact in found.finding.evidence)
    assert found.finding.id == build_health_findings([one], START_NS + 10**15, cluster="c")[0].finding.id, (
        "no clock in it"
    )
    dead = build_health_findings([incident(None, kind="dead")], START_NS)[0]
    assert dead.finding.rule == "component.dead"
    assert LIMITS.minimum_s == 120
