"""Ours against every published allocation x placement pair, bin by bin of load(pi_sys). All of it is simulated.

    python benchmarks/allocation.py --keep DIR [--quick] [--sets 200] [--applications 30 60 100] [--processes 2]

Each set of applications is drawn as the scheduling study draws them and told to each policy; its decision is simulated
from 5,000 to 30,000 s. Resumable: what is in DIR is not done again. Figures: mean over the sets of a bin; of the
published pairs the best in that bin and metric. `mckp-direct` is left out: nothing here limits access without a
resource; `oracle` (most bandwidth) is best-bandwidth here. All pairs, the light variant and the arrival one by one are
run on the first `--all` sets of a bin; on the others `joint` and the pairs that were within NEAR of the best there in
one of the metrics.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import allocation_oracle
from fairlead.core.model.site import Layer
from fairlead.decide import registered_policies
from fairlead.decide.policies.allocation.contract import (
    NONE,
    Applications,
    Decision,
    Policy,
    Running,
    build_allocation_pool,
)
from fairlead.decide.policies.allocation.joint import Joint, Tuning
from fairlead.decide.sim.cycles.cycle_measures import compute_cycle_measures
from fairlead.decide.sim.cycles.cycle_model import Window, simulate_cycles
from fairlead.decide.sim.workloads.profiles import Profiles, draw_ost_profiles, read_forge_profiles
from fairlead.decide.sim.workloads.published_sets import DrawnSet, draw_published_set

LEFT_OUT = ("mckp-direct", "oracle")
WINDOW = Window(until_s=30_000.0, from_s=5_000.0)
BINS = 12
VARIANTS = ("exact", "held-out", "class-means", "osts")
OURS = ("joint", "joint-light", "joint one by one")
NEAR = 1.1
ABLATION: dict[str, Tuning] = {
    "published start only": Tuning(trials=0, least_trials=0),
    "descent, no annealing": Tuning(heat=0.0),
    "slowest resource only (no chance)": Tuning(chance=0.0),
    "mean field as the others see it (no back)": Tuning(back=0.0),
    "no weight on idle cores": Tuning(idle=0.0),
    "curves never doubted": Tuning(doubt=0.0),
    "four starts": Tuning(starts=4),
    "a tenth of the trials": Tuning(trials=25, least_trials=2_000),
    "five times the trials": Tuning(trials=1250, least_trials=100_000),
}


@dataclass(frozen=True)
class Task:
    """One set: the seed it is drawn with, and whether the long search and the ablation are run on it."""

    variant: str
    applications: int
    bin: int
    theta: float
    seed: int
    searched: int
    ablated: bool
    everyone: bool = True
    pairs: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.variant} {self.applications} {self.seed} {self.searched} {self.ablated} {self.everyone}"


@cache
def profiles(variant: str) -> Profiles:
    """Scenarios of a variant; the constants of ours were chosen on the even ones."""
    if variant == "osts":
        return draw_ost_profiles()
    everything = read_forge_profiles()
    return everything.select_rows(np.arange(1, len(everything), 2)) if variant == "held-out" else everything


def told(variant: str, drawn: DrawnSet) -> Applications:
    """What the policies are told: exact curves, or those of the behaviour class."""
    applications = drawn.applications
    if variant != "class-means":
        return applications
    return replace(applications, bandwidth=profiles(variant).compute_class_means()[drawn.scenario])


def planned(
    variant: str, k: int, sets: int, searched: int, trials: int, ablated: int, everyone: int, first: int
) -> list[Task]:
    """Seeds from `first` on with theta at random, until each bin of load has its sets."""
    have = [0] * BINS
    tasks = []
    for seed in range(first, first + 200 * sets * BINS):
        theta = float(np.random.default_rng([seed, 77]).uniform(0.04, min(1.5, 0.97 * k / 20)))
        bin_ = int(draw_published_set(profiles(variant), theta, k, (seed, k)).load * 10)
        if bin_ < BINS and have[bin_] < sets:
            tasks.append(
                Task(
                    variant,
                    k,
                    bin_,
                    theta,
                    seed,
                    trials if have[bin_] < searched else 0,
                    have[bin_] < ablated,
                    have[bin_] < everyone,
                )
            )
            have[bin_] += 1
        if min(have) == sets:
            break
    return tasks


def published() -> list[str]:
    """Names of all pairs that are peers."""
    allocations = [name for name in registered_policies.ALLOCATIONS if name not in LEFT_OUT]
    return [f"{allocation}+{placing}" for allocation in allocations for placing in registered_policies.PLACINGS]


def contenders(rows: list[dict[str, object]]) -> dict[int, tuple[str, ...]]:
    """Of each bin the pairs whose mean was within NEAR of the best in a metric."""
    out = {}
    for bin_ in {int(str(row["bin"])) for row in rows}:
        values = np.array([[row["figures"][name][:3] for name in published()] for row in rows if row["bin"] == bin_])  # type: ignore[index]
        mean = np.nanmean(values, axis=0)
        near = (mean <= NEAR * mean.min(axis=0)).any(axis=1)
        out[bin_] = tuple(name for name, keep in zip(published(), near, strict=True) if keep)
    return out


def simulated(drawn: DrawnSet, decision: Decision) -> list[float]:
    """Mean slowdown, idle share of cores, 90th percentile of slowdown."""
    applications = drawn.applications
    rows = np.arange(len(applications))
    work = applications.time_s[rows, decision.choice]
    outcome = simulate_cycles(drawn.cycles, decision.resources, work, drawn.resources, WINDOW)
    best = applications.time_s.min(axis=1)
    got = compute_cycle_measures(outcome, best, work, applications.compute_s, applications.cores, drawn.cores)
    return [got.mean, got.idle, got.compute_percentile(90), float(got.unfinished)]


def one_by_one(policy: Policy, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:
    """Each arrives beside those before it, and stays where it is."""
    running = Running(len(pool), applications.counts, len(applications))
    choice = np.zeros(len(applications), np.int64)
    resources = np.full((len(applications), int(applications.counts.max())), NONE, np.int64)
    for i in range(len(applications)):
        one = applications.select_rows(slice(i, i + 1))
        decision = policy.arrive(one, running, pool, rng)
        running.enter(one, decision)
        choice[i], resources[i] = decision.choice[0], decision.resources[0]
    return Decision(choice, resources)


def done(task: Task) -> dict[str, object]:
    """All policies on one set."""
    drawn = draw_published_set(profiles(task.variant), task.theta, task.applications, (task.seed, task.applications))
    known, pool = told(task.variant, drawn), build_allocation_pool(drawn.resources, drawn.cores)
    figures: dict[str, list[float]] = {}
    for name in published() if task.everyone else task.pairs:
        decision = registered_policies.find_registered_policy(name).decide(
            known, pool, np.random.default_rng([task.seed, 1])
        )
        figures[name] = simulated(drawn, decision)
    began = time.process_time()
    ours = registered_policies.find_registered_policy("joint").decide(
        known, pool, np.random.default_rng([task.seed, 1])
    )
    spent = time.process_time() - began
    figures["joint"] = simulated(drawn, ours)
    if task.everyone:
        light = registered_policies.find_registered_policy("joint-light").decide(
            known, pool, np.random.default_rng([task.seed, 1])
        )
        figures["joint-light"] = simulated(drawn, light)
        online = one_by_one(
            registered_policies.find_registered_policy("joint"), known, pool, np.random.default_rng([task.seed, 1])
        )
        figures["joint one by one"] = simulated(drawn, online)
    out: dict[str, object] = {
        "key": task.key,
        "bin": task.bin,
        "load": drawn.load,
        "figures": figures,
        "decide_s": spent,
        "bound": allocation_oracle.compute_oracle_bound(drawn.applications, drawn.resources),
    }
    if task.searched:
        found = allocation_oracle.search_oracle_decision(
            drawn, ours, WINDOW, task.searched, np.random.default_rng([task.seed, 2])
        )
        out["searched"] = simulated(drawn, found.decision)
    if task.ablated:
        out["ablation"] = {
            name: simulated(drawn, Joint(tuning).decide(known, pool, np.random.default_rng([task.seed, 1])))
            for name, tuning in ABLATION.items()
        }
    return out


def gathered(tasks: list[Task], file: Path, processes: int) -> list[dict[str, object]]:
    """Results of all tasks; those in `file` are taken from there, others are appended to it as they come."""
    kept: dict[str, dict[str, object]] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # cut off while it was written
                continue
            kept[row["key"]] = row
    open_tasks = [task for task in tasks if task.key not in kept]
    if open_tasks:
        with file.open("a", encoding="utf-8") as stream, ProcessPoolExecutor(processes) as pool:
            stream.write("\n")
            for count, row in enumerate(pool.map(done, open_tasks), 1):
                kept[str(row["key"])] = row
                stream.write(json.dumps(row) + "\n")
                stream.flush()
                if sys.stderr.isatty():
                    print(f"\r{file.stem}: {count} of {len(open_tasks)} sets", end="", file=sys.stderr)
    return [kept[task.key] for task in tasks]


def wanted(k: int, bin_: int) -> float:
    """The ratio of mean slowdowns that is asked for."""
    if bin_ < 4:
        return 1.01
    return (0.88 if k == 30 else 0.85) if bin_ < 7 else 0.75


def table(variant: str, k: int, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Prints a bin a line; returns the same as records."""
    print(f"\n{variant}, {k} applications (simulated)")
    print(
        "load     sets  best published (slowdown)            rho    ours   ratio  wanted        idle ratio  p90 ratio  "
        "light  1 by 1  bound  gap closed  searched  gap closed"
    )
    bins: dict[int, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        bins[int(str(row["bin"]))].append(row)
    records = []
    for bin_, some in sorted(bins.items()):
        names = [name for name in some[0]["figures"] if all(name in row["figures"] for row in some)]  # type: ignore[attr-defined, operator]
        values = np.array([[row["figures"][name][:3] for name in names] for row in some])  # type: ignore[index]
        mean = dict(zip(names, np.nanmean(values, axis=0), strict=True))
        whole = [row for row in some if "joint-light" in row["figures"]]  # type: ignore[operator]
        peers = [name for name in names if name not in OURS]
        best = [min(peers, key=lambda name: mean[name][metric]) for metric in range(3)]
        top = [float(mean[best[metric]][metric]) for metric in range(3)]
        ours = mean["joint"]
        light, online = (np.nanmean([row["figures"][name][:3] for row in whole], axis=0) for name in OURS[1:])  # type: ignore[index]
        low = float(np.mean([row["bound"] for row in some]))
        ratio = [float(ours[metric] / top[metric]) for metric in range(3)]
        record: dict[str, object] = {
            "variant": variant,
            "applications": k,
            "load": bin_ / 10,
            "sets": len(some),
            "all_peers": len(whole),
            "best": best,
            "published": top,
            "ours": [float(v) for v in ours],
            "ratio": ratio,
            "light": [float(v) for v in light],
            "one_by_one": [float(v) for v in online],
            "bound": low,
            "to_bound": (top[0] - ours[0]) / (top[0] - low),
        }
        deep = [row for row in some if "searched" in row]
        told_deep = "       -           -"
        if deep:
            here = float(np.mean([row["figures"][best[0]][0] for row in deep]))  # type: ignore[index]
            mine = float(np.mean([row["figures"]["joint"][0] for row in deep]))  # type: ignore[index]
            least = float(np.mean([row["searched"][0] for row in deep]))  # type: ignore[index]
            record |= {"searched": least, "searched_sets": len(deep), "to_searched": (here - mine) / (here - least)}
            told_deep = f"{least:8.3f}  {(here - mine) / (here - least):10.0%}"
        records.append(record)
        good = "ok  " if ratio[0] <= wanted(k, bin_) else "MISS"
        fair = " " if ratio[1] <= 1.0 else "!", " " if ratio[2] <= 1.0 else "!"
        print(
            f"{bin_ / 10:.1f}-{bin_ / 10 + 0.1:.1f}  {len(some):4d}  {best[0]:34s}  {top[0]:6.3f} {ours[0]:6.3f}  "
            f"{ratio[0]:6.3f}  <= {wanted(k, bin_):.2f} {good}  {ratio[1]:9.3f}{fair[0]} {ratio[2]:9.3f}{fair[1]}  "
            f"{light[0]:6.3f}  {online[0]:6.3f}  {low:5.3f}  {record['to_bound']:10.0%}  {told_deep}"
        )
    spent = [float(str(row["decide_s"])) for row in rows]
    print(f"joint decides a set in {np.median(spent):.2f} s of CPU (median), {max(spent):.2f} s at most")
    return records


def ablated(k: int, rows: list[dict[str, object]]) -> dict[str, list[float]]:
    """Prints what each ingredient brings: mean slowdown, idle and p90 over joint's, geometric over the sets."""
    some = [row for row in rows if "ablation" in row]
    if not some:
        return {}
    out = {}
    print(f"\nAblation, {k} applications, {len(some)} sets over all bins: ratio to joint (above 1: worse without)")
    for name in ABLATION:
        ratios = np.array([[row["ablation"][name][m] / row["figures"]["joint"][m] for m in range(3)] for row in some])  # type: ignore[index]
        out[name] = [float(v) for v in np.exp(np.nanmean(np.log(ratios), axis=0))]
        print(f"  {name:44s} slowdown {out[name][0]:.3f}  idle {out[name][1]:.3f}  p90 {out[name][2]:.3f}")
    return out


def main() -> None:
    """Runs what is open and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 sets a bin, no long searches")
    parser.add_argument("--sets", type=int, default=200, help="sets a bin")
    parser.add_argument("--all", type=int, default=30, help="sets a bin on which every pair is run")
    parser.add_argument("--first-seed", type=int, default=1_000_000, help="the constants were chosen on lower ones")
    parser.add_argument("--others", type=int, default=50, help="sets a bin of the variants other than exact, at most")
    parser.add_argument("--applications", type=int, nargs="+", default=[30, 60, 100])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument(
        "--searched", type=int, default=3, help="sets a bin on which the long search is run (exact only)"
    )
    parser.add_argument("--trials", type=int, default=3000, help="decisions a long search simulates")
    parser.add_argument("--ablated", type=int, default=5, help="sets a bin for the ablation (exact only)")
    parser.add_argument("--keep", type=Path, help="folder of results; what is there is not done again")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--no-history", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.searched, options.ablated = 4, 0, 1
    folder = options.keep or Path(f"allocation-{os.getpid()}")
    folder.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, object]] = []
    ablation: dict[str, object] = {}
    for variant in options.variants:
        for k in options.applications:
            plain = variant == "exact"
            sets = options.sets if plain else min(options.sets, options.others)
            deep, ablate = (options.searched, options.ablated) if plain else (0, 0)
            tasks = planned(variant, k, sets, deep, options.trials, ablate, options.all, options.first_seed)
            file = folder / f"{variant}-{k}.ndjson"
            rows = gathered([task for task in tasks if task.everyone], file, options.processes)
            pairs = contenders(rows)
            rest = [replace(task, pairs=pairs[task.bin]) for task in tasks if not task.everyone]
            rows += gathered(rest, file, options.processes)
            records += table(variant, k, rows)
            if plain:
                ablation[str(k)] = ablated(k, rows)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    print(f"\npeak memory {peak:.0f} MiB a process; results in {folder}")
    if not (options.quick or options.no_history):
        from _history import append

        append("allocation", {"points": records, "ablation": ablation, "peak_mib": round(peak)})


if __name__ == "__main__":
    main()
