"""Metadata storms: a metadata server near its peak for minutes, and whose requests they are.

Beacon (Yang et al., ACM TOS 2023, section 6): metadata servers above 75 % of their peak 26.8 % of the time, over 80 %
of that from the auxiliary cluster. Needs the known peak of a metadata server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.finding import Subject
from fairlead.core.model.unit_formats import format_count, format_percent
from fairlead.explain.analysis.system.scope import (
    MINUTE_NS,
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    grade_finding_severity,
    report_missing_findings,
)
from fairlead.explain.analysis.table_columns import read_float_column

OWN_JOB = "job"


@dataclass(frozen=True)
class StormLimits:
    """75 % of the peak is Beacon's. `source_share`: a job or class is called the source when it made at least half;
    `named_share`: a job is named in the evidence."""

    share_of_peak: float = 0.75
    high_share: float = 0.95
    minutes: int = 5
    source_share: float = 0.5
    named_share: float = 0.05


def find_metadata_storms(scope: Scope, limits: StormLimits) -> SystemFindings:
    """One finding a server that had a storm."""
    rows = scope.sum_rollups("mds", ("metadata",))
    if not rows.num_rows:
        return report_missing_findings("system.metadata_storm: no data on metadata servers")
    peak = scope.site.peaks.get("mds")
    if peak is None:
        return report_missing_findings("system.metadata_storm: the peak of a metadata server (site file: mdops)")
    rate = read_float_column(rows, "metadata_ops") / (MINUTE_NS / 1e9)
    stormy = rows.filter(pa.array(np.nan_to_num(rate) >= limits.share_of_peak * peak))
    found = SystemFindings()
    for server in sorted(set(stormy["id"].to_pylist())):
        mine = stormy.filter(pc.equal(stormy["id"], server))
        if mine.num_rows >= limits.minutes:
            found += _storm(scope, limits, server, mine, peak)
    return found


def _storm(scope: Scope, limits: StormLimits, server: str, rows: pa.Table, peak: float) -> SystemFindings:
    minutes = rows["ts_ns"]
    counted = read_float_column(rows, "metadata_ops")
    total = float(counted.sum())
    mean, highest = total / (len(counted) * 60), float(counted.max()) / 60
    jobs = _jobs(scope, server, minutes, total)
    classes, ops = _classes(scope, server, minutes)
    source, share = _source(jobs, classes, limits)
    evidence = [
        build_finding_evidence(
            "share_of_peak",
            round(highest / peak, 4),
            None,
            f"{server} above {format_percent(limits.share_of_peak)} of its peak of {format_count(peak)}/s for "
            f"{rows.num_rows} minutes, {format_count(highest)}/s at most",
        ),
        build_finding_evidence("source_class", source or "unknown", None, _told(source, share)),
        *(
            build_finding_evidence(
                "class_share", round(part, 4), None, f"clients of class {name}: {format_percent(part)}"
            )
            for name, part in classes[:4]
        ),
        *(
            build_finding_evidence("share", round(part, 4), None, f"{scope.format_job(job)}: {format_percent(part)}")
            for job, part in jobs[:3]
            if part >= limits.named_share
        ),
        *(
            build_finding_evidence(
                "op_share", round(part, 4), None, f"{name}: {format_percent(part)} of the operations"
            )
            for name, part in ops[:3]
        ),
    ]
    missing = [] if jobs else ["job ids at the metadata server (job_stats)"]
    missing += [] if classes else ["operations by client (exports), or the classes of clients"]
    culprits = [job for job, part in jobs if part >= limits.source_share]
    return scope.build_finding(
        "metadata_storm",
        title=f"{server} near its peak for {rows.num_rows} minutes" + (f", from {source}" if source else ""),
        severity=grade_finding_severity(highest / peak, limits.share_of_peak, limits.high_share),
        confidence=0.9 if source else 0.7,
        evidence=evidence,
        components=build_finding_subjects("mds", [server]),
        culprits=build_finding_subjects("job", culprits) or _nodes(scope, server, minutes, source),
        missing=missing,
        part=server,
        facts={"mdops_per_s": mean, "share_of_peak": highest / peak, "node": source, "component": server},
    )


def _jobs(scope: Scope, server: str, minutes: pa.ChunkedArray, total: float) -> list[tuple[str, float]]:
    parts = scope.sum_rollups("mds", ("metadata",), by=("id", "job_id", "ts_ns"), jobs=True)
    here = pc.and_(pc.equal(parts["id"], server), pc.is_in(parts["ts_ns"], minutes.combine_chunks()))
    by_job = parts.filter(here).group_by("job_id").aggregate([("metadata_ops", "sum")])
    shares = read_float_column(by_job, "metadata_ops_sum") / total
    told = zip(by_job["job_id"].to_pylist(), np.minimum(shares, 1.0).tolist(), strict=True)
    return sorted(((name, part) for name, part in told if part > 0), key=lambda one: (-one[1], one[0]))[:8]


def _rows(scope: Scope, server: str, minutes: pa.ChunkedArray) -> pa.Table:
    """Raw rows of the stormy minutes that name clients (a row is of the interval before its time)."""
    rows = scope.get_table("metadata")
    source = pc.fill_null(rows["source"].cast(pa.string()), "exports")
    place = pc.coalesce(rows["target"].cast(pa.string()), rows["server"].cast(pa.string()))
    minute = pa.array((rows["ts_ns"].to_numpy() - 1) // MINUTE_NS * MINUTE_NS)
    inside = pc.and_(pc.is_in(minute, minutes.combine_chunks()), pc.is_valid(rows["client"]))
    return rows.filter(pc.and_(inside, pc.and_(pc.equal(source, "exports"), pc.equal(place, server))))


def _classes(
    scope: Scope, server: str, minutes: pa.ChunkedArray
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Shares by class of clients and by operation; classes empty where no client's class is known."""
    rows = _rows(scope, server, minutes)
    if not rows.num_rows:
        return [], []
    sums = count_metadata_storm_sources(rows, scope.site.classes)
    classes = _shares(sums, "client_class")
    return ([] if [name for name, _ in classes] == [UNKNOWN_CLASS] else classes), _shares(sums, "op")


def _shares(sums: pa.Table, by: str) -> list[tuple[str, float]]:
    found = sums.group_by(by).aggregate([("count", "sum")])
    values = read_float_column(found, "count_sum")
    told = zip(found[by].to_pylist(), (values / max(values.sum(), 1.0)).tolist(), strict=True)
    return sorted(told, key=lambda one: (-one[1], one[0]))


def _source(
    jobs: list[tuple[str, float]], classes: list[tuple[str, float]], limits: StormLimits
) -> tuple[str | None, float]:
    """Whose the storm is: one job's, else one class of clients'; None where nobody made that much or nothing tells."""
    if jobs and jobs[0][1] >= limits.source_share:
        return OWN_JOB, jobs[0][1]
    if classes and classes[0][1] >= limits.source_share and classes[0][0] != UNKNOWN_CLASS:
        return classes[0][0], classes[0][1]
    return None, 0.0


def _nodes(scope: Scope, server: str, minutes: pa.ChunkedArray, source: str | None) -> list[Subject]:
    """The clients of the class that made most, where no job did."""
    if source is None or source == OWN_JOB:
        return []
    rows = _rows(scope, server, minutes)
    rows = rows.filter(
        pc.is_in(rows["client"].cast(pa.string()), pa.array(sorted(scope.site.list_class_nodes(source))))
    )
    found = rows.group_by("client").aggregate([("count", "sum")])
    order = sorted(
        zip(found["client"].to_pylist(), found["count_sum"].to_pylist(), strict=True), key=lambda x: (-x[1], x[0])
    )
    return build_finding_subjects("node", [name for name, _ in order[:3]])


def _told(source: str | None, share: float) -> str:
    if source is None:
        return "the source is not known: no job or class of clients made half of it"
    what = "one job" if source == OWN_JOB else f"clients of class {source}"
    return f"{format_percent(share)} of it from {what}"


UNKNOWN_CLASS = "unknown"


def count_metadata_storm_sources(metadata: pa.Table, classes: Mapping[str, str]) -> pa.Table:
    """Whom a metadata server works for: `server` (its target, where it has several), `client_class`, `op`, `count`.

    `metadata`: raw rows that name clients (source `exports`, or a forwarder's own). `classes`: class of each client
    (compute, login, auxiliary, forwarder) by its name or network address; others are `unknown`.
    """
    rows = metadata.filter(pc.is_valid(metadata["client"]))
    client = rows["client"].cast(pa.string())
    known = pa.array(list(classes), pa.string())
    words = pa.array(list(classes.values()), pa.string())
    of_client = pc.fill_null(words.take(pc.index_in(client, value_set=known).combine_chunks()), UNKNOWN_CLASS)
    server = pc.coalesce(rows["target"].cast(pa.string()), rows["server"].cast(pa.string()))
    flat = pa.table(
        {"server": server, "client_class": of_client, "op": rows["op"].cast(pa.string()), "count": rows["count"]}
    )
    found = flat.group_by(["server", "client_class", "op"]).aggregate([("count", "sum")])
    found = found.rename_columns([name.removesuffix("_sum") for name in found.schema.names])
    return found.select(["server", "client_class", "op", "count"]).sort_by(
        [("server", "ascending"), ("count", "descending")]
    )
