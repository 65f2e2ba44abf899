"""Applications in cycles against closed forms to 1e-9, what is refused, and how windows are measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide.sim.cycles.cycle_measures import compute_cycle_measures
from fairlead.decide.sim.cycles.cycle_model import Cycles, Outcome, Sharing, Speeds, Window, simulate_cycles

EXACT = {"rtol": 1e-9, "atol": 0.0}
TO_THE_END = Window(until_s=np.inf)


def once(start_s: object, **more: object) -> Cycles:
    """Applications of one phase each, without computing, which then end."""
    start = np.asarray(start_s, float)
    k = len(start)
    columns: dict[str, object] = {
        "first_phase": np.arange(k + 1),
        "compute_s": np.zeros(k),
        "share": np.ones(k),
        "start_s": start,
        "skip_s": np.zeros(k),
        "repeat": False,
    }
    return Cycles(**(columns | more))  # type: ignore[arg-type]


def on_one(k: int) -> np.ndarray:
    """Everyone on resource 0."""
    return np.zeros((k, 1), np.int64)


def ends(cycles: Cycles, work_s: object, resources: np.ndarray | None = None, count: int = 1, **more: object) -> object:
    work = np.asarray(work_s, float)
    rows = on_one(len(work)) if resources is None else resources
    return simulate_cycles(cycles, rows, work, count, TO_THE_END, **more).end_s  # type: ignore[arg-type]


def test_one_application_alone_takes_its_own_time() -> None:
    cycles = Cycles.build_equal([3], [6.0], skip_s=[0.5], repeat=False)
    out = simulate_cycles(cycles, np.array([[1, 0]]), np.array([4.5]), 2, TO_THE_END, logged=True)
    # 2 s of computing less the half already over, then 1.5 s of I/O, three times.
    np.testing.assert_allclose(out.log, [[0, 0, 1.5, 3.0], [0, 1, 5.0, 6.5], [0, 2, 8.5, 10.0]], **EXACT)
    np.testing.assert_allclose([out.io_s[0], out.waiting_s[0], *out.busy_s], [4.5, 4.5, 4.5, 4.5], **EXACT)
    assert (out.phases[0], out.io_share[0], out.until_s) == (3, pytest.approx(1.0), 10.0)


def test_equal_share_ends_when_the_closed_form_says() -> None:
    """With works w1 <= w2 <= ..., the k-th ends at w1 + ... + wk + (n - k) wk."""
    work = np.sort(np.random.default_rng(5).uniform(1.0, 100.0, 40))
    k = np.arange(1, 41)
    np.testing.assert_allclose(ends(once(np.zeros(40)), work), np.cumsum(work) + (40 - k) * work, **EXACT)


def test_staggered_starts() -> None:
    # Alone until 2 (2 of 6 done), two until 5 (the second's 1.5 of 2), three share until the second ends at 6.5, ...
    np.testing.assert_allclose(ends(once([0.0, 2.0, 5.0]), [6.0, 2.0, 4.0]), [10.5, 6.5, 12.0], **EXACT)


def test_weighted_shares() -> None:
    # 1:3 until the second ends at 8; then the first alone.
    sharing = Sharing(queue=np.array([0, 1]), weight=np.array([1.0, 3.0]))
    np.testing.assert_allclose(ends(once([0.0, 0.0]), [5.0, 6.0], sharing=sharing), [11.0, 8.0], **EXACT)


def test_weights_decades_apart_stay_exact() -> None:
    """What a heavy queue's coming and going leaves of a light one's weight, and a clock that ran far for it."""
    turns, light = 2000, 1e-6
    cycles = Cycles(
        first_phase=np.array([0, 1, 1 + turns]),
        compute_s=np.concatenate([[0.0], np.full(turns, 1.0)]),
        share=np.concatenate([[1.0], np.full(turns, 1.0 / turns)]),
        start_s=np.zeros(2),
        skip_s=np.zeros(2),
        repeat=False,
    )
    sharing = Sharing(queue=np.array([0, 1]), weight=np.array([light, 1e3]))
    out = simulate_cycles(cycles, on_one(2), np.array([1e5, float(turns)]), 1, TO_THE_END, sharing=sharing)
    # Each of the heavy one's seconds of I/O takes 1 + light / 1e3; the light one waits for all of them.
    np.testing.assert_allclose(out.end_s, [1e5 + turns, turns * (2.0 + light / 1e3)], **EXACT)


def test_exclusive_is_first_come_first_served() -> None:
    one_queue = Sharing(queue=np.zeros(4, np.int64), weight=np.ones(1))
    found = ends(once([0.0, 2.0, 1.0, 20.0]), [3.0, 2.0, 4.0, 1.0], sharing=one_queue)
    np.testing.assert_allclose(found, [3.0, 9.0, 7.0, 21.0], **EXACT)


def test_queues_that_share_serve_their_own_one_after_the_other() -> None:
    # Two of queue 0 and one of queue 1, all at 0: each queue half. The first of queue 0 ends at 2, its second at 5.
    sharing = Sharing(queue=np.array([0, 0, 1]), weight=np.ones(2))
    np.testing.assert_allclose(ends(once(np.zeros(3)), [1.0, 2.0, 2.0], sharing=sharing), [2.0, 5.0, 4.0], **EXACT)


def test_speeds_that_change_and_what_is_busy_meanwhile() -> None:
    speeds = Speeds(
        initial=np.array([2.0]),
        time_s=np.array([1.0, 3.0, 4.0]),
        resource=np.zeros(3, np.int64),
        speed=np.array([0.0, 0.5, 1.0]),
    )
    out = simulate_cycles(once([0.0]), on_one(1), np.array([4.0]), 1, TO_THE_END, speeds=speeds)
    # 2 until 1, nothing until 3, half a second's work until 4, the last 1.5 by 5.5: busy, dead or not, all the while.
    np.testing.assert_allclose([out.end_s[0], out.busy_s[0], out.io_s[0]], [5.5, 5.5, 5.5], **EXACT)


def test_a_subphase_ends_with_its_last_transfer() -> None:
    # Application 0 on both resources, 1 on the second only: 0 waits for the shared one.
    found = simulate_cycles(once([0.0, 0.0]), np.array([[0, 1], [1, -1]]), np.array([2.0, 3.0]), 2, TO_THE_END)
    np.testing.assert_allclose(found.end_s, [4.0, 5.0], **EXACT)
    np.testing.assert_allclose(found.busy_s, [2.0, 5.0], **EXACT)


def test_an_application_without_resources_meets_nobody() -> None:
    rows = np.array([[-1], [0], [0]])
    np.testing.assert_allclose(ends(once(np.zeros(3)), [3.0, 3.0, 3.0], rows), [3.0, 6.0, 6.0], **EXACT)


def test_a_dead_resource_holds_its_own_and_is_measured_to_the_last_event() -> None:
    speeds = Speeds(initial=np.array([0.0, 1.0]))
    out = simulate_cycles(once([1.0, 0.0]), np.array([[0], [1]]), np.array([1.0, 5.0]), 2, TO_THE_END, speeds=speeds)
    assert np.isnan(out.end_s[0])
    np.testing.assert_allclose([out.end_s[1], out.until_s, out.waiting_s[0], out.busy_s[0]], [5.0, 5.0, 4.0, 4.0])


def test_zero_work_takes_no_time() -> None:
    cycles = Cycles.build_equal([2, 2], [4.0, 4.0], repeat=False)
    out = simulate_cycles(cycles, on_one(2), np.array([0.0, 2.0]), 1, TO_THE_END)
    assert out.end_s.tolist() == [4.0, 6.0]
    assert out.phases.tolist() == [2, 2]


def test_nobody_at_all() -> None:
    out = simulate_cycles(Cycles.build_equal([], []), np.zeros((0, 4), np.int64), np.zeros(0), 3, Window(until_s=10.0))
    assert (out.events, out.busy_s.tolist(), out.window_s) == (0, [0.0] * 3, 10.0)
    nothing = compute_cycle_measures(out, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), 480.0)
    assert (nothing.idle, nothing.spread, nothing.unfinished) == (0.0, 0.0, 0)
    assert np.isnan(nothing.mean)


def test_long_after_the_origin() -> None:
    """Seconds of a year: nothing but the rounding of the clock itself is lost."""
    start = 3.0e7
    found = ends(once([start, start + 2.0, start + 5.0]), [6.0, 2.0, 4.0])
    np.testing.assert_allclose(np.asarray(found) - start, [10.5, 6.5, 12.0], rtol=0, atol=4 * np.spacing(start))


def two_beside(window: Window, *, repeat: bool) -> Outcome:
    """Each computes 2 s and moves 1 s of work, twice; both on one resource, the second 0.5 s later."""
    cycles = replace(Cycles.build_equal([2, 2], [4.0, 4.0], repeat=repeat), start_s=np.array([0.0, 0.5]))
    return simulate_cycles(cycles, on_one(2), np.array([2.0, 2.0]), 1, window)


def test_the_window_cuts_what_it_counts() -> None:
    # First I/O: 2 to 3.5 and 2.5 to 4; second: 5.5 to 7 and 6 to 7.5.
    whole = two_beside(Window(until_s=np.inf), repeat=False)
    np.testing.assert_allclose([*whole.end_s, *whole.waiting_s, *whole.busy_s], [7.0, 7.5, 3.0, 3.0, 4.0], **EXACT)
    part = two_beside(Window(from_s=3.0, until_s=6.5), repeat=False)
    assert part.phases.tolist() == [0, 0]  # none began and ended within
    np.testing.assert_allclose([*part.waiting_s, *part.busy_s], [0.5 + 1.0, 1.0 + 0.5, 1.0 + 1.0], **EXACT)


def test_the_study_s_own_window_is_from_all_settled_to_the_first_end() -> None:
    out = two_beside(Window(until_s=100.0, settled=True, undisturbed=True), repeat=False)
    assert (out.from_s, out.until_s) == (4.0, 7.0)
    assert out.phases.tolist() == [1, 0]
    np.testing.assert_allclose([*out.io_s, *out.waiting_s, *out.busy_s], [1.5, 0.0, 1.5, 1.0, 1.5], **EXACT)


def test_a_window_that_never_opens_measures_nothing() -> None:
    for window in (Window(until_s=3.0, settled=True), Window(from_s=9.0, until_s=3.0)):
        out = two_beside(window, repeat=True)
        assert (out.window_s, out.phases.sum(), out.io_s.sum(), out.waiting_s.sum(), out.busy_s.sum()) == (
            0,
            0,
            0,
            0,
            0,
        )
    one = np.ones(2)
    told = compute_cycle_measures(out, one, one, one, one, 2.0)
    assert told.unfinished == 2
    assert np.isnan([told.mean, told.idle, told.fairness, *told.occupancy]).all()


def test_the_study_s_measures_of_a_small_case() -> None:
    out = two_beside(Window(until_s=12.0, from_s=0.0), repeat=True)
    got = compute_cycle_measures(
        out, np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.array([4.0, 4.0]), np.array([1.0, 3.0]), 8.0
    )
    # Each phase of 1 s takes 1.5: 3 over 2 phases; application 0 could have had 1 s in all with more resources.
    np.testing.assert_allclose(got.slowdown, [3.0, 1.5], **EXACT)
    np.testing.assert_allclose([got.granted[0], got.contention[0], got.stretch[0]], [2.0, 1.0, 7.0 / 5.0], **EXACT)
    assert got.idle == pytest.approx((out.waiting_s @ [1.0, 3.0]) / (12.0 * 8.0))
    assert got.fairness == pytest.approx((1 / 3 + 1 / 1.5) ** 2 / (2 * (1 / 9 + 1 / 2.25)))


def _speeds(time_s: object, resource: object, speed: object) -> Speeds:
    return Speeds(initial=np.ones(2), time_s=time_s, resource=resource, speed=speed)  # type: ignore[arg-type]


GOOD = Cycles.build_equal([1, 1], [1.0, 1.0])
ROWS = np.array([[0, 1], [1, -1]])


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("compute_s", {"cycles": replace(GOOD, compute_s=np.array([np.nan, 1.0]))}),
        ("compute_s", {"cycles": Cycles.build_equal([1, 1], [0.0, 1.0]), "work_s": np.array([0.0, 1.0])}),
        ("share", {"cycles": replace(GOOD, share=np.array([-1.0, 1.0]))}),
        ("share", {"cycles": replace(GOOD, share=np.ones(3))}),
        ("start_s", {"cycles": replace(GOOD, start_s=np.array([0.0, np.inf]))}),
        ("skip_s", {"cycles": replace(GOOD, skip_s=np.array([0.0, -1.0]))}),
        ("skip_s", {"cycles": replace(GOOD, skip_s=np.zeros(1))}),
        ("first_phase", {"cycles": replace(GOOD, first_phase=np.array([0, 0, 2]))}),
        ("first_phase", {"cycles": replace(GOOD, first_phase=np.array([0, 1, 9]))}),
        ("work_s", {"work_s": np.array([1.0, -1.0])}),
        ("work_s", {"work_s": np.array([1.0, np.inf])}),
        ("work_s", {"work_s": np.ones(3)}),
        ("resources", {"resources": np.array([[0, 0], [1, -1]])}),
        ("resources", {"resources": np.array([[0, 2], [1, -1]])}),
        ("resources", {"resources": np.array([[-1, 1], [1, -1]])}),
        ("resources", {"resources": np.array([0, 1])}),
        ("until_s", {"window": Window(until_s=np.nan)}),
        ("until_s", {"window": Window(until_s=np.inf)}),
        ("until_s", {"window": Window(until_s=1e18)}),
        ("until_s", {"window": Window(until_s=-1.0)}),
        ("from_s", {"window": Window(until_s=1.0, from_s=np.nan)}),
        ("queue", {"sharing": Sharing(queue=np.array([0, 2]), weight=np.ones(2))}),
        ("queue", {"sharing": Sharing(queue=np.array([0, -1]), weight=np.ones(2))}),
        ("weight", {"sharing": Sharing(queue=np.array([0, 1]), weight=np.array([1.0, np.nan]))}),
        ("weight", {"sharing": Sharing(queue=np.array([0, 1]), weight=np.array([1.0, 0.0]))}),
        ("initial", {"speeds": Speeds(initial=np.ones(3))}),
        ("initial", {"speeds": Speeds(initial=np.array([1.0, -1.0]))}),
        ("time_s", {"speeds": _speeds(np.array([2.0, 1.0]), np.zeros(2, int), np.ones(2))}),
        ("time_s", {"speeds": _speeds(np.array([-1.0]), np.zeros(1, int), np.ones(1))}),
        ("speed", {"speeds": _speeds(np.array([1.0]), np.zeros(1, int), np.array([np.nan]))}),
        ("resource", {"speeds": _speeds(np.array([1.0]), np.array([2]), np.ones(1))}),
    ],
)
def test_what_fits_no_run_is_refused_by_name(field: str, change: dict[str, object]) -> None:
    given: dict[str, object] = {
        "cycles": GOOD,
        "resources": ROWS,
        "work_s": np.ones(2),
        "count": 2,
        "window": Window(until_s=9.0),
    }
    simulate_cycles(**given)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as told:
        simulate_cycles(**(given | change))  # type: ignore[arg-type]
    assert told.value.where == field
