"""What is known besides counters: jobs, who serves whom, files and their stripes, health of the watching itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import FILES, HEALTH, JOBS, LAYOUTS, MAPPING, build_table_batch, build_table_word_column
from fairlead.kit.testing.machine.client_rows import NS, build_client_row_words
from fairlead.kit.testing.machine.course import Course, PlacedJob
from fairlead.kit.testing.machine.files import format_machine_job_id

HEALTH_S = 60


def build_feed_rows(course: Course, origin_ns: int, from_s: int, to_s: int) -> dict[str, pa.RecordBatch]:
    """Rows of [from_s, to_s) by table: jobs, mapping, files, layouts, health."""
    return {
        "jobs": _job_rows(course, origin_ns, from_s, to_s),
        "mapping": _mapping_rows(course, origin_ns, from_s, to_s),
        "files": _file_rows(course, origin_ns, from_s, to_s),
        "layouts": _layout_rows(course, from_s, to_s),
        "health": _health_rows(course, origin_ns, from_s, to_s),
    }


def _job_rows(course: Course, origin_ns: int, from_s: int, to_s: int) -> pa.RecordBatch:
    """Jobs that began (state RUNNING, no end) or ended (COMPLETED) in [from_s, to_s)."""
    rows = [_job(course, job, origin_ns, ended=False) for job in course.jobs if from_s <= job.start_s < to_s]
    rows += [_job(course, job, origin_ns, ended=True) for job in course.jobs if from_s <= job.end_s < to_s]
    columns: dict[str, object] = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    return build_table_batch(JOBS, columns, 0)


def _job(course: Course, job: PlacedJob, origin_ns: int, *, ended: bool) -> dict[str, Any]:
    machine, drawn = course.machine, job.drawn
    cores = len(job.nodes) * machine.cores_per_node
    return {
        "cluster": machine.name,
        "job_id": format_machine_job_id(drawn),
        "name": drawn.program.name,
        "user": drawn.program.user,
        "project": drawn.program.project,
        "program": f"/home/{drawn.program.user}/{drawn.program.name}",
        "partition": "work",
        "submit_ns": origin_ns + int(drawn.submit_s * NS),
        "start_ns": origin_ns + int(job.start_s * NS),
        "end_ns": origin_ns + int(job.end_s * NS) if ended else None,
        "nodes": [machine.format_node_name(int(n)) for n in job.nodes],
        "nodes_count": len(job.nodes),
        "cores": cores,
        "processes": cores,
        "state": "COMPLETED" if ended else "RUNNING",
    }


def _mapping_rows(course: Course, origin_ns: int, from_s: int, to_s: int) -> pa.RecordBatch:
    """From the beginning, every node's forwarder; then the targets of each file first seen in [from_s, to_s)."""
    machine, files = course.machine, course.files
    a: list[str] = []
    b: list[str] = []
    kind: list[str] = []
    when: list[int] = []
    if from_s <= 0 and len(machine.forwarders):
        a += [machine.format_node_name(n) for n in range(machine.nodes)]
        b += [machine.forwarders.names[int(f)] for f in machine.default_forwarder.astype(np.int32)]
        kind += ["node_forwarder"] * machine.nodes
        when += [origin_ns] * machine.nodes
    for i in _seen(course, from_s, to_s):
        for target in files.targets[i]:
            a.append(files.paths[i])
            b.append(machine.targets.names[int(target)])
            kind.append("file_targets")
            when.append(origin_ns + int(files.seen_s[i] * NS))
    return build_table_batch(MAPPING, {"from_ns": when, "kind": kind, "a": a, "b": b}, 0)


def _file_rows(course: Course, origin_ns: int, from_s: int, to_s: int) -> pa.RecordBatch:
    """Files first seen in [from_s, to_s)."""
    seen = _seen(course, from_s, to_s)
    ids = course.files.compute_ids()
    return build_table_batch(
        FILES,
        {
            "file_id": ids[seen],
            "fs": [course.files.fs] * len(seen),
            "path": [course.files.paths[i] for i in seen],
            "first_seen_ns": [origin_ns + int(course.files.seen_s[i] * NS) for i in seen],
        },
    )


def _layout_rows(course: Course, from_s: int, to_s: int) -> pa.RecordBatch:
    """Stripes of the files first seen in [from_s, to_s)."""
    seen = _seen(course, from_s, to_s)
    files = course.files
    return build_table_batch(
        LAYOUTS,
        {
            "job_id": [format_machine_job_id(course.jobs[files.job[i]].drawn) for i in seen],
            "file_id": files.compute_ids()[seen],
            "component": np.zeros(len(seen), np.int32),
            "stripe_size": [files.stripe_size[i] for i in seen],
            "stripe_count": [len(files.targets[i]) for i in seen],
            "targets": [[int(t) for t in files.targets[i]] for i in seen],
        },
    )


def _seen(course: Course, from_s: int, to_s: int) -> np.ndarray:
    when = np.array(course.files.seen_s)
    return np.flatnonzero((when >= from_s) & (when < to_s)) if len(when) else np.zeros(0, np.int64)


def _health_rows(course: Course, origin_ns: int, from_s: int, to_s: int) -> pa.RecordBatch:
    """Each minute, the agent of every node, forwarder and server says it is well; they spread over the minute."""
    machine = course.machine
    layers = (machine.forwarders, machine.servers, machine.mds)
    names = [*map(machine.format_node_name, range(machine.nodes)), *(name for layer in layers for name in layer.names)]
    nodes = np.arange(len(names))
    minutes = np.arange(from_s // HEALTH_S, -(-to_s // HEALTH_S))
    when = (minutes[:, None] * HEALTH_S + nodes[None, :] % HEALTH_S).ravel()
    node = np.tile(nodes, len(minutes))
    kept = (when >= from_s) & (when < to_s)
    n = int(kept.sum())
    return build_table_batch(
        HEALTH,
        {
            "ts_ns": origin_ns + when[kept] * NS,
            "node": build_client_row_words(node[kept], names.__getitem__),
            "probe": build_table_word_column("agent", n),
            "state": build_table_word_column("ok", n),
            "interval_ns": np.full(n, HEALTH_S * NS),
            "runs": np.full(n, HEALTH_S),
            "failures": np.zeros(n, np.int64),
            "lost_batches": np.zeros(n, np.int64),
            "clock_offset_ns": np.zeros(n, np.int64),
        },
    )
