"""`fairlead report` against PyDarshan's summary and Drishti: cold processes, same logs, wall time and peak memory.

Peers that are not installed are left out and said so. Run: `python benchmarks/report.py [--quick] [LOG...]`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _history import append
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
DEFAULT_LOGS = (
    *sorted((SHARED / "darshan" / "drishti").glob("*.darshan")),
    SHARED / "own" / "darshan_labelled" / "big_4k_nn_8.darshan",
)


def run(command: list[str]) -> tuple[float, float, int]:
    """Wall seconds, peak resident MiB of the largest process, and the exit status of one cold run."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    return wall, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def commands(log: Path, folder: Path) -> dict[str, list[str]]:
    """What each tool is asked: read the log, judge or draw it, write an HTML page."""
    python, bin_dir = sys.executable, Path(sys.executable).parent
    found = {
        "fairlead": [
            str(bin_dir / "fairlead"),
            "report",
            str(log),
            "--html",
            str(folder / "fairlead.html"),
            "--json",
            str(folder / "fairlead.json"),
        ],
        "pydarshan": [
            python,
            "-m",
            "darshan",
            "summary",
            "--enable_dxt_heatmap",
            str(log),
            "--output",
            str(folder / "pydarshan.html"),
        ],
        "drishti": [str(bin_dir / "drishti"), "--html", "--export_dir", str(folder), str(log)],
    }
    if subprocess.run([python, "-c", "import darshan"], capture_output=True, check=False).returncode:
        del found["pydarshan"]
    if shutil.which(found["drishti"][0]) is None:
        del found["drishti"]
    return found


def main() -> int:
    """Measure, print one table, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run each instead of five (PyDarshan: two)")
    parser.add_argument("logs", nargs="*", type=Path)
    arguments = parser.parse_args()
    logs = [log for log in (arguments.logs or DEFAULT_LOGS) if log.exists()]
    if not logs:
        print("no logs: name some, or set FAIRLEAD_SHARED_DATA", file=sys.stderr)
        return 2
    table = Table(title="one report, cold process (median)", title_justify="left")
    for name in ("log", "tool", "wall s", "peak MiB", "fairlead / tool: wall", "memory", "exit"):
        table.add_column(name)
    figures: dict[str, object] = {}
    for log in logs:
        with tempfile.TemporaryDirectory() as folder:
            tools = commands(log, Path(folder))
            run(tools["fairlead"])  # the log into the page cache, byte code compiled: the same for every tool
            measured = {}
            for tool, command in tools.items():
                times = 1 if arguments.quick else (2 if tool == "pydarshan" else 5)
                runs = [run(command) for _ in range(times)]
                measured[tool] = (
                    statistics.median(r[0] for r in runs),
                    max(r[1] for r in runs),
                    max(r[2] for r in runs),
                )
        wall, peak, _ = measured["fairlead"]
        for tool, (tool_wall, tool_peak, status) in measured.items():
            ratios = ("", "") if tool == "fairlead" else (f"{wall / tool_wall:.2f}", f"{peak / tool_peak:.2f}")
            table.add_row(log.name[:40], tool, f"{tool_wall:.2f}", f"{tool_peak:.0f}", *ratios, str(status))
            figures[f"{log.stem[:24]}/{tool}"] = {"wall_s": round(tool_wall, 3), "peak_mib": round(tool_peak, 1)}
        for tool in ("pydarshan", "drishti"):
            if tool not in measured:
                print(f"{tool} is not installed: make bench installs it", file=sys.stderr)
    Console(width=130).print(table)
    append("report", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
