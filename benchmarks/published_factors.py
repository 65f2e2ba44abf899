"""Which factors explain slow runs, on published ground truth: a year of repeated benchmark runs with server counters.

Data: Lockwood et al., "A Year in the Life of a Parallel File System" (SC18), summaries of Mira and a sample of
Cori/Edison. The runs of the first 70 % of the time are learnt from, the rest is asked about: which runs were slower
than 80 % of the median of their kind. Beside it the plain correlation the study used (Pearson, strongest in the past).
Run: `python benchmarks/published_factors.py`.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.explain.analysis.factors import FactorLimits, rank_slow_run_factors
from fairlead.see.sources.tokio_runs import read_tokio_runs

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
FILES = {"Mira": "mira-summaries.csv.gz", "Cori/Edison (sample)": "sample_summaries.csv.gz"}
PUBLISHED = "bandwidth contention"
"""What the study names first: its coverage factor of bandwidth."""


def main() -> int:
    """Rank, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few shuffles")
    arguments = parser.parse_args()
    console, figures = Console(), {}
    for name, file in FILES.items():
        began = time.perf_counter()
        found = rank_slow_run_factors(
            read_tokio_runs(SHARED / "tokio-abcutils" / file), FactorLimits(shuffles=4 if arguments.quick else 20)
        )
        assert found is not None
        table = Table("factors", "loss of AUC without", title=f"{name}: {found.slow} slow of {found.runs} later runs")
        for one in found.ranked:
            table.add_row(one.family, f"{one.loss:+.3f} ± {one.spread:.3f}")
        console.print(table)
        console.print(
            f"AUC {found.auc:.3f}; strongest correlation {found.baseline} (r {found.baseline_r:+.2f})"
            f" {found.baseline_auc:.3f}; first: {found.ranked[0].family}, published: {PUBLISHED}\n"
        )
        figures[name] = {
            "auc": round(found.auc, 4),
            "baseline": found.baseline,
            "baseline_auc": round(found.baseline_auc, 4),
            "first": found.ranked[0].family,
            "slow": found.slow,
            "runs": found.runs,
            "ranked": {one.family: round(one.loss, 4) for one in found.ranked},
            "seconds": round(time.perf_counter() - began, 1),
        }
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    append("published_factors", figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
