"""Stripes that do not fit files: small files over many targets, huge shared files on one.

A small file over many targets costs a lock and a request on each of them (Lustre manual, "Managing File Layout": one
stripe for files below a few GB that one process writes); a huge file that many processes share on one target gets that
target's bandwidth only. Needs layouts, and sizes of files from operations or counters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import GIB, MIB, format_bytes, format_count
from fairlead.explain.analysis.system.scope import (
    Scope,
    SystemFindings,
    build_finding_evidence,
    build_finding_subjects,
    grade_finding_severity,
    report_missing_findings,
)


@dataclass(frozen=True)
class StripeLimits:
    """A file is small below `bytes_per_stripe` for each of its stripes (at least `many` of them), and huge from
    `huge_bytes` on when at least `sharing` processes use it. Told from `small_files` or `huge_files` on."""

    many: int = 4
    bytes_per_stripe: int = MIB
    small_files: int = 100
    huge_bytes: int = 10 * GIB
    sharing: int = 8
    huge_files: int = 1


def find_stripe_misuse(scope: Scope, limits: StripeLimits) -> SystemFindings:
    """At most one finding for each of the two."""
    layouts = scope.get_table("layouts")
    if not layouts.num_rows:
        return report_missing_findings("system.stripe_misuse: how files are striped (layouts)")
    sizes = _measure_file_sizes(scope)
    if sizes is None:
        return report_missing_findings("system.stripe_misuse: sizes of files (operations or counters of jobs)")
    plain = layouts.group_by("file_id").aggregate([("stripe_count", "max"), ("component", "count")])
    # Of a file with several layout components nobody can say by its size alone which of them holds how much.
    plain = plain.filter(pc.and_(pc.equal(plain["component_count"], 1), pc.is_valid(plain["stripe_count_max"])))
    files = sizes.join(plain, "file_id", join_type="inner")
    count, size = files["stripe_count_max"].to_numpy(), files["size"].to_numpy()
    small = (count >= limits.many) & (size > 0) & (size < limits.bytes_per_stripe * count)
    huge = (count == 1) & (size >= limits.huge_bytes) & (files["sharing"].to_numpy() >= limits.sharing)
    unknown = sizes.num_rows - files.num_rows
    missing = [f"layouts of {unknown} of {sizes.num_rows} files"] if unknown else []
    found = SystemFindings()
    if int(small.sum()) >= limits.small_files:
        found += _small(scope, limits, files.filter(pa.array(small)), missing)
    if int(huge.sum()) >= limits.huge_files:
        found += _huge(scope, limits, files.filter(pa.array(huge)), missing)
    return found


def _small(scope: Scope, limits: StripeLimits, files: pa.Table, missing: list[str]) -> SystemFindings:
    number, jobs = files.num_rows, _jobs(files)
    mean, stripes = float(pc.mean(files["size"]).as_py()), float(pc.mean(files["stripe_count_max"]).as_py())
    return scope.build_finding(
        "stripe_misuse",
        title=f"{format_count(number)} small files are spread over {stripes:.0f} targets each",
        severity=grade_finding_severity(number / limits.small_files, 1.0, 100.0),
        confidence=0.9,
        evidence=[
            build_finding_evidence(
                "small_files",
                number,
                "files",
                f"{format_count(number)} files of {format_bytes(mean)} on average over {stripes:.1f} targets",
            ),
            *(
                build_finding_evidence("files", n, "files", f"{scope.format_job(job)}: {format_count(n)} of them")
                for job, n in jobs[:3]
            ),
        ],
        culprits=build_finding_subjects("job", [job for job, _ in jobs]),
        missing=missing,
        part="small",
        facts={"stripe_count": stripes, "job": jobs[0][0] if jobs else None},
    )


def _huge(scope: Scope, limits: StripeLimits, files: pa.Table, missing: list[str]) -> SystemFindings:
    number, jobs = files.num_rows, _jobs(files)
    largest = int(pc.max(files["size"]).as_py())
    return scope.build_finding(
        "stripe_misuse",
        title=f"{format_count(number)} huge shared files lie on a single target each",
        severity=grade_finding_severity(number / limits.huge_files, 1.0, 10.0),
        confidence=0.8,
        evidence=[
            build_finding_evidence(
                "huge_files",
                number,
                "files",
                f"{format_count(number)} files of up to {format_bytes(largest)}, each shared by {limits.sharing} "
                "processes or more, with one stripe",
            ),
            *(
                build_finding_evidence("files", n, "files", f"{scope.format_job(job)}: {format_count(n)} of them")
                for job, n in jobs[:3]
            ),
        ],
        culprits=build_finding_subjects("job", [job for job, _ in jobs]),
        missing=missing,
        part="huge",
        facts={"stripe_count": 1, "job": jobs[0][0] if jobs else None},
    )


def _jobs(files: pa.Table) -> list[tuple[str, int]]:
    rows = files.filter(pc.is_valid(files["job_id"])).group_by("job_id").aggregate([("file_id", "count")])
    told = zip(rows["job_id"].to_pylist(), rows["file_id_count"].to_pylist(), strict=True)
    return sorted(told, key=lambda one: (-one[1], one[0]))[:8]


def _measure_file_sizes(scope: Scope) -> pa.Table | None:
    """`file_id`, `size` (the furthest byte any process reached), `sharing` (processes), `job_id` (one of them), from
    `ops` and `file_counters`; None where neither tells."""
    parts = [part for part in (_of_ops(scope), _of_counters(scope)) if part is not None]
    if not parts:
        return None
    rows = (
        pa.concat_tables(parts).group_by("file_id").aggregate([("size", "max"), ("sharing", "max"), ("job_id", "max")])
    )
    return rows.rename_columns(["file_id", "size", "sharing", "job_id"])


def _of_ops(scope: Scope) -> pa.Table | None:
    rows = scope.get_table("ops")
    inside = (pc.field("start_ns") >= scope.from_ns) & (pc.field("start_ns") < scope.to_ns)
    known = pc.field("file_id").is_valid() & pc.field("offset").is_valid() & pc.field("size").is_valid()
    rows = rows.filter(inside & known)
    if not rows.num_rows:
        return None
    stride = pc.fill_null(rows["stride"], 0).to_numpy()
    reach = rows["offset"].to_numpy() + np.maximum(stride, 0) * (rows["count"].to_numpy() - 1) + rows["size"].to_numpy()
    who = pc.binary_join_element_wise(
        pc.fill_null(rows["node"].cast(pa.string()), ""), pc.fill_null(rows["rank"], -1).cast(pa.string()), "/"
    )
    flat = pa.table(
        {"file_id": rows["file_id"], "size": pa.array(reach), "who": who, "job_id": rows["job_id"].cast(pa.string())}
    )
    found = flat.group_by("file_id").aggregate([("size", "max"), ("who", "count_distinct"), ("job_id", "max")])
    return found.rename_columns(["file_id", "size", "sharing", "job_id"])


def _of_counters(scope: Scope) -> pa.Table | None:
    rows = scope.get_table("file_counters")
    jobs = scope.jobs
    processes = dict(zip(jobs["job_id"].to_pylist(), jobs["processes"].to_pylist(), strict=True))
    rows = rows.filter(pc.is_in(rows["job_id"].cast(pa.string()), pa.array(list(processes), pa.string())))
    rows = rows.filter(pc.or_(pc.is_valid(rows["max_byte_read"]), pc.is_valid(rows["max_byte_written"])))
    if not rows.num_rows:
        return None
    last = pc.max_element_wise(pc.fill_null(rows["max_byte_read"], -1), pc.fill_null(rows["max_byte_written"], -1))
    job = rows["job_id"].cast(pa.string())
    # Rank -1 is one record for all processes of the job.
    all_of = np.array([processes.get(name) or 1 for name in job.to_pylist()], np.int64)
    whole = rows["rank"].to_numpy() == -1
    flat = pa.table(
        {
            "file_id": rows["file_id"],
            "size": pc.add(last, 1),
            "rank": rows["rank"],
            "job_id": job,
            "all": pa.array(np.where(whole, all_of, 1)),
        }
    )
    found = flat.group_by("file_id").aggregate(
        [("size", "max"), ("rank", "count_distinct"), ("all", "max"), ("job_id", "max")]
    )
    sharing = pc.max_element_wise(found["rank_count_distinct"], found["all_max"])
    return pa.table(
        {"file_id": found["file_id"], "size": found["size_max"], "sharing": sharing, "job_id": found["job_id_max"]}
    )
