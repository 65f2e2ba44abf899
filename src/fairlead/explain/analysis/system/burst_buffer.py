"""A burst buffer that stands idle while jobs that fit it write straight to the file system.

A job fits when it writes in bursts (two write phases or more), each process for itself (N-N or N-M), and what one of
its nodes writes fits a device. Needs the site's list of devices, their counters, and summaries of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import GIB, format_bytes, format_percent
from fairlead.explain.analysis.system.scope import (
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    report_missing_findings,
)
from fairlead.explain.analysis.table_columns import read_float_column


@dataclass(frozen=True)
class BurstBufferLimits:
    """Unused: devices took less than `used_share` of what fitting jobs wrote, and never held more than `held_share` of
    their room. Told when fitting jobs wrote `fitting_bytes` an hour or more."""

    used_share: float = 0.05
    held_share: float = 0.1
    fitting_bytes_per_hour: float = 50.0 * GIB
    phases: int = 2


def find_unused_burst_buffer(scope: Scope, limits: BurstBufferLimits) -> SystemFindings:
    """At most one finding. A site without a burst buffer lacks nothing."""
    if not scope.site.devices:
        return report_missing_findings()
    rows = scope.sum_rollups("device", ("device",), by=("id",))
    rows = rows.filter(pc.is_in(rows["id"], pc.cast(list(scope.site.devices), "string")))
    if not rows.num_rows or rows["write_bytes"].null_count == rows.num_rows:
        return report_missing_findings("system.burst_buffer_unused: counters of the burst buffer's devices")
    jobs = scope.jobs
    if not jobs.num_rows:
        return report_missing_findings("system.burst_buffer_unused: no summaries of jobs")
    written = float(np.nansum(read_float_column(rows, "write_bytes")))
    held = _held(
        scope,
        read_float_column(rows, "used_bytes_max"),
        read_float_column(rows, "capacity_bytes"),
        rows["id"].to_pylist(),
    )
    room = [float(size) for size in scope.site.devices.values() if size]
    room += [float(size) for size in read_float_column(rows, "capacity_bytes") if size == size]
    largest = max(room, default=np.inf)
    wrote, nodes = (
        read_float_column(jobs, "write_bytes"),
        np.maximum(np.nan_to_num(read_float_column(jobs, "nodes_count"), nan=1.0), 1.0),
    )
    phases = np.nan_to_num(read_float_column(jobs, "phases"))
    burst = wrote / nodes / np.maximum(phases, 1.0)
    private = pc.is_in(jobs["write_mode"], pc.cast(["N-N", "N-M"], "string")).to_numpy(zero_copy_only=False)
    fitting = private & (phases >= limits.phases) & (wrote > 0) & (burst <= largest)
    total = float(wrote[fitting].sum())
    if total < limits.fitting_bytes_per_hour * scope.hours:
        return report_missing_findings()
    if written >= limits.used_share * total or (held is not None and held >= limits.held_share):
        return report_missing_findings()
    order = np.flatnonzero(fitting)[np.argsort(-wrote[fitting], kind="stable")][:8]
    ids = jobs["job_id"].take(order).to_pylist()
    devices = len(scope.site.devices)
    unwatched = devices - rows.num_rows
    evidence = [
        build_finding_evidence(
            "written_share",
            round(written / total, 4),
            None,
            f"devices took {format_bytes(written)}; jobs that would fit wrote {format_bytes(total)} to the file system",
        ),
        *(
            [
                build_finding_evidence(
                    "held_share", round(held, 4), None, f"at most {format_percent(held)} of their space was used"
                )
            ]
            if held is not None
            else []
        ),
        build_finding_evidence(
            "fitting_jobs",
            int(fitting.sum()),
            "jobs",
            f"{int(fitting.sum())} jobs would fit: bursts to files of their own",
        ),
        *(
            build_finding_evidence(
                "write_bytes",
                round(float(wrote[k])),
                "bytes",
                f"{scope.format_job(name)}: {format_bytes(float(wrote[k]))}",
            )
            for name, k in zip(ids[:3], order[:3].tolist(), strict=True)
        ),
    ]
    missing = [f"counters of {unwatched} of {devices} devices"] if unwatched else []
    missing += [] if held is not None else ["capacity and use of the devices"]
    return scope.build_finding(
        "burst_buffer_unused",
        title=f"{devices} burst-buffer devices stand idle while jobs that fit write elsewhere",
        severity="info",
        confidence=0.5 if unwatched else 0.8,
        evidence=evidence,
        culprits=build_finding_subjects("job", ids),
        missing=missing,
        facts={"job": ids[0]},
    )


def _held(scope: Scope, used: np.ndarray, capacity: np.ndarray, names: list[str]) -> float | None:
    """The largest share of a device's room that was in use."""
    room = [cap if cap == cap else scope.site.devices.get(name) for cap, name in zip(capacity, names, strict=True)]
    shares = [float(u / c) for u, c in zip(used, room, strict=True) if c and u == u]
    return max(shares, default=None)
