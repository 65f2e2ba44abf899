"""Load that lies on few of many: forwarders or targets, with the jobs that make it.

Measured as Beacon does (standard deviation over mean) and with Jain's index; both only over minutes in which the
busiest component had something to do, as idle ones are always alike. Over the whole window: that for a minute one
target does more than another is no imbalance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.model.unit_formats import format_bytes, format_percent
from fairlead.explain.analysis.system.load_grid import build_load_grid, compute_load_grid_fairness, list_load_grid_jobs
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
class ImbalanceLimits:
    """`highest_over_mean` of 3 and Jain's index below 0.6: a third of the components would carry the load as fast (Jain
    et al., DEC-TR-301). `busy`: a minute counts when the busiest component reaches this share of the peak (of the
    highest minute seen, where no peak is known)."""

    highest_over_mean: float = 3.0
    high_ratio: float = 6.0
    fairness: float = 0.6
    busy: float = 0.25
    busy_minutes: int = 10
    fewest: int = 4
    alone: float = 0.9
    """A job that makes this share of the traffic is alone there and crowds nobody: worth knowing, no more."""


def find_imbalance(scope: Scope, limits: ImbalanceLimits) -> SystemFindings:
    """One finding for forwarders and one for targets, where their load is uneven."""
    return _uneven(scope, limits, "forwarder") + _uneven(scope, limits, "target")


def _uneven(scope: Scope, limits: ImbalanceLimits, kind: str) -> SystemFindings:
    grid = build_load_grid(scope, kind)
    if grid is None:
        if kind == "forwarder" and scope.site.forwarded is False:
            return report_missing_findings()
        return report_missing_findings(f"system.imbalance: no data on {kind}s")
    if len(grid.ids) < limits.fewest:
        return report_missing_findings()
    loads = np.nan_to_num(grid.bytes)
    known = scope.site.peaks.get(kind)
    peak = known * MINUTE_NS / 1e9 if known else float(loads.max())
    busy = loads.max(axis=0) >= limits.busy * peak if peak else np.zeros(loads.shape[1], np.bool_)
    if int(busy.sum()) < limits.busy_minutes:
        return report_missing_findings()
    total = loads[:, busy].sum(axis=1)
    highest, fairness = float(total.max() / total.mean()), compute_load_grid_fairness(total)
    if highest < limits.highest_over_mean or fairness >= limits.fairness:
        return report_missing_findings()
    order = np.argsort(-total, kind="stable")
    names = [grid.ids[k] for k in order if total[k] >= limits.highest_over_mean * total.mean()]
    jobs = list_load_grid_jobs(scope, kind, names)
    spread = float(total.std() / total.mean())
    evidence = [
        build_finding_evidence(
            "highest_over_mean",
            round(highest, 3),
            None,
            f"{kind} {names[0]} moved {format_bytes(float(total[order[0]]))}, {highest:.1f}x the mean of "
            f"{len(grid.ids)}",
        ),
        build_finding_evidence("fairness", round(fairness, 4), None, f"Jain's index {fairness:.2f} (1 is even)"),
        build_finding_evidence("deviation", round(spread, 3), None, f"standard deviation {spread:.1f}x the mean"),
        build_finding_evidence("busy_minutes", int(busy.sum()), "minutes", f"over {int(busy.sum())} busy minutes"),
        *(
            build_finding_evidence(
                "share", round(part, 4), None, f"{scope.format_job(job)}: {format_percent(part)} of their traffic"
            )
            for job, part in jobs[:3]
        ),
    ]
    alone = bool(jobs) and jobs[0][1] >= limits.alone
    missing = [] if known else [f"the peak of a {kind} (site file)"]
    missing += [] if jobs else [f"job ids at {kind}s: which jobs make it"]
    return scope.build_finding(
        "imbalance",
        title=f"{kind.capitalize()} {names[0]} carries {highest:.1f}x the mean of all {len(grid.ids)}",
        severity="info" if alone else grade_finding_severity(highest, limits.highest_over_mean, limits.high_ratio),
        confidence=0.9 if known else 0.7,
        evidence=evidence,
        components=build_finding_subjects(kind, names),
        culprits=build_finding_subjects("job", [job for job, _ in jobs]),
        missing=missing,
        part=kind,
        layer=kind,
        facts={"imbalance": highest, "job": jobs[0][0] if jobs else None, "component": names[0]},
    )
