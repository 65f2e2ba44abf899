"""Bandwidth as recorded against bandwidth as the application reports it: N-N, N-1 and collective loads, forwarded.

Both by IOR's definition: bytes of all processes over the time from the first open to the last close. The application
takes it from its own clock, fairlead from the runs of `ops` its mounts recorded. Beacon deviates by 1.84 % (read) and
2.03 % (write) (TOS 2023, section 6).

`python benchmarks/recorded_bandwidth.py [--quick] [--repeats N] [--seconds S] [--no-history]`. Ends with 1 when a load
deviates by more than 0.5 % on average.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _history
from _plane import Contender, forwarded

MIB = 1 << 20
RANKS, AGGREGATORS = 4, 2
LOADS = ("N-N", "N-1", "collective")
LIMIT = 0.005
BEACON = {"read": 0.0184, "write": 0.0203}
FILE_MIB = 96
"""Blocks a process goes round in, so that runs of any length fit in memory."""


def work(load: str, phase: str, rank: int, folder: str, seconds: float, link: int) -> dict[str, float]:
    """The load of one process. Collective: two-phase I/O as ROMIO does it; each aggregator moves 4 MiB at a time, half
    of it its own, half handed over by (or to) a rank that does no I/O, through a pipe (`link`)."""
    if load == "collective" and rank >= AGGREGATORS:
        return hand_over(phase, link)
    name = f"rank{rank}" if load == "N-N" else "shared"
    block = 4 * MIB if load == "collective" else MIB
    buffer = memoryview(bytearray(os.urandom(block)))
    lanes = {"N-N": 1, "N-1": RANKS, "collective": AGGREGATORS}[load]
    lane = 0 if load == "N-N" else rank
    blocks = FILE_MIB * MIB // block
    first = time.clock_gettime_ns(time.CLOCK_REALTIME)
    descriptor = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT, 0o644)
    moved, at = 0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        offset = ((at % blocks) * lanes + lane) * block
        if phase == "write":
            if load == "collective":
                receive(link, buffer[block // 2 :])
            count = os.pwrite(descriptor, buffer, offset)
        else:
            count = os.preadv(descriptor, [buffer], offset)
            if load == "collective":
                deliver(link, buffer[block // 2 :])
        assert count == block, (count, block)
        moved, at = moved + count, at + 1
    os.close(descriptor)
    return {"bytes": moved, "first": first, "last": time.clock_gettime_ns(time.CLOCK_REALTIME)}


def receive(link: int, into: memoryview) -> None:
    """Fills `into` from a pipe."""
    while into:
        into = into[os.readv(link, [into]) :]


def deliver(link: int, data: memoryview) -> None:
    """Writes all of `data` to a pipe."""
    while data:
        data = data[os.write(link, data) :]


def hand_over(phase: str, link: int) -> dict[str, float]:
    """A rank of a collective load that does no I/O: gives its half of each block, or takes it, until the end."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    half = memoryview(bytearray(os.urandom(2 * MIB)))
    try:
        while phase == "write":
            deliver(link, half)
        while os.readv(link, [half]):
            pass
    except BrokenPipeError:
        pass
    return {"bytes": 0, "first": 0, "last": 0}


def application(load: str, phase: str, folder: Path, seconds: float, job: str) -> float:
    """Bytes a second of one run, as the application reports them."""
    links = [os.pipe() for _ in range(RANKS)] if load == "collective" else []
    ranks = []
    for rank in range(RANKS):
        lane = rank % AGGREGATORS
        reads = (rank < AGGREGATORS) == (phase == "write")
        link = links[lane][0 if reads else 1] if links else -1
        ranks.append(
            subprocess.Popen(
                [sys.executable, __file__, "--rank", json.dumps([load, phase, rank, str(folder), seconds, link])],
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[link] if links else [],
                env={**os.environ, "FAIRLEAD_JOB_ID": job, "FAIRLEAD_RANK": str(rank)},
            )
        )
    for pair in links:
        for end in pair:
            os.close(end)
    told = [json.loads(rank.communicate(timeout=seconds + 120)[0]) for rank in ranks]
    busy = [one for one in told if one["bytes"]]
    spent_ns = max(one["last"] for one in busy) - min(one["first"] for one in busy)
    return float(sum(one["bytes"] for one in busy) / (spent_ns / 1e9))


def recorded(spool: Path, job: str, op: str) -> float:
    """The same from the records of the mounts: runs of `ops` of one job, spooled files taken into a lake."""
    from fairlead.see.ingest import find_ingest_traces, ingest_jobs
    from fairlead.store.lake import Lake

    folder = Path(tempfile.mkdtemp(prefix="fairlead-bandwidth-lake-"))
    try:
        lake = Lake.open(folder / "lake", create=True)
        jobs, _ = find_ingest_traces([spool])
        with lake.open_writer() as writer:
            outcomes = list(ingest_jobs(writer, jobs))
            assert all(one.state == "added" for one in outcomes), outcomes
        rows = lake.query(
            # The kernel closes (RELEASE) when it likes; what close() waits for is the flush.
            "SELECT sum(CASE WHEN op = $op THEN size * count END)::BIGINT AS bytes, min(start_ns) AS first, "
            "max(end_ns) AS last FROM ops WHERE job_id = $job AND op <> 'close'",
            {"job": job, "op": op},
        ).to_pylist()[0]
        return float(rows["bytes"] / ((rows["last"] - rows["first"]) / 1e9))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(contender: Contender, spool: Path, load: str, phase: str, number: int, seconds: float) -> float:
    """The deviation of one run, as a share."""
    job = f"{9000 + number}"
    told = application(load, phase, contender.folder(0), seconds, job)
    time.sleep(7)  # the mount writes its records every five seconds
    seen = recorded(spool, job, phase)
    for file in spool.glob("*.batch"):
        file.unlink()
    return seen / told - 1


def main() -> int:
    """Runs, prints the table, adds a line to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs: whether it works")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--no-history", action="store_true")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        print(json.dumps(work(*json.loads(options.rank))))
        return 0
    repeats, seconds = (2, 3.0) if options.quick else (options.repeats, options.seconds)
    place = Path(tempfile.mkdtemp(prefix="fairlead-bandwidth-", dir="/dev/shm"))
    deviations: dict[str, list[float]] = {}
    try:
        (place / "source").mkdir()
        contender = forwarded(place / "source", place, tcp=False)
        try:
            number = 0
            for load in LOADS:
                for turn in range(repeats):
                    phase = ("write", "read")[turn % 2]
                    number += 1
                    one = run(contender, place / "spool", load, phase, number, seconds)
                    deviations.setdefault(f"{load} {phase}", []).append(one)
        finally:
            contender.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    what = f"{repeats} runs of {seconds:g} s a load, writing and reading in turn, {RANKS} processes"
    print(f"recorded against reported bandwidth, {what}")
    print(f"{'load':<20}{'mean |deviation|':>18}{'worst':>9}{'limit':>9}{'Beacon':>9}")
    means = {}
    for name, found in deviations.items():
        means[name] = statistics.fmean(map(abs, found))
        beacon = BEACON[name.split()[1]]
        print(f"{name:<20}{means[name]:>18.3%}{max(found, key=abs):>9.3%}{LIMIT:>9.1%}{beacon:>9.2%}")
    if not options.quick and not options.no_history:
        figures = {name: [round(one, 6) for one in found] for name, found in deviations.items()}
        _history.append("recorded_bandwidth", {"repeats": repeats, "seconds": seconds, "deviations": figures})
    return 0 if all(mean <= LIMIT for mean in means.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
