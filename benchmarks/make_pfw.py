"""Writes a DFTracer trace of any size, for benchmarks and for showing that memory stays bounded.

Lines look as DFTracer 1.0.8 writes them: one MPI rank that opens, writes, seeks, reads, stats and closes many files.
The same seed and size give the same bytes; what was written is returned, so that a reader can be checked.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

PID = 3537780
HOST_HASH = 10372215862171293489
START_US = 1_727_387_307_000_000
_BLOCK_EVENTS = 40_000
_ID_FROM, _ID_DIGITS, _TS_DIGITS = 100_000_000, 9, 16
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Written:
    """What a trace holds: events that are operations, metadata events, and bytes by direction."""

    file_bytes: int
    operations: int
    metadata: int
    read_bytes: int
    written_bytes: int


def _file_hash(number: int) -> int:
    return (0x9E3779B97F4A7C15 * (number + 1)) & ((1 << 64) - 1)


def _line(name: str, category: str, arguments: str, dur: int) -> str:
    return (
        f'{{"id":{"#" * _ID_DIGITS},"name":"{name}","cat":"{category}","pid":{PID},"tid":{PID},'
        f'"ts":{"@" * _TS_DIGITS},"dur":{dur},"ph":"X",'
        f'"args":{{"hhash":{HOST_HASH},"p_idx":-1,"level":1,{arguments}}}}}\n'
    )


def _burst(random_: random.Random, files: int) -> tuple[list[str], int, int]:
    """One file's life: lines, bytes read and bytes written."""
    fhash, fd = _file_hash(random_.randrange(files)), random_.randrange(10, 60)
    dur = lambda low, high: int(low * (high / low) ** random_.random())  # noqa: E731
    size = random_.choice((939, 2400, 4096, 65_536, 1_048_576))
    count = random_.randrange(3, 25)
    lines = [
        _line("__xstat", "POSIX", f'"fhash":{fhash}', dur(2, 40)),
        _line("open", "POSIX", f'"flags":524354,"ret":{fd},"fhash":{fhash},"mode":438', dur(10, 2000)),
        _line("__fxstat", "POSIX", f'"fhash":{fhash},"fd":{fd}', dur(1, 400)),
    ]
    write = f'"count":{size},"ret":{size},"fhash":{fhash},"fd":{fd}'
    lines += [_line("write", "POSIX", write, dur(2, 900)) for _ in range(count)]
    lines.append(_line("lseek", "POSIX", f'"fd":{fd},"fhash":{fhash},"ret":0,"whence":0,"offset":0', dur(1, 4)))
    reads = random_.randrange(1, count)
    lines += [_line("read", "POSIX", write, dur(2, 300)) for _ in range(reads)]
    lines.append(_line("close", "POSIX", f'"ret":0,"fhash":{fhash},"fd":{fd}', dur(2, 60)))
    return lines, reads * size, count * size


def _template(seed: int, files: int) -> tuple[np.ndarray, int, int, int]:
    """A block of lines as uint8, its number of events, and the bytes they read and wrote."""
    random_ = random.Random(seed)
    lines: list[str] = []
    read = written = 0
    while len(lines) < _BLOCK_EVENTS:
        more, moved_in, moved_out = _burst(random_, files)
        lines += more
        read, written = read + moved_in, written + moved_out
    return np.frombuffer("".join(lines).encode(), np.uint8).copy(), len(lines), read, written


def _digits(values: np.ndarray, count: int) -> np.ndarray:
    """Decimal digits (n, count) of int64 values as ASCII."""
    powers = 10 ** np.arange(count - 1, -1, -1, dtype=np.int64)
    return (values[:, None] // powers % 10 + 48).astype(np.uint8)


def _places(block: np.ndarray, mark: str, count: int) -> np.ndarray:
    """Indices (n, count) of the runs of `mark` in a block."""
    first = np.flatnonzero(block == ord(mark))[::count]
    return first[:, None] + np.arange(count)


def _head(files: int) -> list[str]:
    def meta(name: str, key: str, value: object) -> str:
        return (
            f'{{"id":1,"name":"{name}","cat":"dftracer","pid":{PID},"tid":{PID},"ph":"M",'
            f'"args":{{"hhash":{HOST_HASH},"name":"{key}","value":{value}}}}}\n'
        )

    start = (
        f'{{"id":5,"name":"start","cat":"dftracer","pid":{PID},"tid":{PID},"ts":{START_US},"dur":0,"ph":"X",'
        f'"args":{{"hhash":{HOST_HASH},"cmd_hash":33764,"exec_hash":14683,"version":"1.0.8","ppid":1}}}}\n'
    )
    lines = [meta("HH", "node173", HOST_HASH), meta("SH", "./simulate", 33764), meta("SH", "DEFAULT", 14683), start]
    lines += [meta("FH", f"/scratch/run/output_{n:06d}.dat", _file_hash(n)) for n in range(files)]
    return [*lines, meta("PR", "rank", '"0"')]


def write_pfw(path: Path, size_bytes: int, seed: int = 0, files: int = 500) -> Written:
    """Write a trace of at least `size_bytes` of text to `path` (gzip when it ends in .gz)."""
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as file:
        return _write(file, size_bytes, seed, files)  # type: ignore[arg-type]


def _write(file: BinaryIO, size_bytes: int, seed: int, files: int) -> Written:
    block, events, read, written = _template(seed, files)
    ids, times = _places(block, "#", _ID_DIGITS), _places(block, "@", _TS_DIGITS)
    steps = np.cumsum(np.random.default_rng(seed).integers(5, 200, events))
    head = _head(files)
    text = "[\n" + "".join(head)
    file.write(text.encode())
    total, blocks = len(text), 0
    while total < size_bytes or not blocks:
        block[ids] = _digits((_ID_FROM + blocks * events + np.arange(events)) % 10**_ID_DIGITS, _ID_DIGITS)
        block[times] = _digits(START_US + blocks * int(steps[-1] + 100) + steps, _TS_DIGITS)
        file.write(block.tobytes())
        total, blocks = total + len(block), blocks + 1
    last = START_US + blocks * int(steps[-1] + 100) + 10_000
    end = (
        f'{{"id":7,"name":"end","cat":"dftracer","pid":{PID},"tid":{PID},"ts":{last},"dur":0,"ph":"X",'
        f'"args":{{"hhash":{HOST_HASH},"num_events":{blocks * events}}}}}\n]'
    )
    file.write(end.encode())
    return Written(total + len(end), blocks * events, len(head) - 1, blocks * read, blocks * written)


def bytes_of(text: str) -> int:
    """`5G` → 5 GiB; suffixes K, M, G."""
    number = text.rstrip("KMG")
    return int(float(number) * _SUFFIXES[text[len(number) :]])


def main() -> None:
    """Write one trace; prints what it holds as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--bytes", type=bytes_of, default=bytes_of("100M"), help="size of the text, as 100M or 5G")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=500, help="how many files the traced program uses")
    options = parser.parse_args()
    print(json.dumps(asdict(write_pfw(options.path, options.bytes, options.seed, options.files))))


if __name__ == "__main__":
    main()
