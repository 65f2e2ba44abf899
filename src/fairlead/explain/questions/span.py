"""Which stretch of time is asked about, and how finely: `5m`, `2026-11-21 08:00`, the interval that suits a span.

Not here: what is asked about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from fairlead.core.errors import UsageError

SECOND_NS, MINUTE_NS, HOUR_NS, DAY_NS = 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
INTERVALS = (SECOND_NS, MINUTE_NS, HOUR_NS)
"""Intervals of `rollup`, finest first."""
LONGEST_NS = 400 * DAY_NS
"""A span asked about is at most this long."""
MAX_POINTS = 5000
"""A series has at most so many points."""

_AGE = re.compile(r"(\d{1,9})\s*(s|m|min|h|d|w)")
_UNIT_NS = {"s": SECOND_NS, "m": MINUTE_NS, "min": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS, "w": 7 * DAY_NS}
_EPOCH = re.compile(r"@?(\d{9,19})(\.\d{1,9})?")
_SECONDS_BELOW = 10**12
"""A bare number below this counts seconds since 1970, above it nanoseconds."""


@dataclass(frozen=True)
class Span:
    """The times `from_ns` ≤ t < `to_ns`, epoch nanoseconds."""

    from_ns: int
    to_ns: int
    live: bool = False
    """It ends now: what is asked about lies in the newest, small files."""

    @property
    def length_ns(self) -> int:
        """Its length."""
        return self.to_ns - self.from_ns

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.length_ns / 1e9

    def align_to(self, step_ns: int) -> Span:
        """The smallest span around it whose ends are multiples of `step_ns`."""
        return Span(self.from_ns // step_ns * step_ns, -(-self.to_ns // step_ns) * step_ns, self.live)

    def clip_to(self, from_ns: int | None, to_ns: int | None) -> Span:
        """What of it lies in [from_ns, to_ns]; empty when nothing does."""
        first = self.from_ns if from_ns is None else max(self.from_ns, from_ns)
        last = self.to_ns if to_ns is None else min(self.to_ns, to_ns)
        return Span(first, max(first, last), self.live)

    def round_to_steps(self) -> Span:
        """What a question about many components really adds up: whole steps (`choose_long_span_interval`), but never
        the future."""
        wide = self.align_to(choose_long_span_interval(self))
        return Span(wide.from_ns, self.to_ns if self.live else wide.to_ns, self.live)


def parse_span_age(text: str) -> int:
    """`90s`, `5m`, `2h`, `7d`, `4w` → nanoseconds. Raises UsageError."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"not a duration: {text!r}", remedy="write 90s, 5m, 2h, 7d or 4w")
    return int(match[1]) * _UNIT_NS[match[2]]


def parse_span_moment(text: str, now_ns: int) -> int:
    """`now`, `-2h` (that long ago), `2026-11-21`, `2026-11-21T08:00[:30][Z|+01:00]` (UTC without a zone), or seconds or
    nanoseconds since 1970 → epoch nanoseconds. Raises UsageError."""
    word = text.strip()
    if word.lower() == "now":
        return now_ns
    if word.startswith("-"):
        return now_ns - parse_span_age(word[1:])
    epoch = _EPOCH.fullmatch(word)
    if epoch is not None:
        number = int(epoch[1])
        if number < _SECONDS_BELOW:
            return number * SECOND_NS + (int(epoch[2][1:].ljust(9, "0")) if epoch[2] else 0)
        return number
    try:
        moment = datetime.fromisoformat(word.upper().removesuffix(" UTC"))
        since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"not a time: {text!r}", remedy="write 2026-11-21, 2026-11-21T08:00, -2h, now, or seconds since 1970"
        ) from None
    return (since.days * 86400 + since.seconds) * SECOND_NS + since.microseconds * 1000


def parse_span(
    *,
    now_ns: int,
    default: str,
    last: str = "",
    from_: str = "",
    to: str = "",
    at: str = "",
    longest_ns: int = LONGEST_NS,
) -> Span:
    """The span that these words name; `default` is its length where none says. `at` is `to` for a look at one moment.

    Raises UsageError for words that contradict each other, an end before the beginning, or more than `longest_ns`.
    """
    if from_ and last:
        raise UsageError("--from and --last both set the start", remedy="give one of them")
    if at and (to or from_):
        raise UsageError("--at is a point in time, --from and --to are a span", remedy="give one or the other")
    end = parse_span_moment(at or to, now_ns) if at or to else now_ns
    begin = parse_span_moment(from_, now_ns) if from_ else end - parse_span_age(last or default)
    if begin >= end:
        raise UsageError("the span ends before it starts", remedy="the start must be before the end (default: now)")
    if not begin >= 0 or end >= 2**62:
        raise UsageError("this time is out of range", remedy="write 2026-11-21T08:00")
    if end - begin > longest_ns:
        raise UsageError(
            f"the span is longer than {longest_ns // DAY_NS} days",
            remedy="choose a shorter span, or query the lake in parts",
        )
    return Span(begin, end, end == now_ns)


def choose_span_interval(span: Span) -> int:
    """The interval of `rollup` a picture of this span is made of: 1 s to an hour, 1 min to three days, else 1 h."""
    if span.length_ns <= HOUR_NS:
        return SECOND_NS
    return MINUTE_NS if span.length_ns <= 3 * DAY_NS else HOUR_NS


def choose_span_bin(span: Span, step_ns: int, points: int = MAX_POINTS) -> int:
    """A multiple of `step_ns` of which at most `points` cover the span."""
    return step_ns * max(1, -(-span.length_ns // (step_ns * max(1, points))))


def choose_long_span_interval(span: Span) -> int:
    """The interval of `rollup` for sums over many components: seconds of the last minutes only (they lie sorted by
    component, so that a few minutes of all of them are dear in a large file), then minutes, from 6 h on hours."""
    if span.live and span.length_ns <= 10 * MINUTE_NS:
        return SECOND_NS
    return MINUTE_NS if span.length_ns < 6 * HOUR_NS else HOUR_NS


def split_span_by_interval(span: Span, *, one: bool = False) -> list[tuple[int, Span]]:
    """(interval, span) of the rollup rows whose sum is that of the span. Of many components: whole steps around it.
    Of `one`: the span to the second, or minute beyond half an hour; whole hours as such, its ends finer."""
    if not one:
        step = choose_long_span_interval(span)
        return [(step, span.align_to(step))]
    finest = SECOND_NS if span.length_ns <= HOUR_NS // 2 else MINUTE_NS
    return _pieces(span.align_to(finest), finest)


def widen_span_to_pieces(span: Span) -> Span:
    """The span with what `split_span_by_interval` may round to."""
    return span.align_to(HOUR_NS)


def _pieces(span: Span, finest: int) -> list[tuple[int, Span]]:
    for step in reversed(INTERVALS):
        first, last = -(-span.from_ns // step) * step, span.to_ns // step * step
        if step > finest and last - first >= step * 2:
            ends = [Span(span.from_ns, first), Span(last, span.to_ns)]
            return [(step, Span(first, last)), *(p for end in ends if end.length_ns for p in _pieces(end, finest))]
    return [(finest, span)]
