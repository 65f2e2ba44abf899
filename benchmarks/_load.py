"""One process of load on a folder, timed by itself: prints `ready`, waits for a line, runs, prints one JSON line.

`python _load.py KIND FOLDER INDEX SECONDS`. Nothing of fairlead is imported: the same program runs on every contender.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

MIB = 1 << 20
PAGE = 4096
FILE_BYTES = 256 * MIB
"""Each process has a file of this size; it is written once before anything is measured (first touch is slow)."""


def path_of(folder: str, index: int) -> str:
    """The data file of one process."""
    return f"{folder}/data.{index}"


def prepare(folder: str, index: int) -> None:
    """The file, its pages touched; and the folder of the metadata load."""
    Path(folder, f"names.{index}").mkdir(exist_ok=True)
    block = os.urandom(MIB)
    fd = os.open(path_of(folder, index), os.O_RDWR | os.O_CREAT, 0o644)
    for at in range(0, FILE_BYTES, MIB):
        os.pwrite(fd, block, at)
    os.close(fd)


def write(folder: str, index: int, seconds: float) -> tuple[int, int, float, float]:
    """Sequential writes of 1 MiB over the file, again and again."""
    fd = os.open(path_of(folder, index), os.O_RDWR)
    block = os.urandom(MIB)
    count, at, began = 0, 0, wait()
    end = began + seconds
    while time.monotonic() < end:
        if os.pwrite(fd, block, at) != MIB:
            raise SystemExit("short write")
        at = (at + MIB) % FILE_BYTES
        count += 1
    ended = time.monotonic()
    os.close(fd)
    return count, count * MIB, began, ended


def read(folder: str, index: int, seconds: float) -> tuple[int, int, float, float]:
    """Sequential reads of 1 MiB, each pass through a new open, so that no kernel cache of a mount can answer."""
    buffer = bytearray(MIB)
    parts = [memoryview(buffer)]
    fd = os.open(path_of(folder, index), os.O_RDONLY)
    count, at, began = 0, 0, wait()
    end = began + seconds
    while time.monotonic() < end:
        if os.preadv(fd, parts, at) != MIB:
            raise SystemExit("short read")
        at += MIB
        count += 1
        if at == FILE_BYTES:
            os.close(fd)
            fd = os.open(path_of(folder, index), os.O_RDONLY)
            at = 0
    ended = time.monotonic()
    os.close(fd)
    return count, count * MIB, began, ended


def random_read(folder: str, index: int, seconds: float) -> tuple[int, int, float, float]:
    """Reads of 4 KiB at random places, each place once per open, so that no cache of a mount can answer."""
    places = [page * PAGE for page in range(FILE_BYTES // PAGE)]
    random.Random(index).shuffle(places)
    buffer = bytearray(PAGE)
    parts = [memoryview(buffer)]
    fd = os.open(path_of(folder, index), os.O_RDONLY)
    count, began = 0, wait()
    end, limit = began + seconds, len(places)
    preadv, now = os.preadv, time.monotonic
    while now() < end:
        if count % limit == 0 and count:
            os.close(fd)
            fd = os.open(path_of(folder, index), os.O_RDONLY)
        if preadv(fd, parts, places[count % limit]) != PAGE:
            raise SystemExit("short read")
        count += 1
    ended = now()
    os.close(fd)
    return count, count * PAGE, began, ended


def names(folder: str, index: int, seconds: float) -> tuple[int, int, float, float]:
    """Creates an empty file, closes it, stats it, unlinks it: one cycle."""
    count, began = 0, wait()
    end = began + seconds
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    while time.monotonic() < end:
        path = f"{folder}/names.{index}/{count}"
        os.close(os.open(path, flags, 0o644))
        if os.stat(path).st_size:  # noqa: PTH116 (a Path per cycle would be measured too)
            raise SystemExit("not empty")
        os.unlink(path)  # noqa: PTH108
        count += 1
    return count, 0, began, time.monotonic()


KINDS = {"write": write, "read": read, "random": random_read, "names": names}


def wait() -> float:
    """Says that this process is ready, waits for the word, returns the time it came."""
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def main() -> None:
    """One measurement."""
    kind, folder, index, seconds = sys.argv[1:5]
    if kind == "prepare":
        prepare(folder, int(index))
        return
    count, size, began, ended = KINDS[kind](folder, int(index), float(seconds))
    print(json.dumps({"count": count, "bytes": size, "began": began, "ended": ended}), flush=True)


if __name__ == "__main__":
    main()
