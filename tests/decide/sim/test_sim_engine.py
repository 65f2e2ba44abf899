"""The fluid engine against cases whose answer is known, and the promises it makes of exactness and order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide.sim.engine import BY_CAP, Changes, Engine, Phases, compute_max_min_rates


def phases(amount: list[float], crosses: list[list[int]], **more: object) -> Phases:
    """One phase a flow, all begun at 0 unless told."""
    n = len(amount)
    columns: dict[str, object] = {
        "after": np.full(n, -1, np.int32),
        "delay_s": np.zeros(n),
        "phase": np.arange(n, dtype=np.int32),
        "amount": np.array(amount, float),
        "weight": np.ones(n),
        "cap": np.full(n, np.inf),
        "crosses": np.array(crosses, np.int32),
        "cost": np.ones((n, len(crosses[0]))),
    }
    return Phases(**(columns | more))  # type: ignore[arg-type]


def test_three_flows_over_two_resources() -> None:
    assert compute_max_min_rates([10.0, 4.0], [[0, 1], [0, -1], [1, -1]]).tolist() == [2.0, 8.0, 2.0]


def test_weights_share_and_caps_leave_the_rest() -> None:
    assert compute_max_min_rates([12.0], [[0], [0]], weight=[1.0, 2.0]).tolist() == [4.0, 8.0]
    assert compute_max_min_rates([12.0], [[0], [0], [0]], cap=[1.0, np.inf, np.inf]).tolist() == [1.0, 5.5, 5.5]


def test_cost_is_units_of_the_resource() -> None:
    """Small requests: one flow costs two units for one byte."""
    assert compute_max_min_rates([9.0], [[0], [0]], cost=[[1.0], [2.0]]).tolist() == [3.0, 3.0]


def test_equal_share_of_one_layer_ends_when_the_closed_form_says() -> None:
    """Bandet et al. 2024: a resource is shared equally. With volumes v1 <= v2 <= ..., the k-th ends at
    (v1 + ... + vk + (n - k) vk) / C."""
    rng = np.random.default_rng(3)
    volumes = np.sort(rng.uniform(1.0, 100.0, 20))
    engine = Engine([7.0])
    engine.add(phases(volumes.tolist(), [[0]] * 20))
    engine.run()
    k = np.arange(1, 21)
    expected = (np.cumsum(volumes) + (20 - k) * volumes) / 7.0
    np.testing.assert_allclose(engine.read_times()[1], expected, rtol=1e-12)


def test_arrivals_and_capacity_changes_are_exact() -> None:
    changes = Changes(np.array([3.0, 5.0]), np.array([0, 0], np.int32), np.array([0.0, 4.0]))
    engine = Engine([2.0], changes)
    engine.add(phases([10.0, 2.0], [[0], [0]], delay_s=np.array([0.0, 1.0])))
    engine.run()
    # 2/s alone until 1, 1/s each until 3, nothing until 5, then 2/s each: the second has nothing left at 3.
    begun, ended = engine.read_times()
    assert begun.tolist() == [0.0, 1.0]
    assert ended.tolist() == [6.5, 3.0]


def test_a_chain_follows_its_delays() -> None:
    engine = Engine([1.0])
    engine.add(phases([2.0, 3.0], [[0], [0]], after=np.array([-1, 0], np.int32), delay_s=np.array([1.0, 4.0])))
    engine.run()
    begun, ended = engine.list_phase_times()
    assert (begun.tolist(), ended.tolist()) == ([1.0, 7.0], [3.0, 10.0])


def test_work_added_while_it_runs() -> None:
    engine = Engine([1.0])
    first, _ = engine.add(phases([4.0], [[0]]))
    engine.run(2.0)
    assert engine.now_s == 2.0
    engine.add(phases([1.0], [[0]], after=np.array([first], np.int32)))
    engine.run(4.5)
    engine.add(phases([1.0], [[0]], after=np.array([first], np.int32)))
    engine.run()
    assert engine.read_times()[1].tolist() == [4.0, 5.5, 6.0]


def test_segments_add_up_and_say_what_held_a_flow_back() -> None:
    engine = Engine([4.0, 1.0])
    engine.add(phases([8.0, 2.0, 3.0], [[0, -1], [0, 1], [0, -1]], cap=np.array([np.inf, np.inf, 0.5])))
    segments = engine.run(record=True)
    carried = np.bincount(segments.flow, segments.rate * (segments.end_s - segments.begin_s))
    np.testing.assert_allclose(carried, [8.0, 2.0, 3.0], rtol=1e-12)
    first = {int(f): int(b) for f, b in zip(segments.flow[::-1], segments.bottleneck[::-1], strict=True)}
    assert first == {0: 0, 1: 1, 2: BY_CAP}


def test_a_dead_resource_holds_its_flows_and_stops_nothing_else() -> None:
    engine = Engine([0.0, 1.0])
    engine.add(phases([1.0, 1.0], [[0], [1]]))
    engine.run()
    assert np.isnan(engine.read_times()[1][0])
    assert engine.read_times()[1][1] == 1.0


def test_runs_in_steps_and_in_one_go_agree() -> None:
    rng = np.random.default_rng(11)
    work = phases(
        rng.uniform(1, 9, 200).tolist(), rng.integers(0, 9, (200, 1)).tolist(), delay_s=rng.uniform(0, 20, 200)
    )
    whole, stepped = Engine(np.full(9, 2.0)), Engine(np.full(9, 2.0))
    whole.add(work)
    stepped.add(work)
    whole.run()
    for until in np.arange(0.0, 400.0, 0.7):
        stepped.run(float(until))
    np.testing.assert_array_equal(whole.read_times()[1], stepped.read_times()[1])


@pytest.mark.parametrize(
    "bad",
    [
        {"crosses": np.array([[5]], np.int32)},
        {"weight": np.zeros(1)},
        {"cost": np.zeros((1, 1))},
        {"crosses": np.array([[-1]], np.int32)},
        {"amount": np.ones(2)},
        {"phase": np.array([3], np.int32)},
    ],
)
def test_what_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Engine([1.0]).add(replace(phases([1.0], [[0]]), **bad))  # type: ignore[arg-type]


def test_changes_out_of_order_are_refused() -> None:
    with pytest.raises(UsageError):
        Engine([1.0], Changes(np.array([2.0, 1.0]), np.zeros(2, np.int32), np.ones(2)))
