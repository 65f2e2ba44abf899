"""Disciplines against a plain model under any sequence of calls: who is next, what is held back, nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.decide.policies.requests import METADATA, Running, Waiting, build_discipline
from fairlead.decide.policies.requests.limits import FREE, JOB_AT_MOST

MS, S = 1_000_000, 1_000_000_000
ORDERS = ("fifo", "metadata-first", "share:0.3", "job-fair", "set-10", "exclusive")


def steps(*kinds: str) -> st.SearchStrategy[list[tuple]]:
    """Calls: kind, class, job, target, a number (bytes, a choice, microseconds)."""
    call = st.tuples(
        st.sampled_from(kinds),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from((None, "t", "u")),
        st.integers(0, 1 << 20),
    )
    return st.lists(call, min_size=40, max_size=200)


CALLS = ("add", "add", "add", "take", "take", "done")


class Model:
    """Requests in order of arrival, and the rules read off the page."""

    def __init__(self, spec: str, workers: int) -> None:
        self.queue = build_discipline(spec, workers=workers, seed=1)
        self.workers = workers
        self.running = Running()
        self.waiting: list[Waiting] = []
        self.taken: list[Waiting] = []
        self.now = 0

    def allowed(self, request: Waiting) -> int:
        return self.queue.limits.find_hold(request.job, request.target, self.running)

    def step(self, kind: str, op_class: int, job: int, target: str | None, size: int) -> None:
        if kind == "add":
            request = Waiting(op_class, f"j{job}", target, 0 if op_class == METADATA else size, self.now, None)
            self.waiting.append(request)
            self.queue.add(request, self.now)
        elif kind == "take" and self.running.total < self.workers:
            self.take()
        elif kind == "done" and self.taken:
            request = self.taken.pop(size % len(self.taken))
            self.running.note_end(request)
            self.queue.finish(request, self.now)
        elif kind == "drop" and self.waiting:
            request = self.waiting.pop(size % len(self.waiting))
            assert self.queue.drop(request)
            assert not self.queue.drop(request)
        elif kind == "along" and self.taken:
            first = self.taken[-1]
            for request in self.queue.take_along(first, lambda found: found[:2], self.now):
                assert (request.job, request.op_class, request.target) == (first.job, first.op_class, first.target)
                self.remove(request)
        elif kind == "later":
            self.now += size * 1000
        assert len(self.queue) == len(self.waiting)

    def take(self) -> Waiting | None:
        request = self.queue.take(self.now, self.running)
        if request is not None:
            assert self.allowed(request) < JOB_AT_MOST, "a job or target would hold every worker"
            self.remove(request)
            self.running.note_start(request)
            self.taken.append(request)
        return request

    def remove(self, request: Waiting) -> None:
        (place,) = [place for place, one in enumerate(self.waiting) if one is request]
        del self.waiting[place]

    def empty(self) -> None:
        """All that waits is served when workers come free and time passes."""
        for _ in range(10_000):
            if not self.waiting:
                return
            if self.running.total < self.workers and self.take() is not None:
                continue
            if self.taken:
                self.step("done", 0, 0, None, 0)
                continue
            wake = self.queue.wake_ns(self.now)
            assert wake is not None, "something waits, nothing runs, and no time will help"
            self.now = max(wake, self.now + 1)
        raise AssertionError("something is never served")


@settings(max_examples=100, deadline=None)
@given(
    steps(*CALLS, "drop", "along", "later"),
    st.sampled_from(ORDERS),
    st.sampled_from(
        ("", ",cap-job:off,cap-target:off", ",cap-job:0.4,cap-target:0.3", ",rate-job:3M,rate-target:t=50ops")
    ),
    st.integers(1, 6),
)
def test_nothing_is_lost_and_no_cap_is_passed(calls: list[tuple], order: str, limits: str, workers: int) -> None:
    model = Model(order + limits, workers)
    for call in calls:
        model.step(*call)
    model.empty()
    assert len(model.queue) == 0
    assert model.queue.take(model.now, Running()) is None


@settings(max_examples=100, deadline=None)
@given(
    steps(*CALLS, "drop", "along"),
    st.sampled_from(("", ",cap-job:off,cap-target:off", ",cap-job:0.4,cap-target:0.3")),
    st.integers(1, 6),
)
def test_fifo_takes_the_first_that_may_run(calls: list[tuple], limits: str, workers: int) -> None:
    model = Model("fifo" + limits, workers)
    for call in calls:
        expected = None
        if call[0] == "take" and model.running.total < workers:
            free = [request for request in model.waiting if model.allowed(request) == FREE]
            # Above a cap that yields, only while nothing else can run.
            expected = free or [request for request in model.waiting if model.allowed(request) < JOB_AT_MOST]
        before = len(model.taken)
        model.step(*call)
        if expected is not None:
            taken = model.taken[-1] if len(model.taken) > before else None
            assert taken is (expected[0] if expected else None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200 * MS), st.integers(1, 1 << 20)), min_size=1, max_size=60),
    st.floats(0.5e6, 50e6),
)
def test_a_rate_is_kept_over_any_time(arrivals: list[tuple[int, int]], per_s: float) -> None:
    queue = build_discipline(f"fifo,rate-job:{per_s:.0f}", workers=4, seed=1)
    now, passed = 0, []

    def take_all() -> None:
        while (request := queue.take(now, Running())) is not None:
            passed.append((now, request.size))

    for gap, size in arrivals:
        end = now + gap
        while (wake := queue.wake_ns(now)) is not None and wake <= end:
            now = max(now + 1, wake)
            take_all()
        now = end
        queue.add(Waiting(2, "j", None, size, now, None), now)
        take_all()
    for first in range(len(passed)):
        began = passed[first][0]
        moved = 0
        for at, size in passed[first:]:
            # What passed before this one, in any window, is not above the rate and its burst.
            assert moved <= (at - began) / S * per_s + per_s * 0.05 + max(s for _, s in passed) + 2
            moved += size


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_calls_give_the_same_answers(order: str) -> None:
    def answers() -> list[tuple[str | int, int]]:
        model = Model(order, 3)
        found = []
        for n in range(300):
            model.step("add", n % 3, n * n % 5, ("t", "u", None)[n % 7 % 3], n * 1013 % 99_999)
            if n % 2 and (taken := model.take()) is not None:
                found.append((taken.job, taken.turn))
            if n % 3 == 0:
                model.step("done", 0, 0, None, n)
        return found

    assert answers() == answers()
