"""The labelled machine: its labels are sound, its noise is the one restated, the same seed gives the same season."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.steps import Step
from fairlead.explain.analysis.interference.scene import VERDICTS
from fairlead.kit.testing.machine.labelled import (
    LABELS,
    build_labelled_play,
    build_labelled_season,
    build_labelled_truth,
    classify_labelled_phases,
    match_labelled_phases,
    read_labelled_play,
)
from fairlead.kit.testing.machine.noise import RunNoise, read_noise_quantiles
from fairlead.kit.testing.machine.phase_truth import (
    LEAST_LOST_S,
    LEAST_LOST_SHARE,
    TruePhase,
    build_phase_truth,
    simulate_phase_ends,
)
from fairlead.kit.testing.machine.scenes import (
    build_co_run_scene,
    build_scene_job,
    build_scene_play,
    build_slow_target_scene,
)
from fairlead.kit.testing.machine.season import build_small_season
from fairlead.kit.testing.machine.views import LAYERS, ORDINARY, View

STEP = Step(op="write")


def test_the_victim_of_an_n_to_1_job_lost_what_the_same_run_without_it_gives_back() -> None:
    together = {one.job_id: one for one in build_phase_truth(build_co_run_scene(seconds=400))}
    (alone,) = build_phase_truth(build_co_run_scene(together=False, seconds=400))
    victim = together["100001"]
    assert victim.ideal_s == pytest.approx(alone.end_s - alone.begin_s, rel=1e-9)
    assert victim.lost_share > 1
    assert (victim.verdict, victim.causes[0].name) == ("n_to_1", "100000")
    assert victim.causes[0].recovered_s == pytest.approx(victim.lost_s, rel=1e-6)


def test_a_job_alone_on_a_sound_machine_lost_nothing() -> None:
    found = build_phase_truth(replace(build_co_run_scene(together=False), noise=RunNoise(5)))
    assert found
    assert all(one.lost_s < 1e-6 and one.verdict is None and not one.causes for one in found)


def test_what_a_fault_took_is_the_components() -> None:
    hurt = [one for one in build_phase_truth(build_slow_target_scene()) if one.lost_s > 1]
    assert hurt
    for one in hurt:
        assert one.verdict == "component"
        assert one.causes[0].kind == "component"
        assert one.causes[0].name == "scratch-OST0003"
        assert one.causes[0].recovered_s > 0.9 * one.lost_s


def test_a_storms_fault_is_named_as_the_records_name_the_metadata_server() -> None:
    storm = Step(op="create", each=2000, writers=64, files=64, label="tmp")
    slow = Fault(component="mds", number=0, from_s=0.0, to_s=200.0, factor=0.2)
    (one,) = build_phase_truth(build_scene_play([(build_scene_job(0, [storm], 16), 0.0, 0)], 300, faults=[slow]))
    assert (one.kind, one.verdict, one.causes[0].name) == ("metadata", "component", "scratch-MDT0000")


def test_many_of_whom_none_alone_takes_half_are_many_neighbours() -> None:
    # Sixteen jobs of one node each on one target of 600 MB/s: each takes a little.
    steps = [Step(op="write", volume=4 << 30, writers=4, files=4, stripes=8)]
    jobs = [(build_scene_job(n, steps, 4, name=f"p{n}"), 0.0, 4 * n) for n in range(16)]
    hurt = [one for one in build_phase_truth(build_scene_play(jobs, 600)) if one.lost_share > 0.2]
    assert hurt
    assert {one.verdict for one in hurt} == {"many_neighbours"}


def test_a_jobs_own_noise_is_no_loss_and_slows_it_as_much_as_it_says() -> None:
    quiet = build_co_run_scene(together=False)
    (usual,) = build_phase_truth(quiet)
    (noisy,) = build_phase_truth(replace(quiet, noise=lambda *_: 0.5))
    assert noisy.ideal_s == pytest.approx(2 * usual.ideal_s, rel=1e-6)
    assert noisy.usual_s == pytest.approx(usual.ideal_s, rel=1e-6)
    assert noisy.lost_s < 1e-6


def test_phases_held_to_when_they_began_end_as_they_did_from_any_time_on() -> None:
    one = build_small_season(1, 1, 600, fault_share=1.0).play(0)
    course = one.course
    everyone = np.ones(len(course.phase_begun), np.bool_)
    for from_s in (0.0, 300.0):
        ended = simulate_phase_ends(course, everyone, one.faults, from_s)
        known = np.isfinite(ended) & np.isfinite(course.phase_ended)
        assert known.sum() > 20
        np.testing.assert_allclose(ended[known], course.phase_ended[known], atol=1e-6)


def test_labels_of_a_season_are_sound_and_the_same_again() -> None:
    season = build_small_season(2, 2, 900, fault_share=1.0)
    whole, again = (
        build_phase_truth(season.play(1)),
        build_phase_truth(build_small_season(2, 2, 900, fault_share=1.0).play(1)),
    )
    assert whole == again
    names = {one.job_id for one in build_phase_truth(season.play(0))}
    assert names.isdisjoint(one.job_id for one in whole)
    for one in whole:
        assert one.ideal_s > 0
        assert one.lost_s >= 0
        if one.verdict is None:
            assert one.lost_s <= LEAST_LOST_S or one.lost_share <= LEAST_LOST_SHARE
        else:
            assert one.verdict in VERDICTS
            assert all(cause.recovered_s <= one.lost_s + 1e-6 for cause in one.causes)
            jobs = {cause.name for cause in one.causes if cause.kind == "job"}
            assert jobs <= set(one.neighbours)


def test_noise_has_the_quantiles_that_are_restated() -> None:
    shares, logs = read_noise_quantiles("quiet")
    noise = RunNoise(3)
    drawn = np.log([noise(n, 0, STEP) for n in range(4000)])
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert np.quantile(drawn, share) == pytest.approx(np.interp(share, shares, logs), abs=0.03)
    assert drawn.min() < -0.3, "the slow tail is there"
    assert RunNoise(3, scale=0.0)(7, 1, STEP) == 1.0
    assert noise(7, 1, STEP) == RunNoise(3)(7, 1, STEP) != RunNoise(4)(7, 1, STEP)
    for name in ("quiet", "well", "all"):
        shares, logs = read_noise_quantiles(name)
        assert (np.diff(shares) > 0).all()
        assert (np.diff(logs) >= 0).all()


def test_observed_phases_carry_the_sum_of_what_is_true_of_them() -> None:
    one = build_labelled_play(build_small_season(1, 1, 600), 0)
    assert one.labels.schema == LABELS
    assert one.labels.num_rows == one.seen.phases.num_rows > 20
    assert one.unseen <= 0.02 * one.truth.num_rows
    seen = one.labels.filter(pa.compute.greater(one.labels["true_phases"], 0))
    whole, part = (sum(table["lost_s"].to_pylist()) for table in (one.truth, seen))
    assert part == pytest.approx(whole, rel=0.02, abs=0.5)
    assert set(np.unique(classify_labelled_phases(one.labels))) <= {-1, 0, 1}


def _true(begin_s: float, end_s: float, lost_s: float) -> TruePhase:
    return TruePhase(
        job_id="1",
        number=0,
        kind="read",
        begin_s=begin_s,
        end_s=end_s,
        ideal_s=end_s - begin_s - lost_s,
        usual_s=end_s - begin_s - lost_s,
        lost_s=lost_s,
        verdict=None,
        causes=(),
        neighbours=(),
    )


def test_a_true_phase_seen_as_two_is_shared_between_them_and_one_not_seen_is_counted() -> None:
    truth = build_labelled_truth([_true(0, 40, 30), _true(90, 100, 0)], 0, 0)
    seen = pa.table(
        {
            "job_id": ["1", "1"],
            "kind": ["read", "read"],
            "start_ns": [0, 30 * 10**9],
            "end_ns": [10 * 10**9, 40 * 10**9],
        }
    )
    labels, unseen = match_labelled_phases(seen, truth, 0)
    assert unseen == 1
    assert labels["lost_s"].to_pylist() == [15.0, 15.0]
    assert classify_labelled_phases(labels).tolist() == [1, 1]


def test_a_site_that_sees_less_has_no_more_than_it_sees() -> None:
    season = build_small_season(1, 1, 300)
    for layer in ("client", "target"):
        one = build_labelled_play(season, 0, View(without=(layer,)))
        assert one.seen.phases.num_rows > 0
        kinds = set(one.seen.rollup["layer"].to_pylist())
        assert not kinds & {*LAYERS[layer], layer}
    ordinary = build_labelled_play(season, 0, ORDINARY)
    assert ordinary.seen.interval_ns == 10 * 10**9
    assert set(ordinary.seen.phases["basis"].to_pylist()) == {"job_stats"}
    assert "N-N" in set(ordinary.seen.phases["mode"].to_pylist())


def test_a_kept_season_reads_as_it_was_made(tmp_path: Path) -> None:
    season = build_small_season(1, 1, 300)
    (made,) = build_labelled_season(season, folder=tmp_path)
    back = read_labelled_play(tmp_path, 0)
    assert back.labels.equals(made.labels)
    assert back.truth.equals(made.truth)
    assert back.seen.phases.to_pylist() == made.seen.phases.to_pylist()
    (again,) = build_labelled_season(season, folder=tmp_path)
    assert again.labels.equals(made.labels)
