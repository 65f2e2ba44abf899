"""Jobs that disturb each other through a forwarder, and what its disciplines, placements and settings do about it.

`python benchmarks/interference.py [--quick] [a] [b] [c] [d] [e]`: (a) metadata beside bandwidth, (b) a flood beside one
client, (c) placement on unequal targets, (d) read-ahead that thrashes, (e) small writes made one. Real forwarder and
client processes; the storage is a simulated device (stated times, slept), so that jobs contend for workers and not for
this machine's cores. Records are off.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _history import append
from rich.console import Console
from rich.table import Table

PROGRAM = Path(__file__).with_name("_closed_loop.py")
LWFS = ",cap-job:off,cap-target:off"
WORKERS = 16
KIB, MIB = 1 << 10, 1 << 20
PERFORMANCE = (5, 3, 5, 2, 3, 1, 5, 2)
UNIT = 4 * MIB
"""Bytes a second of the slowest of the eight targets."""
BATCH_S = 120
Figures = dict[str, object]


class Run:
    """A forwarder with jobs beside each other."""

    def __init__(self, folder: Path) -> None:
        self.address = f"unix:{folder}/forwarder.socket"
        self.served: Figures = {}
        self.cpu_s = self.wall_s = 0.0
        self.peak_bytes = 0

    def jobs(self, seconds: float, *orders: Figures, warm_s: float = 0.3) -> list[dict[str, float]]:
        """What each job measured."""
        command = [sys.executable, str(PROGRAM), "job"]
        processes = [
            subprocess.Popen(
                [*command, json.dumps({"address": self.address} | order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for order in orders
        ]
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit("a job did not begin")
        start = time.monotonic_ns() + 20_000_000
        begin = start + int(warm_s * 1e9)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps([start, begin, begin + int(seconds * 1e9)]) + "\n")
            process.stdin.flush()
        began = time.monotonic()
        found = []
        for process in processes:
            text, _ = process.communicate(timeout=seconds + 60)
            if process.returncode:
                raise SystemExit("a job failed")
            found.append(json.loads(text))
        self.wall_s += time.monotonic() - began
        self.cpu_s += sum(one["cpu_s"] for one in found)
        self.peak_bytes = max(self.peak_bytes, *(int(one["peak_bytes"]) for one in found))
        if any(one["errors"] or one["unfinished"] for one in found):
            raise SystemExit(f"requests failed or did not end: {found}")
        return found


@contextmanager
def forwarder(folder: Path, export: str, discipline: str, settings: str = "", workers: int = WORKERS) -> Iterator[Run]:
    """A forwarder process."""
    run = Run(folder)
    options: Figures = {"export": export, "listen": [run.address], "workers": workers, "discipline": discipline}
    if settings:
        file = folder / "jobs.toml"
        file.write_text(settings, encoding="utf-8")
        options["settings"] = str(file)
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), "serve", json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            if line.startswith("ready"):
                break
            said += line
        else:
            raise SystemExit(f"the forwarder did not start: {said}")
        yield run
    finally:
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=60)
        run.served = json.loads(text or "{}")


TOTALS = {"cpu_s": 0.0, "wall_s": 0.0, "peak": 0}


def account(run: Run) -> None:
    """Adds what a run used to the totals."""
    TOTALS["cpu_s"] += run.cpu_s + float(run.served.get("cpu_s", 0.0))  # type: ignore[arg-type]
    TOTALS["wall_s"] += run.wall_s
    TOTALS["peak"] = max(TOTALS["peak"], run.peak_bytes, int(run.served.get("peak_bytes", 0)))  # type: ignore[call-overload]


def table_of(title: str, *columns: str) -> Table:
    """An empty table whose first column is words."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def metadata_beside_bandwidth(folder: Path, quick: bool) -> tuple[Table, Figures]:
    """(a) Beacon's P:(1-P): twice as many metadata clients as workers, beside a job that writes."""
    seconds = 1 if quick else 5
    device = "slow:metadata=10ms,write=10ms"
    meta: Figures = {"job": "metadata", "kind": "metadata", "clients": 2 * WORKERS}
    data: Figures = {"job": "bandwidth", "kind": "write", "clients": 2, "size": 128 * KIB}
    table = table_of(
        f"(a) {2 * WORKERS} metadata clients beside 2 writers of 128 KiB, {WORKERS} workers, {device}",
        "discipline",
        "metadata ops/s",
        "of its own alone",
        "data MiB/s",
        "against metadata-first",
    )
    figures: Figures = {}
    alone = before = None
    names = ["alone", "metadata-first" + LWFS, "share:0.5" + LWFS, *([] if quick else ["job-fair"])]
    for name in names:
        spec = "metadata-first" + LWFS if name == "alone" else name
        with forwarder(folder, f"{device}:{folder}/data", spec) as run:
            found = run.jobs(seconds, *([meta] if name == "alone" else [meta, data]))
        account(run)
        ops = found[0]["requests"] / seconds
        rate = found[1]["bytes"] / seconds / MIB if len(found) > 1 else None
        alone = alone or ops
        before = before if before is not None else rate
        gain = "" if rate is None or before is None else f"{rate / before:.1f} x" if before >= 0.1 else "from nothing"
        if spec == name and rate is before:
            gain = "1.0 x"
        table.add_row(name, f"{ops:.0f}", f"{ops / alone:.0%}", "" if rate is None else f"{rate:.1f}", gain)
        figures[name] = {"metadata_ops_per_s": round(ops), "data_mib_per_s": rate and round(rate, 2)}
        figures[name] |= {"metadata_kept": round(ops / alone, 3)}  # type: ignore[operator]
    table.caption = "wanted under share:0.5: the writers' throughput at least doubled, the metadata job keeps 85 %"
    return table, figures


def flood_beside_one(folder: Path, quick: bool) -> tuple[Table, Figures]:
    """(b) Beacon's co-run table in kind: a 1-1 job beside an N-1 job."""
    seconds = 1 if quick else 5
    service_ms, device = 10, "slow:write=10ms,read=10ms"
    clients = 8 * WORKERS
    flood: Figures = {"job": "flood", "kind": "write", "clients": clients, "size": 128 * KIB, "shared": True}
    one: Figures = {"job": "one", "kind": "read", "clients": 1, "size": 128 * KIB}
    (folder / "data" / "one.0").write_bytes(b"")
    os.truncate(folder / "data" / "one.0", 1 << 30)
    table = table_of(
        f"(b) one reader beside {clients} writers of one file, {WORKERS} workers, {device}",
        "discipline",
        "1-1 response ms",
        "p99",
        "against alone",
        "N-1 response ms",
        "N-1 MiB/s",
    )
    figures: Figures = {}
    solo = 0.0
    names = ["alone", "fifo" + LWFS, *([] if quick else ["fifo", "job-fair" + LWFS]), "job-fair"]
    for name in names:
        spec = "fifo" + LWFS if name == "alone" else name
        with forwarder(folder, f"{device}:{folder}/data", spec) as run:
            found = run.jobs(seconds, *([one] if name == "alone" else [one, flood]))
        account(run)
        mean = found[0]["mean_ms"]
        solo = solo or mean
        other = [f"{found[1]['mean_ms']:.1f}", f"{found[1]['bytes'] / seconds / MIB:.0f}"] if len(found) > 1 else []
        table.add_row(name, f"{mean:.1f}", f"{found[0]['p99_ms']:.1f}", f"{mean / solo:.2f} x", *other)
        figures[name] = {"response_ms": round(mean, 2), "p99_ms": round(found[0]["p99_ms"], 2)}
        figures[name] |= {"against_alone": round(mean / solo, 2)}  # type: ignore[operator]
    bound = 1.3 * (solo + service_ms / WORKERS)
    table.caption = f"wanted: fifo as LWFS has it at least 5 x, job-fair below {bound:.1f} ms"
    return table, figures | {"bound_ms": round(bound, 2)}


def placement_on_targets(folder: Path, quick: bool) -> tuple[Table, Figures]:
    """(c) Sunway's placement: equal files on eight unequal targets, all written together."""
    seconds = 1.0 if quick else 2.5
    total = sum(PERFORMANCE) * UNIT
    request = 64 * KIB
    ratio_of_targets = ":".join(map(str, PERFORMANCE))
    table = table_of(
        f"(c) N equal files of one stripe on targets {ratio_of_targets}, {total / MIB:.0f} MiB/s in all",
        "N",
        "least-open MiB/s",
        "of the total",
        "round-robin MiB/s",
        "ratio",
        "best for whole files",
    )
    figures: Figures = {}
    for files in (124,) if quick else (24, 60, 124, 200):
        size = max(1, int(seconds * total / files / request)) * request
        rates = {}
        for rule in ("least-open", "round-robin"):
            place = Path(tempfile.mkdtemp(dir=folder))
            lines = ["[metadata]", 'store = "metadata"', "[layout]", f'placement = "{rule}"']
            for number, speed in enumerate(PERFORMANCE):
                (place / f"t{number}").mkdir()
                lines += ["[[targets]]", f'name = "t{number}"', f'path = "t{number}"', f"max_perf = {speed * UNIT}"]
            (place / "targets.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
            order: Figures = {"job": f"n{files}", "kind": "write", "clients": files, "size": request, "bytes": size}
            with forwarder(folder, f"targets:{place}/targets.toml", "job-fair") as run:
                (found,) = run.jobs(BATCH_S, order, warm_s=0)
            account(run)
            rates[rule] = files * size / found["wall_s"]
        best = files / _least_time(files) * UNIT
        ratio = rates["least-open"] / rates["round-robin"]
        table.add_row(
            str(files),
            f"{rates['least-open'] / MIB:.1f}",
            f"{rates['least-open'] / total:.1%}",
            f"{rates['round-robin'] / MIB:.1f}",
            f"{ratio:.2f} x",
            f"{best / MIB:.1f}",
        )
        figures[str(files)] = {rule: round(rate / MIB, 1) for rule, rate in rates.items()} | {"ratio": round(ratio, 2)}
    table.caption = "a target may go 50 ms ahead of its rate (its bucket's burst), so a short run may pass 100 %"
    return table, figures


def _least_time(files: int) -> float:
    times = sorted({count / speed for speed in PERFORMANCE for count in range(1, files + 1)})
    return next(time for time in times if sum(int(time * speed + 1e-9) for speed in PERFORMANCE) >= files)


def read_ahead(folder: Path, quick: bool) -> tuple[Table, Figures]:
    """(d) Beacon's cache thrashing: 40 MiB read ahead in every file, in a cache that holds one and a half of them."""
    seconds, readers = (2.5 if quick else 5), 8
    device = "slow:read=2ms,bandwidth=2G"
    for number in range(readers):
        with (folder / "data" / f"reader.{number}").open("wb") as file:
            file.truncate(4 << 30)  # a hole: nothing of it is stored
    order: Figures = {"job": "reader", "kind": "read", "clients": readers, "size": 256 * KIB}
    table = table_of(
        f"(d) {readers} readers of a file each, 256 KiB at a time, 64 MiB of cache, {device}",
        "read-ahead",
        "MiB/s",
        "bytes read for each asked",
        "reads of the device",
    )
    figures: Figures = {}
    for name, settings in (
        ("none", ""),
        ("40 MiB", '[default]\nread_ahead = "40M"\n[cache]\nsize = "64M"\n'),
        ("2 MiB", '[default]\nread_ahead = "2M"\n[cache]\nsize = "64M"\n'),
    ):
        with forwarder(folder, f"{device}:{folder}/data", "job-fair", settings) as run:
            (found,) = run.jobs(seconds, order, warm_s=0)
        account(run)
        moved = float(run.served["device_bytes"])  # type: ignore[arg-type]
        times = moved / max(1.0, found["bytes"])
        rate = found["bytes"] / found["wall_s"] / MIB
        table.add_row(name, f"{rate:.0f}", f"{times:.2f}", f"{run.served['device_operations']:,}")
        figures[name] = {"mib_per_s": round(rate), "amplification": round(times, 2)}
    table.caption = "Beacon saw 3.5 bytes for each asked, and advised 2 MiB instead of 40"
    return table, figures


def small_writes(folder: Path, quick: bool) -> tuple[Table, Figures]:
    """(e) Small writes of one file, next to each other or not, on storage that takes long for each."""
    seconds, clients = (1 if quick else 3), 4 * WORKERS
    device = "slow:write=5ms"
    table = table_of(
        f"(e) {clients} writers of 4 KiB in one file, {WORKERS} workers, {device}",
        "places",
        "writes answered/s",
        "writes of the device",
        "requests in each",
    )
    figures: Figures = {}
    for name in ("with gaps", "adjacent"):
        order: Figures = {"job": "small", "kind": "write", "clients": clients, "size": 4 * KIB, "shared": True}
        with forwarder(folder, f"{device}:{folder}/data", "job-fair") as run:
            (found,) = run.jobs(seconds, order | {"adjacent": name == "adjacent"}, warm_s=0)
        account(run)
        below = int(run.served["device_operations"])  # type: ignore[call-overload]
        rate, each = found["requests"] / seconds, found["requests"] / max(1, below)
        table.add_row(name, f"{rate:,.0f}", f"{below:,}", f"{each:.1f}")
        figures[name] = {"answered_per_s": round(rate), "requests_per_write": round(each, 1)}
    return table, figures


EXPERIMENTS = {
    "a": metadata_beside_bandwidth,
    "b": flood_beside_one,
    "c": placement_on_targets,
    "d": read_ahead,
    "e": small_writes,
}


def main() -> int:
    """Measure, print, append to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs, fewer sizes")
    parser.add_argument("experiments", nargs="*", choices=[*EXPERIMENTS, []], help="default: all of them")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 132)
    figures: Figures = {"quick": arguments.quick, "workers": WORKERS, "records": "off", "device": "simulated"}
    chosen = arguments.experiments or list(EXPERIMENTS)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        (folder / "data").mkdir()
        for letter in chosen:
            table, found = EXPERIMENTS[letter](folder, arguments.quick)
            console.print(table)
            figures[letter] = found
    cores = len(os.sched_getaffinity(0))
    share = TOTALS["cpu_s"] / max(1e-9, TOTALS["wall_s"] * cores)
    peak = round(TOTALS["peak"] / MIB)
    console.print(f"simulated device; records off; CPU used: {share:.0%} of {cores} cores; largest process {peak} MiB")
    append("interference", figures | {"cpu_share": round(share, 2), "peak_mib": peak})
    return 0


if __name__ == "__main__":
    sys.exit(main())
