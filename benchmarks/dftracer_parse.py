"""Events per second from a DFTracer trace to the `ops` table, plain and gzip, beside json.loads of the same lines.

Usage: python benchmarks/dftracer_parse.py [--quick] [--lines TRACE...]
Lines come from TRACE files repeated (default: the CM1 traces of the shared data, or generated ones without them).
Cold is a fresh process, compiled code in its cache; `compile` is what the first run of a user adds. Figures count
events (metadata included) and are the best of several runs; `cpu` is per second of processor time, all threads.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _history import append
from make_pfw import write_pfw

ROOT = Path(__file__).resolve().parent.parent

READ = """
import sys, time
began = time.perf_counter()
import resource
from pathlib import Path
import pyarrow as pa
from fairlead.see.sources.dftracer import DFTracerSource
path, repeats, kernel_from = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
runs = []
for run in range(repeats):
    wall, cpu = time.perf_counter(), time.process_time()
    rows = sum(item.num_rows for item in DFTracerSource(kernel_from).read(path) if isinstance(item, pa.RecordBatch))
    runs.append((time.perf_counter() - (wall if run else began), time.process_time() - cpu))
print(rows, runs[0][0], min(w for w, _ in runs), min(c for _, c in runs),
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def measure(path: Path, repeats: int, *, kernel_from: int = 0, cache: str | None = None) -> tuple[float, ...]:
    """Rows, cold seconds, best seconds, best processor seconds and peak bytes of reading `path` in a new process."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    run = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(repeats), str(kernel_from)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return tuple(float(value) for value in run.stdout.split())


def lines_of(traces: list[Path]) -> bytes:
    """All event lines of some traces."""
    lines = []
    for trace in traces:
        with gzip.open(trace) if trace.suffix == ".gz" else trace.open("rb") as file:
            lines += [line for line in file.read().split(b"\n") if line.strip(b" \t\r,[]")]
    return b"\n".join(lines) + b"\n"


def build(folder: Path, traces: list[Path], size: int) -> tuple[Path, Path, int]:
    """A plain trace of about `size` bytes, its gzip, and its number of events."""
    plain, packed = folder / "trace.pfw", folder / "trace.pfw.gz"
    if traces:
        lines = lines_of(traces)
        times = max(1, size // len(lines))
        with plain.open("wb") as file:
            for _ in range(times):
                file.write(lines)
        events = times * lines.count(b"\n")
    else:
        written = write_pfw(plain, size)
        events = written.operations + written.metadata + 2
    with plain.open("rb") as source, gzip.open(packed, "wb", 6) as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
    return plain, packed, events


def json_loads(path: Path, limit: int) -> float:
    """Lines per second of json.loads alone, on at most `limit` lines."""
    with path.open("rb") as file:
        lines = [line for line, _ in zip(file, range(limit), strict=False) if line.startswith(b"{")]
    began = time.perf_counter()
    for line in lines:
        json.loads(line)
    return len(lines) / (time.perf_counter() - began)


def main() -> None:
    """Measure, print one table, append to the history."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller input and fewer repeats")
    parser.add_argument("--lines", type=Path, nargs="*", help="traces whose lines are repeated")
    options = parser.parse_args()
    shared = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data")) / "dftracer"
    traces = options.lines if options.lines is not None else sorted(shared.glob("cm1*/*.pfw.gz"))
    repeats = 3 if options.quick else 7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, packed, events = build(folder, traces, (60 if options.quick else 300) << 20)
        first = measure(plain, 1, cache=str(folder / "cache"))
        rows, cold, best, cpu, peak = measure(plain, repeats)
        gz_rows, gz_cold, gz_best, gz_cpu, gz_peak = measure(packed, repeats)
        small = measure(plain, 1, kernel_from=1 << 60)
        peer = json_loads(plain, 200_000)
        assert rows == gz_rows == first[0] == small[0], "the ways of reading disagree"
        size = plain.stat().st_size
    figures: dict[str, object] = {
        "lines": "given" if traces else "generated",
        "events": events,
        "bytes": size,
        "plain_events_per_s": round(events / best),
        "plain_cpu_events_per_s": round(events / cpu),
        "plain_cold_s": round(cold, 3),
        "plain_peak_bytes": int(peak),
        "gzip_events_per_s": round(events / gz_best),
        "gzip_cpu_events_per_s": round(events / gz_cpu),
        "gzip_cold_s": round(gz_cold, 3),
        "gzip_peak_bytes": int(gz_peak),
        "compile_s": round(first[1] - cold, 3),
        "small_path_events_per_s": round(events / small[1]),
        "json_loads_per_s": round(peer),
    }
    print(f"{events:,} events, {size / 1e6:.0f} MB, lines {figures['lines']}")
    print(f"{'':<26}{'events/s':>12}{'per cpu s':>12}{'cold s':>9}{'peak MiB':>10}")
    for label, speed, processor, seconds, high in (
        ("plain", best, cpu, cold, peak),
        ("gzip", gz_best, gz_cpu, gz_cold, gz_peak),
    ):
        print(f"{label:<26}{events / speed:>12,.0f}{events / processor:>12,.0f}{seconds:>9.2f}{high / 2**20:>10.0f}")
    print(f"{'plain, without numba':<26}{events / small[1]:>12,.0f}")
    print(f"{'json.loads of each line':<26}{peer:>12,.0f}")
    print(f"compiling, once per user: {first[1] - cold:.1f} s")
    append("dftracer_parse", figures)


if __name__ == "__main__":
    main()
