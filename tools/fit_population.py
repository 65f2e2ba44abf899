"""Fits the parameters in `fairlead.decide.sim.workloads.sunway` to job lists of real machines; prints them.

Takes the folders `taihulight-jobs` (start, end, nodes) and `summit_darshan` (volumes, request sizes) of the shared
data. Their records stay where they are: only these figures go into the code.
"""

from __future__ import annotations

import csv
import gzip
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path


def lognormal(values: Iterable[float]) -> str:
    """Mean and deviation of the logarithm, quartiles, and of how many."""
    logs = sorted(math.log(value) for value in values if value > 0)
    quarters = [round(math.exp(logs[int(len(logs) * share)])) for share in (0.25, 0.5, 0.75)]
    return f"n {len(logs)}, log mean {statistics.mean(logs):.2f}, deviation {statistics.pstdev(logs):.2f}, {quarters}"


def main(folder: Path) -> None:
    """Print what is fitted."""
    with (folder / "taihulight-jobs" / "jobs_2018-02.csv").open() as stream:
        jobs = list(csv.DictReader(stream))
    sizes = Counter(int(job["nodenum"]) for job in jobs)
    say = sys.stdout.write
    say(f"nodes: {lognormal(int(job['nodenum']) for job in jobs)}\n")
    say("favourite sizes: " + ", ".join(f"({n}, {count / len(jobs):.3f})" for n, count in sizes.most_common(25)) + "\n")
    say(f"run time, s: {lognormal(int(job['runtime']) for job in jobs)}\n")
    with gzip.open(folder / "summit_darshan" / "summit_jobs_2021.csv.gz", "rt") as stream:
        records = list(csv.DictReader(stream))
    for op, calls in (("READ", "READS"), ("WRITTEN", "WRITES")):
        moved = [(float(r[f"POSIX_BYTES_{op}"] or 0), float(r[f"POSIX_{calls}"] or 0)) for r in records]
        say(f"bytes {op.lower()}: {lognormal(total for total, _ in moved)}\n")
        say(f"bytes a call: {lognormal(total / count for total, count in moved if count)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
