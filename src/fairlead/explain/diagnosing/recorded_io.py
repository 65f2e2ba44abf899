"""What the lake recorded of the I/O of jobs: series, operations, what served them. Jobs that ran near each other share
their queries.

Not here: what is made of it (`analysis.job_summary`), which jobs are asked about (`analysis_loop`).
"""
# ruff: noqa: S608  (names of tables and columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.errors import FairleadError, LakeError
from fairlead.core.model.tables import JOBS
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.job_summary import SERIES, JobData
from fairlead.explain.analysis.node_intervals import attribute_node_interval_traffic, build_node_placement_intervals
from fairlead.explain.diagnosing.serving_components import (
    DAY_NS,
    Tables,
    build_day_condition,
    find_serving_components,
    find_serving_forwarders,
    find_serving_targets,
)
from fairlead.explain.questions.job_volumes import build_volume_runs, read_job_volumes
from fairlead.store.rollups import CLIENT, MOUNT, MOUNT_INTERFACES, NO_METADATA, UPPER_INTERFACES

LONGEST_S = 1_000_000
"""A job of more seconds is summarised from minutes."""
TOGETHER_NS = 2 * DAY_NS
"""Jobs that lie within so long share their queries: files of other days are not opened for one of them."""
ASKED = "(SELECT unnest($ids) AS id, unnest($begins) AS begin_ns, unnest($ends) AS end_ns, unnest($numbers) AS number)"
"""Jobs as rows, of what `build_recorded_io_parameters` makes."""
MOST_AT_ONCE = 1 << 50
"""Bytes or operations of one job in one interval: what says more is a broken counter, and not known."""
_MINUTE_NS = 60 * NS_PER_S
_JOBS_METADATA = "CASE WHEN layer <> $l_target THEN metadata_ops END"
"""Storage targets count operations that no metadata server saw; they are not metadata operations of a job."""
_SERIES_OF = ("ts_ns", "layer", *SERIES)


def read_recorded_io(lake: Tables, jobs: Sequence[Mapping[str, Any]]) -> list[JobData]:
    """What the lake knows of the I/O of rows of `jobs`, in their order. A job whose `recorded` is false or missing is
    looked for among the hours first: most of many old jobs left no record. Raises LakeError."""
    silent = _silent(lake, [job for job in jobs if not job.get("recorded")])
    found = {at: _nothing(job) for at, job in enumerate(jobs) if job["job_id"] in silent}
    for near in group_recorded_io_jobs(jobs, [at for at in range(len(jobs)) if at not in found]):
        try:
            made = _data_of(lake, [jobs[at] for at in near])
        except LakeError:
            raise
        except FairleadError as fault:
            names = ", ".join(str(jobs[at]["job_id"]) for at in near[:5])
            raise LakeError(f"job {names} cannot be summarised: {fault.what}") from fault
        found |= dict(zip(near, made, strict=True))
    return [found[at] for at in range(len(jobs))]


def group_recorded_io_jobs(jobs: Sequence[Mapping[str, Any]], places: Sequence[int]) -> list[list[int]]:
    """These places in groups of jobs that lie near each other in time; a long job is alone."""
    groups: list[list[int]] = []
    first = 0
    for at in sorted(places, key=lambda at: (int(jobs[at]["start_ns"]), at)):
        begin, end = int(jobs[at]["start_ns"]), int(jobs[at]["end_ns"])
        if groups and end - first <= TOGETHER_NS and _interval(jobs[at]) == _interval(jobs[groups[-1][0]]):
            groups[-1].append(at)
        else:
            groups.append([at])
            # After a job that is longer than that nothing joins it.
            first = begin if end - begin <= TOGETHER_NS else begin - TOGETHER_NS
    return groups


def build_recorded_io_parameters(jobs: Sequence[tuple[str, int, int]]) -> dict[str, object]:
    """Parameters of `ASKED`: number, begin and end of each job, numbered in their order."""
    return {
        "ids": [name for name, _, _ in jobs],
        "begins": [begin for _, begin, _ in jobs],
        "ends": [end for _, _, end in jobs],
        "numbers": list(range(len(jobs))),
    }


def split_recorded_io_rows(rows: pa.Table) -> dict[int, pa.Table]:
    """Rows sorted by `number`, cut at its changes."""
    if not rows.num_rows:
        return {}
    encoded = pc.run_end_encode(rows["number"].combine_chunks())
    ends = encoded.run_ends.to_pylist()
    return {
        number: rows.slice(low, high - low)
        for number, low, high in zip(encoded.values.to_pylist(), [0, *ends[:-1]], ends, strict=True)
    }


def _silent(lake: Tables, jobs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Of jobs that ended long ago, those nothing was recorded of: accounting of years may be taken in at once."""
    if not jobs:
        return set()
    begin, end = min(int(job["start_ns"]) for job in jobs), max(int(job["end_ns"]) for job in jobs)
    found = lake.query(
        "SELECT DISTINCT CASE WHEN kind = 'job' THEN id END AS id FROM rollup WHERE interval_ns = 3600000000000"
        " AND ts_ns > $from - 3600000000000 AND ts_ns < $to AND (kind = 'job' AND id IN (SELECT unnest($names))"
        f" OR kind = 'node' AND layer = 'pfs_client' AND job_id IS NULL) AND {build_day_condition(begin, end)}",
        {"from": begin, "to": end, "names": [str(job["job_id"]) for job in jobs]},
    )
    recorded = set(found["id"].to_pylist())
    # A null: counters of nodes were taken at the time, so that a job with nodes may be estimated.
    return {str(job["job_id"]) for job in jobs if not (None in recorded and job.get("nodes"))} - recorded


def _nothing(job: Mapping[str, Any]) -> JobData:
    return JobData(job=job, series=_no_series())


def _no_series() -> pa.Table:
    columns = {"ts_ns": pa.int64(), "layer": pa.string(), **dict.fromkeys(SERIES, pa.int64())}
    return pa.schema(list(columns.items())).empty_table()


def _interval(job: Mapping[str, Any]) -> int:
    long = (int(job["end_ns"]) - int(job["start_ns"])) // NS_PER_S > LONGEST_S
    return _MINUTE_NS if long else NS_PER_S


def _data_of(lake: Tables, jobs: Sequence[Mapping[str, Any]]) -> list[JobData]:
    """Everything the lake knows of these jobs' I/O, which lie near each other and are of one interval."""
    begin, end = min(int(job["start_ns"]) for job in jobs), max(int(job["end_ns"]) for job in jobs)
    interval = _interval(jobs[0])
    # Whole minutes, so that `ended_jobs.select_due_ended_jobs` finds the same sums in the rollup of minutes.
    spans = [
        (
            str(job["job_id"]),
            int(job["start_ns"]) // _MINUTE_NS * _MINUTE_NS,
            (int(job["end_ns"]) // _MINUTE_NS + 1) * _MINUTE_NS,
        )
        for job in jobs
    ]
    asked = build_recorded_io_parameters(spans)
    low, high = min(first for _, first, _ in spans), max(last for _, _, last in spans)
    series = split_recorded_io_rows(
        lake.query(
            f"SELECT number, ts_ns, layer, {_summed(_JOBS_METADATA)} FROM rollup JOIN {ASKED} asked"
            " ON rollup.id = asked.id AND ts_ns >= asked.begin_ns AND ts_ns < asked.end_ns"
            f" WHERE kind = $k_job AND rollup.id IN (SELECT unnest($ids)) AND interval_ns = {interval}"
            f" AND ts_ns >= {low} AND ts_ns < {high} AND {build_day_condition(begin, end)}"
            " GROUP BY number, ts_ns, layer ORDER BY number, ts_ns, layer",
            {**asked, "k_job": "job", "l_target": "target"},
        )
    )
    layers = [set(series[at]["layer"].to_pylist()) if at in series else set() for at in range(len(jobs))]
    counted = find_serving_components(lake, ASKED, asked, low, high)
    operations = _operations(lake, asked, layers, low, high)
    volumes = read_job_volumes(lake, build_volume_runs(jobs), high).to_pylist()
    found = []
    for at, job in enumerate(jobs):
        nodes = [str(name) for name in job.get("nodes") or []]
        life = (int(job["start_ns"]), int(job["end_ns"]))
        span = {"job": spans[at][0], "from": spans[at][1], "to": spans[at][2]}
        forwarders, targets = counted.get((at, "forwarder")), counted.get((at, "target"))
        routed = find_serving_forwarders(lake, nodes, *life) if not forwarders else None
        striped = find_serving_targets(lake, span, *life) if not targets else None
        found.append(
            JobData(
                job=job,
                series=series[at].select(_SERIES_OF) if at in series else _no_series(),
                interval_ns=interval,
                io=operations.get(at),
                io_nodes=None,
                forwarders=forwarders or routed,
                targets=targets or striped,
                volume=volumes[at],
                nodes_traffic=_nodes_traffic(lake, job, nodes, interval) if not layers[at] and nodes else None,
                estimated=[name for name, known in (("forwarders", routed), ("targets", striped)) if known],
            )
        )
    return found


def _summed(metadata: str = "metadata_ops") -> str:
    values = {**{name: name for name in SERIES}, "metadata_ops": metadata}
    believed = f"BETWEEN 0 AND {MOST_AT_ONCE}"
    return ", ".join(
        f"CASE WHEN sum({value}) {believed} THEN sum({value})::BIGINT END AS {name}" for name, value in values.items()
    )


def _operations(
    lake: Tables, asked: Mapping[str, Any], layers: Sequence[set[str]], low: int, high: int
) -> dict[int, pa.Table]:
    """By place of a job: sums of its operations by node, rank and file, of the layer its figures are of."""
    mounts = ", ".join(f"'{name}'" for name in MOUNT_INTERFACES)
    upper = ", ".join(f"'{name}'" for name in (*UPPER_INTERFACES, *MOUNT_INTERFACES))
    other = ", ".join(f"'{name}'" for name in NO_METADATA)
    moved = "CASE WHEN size <= 9223372036854775807 // greatest(count, 1) THEN size * count END"
    parts = ", ".join(
        f"TRY_CAST(sum({value}) FILTER ({rows}) AS BIGINT) AS {name}"
        for name, value, rows in (
            ("read_bytes", moved, "op = 'read'"),
            ("write_bytes", moved, "op = 'write'"),
            ("read_time_ns", "busy_ns", "op = 'read'"),
            ("write_time_ns", "busy_ns", "op = 'write'"),
            ("metadata_time_ns", "busy_ns", f"op <> 'read' AND op <> 'write' AND op NOT IN ({other})"),
        )
    )
    found: dict[int, pa.Table] = {}
    for mount, interface in ((True, f"interface IN ({mounts})"), (False, f"interface NOT IN ({upper})")):
        mine = [at for at, known in enumerate(layers) if known & {CLIENT, MOUNT} and (MOUNT in known) is mount]
        if not mine:
            continue
        names = ("ids", "begins", "ends", "numbers")
        rows = lake.query(
            f"SELECT number, node, rank, file_id, {parts} FROM ops JOIN {ASKED} asked ON ops.job_id = asked.id"
            " AND start_ns >= asked.begin_ns AND start_ns < asked.end_ns"
            f" WHERE ops.job_id IN (SELECT unnest($ids)) AND start_ns >= {low} AND start_ns < {high}"
            f" AND {build_day_condition(low, high)} AND {interface} GROUP BY number, node, rank, file_id"
            " ORDER BY number, node, rank, file_id",
            {name: [asked[name][at] for at in mine] for name in names},
        )
        found |= {at: part.drop_columns(["number"]) for at, part in split_recorded_io_rows(rows).items()}
    return found


def _nodes_traffic(lake: Tables, job: Mapping[str, Any], nodes: Sequence[str], interval_ns: int) -> pa.Table | None:
    """What counters of the job's nodes say, shared out among the jobs that were on them."""
    begin, end = int(job["start_ns"]), int(job["end_ns"])
    moved = lake.query(
        f"SELECT ts_ns, id AS node, {_summed()}, CAST(NULL AS VARCHAR) AS job_id FROM rollup WHERE kind = 'node'"
        f" AND job_id IS NULL AND layer = 'pfs_client' AND interval_ns = {interval_ns}"
        f" AND ts_ns > $from AND ts_ns < $to AND {build_day_condition(begin, end)} AND id IN (SELECT unnest($nodes))"
        " GROUP BY ts_ns, id",
        {"from": begin - interval_ns, "to": end, "nodes": list(nodes)},
    )
    if not moved.num_rows:
        return None
    moved = moved.append_column("interval_ns", pa.array([interval_ns] * moved.num_rows, pa.int64()))
    beside = lake.query(
        "SELECT * EXCLUDE (day) FROM jobs WHERE start_ns < $to AND (end_ns IS NULL OR end_ns > $from)"
        " AND list_has_any(nodes, $nodes)",
        {"from": begin, "to": end, "nodes": list(nodes)},
    )
    found = attribute_node_interval_traffic(moved, build_node_placement_intervals(beside.select(JOBS.schema.names)))
    mine = pc.equal(found.job_id, str(job["job_id"])).fill_null(False).to_numpy(zero_copy_only=False)
    rows = pa.array(found.row[mine])
    columns = {"ts_ns": moved["ts_ns"].take(rows), "layer": pa.array(["pfs_client"] * len(rows), pa.string())}
    for name in SERIES:
        columns[name] = pc.multiply(moved[name].take(rows).cast(pa.float64()), pa.array(found.part[mine]))
    return pa.table(columns)
