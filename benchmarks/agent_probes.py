"""What Lustre's probes cost: job_stats of 10,000 jobs in ms and MB of memory, and all probes of a node.

Each figure is of a process of its own that imports the probes and nothing else, with this Python and with 3.6 where
there is one. `same`: from the third look on, when no job has done anything since.
`python benchmarks/agent_probes.py [--quick] [--jobs N] [--tree FOLDER]`; one table on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(Path(__file__).resolve().parent)]

from _history import append  # noqa: E402

from lustre_writing import job_stats  # noqa: E402
from old_interpreter import old_python  # noqa: E402

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "OST, new": ("lustre_ost_jobs", "obdfilter/fs-OST0000", {}),
    "OST, new, no zeros": ("lustre_ost_jobs", "obdfilter/fs-OST0000", {"idle": 0.0, "zero": 0.0}),
    "OST, old": ("lustre_ost_jobs", "obdfilter/fs-OST0000", {"new": False}),
    "MDT, new": ("lustre_mdt_jobs", "mdt/fs-MDT0000", {"mdt": True}),
    "MDT, new, no zeros": ("lustre_mdt_jobs", "mdt/fs-MDT0000", {"mdt": True, "idle": 0.0, "zero": 0.0}),
}
"""Name → probe, its device, how the text is made. New: as 2.15 writes it; old: as 2.10."""

PEAK = """
def peak():
    # Of this program alone: ru_maxrss begins with that of who started it.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
"""
ONE = (
    PEAK
    + """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from fairlead.see.probes.lustre import PROBES
probe = PROBES[sys.argv[2]](sys.argv[3], "server")
took, cpu, last = [], [], None
for look in range(int(sys.argv[4])):
    began, worked = time.perf_counter(), time.process_time()
    found = probe.read(10 ** 18 + look)
    took.append(time.perf_counter() - began)
    cpu.append(time.process_time() - worked)
    last = found  # as an agent does, that takes the difference: one look is kept while the next is read
rows = sum(len(one.rows) for one in found.readings)
assert not any(one.unknown for one in found.readings)
print(json.dumps([took, rows, peak(), cpu]))
"""
)
TREE = (
    PEAK
    + """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.lustre import PROBES
said = {}
for name, kind in PROBES.items():
    probe = kind(sys.argv[2], "node")
    try:
        probe.read(10 ** 18)
    except AbsentError:
        continue
    began = time.process_time()
    for look in range(int(sys.argv[3])):
        probe.read(10 ** 18 + look * 10 ** 9)
    said[name] = [(time.process_time() - began) / int(sys.argv[3]), probe.period_s]
print(json.dumps([said, peak()]))
"""
)


def run(python: str, script: str, *arguments: str) -> Any:
    """What a process of its own prints, as JSON."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-B", "-S", "-c", script, str(ROOT / "src"), *arguments],
        capture_output=True,
        check=True,
        env=environment,
    )
    return json.loads(done.stdout)


def version(python: str) -> str:
    """`3.6.15`."""
    return subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]


def jobs_table(pythons: list[str], jobs: int, looks: int) -> dict[str, Any]:
    """Print and return the figures of job_stats."""
    print(
        f"{'job_stats of ' + format(jobs, ','):<22}{'python':<9}{'MB':>7}{'rows':>8}{'ms':>7}{'cpu ms':>8}"
        f"{'MB/cpu s':>10}{'peak MB':>9}{'same: cpu ms':>14}{'peak MB':>9}"
    )
    figures: dict[str, Any] = {}
    for name, (probe, device, how) in CASES.items():
        with tempfile.TemporaryDirectory() as root:
            text = Path(root) / "proc/fs/lustre" / device / "job_stats"
            text.parent.mkdir(parents=True)
            with text.open("wb") as file:
                file.writelines(job_stats(jobs, **how))
            size = text.stat().st_size
            for python in pythons:
                which = version(python)
                firsts = [run(python, ONE, probe, root, "1") for _ in range(3)]
                wall, cpu = min(one[0][0] for one in firsts), min(one[3][0] for one in firsts)
                rows, peak = firsts[0][1], max(one[2] for one in firsts)
                _, _, later_peak, all_cpu = run(python, ONE, probe, root, str(looks))
                print(
                    f"{name:<22}{which:<9}{size / 1e6:>7.1f}{rows:>8,}{wall * 1e3:>7.0f}{cpu * 1e3:>8.0f}"
                    f"{size / cpu / 1e6:>10.0f}{peak / 1e6:>9.1f}{min(all_cpu[2:]) * 1e3:>14.0f}"
                    f"{later_peak / 1e6:>9.1f}"
                )
                figures[f"{name}, {which}"] = {
                    "text_bytes": size,
                    "rows": rows,
                    "first_s": round(wall, 4),
                    "first_cpu_s": round(cpu, 4),
                    "first_peak_bytes": peak,
                    "same_cpu_s": round(min(all_cpu[2:]), 4),
                    "later_peak_bytes": later_peak,
                }
    return figures


def tree_table(pythons: list[str], tree: str, looks: int) -> dict[str, Any]:
    """Print and return what every probe costs on the files of a node that is client, OSS and MDS at once."""
    figures: dict[str, Any] = {}
    print(f"\n{'a whole tree':<22}{'python':<9}{'ms a look':>10}{'every s':>9}{'% of a core':>13}{'peak MB':>9}")
    for python in pythons:
        said, peak = run(python, TREE, tree, str(looks))
        which = version(python)
        for name, (cost, period) in said.items():
            print(f"{name:<22}{which:<9}{cost * 1e3:>10.2f}{period:>9.0f}{cost / period * 100:>13.3f}")
        share = sum(cost / period for cost, period in said.values())
        at_one_hertz = sum(cost for cost, _ in said.values())
        print(f"{'all':<22}{which:<9}{at_one_hertz * 1e3:>10.2f}{'':>9}{share * 100:>13.3f}{peak / 1e6:>9.1f}")
        figures[f"tree, {which}"] = {
            "core_share": round(share, 6),
            "all_once_s": round(at_one_hertz, 6),
            "peak_bytes": peak,
        }
    return figures


def main() -> None:
    """Print the tables and add a line to the history."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a tenth of the jobs, nothing added to the history")
    options.add_argument("--jobs", type=int, default=10_000)
    shared = os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data")
    options.add_argument("--tree", default=str(Path(shared) / "lustre" / "gsi-lustre_exporter"))
    given = options.parse_args()
    old = old_python()
    pythons = [os.path.realpath(sys.executable), *([old] if old else [])]
    figures = jobs_table(pythons, given.jobs // 10 if given.quick else given.jobs, 3 if given.quick else 6)
    if Path(given.tree).is_dir():
        figures |= tree_table(pythons, given.tree, 5 if given.quick else 30)
    if not given.quick:
        append("agent_probes", figures)


if __name__ == "__main__":
    main()
