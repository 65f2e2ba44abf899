"""How often the next run of a job is predicted right: every predictor on real, simulated and generated sequences.

Real: 25 applications of Summit, 2021 (Darshan totals; users are masked, so a category is application and processes).
Simulated: programs of the labelled machine, whose volumes are drawn anew for each run. Generated: patterns as AIOT
(Yang et al., IPDPS 2022) describes them, not its data: there 90.6 % against 39.5 % for the last run. `most-frequent` is
the baseline of guessing the commonest. A run counts as known once it has ended. Run: `python benchmarks/next_run.py`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.decide import registered_policies
from fairlead.decide.policies.next_run.behaviours import classify_run_behaviours, compute_behaviour_figures
from fairlead.decide.policies.next_run.contract import Run
from fairlead.decide.sim import platform
from fairlead.explain.analysis.history.category import compute_category_scale
from fairlead.kit.testing.machine.population import Mix, draw_population_jobs, draw_population_programs
from predictor_accuracy import measure_predictor_accuracy

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
SUMMIT = SHARED / "summit_darshan" / "summit_jobs_2021.csv.gz"


def summit(quick: bool) -> list[Run] | None:
    """Runs of the Summit table, in order of their start; None where it is not here."""
    if not SUMMIT.is_file():
        return None
    with gzip.open(SUMMIT, "rt", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (int(float(row["start_time"])), row["jobid"]))

    def total(row: dict[str, str], *names: str) -> float:
        return sum(float(row[name] or 0) for name in names)

    rows = rows[:8000] if quick else rows
    read = [total(row, "POSIX_BYTES_READ", "STDIO_BYTES_READ") for row in rows]
    written = [total(row, "POSIX_BYTES_WRITTEN", "STDIO_BYTES_WRITTEN") for row in rows]
    names = [total(row, "POSIX_OPENS", "POSIX_STATS", "STDIO_OPENS") for row in rows]
    scale = compute_category_scale(np.array([float(row["nprocs"]) for row in rows]))
    categories = [("", row["app"], int(size)) for row, size in zip(rows, scale, strict=True)]
    ended = np.array([float(row["end_time"]) for row in rows])
    ids = classify_run_behaviours(categories, compute_behaviour_figures(read, written, names), ended)
    start = [float(row["start_time"]) for row in rows]
    return [Run(*one) for one in zip(categories, ids.tolist(), start, ended.tolist(), strict=True)]


def machine(quick: bool) -> list[Run]:
    """Jobs of programs of the labelled machine, one after another as they are handed in."""
    rng, small = np.random.default_rng(30), platform.build_small_platform()
    mix = Mix(nontrivial_share=0.75, high_mdops_share=0.05, volume_scale=0.25)
    jobs = draw_population_jobs(
        small, mix, 2000 if quick else 8000, rng, site=draw_population_programs(small, mix, rng)
    )
    scale = compute_category_scale(np.array([float(job.program.nodes) for job in jobs]))
    categories = [(job.program.user, job.program.name, int(size)) for job, size in zip(jobs, scale, strict=True)]
    names = [sum(step.each * step.writers for step in job.steps if step.op not in ("read", "write")) for job in jobs]
    ended = np.arange(len(jobs)) + 0.5
    ids = classify_run_behaviours(
        categories,
        compute_behaviour_figures(
            [job.read_bytes for job in jobs], [job.write_bytes for job in jobs], names, [len(job.steps) for job in jobs]
        ),
        ended,
    )
    return [Run(c, i, float(n), n + 0.5) for n, (c, i) in enumerate(zip(categories, ids.tolist(), strict=True))]


def generated(quick: bool, seed: int = 30, noise: float = 0.03) -> list[Run]:
    """Categories with a pattern each: one behaviour, cycles, blocks of the same, nested cycles, chance. `noise`: share
    of runs that leave their pattern. Categories take turns by chance."""
    rng = np.random.default_rng(seed)
    count = 40 if quick else 160
    sources = [_pattern(rng) for _ in range(count)]
    runs = []
    for number in range(count * 60):
        which = int(min(rng.zipf(1.3) - 1, count * 4) % count)
        one, classes = next(sources[which])
        if rng.random() < noise:
            one = int(rng.integers(classes))
        runs.append(Run((f"u{which % 17}", f"p{which}", 64), one, float(number), number + 0.5))
    return runs


def _pattern(rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    kind = str(rng.choice(["one", "cycle", "blocks", "nested", "chance"], p=[0.15, 0.35, 0.25, 0.2, 0.05]))
    classes = int(rng.integers(2, 6))
    if kind == "one":
        circle = [0]
    elif kind == "cycle":
        circle = rng.permutation(classes).tolist()
    elif kind == "blocks":
        circle = [one for one in range(classes) for _ in range(int(rng.integers(1, 6)))]
    else:
        inner = rng.permutation(classes).tolist()
        circle = inner * int(rng.integers(2, 4)) + [classes] * int(rng.integers(1, 3))
        classes += 1
    while True:
        if kind == "chance":
            yield int(rng.integers(classes)), classes
            continue
        for one in circle:
            yield one, classes


def main() -> int:
    """Score every predictor on every set, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs; nothing is added to the history")
    quick = parser.parse_args().quick
    console, told = Console(), {}
    sets = {
        "Summit 2021 (real)": summit(quick),
        "labelled machine (simulated)": machine(quick),
        "patterns (generated)": generated(quick),
    }
    for name, runs in sets.items():
        if runs is None:
            console.print(f"{name}: {SUMMIT.name} is not here, left out")
            continue
        categories = len({run.category for run in runs})
        table = Table(
            "predictor",
            "right of asked",
            "right of possible",
            "it said of itself",
            "ms a run",
            title=f"{name}: {len(runs)} runs of {categories} categories",
        )
        rows: dict[str, object] = {"runs": len(runs), "categories": categories}
        for predictor in registered_policies.PREDICTORS:
            began = time.perf_counter()
            found = measure_predictor_accuracy(registered_policies.build_registered_predictor(predictor), runs)
            each = (time.perf_counter() - began) / len(runs) * 1e3
            share = found.right / max(found.asked, 1)
            table.add_row(
                predictor,
                f"{share:.1%}",
                f"{found.right / max(found.possible, 1):.1%}",
                f"{found.sure:.1%}",
                f"{each:.2f}",
            )
            rows[predictor] = {
                "accuracy": round(share, 4),
                "asked": found.asked,
                "possible": found.possible,
                "ms_a_run": round(each, 3),
            }
        console.print(table)
        console.print(f"asked {found.asked}; of a behaviour seen before {found.possible / max(found.asked, 1):.1%}\n")
        told[name] = rows
    told["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    console.print("published (AIOT, on its own data): 90.6 %, 39.5 % for the last run")
    console.print(f"peak {told['peak_mib']} MiB")
    if not quick:
        append("next_run", told)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
