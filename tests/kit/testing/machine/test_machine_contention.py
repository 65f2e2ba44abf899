"""Slowdown is not put in, it comes out of shares: the published co-run in kind, ceiling of N-1, faults, labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairlead.decide.sim.faults import KINDS, Fault, build_fault_changes
from fairlead.decide.sim.platform import build_small_platform, build_taihulight_platform
from fairlead.decide.sim.steps import Step
from fairlead.kit.testing.machine import Play, scenes, truth_labels
from fairlead.kit.testing.machine.population import (
    HIGH_MDOPS_SHARE,
    MODE_JOBS,
    MODES,
    NONTRIVIAL_SHARE,
    Mix,
    draw_population_jobs,
)

GIB = 1 << 30


def mean_wait_ms(play: Play, number: int, from_s: int, to_s: int) -> tuple[float, float]:
    """Mean wait and service of the requests of a job's data in a span."""
    course = play.course
    place = next(i for i, job in enumerate(course.jobs) if job.drawn.number == number)
    t = play.build_traffic(from_s, to_s)
    mine = (course.job[t.flow] == place) & (course.op[t.flow] < 2)
    requests = t.count[mine].sum()
    wait, busy = t.wait_s[mine].sum(), t.busy_s[mine].sum()
    return 1e3 * wait / requests, 1e3 * (busy - wait) / requests


def test_a_serial_job_waits_beside_an_n_to_1_job_which_does_not() -> None:
    """Beacon: 2.73 ms -> 30.06 ms (11x) for the 1-1 job, no change for the N-1 job."""
    alone, together = scenes.build_co_run_scene(together=False), scenes.build_co_run_scene()
    _, service = mean_wait_ms(alone, 1, 25, 60)
    wait, same_service = mean_wait_ms(together, 1, 25, 80)
    assert service == pytest.approx(2.9, abs=0.1)
    assert same_service == pytest.approx(service, rel=0.01)
    assert 8 < (wait + same_service) / service < 14
    before, after = mean_wait_ms(together, 0, 2, 18), mean_wait_ms(together, 0, 25, 80)
    assert after[0] + after[1] == pytest.approx(before[0] + before[1], rel=0.02)


@pytest.mark.parametrize("nodes", [4, 8, 16, 32])
def test_n_to_1_stays_below_250_megabytes_whatever_n(nodes: int) -> None:
    step = Step(op="write", volume=8 * GIB, request=1 << 20, writers=4 * nodes, files=1, stripes=4, contested=True)
    play = scenes.build_scene_play([(scenes.build_scene_job(0, [step], nodes), 0.0, 0)], 120)
    course = play.course
    took = course.phase_ended[course.jobs[0].io_phases[0]] - course.phase_begun[course.jobs[0].io_phases[0]]
    assert 240e6 < 8 * GIB / took <= 250.1e6


def test_own_files_grow_with_n_until_the_forwarder_is_full() -> None:
    rates = []
    for nodes in (2, 8, 16):
        step = Step(op="write", volume=4 * GIB, writers=4 * nodes, files=4 * nodes)
        play = scenes.build_scene_play([(scenes.build_scene_job(0, [step], nodes), 0.0, 0)], 120)
        course = play.course
        phase = course.jobs[0].io_phases[0]
        rates.append(4 * GIB / (course.phase_ended[phase] - course.phase_begun[phase]) / 1e6)
    assert rates == pytest.approx([180, 720, 1440], rel=0.02)


def test_a_metadata_storm_slows_who_shares_its_forwarder() -> None:
    storm = Step(op="getattr", each=4_000, writers=60, files=60, label="tmp")
    quiet = Step(op="write", volume=GIB, request=64 << 10, writers=4, files=4)
    busy = scenes.build_scene_job(0, [storm], 15, mode="N-N"), 0.0, 0
    beside, apart = (scenes.build_scene_job(1, [quiet], 1), 1.0, 15), (scenes.build_scene_job(1, [quiet], 1), 1.0, 16)
    took = []
    for where in (beside, apart):
        course = scenes.build_scene_play([busy, where], 400).course
        phase = course.jobs[1].io_phases[0]
        took.append(course.phase_ended[phase] - course.phase_begun[phase])
    assert took[0] > 2 * took[1]


def test_labels_are_what_the_counterfactual_says() -> None:
    play = scenes.build_slow_target_scene()
    (label,) = truth_labels.build_truth_labels(play)
    assert (label.kind, label.component, label.layer, label.factor) == ("degraded", "scratch-OST0003", "target", 0.1)
    (victim,) = label.victims
    well, ill = play.leave_out(faults=()).course.jobs[0], play.course.jobs[0]
    assert victim.cost_s == pytest.approx(ill.end_s - well.end_s, abs=0.01)
    assert victim.cost_s > 5


def test_interference_is_labelled_with_culprit_victim_and_cost(tmp_path: Path) -> None:
    play = scenes.build_co_run_scene()
    (label,) = truth_labels.build_truth_labels(play)
    assert (label.kind, label.culprit, label.culprit_kind) == ("interference", "100000", "N-1")
    assert [victim.job_id for victim in label.victims] == ["100001"]
    whole = play.to_the_end()
    ended = whole.course.jobs[1].end_s - whole.leave_out(jobs=[0]).course.jobs[0].end_s
    assert label.victims[0].cost_s == pytest.approx(ended, abs=0.1)
    truth_labels.write_truth_labels([label], tmp_path / "truth.json")
    written = json.loads((tmp_path / "truth.json").read_text())
    assert written["simulated"]
    assert written["labels"][0]["victims"][0]["job_id"] == "100001"


def test_without_cause_there_is_no_label() -> None:
    step = Step(op="write", volume=GIB, writers=4, files=4)
    play = scenes.build_scene_play(
        [(scenes.build_scene_job(0, [step], 1), 0.0, 0), (scenes.build_scene_job(1, [step], 1), 0.0, 32)], 60
    )
    assert truth_labels.build_truth_labels(play, culprits=[0, 1]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_ends_whole(kind: str) -> None:
    machine = build_small_platform()
    capacity = machine.compute_capacity()
    made = build_fault_changes(
        machine, [Fault(component="target", number=2, from_s=10, to_s=70, factor=0.3, kind=kind)], capacity
    )
    at = machine.at.target + 2
    course = made.capacity[made.resource == at] / capacity[at]
    assert course[-1] == 1.0
    assert course.min() == pytest.approx(0.0 if kind == "dead" else 0.3)
    assert made.time_s.min() == 10.0
    assert made.time_s.max() == 70.0
    assert (np.diff(made.time_s) >= 0).all()


def test_faults_of_one_component_multiply() -> None:
    machine = build_small_platform()
    two = [Fault(component="mds", number=0, from_s=f, to_s=f + 20, factor=0.5) for f in (0.0, 10.0)]
    made = build_fault_changes(machine, two, machine.compute_capacity())
    assert (made.capacity / float(machine.mds.mdops[0])).tolist() == [0.5, 0.25, 0.5, 1.0]


def test_the_population_is_the_published_one() -> None:
    """Beacon's shares and mean volumes, within the error of 12,000 jobs whose volumes spread by a factor of five."""
    jobs = draw_population_jobs(build_taihulight_platform(), Mix(), 12_000, np.random.default_rng(1))
    kinds = [job.program for job in jobs]
    storms = sum(program.pattern == "storm" for program in kinds) / len(jobs)
    loud = [job for job in jobs if job.program.pattern != "quiet"]
    assert len(loud) / len(jobs) == pytest.approx(NONTRIVIAL_SHARE, abs=0.01)
    assert storms == pytest.approx(HIGH_MDOPS_SHARE, abs=0.002)
    data = [job for job in loud if job.program.pattern != "storm"]
    for mode, published in zip(MODES, MODE_JOBS, strict=True):
        mine = [job for job in data if job.program.mode == mode]
        assert len(mine) / len(data) == pytest.approx(published / sum(MODE_JOBS), abs=0.025)
    for mode, read, write in (("N-N", 96.8, 120.1), ("1-1", 33.0, 142.3)):
        mine = [job for job in data if job.program.mode == mode]
        assert np.mean([job.read_bytes for job in mine]) / 1e9 == pytest.approx(read, rel=0.35)
        assert np.mean([job.write_bytes for job in mine]) / 1e9 == pytest.approx(write, rel=0.35)
    trivial = [job for job in jobs if job.program.pattern == "quiet"]
    assert max(job.read_bytes + job.write_bytes for job in trivial) <= 200_000_000
    runs = np.unique([program.name + program.user for program in kinds], return_counts=True)[1]
    assert runs[runs >= 10].sum() > 0.9 * len(jobs)
