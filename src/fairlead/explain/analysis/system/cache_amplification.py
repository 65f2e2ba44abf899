"""Cache thrashing and write amplification: a layer that moves far more than the layer above asked of it.

Beacon (Yang et al., ACM TOS 2023, section 6): read-ahead of 40 MB a file under an N-N job of 1,024 processes made
forwarders read 3.5 times what was asked; alignment to 4 KB makes more of small writes. Compared are the same component
in the same minutes, so that a layer that was not watched for a while never looks like amplification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import GIB, format_bytes
from fairlead.explain.analysis.system.scope import (
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    grade_finding_severity,
    report_missing_findings,
)
from fairlead.explain.analysis.table_columns import read_float_column

Way = Literal["read", "write"]
_PAST = {"read": "read", "write": "written"}


@dataclass(frozen=True)
class AmplificationLimits:
    """Bytes below for a byte above from which reads or writes count as amplified, and how many bytes too many an hour
    it takes to be worth telling. 3.5 is the case of the paper (severity high); 2 leaves ordinary read-ahead out, 1.5
    the alignment of large writes."""

    read_ratio: float = 2.0
    write_ratio: float = 1.5
    high_ratio: float = 3.5
    extra_bytes_per_hour: float = 10.0 * GIB
    named_share: float = 0.1
    """A component or job is named when it made at least this share of what was too many."""


@dataclass(frozen=True)
class _Pair:
    """By component and minute: bytes asked above and moved below. `sure`: both were counted at the same place."""

    kind: str
    rows: pa.Table
    sure: bool


def find_cache_thrashing(scope: Scope, limits: AmplificationLimits) -> SystemFindings:
    """Reads from the file system beside the reads that were asked of the forwarder (or node) that made them."""
    return _amplified(scope, limits, "read", "cache_thrashing", limits.read_ratio)


def find_write_amplification(scope: Scope, limits: AmplificationLimits) -> SystemFindings:
    """The same of writes."""
    return _amplified(scope, limits, "write", "write_amplification", limits.write_ratio)


def _amplified(scope: Scope, limits: AmplificationLimits, way: Way, word: str, ratio: float) -> SystemFindings:
    pair = _pair(scope, way)
    if pair is None:
        return report_missing_findings(f"system.{word}: no two layers whose {way}s can be compared")
    asked, done = (float(np.nansum(read_float_column(pair.rows, name))) for name in ("asked", "done"))
    if not asked or done < ratio * asked or done - asked < limits.extra_bytes_per_hour * scope.hours:
        return report_missing_findings()
    factor = done / asked
    worst = _extra(pair.rows, "id")
    components = [name for name, extra in worst if extra >= limits.named_share * (done - asked)]
    jobs = _jobs(scope, way, ratio, limits.named_share)
    evidence = [
        build_finding_evidence(
            "amplification",
            round(factor, 3),
            None,
            f"{format_bytes(done)} {_PAST[way]} below for {format_bytes(asked)} asked by clients above, in the same "
            f"minutes: {factor:.1f}x",
        ),
        *(
            build_finding_evidence(
                "extra_bytes", round(extra), "bytes", f"{pair.kind} {name}: {format_bytes(extra)} too many"
            )
            for name, extra in worst[:3]
        ),
        *(
            build_finding_evidence(
                "amplification", round(above, 3), None, f"{scope.format_job(name)}: {above:.1f}x at the targets"
            )
            for name, above in jobs[:3]
        ),
    ]
    missing = [] if pair.sure else ["counters of the file system's clients on the forwarders (osc)"]
    missing += [] if jobs else ["job ids at the storage targets (job_stats): which jobs make it"]
    more = "read-ahead fetches data that is discarded before use" if way == "read" else "small or unaligned writes"
    return scope.build_finding(
        word,
        title=f"{factor:.1f} bytes {_PAST[way]} below for each byte asked above: {more}",
        severity=grade_finding_severity(factor, ratio, limits.high_ratio),
        confidence=0.9 if pair.sure else 0.6,
        evidence=evidence,
        components=[] if pair.kind == "layer" else build_finding_subjects(pair.kind, components),
        culprits=build_finding_subjects("job", [name for name, _ in jobs]),
        missing=missing,
        facts={"amplification": factor, "job": jobs[0][0] if jobs else None},
    )


def _pair(scope: Scope, way: Way) -> _Pair | None:
    """The two layers between which caches lie: on a forwarder, else on a node; else forwarders and targets."""
    column = f"{way}_bytes"
    forwarders = scope.sum_rollups("forwarder", ("forwarder",))
    served = pc.unique(forwarders["id"])
    osc = scope.sum_rollups("node", ("osc",))
    for layer in ("osc", "pfs_client"):
        below = osc if layer == "osc" else scope.sum_rollups("node", ("pfs_client",))
        rows = _together(forwarders, below.filter(pc.is_in(below["id"], served)), column, ("id", "ts_ns"))
        if rows.num_rows:
            return _Pair("forwarder", rows, True)
    if not forwarders.num_rows and osc.num_rows:
        rows = _together(scope.sum_rollups("node", ("pfs_client",)), osc, column, ("id", "ts_ns"))
        if rows.num_rows:
            return _Pair("node", rows, True)
    whole = scope.sum_rollups("forwarder", ("forwarder",), by=("ts_ns",))
    rows = _together(whole, scope.sum_rollups("target", ("target",), by=("ts_ns",)), column, ("ts_ns",))
    if not rows.num_rows:
        return None
    return _Pair("layer", rows.append_column("id", pa.array(["all"] * rows.num_rows)), False)


def _together(above: pa.Table, below: pa.Table, column: str, by: tuple[str, ...]) -> pa.Table:
    """Rows that both layers have and know: `by`, `asked`, `done`."""
    upper = above.select([*by, column]).rename_columns([*by, "asked"])
    lower = below.select([*by, column]).rename_columns([*by, "done"])
    rows = upper.join(lower, list(by), join_type="inner")
    return rows.filter(pc.and_(pc.is_valid(rows["asked"]), pc.is_valid(rows["done"])))


def _extra(rows: pa.Table, key: str) -> list[tuple[str, float]]:
    """Who moved how many bytes too many, most first."""
    found = rows.group_by(key).aggregate([("asked", "sum"), ("done", "sum")])
    extra = read_float_column(found, "done_sum") - read_float_column(found, "asked_sum")
    names = found[key].to_pylist()
    return sorted(((name, float(more)) for name, more in zip(names, extra, strict=True)), key=lambda x: (-x[1], x[0]))


def _jobs(scope: Scope, way: Way, ratio: float, share: float) -> list[tuple[str, float]]:
    """Jobs of which targets moved more than forwarders (or clients) were asked, with how many times as much."""
    column = f"{way}_bytes"
    below = scope.sum_rollups("job", ("target",), by=("id",))
    for layers in (("forwarder",), ("mount",), ("client",)):
        rows = _together(scope.sum_rollups("job", layers, by=("id",)), below, column, ("id",))
        if rows.num_rows:
            break
    else:
        return []
    worst = _extra(rows, "id")
    total = sum(extra for _, extra in worst if extra > 0)
    by_id = {row["id"]: row["done"] / row["asked"] for row in rows.to_pylist() if row["asked"]}
    named = [(name, by_id[name]) for name, extra in worst if name in by_id and extra >= share * total > 0]
    return [(name, factor) for name, factor in named if factor >= ratio]
