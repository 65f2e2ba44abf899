"""What flows carried in each second, in whole requests: the one account all records are made of, so that they agree.

The model of waiting: a flow has `streams` requests under way all the time (each process waits for its request before
it sends the next). At rate x a request of s bytes takes streams * s / x; alone it would take streams * s / alone. The
difference is waiting, and where the flow is held back is where it waits (Little's law gives the queue:
streams * (1 - x / alone) requests).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.model.site import F64
from fairlead.decide.sim.steps import I64
from fairlead.kit.testing.machine.course import Course


@dataclass(frozen=True)
class Traffic:
    """One row a flow and second, in order of flow, then second.

    `before` and `count`: requests finished before this second and in it; `start_s`/`end_s`: its active part;
    `busy_s`: time of all its requests; `wait_s`: of it, waited for a forwarder; `held_s`: seconds it was held back by a
    storage target or server.
    """

    flow: I64
    second: I64
    before: I64
    count: I64
    start_s: F64
    end_s: F64
    busy_s: F64
    wait_s: F64
    held_s: F64


def build_traffic(course: Course, from_s: int, to_s: int) -> Traffic:
    """What was carried in the seconds [from_s, to_s)."""
    s = course.segments
    ended = np.where(np.isnan(course.ended), course.to_s, course.ended)
    flows = np.flatnonzero((course.begun < to_s) & (ended > from_s))
    low = np.maximum(np.floor(course.begun[flows]), from_s).astype(np.int64)
    high = np.minimum(np.ceil(ended[flows]), to_s).astype(np.int64)
    high = np.maximum(high, low + 1)
    rows = high - low
    first_row = np.cumsum(rows) - rows
    flow = np.repeat(flows, rows)
    second = np.arange(len(flow)) - np.repeat(first_row - low, rows)
    place = np.full(len(course.begun), -1, np.int64)
    place[flows] = np.arange(len(flows))
    known = (place[s.flow] >= 0) & (s.begin_s < to_s)
    own = place[s.flow[known]]
    begin, end, rate, by = s.begin_s[known], s.end_s[known], s.rate[known], s.bottleneck[known]
    earlier = np.bincount(own, rate * np.maximum(np.minimum(end, from_s) - begin, 0.0), len(flows))
    carried, wait, held = _by_second(course, flows, own, begin, end, rate, by, first_row - low, from_s, to_s, len(flow))
    total = np.cumsum(carried)
    cumulated = total - np.repeat(total[first_row] - carried[first_row], rows) + np.repeat(earlier, rows)
    return _whole(course, flow, second, cumulated, np.repeat(earlier, rows), first_row, wait, held, ended)


def _by_second(
    course: Course,
    flows: I64,
    own: I64,
    begin: F64,
    end: F64,
    rate: F64,
    by: np.ndarray,
    row_of: I64,
    from_s: int,
    to_s: int,
    rows: int,
) -> tuple[F64, F64, F64]:
    """Amount carried, seconds waited for a forwarder and seconds held back by storage, summed into the rows."""
    low = np.maximum(begin, from_s)
    high = np.minimum(end, to_s)
    inside = high > low
    own, low, high, rate, by = own[inside], low[inside], high[inside], rate[inside], by[inside]
    first = np.floor(low).astype(np.int64)
    spans = np.maximum(np.ceil(high).astype(np.int64) - first, 1)
    part = np.repeat(np.arange(len(own)), spans)
    second = np.arange(len(part)) - np.repeat(np.cumsum(spans) - spans - first, spans)
    overlap = np.maximum(np.minimum(high[part], second + 1) - np.maximum(low[part], second), 0.0)
    row = row_of[own[part]] + second
    slow = np.maximum(1.0 - rate / course.alone[flows[own]], 0.0) * course.streams[flows[own]]
    at = course.machine.at
    front = (by >= 0) & (by < at.server)
    behind = (by >= at.server) & (by < at.mds)
    return (
        np.bincount(row, rate[part] * overlap, rows).astype(np.float64),
        np.bincount(row, np.where(front, slow, 0.0)[part] * overlap, rows).astype(np.float64),
        np.bincount(row, behind[part] * overlap, rows).astype(np.float64),
    )


def _whole(
    course: Course,
    flow: I64,
    second: I64,
    cumulated: F64,
    earlier: F64,
    first_row: I64,
    wait: F64,
    held: F64,
    ended: F64,
) -> Traffic:
    """Whole requests: those finished by the end of a second; all of them once the flow has ended."""
    size = course.size[flow].astype(np.float64)
    all_of_it = course.requests[flow] * course.lanes[flow]
    done = np.floor(cumulated / size + 1e-6).astype(np.int64)
    over = ~np.isnan(course.ended[flow]) & (ended[flow] <= second + 1)
    done = np.where(over, all_of_it, np.minimum(done, all_of_it))
    before = np.empty_like(done)
    before[1:] = done[:-1]
    before[first_row] = np.minimum(np.floor(earlier[first_row] / size[first_row] + 1e-6), all_of_it[first_row])
    start = np.maximum(course.begun[flow], second)
    end = np.minimum(ended[flow], second + 1)
    active = np.maximum(end - start, 0.0)
    return Traffic(
        flow, second, before, done - before, start, end, active * course.streams[flow], wait, np.minimum(held, 1.0)
    )
