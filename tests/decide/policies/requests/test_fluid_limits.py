"""The fluid limit of a discipline against the discipline itself, request by request, on one server in a closed loop."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.decide.policies.requests import METADATA, WRITE, Running, Waiting, build_discipline
from fairlead.decide.policies.requests.fluid_limits import (
    Streams,
    build_fluid_limits,
    build_fluid_sharing,
    compute_fluid_weights,
)
from fairlead.decide.sim.cycles.cycle_model import Cycles, Window, simulate_cycles
from fairlead.decide.sim.engine import Engine, Phases

S = 1_000_000_000
NO_CAPS = ",cap-job:off,cap-target:off"


@dataclass
class App:
    """Computes, then moves `requests` requests, `under_way` of them at a time; `phases` times."""

    under_way: int
    request_s: float
    request_bytes: int
    compute_s: float
    requests: int
    phases: int = 1


def closed_loop(spec: str, apps: list[App], workers: int = 1) -> list[list[tuple[float, float]]]:
    """Beginning and end of each I/O phase of each application, seconds. A device that serves `workers`
    requests at a time, each in its time; a worker waits for nothing but the discipline."""
    queue, running = build_discipline(spec, workers=workers, seed=1), Running()
    events: list[tuple[int, int, str, object]] = []
    left, missing, begun = [0] * len(apps), [0] * len(apps), [0] * len(apps)
    out: list[list[tuple[float, float]]] = [[] for _ in apps]
    number, woken = 0, set()

    def later(now: int, kind: str, what: object) -> None:
        nonlocal number
        number += 1
        heappush(events, (now, number, kind, what))

    def ask(i: int, now: int) -> None:
        app = apps[i]
        left[i] -= 1
        op = METADATA if not app.request_bytes else WRITE
        queue.add(Waiting(op, str(i), "t", app.request_bytes, now, i), now)

    for i, app in enumerate(apps):
        later(round(app.compute_s * S), "begin", i)
    while events:
        now, _, kind, what = heappop(events)
        if kind == "begin":
            i = int(what)  # type: ignore[call-overload]
            left[i] = missing[i] = apps[i].requests
            begun[i] = now
            for _ in range(min(apps[i].under_way, left[i])):
                ask(i, now)
        elif kind == "end":
            running.note_end(what)  # type: ignore[arg-type]
            queue.finish(what, now)  # type: ignore[arg-type]
            i = what.item  # type: ignore[attr-defined]
            missing[i] -= 1
            if left[i]:
                ask(i, now)
            elif not missing[i]:
                out[i].append((begun[i] / S, now / S))
                if len(out[i]) < apps[i].phases:
                    later(now + round(apps[i].compute_s * S), "begin", i)
        while running.total < workers and (taken := queue.take(now, running)) is not None:
            running.note_start(taken)
            later(now + round(apps[taken.item].request_s * S), "end", taken)  # type: ignore[call-overload]
        wake = queue.wake_ns(now)
        if wake is not None and wake > now and wake not in woken:
            woken.add(wake)
            later(wake, "wake", None)
    return out


def streams(apps: list[App]) -> Streams:
    return Streams(
        under_way=np.array([a.under_way for a in apps], float),
        request_bytes=np.array([a.request_bytes for a in apps], float),
        request_s=np.array([a.request_s for a in apps]),
        iteration_s=np.array([a.compute_s + a.requests * a.request_s for a in apps]),
    )


def fluid(order: str, apps: list[App], window: Window, *, repeat: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean seconds of an I/O phase, and the time of the end, of each application."""
    outcome = simulate_cycles(
        Cycles.build_equal([1] * len(apps), [a.compute_s for a in apps], repeat=repeat),
        np.zeros((len(apps), 1), np.int64),
        np.array([a.requests * a.request_s for a in apps]),
        1,
        window,
        sharing=build_fluid_sharing(order, streams(apps)),
    )
    with np.errstate(invalid="ignore"):
        return outcome.io_s / outcome.io_share, outcome.end_s


MIB, KIB = 1 << 20, 1 << 10
DATA = [App(1, 0.010, MIB, 0.5, 400), App(4, 0.010, MIB, 1.5, 900), App(2, 0.004, 256 * KIB, 0.0, 1500)]
MIXED = [App(8, 0.001, 0, 0.0, 4000), App(4, 0.010, MIB, 0.2, 800)]


@pytest.mark.parametrize(
    ("order", "apps"),
    [
        ("fifo", DATA),
        ("fifo", MIXED),
        ("job-fair", DATA),
        ("job-fair", MIXED),
        ("exclusive", DATA),
        ("metadata-first", MIXED),
        ("share:0.3", MIXED),
        ("share:0.9", MIXED),
    ],
)
def test_phases_end_when_the_fluid_limit_says(order: str, apps: list[App]) -> None:
    ends = [phases[0][1] for phases in closed_loop(order + NO_CAPS, apps)]
    _, expected = fluid(order, apps, Window(until_s=1e4), repeat=False)
    assert ends == pytest.approx(expected.tolist(), rel=0.04 if "share" in order else 0.02)


def test_orders_differ_as_their_limits_do() -> None:
    ends = {
        order: fluid(order, DATA, Window(until_s=1e4), repeat=False)[1] for order in ("fifo", "job-fair", "exclusive")
    }
    assert ends["exclusive"][2] == pytest.approx(6.0)  # the first to begin, alone
    assert ends["fifo"][0] > 1.1 * ends["job-fair"][0]  # one request under way beside four


@pytest.mark.parametrize("order", ["set-10", "exclusive", "job-fair"])
def test_iterations_take_as_long_as_in_the_fluid_limit(order: str) -> None:
    apps = [App(4, 0.02, MIB, 3.0, 60, 300), App(4, 0.02, MIB, 41.0, 700, 27), App(4, 0.02, MIB, 37.0, 900, 27)]
    found = closed_loop(order + NO_CAPS, apps)
    seen = [float(np.mean([e - b for b, e in phases if b > 100 and e < 1200])) for phases in found]
    expected, _ = fluid(order, apps, Window(until_s=1200.0, from_s=100.0), repeat=True)
    assert seen == pytest.approx(expected.tolist(), rel=0.1)


def test_set_ten_serves_short_iterations_first() -> None:
    fast, slow = App(4, 0.02, MIB, 3.0, 60, 300), App(4, 0.02, MIB, 41.0, 700, 27)
    window = Window(until_s=2000.0, from_s=100.0)
    one_each = fluid("set-10", [fast, slow], window, repeat=True)[0]
    alone = fast.requests * fast.request_s
    assert one_each[0] < 1.1 * alone < 1.4 * alone < fluid("exclusive", [fast, slow], window, repeat=True)[0][0]


def test_rates_are_caps_of_flows() -> None:
    # 100 MB/s of device; one job is held to 20 MB/s: 100 MB take it 5 s, the other has 80 MB/s meanwhile.
    apps = [App(2, 0.010, 10**6, 0.0, 100), App(4, 0.010, 10**6, 0.0, 600)]
    spec = "job-fair,rate-job:0=20M" + NO_CAPS
    seen = [phases[0][1] for phases in closed_loop(spec, apps)]
    held = build_fluid_limits(spec, streams(apps))
    assert held.cap.tolist() == [20e6, np.inf]
    engine = Engine([100e6])
    engine.add(
        Phases(
            after=np.full(2, -1, np.int32),
            delay_s=np.zeros(2),
            phase=np.arange(2, dtype=np.int32),
            amount=np.array([100e6, 600e6]),
            weight=compute_fluid_weights("job-fair", streams(apps)),
            cap=held.cap,
            crosses=np.zeros((2, 1), np.int32),
            cost=np.ones((2, 1)),
        )
    )
    engine.run()
    assert seen == pytest.approx(engine.list_phase_times()[1].tolist(), rel=0.03)


def test_rates_of_targets_and_pools_are_resources_more() -> None:
    both = Streams(
        under_way=np.ones(3),
        request_bytes=np.array([1e6, 2e6, 0]),
        request_s=np.full(3, 0.01),
        iteration_s=np.ones(3),
        job=("a", "b", "m"),
        target="ost3",
    )
    held = build_fluid_limits(
        "fifo,rate-target:ost3=50M,rate-job:b=10ops,rate-pool:climate@ost3=5ops,pool:a=climate,pool:m=climate", both
    )
    assert held.cap.tolist() == [np.inf, 20e6, np.inf]
    found = {tuple(t.members.tolist()): (t.cost.tolist(), t.capacity) for t in held.together}
    assert found == {(0, 1): ([1.0, 1.0], 50e6), (0, 2): ([1e-6, 1.0], 5.0)}


def test_sets_are_orders_of_magnitude() -> None:
    shared = build_fluid_sharing("set-10", Streams.build_alike([0.1, 5.0, 20.0, 400.0]))  # 10^0, 10^1, 10^1, 10^3
    assert shared.queue.tolist() == [0, 1, 1, 2]
    assert shared.weight.tolist() == pytest.approx([1.0, 0.1, 0.001])


def test_what_has_no_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="no fluid limit"):
        build_fluid_sharing("lottery", Streams.build_alike([1.0]))
    for order in ("share", "share:all", "share:1.5", "share:-1", "share:nan"):
        with pytest.raises(UsageError, match="share"):
            build_fluid_sharing(order, Streams.build_alike([1.0]))
    with pytest.raises(UsageError, match="one application after the other"):
        compute_fluid_weights("exclusive", Streams.build_alike([1.0, 2.0]))
