"""Who sends and who has gone silent: pure, with a clock that is an argument."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.core.model.tables import HEALTH, build_table_batch
from fairlead.see.collector import source_activity as keeping
from fairlead.see.collector.source_activity import Sources

S = 1_000_000_000
START = 1_000 * S


def _sources(started: int = START) -> Sources:
    return Sources(started_ns=started, silent_periods=3, period_ns=10 * S)


def _health(node: str, at: int, *, interval: int | None = 10 * S, state: str = "ok", **more: object) -> object:
    columns: dict[str, object] = {
        "ts_ns": [at],
        "node": [node],
        "probe": ["agent"],
        "state": [state],
        "interval_ns": [interval],
    }
    return build_table_batch(HEALTH, columns | {name: [value] for name, value in more.items()})


def _seen(sources: Sources, node: str, at: int, **more: object) -> None:
    sources.record_sight(node, at, batches=1, rows=5, last_ns=at - 2 * S)
    sources.record_health(_health(node, at, **more), node)  # type: ignore[arg-type]


def test_a_gap_opens_once_and_closes_once() -> None:
    sources = _sources()
    _seen(sources, "a", START)
    assert sources.find_gaps(START + 30 * S) == []
    (opened,) = sources.find_gaps(START + 31 * S)
    assert (opened.component, opened.kind, opened.ts_ns, opened.end_ns) == ("a", "gap", START, None)
    assert sources.find_gaps(START + 99 * S) == []
    assert sources.count_states() == {"silent": 1}
    _seen(sources, "a", START + 100 * S)
    (closed,) = sources.find_gaps(START + 101 * S)
    assert (closed.ts_ns, closed.end_ns) == (START, START + 100 * S)
    (one,) = sources.list_sources(START + 101 * S)
    assert (one.state, one.gaps, one.batches, one.rows, one.lag_ns) == ("ok", 1, 2, 10, 3 * S)


def test_gaps_that_could_not_be_written_are_told_again() -> None:
    sources = _sources()
    _seen(sources, "a", START)
    told = sources.find_gaps(START + 40 * S)
    sources.undo(told)
    assert sources.find_gaps(START + 41 * S) == told
    _seen(sources, "a", START + 50 * S)
    closed = sources.find_gaps(START + 51 * S)
    sources.undo(closed)
    assert sources.find_gaps(START + 52 * S) == closed


def test_silence_before_the_collector_began_is_not_a_gap() -> None:
    sources = _sources(START + 500 * S)
    sources.recall("a", START, batches=3, rows=30, gap_since_ns=None)
    sources.record_health(_health("a", START), "a")  # type: ignore[arg-type]
    assert sources.find_gaps(START + 529 * S) == []
    (opened,) = sources.find_gaps(START + 531 * S)
    assert opened.ts_ns == START


def test_a_gap_open_before_a_restart_closes_after_it() -> None:
    sources = _sources(START + 500 * S)
    sources.recall("a", START, batches=3, rows=30, gap_since_ns=START)
    assert sources.count_states() == {"silent": 1}
    assert sources.find_gaps(START + 900 * S) == []
    sources.record_sight("a", START + 901 * S, batches=1, rows=1, last_ns=None)
    (closed,) = sources.find_gaps(START + 902 * S)
    assert (closed.ts_ns, closed.end_ns) == (START, START + 901 * S)


def test_without_health_nobody_knows_when_to_expect_it() -> None:
    sources = _sources()
    sources.record_sight("a", START, batches=1, rows=1, last_ns=None)
    assert sources.find_gaps(START + 10**6 * S) == []
    assert sources.count_states() == {"unmonitored": 1}
    sources.record_health(_health("a", START, interval=None), "a")  # type: ignore[arg-type]
    assert sources.find_gaps(START + 30 * S) == []
    assert len(sources.find_gaps(START + 31 * S)) == 1


def test_a_source_that_tells_less_often_is_believed_one_that_tells_a_moment_is_not() -> None:
    sources = _sources()
    _seen(sources, "slow", START, interval=100 * S)
    _seen(sources, "new", START, interval=1 * S)
    assert sources.find_gaps(START + 29 * S) == []
    assert [event.component for event in sources.find_gaps(START + 299 * S)] == ["new"]
    assert [event.component for event in sources.find_gaps(START + 301 * S)] == ["slow"]


def test_the_latest_health_counts_in_whatever_order() -> None:
    sources = _sources()
    _seen(sources, "a", START + 60 * S, state="failing", text="now", unknown_lines=2, clock_offset_ns=7)
    _seen(sources, "a", START, state="ok", text="before", unknown_lines=3, lost_batches=4)
    (one,) = sources.list_sources(START + 61 * S)
    assert one.state == "failing"
    (probe,) = one.probes
    assert (probe.text, probe.unknown_lines, one.lost_batches, one.clock_offset_ns) == ("now", 5, 4, 7)
    assert one.last_seen_ns == START + 60 * S


def test_what_a_hostile_agent_says_stays_bounded_and_can_be_told_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_SOURCES", 50)
    sources = _sources()
    most = (1 << 63) - 1
    for number in range(400):
        told = _health(
            "a", START + number, unknown_lines=most, lost_batches=most, clock_offset_ns=-most, text="x" * 9000
        )
        columns = {name: told.column(name) for name in told.schema.names} | {"probe": [f"p{number}"]}  # type: ignore[attr-defined]
        sources.record_health(build_table_batch(HEALTH, columns), "a")
        sources.record_health(told, "a")  # type: ignore[arg-type]
        sources.record_sight(f"n{number}", START, batches=1, rows=5, last_ns=-most)
    shown = sources.list_sources(START + S)
    assert len(shown) == 50
    (one,) = [source for source in shown if source.node == "a"]
    assert len(one.probes) == keeping.MOST_PROBES
    assert max(len(probe.text) for probe in one.probes) <= 500
    assert len(msgspec.json.encode(shown)) < 1 << 20
