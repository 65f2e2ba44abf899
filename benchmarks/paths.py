"""How long each policy of paths takes for one arriving job on a machine of 1,000 forwarders and 1,000 targets.

Loads, jobs served and sick components are drawn; nobody keeps rows of who runs, so allocation policies work from sums.
Run: `python benchmarks/paths.py`.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import numpy as np
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.decide.policies.paths.contract import ExpectedJob
from fairlead.decide.registered_policies import find_registered_path_policy

COMPONENTS = 1000
TARGET_MS = {"joint": 100.0}
"""Of an answer at most; published policies: 10."""
POLICIES = ("static-map", "dfra", "aiot", "best-bandwidth+greedy-clairvoyant", "tcpu+greedy-clairvoyant", "joint")


def layer(kind: str, bandwidth: float, rng: np.random.Generator) -> Layer:
    """A layer in use: a tenth is sick, loads and jobs are drawn."""
    made = build_site_layer(kind, tuple(f"{kind}{place}" for place in range(COMPONENTS)), bandwidth, mdops=20_000.0)
    return replace(
        made,
        load=rng.uniform(0, 1, COMPONENTS),
        jobs=rng.integers(0, 10, COMPONENTS),
        occupancy=rng.uniform(0, 0.8, COMPONENTS),
        sick=rng.random(COMPONENTS) < 0.1,
    )


def main() -> int:
    """Ask, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few questions; nothing is added to the history")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(30)
    land = Site(
        forwarders=layer("fwd", 2.5e9, rng),
        targets=layer("ost", 1e9, rng),
        cores=1e6,
        servers=build_site_layer("oss", tuple(f"oss{place}" for place in range(COMPONENTS // 4)), 4e9),
        server_of=np.arange(COMPONENTS) // 4,
        default_forwarder=np.arange(COMPONENTS * 40) // 40,
    )
    jobs = [
        ExpectedJob(
            job_id=str(number),
            node_count=256,
            node_ids=tuple(range(number, number + 256)),
            cores=1024.0,
            io_processes=1024,
            processes=1024,
            mode=str(rng.choice(["N-N", "N-1"])),
            runs_known=3,
            compute_s=600.0,
            write_bytes=float(rng.lognormal(25, 1)),
            bandwidth_bytes_per_s=float(rng.lognormal(22, 1)),
            files=1024,
            request_bytes=1e6,
            mdops=float(rng.lognormal(3, 1.5)),
        )
        for number in range(30 if quick else 400)
    ]
    table = Table("policy", "median ms", "p99 ms", "at most", "p99 / at most", title=f"{COMPONENTS} a layer")
    told: dict[str, object] = {}
    for name in POLICIES:
        policy = find_registered_path_policy(name)
        policy.grant(jobs[0], land, rng)
        taken = []
        for job in jobs:
            began = time.perf_counter()
            policy.grant(job, land, rng)
            taken.append((time.perf_counter() - began) * 1e3)
        median, high = np.quantile(taken, [0.5, 0.99])
        most = TARGET_MS.get(name, 10.0)
        table.add_row(name, f"{median:.2f}", f"{high:.2f}", f"{most:.0f} ms", f"{high / most:.2f}")
        told[name] = {"median_ms": round(float(median), 3), "p99_ms": round(float(high), 3)}
    told["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    console = Console()
    console.print(table)
    console.print(f"peak {told['peak_mib']} MiB")
    if not quick:
        append("paths", told)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
