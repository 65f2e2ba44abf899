"""Forwarders: too many for what is asked of them, or too few at busy hours while jobs queue (and others idle).

Levels are Beacon's (ACM TOS 2023, section 7: idle below 10 % of the peak in the busiest minute of an hour, high above
90 %); forwarders needed are demand over what one can do (DFRA, FAST 2019, section 3). Needs the known peak of a
forwarder: without one nobody can say whether it is full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.finding import Evidence
from fairlead.core.model.unit_formats import format_bandwidth, format_percent
from fairlead.explain.analysis.system.load_grid import Grid, build_load_grid, list_load_grid_jobs
from fairlead.explain.analysis.system.scope import (
    MINUTE_NS,
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    grade_finding_severity,
    report_missing_findings,
)


@dataclass(frozen=True)
class ForwarderLimits:
    """Idle and high are Beacon's. A forwarder is meant to run at `target` of its peak at most: so many are needed. A
    finding of too few wants `busy_minutes` in one window, one of too many a window of `over_hours`."""

    idle: float = 0.1
    high: float = 0.9
    target: float = 0.7
    fewest: int = 4
    over_hours: float = 24.0
    watched_share: float = 0.9
    busy_minutes: int = 10
    many_share: float = 0.5
    """Share of forwarders that are high at once from which there are too few of them; below, nodes are dealt badly."""


def find_surplus_forwarders(scope: Scope, limits: ForwarderLimits) -> SystemFindings:
    """Even in the busiest minute together, forwarders carry less than idle ones may."""
    grid = build_load_grid(scope, "forwarder")
    lacking = _lacking(scope, grid, "forwarders_over")
    if grid is None or lacking:
        return report_missing_findings(*lacking)
    if scope.hours < limits.over_hours or len(grid.ids) < limits.fewest:
        return report_missing_findings()
    if grid.count_watched_minutes() < limits.watched_share * scope.minutes:
        return report_missing_findings("system.forwarders_over: forwarders were not monitored all the time")
    peak = scope.site.peaks["forwarder"]
    busiest = float(np.nansum(grid.bytes, axis=0).max()) / (MINUTE_NS / 1e9)
    share = busiest / (peak * len(grid.ids))
    needed = max(1, math.ceil(busiest / (limits.target * peak)))
    if share >= limits.idle or needed * 2 > len(grid.ids):
        return report_missing_findings()
    return scope.build_finding(
        "forwarders_over",
        title=f"{len(grid.ids)} forwarders, and {needed} would have carried the busiest minute",
        severity="info",
        confidence=min(0.9, 0.5 + scope.hours / (24 * 14)),
        evidence=[
            build_finding_evidence(
                "share_of_peak",
                round(share, 4),
                None,
                f"the busiest minute of all forwarders together: {format_bandwidth(busiest)}, {format_percent(share)} "
                "of their "
                "peak",
            ),
            build_finding_evidence("forwarders", len(grid.ids), None, f"{len(grid.ids)} forwarders had traffic"),
        ],
        facts={"forwarders": len(grid.ids), "forwarders_needed": needed, "share_of_peak": share},
    )


def find_overloaded_forwarders(scope: Scope, limits: ForwarderLimits) -> SystemFindings:
    """Forwarders run at their peak for minutes on end: most of them (too few), or some while others idle."""
    grid = build_load_grid(scope, "forwarder")
    lacking = _lacking(scope, grid, "forwarders_under")
    if grid is None or lacking:
        return report_missing_findings(*lacking)
    peak = scope.site.peaks["forwarder"] * MINUTE_NS / 1e9
    share = grid.bytes / peak
    with np.errstate(invalid="ignore"):
        high = share >= limits.high
        quiet = ~(share >= limits.idle)
    busy = np.flatnonzero(high.any(axis=0))
    if len(busy) < limits.busy_minutes:
        return report_missing_findings()
    many = float(high[:, busy].mean())
    idle = float(quiet[:, busy].mean())
    full = np.flatnonzero(high.sum(axis=1) >= limits.busy_minutes)
    if not len(full):
        return report_missing_findings()
    names = [grid.ids[k] for k in full[np.argsort(-high[full].sum(axis=1), kind="stable")]]
    demand = float(np.nansum(grid.bytes[:, busy], axis=0).max()) / (MINUTE_NS / 1e9)
    needed = math.ceil(demand / (limits.target * scope.site.peaks["forwarder"]))
    jobs = list_load_grid_jobs(scope, "forwarder", names)
    waits = _waits(grid, high)
    few = many >= limits.many_share
    evidence = [
        build_finding_evidence(
            "busy_minutes",
            len(busy),
            "minutes",
            f"in {len(busy)} minutes forwarders ran at {format_percent(limits.high)} of their peak or more",
        ),
        build_finding_evidence(
            "forwarders_high", len(names), None, f"{len(names)} of {len(grid.ids)} forwarders: {_some(names)}"
        ),
        build_finding_evidence(
            "idle_share",
            round(idle, 4),
            None,
            f"{format_percent(idle)} of forwarders were below {format_percent(limits.idle)} in the same minutes",
        ),
        *waits,
        *(
            build_finding_evidence(
                "share", round(part, 4), None, f"{scope.format_job(job)}: {format_percent(part)} of their traffic"
            )
            for job, part in jobs[:3]
        ),
    ]
    title = (
        f"{len(names)} of {len(grid.ids)} forwarders at their peak: too few of them at busy times"
        if few
        else f"{len(names)} of {len(grid.ids)} forwarders at their peak while {format_percent(idle)} of them idle"
    )
    return scope.build_finding(
        "forwarders_under",
        title=title,
        severity=grade_finding_severity(len(busy) / limits.busy_minutes, 1.0, 6.0),
        confidence=0.9 if waits else 0.7,
        evidence=evidence,
        components=build_finding_subjects("forwarder", names),
        culprits=build_finding_subjects("job", [job for job, _ in jobs]),
        missing=[] if waits else ["times requests waited at forwarders"],
        facts={"forwarders": len(grid.ids), "forwarders_needed": needed if needed > len(grid.ids) else None},
    )


def _lacking(scope: Scope, grid: Grid | None, word: str) -> list[str]:
    if grid is None:
        return [] if scope.site.forwarded is False else [f"system.{word}: no data on forwarders"]
    return [] if "forwarder" in scope.site.peaks else [f"system.{word}: the peak of a forwarder (site file)"]


def _waits(grid: Grid, high: NDArray[np.bool_]) -> list[Evidence]:
    """How long requests waited where forwarders were full, beside elsewhere."""
    wait, count = grid.waits
    there, calm = high & (count > 0), ~high & (count > 0)
    if not there.any() or not calm.any():
        return []
    full = float(wait[there].sum() / count[there].sum())
    rest = float(wait[calm].sum() / count[calm].sum())
    if not rest or full <= rest:
        return []
    return [
        build_finding_evidence(
            "wait_ratio",
            round(full / rest, 2),
            None,
            f"requests waited {full / 1e6:.1f} ms there, {rest / 1e6:.1f} ms elsewhere",
        )
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
