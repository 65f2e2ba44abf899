"""The path of a job's I/O: what the application requested, and what forwarders and targets recorded of it.

Pure. Not here: who is to blame (`culprits`), series for drawing (`path_charts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.missing import Missing
from fairlead.core.model.unit_formats import MIB, NS_PER_S
from fairlead.explain.analysis.component_flows import NO_JOB, Floats, Flow
from fairlead.explain.analysis.culprits import Facts, count_culprit_processes

DATA = ("read", "write")
SMALL = 1 << 16
"""Requests smaller than this on average are not told by the MiB."""


class ClientLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What the mount (or the library client) saw of a job: its own operations, end to end."""

    nodes: list[str]
    processes: int | None
    operations: int
    metadata: int
    bytes_read: int
    bytes_written: int
    busy_s: float
    """Seconds spent in operations, summed over them."""
    data_s: float
    from_ns: int
    to_ns: int


class ForwarderLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What one forwarder saw of a job. Waits are in its queue, service is the time after it."""

    name: str
    requests: int
    metadata: int
    bytes: int
    wait_s: float
    service_s: float
    wait_p50_s: float | None
    wait_p90_s: float | None
    """The median window's quantiles of the wait."""
    worst_wait_p90_s: float | None


class TargetLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What one target saw of a job."""

    name: str
    requests: int
    bytes: int
    service_s: float
    per_mib_s: float | None
    """None where requests are small: their time does not go with their size."""
    per_request_s: float | None = None


class JobPath(msgspec.Struct, frozen=True, kw_only=True):
    """One job through all layers; a layer without records is None or empty."""

    job_id: str
    name: str | None
    client: ClientLayer | None
    forwarders: list[ForwarderLayer]
    targets: list[TargetLayer]
    missing: list[Missing]


def build_job_paths(tables: Mapping[str, pa.Table], facts: Facts) -> list[JobPath]:
    """Return the path of every job that any layer knows, sorted by job number."""
    ops = tables.get("ops")
    clients = _build_client_layers(ops, count_culprit_processes(tables)) if ops is not None and ops.num_rows else {}
    seen = {job for flow in (*facts.forwarders, *facts.targets) for job in flow.jobs} | set(clients)
    names = _names(tables.get("jobs"))
    return [_path(job, names.get(job), clients.get(job), facts) for job in sorted(seen - {NO_JOB}, key=_by_number)]


def _by_number(job: str) -> tuple[int, str]:
    return (int(job), "") if job.isdecimal() else (1 << 62, job)


def _names(jobs: pa.Table | None) -> dict[str, str]:
    if jobs is None:
        return {}
    return {
        row["job_id"]: str(row["name"] or row["program"])
        for row in jobs.to_pylist()
        if row.get("name") or row.get("program")
    }


def _path(job: str, name: str | None, client: ClientLayer | None, facts: Facts) -> JobPath:
    forwarders = [_forwarder(flow, row) for flow in facts.forwarders if (row := flow.find_row(job)) is not None]
    targets = [_target(flow, row) for flow in facts.targets if (row := flow.find_row(job)) is not None]
    missing = []
    if client is None:
        missing.append(
            Missing(
                kind="no_client",
                what="what the application saw",
                why="no operations of this job were recorded",
                remedy="mount with --spool, and ingest that spool",
            )
        )
    if not forwarders:
        missing.append(
            Missing(
                kind="no_forwarder",
                what="waiting and service at the forwarder",
                why="no forwarder recorded this job",
                remedy="start the forwarder with --spool, and ingest that spool",
            )
        )
    if not targets:
        missing.append(
            Missing(
                kind="no_target",
                what="time at the targets",
                why="no target recorded this job",
                remedy="export targets (targets:FILE); a plain directory counts as one unnamed device",
            )
        )
    return JobPath(job_id=job, name=name, client=client, forwarders=forwarders, targets=targets, missing=missing)


def _forwarder(flow: Flow, row: int) -> ForwarderLayer:
    return ForwarderLayer(
        name=flow.name,
        requests=round(float(flow.requests[row].sum())),
        metadata=round(float(flow.metadata[row].sum())),
        bytes=round(float(flow.bytes[row].sum())),
        wait_s=float(flow.wait_s[row].sum()),
        service_s=float(flow.service_s[row].sum()),
        wait_p50_s=_median(flow.wait_p50_s[row]),
        wait_p90_s=_median(flow.wait_p90_s[row]),
        worst_wait_p90_s=_largest(flow.wait_p90_s[row]),
    )


def _target(flow: Flow, row: int) -> TargetLayer:
    sizes, service = float(flow.bytes[row].sum()), float(flow.service_s[row].sum())
    requests = float(flow.requests[row].sum())
    return TargetLayer(
        name=flow.name,
        requests=round(requests),
        bytes=round(sizes),
        service_s=service,
        per_mib_s=service / (sizes / MIB) if sizes >= SMALL * requests > 0 else None,
        per_request_s=service / requests if requests else None,
    )


def _median(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _largest(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def _build_client_layers(ops: pa.Table, width: Mapping[str, int]) -> dict[str, ClientLayer]:
    """Sum the operations of each job. A row of `ops` is a run of `count` operations of `size` bytes."""
    kind = drop_job_path_dictionary(ops["op"])
    count = pc.cast(ops["count"], pa.int64())
    sizes = pc.multiply(pc.fill_null(ops["size"], 0), count)
    zero = pa.scalar(0, pa.int64())
    data = pc.is_in(kind, pa.array(DATA))
    columns = {
        "job": drop_job_path_dictionary(ops["job_id"]),
        "node": drop_job_path_dictionary(ops["node"]),
        "count": count,
        "busy": ops["busy_ns"],
        "start": ops["start_ns"],
        "end": ops["end_ns"],
        "read": pc.if_else(pc.equal(kind, "read"), sizes, zero),
        "written": pc.if_else(pc.equal(kind, "write"), sizes, zero),
        "data_busy": pc.if_else(data, ops["busy_ns"], zero),
        "metadata": pc.if_else(data, zero, count),
    }
    summed = (
        pa.table(columns)
        .group_by("job")
        .aggregate(
            [
                ("node", "distinct"),
                ("count", "sum"),
                ("metadata", "sum"),
                ("busy", "sum"),
                ("data_busy", "sum"),
                ("read", "sum"),
                ("written", "sum"),
                ("start", "min"),
                ("end", "max"),
            ]
        )
    )
    return {
        row["job"]: ClientLayer(
            nodes=sorted(node for node in row["node_distinct"] if node is not None),
            processes=width.get(row["job"]),
            operations=row["count_sum"],
            metadata=row["metadata_sum"],
            bytes_read=row["read_sum"],
            bytes_written=row["written_sum"],
            busy_s=row["busy_sum"] / NS_PER_S,
            data_s=row["data_busy_sum"] / NS_PER_S,
            from_ns=row["start_min"],
            to_ns=row["end_max"],
        )
        for row in summed.to_pylist()
        if row["job"] is not None
    }


def drop_job_path_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a string column without dictionary encoding."""
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def list_job_path_differences(path: JobPath, saw: Mapping[str, float]) -> list[str]:
    """Return, as sentences, where the application's own counts (`bytes_read`, `bytes_written`) and the layers differ.

    Differences of at most 1 % are ignored.
    """
    out = []
    client = path.client
    if client is not None:
        for name, word in (("bytes_read", "bytes read"), ("bytes_written", "bytes written")):
            said, recorded = saw.get(name), getattr(client, name)
            if said is not None and abs(recorded - said) > max(0.01 * said, 4096):
                out.append(f"The application counted {said:,.0f} {word}, the client's records {recorded:,}.")
    carried = sum(layer.bytes for layer in path.targets)
    asked = sum(layer.bytes for layer in path.forwarders)
    if path.targets and asked and abs(carried - asked) > max(0.01 * asked, MIB):
        out.append(f"The forwarders passed on {asked:,} bytes, the targets took {carried:,}.")
    return out


def sum_job_path_series(flows: Sequence[Flow], job: str, name: str) -> Floats | None:
    """Sum a series of one job over components; None if no component recorded the job."""
    rows = [getattr(flow, name)[row] for flow in flows if (row := flow.find_row(job)) is not None]
    total: Floats | None = np.sum(rows, axis=0) if rows else None
    return total
