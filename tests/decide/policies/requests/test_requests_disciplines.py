"""What each discipline does with waiting requests: order, fairness, caps, rates; and its setting's text."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead.core.errors import ConfigError
from fairlead.decide.policies.requests import (
    METADATA,
    READ,
    WRITE,
    Discipline,
    Rate,
    Running,
    Waiting,
    build_discipline,
    parse_discipline_rate,
)

MIB = 1 << 20
S = 1_000_000_000
FREE = ",cap-job:off,cap-target:off"


def waiting(
    job: str = "a", op_class: int = READ, size: int = MIB, target: object = None, item: object = None
) -> Waiting:
    return Waiting(op_class, job, target, 0 if op_class == METADATA else size, 0, item)


def served(queue: Discipline, workers: int = 1, now_ns: int = 0) -> list[Waiting]:
    """Everything that waits, in the order in which that many workers take it; the oldest ends first."""
    running, busy, order = Running(), [], []
    while True:
        while len(busy) < workers and (taken := queue.take(now_ns, running)) is not None:
            running.note_start(taken)
            busy.append(taken)
            order.append(taken)
        if not busy:
            return order
        ended = busy.pop(0)
        running.note_end(ended)
        queue.finish(ended, now_ns)


def filled(spec: str, requests: list[Waiting], workers: int = 1, seed: int = 1) -> Discipline:
    queue = build_discipline(spec, workers=workers, seed=seed)
    for request in requests:
        queue.add(request, 0)
    return queue


@pytest.mark.parametrize("spec", ["fifo", "metadata-first", "share:0.5", "job-fair", "set-10", "exclusive"])
def test_everything_is_served_once(spec: str) -> None:
    requests = [waiting("abc"[n % 3], n % 3 and n % 2 + 1, n * 1000, n % 5 or None) for n in range(100)]
    queue = filled(spec, requests, workers=4)
    assert len(queue) == 100
    order = served(queue, workers=4)
    assert sorted(map(id, order)) == sorted(map(id, requests))
    assert len(queue) == 0
    assert queue.take(0, Running()) is None


@pytest.mark.parametrize("spec", ["fifo", "metadata-first", "share:0.5", "job-fair", "set-10", "exclusive"])
def test_one_job_of_one_class_keeps_its_order(spec: str) -> None:
    requests = [waiting(size=n) for n in range(20)]
    assert served(filled(spec, requests)) == requests


def test_fifo_is_the_order_of_arrival() -> None:
    requests = [waiting("abcd"[n % 4], n % 3, target=n % 7) for n in range(40)]
    assert served(filled("fifo" + FREE, requests)) == requests


def test_metadata_first_starves_data() -> None:
    queue = filled("metadata-first", [waiting("data"), waiting("data"), waiting("meta", METADATA)])
    order, running = [], Running()
    for _ in range(30):
        taken = queue.take(0, running)
        assert taken is not None
        order.append(taken.job)
        if taken.op_class == METADATA:  # a closed loop: the next one comes at once
            queue.add(waiting("meta", METADATA), 0)
    assert set(order) == {"meta"}


@pytest.mark.parametrize(
    ("share", "low", "high"), [("0", 0, 0), ("0.25", 190, 310), ("0.5", 430, 570), ("1", 1000, 1000)]
)
def test_share_draws_metadata_with_its_probability(share: str, low: int, high: int) -> None:
    queue = filled(
        f"share:{share}", [waiting("m", METADATA) for _ in range(1001)] + [waiting("d") for _ in range(1001)]
    )
    first = [queue.take(0, Running()) for _ in range(1000)]
    assert low <= sum(taken is not None and taken.op_class == METADATA for taken in first) <= high


def test_share_takes_the_other_queue_when_the_chosen_one_is_empty() -> None:
    assert len(served(filled("share:1", [waiting() for _ in range(5)]))) == 5
    assert len(served(filled("share:0", [waiting(op_class=METADATA) for _ in range(5)]))) == 5


def test_share_repeats_from_its_seed() -> None:
    def classes(seed: int) -> list[int]:
        mixed = [waiting("m", METADATA) for _ in range(60)] + [waiting("d") for _ in range(60)]
        return [taken.op_class for taken in served(filled("share:0.5", mixed, seed=seed))]

    assert classes(1) == classes(1)
    assert classes(1) != classes(2)


def test_job_fair_serves_an_idle_job_at_once_and_shares_by_bytes() -> None:
    queue = filled("job-fair", [waiting("flood") for _ in range(200)])
    for _ in range(50):
        assert queue.take(0, Running()) is not None
    queue.add(waiting("small", size=4096), 0)
    taken = queue.take(0, Running())
    assert taken is not None
    assert taken.job == "small"
    for _ in range(500):
        queue.add(waiting("small", size=4096), 0)
    bytes_of: Counter[str | int] = Counter()
    for _ in range(300):
        taken = queue.take(0, Running())
        assert taken is not None
        bytes_of[taken.job] += taken.size + (64 << 10)
    assert 0.8 < bytes_of["small"] / bytes_of["flood"] < 1.25


def test_idle_time_is_no_credit() -> None:
    queue = filled("job-fair", [waiting("a") for _ in range(100)])
    for _ in range(90):
        queue.take(0, Running())
    for _ in range(20):
        queue.add(waiting("late"), 0)
    jobs = [taken.job for taken in (queue.take(0, Running()) for _ in range(10)) if taken is not None]
    assert Counter(jobs) == {"a": 5, "late": 5}


def test_set_ten_prefers_short_iterations_ten_to_one() -> None:
    queue = build_discipline("set-10", workers=1, seed=1)
    for begin in range(0, 100, 10):  # one phase every 10 s: set 1
        queue.add(waiting("often"), begin * S)
        queue.take(begin * S, Running())
    queue.add(waiting("rare"), -900 * S)  # its only phase began long ago: at least 1,000 s, set 3
    queue.take(-900 * S, Running())
    for _ in range(2000):
        queue.add(waiting("often"), 100 * S)
    order = queue._order  # type: ignore[attr-defined]
    assert order.set_of("often", 100 * S) == 1
    order._rhythms["rare"].last_ns = 100 * S  # it never paused
    for _ in range(100):
        queue.add(waiting("rare"), 100 * S)
    jobs = [taken.job for taken in (queue.take(100 * S, Running()) for _ in range(1010)) if taken is not None]
    assert 7 <= Counter(jobs)["rare"] <= 13


def test_set_ten_takes_long_requests_for_no_pause() -> None:
    queue = build_discipline("set-10", workers=1, seed=1)
    now = 0
    for _ in range(10):  # one client, every request takes 20 s
        queue.add(waiting("slow"), now)
        taken = queue.take(now, Running())
        assert taken is not None
        now += 20 * S
        queue.finish(taken, now)
    assert queue._order.set_of("slow", now) == 2


def test_set_ten_lets_one_job_of_a_set_finish_first() -> None:
    queue = build_discipline("set-10", workers=1, seed=1)
    for job in ("first", "second"):
        for _ in range(5):
            queue.add(waiting(job), S if job == "first" else S + 1)
    jobs = [taken.job for taken in (queue.take(S + 2, Running()) for _ in range(10)) if taken is not None]
    assert jobs == ["first"] * 5 + ["second"] * 5


@pytest.mark.parametrize("spec", ["fifo", "metadata-first", "job-fair", "set-10", "share:0.5"])
def test_no_job_and_no_target_holds_all_workers(spec: str) -> None:
    for requests in ([waiting("a") for _ in range(40)], [waiting(f"j{n}", target="t") for n in range(40)]):
        queue, running = filled(spec, requests, workers=8), Running()
        taken = []
        while (request := queue.take(0, running)) is not None:
            running.note_start(request)
            taken.append(request)
        assert len(taken) == 7
        newcomer = waiting("new", target="other")
        queue.add(newcomer, 0)
        assert queue.take(0, running) is newcomer
        running.note_end(taken[0])
        queue.finish(taken[0], 0)
        assert queue.take(0, running) is not None


def test_a_target_over_its_cap_yields_to_others_and_only_to_them() -> None:
    slow = [waiting("a", target="slow") for _ in range(20)]
    queue, running = filled("fifo", slow, workers=8), Running()
    for _ in range(6):  # nobody else waits: above half of the workers
        request = queue.take(0, running)
        assert request is not None
        running.note_start(request)
    other = [waiting("b", target="fast") for _ in range(2)]
    for request in other:
        queue.add(request, 0)
    assert queue.take(0, running) is other[0]
    running.note_start(other[0])
    assert queue.take(0, running) is other[1]


def test_caps_can_be_lifted() -> None:
    queue, running = filled("fifo" + FREE, [waiting(target="t") for _ in range(20)], workers=4), Running()
    for _ in range(4):
        request = queue.take(0, running)
        assert request is not None
        running.note_start(request)


def test_a_rate_holds_without_a_worker_and_wakes_in_time() -> None:
    queue, running = (
        filled("job-fair,rate-job:slow=10M", [waiting("slow", size=1_000_000) for _ in range(100)]),
        Running(),
    )
    other = waiting("other")
    now, taken, bytes_taken = 0, 0, 0
    queue.add(other, now)
    seen_other = False
    while now < 5 * S:
        request = queue.take(now, running)
        if request is None:
            wake = queue.wake_ns(now)
            if wake is None:
                break
            assert wake > now
            now = wake
            continue
        seen_other = seen_other or request is other
        if request is not other:
            taken += 1
            bytes_taken += request.size
    assert seen_other
    assert bytes_taken / 5 == pytest.approx(10e6, rel=0.05)
    assert len(queue) == 100 - taken


def test_rates_count_operations_targets_and_pools() -> None:
    spec = "fifo,rate-job:50ops,rate-target:t=20ops,rate-pool:p@u=10ops,pool:b=p"
    queue = build_discipline(spec, workers=4, seed=1)
    lanes = {("a", "v"): 50, ("a", "t"): 20, ("b", "u"): 10}
    for (job, target), per_s in lanes.items():
        alone = build_discipline(spec, workers=4, seed=1)
        for _ in range(500):
            alone.add(waiting(job, target=target), 0)
        now, count = 0, 0
        while now < 4 * S:
            if alone.take(now, Running()) is None:
                wake = alone.wake_ns(now)
                assert wake is not None
                now = wake
            else:
                count += 1
        assert count == pytest.approx(4 * per_s, abs=per_s * 0.1 + 2)
    assert queue.wake_ns(0) is None


def test_a_rate_in_bytes_does_not_hold_metadata() -> None:
    queue = filled("fifo,rate-job:1M", [waiting(), waiting(), waiting(op_class=METADATA), waiting(op_class=METADATA)])
    taken = [queue.take(0, Running()) for _ in range(4)]
    assert [request and request.op_class for request in taken] == [READ, METADATA, METADATA, None]


def test_a_changed_rate_counts_at_once() -> None:
    queue = build_discipline("fifo,rate-job:1ops", workers=4, seed=1)
    for _ in range(50):
        queue.add(waiting(), 0)
    while queue.take(0, Running()) is not None:
        pass
    wake = queue.wake_ns(0)
    assert wake is not None
    assert wake > S // 2
    queue.limits.rate_job("a", Rate(1e12))
    assert queue.wake_ns(0) == 0
    assert queue.take(0, Running()) is not None


@pytest.mark.parametrize("spec", ["fifo", "share:0.5", "job-fair", "set-10", "fifo,rate-job:1ops"])
def test_dropped_requests_are_not_served(spec: str) -> None:
    alone = waiting()
    queue = filled(spec, [alone])
    assert queue.drop(alone)
    assert not queue.drop(alone)
    assert queue.take(0, Running()) is None
    requests = [waiting("ab"[n % 2], n % 3) for n in range(30)]
    for request in requests:
        queue.add(request, 0)
    queue.take(0, Running())
    dropped = [request for request in requests if request.job == "b" and queue.drop(request)]
    assert dropped
    assert len(queue) == 29 - len(dropped)
    order, now = [], 0
    while len(queue):
        taken = queue.take(now, Running())
        if taken is None:
            now = queue.wake_ns(now) or now + 1
        else:
            order.append(taken)
    assert not {id(request) for request in dropped} & {id(request) for request in order}
    queue.add(dropped[0], now + 10 * S)
    assert queue.take(now + 10 * S, Running()) is dropped[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("fair", "'fair'"),
        ("share", "'share'"),
        ("share:1.5", "'share:1.5'"),
        ("fifo:3", "'fifo:3'"),
        ("fifo,cap-job:2", "'cap-job:2'"),
        ("fifo,cap-job:0", "'cap-job:0'"),
        ("fifo,cap-jobs:0.5", "'cap-jobs:0.5'"),
        ("fifo,rate-job:fast", "'fast'"),
        ("fifo,rate-job:0", "'0'"),
        ("fifo,rate-pool:x=5M", "'x'"),
        ("fifo,pool:x", "'x'"),
    ],
)
def test_a_wrong_spec_names_its_part(text: str, part: str) -> None:
    with pytest.raises(ConfigError) as error:
        build_discipline(text, workers=16, seed=1)
    assert part in str(error.value)
    assert error.value.remedy


def test_rates_are_read() -> None:
    assert parse_discipline_rate("100M") == Rate(100e6)
    assert parse_discipline_rate("1.5GiB/s") == Rate(1.5 * (1 << 30))
    assert parse_discipline_rate("200ops") == parse_discipline_rate("200 ops/s") == Rate(200, operations=True)
    assert parse_discipline_rate("4096") == Rate(4096)
    assert parse_discipline_rate("4096B") == Rate(4096)


def test_kinds() -> None:
    assert (METADATA, READ, WRITE) == (0, 1, 2)


def test_users_share_first_then_the_jobs_of_each() -> None:
    queue = build_discipline("job-fair", workers=4, seed=1)
    made_up = [Waiting(READ, f"made-up-{n % 24}", None, 1 << 20, 0, None, user=1001) for n in range(480)]
    honest = [Waiting(READ, "honest", None, 1 << 20, 0, None, user=1002) for _ in range(200)]
    for request in (*made_up, *honest):
        queue.add(request, 0)
    served = [taken for taken in (queue.take(0, Running()) for _ in range(200)) if taken is not None]
    assert sum(taken.user == 1002 for taken in served) == 100
    jobs = Counter(taken.job for taken in served if taken.user == 1001)
    assert len(jobs) == 24
    assert max(jobs.values()) - min(jobs.values()) <= 1


def test_a_user_leaves_a_worker_to_others() -> None:
    queue, running = build_discipline("job-fair", workers=4, seed=1), Running()
    other = Waiting(READ, "other", None, 1 << 20, 0, None, user=2)
    queue.add(other, 0)
    assert queue.take(0, running) is other
    for n in range(20):
        queue.add(Waiting(READ, f"j{n}", None, 1 << 20, 0, None, user=1), 0)
    begun = []
    while (taken := queue.take(0, running)) is not None:
        running.note_start(taken)
        begun.append(taken)
    assert len(begun) == 3
    other = Waiting(READ, "other", None, 1 << 20, 0, None, user=2)
    queue.add(other, 0)
    assert queue.take(0, running) is other
    running.note_end(begun[0])
    queue.finish(begun[0], 0)
    assert queue.take(0, running) is not None
