"""Texts as Lustre writes them, for tests and benchmarks: job_stats of any size, old and new, as pieces of bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator

OST_OPS = (
    "read_bytes",
    "write_bytes",
    "read",
    "write",
    "getattr",
    "setattr",
    "punch",
    "sync",
    "destroy",
    "create",
    "statfs",
    "get_info",
    "set_info",
    "quotactl",
    "prealloc",
)
MDT_OPS = (
    "open",
    "close",
    "mknod",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "rename",
    "getattr",
    "setattr",
    "getxattr",
    "setxattr",
    "statfs",
    "sync",
    "samedir_rename",
    "crossdir_rename",
)
_NEW = "  {:<16} {{ samples: {:>11}, unit: {:>5}, min: {:>8}, max: {:>8}, sum: {:>16}, sumsq: {:>18} }}\n"


def job_stats(
    jobs: int, *, seed: int = 1, mdt: bool = False, idle: float = 0.3, zero: float = 0.4, new: bool = True
) -> Iterator[bytes]:
    """A job_stats text, a job a piece. `idle` of the jobs have counted nothing, `zero` of the others' operations are
    zero. `new`: as 2.15 writes it (all operations timed, start_time); else as 2.10."""
    rng = random.Random(seed)
    yield b"job_stats:\n"
    for number in range(jobs):
        quiet = rng.random() < idle
        yield one_job(str(1_000_000 + number), rng, MDT_OPS if mdt else OST_OPS, 1.0 if quiet else zero, new=new)


def one_job(job_id: str, rng: random.Random, ops: tuple[str, ...], zero: float, *, new: bool) -> bytes:
    """One job's entry."""
    start = 1_700_000_000 + rng.randrange(10**6)
    lines = [f"- {'job_id:':<16} {job_id}\n"]
    if new:
        lines += [
            f"  {'snapshot_time:':<16} {start + 900}.{rng.randrange(10**9):09d} secs.nsecs\n",
            f"  {'start_time:':<16} {start}.{rng.randrange(10**9):09d} secs.nsecs\n",
            f"  {'elapsed_time:':<16} 900.{rng.randrange(10**9):09d} secs.nsecs\n",
        ]
    else:
        lines.append(f"  {'snapshot_time:':<16} {start + 900}\n")
    for op in ops:
        samples = 0 if rng.random() < zero else rng.randrange(1, 100_000)
        data = op.endswith("_bytes")
        if data or new:
            total = samples * rng.randrange(4096, 1 << 22) if samples else 0
            low, high = (4096, 1 << 22) if samples else (0, 0)
            unit = "bytes" if data else "usecs"
            if new:
                lines.append(_NEW.format(op + ":", samples, unit, low, high, total, total * 17 if samples else 0))
            else:
                lines.append(
                    f"  {op + ':':<16} {{ samples: {samples:>11}, unit: {unit}, min: {low:>7}, max: {high:>7}, "
                    f"sum: {total:>15} }}\n"
                )
        else:
            lines.append(f"  {op + ':':<16} {{ samples: {samples:>11}, unit:  reqs }}\n")
    return "".join(lines).encode()
