"""What a mount costs: raw folder, libfuse's C example, fairlead local, with passthrough, through a forwarder.

`python benchmarks/forwarding.py [--quick] [--rounds N] [--folder DIR]`; every contender in one run, measurements of
one kind beside each other, rounds interleaved, records on. Without --folder the data lies on /dev/shm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import _history
import _load
import _plane

SHARED_MEMORY = Path("/dev/shm")
LOAD = Path(_load.__file__)
KINDS = ("write", "read", "random", "names")
UNITS = {"write": "MiB/s", "read": "MiB/s", "random": "1/s", "names": "cycles/s"}
WANTED = {  # kind, processes → share of the C mount, absolute figure of the issue
    ("write", 1): (0.6, 1.0e9 / 2**20),
    ("read", 1): (0.8, 1.1e9 / 2**20),
    ("write", 4): (0.8, None),
    ("read", 4): (0.8, None),
    ("random", 1): (25_000 / 170_000, 25_000),
    ("names", 1): (5_000 / 17_500, 5_000),
}


def main() -> None:
    """The table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="one short round")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--folder", type=Path, default=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    given = options.parse_args()
    rounds, seconds = (1, 0.4) if given.quick else (given.rounds, given.seconds)
    with tempfile.TemporaryDirectory(dir=given.folder) as data, tempfile.TemporaryDirectory() as work:
        contenders = _started(Path(data), Path(work))
        try:
            figures = _measured(contenders, Path(data), rounds, seconds)
        finally:
            for contender in contenders:
                contender.stop()
    _history.append("forwarding", {"quick": given.quick, "rounds": rounds, "seconds": seconds, "figures": figures})


def _started(data: Path, work: Path) -> list[_plane.Contender]:
    peers = [_plane.raw(data), _plane.c_mount(data, work)]
    if peers[1] is None:
        print("no C mount: apt-get install libfuse3-dev gcc pkg-config", file=sys.stderr)
    found = [peer for peer in peers if peer is not None]
    found.append(_plane.local(data, work, passthrough=False))
    if os.geteuid() == 0:
        found.append(_plane.local(data, work, passthrough=True))
    found.append(_plane.forwarded(data, work, tcp=False))
    found.append(_plane.forwarded(data, work, tcp=False, mounts=4))
    found.append(_plane.forwarded(data, work, tcp=True))
    return found


def _measured(contenders: list[_plane.Contender], data: Path, rounds: int, seconds: float) -> dict[str, object]:
    cores = sorted(os.sched_getaffinity(0))
    pinnings = {"one core": ({cores[0]}, {cores[0]}), "free": (set(cores), set(cores))}
    if len(cores) > 1:
        pinnings["split"] = ({cores[0]}, set(cores[1:]))
    for index in range(4):
        subprocess.run([sys.executable, str(LOAD), "prepare", str(data), str(index), "0"], check=True)
    figures: dict[str, object] = {"load_average": os.getloadavg()[0], "place": str(data.parent)}
    for pinning, (load_cores, server_cores) in pinnings.items():
        for contender in contenders:
            contender.pin(server_cores)
        for kind in KINDS:
            for processes in (1, 4):
                rates: dict[str, list[float]] = {}
                costs: dict[str, list[float]] = {}
                for _ in range(rounds):
                    for contender in contenders:
                        if processes == 1 and len(contender.folders) > 1:
                            continue
                        rate, cost = _one(contender, kind, processes, seconds, load_cores)
                        rates.setdefault(contender.name, []).append(rate)
                        costs.setdefault(contender.name, []).append(cost)
                _show(pinning, kind, processes, rates, costs)
                figures[f"{pinning}, {kind}, {processes}"] = {
                    name: {"rate": round(median(each), 1), "cpu_us": round(median(costs[name]), 1)}
                    for name, each in rates.items()
                }
    peaks = {contender.name: contender.peak_bytes() for contender in contenders if contender.processes}
    print("\npeak memory, MiB: " + ", ".join(f"{name} {size / 2**20:.0f}" for name, size in peaks.items()))
    figures["peak_bytes"] = peaks
    return figures


def _one(
    contender: _plane.Contender, kind: str, processes: int, seconds: float, cores: set[int]
) -> tuple[float, float]:
    """Rate (MiB/s or operations/s, over the time from the first start to the last end) and CPU µs of the servers."""
    started = [
        subprocess.Popen(
            [sys.executable, str(LOAD), kind, str(contender.folder(index)), str(index), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        for index in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{contender.name}: the load did not start")
    before = contender.cpu_s()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [json.loads(process.communicate()[0]) for process in started]
    used = contender.cpu_s() - before
    span = max(each["ended"] for each in results) - min(each["began"] for each in results)
    count = sum(each["count"] for each in results)
    size = sum(each["bytes"] for each in results)
    rate = size / span / 2**20 if kind in {"write", "read"} else count / span
    return rate, used * 1e6 / max(1, count)


def _show(
    pinning: str, kind: str, processes: int, rates: dict[str, list[float]], costs: dict[str, list[float]]
) -> None:
    peer = next((median(rates[name]) for name in rates if name.startswith("C ")), None)
    base = median(rates["raw"])
    wanted, absolute = WANTED.get((kind, processes), (None, None))
    words = [f"wanted of the C mount {wanted:.2f}"] if wanted else []
    words += [f"{absolute:,.0f} {UNITS[kind]}"] if absolute else []
    print(f"\n{pinning}: {kind}, {processes} process(es), depth 1 each, {UNITS[kind]}   {', '.join(words)}")
    for name, each in rates.items():
        middle = median(each)
        ratio = f"{middle / peer:6.2f} x C" if peer else ""
        print(
            f"  {name:<26}{middle:>10,.0f}  [{min(each):,.0f} to {max(each):,.0f}]{ratio:>14}"
            f"{middle / base:>8.2f} x raw{median(costs[name]):>9.0f} us CPU per operation"
        )


if __name__ == "__main__":
    main()
