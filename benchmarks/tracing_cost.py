"""What the records of the forwarding plane cost: switched on and off in alternating slices of one run, one table.

`python benchmarks/tracing_cost.py [--quick] [--switch tracing|nothing] [--seconds S] [--slices N] [--runs KIND...]`

With `--switch nothing` both halves record: the interval then says what the method can tell (A/A). Ends with 1 when an
upper bound is above its target.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGUSR1, SIGUSR2

import _history
from _plane import Contender, forwarded

from fairlead.steer.forwarding.mount.process.control import ask_mount_process

MIB = 1 << 20
PAGE = 4096
FILE_BYTES = 128 * MIB
LEAST_SLICES = 200
RESAMPLES = 4000
TARGETS = {"write 1 MiB": 0.02, "read 1 MiB": 0.02, "read 4 KiB": 0.05, "create+stat+unlink": 0.05}
"""Most a load may lose, by the upper end of the 95 % interval."""


@dataclass
class Slices:
    """Of each slice: whether records were on, operations a second, processor seconds an operation of mount and
    forwarder."""

    on: list[bool] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


class Load:
    """One kind of load on a folder of the mount; `run(seconds)` returns the operations done and the seconds taken."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._path = folder / "data"
        self._names = folder / "names"
        self._random = random.Random(7)
        self._at = 0
        self._number = 0
        # Whole pages: a request is not split, and the kernel copies nothing.
        self._buffer = memoryview(os.urandom(MIB))
        self._into = [memoryview(bytearray(MIB))]
        self._small = [memoryview(bytearray(PAGE))]
        self._names.mkdir(exist_ok=True)
        with self._path.open("wb") as file:
            for _ in range(FILE_BYTES // MIB):
                file.write(self._buffer)
        self._fd = os.open(self._path, os.O_RDWR)
        self._one: Callable[[], None] = {
            "write 1 MiB": self._write,
            "read 1 MiB": self._read,
            "read 4 KiB": self._random_read,
            "create+stat+unlink": self._create,
        }[kind]

    def close(self) -> None:
        """Ends it."""
        os.close(self._fd)

    def _write(self) -> None:
        os.pwrite(self._fd, self._buffer, self._at)
        self._at = (self._at + MIB) % FILE_BYTES

    def _read(self) -> None:
        os.preadv(self._fd, self._into, self._at)
        self._at = (self._at + MIB) % FILE_BYTES

    def _random_read(self) -> None:
        os.preadv(self._fd, self._small, self._random.randrange(FILE_BYTES // PAGE) * PAGE)

    def _create(self) -> None:
        self._number += 1
        name = f"{self._names}/n{self._number}"
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        os.stat(name)  # noqa: PTH116 - the bare calls are what is measured
        os.unlink(name)  # noqa: PTH108

    def run(self, seconds: float) -> tuple[int, float]:
        """As many operations as fit."""
        one, clock = self._one, time.perf_counter
        count, began = 0, clock()
        end = began + seconds
        while (now := clock()) < end:
            one()
            count += 1
        return count, now - began


def measure(
    kind: str, contender: Contender, folder: Path, slices: int, seconds: float, switch: Callable[[bool], None]
) -> Slices:
    """Pairs of slices, the order within each pair drawn: a drift of the machine falls on both alike."""
    load = Load(kind, folder)
    draw = random.Random(1)
    found = Slices()
    load.run(min(2.0, 20 * seconds))
    for _ in range(slices // 2):
        first = draw.random() < 0.5
        for on in (first, not first):
            switch(on)
            load.run(seconds / 10)  # what was under way when the switch came
            cpu = contender.cpu_s()
            count, took = load.run(seconds)
            found.on.append(on)
            found.rate.append(count / took)
            found.cpu_s.append((contender.cpu_s() - cpu) / count)
    load.close()
    return found


def record(contender: Contender, folder: Path, *, on: bool) -> None:
    """Switches both recorders: the forwarder is the contender's first process."""
    contender.processes[0].send_signal(SIGUSR1 if on else SIGUSR2)
    ask_mount_process(folder, {"do": "record", "on": on})


@dataclass
class Cost:
    """Share of the rate lost with records on, the ends of its 95 % interval, and microseconds of processor."""

    lost: float
    low: float
    high: float
    cpu_us_off: float
    cpu_us_on: float
    rate: float


def cost_of(found: Slices, seed: int = 3) -> Cost:
    """From pairs of neighbouring slices: the mean of log(rate on / rate off), its interval by bootstrap over pairs. The
    mean is trimmed by a tenth at both ends, so that a slice the machine spent elsewhere does not decide."""
    import math

    pairs = []
    for k in range(0, len(found.on), 2):
        on, off = (k, k + 1) if found.on[k] else (k + 1, k)
        pairs.append(math.log(found.rate[on] / found.rate[off]))
    draw = random.Random(seed)
    means = sorted(_trimmed(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]
    cpu = {
        on: statistics.fmean(c for c, o in zip(found.cpu_s, found.on, strict=True) if o is on) * 1e6
        for on in (False, True)
    }
    rate = statistics.median(r for r, o in zip(found.rate, found.on, strict=True) if not o)
    return Cost(1 - math.exp(_trimmed(pairs)), 1 - math.exp(high), 1 - math.exp(low), cpu[False], cpu[True], rate)


def _trimmed(values: list[float]) -> float:
    ordered = sorted(values)
    cut = len(ordered) // 10
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short slices: whether it works, not what it costs")
    parser.add_argument("--switch", choices=("tracing", "nothing"), default="tracing")
    parser.add_argument("--slices", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a slice")
    parser.add_argument("--folder", type=Path, help="where to work; default /dev/shm, else where temporary files go")
    parser.add_argument("--runs", nargs="+", choices=list(TARGETS), default=list(TARGETS), metavar="KIND")
    parser.add_argument("--no-history", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Runs, prints the table, adds a line to the history."""
    options = arguments()
    slices, seconds = (20, 0.05) if options.quick else (max(options.slices, LEAST_SLICES), options.seconds)
    shared = Path("/dev/shm")
    base = options.folder or (shared if shared.is_dir() and os.access(shared, os.W_OK) else None)
    work = Path(tempfile.mkdtemp(prefix="fairlead-tracing-", dir=base))
    costs: dict[str, Cost] = {}
    try:
        source = work / "source"
        source.mkdir()
        contender = forwarded(source, work, tcp=False)
        folder = contender.folder(0)

        def switch(on: bool) -> None:
            record(contender, folder, on=on or options.switch == "nothing")

        try:
            for kind in options.runs:
                found = measure(kind, contender, folder, slices, seconds, switch)
                costs[kind] = cost_of(found)
        finally:
            contender.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    what = "records on against off" if options.switch == "tracing" else "records on against on (A/A)"
    print(f"{what}, {slices} slices of {seconds} s, one client through a forwarder (unix)")
    print(
        f"{'load':<20}{'operations/s':>14}{'lost':>9}{'95 % interval':>20}{'target':>9}{'CPU µs/op off':>15}{'on':>8}"
    )
    missed = []
    for kind, cost in costs.items():
        interval = f"{cost.low:+.2%} … {cost.high:+.2%}"
        print(
            f"{kind:<20}{cost.rate:>14,.0f}{cost.lost:>9.2%}{interval:>20}{'≤ ' + format(TARGETS[kind], '.0%'):>9}"
            f"{cost.cpu_us_off:>15.1f}{cost.cpu_us_on:>8.1f}"
        )
        if cost.high > TARGETS[kind]:
            missed.append(kind)
    if not options.quick and not options.no_history:
        _history.append(
            "tracing_cost",
            {
                "switch": options.switch,
                "slices": slices,
                "slice_s": seconds,
                "loads": {
                    kind: {name: round(one, 6) for name, one in vars(cost).items()} for kind, cost in costs.items()
                },
            },
        )
    if missed and not options.quick:
        print("above target: " + ", ".join(missed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
