"""Simulated events a second on one core: applications in cycles, flows over layers, and SimPy doing a small case too.

Run: `python benchmarks/simulator.py [--quick]`. SimPy is of the `bench` group. Seconds are of the processor, not of the
clock: other load disturbs them less. Compiling is not counted.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import _history
import numpy as np
import simpy

from fairlead.decide.sim.cycles.cycle_model import Cycles, Outcome, Sharing, Window, simulate_cycles
from fairlead.decide.sim.engine import Engine, Phases
from fairlead.decide.sim.platform import build_taihulight_platform

TARGET = 1_000_000


def seconds(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    """The least processor time of some runs, after one that compiles, and what the last gave."""
    work()
    best = np.inf
    for _ in range(times):
        begin = time.process_time()
        out = work()
        best = min(best, time.process_time() - begin)
    return best, out


def peak_mib() -> float:
    """Most memory this process has had, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def study(applications: int, resources: int, seed: int) -> tuple[Cycles, np.ndarray, np.ndarray]:
    """Applications as the study draws them, each on 1, 2, 4 or 8 resources, with load about 0.8 of the resources."""
    rng = np.random.default_rng(seed)
    counts = rng.choice([1, 2, 4, 8], applications)
    rows = np.full((applications, 8), -1, np.int64)
    for row, count in zip(rows, counts, strict=True):
        row[:count] = rng.choice(resources, count, replace=False)
    part = rng.uniform(0.2, 1.0, applications)
    part *= 0.8 * resources / (part * counts).sum()
    work = 5000.0 * np.minimum(part, 0.9)
    phases = rng.integers(2, 21, applications)
    cycles = Cycles.build_equal(
        phases, 5000.0 - work, skip_s=rng.uniform(0, 1, applications) * (5000.0 - work) / phases
    )
    return cycles, rows, work


def layered(flows: int, seed: int) -> Phases:
    """Chains of three phases of one flow each over 288 forwarders and 864 targets, one of each: most at their own cap,
    as on a machine that is not full."""
    rng = np.random.default_rng(seed)
    machine = build_taihulight_platform()
    phases = np.arange(flows)
    crosses = np.stack(
        [
            rng.integers(0, len(machine.forwarders), flows),
            len(machine.forwarders) + rng.integers(0, len(machine.targets), flows),
        ],
        axis=1,
    )
    return Phases(
        after=np.where(phases % 3 == 0, -1, phases - 1).astype(np.int32),
        delay_s=rng.uniform(0, 600.0, flows),
        phase=phases.astype(np.int32),
        amount=rng.lognormal(23.0, 1.6, flows),
        weight=np.ones(flows),
        cap=rng.choice([90e6, 360e6, 1.4e9], flows),
        crosses=crosses.astype(np.int32),
        cost=np.ones((flows, 2)),
    )


class Shared:
    """A resource that those on it share equally, in SimPy: told anew at each arrival and end."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.left: dict[simpy.Event, float] = {}
        self.told_s = 0.0
        self.turn = 0

    def move(self, work_s: float) -> simpy.Event:
        """An event that happens when so much has been moved."""
        self._catch_up()
        done = self.env.event()
        self.left[done] = work_s
        self._next()
        return done

    def _catch_up(self) -> None:
        gone = (self.env.now - self.told_s) / len(self.left) if self.left else 0.0
        for event in self.left:
            self.left[event] -= gone
        self.told_s = self.env.now

    def _next(self) -> None:
        self.turn += 1
        if self.left:
            self.env.process(self._end(self.turn, min(self.left.values()) * len(self.left)))

    def _end(self, turn: int, after_s: float) -> Iterator[simpy.Event]:
        yield self.env.timeout(max(after_s, 0.0))
        if turn != self.turn:
            return
        self._catch_up()
        first = min(self.left, key=self.left.__getitem__)
        del self.left[first]
        first.succeed()
        self._next()


def in_simpy(cycles: Cycles, rows: np.ndarray, work: np.ndarray, count: int, until_s: float) -> np.ndarray:
    """Seconds of I/O of each application, of the phases that ended."""
    env = simpy.Environment()
    servers = [Shared(env) for _ in range(count)]
    io_s = np.zeros(len(work))

    def application(i: int) -> Iterator[simpy.Event]:
        first, past = cycles.first_phase[i], cycles.first_phase[i + 1]
        skip = cycles.skip_s[i]
        mine = [servers[r] for r in rows[i][rows[i] >= 0]]
        while True:
            for phase in range(first, past):
                yield env.timeout(max(cycles.compute_s[phase] - skip, 0.0))
                skip, began = 0.0, env.now
                amount = work[i] * cycles.share[phase]
                yield env.all_of([server.move(amount) for server in mine])
                io_s[i] += env.now - began

    for i in range(len(work)):
        env.process(application(i))
    env.run(until_s)
    return io_s


def main() -> None:
    """Measure and print; one line of history of a whole run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller cases, no history")
    quick = parser.parse_args().quick
    times = 2 if quick else 5
    figures: dict[str, object] = {}
    print(f"{'case':44} {'events':>10} {'seconds':>9} {'events/s':>12} {'of target':>9} {'peak MiB':>9}")

    def line(name: str, events: int, took: float) -> float:
        rate = events / took
        print(f"{name:44} {events:10,} {took:9.3f} {rate:12,.0f} {rate / TARGET:9.2f} {peak_mib():9.0f}", flush=True)
        figures[name] = {"events": events, "seconds": round(took, 4), "events_per_s": round(rate)}
        return rate

    horizon = 1e5 if quick else 1e6
    for applications, resources in ((30, 20), (100, 20), (1000, 20), (30, 200), (100, 200), (1000, 200)):
        cycles, rows, work = study(applications, resources, 1)
        window = Window(until_s=horizon * 30 / applications)
        took, out = seconds(
            lambda c=cycles, r=rows, w=work, n=resources, v=window: simulate_cycles(c, r, w, n, v), times
        )
        line(f"cycles, K={applications}, N={resources}", out.events, took)
    cycles, rows, work = study(100, 20, 1)
    queues = Sharing(queue=np.arange(100) % 4, weight=10.0 ** -np.arange(4))
    took, out = seconds(
        lambda: simulate_cycles(cycles, rows, work, 20, Window(until_s=horizon / 3), sharing=queues), times
    )
    line("cycles, K=100, N=20, four weighted queues", out.events, took)
    machine = build_taihulight_platform()
    capacity = np.concatenate([machine.forwarders.bandwidth, machine.targets.bandwidth])

    def layers(work_of: Phases) -> Engine:
        engine = Engine(capacity)
        engine.add(work_of, after_within=True)
        engine.run()
        return engine

    at_once = layered(3000, 2)
    took, engine = seconds(lambda: layers(at_once), times)
    line("layers, 3,000 flows at once, 1,152 resources", engine.events, took)
    some = layered(30_000 if quick else 100_000, 2)
    begins = np.where(some.after < 0, 30.0 * np.arange(len(some.after)), some.delay_s)
    spread = replace(some, delay_s=begins)
    took, engine = seconds(lambda: layers(spread), times)
    line(f"layers, {len(begins):,} flows, some at a time", engine.events, took)

    cycles, rows, work = study(30, 20, 1)
    until = 20_000.0  # beyond, rounding grows into other histories: shares of shares amplify a difference
    took, ours = seconds(lambda: simulate_cycles(cycles, rows, work, 20, Window(until_s=until)), 20)
    rate = line("the small case: fairlead", ours.events, took)
    begin = time.process_time()
    theirs = in_simpy(cycles, rows, work, 20, until)
    peer = line("the small case: SimPy", ours.events, time.process_time() - begin)
    error = _difference(ours, theirs)
    print(f"fairlead / SimPy: {rate / peer:,.0f}; I/O seconds differ by {error:.1e} of themselves at most")
    figures |= {"over_simpy": round(rate / peer), "difference_from_simpy": error, "peak_mib": round(peak_mib())}
    if not quick:
        _history.append("simulator", figures)


def _difference(ours: Outcome, theirs: np.ndarray) -> float:
    error = float(np.max(np.abs(theirs - ours.io_s) / ours.io_s))
    if not error < 1e-6:
        raise SystemExit(f"SimPy and fairlead differ by {error}")
    return error


if __name__ == "__main__":
    main()
