"""The published generator: streams that do not move one another, its load, the figures known of published policies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide import registered_policies
from fairlead.decide.policies.allocation.contract import build_allocation_pool
from fairlead.decide.sim.cycles.cycle_measures import compute_cycle_measures
from fairlead.decide.sim.cycles.cycle_model import Window, simulate_cycles
from fairlead.decide.sim.workloads.profiles import read_forge_profiles
from fairlead.decide.sim.workloads.published_sets import CYCLE_S, DrawnSet, compute_published_ratio, draw_published_set


def io_share(drawn: DrawnSet) -> np.ndarray:
    """t(1) / (T + t(1)) of each application."""
    a = drawn.applications
    return a.volume / a.bandwidth[:, 0] / CYCLE_S


def test_more_applications_do_not_move_those_there_were() -> None:
    few, many = (
        draw_published_set(read_forge_profiles(), 0.5, 30, (4, 2)),
        draw_published_set(read_forge_profiles(), 0.5, 100, (4, 2)),
    )
    np.testing.assert_array_equal(few.scenario, many.scenario[:30])
    np.testing.assert_array_equal(np.diff(few.cycles.first_phase), np.diff(many.cycles.first_phase)[:30])
    ratio = [(1.0 / io_share(d) - 1.0) / compute_published_ratio(0.5, 20, k) for d, k in ((few, 30), (many, 100))]
    np.testing.assert_allclose(ratio[0], ratio[1][:30])


def test_another_load_moves_nothing_but_the_load() -> None:
    low, high = (
        draw_published_set(read_forge_profiles(), 0.2, 30, 7),
        draw_published_set(read_forge_profiles(), 0.9, 30, 7),
    )
    np.testing.assert_array_equal(low.scenario, high.scenario)
    np.testing.assert_array_equal(low.applications.cores, high.applications.cores)
    np.testing.assert_array_equal(low.cycles.first_phase, high.cycles.first_phase)
    assert (io_share(low) <= io_share(high)).all()
    assert low.load < high.load


def test_other_profiles_move_no_other_draw() -> None:
    median, longest = (
        draw_published_set(read_forge_profiles(), 0.5, 30, 7),
        draw_published_set(read_forge_profiles("max"), 0.5, 30, 7),
    )
    np.testing.assert_array_equal(median.applications.compute_s, longest.applications.compute_s)
    np.testing.assert_array_equal(median.cycles.skip_s, longest.cycles.skip_s)


@pytest.mark.parametrize(("theta", "applications"), [(0.15, 30), (0.8, 30), (1.2, 30), (0.8, 100), (2.0, 60)])
def test_load_on_one_resource_each_is_theta_in_the_mean(theta: float, applications: int) -> None:
    loads = [
        io_share(draw_published_set(read_forge_profiles(), theta, applications, (theta > 1, i))).sum() / 20
        for i in range(400)
    ]
    error = np.std(loads) / np.sqrt(len(loads))
    assert abs(np.mean(loads) - theta) < 4 * error
    assert error < 0.02 * theta + 0.005


def test_cores_are_held_as_published() -> None:
    held = np.sort(draw_published_set(read_forge_profiles(), 0.5, 100, 1).applications.cores)[::-1]
    np.testing.assert_allclose([held[:10].sum(), held[10:40].sum(), held[40:].sum()], [360.0, 96.0, 24.0])


@pytest.mark.parametrize("theta", [0.0, 1.5, -1.0, np.nan])
def test_a_load_no_set_can_have_is_refused(theta: float) -> None:
    with pytest.raises(UsageError) as told:
        draw_published_set(read_forge_profiles(), theta, 30, 1)
    assert told.value.where == "load"


KNOWN = {
    (0.1, 0.3): {
        "best-bandwidth": (1.64, 0.107),
        "n-sys": (2.64, 0.116),
        "tcpu": (1.64, 0.107),
        "static": (4.77, 0.130),
        "random": (4.19, 0.166),
    },
    (0.7, 0.9): {
        "best-bandwidth": (3.59, 0.596),
        "n-sys": (4.63, 0.582),
        "tcpu": (3.57, 0.513),
        "static": (5.78, 0.567),
        "random": (8.79, 0.708),
    },
}
"""Mean slowdown and idle time of 25 other sets of K = 30 by another program, Greedy-Non-Clairvoyant placement."""


@pytest.mark.parametrize("band", KNOWN)
def test_published_policies_come_out_as_another_program_has_them(band: tuple[float, float]) -> None:
    """Window: 5,000 s to 30,000 s of applications that repeat. Within three sampling errors of 25 sets and 40."""
    sets: list[DrawnSet] = []
    seed = 0
    while len(sets) < 40:
        seed += 1
        theta = np.random.default_rng((7, seed)).uniform(0.05, 1.4)
        drawn = draw_published_set(read_forge_profiles(), theta, 30, (11, seed))
        if band[0] <= drawn.load < band[1]:
            sets.append(drawn)
    window = Window(from_s=CYCLE_S, until_s=6 * CYCLE_S)
    for name, known in KNOWN[band].items():
        policy = registered_policies.find_registered_policy(f"{name}+greedy-non-clairvoyant")
        found = []
        for number, drawn in enumerate(sets):
            a = drawn.applications
            decision = policy.decide(a, build_allocation_pool(20, drawn.cores), np.random.default_rng((5, number)))
            work = a.time_s[np.arange(30), decision.choice]
            out = simulate_cycles(drawn.cycles, decision.resources, work, 20, window)
            told = compute_cycle_measures(out, a.time_s.min(axis=1), work, a.compute_s, a.cores, drawn.cores)
            found.append((told.mean, told.idle))
        error = np.std(found, axis=0, ddof=1) * np.sqrt(1 / 25 + 1 / 40)
        assert (np.abs(np.mean(found, axis=0) - known) < 3 * error).all(), (name, np.mean(found, axis=0), known, error)


def test_the_study_s_own_window_is_measured_where_there_is_one() -> None:
    drawn = draw_published_set(read_forge_profiles(), 0.2, 30, (1, 3))
    a = drawn.applications
    decision = registered_policies.find_registered_policy("best-bandwidth+greedy-non-clairvoyant").decide(
        a, build_allocation_pool(20, drawn.cores), np.random.default_rng(1)
    )
    work = a.time_s[np.arange(30), decision.choice]
    cycles = replace(drawn.cycles, repeat=False)
    out = simulate_cycles(
        cycles, decision.resources, work, 20, Window(until_s=np.inf, settled=True, undisturbed=True), logged=True
    )
    first = [out.log[out.log[:, 0] == i, 3].min() for i in range(30)]
    assert out.from_s == max(first)
    assert out.until_s == np.nanmin(out.end_s) > out.from_s
