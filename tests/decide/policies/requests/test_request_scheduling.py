"""Disciplines in virtual time: closed-loop clients on a forwarder's workers. Starvation, fairness, caps, rates.

The discipline is the one the forwarder runs; only time, clients and storage are made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

import pytest

from fairlead.decide.policies.requests import METADATA, READ, WRITE, Running, Waiting, build_discipline

MS, S = 1_000_000, 1_000_000_000
KIB, MIB = 1 << 10, 1 << 20
LWFS = ",cap-job:off,cap-target:off"
WORKERS = 16


@dataclass
class Job:
    """Closed-loop clients: each waits `think_ns` after an answer and sends the next request."""

    name: str
    op_class: int
    size: int
    clients: int
    service_ns: int
    think_ns: int = 0
    target: object | None = None
    from_ns: int = 0
    until_ns: int = 1 << 62
    answered: int = 0
    responses_ns: list[int] = field(default_factory=list)
    most_workers: int = 0

    def mean_response_ns(self) -> float:
        return sum(self.responses_ns) / len(self.responses_ns)


def simulate(spec: str, jobs: list[Job], seconds: float, *, workers: int = WORKERS, seed: int = 1) -> dict[str, Job]:
    """Runs the jobs beside each other; at every moment checks that no worker idles while something may run."""
    queue, running, random = build_discipline(spec, workers=workers, seed=seed), Running(), Random(seed)
    events: list[tuple[int, int, str, Waiting]] = []
    number = 0

    def at(when: int, kind: str, waiting: Waiting) -> None:
        nonlocal number
        number += 1
        heappush(events, (when, number, kind, waiting))

    for job in jobs:
        for _ in range(job.clients):
            begin = job.from_ns + random.randrange(MS)
            at(begin, "arrives", Waiting(job.op_class, job.name, job.target, job.size, begin, job))
    end_ns = int(seconds * S)
    wakes: set[int] = set()
    while events and events[0][0] < end_ns:
        now, _, kind, waiting = heappop(events)
        job = waiting.item
        if kind == "arrives":
            waiting.arrived_ns = now
            queue.add(waiting, now)
        elif kind == "ends":
            running.note_end(waiting)
            queue.finish(waiting, now)
            job.answered += 1
            job.responses_ns.append(now - waiting.arrived_ns)
            if now < job.until_ns:
                again = now + job.think_ns
                at(again, "arrives", Waiting(job.op_class, job.name, job.target, job.size, again, job))
        while running.total < workers and (taken := queue.take(now, running)) is not None:
            running.note_start(taken)
            job = taken.item
            job.most_workers = max(job.most_workers, running.jobs[job.name])
            # A little noise, so that nothing stays in step.
            at(now + int(job.service_ns * random.uniform(0.9, 1.1)), "ends", taken)
        wake = queue.wake_ns(now)
        if running.total < workers and len(queue) and wake is not None and wake not in wakes:
            wakes.add(wake)
            at(max(wake, now + 1), "wakes", waiting)
        assert running.total or not len(queue) or wake is not None, "something waits, and nothing will wake it"
    return {job.name: job for job in jobs}


def metadata_and_data() -> list[Job]:
    return [
        Job("metadata", METADATA, 0, clients=4 * WORKERS, service_ns=MS),
        Job("data", WRITE, MIB, clients=8, service_ns=4 * MS),
    ]


def test_metadata_first_starves_data() -> None:
    jobs = simulate("metadata-first" + LWFS, metadata_and_data(), 4)
    assert jobs["data"].answered < 0.02 * jobs["metadata"].answered


def test_sharing_frees_the_victim_for_a_small_price() -> None:
    alone = simulate("metadata-first" + LWFS, metadata_and_data()[:1], 4)["metadata"].answered
    before = simulate("metadata-first" + LWFS, metadata_and_data(), 4)
    shared = simulate("share:0.5" + LWFS, metadata_and_data(), 4)
    assert shared["data"].answered >= 2 * max(1, before["data"].answered)
    assert shared["metadata"].answered < alone


@pytest.mark.parametrize("metadata_share", [0.2, 0.5, 0.8])
def test_share_divides_workers_by_requests(metadata_share: float) -> None:
    jobs = [
        Job("metadata", METADATA, 0, clients=60, service_ns=MS),
        Job("data", READ, MIB, clients=60, service_ns=MS),
    ]
    simulate(f"share:{metadata_share}" + LWFS, jobs, 3)
    whole = sum(job.answered for job in jobs)
    assert jobs[0].answered / whole == pytest.approx(metadata_share, abs=0.02)


def flood_and_one() -> list[Job]:
    return [
        Job("N-1", WRITE, MIB, clients=256, service_ns=8 * MS, target="shared"),
        Job("1-1", READ, MIB, clients=1, service_ns=8 * MS, think_ns=5 * MS, target="own"),
    ]


def test_a_flood_makes_the_other_job_wait_under_fifo_and_not_under_job_fair() -> None:
    solo = simulate("fifo" + LWFS, flood_and_one()[1:], 8)["1-1"].mean_response_ns()
    fifo = simulate("fifo" + LWFS, flood_and_one(), 8)["1-1"].mean_response_ns()
    fair = simulate("job-fair" + LWFS, flood_and_one(), 8)["1-1"].mean_response_ns()
    capped = simulate("job-fair", flood_and_one(), 8)["1-1"].mean_response_ns()
    assert fifo >= 5 * solo
    assert fair <= 1.3 * (solo + 8 * MS / WORKERS)
    assert capped <= 1.1 * solo  # the worker that no job may take is free


def test_the_flood_pays_little_for_it() -> None:
    alone = simulate("fifo" + LWFS, flood_and_one()[:1], 4)["N-1"].answered
    fair = simulate("job-fair", flood_and_one(), 4)["N-1"].answered
    assert fair >= 0.9 * alone


@pytest.mark.parametrize("spec", ["job-fair", "job-fair,cap-job:0.5", "job-fair" + LWFS])
def test_jobs_of_unequal_width_get_equal_service(spec: str) -> None:
    jobs = [
        Job("wide", WRITE, MIB, clients=200, service_ns=2 * MS),
        Job("narrow", WRITE, MIB, clients=40, service_ns=2 * MS),
        Job("small", WRITE, 64 * KIB, clients=100, service_ns=MS // 4),
    ]
    simulate(spec, jobs, 3)
    service = [job.answered * (job.size + 64 * KIB) for job in jobs]
    assert max(service) / min(service) < 1.15


@pytest.mark.parametrize("spec", ["fifo", "metadata-first", "share:0.5", "job-fair", "set-10", "exclusive"])
def test_nobody_holds_all_workers_and_newcomers_begin_at_once(spec: str) -> None:
    jobs = [
        Job("stuck", WRITE, MIB, clients=100, service_ns=2 * S, target="slow"),
        Job("late", READ, 64 * KIB, clients=1, service_ns=MS, target="fast", from_ns=S // 2),
    ]
    simulate(spec, jobs, 4)
    assert jobs[0].most_workers == WORKERS - 1
    assert max(jobs[1].responses_ns) < 2 * MS


def test_a_slow_target_leaves_half_of_the_workers_to_others() -> None:
    jobs = [Job(f"slow{n}", WRITE, MIB, clients=16, service_ns=50 * MS, target="slow") for n in range(4)]
    jobs += [Job(f"fast{n}", WRITE, MIB, clients=16, service_ns=MS, target=f"fast{n % 3}") for n in range(4)]
    simulate("job-fair", jobs, 3)
    fast = sum(job.answered for job in jobs[4:])
    # Half of the workers at least are never in the slow target, once the start is over.
    assert fast >= 0.9 * (WORKERS / 2) * 3 * S / MS


def test_a_job_alone_does_not_pay() -> None:
    def rate(spec: str, **other: object) -> int:
        return simulate(spec, [Job("alone", WRITE, MIB, clients=12, service_ns=MS, **other)], 2)["alone"].answered  # type: ignore[arg-type]

    for target in (None, "one"):
        plain = rate("fifo" + LWFS, target=target)
        for spec in ("metadata-first", "share:0.5", "job-fair", "set-10", "job-fair,cap-job:0.25,cap-target:0.25"):
            assert rate(spec, target=target) == plain


def test_a_rate_holds_one_job_and_frees_the_workers_for_the_other() -> None:
    jobs = [
        Job("limited", WRITE, MIB, clients=64, service_ns=8 * MS),
        Job("free", WRITE, MIB, clients=64, service_ns=8 * MS),
    ]
    simulate("job-fair,rate-job:limited=100M", jobs, 4)
    assert jobs[0].answered * MIB / 4 == pytest.approx(100e6, rel=0.06)
    whole = WORKERS * 4 * S / (8 * MS)
    assert jobs[0].answered + jobs[1].answered >= 0.9 * whole


def test_pools_hold_a_target_to_what_each_may_have() -> None:
    jobs = [
        Job("a", WRITE, MIB, clients=32, service_ns=MS, target="t"),
        Job("b", WRITE, MIB, clients=32, service_ns=MS, target="t"),
    ]
    simulate("job-fair,pool:a=p,pool:b=q,rate-pool:p@t=300M,rate-pool:q@t=100M", jobs, 4)
    assert jobs[0].answered / jobs[1].answered == pytest.approx(3, rel=0.1)


def test_set_ten_gives_jobs_with_short_iterations_their_phase_almost_undisturbed() -> None:
    def iterations(spec: str) -> float:
        jobs = [
            Job("long", WRITE, MIB, clients=64, service_ns=8 * MS),
            Job("short", WRITE, MIB, clients=16, service_ns=8 * MS, think_ns=2 * S, from_ns=3 * S),
        ]
        simulate(spec + LWFS, jobs, 40)
        return jobs[1].mean_response_ns()

    assert iterations("set-10") < 0.6 * iterations("fifo")


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = (simulate("share:0.3,rate-job:200M", metadata_and_data(), 2, seed=5) for _ in range(2))
    other = simulate("share:0.3,rate-job:200M", metadata_and_data(), 2, seed=6)
    assert [job.responses_ns for job in first.values()] == [job.responses_ns for job in again.values()]
    assert [job.responses_ns for job in first.values()] != [job.responses_ns for job in other.values()]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_everything_is_served(seed: int) -> None:
    """Random jobs that end after a while, under random settings: nothing is left behind."""
    random = Random(seed)
    jobs = [
        Job(
            f"j{n}",
            random.randrange(3),
            random.choice((0, 4096, MIB)),
            clients=random.randrange(1, 30),
            service_ns=random.randrange(MS // 10, 20 * MS),
            think_ns=random.choice((0, MS, 100 * MS)),
            target=random.choice((None, "t1", "t2")),
            from_ns=random.randrange(S),
            until_ns=2 * S,
        )
        for n in range(6)
    ]
    order = random.choice(("fifo", "metadata-first", "share:0.4", "job-fair", "set-10"))
    limits = random.choice(("", LWFS, ",cap-job:0.3", ",rate-job:500ops", ",rate-target:t1=200ops,cap-target:0.1"))
    simulate(order + limits, jobs, 30, workers=random.randrange(1, 20), seed=seed)
    # Each client sent until 2 s had passed, and got an answer to its last request.
    assert all(job.answered >= job.clients for job in jobs)
