"""Segments per second from a Darshan log with DXT to the `ops` table, decompression included; PyDarshan beside it.

Usage: python benchmarks/dxt_decode.py [LOG] [--quick]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from _history import append

ROOT = Path(__file__).resolve().parent.parent
BIG = "own/darshan_labelled/big_4k_nn_8.darshan"

FAIRLEAD = """
import sys, time
from pathlib import Path
from fairlead.core.model.tables import OPS
from fairlead.see.sources.darshan import DarshanSource
import resource
import pyarrow
pyarrow.array([0])  # pyarrow looks for pandas at its first conversion: an import too
path, times = Path(sys.argv[1]), []
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    rows = 0
    for item in DarshanSource().read(path):
        if getattr(item, "schema", None) is not None and item.schema.equals(OPS.schema):
            rows += item.num_rows
    times.append(time.perf_counter() - began)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows, times[0], min(times[1:]), (after - before) * 1024)
"""

PYDARSHAN = """
import resource, sys, time
import darshan.backend.cffi_backend as backend
path, times = sys.argv[1], []
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    log, rows, kept = backend.log_open(path), 0, []
    for module in ("DXT_POSIX", "DXT_MPIIO"):
        while (record := backend.log_get_dxt_record(log, module)) is not None:
            rows += record["write_count"] + record["read_count"]
            kept.append(record)
    backend.log_close(log)
    times.append(time.perf_counter() - began)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows, times[0], min(times[1:]), (after - before) * 1024)
"""


def measure(program: str, log: Path, repeats: int) -> tuple[int, float, float, int]:
    """Segments, seconds of the first and of the best later read, bytes by which peak memory grew; a fresh process."""
    run = subprocess.run(
        [sys.executable, "-c", program, str(log), str(repeats)], capture_output=True, text=True, check=True
    )
    rows, cold, warm, memory = run.stdout.split()
    return int(rows), float(cold), float(warm), int(memory)


def default_log() -> Path:
    """The big labelled log where the shared data are, a small one of the tests elsewhere."""
    shared = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data")) / BIG
    return shared if shared.exists() else ROOT / "tests" / "fixtures" / "darshan" / "n1_strided_64k_8.darshan"


def main() -> None:
    """Measure and print one table; add a line to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="?", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    chosen = parser.parse_args()
    log = chosen.log or default_log()
    readers = {"fairlead": (FAIRLEAD, 4 if chosen.quick else 15)}
    if find_spec("darshan") is not None:
        readers["PyDarshan"] = (PYDARSHAN, 2 if chosen.quick else 4)
    print(f"{log.name}, {log.stat().st_size:,} bytes; imports excluded, fairlead reads the whole log")
    print(f"{'reader':<10} {'segments':>9} {'cold M/s':>9} {'warm M/s':>9} {'memory MB':>10}")
    figures: dict[str, object] = {"log": log.name}
    for name, (program, repeats) in readers.items():
        rows, cold, warm, memory = measure(program, log, repeats)
        print(f"{name:<10} {rows:>9,} {rows / cold / 1e6:>9.2f} {rows / warm / 1e6:>9.2f} {memory / 1e6:>10.1f}")
        figures[name] = {
            "segments": rows,
            "cold_segments_per_s": round(rows / cold),
            "warm_segments_per_s": round(rows / warm),
            "memory_bytes": memory,
        }
    append("dxt_decode", figures)


if __name__ == "__main__":
    main()
