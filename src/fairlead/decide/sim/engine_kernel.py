"""The engine's inner loop, compiled: events in order of time, shares by progressive filling where something changed.

Not here: what resources and flows stand for (`platform`, `steps`). Imported when an engine runs: it loads numba.
"""

from __future__ import annotations

import numpy as np

from fairlead.core.jit import compile_jit_function
from fairlead.decide.sim.state import (
    BY_CAP,
    CHANGE,
    DUE,
    EVENTS,
    F64,
    I32,
    I64,
    IDLE,
    SOLVED,
    STAMP,
    TIGHT,
    WAKE,
    WIDTH,
    Segments,
    State,
)


@compile_jit_function
def _up(key: F64, heap: I32, at: I32, place: int) -> None:
    item = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        other = heap[parent]
        if key[other] < key[item] or (key[other] == key[item] and other < item):
            break
        heap[place] = other
        at[other] = place
        place = parent
    heap[place] = item
    at[item] = place


@compile_jit_function
def _down(key: F64, heap: I32, at: I32, size: int, place: int) -> None:
    item = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size:
            a, b = heap[child], heap[right]
            if key[b] < key[a] or (key[b] == key[a] and b < a):
                child = right
        other = heap[child]
        if key[item] < key[other] or (key[item] == key[other] and item < other):
            break
        heap[place] = other
        at[other] = place
        place = child
    heap[place] = item
    at[item] = place


@compile_jit_function
def _set_due(s: State, flow: int, when: float) -> None:
    size = s.counts[DUE]
    place = s.due_at[flow]
    s.due_key[flow] = when
    if place < 0:
        s.due_heap[size] = flow
        s.due_at[flow] = size
        s.counts[DUE] = size + 1
        _up(s.due_key, s.due_heap, s.due_at, size)
        return
    _up(s.due_key, s.due_heap, s.due_at, place)
    _down(s.due_key, s.due_heap, s.due_at, size, s.due_at[flow])


@compile_jit_function
def _pop(key: F64, heap: I32, at: I32, size: int) -> int:
    top = heap[0]
    last = heap[size - 1]
    at[top] = -1
    if size > 1:
        heap[0] = last
        at[last] = 0
        _down(key, heap, at, size - 1, 0)
    return int(top)


@compile_jit_function
def wake_engine_phase(s: State, phase: int, when: float) -> None:
    """Puts a phase among those that begin at a known time."""
    size = s.counts[WAKE]
    s.wake_key[phase] = when
    s.wake_heap[size] = phase
    s.wake_at[phase] = size
    s.counts[WAKE] = size + 1
    _up(s.wake_key, s.wake_heap, s.wake_at, size)


@compile_jit_function
def append_engine_phases(s: State, first: int, after: I64) -> None:
    """Puts new phases, `first` on, behind those they follow (-1: none); `delay` is laid down already."""
    for number in range(len(after)):
        phase, before = first + number, after[number]
        if before < 0:
            wake_engine_phase(s, phase, s.delay[phase])
        elif not np.isnan(s.phase_ended[before]):
            wake_engine_phase(s, phase, max(s.phase_ended[before] + s.delay[phase], s.now[0]))
        else:
            s.next_after[phase] = s.first_after[before]
            s.first_after[before] = phase


@compile_jit_function
def _link(s: State, flow: int) -> None:
    for k in range(WIDTH):
        r = s.crosses[flow, k]
        if r < 0:
            break
        here = flow * WIDTH + k
        first = s.head[r]
        s.following[here] = first
        s.preceding[here] = -1
        if first >= 0:
            s.preceding[first] = here
        s.head[r] = here
        s.members[r] += 1


@compile_jit_function
def _unlink(s: State, flow: int) -> None:
    for k in range(WIDTH):
        r = s.crosses[flow, k]
        if r < 0:
            break
        here = flow * WIDTH + k
        before, after = s.preceding[here], s.following[here]
        if before >= 0:
            s.following[before] = after
        else:
            s.head[r] = after
        if after >= 0:
            s.preceding[after] = before
        s.members[r] -= 1


@compile_jit_function
def _add_flow(s: State, flow: int, size: int) -> int:
    if s.in_region[flow] == s.counts[STAMP]:
        return size
    s.in_region[flow] = s.counts[STAMP]
    s.region[size] = flow
    return size + 1


@compile_jit_function
def _add_members(s: State, resource: int, size: int) -> int:
    here = s.head[resource]
    while here >= 0:
        size = _add_flow(s, here // WIDTH, size)
        here = s.following[here]
    return size


@compile_jit_function
def _resources_of(s: State, size: int) -> int:
    """The resources the region's flows cross, and what flows outside leave of them."""
    found = 0
    for i in range(size):
        flow = s.region[i]
        for k in range(WIDTH):
            r = s.crosses[flow, k]
            if r < 0:
                break
            if s.touched[r] != -2:
                s.touched[r] = -2
                s.region_resources[found] = r
                found += 1
                s.residual[r] = s.capacity[r] - s.used[r]
                s.weights[r] = 0.0
                s.region_members[r] = 0
            s.region_members[r] += 1
            s.residual[r] += max(s.rate[flow], 0.0) * s.cost[flow, k]
            s.weights[r] += s.weight[flow] * s.cost[flow, k]
    for j in range(found):
        r = s.region_resources[j]
        s.touched[r] = -1
        if s.region_members[r] == s.members[r]:
            s.residual[r] = s.capacity[r]  # no rounding gathers in what is solved whole
        s.residual[r] = max(s.residual[r], 0.0)
    return found


@compile_jit_function
def _fill(s: State, size: int, found: int) -> None:
    """Progressive filling: the level of all rises until a resource is full or a flow at its own cap; those stop."""
    resources = len(s.capacity)
    heaped = 0
    for j in range(found):
        r = s.region_resources[j]
        s.fill_key[r] = s.residual[r] / s.weights[r]
        s.fill_heap[heaped] = r
        s.fill_at[r] = heaped
        heaped += 1
    for i in range(size):
        flow = s.region[i]
        s.new_bottleneck[flow] = IDLE
        if s.cap[flow] < np.inf:
            entry = resources + flow
            s.fill_key[entry] = s.cap[flow] / s.weight[flow]
            s.fill_heap[heaped] = entry
            s.fill_at[entry] = heaped
            heaped += 1
    for place in range(heaped // 2 - 1, -1, -1):
        _down(s.fill_key, s.fill_heap, s.fill_at, heaped, place)
    going = size
    while going > 0 and heaped > 0:
        entry = s.fill_heap[0]
        if entry >= resources:
            flow = entry - resources
            heaped -= 1
            _pop(s.fill_key, s.fill_heap, s.fill_at, heaped + 1)
            if s.new_bottleneck[flow] == IDLE:
                going -= _settle(s, flow, s.cap[flow], BY_CAP)
            continue
        if s.weights[entry] <= 0.0:
            heaped -= 1
            _pop(s.fill_key, s.fill_heap, s.fill_at, heaped + 1)
            continue
        level = max(s.residual[entry], 0.0) / s.weights[entry]
        if level > s.fill_key[entry] * (1.0 + 1e-12):
            s.fill_key[entry] = level
            _down(s.fill_key, s.fill_heap, s.fill_at, heaped, 0)
            continue
        heaped -= 1
        _pop(s.fill_key, s.fill_heap, s.fill_at, heaped + 1)
        level = s.fill_key[entry]
        here = s.head[entry]
        while here >= 0:
            flow = here // WIDTH
            if s.in_region[flow] == s.counts[STAMP] and s.new_bottleneck[flow] == IDLE:
                going -= _settle(s, flow, s.weight[flow] * level, entry)
            here = s.following[here]
        s.weights[entry] = 0.0


@compile_jit_function
def _settle(s: State, flow: int, rate: float, bottleneck: int) -> int:
    s.new_rate[flow] = rate
    s.new_bottleneck[flow] = bottleneck
    for k in range(WIDTH):
        r = s.crosses[flow, k]
        if r < 0:
            break
        s.residual[r] -= rate * s.cost[flow, k]
        s.weights[r] -= s.weight[flow] * s.cost[flow, k]
        if s.weights[r] < 1e-12 * s.weight[flow] * s.cost[flow, k]:
            s.weights[r] = 0.0
    return 1


@compile_jit_function
def _reaches_out(s: State, resource: int) -> bool:
    """Whether flows outside the region share a full resource with flows whose rate changed, or get more of one than a
    flow it holds back."""
    if s.region_members[resource] == s.members[resource]:
        return False
    tight = s.residual[resource] <= TIGHT * s.capacity[resource]
    if not tight and not s.full[resource]:
        return False
    lowest, highest = np.inf, 0.0
    here = s.head[resource]
    while here >= 0:
        flow = here // WIDTH
        if s.in_region[flow] == s.counts[STAMP]:
            old, new = s.rate[flow], s.new_rate[flow]
            if abs(new - old) > TIGHT * max(old, new) or old < 0.0:
                return True
            if s.new_bottleneck[flow] == resource:
                lowest = min(lowest, new / s.weight[flow])
        else:
            highest = max(highest, s.rate[flow] / s.weight[flow])
        here = s.following[here]
    return tight and highest > lowest * (1.0 + TIGHT)


@compile_jit_function
def _solve(s: State, size: int) -> tuple[int, int]:
    """New rates of the region's flows, which grows until nothing outside can have changed. Flows and resources."""
    rounds = 0
    while True:
        found = _resources_of(s, size)
        _fill(s, size, found)
        s.counts[SOLVED] += size
        before = size
        for j in range(found):
            r = s.region_resources[j]
            if _reaches_out(s, r):
                size = _add_members(s, r, size)
        if size == before:
            return size, found
        rounds += 1
        if rounds > 6:  # a region that keeps growing: take all that hangs together
            done = 0
            while done < size:
                flow = s.region[done]
                for k in range(WIDTH):
                    if s.crosses[flow, k] < 0:
                        break
                    size = _add_members(s, s.crosses[flow, k], size)
                done += 1


@compile_jit_function
def _commit(s: State, size: int, found: int, out: Segments, written: int, recording: bool) -> int:
    now = s.now[0]
    for j in range(found):
        r = s.region_resources[j]
        s.full[r] = s.residual[r] <= TIGHT * s.capacity[r]
        s.used[r] = s.capacity[r] - s.residual[r]
    for i in range(size):
        flow = s.region[i]
        old, new = s.rate[flow], s.new_rate[flow]
        if old >= 0.0 and abs(new - old) <= 1e-12 * max(old, new) and s.bottleneck[flow] == s.new_bottleneck[flow]:
            continue
        if old >= 0.0:
            written = _write(s, flow, out, written, recording)
        s.left[flow] = max(s.left[flow] - max(old, 0.0) * (now - s.since[flow]), 0.0)
        s.since[flow] = now
        s.rate[flow] = new
        s.bottleneck[flow] = s.new_bottleneck[flow]
        _set_due(s, flow, now + s.left[flow] / new if new > 0.0 else np.inf)
    return written


@compile_jit_function
def _write(s: State, flow: int, out: Segments, written: int, recording: bool) -> int:
    if not recording or s.now[0] <= s.since[flow]:
        return written
    out.flow[written] = flow
    out.begin[written] = s.since[flow]
    out.end[written] = s.now[0]
    out.rate[written] = s.rate[flow]
    out.bottleneck[written] = s.bottleneck[flow]
    return written + 1


@compile_jit_function
def _end_phase(s: State, phase: int) -> None:
    s.phase_ended[phase] = s.now[0]
    after = s.first_after[phase]
    while after >= 0:
        wake_engine_phase(s, after, s.now[0] + s.delay[after])
        after = s.next_after[after]


@compile_jit_function
def advance_engine(s: State, until: float, out: Segments, recording: bool) -> int:
    """Run to `until` (inclusive). Returns the segments written; fewer than asked for when `out` is nearly full: then
    `now` is short of `until` and the call is to be repeated with an empty `out`."""
    written = 0
    room = len(out.flow)
    while True:
        when = until
        if s.counts[DUE] > 0:
            when = min(when, s.due_key[s.due_heap[0]])
        if s.counts[WAKE] > 0:
            when = min(when, s.wake_key[s.wake_heap[0]])
        change = s.counts[CHANGE]
        if change < len(s.change_time):
            when = min(when, s.change_time[change])
        if recording and room - written < 2 * s.counts[DUE] + 2:
            return written
        s.now[0] = max(s.now[0], when)
        now = s.now[0]
        s.counts[STAMP] += 1
        size = 0
        worked = False
        while s.counts[DUE] > 0 and s.due_key[s.due_heap[0]] <= now:
            flow = _pop(s.due_key, s.due_heap, s.due_at, s.counts[DUE])
            s.counts[DUE] -= 1
            s.counts[EVENTS] += 1
            worked = True
            written = _write(s, flow, out, written, recording)
            _unlink(s, flow)
            for k in range(WIDTH):
                r = s.crosses[flow, k]
                if r < 0:
                    break
                s.used[r] = max(s.used[r] - s.rate[flow] * s.cost[flow, k], 0.0) if s.members[r] else 0.0
                if s.full[r]:
                    size = _add_members(s, r, size)
                    s.full[r] = s.members[r] > 0
            s.rate[flow] = 0.0
            s.left[flow] = 0.0
            s.ended[flow] = now
            s.in_region[flow] = -1
            phase = s.phase[flow]
            s.open_flows[phase] -= 1
            if s.open_flows[phase] == 0:
                _end_phase(s, phase)
        while s.counts[WAKE] > 0 and s.wake_key[s.wake_heap[0]] <= now:
            phase = _pop(s.wake_key, s.wake_heap, s.wake_at, s.counts[WAKE])
            s.counts[WAKE] -= 1
            s.counts[EVENTS] += 1
            worked = True
            s.phase_begun[phase] = now
            for flow in range(s.first_flow[phase], s.past_flow[phase]):
                s.begun[flow] = now
                s.since[flow] = now
                s.rate[flow] = -1.0
                s.counts[EVENTS] += 1
                _link(s, flow)
                size = _add_flow(s, flow, size)
            if s.open_flows[phase] == 0:
                _end_phase(s, phase)
        while s.counts[CHANGE] < len(s.change_time) and s.change_time[s.counts[CHANGE]] <= now:
            r = s.change_resource[s.counts[CHANGE]]
            s.capacity[r] = s.change_capacity[s.counts[CHANGE]]
            s.counts[CHANGE] += 1
            s.counts[EVENTS] += 1
            worked = True
            size = _add_members(s, r, size)
        if worked:
            # A flow that ended is no longer linked, but may have been taken into the region before.
            kept = 0
            for i in range(size):
                flow = s.region[i]
                if s.in_region[flow] == s.counts[STAMP]:
                    s.region[kept] = flow
                    kept += 1
            if kept:
                kept, found = _solve(s, kept)
                written = _commit(s, kept, found, out, written, recording)
        elif now >= until:
            return written
