"""Diagnosis of a whole history: 1.46 million job summaries and a phase each, as many as Beacon recorded in 39 months,
profiled and judged by both detectors on two cores.

Run: `python benchmarks/diagnosis_scale.py [--quick]`. Jobs are drawn from the distributions of
`fairlead.kit.testing.machine.population` (modes, volumes, node counts, run times as published), over 4,000 programs of
600 users whose popularity falls as 1 / rank; rates are of the program, with noise and 5 % slow phases.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from _clustering_detectors import two_stage
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.model.tables import JOB_SUMMARY, PHASE
from fairlead.decide.sim.workloads import sunway as population
from fairlead.explain.analysis.anomalies.expectation import judge_by_expectation
from fairlead.explain.analysis.history.rate_bins import find_rate_bins
from fairlead.explain.analysis.history.run_profiles import build_run_profile_rows, build_run_profiles

JOBS = 1_460_662
PROGRAMS, USERS = 4_000, 600
EPOCH = 1_470_000_000_000_000_000
MONTHS_39_S = 39 * 30 * 86_400
MOST_S, MOST_MIB = 600.0, 4096.0
Array = np.ndarray


def words(codes: Array, prefix: str) -> pa.DictionaryArray:
    """Names of codes."""
    names = pa.array([f"{prefix}{k}" for k in range(int(codes.max()) + 1)])
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names)


def table(schema: pa.Schema, rows: int, columns: dict[str, object]) -> pa.Table:
    """A table of some columns, the rest null."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.nulls(rows, field.type))
            continue
        array = value if isinstance(value, pa.Array) else pa.array(value)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def history(jobs: int, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Summaries of `jobs` jobs and their phases."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, PROGRAMS + 1)
    program = rng.choice(PROGRAMS, jobs, p=shares / shares.sum())
    weights = np.array(population.MODE_JOBS) / sum(population.MODE_JOBS)
    mode = rng.choice(4, PROGRAMS, p=weights)[program]
    sizes = np.array([n for n, _ in population.NODES])
    chances = np.array([share for _, share in population.NODES])
    nodes = rng.choice(sizes, PROGRAMS, p=chances / chances.sum())[program]
    request = rng.choice(population.REQUESTS, PROGRAMS, p=population.REQUEST_SHARES)[program]
    reads = rng.random(PROGRAMS)[program] < 0.5
    mean = np.where(reads, np.array(population.MEAN_READ_GB)[mode], np.array(population.MEAN_WRITE_GB)[mode])
    nontrivial = rng.random(PROGRAMS)[program] < population.NONTRIVIAL_SHARE
    volume = np.where(nontrivial, mean * population.GB, population.TRIVIAL_BYTES / 4)
    volume = (volume * rng.lognormal(-0.5, 1.0, jobs)).astype(np.int64) + (1 << 20)
    usual = rng.normal(29.0, 2.0, PROGRAMS)[program]
    slow = np.where(rng.random(jobs) < 0.05, rng.exponential(1.5, jobs), 0.0)
    rate = np.exp2(usual + 0.05 * rng.standard_t(4, jobs) - slow)
    took = (volume / rate * 1e9).astype(np.int64) + 1
    start = EPOCH + np.sort(rng.integers(0, MONTHS_39_S, jobs)) * 1_000_000_000
    run = rng.lognormal(population.RUN_TIME_LOG_MEAN, 1.5, jobs) * 1e9
    number = pa.array(np.arange(jobs)).cast(pa.string())
    bins, times = _distribution(rate, took, rng)
    modes = pa.DictionaryArray.from_arrays(pa.array(mode.astype(np.int32)), pa.array(population.MODES))
    user = words(rng.integers(0, USERS, PROGRAMS)[program], "user")
    who = {
        "cluster": words(np.zeros(jobs, np.int64), "c"),
        "job_id": number,
        "user": user,
        "program": words(program, "program"),
        "nodes_count": nodes,
        "processes": nodes * 4,
        "made_ns": np.ones(jobs, np.int64),
        "analysis_version": np.ones(jobs, np.int64),
    }
    summaries = table(
        JOB_SUMMARY.schema,
        jobs,
        who
        | {
            "start_ns": start,
            "end_ns": start + took + run.astype(np.int64),
            "write_bytes": volume,
            "write_ops": volume // request + 1,
            "metadata_ops": rng.integers(0, 10_000, jobs),
            "phases": np.ones(jobs, int),
        },
    )
    kind = pa.DictionaryArray.from_arrays(pa.array(reads.astype(np.int32)), pa.array(["write", "read"]))
    phases = table(
        PHASE.schema,
        jobs,
        who
        | {
            "job_start_ns": start,
            "number": np.zeros(jobs, np.int32),
            "kind": kind,
            "start_ns": start + 10**9,
            "end_ns": start + 10**9 + took,
            "active_ns": took,
            "bytes": volume,
            "ops": volume // request + 1,
            "metadata_ops": np.zeros(jobs, np.int64),
            "rate_per_s": rate,
            "request_bytes": request.astype(np.float64),
            "rate_bins": bins,
            "rate_ns": times,
            "mode": modes,
        },
    )
    return summaries, phases


def _distribution(rate: Array, took: Array, rng: np.random.Generator) -> tuple[pa.Array, pa.Array]:
    """Each phase's time in four bins about its rate."""
    bins = (find_rate_bins(rate)[:, None] + np.sort(rng.integers(-8, 9, (len(rate), 4)), axis=1)).clip(0)
    times = np.repeat(took[:, None] // 4 + 1, 4, axis=1)
    offsets = pa.array(np.arange(0, 4 * len(rate) + 1, 4, dtype=np.int32))
    return (pa.ListArray.from_arrays(offsets, pa.array(part.reshape(-1))) for part in (bins, times))  # type: ignore[return-value]


def main() -> int:
    """Measure, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    arguments = parser.parse_args()
    jobs = JOBS // 10 if arguments.quick else JOBS
    summaries, phases = history(jobs)
    shown = Table(title=f"{jobs:,} jobs with a phase each", title_justify="left")
    for name in ("part", "s", "result"):
        shown.add_column(name, justify="left" if name == "part" else "right")
    figures: dict[str, object] = {"quick": arguments.quick, "jobs": jobs}
    total = 0.0

    def part(name: str, work: Callable[[], int], what: str) -> None:
        nonlocal total
        began, used = time.perf_counter(), time.process_time()
        found = work()
        took = time.perf_counter() - began
        total += took
        figures[name] = {"s": took, "processor_s": time.process_time() - used, what: found}
        shown.add_row(name, f"{took:.1f}", f"{found:,} {what}")

    part("profiles", lambda: build_run_profile_rows(build_run_profiles(summaries, phases), 1).num_rows, "categories")
    part("expected", lambda: int(judge_by_expectation(phases, phases, batch=True).abnormal.sum()), "abnormal")
    part("two_stage", lambda: int(two_stage(phases).abnormal.sum()), "abnormal")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shown.add_row("all", f"{total:.1f}", f"peak {peak:,.0f} MiB")
    figures |= {"all_s": total, "peak_mib": peak}
    Console().print(shown)
    append("diagnosis_scale", figures)
    return 0 if total <= MOST_S and peak <= MOST_MIB else 1


if __name__ == "__main__":
    raise SystemExit(main())
