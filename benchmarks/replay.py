"""How fast months are replayed: a year like TaihuLight's (300,000 I/O jobs, 288 forwarders, 400 targets) on one core.

Jobs are drawn (`fairlead.decide.sim.workloads.taihulight`); each is granted its path when it arrives. Wanted: ten
minutes at most. `core s` is processor time, which a busy machine does not stretch as much.
Run: `python benchmarks/replay.py [--quick]` (a week).
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from dataclasses import replace

import numpy as np
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.decide.registered_policies import find_registered_path_policy
from fairlead.decide.sim.platform import build_taihulight_platform
from fairlead.decide.sim.replay.replay import replay_jobs
from fairlead.decide.sim.replay.replay_measures import summarise_replay_measures
from fairlead.decide.sim.workloads.taihulight import DAY_S, YEAR_S, draw_taihulight_season

WANTED_S = 600.0
RUNS = (("static-map", 0), ("dfra", 0), ("static-map", 16), ("dfra", 16))
"""Policy, and targets a job without a grant of targets is spread over (0: as many as it has files for)."""


def measured(name: str, spread: int, span_s: float) -> dict[str, float]:
    """One replay in a process of its own, after one of a few hours that compiles the loops."""
    machine = build_taihulight_platform(servers=200, targets_per_server=2)
    machine = replace(machine, forwarder_counts=tuple(range(1, len(machine.forwarders) + 1)))
    policy = find_registered_path_policy(name)
    replay_jobs(
        draw_taihulight_season(2, span_s=DAY_S / 4, machine=machine).jobs, machine, policy, default_targets=spread
    )
    jobs = draw_taihulight_season(1, span_s=span_s, machine=machine).jobs
    began, worked = time.perf_counter(), time.process_time()
    out = replay_jobs(jobs, machine, policy, default_targets=spread)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    told = summarise_replay_measures(jobs, out)
    return {
        "jobs": len(jobs),
        "seconds": round(seconds, 2),
        "core_seconds": round(worked, 2),
        "events": out.events,
        "events_per_core_s": round(out.events / worked),
        "jobs_per_core_s": round(len(jobs) / worked),
        "mean_slowdown": round(told.mean, 4),
        "lost_core_hours": round(told.lost_core_hours),
        "not_ended": int(np.isnan(out.end_s).sum()),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> int:
    """Replay, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a week instead of a year")
    parser.add_argument("--no-history", action="store_true", help="print only")
    arguments = parser.parse_args()
    span_s = 7 * DAY_S if arguments.quick else YEAR_S
    name = "a week" if arguments.quick else "a year"
    table = Table(
        "policy",
        "targets",
        "jobs",
        "s",
        "core s",
        "of 600",
        "events/s",
        "slow",
        "MiB",
        title=f"{name} like TaihuLight's, 288 forwarders, 400 targets, one core",
    )
    figures: dict[str, object] = {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for policy, spread in RUNS:
            one = pool.apply(measured, (policy, spread, span_s))
            table.add_row(
                policy,
                str(spread or "all"),
                str(one["jobs"]),
                f"{one['seconds']:.0f}",
                f"{one['core_seconds']:.0f}",
                f"{one['core_seconds'] / WANTED_S:.2f}",
                f"{one['events_per_core_s'] / 1e3:.0f} k",
                f"{one['mean_slowdown']:.3f}",
                str(one["peak_mib"]),
            )
            figures[f"{policy}, {spread or 'all'} targets"] = one
    Console().print(table)
    if not arguments.no_history:
        append("replay_quick" if arguments.quick else "replay", figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
