"""Login nodes that do what jobs should: bulk I/O, or many metadata operations.

Login nodes are for preparing work; what they do to the shared file system is nobody's job and nobody's budget. The
limit of metadata operations is Beacon's for a job (more than 300 a second is high; ACM TOS 2023, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import GIB, format_bandwidth, format_bytes, format_count
from fairlead.explain.analysis.system.scope import (
    MINUTE_NS,
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    grade_finding_severity,
    report_missing_findings,
)
from fairlead.explain.analysis.table_columns import read_float_column, sum_byte_columns

LAYERS = ("pfs_client", "osc", "mount", "client")
"""Layers of a node, best first; never added, as they tell of the same bytes."""


@dataclass(frozen=True)
class LoginLimits:
    """Bytes of one login node in an hour, and metadata operations a second over `minutes`. 256 GiB an hour is 70 MiB a
    second all the time: no copying of sources."""

    bytes_per_hour: float = 256.0 * GIB
    mdops_per_s: float = 300.0
    minutes: int = 10
    high_factor: float = 4.0


def find_login_misuse(scope: Scope, limits: LoginLimits) -> SystemFindings:
    """One finding a login node. Needs to know which nodes are login nodes (site file)."""
    logins = scope.site.list_class_nodes("login")
    if not logins:
        return report_missing_findings("system.login_misuse: which nodes are login nodes (site file)")
    names = pa.array(sorted(logins))
    told = {layer: _of(scope, layer, names) for layer in LAYERS}
    clients = _by_client(scope, names)
    if not any(rows.num_rows for rows in told.values()) and not clients:
        return report_missing_findings(
            "system.login_misuse: counters of login nodes, or operations by client (exports)"
        )
    found = SystemFindings()
    seen = sorted({name for rows in told.values() for name in rows["id"].to_pylist()} | clients.keys())
    for node in seen:
        found += _node(scope, limits, node, told, clients.get(node))
    return found


def _of(scope: Scope, layer: str, names: pa.Array) -> pa.Table:
    rows = scope.sum_rollups("node", (layer,))
    return rows.filter(pc.is_in(rows["id"], names))


def _node(
    scope: Scope, limits: LoginLimits, node: str, told: dict[str, pa.Table], ops: dict[int, float] | None
) -> SystemFindings:
    volume = rate = None
    for layer in LAYERS:
        rows = told[layer].filter(pc.equal(told[layer]["id"], node))
        if volume is None and rows.num_rows and not np.isnan(sum_byte_columns(rows)).all():
            volume = float(np.nansum(sum_byte_columns(rows)))
        if ops is None and rows.num_rows and rows["metadata_ops"].null_count < rows.num_rows:
            counted = np.nan_to_num(read_float_column(rows, "metadata_ops"))
            ops = dict(zip(rows["ts_ns"].to_pylist(), counted.tolist(), strict=True))
    busy = [count / 60 for count in (ops or {}).values() if count / 60 > limits.mdops_per_s]
    if len(busy) >= limits.minutes:
        rate = float(np.mean(busy))
    much = volume is not None and volume > limits.bytes_per_hour * max(scope.hours, 1.0)
    if not much and rate is None:
        return report_missing_findings()
    evidence = []
    excess = 0.0
    if much and volume is not None:
        speed = format_bandwidth(volume / (scope.hours * 3600))
        excess = volume / (limits.bytes_per_hour * max(scope.hours, 1.0))
        text = f"{node} moved {format_bytes(volume)}, {speed} all the time"
        evidence.append(build_finding_evidence("bytes", round(volume), "bytes", text))
    if rate is not None:
        excess = max(excess, rate / limits.mdops_per_s)
        text = f"{node} made {format_count(rate)} metadata operations a second for {len(busy)} minutes"
        evidence.append(build_finding_evidence("mdops_per_s", round(rate, 1), "1/s", text))
    what = " and ".join([*(["bulk I/O"] if much else []), *(["many metadata operations"] if rate is not None else [])])
    missing = [
        *([] if volume is not None else ["bytes of the login node's client"]),
        *([] if ops is not None else ["metadata operations of the login node"]),
    ]
    return scope.build_finding(
        "login_misuse",
        title=f"Login node {node}: {what}",
        severity=grade_finding_severity(excess, 1.0, limits.high_factor),
        confidence=0.9,
        evidence=evidence,
        components=build_finding_subjects("node", [node]),
        culprits=build_finding_subjects("node", [node]),
        missing=missing,
        part=node,
        facts={"node": node, "mdops_per_s": rate, "component": node},
    )


def _by_client(scope: Scope, names: pa.Array) -> dict[str, dict[int, float]]:
    """Metadata operations of login nodes by minute, as metadata servers count them by client."""
    rows = scope.get_table("metadata")
    source = pc.fill_null(rows["source"].cast(pa.string()), "exports")
    client = rows["client"].cast(pa.string())
    inside = pc.and_(pc.greater(rows["ts_ns"], scope.from_ns), pc.less_equal(rows["ts_ns"], scope.to_ns))
    chosen = pc.and_(pc.and_(pc.equal(source, "exports"), pc.is_in(client, names)), inside)
    rows = rows.filter(chosen)
    minute = pa.array((rows["ts_ns"].to_numpy() - 1) // MINUTE_NS * MINUTE_NS)
    flat = pa.table({"client": rows["client"].cast(pa.string()), "minute": minute, "count": rows["count"]})
    found: dict[str, dict[int, float]] = {}
    for row in flat.group_by(["client", "minute"]).aggregate([("count", "sum")]).to_pylist():
        found.setdefault(row["client"], {})[row["minute"]] = float(row["count_sum"])
    return found
