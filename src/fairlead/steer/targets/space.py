"""Space and counters of targets: sums for statvfs, one row per target for records and `fairlead tree show`."""

from __future__ import annotations

import os
from typing import NamedTuple

from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.targets.objects import Target, TargetSet


class TargetReport(NamedTuple):
    """One target. `service_ns[b]` counts requests of [2^(b-1), 2^b) ns; space is None while it is missing."""

    name: str
    path: str
    pool: str | None
    missing: bool
    max_perf: int | None
    open_count: int
    read_rpcs: int
    read_bytes: int
    write_rpcs: int
    write_bytes: int
    errors: int
    service_ns: tuple[int, ...]
    capacity: int | None
    used: int | None
    inodes: int | None


def report_target_space(targets: TargetSet) -> list[TargetReport]:
    """A row per target."""
    rows = []
    for target in targets.by_name.values():
        counters = target.counters
        found = _look(target)
        rows.append(
            TargetReport(
                target.name,
                target.path,
                target.pool,
                target.missing,
                target.rate,
                target.open_count,
                counters.read_rpcs,
                counters.read_bytes,
                counters.write_rpcs,
                counters.write_bytes,
                counters.errors,
                tuple(counters.service_ns),
                None if found is None else found.f_blocks * found.f_frsize,
                None if found is None else (found.f_blocks - found.f_bfree) * found.f_frsize,
                None if found is None else found.f_files - found.f_ffree,
            )
        )
    return rows


def _look(target: Target) -> os.statvfs_result | None:
    if not target.is_mounted():
        return None
    with thread_identity.forwarder_identity:
        return os.statvfs(target.path)


def sum_space(targets: TargetSet) -> os.statvfs_result:
    """One file system made of all; targets on the same one count once."""
    frame = 4096
    seen: set[int] = set()
    sums = [0, 0, 0, 0, 0]
    for target in targets.by_name.values():
        found = _look(target)
        if found is None:
            continue
        with thread_identity.forwarder_identity:
            device = os.stat(target.path).st_dev
        if device in seen:
            continue
        seen.add(device)
        scale = found.f_frsize
        for at, blocks in enumerate((found.f_blocks, found.f_bfree, found.f_bavail)):
            sums[at] += blocks * scale // frame
        sums[3] += found.f_files
        sums[4] += found.f_ffree
    blocks, free, available, files, left = sums
    return os.statvfs_result((1 << 20, frame, blocks, free, available, files, left, left, 0, 255))
