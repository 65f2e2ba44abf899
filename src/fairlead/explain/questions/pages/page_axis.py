"""One time axis for many lines: cells (the finest that is known) joined into points, each with its mean, low and high.

Pure. Where seconds are too coarse, runs of operations are spread evenly between their start and their end. Not here:
what is drawn on it (`job_timeline`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.explain.questions.answers_pages import Line
from fairlead.explain.questions.coverage import Coverage
from fairlead.explain.questions.rollup_sums import Steps, round_rollup_line
from fairlead.explain.questions.span import HOUR_NS, INTERVALS, SECOND_NS, Span

MOST_CELLS = 10_000
FINEST_PARTS = (100, 50, 25, 20, 10, 5, 4, 2)
"""A second is cut into so many parts, as many as fit: ten milliseconds at the finest."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Axis:
    """`cells`: steps of one rollup interval; a point is `per` of them, or a `parts`-th of one."""

    cells: Steps
    per: int
    parts: int = 1

    @property
    def points(self) -> Steps:
        """The steps that are drawn, of whole cells where these are finer."""
        count = -(-self.cells.count // self.per)
        return Steps(self.cells.from_ns, self.cells.step_ns * self.per, count, self.cells.now_ns)

    @property
    def drawn(self) -> Steps:
        """The steps that are drawn."""
        whole = self.points
        return Steps(whole.from_ns, whole.step_ns // self.parts, whole.count * self.parts, whole.now_ns)


def build_page_axis(span: Span, now_ns: int, points: int, interval: int | None = None) -> Axis:
    """At most `points` over the span, of the finest interval (not finer than `interval`) that is not too many cells."""
    finest = next((one for one in INTERVALS if one >= (interval or 0) and span.length_ns <= MOST_CELLS * one), HOUR_NS)
    whole = span.align_to(finest)
    count = whole.length_ns // finest
    return Axis(Steps(whole.from_ns, finest, count, now_ns), max(1, -(-count // points)))


def refine_page_axis(axis: Axis, points: int) -> Axis | None:
    """The same axis with seconds cut into parts; None where there is no room for it."""
    if axis.per > 1 or axis.cells.step_ns != SECOND_NS:
        return None
    parts = next((one for one in FINEST_PARTS if axis.cells.count * one <= points), 1)
    return Axis(axis.cells, 1, parts) if parts > 1 else None


def build_axis_line(axis: Axis, at: NDArray[np.int64], amounts: Floats, cover: Coverage) -> tuple[Line, Flags]:
    """What rows tell: `amounts` (NaN: unknown) in cells `at`, one a cell. Points without rows are 0 where the source is
    known to have been there and idle (`cover`, by point). And at which points rows are."""
    steps = axis.points
    room = steps.count * axis.per
    there, values = np.zeros(room, np.bool_), np.zeros(room)
    known = np.isfinite(amounts)
    there[at] = True
    values[at[known]] = amounts[known]
    told = np.zeros(room, np.bool_)
    told[at[known]] = True
    rows_at = np.asarray(there.reshape(-1, axis.per).any(axis=1), np.bool_)
    told_at = told.reshape(-1, axis.per).any(axis=1)
    seconds = steps.compute_elapsed_s()
    mean = np.where(told_at, values.reshape(-1, axis.per).sum(axis=1) / seconds, np.nan)
    idle = ~rows_at & cover.known & steps.mark_begun() if known.any() else np.zeros(steps.count, np.bool_)
    mean[idle] = 0.0
    if axis.parts > 1:
        return Line(mean=round_rollup_line(np.repeat(mean, axis.parts))), rows_at
    if axis.per == 1 or not np.isfinite(mean).any():
        return Line(mean=round_rollup_line(mean)), rows_at
    low, high = _extremes(axis, values, mean)
    return Line(mean=round_rollup_line(mean), low=round_rollup_line(low), high=round_rollup_line(high)), rows_at


def _extremes(axis: Axis, values: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Lowest and highest cell of each point, of the cells that have begun; a cell without rows is 0 there."""
    room = len(values)
    cells = Steps(axis.cells.from_ns, axis.cells.step_ns, room, axis.cells.now_ns)
    rates = values / cells.compute_elapsed_s()
    counted = (cells.mark_begun() & (np.arange(room) < axis.cells.count)).reshape(-1, axis.per)
    rates = rates.reshape(-1, axis.per)
    low = np.where(counted, rates, np.inf).min(axis=1)
    high = np.where(counted, rates, -np.inf).max(axis=1)
    some = counted.any(axis=1)
    return (
        np.where(some, np.minimum(low, mean), mean) + 0 * mean,
        np.where(some, np.maximum(high, mean), mean) + 0 * mean,
    )


def spread_over_axis(steps: Steps, start: NDArray[np.int64], end: NDArray[np.int64], amount: Floats) -> Floats:
    """float64[steps]: amounts laid out evenly over [start, end), what lies outside the steps left out. An operation
    without a length lies in the step of its start."""
    from_ns, step = steps.from_ns, float(steps.step_ns)
    first = (start - from_ns) / step
    last = (end - from_ns) / step
    length = last - first
    long = length > 0
    up_to = np.zeros(steps.count + 1)
    if long.any():
        slope = amount[long] / length[long]
        rising = np.zeros(steps.count + 2)
        shift = np.zeros(steps.count + 2)
        for edge, sign in ((first[long], 1.0), (last[long], -1.0)):
            place = np.clip(np.ceil(edge), 0, steps.count + 1).astype(np.int64)
            rising += sign * np.bincount(place, slope, steps.count + 2)
            shift += sign * np.bincount(place, slope * edge, steps.count + 2)
        edges = np.arange(steps.count + 1)
        up_to = np.cumsum(rising)[:-1] * edges - np.cumsum(shift)[:-1]
    made = np.maximum(np.diff(up_to), 0.0)
    if not long.all():
        place = np.floor(first[~long]).astype(np.int64)
        inside = (place >= 0) & (place < steps.count)
        made += np.bincount(place[inside], amount[~long][inside], steps.count)
    return made
