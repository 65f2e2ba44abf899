"""Which time is asked about, and of which rollup rows it is made."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.errors import UsageError
from fairlead.explain.questions.span import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    SECOND_NS,
    Span,
    choose_long_span_interval,
    choose_span_bin,
    choose_span_interval,
    parse_span,
    parse_span_moment,
    split_span_by_interval,
)

NOW = 1_728_036_600 * SECOND_NS
"""2024-10-04 10:10:00 UTC."""


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("now", NOW),
        ("-2h", NOW - 2 * HOUR_NS),
        ("2024-10-04T10:10", NOW),
        ("2024-10-04 10:10:00", NOW),
        ("2024-10-04T12:10:00+02:00", NOW),
        ("2024-10-04T10:10:00Z", NOW),
        ("2024-10-04 10:10:00 UTC", NOW),
        ("1728036600", NOW),
        ("@1728036600.5", NOW + SECOND_NS // 2),
        ("1728036600000000000", NOW),
        ("2024-10-04", NOW - 10 * HOUR_NS - 10 * MINUTE_NS),
    ],
)
def test_moments(text: str, ns: int) -> None:
    assert parse_span_moment(text, NOW) == ns


@pytest.mark.parametrize("text", ["", "tomorrow", "2024-13-01", "-2x", "12", "2024-10-04T10:10:99", "9" * 40])
def test_what_is_no_moment_is_said_so(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a time|not a duration"):
        parse_span_moment(text, NOW)


def test_spans() -> None:
    assert parse_span(now_ns=NOW, default="5m") == Span(NOW - 5 * MINUTE_NS, NOW, live=True)
    assert parse_span(now_ns=NOW, default="5m", last="2h") == Span(NOW - 2 * HOUR_NS, NOW, live=True)
    at = parse_span(now_ns=NOW, default="5m", at="-1h")
    assert (at.to_ns, at.length_ns, at.live) == (NOW - HOUR_NS, 5 * MINUTE_NS, False)
    assert parse_span(now_ns=NOW, default="5m", from_="-2h", to="-1h") == Span(NOW - 2 * HOUR_NS, NOW - HOUR_NS)


@pytest.mark.parametrize(
    "words",
    [
        {"from_": "-1h", "last": "5m"},
        {"from_": "now", "to": "-1h"},
        {"at": "now", "to": "now"},
        {"last": "500d"},
        {"last": "0s"},
        {"at": "1970-01-01"},
        {"from_": "1960-01-01"},
    ],
)
def test_words_that_make_no_span(words: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        parse_span(now_ns=NOW, default="5m", **words)


def test_the_interval_follows_the_span() -> None:
    assert choose_span_interval(Span(0, HOUR_NS)) == SECOND_NS
    assert choose_span_interval(Span(0, 3 * DAY_NS)) == MINUTE_NS
    assert choose_span_interval(Span(0, 4 * DAY_NS)) == HOUR_NS
    assert choose_long_span_interval(Span(NOW - 5 * MINUTE_NS, NOW, live=True)) == SECOND_NS
    assert choose_long_span_interval(Span(NOW - 5 * MINUTE_NS, NOW)) == MINUTE_NS
    assert choose_span_bin(Span(0, HOUR_NS), SECOND_NS, 600) == 6 * SECOND_NS


@given(first=st.integers(0, 5 * DAY_NS), length=st.integers(1, 40 * DAY_NS))
def test_pieces_of_one_cover_the_span_once_and_hold_whole_intervals(first: int, length: int) -> None:
    span = Span(first, first + length)
    found = sorted(split_span_by_interval(span, one=True), key=lambda piece: piece[1].from_ns)
    for (_, before), (_, after) in pairwise(found):
        assert before.to_ns == after.from_ns
    for step, piece in found:
        assert piece.from_ns % step == piece.to_ns % step == 0
        assert piece.length_ns > 0
    finest = min(step for step, _ in found)
    assert found[0][1].from_ns <= span.from_ns < found[0][1].from_ns + finest
    assert found[-1][1].to_ns - finest < span.to_ns <= found[-1][1].to_ns


@given(first=st.integers(0, 5 * DAY_NS), length=st.integers(1, 40 * DAY_NS), live=st.booleans())
def test_a_rounded_span_is_what_many_are_added_up_over(first: int, length: int, live: bool) -> None:
    span = Span(first, first + length, live)
    [(step, piece)] = split_span_by_interval(span)
    rounded = span.round_to_steps()
    assert rounded.from_ns == piece.from_ns <= span.from_ns
    assert span.to_ns <= rounded.to_ns <= piece.to_ns
    assert piece.from_ns % step == piece.to_ns % step == 0
    assert not live or rounded.to_ns == span.to_ns
