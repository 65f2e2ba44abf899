"""Programs of jobs on a plane (`rated_plane`), one process a rank. Run as `python rated_jobs.py`.

`solver` writes a fixed amount, a file a rank; `shared` writes one file with all ranks, in turn; `names` creates, looks
at and removes empty files. The latter two go on until a time, with pauses as stated, from several threads.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random

from fairlead.core.clock import now_ns, sleep_s
from fairlead.kit.demo.files import Files, open_demo_files

KIB = 1 << 10
SHARED_BYTES = 64 << 20


def solver(args: argparse.Namespace, files: Files, _number: int) -> None:
    """Its file, piece by piece, from the beginning."""
    file = files.open(f"{args.folder}/{args.run}.{args.rank}", os.O_WRONLY | os.O_CREAT, 0o644)
    piece = bytes(args.piece)
    for number in range(args.amount // args.piece):
        files.write(file, piece, number * args.piece)
    files.close(file)
    files.unlink(f"{args.folder}/{args.run}.{args.rank}")


def shared(args: argparse.Namespace, files: Files, number: int) -> None:
    """Pieces of one file, so that those of ranks and threads alternate."""
    file = files.open(f"{args.folder}/{args.run}", os.O_RDWR | os.O_CREAT, 0o644)
    piece, turn = bytes(args.piece), 0
    writers = args.ranks * args.threads
    mine = args.rank * args.threads + number
    while now_ns() < args.until_ns:
        files.write(file, piece, (turn * writers + mine) * args.piece % SHARED_BYTES)
        turn += 1
        sleep_s(args.rest)
    files.close(file)


def names(args: argparse.Namespace, files: Files, number: int) -> None:
    """Empty files, one after the other, in a folder of its own."""
    folder = f"{args.folder}/{args.run}.{args.rank}.{number}"
    with suppress(FileExistsError):
        files.mkdir(folder)
    turn = 0
    while now_ns() < args.until_ns:
        path = f"{folder}/{turn}"
        files.close(files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        files.size(path)
        files.unlink(path)
        turn += 1
        sleep_s(args.rest)


KINDS: dict[str, Callable[[argparse.Namespace, Files, int], None]] = {
    "solver": solver,
    "shared": shared,
    "names": names,
}


def main(arguments: list[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="rated_jobs")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("folder")
    parser.add_argument("run", help="what its files are called")
    parser.add_argument("--client", help="forwarder to use without a mount; the folder is a path in its tree then")
    parser.add_argument("--spool")
    for name, default in (
        ("--rank", 0),
        ("--ranks", 1),
        ("--threads", 1),
        ("--start-ns", 0),
        ("--until-ns", 0),
        ("--amount", 0),
        ("--piece", 256 * KIB),
        ("--seed", 1),
    ):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds between two acts of a thread")
    args = parser.parse_args(arguments)
    files = open_demo_files(args.client, args.spool)
    wait = args.start_ns + Random(args.seed).randrange(20_000_000)
    try:
        if args.kind == "shared":  # as large as it gets, so that writers need not wait for its length
            whole = files.open(f"{args.folder}/{args.run}", os.O_RDWR | os.O_CREAT, 0o644)
            files.truncate(whole, SHARED_BYTES)
            files.close(whole)
        while (left := wait - now_ns()) > 0:
            sleep_s(min(left / 1e9, 0.05))
        threads = [
            threading.Thread(target=KINDS[args.kind], args=(args, files, number)) for number in range(args.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        files.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
