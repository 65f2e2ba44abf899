"""The programs of the demo's jobs, one process a rank: a checkpoint (N-N), a shared file (N-1), many small files.

Run as `python -m fairlead.kit.demo.jobs KIND ...`. At the end it prints one line of JSON: what it saw itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random

from fairlead.core.clock import monotonic_ns, now_ns, sleep_s
from fairlead.kit.demo.files import Files, open_demo_files

MIB = 1 << 20
PIECE = 1 << 19
SMALL = 4096
SHARED_BYTES = 32 * MIB
GENERATIONS = 2
"""Checkpoints kept: the next one replaces the oldest, so that the demo needs little room."""


class ClientCounts:
    """What one thread of the application counts itself."""

    def __init__(self) -> None:
        self.operations = self.bytes_read = self.bytes_written = 0
        self.io_ns = self.longest_ns = 0

    def time(self, act: Callable[[], int], *, wrote: bool | None = None) -> int:
        """Does one operation, counts and times it; `wrote` says what its result, in bytes, counts as."""
        began = monotonic_ns()
        result = act()
        took = monotonic_ns() - began
        self.operations += 1
        self.io_ns += took
        self.longest_ns = max(self.longest_ns, took)
        if wrote:
            self.bytes_written += result
        elif wrote is not None:
            self.bytes_read += result
        return result


class Job:
    """One process of a job: its place, its clock, what it has seen."""

    def __init__(self, args: argparse.Namespace, files: Files) -> None:
        self.files = files
        self.folder: str = args.folder
        self.rank: int = args.rank
        self.ranks: int = args.ranks
        self.start_ns: int = args.start_ns
        self.seconds: float = args.seconds
        self.storm: tuple[float, float] | None = args.storm
        self.threads: int = args.threads
        self.random = Random(args.seed * 100 + args.rank)  # noqa: S311 - a workload, not a secret
        self.seen: list[ClientCounts] = []

    @property
    def now_s(self) -> float:
        """Seconds since the jobs began."""
        return (now_ns() - self.start_ns) / 1e9

    def is_running(self) -> bool:
        """Whether the job still runs."""
        return self.now_s < self.seconds

    def start_count(self) -> ClientCounts:
        """A count for one thread."""
        seen = ClientCounts()
        self.seen.append(seen)
        return seen


def _run_checkpoints(job: Job) -> None:
    """N-N: each process writes its own file of six pieces of 1 MiB, closes it, computes."""
    seen, piece, turn = job.start_count(), bytes(MIB), 0
    while job.is_running():
        path = f"{job.folder}/checkpoint.{turn % GENERATIONS}.{job.rank}"
        file = seen.time(lambda path=path: job.files.open(path, os.O_WRONLY | os.O_CREAT, 0o644))  # type: ignore[misc]
        for number in range(6):
            _write(job, seen, file, piece, number * MIB)
        _close(job, seen, file)
        turn += 1
        sleep_s(0.12 + 0.06 * job.random.random())


def _run_shared_file(job: Job) -> None:
    """N-1: interleaved pieces of one file, now and then read again."""
    seen, piece, turn = job.start_count(), bytes(PIECE), 0
    path = f"{job.folder}/shared"
    file = seen.time(lambda: job.files.open(path, os.O_RDWR | os.O_CREAT, 0o644))
    seen.time(lambda: job.files.truncate(file, SHARED_BYTES))
    while job.is_running():
        again = turn % 5 == 4  # what was written last
        offset = ((turn - again) * job.ranks + job.rank) * PIECE % SHARED_BYTES
        if again:
            seen.time(lambda offset=offset: job.files.read(file, PIECE, offset), wrote=False)  # type: ignore[misc]
        else:
            _write(job, seen, file, piece, offset)
        turn += 1
        sleep_s(0.01 + 0.02 * job.random.random())
    _close(job, seen, file)


def _run_small_files(job: Job) -> None:
    """Small files, one after the other."""
    seen = job.start_count()
    folder = f"{job.folder}/small.{job.rank}"
    with suppress(FileExistsError):
        seen.time(lambda: job.files.mkdir(folder))
    turn = 0
    while job.is_running():
        _small_file(job, seen, f"{folder}/{turn}")
        turn += 1
        sleep_s(0.01 + 0.02 * job.random.random())


def _small_file(job: Job, seen: ClientCounts, path: str) -> None:
    file = seen.time(lambda: job.files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    _write(job, seen, file, bytes(SMALL), 0)
    _close(job, seen, file)
    seen.time(lambda: job.files.get_size(path))
    seen.time(lambda: job.files.unlink(path))


def _write(job: Job, seen: ClientCounts, file: int, piece: bytes, offset: int) -> None:
    seen.time(lambda: job.files.write(file, piece, offset), wrote=True)


def _close(job: Job, seen: ClientCounts, file: int) -> None:
    seen.time(lambda: job.files.close(file))


KINDS: dict[str, Callable[[Job], None]] = {
    "checkpoint": _run_checkpoints,
    "shared": _run_shared_file,
    "metadata": _run_small_files,
}


def _flood(job: Job, kind: str, number: int) -> None:
    """One thread of a storm: what the job does anyway, without rest."""
    assert job.storm is not None  # noqa: S101
    start, end = job.storm
    seen = job.start_count()
    while job.now_s < start:
        sleep_s(min(0.05, max(0.001, start - job.now_s)))
    if kind == "metadata":
        folder = f"{job.folder}/storm.{job.rank}.{number}"
        seen.time(lambda: job.files.mkdir(folder))
        turn = 0
        while job.now_s < end and job.is_running():
            _small_file(job, seen, f"{folder}/{turn}")
            turn += 1
        return
    shared_file = kind == "shared"
    path = f"{job.folder}/shared" if shared_file else f"{job.folder}/storm.{job.rank}.{number}"
    piece, places = bytes(PIECE), (SHARED_BYTES if shared_file else 4 * MIB) // PIECE
    file = seen.time(lambda: job.files.open(path, os.O_RDWR | os.O_CREAT, 0o644))
    seen.time(lambda: job.files.truncate(file, places * PIECE))
    turn = number * 5
    while job.now_s < end and job.is_running():
        _write(job, seen, file, piece, turn % places * PIECE)
        turn += 1
    _close(job, seen, file)


def _run_job(args: argparse.Namespace, files: Files) -> dict[str, float]:
    """Runs one process of a job and returns what it saw."""
    job = Job(args, files)
    with suppress(FileExistsError):
        files.mkdir(args.folder)
    while now_ns() < job.start_ns:
        sleep_s(max(0.0, min(0.05, (job.start_ns - now_ns()) / 1e9)))
    threads = []
    if job.storm is not None:
        threads = [
            threading.Thread(target=_flood, args=(job, args.kind, number), daemon=True) for number in range(job.threads)
        ]
    for thread in threads:
        thread.start()
    KINDS[args.kind](job)
    for thread in threads:
        thread.join(timeout=20)
    return {
        "operations": sum(one.operations for one in job.seen),
        "bytes_read": sum(one.bytes_read for one in job.seen),
        "bytes_written": sum(one.bytes_written for one in job.seen),
        "io_s": sum(one.io_ns for one in job.seen) / 1e9,
        "longest_s": max(one.longest_ns for one in job.seen) / 1e9,
        "seconds": job.now_s,
    }


def _interval(text: str) -> tuple[float, float]:
    start, _, end = text.partition(":")
    return float(start), float(end)


def run_demo_job(arguments: list[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="fairlead.kit.demo.jobs")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("folder")
    parser.add_argument("--client", help="forwarder to use without a mount; the folder is a path in its tree then")
    parser.add_argument("--spool")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--start-ns", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--storm", type=_interval)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    args.start_ns = args.start_ns or now_ns()
    files = open_demo_files(args.client, args.spool)
    try:
        seen = _run_job(args, files)
    finally:
        files.end()
    sys.stdout.write(json.dumps(seen) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_demo_job())
