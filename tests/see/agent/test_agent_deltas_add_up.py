"""Deltas of counters: whatever the series, what is told adds up to what happened, less what nobody can know."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.see.agent.deltas import Deltas, Row
from fairlead.see.probes.base import Key, Reading

SECOND = 10**9


def reading(rows: dict[Key, list[object]], **more: object) -> Reading:
    return Reading("target", ("target",), ("read_bytes", "write_bytes"), (), rows, **more)  # type: ignore[arg-type]


def told(deltas: Deltas, rows: dict[Key, list[object]], at: int, **more: object) -> list[Row]:
    return list(deltas.advance(reading(rows, **more), at * SECOND))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(0, 1000), st.integers(0, 1000)),
        st.tuples(st.just("reset"), st.integers(0, 50), st.integers(0, 50)),
        st.tuples(st.just("miss"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(st.lists(STEPS, min_size=1, max_size=4))
def test_what_is_told_adds_up(series: list[list[tuple[str, int, int]]]) -> None:
    """A model of several keys: growth between two looks at which a key was there, and did not shrink, is told whole."""
    deltas = Deltas(idle_ns=5 * SECOND)
    length = max(len(one) for one in series)
    values = [[0, 0] for _ in series]
    seen: list[list[int] | None] = [None] * len(series)
    expected = [[0, 0] for _ in series]
    sums: dict[Key, list[int]] = {(str(n),): [0, 0] for n in range(len(series))}
    for at in range(length):
        rows: dict[Key, list[object]] = {}
        for number, one in enumerate(series):
            kind, first, second = one[at] if at < len(one) else ("grow", 0, 0)
            if kind == "reset":
                values[number] = [first, second]
            else:
                values[number] = [values[number][0] + first, values[number][1] + second]
            before = seen[number]
            if kind == "miss":
                seen[number] = None
                continue
            now = list(values[number])
            if before is not None and all(new >= old for old, new in zip(before, now, strict=True)):
                for place in (0, 1):
                    expected[number][place] += now[place] - before[place]
            seen[number] = now
            rows[(str(number),)] = list(now)
        for row in told(deltas, rows, at):
            assert row.interval_ns is not None
            assert row.interval_ns <= (at + 1) * SECOND
            assert row.idle == (not any(row.values))
            for place in (0, 1):
                assert row.values[place] >= 0
                sums[row.key][place] += row.values[place]
    assert list(sums.values()) == expected


@given(st.lists(st.integers(0, 2000), min_size=2, max_size=60), st.integers(8, 12))
def test_a_counter_that_wraps_loses_nothing(growths: list[int], bits: int) -> None:
    """Growth below half the range an interval is told whole, however often the counter passes zero."""
    deltas, total, summed = Deltas(), 0, 0
    growths = [one % (1 << (bits - 1)) for one in growths]
    for at, growth in enumerate(growths):
        total += growth
        rows: dict[Key, list[object]] = {("a",): [total % (1 << bits), None]}
        for row in told(deltas, rows, at, wraps=(("read_bytes", bits),)):
            summed += row.values[0]
            assert row.values[1] is None
    assert summed == sum(growths[1:])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 100)), min_size=1, max_size=60))
def test_rows_born_at_zero_lose_nothing(steps: list[tuple[int, int]]) -> None:
    """Jobs come, grow and go: everything after the first look is told."""
    deltas = Deltas()
    values: dict[int, int] = {}
    expected = summed = 0
    list(deltas.advance(reading({}, born_at_zero=True), 0))
    for at, (job, growth) in enumerate(steps, 1):
        values[job] = values.get(job, 0) + growth
        expected += growth
        rows: dict[Key, list[object]] = {(str(one),): [value, 0] for one, value in values.items()}
        summed += sum(row.values[0] for row in told(deltas, rows, at, born_at_zero=True))
    assert summed == expected
