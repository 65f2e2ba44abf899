"""The fluid engine over several layers against closed forms, to 1e-9, and what it refuses of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide.sim.engine import Changes, Engine, Phases

EXACT = {"rtol": 1e-9, "atol": 0.0}


def flows(amount: list[float], crosses: list[list[int]], **more: object) -> Phases:
    """A flow a phase, begun at 0 unless told."""
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


def ends(capacity: list[float], work: Phases, changes: Changes | None = None) -> np.ndarray:
    engine = Engine(capacity, changes)
    engine.add(work)
    engine.run()
    return engine.read_times()[1]


def test_what_a_slow_target_leaves_of_a_forwarder_goes_to_the_other() -> None:
    # Forwarder of 10; targets of 3 and 100. Rates 3 and 7 until 2; then the second has 14 left at 10.
    np.testing.assert_allclose(ends([10.0, 3.0, 100.0], flows([6.0, 28.0], [[0, 1], [0, 2]])), [2.0, 3.4], **EXACT)


def test_one_flow_over_eight_resources_each_with_another() -> None:
    # All at half; the long one (1) ends at 2, the short ones (2) have one left, at full speed.
    crosses = [list(range(8)), *([r, -1, -1, -1, -1, -1, -1, -1] for r in range(8))]
    np.testing.assert_allclose(ends([1.0] * 8, flows([1.0] + [2.0] * 8, crosses)), [2.0] + [3.0] * 8, **EXACT)


def test_weights_hold_on_every_layer() -> None:
    # Weight 2 against 1 on the first of two: 4 and 2 of 6. Ends at 3 with 12; the other has 6 left, at 6.
    work = flows([12.0, 12.0], [[0, 1], [0, -1]], weight=np.array([2.0, 1.0]))
    np.testing.assert_allclose(ends([6.0, 5.0], work), [3.0, 4.0], **EXACT)


def test_equal_flows_over_layers_in_a_row_see_only_the_narrowest() -> None:
    volumes = np.sort(np.random.default_rng(8).uniform(1.0, 50.0, 30))
    k = np.arange(1, 31)
    found = ends([7.0, 5.0, 9.0], flows(volumes.tolist(), [[0, 1, 2]] * 30))
    np.testing.assert_allclose(found, (np.cumsum(volumes) + (30 - k) * volumes) / 5.0, **EXACT)


def test_the_bottleneck_moves_from_one_layer_to_the_other() -> None:
    # Two forwarders of 4 with two flows each, one target: 6 until 2, then 20. 1.5 each, then 2 each by the forwarders.
    changes = Changes(np.array([2.0]), np.array([2], np.int32), np.array([20.0]))
    found = ends([4.0, 4.0, 6.0], flows([5.0, 5.0, 5.0, 7.0], [[0, 2], [0, 2], [1, 2], [1, 2]]), changes)
    # 3 done at 2; 2 left at 2/s by 3; the last alone on its forwarder from 3: 2 left at 4/s.
    np.testing.assert_allclose(found, [3.0, 3.0, 3.0, 3.5], **EXACT)


def test_costs_differ_from_layer_to_layer() -> None:
    # Small requests: a unit costs 1 of the bandwidth (10) and 4 of the requests (20); large ones next to none of them.
    work = flows([10.0, 10.0], [[0, 1], [0, 1]], cost=np.array([[1.0, 4.0], [1.0, 0.01]]))
    # Level by requests: 20 / 4.01 = 4.9875; the bandwidth would allow 5 each.
    level = 20.0 / 4.01
    np.testing.assert_allclose(ends([10.0, 20.0], work), [10.0 / level] * 2, **EXACT)


def test_staggered_chains_over_two_layers() -> None:
    # A (8) alone over both layers at 4 until 1; B on the second layer too: 2 each until A ends at 3; B has 2 left.
    work = flows([8.0, 6.0], [[0, 1], [1, -1]], delay_s=np.array([0.0, 1.0]))
    np.testing.assert_allclose(ends([6.0, 4.0], work), [3.0, 3.5], **EXACT)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("after", {"after": np.array([5, -1], np.int32)}),
        ("delay_s", {"delay_s": np.array([np.nan, 0.0])}),
        (None, {"crosses": np.array([[0, 0], [1, -1]], np.int32)}),
        (None, {"amount": np.array([np.nan, 1.0])}),
    ],
)
def test_what_would_run_wrong_is_refused(field: str | None, bad: dict[str, object]) -> None:
    with pytest.raises(UsageError) as told:
        Engine([1.0, 1.0]).add(replace(flows([1.0, 1.0], [[0, 1], [1, -1]]), **bad))  # type: ignore[arg-type]
    assert told.value.where == field


def test_a_capacity_or_change_of_none_is_refused() -> None:
    with pytest.raises(UsageError):
        Engine([1.0, np.nan])
    for time, resource in ((np.nan, 0), (1.0, -1)):
        with pytest.raises(UsageError):
            Engine([1.0], Changes(np.array([time]), np.array([resource], np.int32), np.ones(1)))
