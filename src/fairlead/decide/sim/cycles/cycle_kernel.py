"""The loop of applications in cycles, compiled: one heap of what happens next, and by resource one of what ends next.

Shares by virtual time: a resource's clock runs at speed / (sum of weights of active queues), a transfer ends when that
clock reaches its tag. So an event costs O(log) however many share. Imported when something is run: it loads numba.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.core.jit import compile_jit_function

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
FAR = 1e4
"""Virtual time over a transfer's own from which on the clock is set back, so that rounding stays below 1e-12 of it."""


@compile_jit_function
def _sift_up(key: F64, heap: I64, at: I64, base: int, place: int) -> None:
    item = heap[base + place]
    value = key[item]
    while place > 0:
        parent = (place - 1) >> 1
        other = heap[base + parent]
        if key[other] < value or (key[other] == value and other < item):
            break
        heap[base + place] = other
        at[other] = place
        place = parent
    heap[base + place] = item
    at[item] = place


@compile_jit_function
def _sift_down(key: F64, heap: I64, at: I64, base: int, size: int, place: int) -> None:
    item = heap[base + place]
    value = key[item]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        first = heap[base + child]
        if right < size:
            second = heap[base + right]
            if key[second] < key[first] or (key[second] == key[first] and second < first):
                child = right
                first = second
        if value < key[first] or (value == key[first] and item < first):
            break
        heap[base + place] = first
        at[first] = place
        place = child
    heap[base + place] = item
    at[item] = place


@compile_jit_function
def _moved(key: F64, heap: I64, at: I64, size: int, item: int, when: float) -> None:
    """Another time for an entry of the heap of what happens next."""
    old = key[item]
    key[item] = when
    if when < old:
        _sift_up(key, heap, at, 0, at[item])
    elif when > old:
        _sift_down(key, heap, at, 0, size, at[item])


@compile_jit_function
def _weigh(weights: F64, lost: F64, r: int, more: float) -> None:
    """Adds to a resource's sum of weights, and keeps what rounding lost (Neumaier): weights may differ by decades."""
    before = weights[r]
    weights[r] = before + more
    if abs(before) >= abs(more):
        lost[r] += (before - weights[r]) + more
    else:
        lost[r] += (more - weights[r]) + before


@compile_jit_function
def _enter(
    transfer: int, length: float, r: int, tag: F64, heap: I64, at: I64, base: I64, size: I64, virtual: F64
) -> None:
    """A transfer of `length` in virtual time joins a resource. A clock far beyond that length is set back first."""
    if virtual[r] > FAR * length:
        for place in range(base[r], base[r] + size[r]):
            tag[heap[place]] = max(tag[heap[place]] - virtual[r], 0.0)
        virtual[r] = 0.0
    tag[transfer] = virtual[r] + length
    heap[base[r] + size[r]] = transfer
    size[r] += 1
    _sift_up(tag, heap, at, base[r], size[r] - 1)


@compile_jit_function
def _next_end(
    r: int, now: float, tag: F64, heap: I64, base: I64, size: I64, virtual: F64, total: float, speed: F64
) -> float:
    """When the next transfer on a resource ends; inf: none, or it serves nothing."""
    if size[r] == 0 or speed[r] <= 0.0:
        return np.inf
    return float(now + max(tag[heap[base[r]]] - virtual[r], 0.0) * total / speed[r])


@compile_jit_function
def run_cycle_kernel(
    first_phase: I64,
    compute_s: F64,
    share: F64,
    start_s: F64,
    skip_s: F64,
    repeat: bool,
    resources: I64,
    work_s: F64,
    queue: I64,
    weight: F64,
    speed: F64,
    change_s: F64,
    change_resource: I64,
    change_speed: F64,
    from_s: float,
    until_s: float,
    settled: bool,
    undisturbed: bool,
    phases: I64,
    io_s: F64,
    io_share: F64,
    waiting_s: F64,
    end_s: F64,
    busy_s: F64,
    span: F64,
    log: F64,
    logged: bool,
) -> tuple[int, int]:
    """See `model.run`. Fills the columns of `Outcome`; events, and rows of log with those that did not fit."""
    k, width = resources.shape
    n = len(speed)
    speed = speed.copy()
    # Transfers by place in `resources`; each resource has room in `heap` for all that may ever be on it.
    base = np.zeros(n + 1, np.int64)
    degree = np.zeros(k, np.int64)
    for i in range(k):
        for w in range(width):
            if resources[i, w] < 0:
                break
            base[resources[i, w] + 1] += 1
            degree[i] += 1
    for r in range(n):
        base[r + 1] += base[r]
    transfers = k * width
    tag = np.full(transfers, np.inf)
    heap = np.zeros(max(base[n], 1), np.int64)
    at = np.full(transfers, -1, np.int64)
    size = np.zeros(n, np.int64)
    virtual = np.zeros(n)
    touched = np.zeros(n)
    weights = np.zeros(n)
    lost = np.zeros(n)
    # Queues that are one application's need no line: its transfers never wait for one another.
    queues = len(weight)
    members = np.zeros(queues, np.int64)
    for i in range(k):
        members[queue[i]] += 1
    lined = False
    for q in range(queues):
        if members[q] > 1:
            lined = True
    head = np.full((n, queues) if lined else (1, 1), -1, np.int64)
    tail = np.full((n, queues) if lined else (1, 1), -1, np.int64)
    behind = np.full(transfers if lined else 1, -1, np.int64)
    serving = np.zeros((n, queues) if lined else (1, 1), np.bool_)
    # What happens next: entries 0..n-1 ends on resources, n..n+k-1 applications, n+k a change of speed.
    entries = n + k + 1
    key = np.full(entries, np.inf)
    next_heap = np.arange(entries)
    next_at = np.arange(entries)
    phase = first_phase[:-1].copy()
    computing = np.ones(k, np.bool_)
    waiting = np.zeros(k, np.int64)
    began = np.zeros(k)
    done = np.zeros(k, np.int64)
    yet = k
    for i in range(k):
        key[n + i] = start_s[i] + max(compute_s[phase[i]] - skip_s[i], 0.0)
    change = 0
    if len(change_s):
        key[n + k] = change_s[0]
    for place in range(entries // 2 - 1, -1, -1):
        _sift_down(key, next_heap, next_at, 0, entries, place)
    opened = from_s
    measuring = not settled
    events = 0
    written = 0
    now = 0.0
    closed = until_s
    while True:
        item = next_heap[0]
        when = key[item]
        if when > until_s or when == np.inf:
            break
        now = when
        events += 1
        ended = -1
        if item < n:  # a transfer ends
            r = item
            transfer = heap[base[r]]
            if measuring:
                busy_s[r] += max(now - max(touched[r], opened), 0.0)
            virtual[r] = tag[transfer]
            touched[r] = now
            last = heap[base[r] + size[r] - 1]
            size[r] -= 1
            if size[r] > 0:
                heap[base[r]] = last
                at[last] = 0
                _sift_down(tag, heap, at, base[r], size[r], 0)
            at[transfer] = -1
            i = transfer // width
            _weigh(weights, lost, r, -weight[queue[i]])
            if lined:
                q = queue[i]
                serving[r, q] = False
                follower = head[r, q]
                if follower >= 0:
                    head[r, q] = behind[follower]
                    behind[follower] = -1
                    if head[r, q] < 0:
                        tail[r, q] = -1
                    j = follower // width
                    _enter(follower, work_s[j] * share[phase[j]] / weight[q], r, tag, heap, at, base, size, virtual)
                    _weigh(weights, lost, r, weight[q])
                    serving[r, q] = True
            if size[r] == 0:
                weights[r] = lost[r] = virtual[r] = 0.0
            ends = _next_end(r, now, tag, heap, base, size, virtual, weights[r] + lost[r], speed)
            _moved(key, next_heap, next_at, entries, r, ends)
            waiting[i] -= 1
            if waiting[i] == 0:
                ended = i
        elif item < n + k:
            i = item - n
            if computing[i]:  # computing is over: its I/O begins
                computing[i] = False
                began[i] = now
                amount = work_s[i] * share[phase[i]]
                if amount <= 0.0:
                    ended = i
                elif degree[i] == 0:
                    _moved(key, next_heap, next_at, entries, item, now + amount)
                else:
                    _moved(key, next_heap, next_at, entries, item, np.inf)
                    waiting[i] = degree[i]
                    q = queue[i]
                    for w in range(degree[i]):
                        r = resources[i, w]
                        transfer = i * width + w
                        if lined and serving[r, q]:
                            if tail[r, q] >= 0:
                                behind[tail[r, q]] = transfer
                            else:
                                head[r, q] = transfer
                            tail[r, q] = transfer
                            continue
                        if size[r] > 0:
                            if measuring:
                                busy_s[r] += max(now - max(touched[r], opened), 0.0)
                            virtual[r] += (now - touched[r]) * speed[r] / (weights[r] + lost[r])
                        touched[r] = now
                        _enter(transfer, amount / weight[q], r, tag, heap, at, base, size, virtual)
                        _weigh(weights, lost, r, weight[q])
                        if lined:
                            serving[r, q] = True
                        ends = _next_end(r, now, tag, heap, base, size, virtual, weights[r] + lost[r], speed)
                        _moved(key, next_heap, next_at, entries, r, ends)
            else:  # I/O that needs no resource is over
                ended = i
        else:  # a resource's speed changes
            r = change_resource[change]
            if size[r] > 0:
                if measuring:
                    busy_s[r] += max(now - max(touched[r], opened), 0.0)
                virtual[r] += (now - touched[r]) * speed[r] / (weights[r] + lost[r])
            touched[r] = now
            speed[r] = change_speed[change]
            ends = _next_end(r, now, tag, heap, base, size, virtual, weights[r] + lost[r], speed)
            _moved(key, next_heap, next_at, entries, r, ends)
            change += 1
            _moved(key, next_heap, next_at, entries, item, change_s[change] if change < len(change_s) else np.inf)
        if ended < 0:
            continue
        i = ended
        if logged:
            if written < len(log):
                log[written, 0], log[written, 1], log[written, 2], log[written, 3] = i, phase[i], began[i], now
            written += 1
        if measuring:
            waiting_s[i] += max(now - max(began[i], opened), 0.0)
            if began[i] >= opened:
                phases[i] += 1
                io_s[i] += now - began[i]
                io_share[i] += share[phase[i]]
        done[i] += 1
        if done[i] == 1:
            yet -= 1
            if yet == 0 and settled:
                measuring = True
                opened = max(now, from_s)
        phase[i] += 1
        computing[i] = True
        if phase[i] == first_phase[i + 1]:
            if not repeat:
                end_s[i] = now
                _moved(key, next_heap, next_at, entries, n + i, np.inf)
                if undisturbed:
                    closed = now
                    break
                continue
            phase[i] = first_phase[i]
        _moved(key, next_heap, next_at, entries, n + i, now + compute_s[phase[i]])
    if closed == np.inf:  # to the end: what a dead resource holds back never comes to one
        closed = now
    if not measuring:
        opened = closed
    if closed > opened:
        for i in range(k):
            if not computing[i]:
                waiting_s[i] += closed - max(began[i], opened)
        for r in range(n):
            if size[r] > 0:
                busy_s[r] += max(closed - max(touched[r], opened), 0.0)
    span[0] = opened
    span[1] = closed
    return events, written
