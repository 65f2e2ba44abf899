"""Who is accused of what, on simulated planes: the guilty by name, and nobody where nobody is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.tables import FORWARDER, JOBS, TARGET, build_empty_table, build_table_batch
from fairlead.explain.analysis.culprits import Judgement, judge_culprits
from path_simulation import EDGES_NS, MIB, Plane, Process, checkpoints, flood, metadata

Tables = dict[str, pa.Table]


def _jobs(seed: int = 1) -> list[Process]:
    """Job 101 and 103 at f0, job 102 at f1."""
    return [
        *checkpoints("101", "f0", 2, seed=seed, every_s=0.2),
        *checkpoints("102", "f1", 2, seed=seed + 1, every_s=0.1, writes=6, size=MIB // 2),
        *metadata("103", "f0", 1, seed=seed + 2),
    ]


def _slowed(target: str, start: float, end: float, times: float = 6.0) -> Plane:
    return Plane(rate=lambda name, at: (40 / times if name == target and start < at < end else 40) * MIB)


def _judged(tables: Tables) -> Judgement:
    return judge_culprits(tables, EDGES_NS)[0]


def _accused(judgement: Judgement) -> set[tuple[str, str]]:
    return {(one.kind, one.culprit) for one in judgement.verdicts}


@pytest.mark.parametrize("target", ["t0", "t3"])
def test_a_slow_target_is_named_with_its_figures(target: str) -> None:
    judgement = _judged(_slowed(target, 6, 14).run(_jobs(), 20))
    assert _accused(judgement) == {("slow_target", target)}
    (verdict,) = judgement.verdicts
    assert verdict.confidence > 0.8
    assert set(verdict.victims) == {"101", "102"}
    assert min(verdict.lost_s.values()) > 1
    assert f"Each MiB took {target} " in verdict.evidence[0]
    assert "3 peers" in verdict.evidence[0]
    assert judgement.nobody is None


def test_the_disturbing_job_is_named_and_its_victims() -> None:
    judgement = _judged(Plane().run(_jobs() + flood("102", "f0", 12, seed=9, start=7, end=14), 20))
    assert _accused(judgement) == {("disturber", "102")}
    (verdict,) = judgement.verdicts
    assert set(verdict.victims) == {"101", "103"}
    assert verdict.where == ["f0"]
    assert verdict.lost_s["101"] > 1
    assert "nine of ten requests of job 101 waited" in " ".join(verdict.evidence)


def test_both_at_once_are_told_apart() -> None:
    plane = _slowed("t1", 3, 9)
    judgement = _judged(plane.run(_jobs() + flood("102", "f0", 12, seed=9, start=11, end=18), 22))
    assert _accused(judgement) == {("slow_target", "t1"), ("disturber", "102")}


@pytest.mark.parametrize("seed", range(6))
def test_bursty_but_innocent_jobs_are_not_accused(seed: int) -> None:
    busy = [
        *checkpoints("101", "f0", 3, seed=seed, every_s=2.0),
        *checkpoints("102", "f0", 2, seed=seed + 1, every_s=3.1, writes=20),
        *metadata("103", "f0", 2, seed=seed),
    ]
    judgement = _judged(Plane(workers=8, seed=seed, noise=0.5).run(busy, 25))
    assert not judgement.verdicts
    assert judgement.nobody


def test_a_machine_that_is_slow_everywhere_has_no_slow_target() -> None:
    plane = Plane(rate=lambda _target, at: (7 if at > 8 else 40) * MIB)
    assert not _judged(plane.run(_jobs(), 20)).verdicts


@pytest.mark.parametrize("seen", [False, True])
def test_a_target_that_is_asked_more_is_not_slow(seen: bool) -> None:
    hot = [Process("104", "f1", lambda _now: ("write", MIB, "t1")) for _ in range(4)]
    assert not _judged(Plane(device_queue_is_service=seen).run(_jobs() + hot, 20)).verdicts


def test_an_idle_target_is_neither_slow_nor_a_peer() -> None:
    processes = checkpoints("101", "f0", 2, seed=3, every_s=0.2, targets=3)
    judgement = _judged(_slowed("t1", 5, 12).run(processes, 18))
    assert _accused(judgement) == {("slow_target", "t1")}
    assert judgement.verdicts[0].evidence[0].count("its 2 peers") == 1


def test_two_targets_cannot_be_held_against_each_other() -> None:
    processes = checkpoints("101", "f0", 2, seed=3, every_s=0.2, targets=2)
    assert not _judged(_slowed("t1", 5, 12).run(processes, 18)).verdicts


def test_a_short_hiccup_is_not_enough() -> None:
    assert not _judged(_slowed("t1", 6.0, 7.5).run(_jobs(), 20)).verdicts


def test_too_few_requests_are_not_enough() -> None:
    rare = checkpoints("101", "f0", 1, seed=4, every_s=6.0, writes=4)
    assert not _judged(_slowed("t1", 0, 20).run(rare, 20)).verdicts


def test_larger_requests_at_one_target_are_not_slowness() -> None:
    """One job writes 4 MiB pieces to t1 only, another 64 KiB pieces to the others."""
    large = [Process("101", "f0", lambda _now: ("write", 4 * MIB, "t1"))]
    small = [
        Process("101", "f0", lambda _now, at=at: ("write", MIB // 16, f"t{at}")) for at in (0, 2, 3) for _ in range(2)
    ]
    assert not _judged(Plane().run([*large, *small], 15)).verdicts


def test_those_who_wait_for_a_slow_target_are_not_disturbers() -> None:
    """Requests to the slow target hold the few workers; the others wait, but no job asked for more."""
    crowd = [*_jobs(), *checkpoints("105", "f0", 6, seed=8, every_s=0.05)]
    plane = _slowed("t2", 6, 14, times=10)
    assert _accused(_judged(plane.run(crowd, 22))) <= {("slow_target", "t2")}


def test_loads_without_a_job_are_not_accused_but_may_suffer() -> None:
    tables = Plane().run(_jobs() + flood("", "f0", 12, seed=9, start=7, end=14), 20)
    assert not [one for one in _judged(tables).verdicts if one.culprit == ""]


def test_costs_of_a_run_need_the_number_of_processes() -> None:
    tables = _slowed("t1", 6, 14).run(_jobs(), 20)
    assert not _judged(tables).verdicts[0].cost_s
    jobs = pa.Table.from_batches([build_table_batch(JOBS, {"job_id": ["101"], "processes": [2]})])
    (verdict,) = _judged(tables | {"jobs": jobs}).verdicts
    assert verdict.cost_s == {"101": pytest.approx(verdict.lost_s["101"] / 2, abs=1e-3)}


def test_no_records_accuse_nobody() -> None:
    for tables in ({}, {"forwarder": build_empty_table(FORWARDER), "target": build_empty_table(TARGET)}):
        judgement = _judged(tables)
        assert not judgement.verdicts
        assert judgement.nobody


def test_records_without_histograms_are_judged_as_far_as_they_go() -> None:
    tables = _slowed("t1", 6, 14).run(_jobs(), 20)
    bare = {
        name: table.set_column(
            table.schema.get_field_index("service_ns_histogram"),
            table.schema.field("service_ns_histogram"),
            pa.nulls(len(table), pa.list_(pa.int64())),
        )
        for name, table in tables.items()
    }
    assert not _judged(bare).verdicts


def test_coarse_histograms_of_one_bin_an_octave_serve_as_well() -> None:
    from fairlead.explain.analysis.component_flows import estimate_flow_quantile_s, sum_flow_histogram_s

    edges = np.concatenate([[0.0], 2.0 ** np.arange(0, 40)])
    counts = np.zeros((1, 40))
    counts[0, np.searchsorted(edges, 25e6) - 1] = 10
    assert sum_flow_histogram_s(counts, edges)[0] == pytest.approx(0.25, rel=0.45)
    assert estimate_flow_quantile_s(counts, edges, 0.5)[0] == pytest.approx(0.025, rel=0.45)


def test_targets_that_do_not_know_jobs_name_victims_by_the_forwarder() -> None:
    tables = _slowed("t1", 6, 14).run(_jobs(), 20)
    target = tables["target"]
    at = target.schema.get_field_index("job_id")
    tables["target"] = target.set_column(
        at, target.schema.field(at), pa.nulls(len(target), target.schema.field(at).type)
    )
    (verdict,) = _judged(tables).verdicts
    assert verdict.culprit == "t1"
    assert set(verdict.victims) == {"101", "102"}
    assert verdict.lost_s["101"] > 1
