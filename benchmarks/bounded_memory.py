"""A DFTracer trace larger than the memory allowed: `fairlead report` under a limit on its address space.

Run: `python benchmarks/bounded_memory.py [--quick] [--bytes 5G] [--limit 2G]`. The trace is generated (and said so).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _history import append
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
_LIMITED = (
    "import os, resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_AS, (n, n)); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


def size(text: str) -> int:
    """`5G` → bytes (powers of 1024)."""
    return int(float(text[:-1]) * 1024 ** ("KMGT".index(text[-1].upper()) + 1)) if text[-1].isalpha() else int(text)


def main() -> int:
    """Generate, report under the limit, check the totals, print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 MiB instead of 5 GiB")
    parser.add_argument("--bytes", default=None)
    parser.add_argument("--limit", type=size, default=size("2G"))
    arguments = parser.parse_args()
    wanted = arguments.bytes or ("200M" if arguments.quick else "5G")
    with tempfile.TemporaryDirectory() as folder:
        trace, out = Path(folder) / "generated.pfw", Path(folder) / "report.json"
        made = subprocess.run(
            [sys.executable, str(HERE / "make_pfw.py"), "--bytes", wanted, str(trace)],
            check=True,
            capture_output=True,
            text=True,
        )
        truth = json.loads(made.stdout)
        start = time.perf_counter()
        fairlead = str(Path(sys.executable).parent / "fairlead")
        process = subprocess.Popen(
            [sys.executable, "-c", _LIMITED, str(arguments.limit), fairlead, "report", str(trace), "--json", str(out)],
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        code = os.waitstatus_to_exitcode(status)
        totals = json.loads(out.read_text())["totals"] if code == 0 else {}
    expected = {"read_bytes": truth["read_bytes"], "write_bytes": truth["written_bytes"]}
    right = code == 0 and expected.items() <= totals.items()
    figures: dict[str, object] = {
        "trace_bytes": truth["file_bytes"],
        "limit_bytes": arguments.limit,
        "operations": truth["operations"],
        "wall_s": round(wall, 2),
        "peak_mib": round(usage.ru_maxrss / 1024, 1),
        "exit": code,
        "totals_right": right,
    }
    table = Table("figure", "value", title="a generated trace, address space limited", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))
    Console(width=100).print(table)
    append("bounded_memory", figures)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
