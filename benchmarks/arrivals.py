"""One arriving job beside 10,000 that run on 1,000 resources: the cost of its grant by policy; MCKP's knapsack.

Run: `python benchmarks/arrivals.py [--quick]`. One thread. A grant is asked for jobs that differ; none is entered.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from importlib.util import find_spec

import numpy as np
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import Running, build_allocation_pool
from fairlead.decide.policies.allocation.mckp import MckpDirect
from fairlead.decide.registered_policies import ALLOCATIONS, JOINT_POLICIES, PLACINGS, find_registered_policy
from fairlead.decide.sim.workloads.profiles import read_forge_profiles
from fairlead.decide.sim.workloads.published_sets import DrawnSet, draw_published_set

RUNNING, RESOURCES, CORES, LOAD = 10_000, 1_000, 24_000.0, 0.8
PUBLISHED_MS, OURS_MS, KNAPSACK_MS, KNAPSACK_PUBLISHED_MS = 10.0, 100.0, 10.0, 2700.0


def running(drawn: DrawnSet, pool: Layer) -> Running:
    """All of the set granted one after the other by TCPU with greedy-clairvoyant placement."""
    out = Running(RESOURCES, drawn.applications.counts, room=RUNNING + 1)
    pair, rng = find_registered_policy("tcpu+greedy-clairvoyant"), np.random.default_rng(0)
    for i in range(RUNNING):
        one = drawn.applications.select_rows([i])
        out.enter(one, pair.arrive(one, out, pool, rng))
    return out


def times_ms(name: str, state: Running, pool: Layer, arrivals: DrawnSet) -> np.ndarray:
    """Milliseconds a grant, the first three left out."""
    asked, rng = find_registered_policy(name), np.random.default_rng(1)
    out = np.empty(len(arrivals.applications))
    for i in range(len(out)):
        one = arrivals.applications.select_rows([i])
        begin = time.perf_counter()
        asked.arrive(one, state, pool, rng)
        out[i] = (time.perf_counter() - begin) * 1e3
    return out[3:]


def knapsack_ms(times: int) -> tuple[float, float]:
    """Median and slowest milliseconds of MCKP for 512 jobs on 256 nodes: straight access and backtracking included."""
    applications, pool = (
        draw_published_set(read_forge_profiles(), 0.4, 512, 3, resources=256).applications,
        build_allocation_pool(256, 480.0),
    )
    took = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        MckpDirect().choose(applications, pool, np.random.default_rng(0))
        took.append((time.perf_counter() - begin) * 1e3)
    return float(np.median(took[1:])), max(took[1:])


def main() -> int:
    """Measure, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50 arrivals a policy instead of 500; nothing is appended")
    arguments = parser.parse_args()
    each = 50 if arguments.quick else 500
    pool = build_allocation_pool(RESOURCES, CORES)
    state = running(draw_published_set(read_forge_profiles(), LOAD, RUNNING, 1, resources=RESOURCES, cores=CORES), pool)
    arrivals = draw_published_set(read_forge_profiles(), LOAD, each + 3, 2, resources=RESOURCES // 20)
    shown = Table(
        title=f"one arrival, {RUNNING:,} jobs on {RESOURCES:,} resources; published: the slowest placement",
        title_justify="left",
    )
    for name in ("policy", "p50 ms", "p99 ms", "target p99 ms", "of target"):
        shown.add_column(name, justify="left" if name == "policy" else "right")
    figures: dict[str, object] = {"quick": arguments.quick, "running": RUNNING, "resources": RESOURCES}

    def line(name: str, took: np.ndarray, target: float) -> None:
        p50, p99 = np.percentile(took, (50, 99))
        shown.add_row(name, f"{p50:.3f}", f"{p99:.3f}", f"{target:g}", f"{p99 / target:.2f}")
        figures[name] = {"p50_ms": round(float(p50), 4), "p99_ms": round(float(p99), 4)}

    for allocation in ALLOCATIONS:
        of_pairs = {f"{allocation}+{p}": times_ms(f"{allocation}+{p}", state, pool, arrivals) for p in PLACINGS}
        slowest = max(of_pairs, key=lambda name: float(np.percentile(of_pairs[name], 99)))
        line(slowest, of_pairs[slowest], PUBLISHED_MS)
    for name, target in JOINT_POLICIES.items():
        if find_spec(target.partition(":")[0]) is not None:
            line(name, times_ms(name, state, pool, arrivals), OURS_MS)
    median, slowest_ms = knapsack_ms(5 if arguments.quick else 50)
    columns = (f"{median:.3f}", f"{slowest_ms:.3f}", f"{KNAPSACK_MS:g}", f"{slowest_ms / KNAPSACK_MS:.2f}")
    shown.add_row("mckp, 512 x 256", *columns)
    figures["knapsack"] = {"p50_ms": round(median, 4), "max_ms": round(slowest_ms, 4)}
    applications = draw_published_set(
        read_forge_profiles(), LOAD, RUNNING, 1, resources=RESOURCES, cores=CORES
    ).applications
    begin = time.perf_counter()
    find_registered_policy("tcpu+greedy-clairvoyant").decide(applications, pool, np.random.default_rng(0))
    together_ms = (time.perf_counter() - begin) * 1e3
    shown.add_row(f"tcpu+greedy-clairvoyant, all {RUNNING:,} at once", f"{together_ms:.0f}", "", "", "")
    figures["tcpu_together_ms"] = round(together_ms, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures["peak_mib"] = round(peak, 1)
    Console().print(shown)
    Console().print(
        f"mckp: {KNAPSACK_PUBLISHED_MS / median:,.0f} times as fast as published (2.7 s); peak memory {peak:.0f} MiB"
    )
    if not arguments.quick:
        append("arrivals", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
