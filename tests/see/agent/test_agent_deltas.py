"""Deltas: bases, resets, epochs, histograms, gauges, idle rows, and a bound on what is followed."""

from __future__ import annotations

from fairlead.see.agent.deltas import Deltas, Row
from fairlead.see.probes.base import Key, Reading

SECOND = 10**9
A: Key = ("a",)


def look(deltas: Deltas, at_s: float, rows: dict[Key, list[object]], **more: object) -> list[Row]:
    shape: dict[str, object] = {"keys": ("target",), "counters": ("n", "h"), "gauges": ()}
    shape.update(more)
    made = Reading("target", rows=rows, **shape)  # type: ignore[arg-type]
    return list(deltas.advance(made, int(at_s * SECOND)))


def test_the_first_look_is_a_base_and_no_row() -> None:
    deltas = Deltas()
    assert look(deltas, 0, {A: [100, [1, 2]]}) == []
    assert look(deltas, 1, {A: [130, [1, 5]]}) == [Row(A, [30, [0, 3]], SECOND)]
    assert look(deltas, 2.5, {A: [130, [1, 5]]}) == []
    assert look(deltas, 3.5, {A: [131, [1, 5]]}) == [Row(A, [1, [0, 0]], SECOND)]


def test_a_failed_look_makes_the_next_interval_longer() -> None:
    deltas = Deltas()
    look(deltas, 0, {A: [1, None]})
    assert look(deltas, 7, {A: [8, None]}) == [Row(A, [7, None], 7 * SECOND)]


def test_what_shrank_begins_anew() -> None:
    deltas = Deltas()
    look(deltas, 0, {A: [100, [5, 5]]})
    assert look(deltas, 1, {A: [200, [5, 4]]}) == []
    assert deltas.resets == 1
    assert look(deltas, 2, {A: [201, [5, 4]]}) == [Row(A, [1, [0, 0]], SECOND)]
    assert look(deltas, 3, {A: [202, [5]]}) == []
    assert deltas.resets == 2


def test_a_histogram_may_get_longer() -> None:
    deltas = Deltas()
    look(deltas, 0, {A: [0, [5]]})
    assert look(deltas, 1, {A: [0, [6, 2]]}) == [Row(A, [0, [1, 2]], SECOND)]


def test_a_new_epoch_is_a_reset_even_when_the_counter_is_larger() -> None:
    deltas = Deltas()
    look(deltas, 0, {A: [5, None]}, epochs={A: 1})
    assert look(deltas, 1, {A: [900, None]}, epochs={A: 2}) == []
    assert look(deltas, 2, {A: [901, None]}, epochs={A: 2}) == [Row(A, [1, None], SECOND)]
    born = Deltas()
    look(born, 0, {A: [5, None]}, epochs={A: 1}, born_at_zero=True)
    assert look(born, 1, {A: [900, None]}, epochs={A: 2}, born_at_zero=True) == [Row(A, [900, None], SECOND)]


def test_a_key_that_came_back_begins_anew() -> None:
    deltas = Deltas()
    look(deltas, 0, {A: [5, None]})
    assert look(deltas, 1, {}) == []
    assert look(deltas, 2, {A: [9, None]}) == []
    assert look(deltas, 3, {A: [10, None]}) == [Row(A, [1, None], SECOND)]


def test_one_look_that_missed_all_jobs_is_not_told_as_traffic() -> None:
    deltas = Deltas()
    jobs: dict[Key, list[object]] = {(str(n),): [10**12, None] for n in range(3000)}
    look(deltas, 0, {}, born_at_zero=True)
    assert len(look(deltas, 1, dict(jobs), born_at_zero=True)) == 3000
    assert look(deltas, 2, {}, born_at_zero=True) == []
    assert look(deltas, 3, dict(jobs), born_at_zero=True) == []
    jobs[("7",)] = [10**12 + 5, None]
    assert look(deltas, 4, dict(jobs), born_at_zero=True) == [Row(("7",), [5, None], SECOND)]


def test_idle_is_told_once_a_minute_and_covers_the_silence() -> None:
    deltas = Deltas()
    rows = [(at, row) for at in range(200) for row in look(deltas, at, {A: [5, [1]]})]
    assert [(at, row.values, row.idle, row.interval_ns) for at, row in rows] == [
        (at, [0, [0]], True, 60 * SECOND) for at in (60, 120, 180)
    ]


def test_a_part_is_not_told_when_idle() -> None:
    deltas = Deltas()
    rows = [look(deltas, at, {("t", "17"): [5, None]}, keys=("target", "job_id")) for at in range(200)]
    assert not any(rows)


def test_gauges_are_told_at_once_when_they_change_and_each_minute() -> None:
    deltas = Deltas()
    shape = {"counters": (), "gauges": ("used_bytes",)}
    assert look(deltas, 0, {A: [7]}, **shape) == [Row(A, [7], None)]
    assert look(deltas, 10, {A: [7]}, **shape) == []
    assert look(deltas, 20, {A: [8]}, **shape) == [Row(A, [8], None)]
    assert look(deltas, 79, {A: [8]}, **shape) == []
    assert look(deltas, 80, {A: [8]}, **shape) == [Row(A, [8], None, True)]


def test_a_gauge_beside_a_counter_is_told_with_the_base() -> None:
    deltas = Deltas()
    shape = {"counters": ("n",), "gauges": ("used_bytes",)}
    assert look(deltas, 0, {A: [3, 7]}, **shape) == [Row(A, [None, 7], None)]
    assert look(deltas, 1, {A: [3, 8]}, **shape) == [Row(A, [0, 8], SECOND)]


def test_no_more_keys_are_followed_than_allowed() -> None:
    deltas = Deltas(max_keys=10)
    look(deltas, 0, {(str(n),): [0, None] for n in range(8)})
    rows = look(deltas, 1, {(str(n),): [n, None] for n in range(20, -1, -1)})
    assert {row.key for row in rows} == {(str(n),) for n in range(1, 8)}, "those known before come first"
    assert deltas.left_out == 11
    assert len(look(deltas, 2, {(str(n),): [n + 1, None] for n in range(21)})) == 10
