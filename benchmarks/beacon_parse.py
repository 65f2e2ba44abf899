"""Lines per second of the Beacon source, layer by layer, on generated lines of the published forms.

`python benchmarks/beacon_parse.py [--quick] [--lines N]`; one table on stdout.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from fairlead.see.sources.beacon import BeaconSource

START = datetime(2018, 9, 10, 6, 0, 0, tzinfo=UTC)
EAST = timedelta(hours=8)


def _stamp(second: float) -> str:
    return (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:23] + "Z"


def _local(second: int) -> str:
    return (START + EAST + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S")


def operations(count: int, rng: random.Random) -> list[str]:
    """Client trace lines of 64 nodes: an open, some merged runs, a close."""
    lines: list[str] = []
    while len(lines) < count:
        second = len(lines) // 2000
        host = f"172.0.{rng.randrange(8)}.{rng.randrange(1, 9)}"
        envelope = f" || {_stamp(second + 0.544)} || {host}"
        fd = f"0x12{rng.randrange(1 << 28):07x}"
        path = f"/User{rng.randrange(200):03d}/{rng.randrange(-1 << 63, 1 << 63)}/{rng.randrange(-1 << 63, 1 << 63)}"
        when = f"[{_local(second)}] T "
        lines.append(f"{when}OPEN() {path}{envelope}")
        lines.append(f"{when}OPEN() {path} => {fd}{envelope}")
        at = 0
        for _ in range(rng.randrange(1, 16)):
            op, size, runs = rng.choice(["READ", "WRITE"]), rng.choice([4096, 131072, 1 << 20]), rng.randrange(1, 9)
            at += size * runs
            lines.append(f"{when}{op} {fd} size={size} offset={at - size} count={runs}{envelope}")
        lines.append(f"{when}RELEASE {fd}{envelope}")
    return lines[:count]


def latency(count: int, rng: random.Random) -> list[str]:
    """Snapshots of seven lines from 80 forwarding servers."""
    lines: list[str] = []
    totals = {(h, c, w): [0] * 8 for h in range(80) for c in ("Read", "Write", "Meta") for w in ("wait", "exe")}
    second = 0
    while len(lines) < count:
        second += 45
        for h in range(80):
            tail = f" || {_stamp(second)} || 17.0.2.{h}"
            for c in ("Read", "Write", "Meta"):
                for w in ("wait", "exe"):
                    row = totals[h, c, w]
                    for b in range(8):
                        row[b] += rng.randrange(1000)
                    lines.append(f"[{_local(second)}]  [Trace]: {c} {w}: {' '.join(map(str, row))}{tail}")
            lines.append(f"[{_local(second)}]  [Trace]: queue length: {rng.randrange(50)}{tail}")
    return lines[:count]


def rpcs(count: int, rng: random.Random, *, of_target: bool) -> list[str]:
    """Pages-per-RPC lines of 200 counters that change now and then."""
    totals = [[[0, 0] for _ in range(9)] for _ in range(200)]
    lines: list[str] = []
    second = 0
    while len(lines) < count:
        second += 1
        for t in rng.sample(range(200), 100):
            for b in range(9):
                totals[t][b][0] += rng.randrange(40)
                totals[t][b][1] += rng.randrange(40)
            triples = json.dumps([[1 << b, *totals[t][b]] for b in range(9)])
            inside = f" {_stamp(second)}" if of_target else ""
            lines.append(f"{t:04x} {triples}{inside} || {_stamp(second)} || 17.0.3.{t % 40}")
    return lines[:count]


def metadata(count: int, rng: random.Random) -> list[str]:
    """Counters of 300 clients of two metadata servers."""
    names = ("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr")
    totals = {c: [rng.randrange(1 << 20) for _ in names] for c in range(300)}
    lines: list[str] = []
    second = 0
    while len(lines) < count:
        second += 1
        for c in rng.sample(range(300), 60):
            for i in rng.sample(range(len(names)), 4):
                totals[c][i] += rng.randrange(500)
            pairs = " ".join(f"{n} {v}" for n, v in zip(names, totals[c], strict=True))
            lines.append(f"17.0.2.{c} {pairs} || {_stamp(second)} || 17.0.1.{c % 2}")
    return lines[:count]


def jobs(count: int, rng: random.Random) -> list[str]:
    """JOB_log rows with node lists of 1 to 64 nodes."""
    lines = []
    for n in range(count):
        first, nodes = rng.randrange(40000), rng.choice([1, 4, 16, 64])
        fields = [
            str(41_000_000 + n),
            "",
            "",
            "",
            str(nodes),
            str(nodes * 4),
            "1.5",
            _local(n),
            _local(n + 5),
            _local(n + 900),
            "895",
            "",
            "",
            "",
            f"app{rng.randrange(30)}",
            f"{first}-{first + nodes - 1}",
        ]
        lines.append("\t".join(fields))
    return lines


LAYERS: dict[str, Callable[[int, random.Random], list[str]]] = {
    "client operations": operations,
    "server latency": latency,
    "forwarder RPCs": lambda n, rng: rpcs(n, rng, of_target=False),
    "target RPCs": lambda n, rng: rpcs(n, rng, of_target=True),
    "metadata": metadata,
    "job records": jobs,
}


def measure(path: Path) -> tuple[float, int]:
    """Seconds and records of one whole reading."""
    began = time.perf_counter()
    rows = sum(item.num_rows for item in BeaconSource().read(path) if isinstance(item, pa.RecordBatch))
    return time.perf_counter() - began, rows


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a tenth of the lines")
    options.add_argument("--lines", type=int, default=1_000_000)
    given = options.parse_args()
    count = given.lines // 10 if given.quick else given.lines
    rng = random.Random(20180910)
    print(f"{'layer':<20}{'lines':>10}{'MB':>8}{'records':>10}{'first s':>9}{'s':>7}{'M lines/s':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in LAYERS.items():
            path = Path(folder) / "lines.log"
            path.write_text("\n".join(make(count, rng)) + "\n")
            first, _ = measure(path)
            best, rows = min(measure(path) for _ in range(3))
            size = path.stat().st_size / 1e6
            print(f"{name:<20}{count:>10,}{size:>8.0f}{rows:>10,}{first:>9.2f}{best:>7.2f}{count / best / 1e6:>11.2f}")


if __name__ == "__main__":
    main()
