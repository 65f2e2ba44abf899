"""Lakes of made machines for tests of `whatif`: summaries and phases straight from the true course (no counters), and
the map of nodes to forwarders, which changes in the middle. Everything is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import JOB_SUMMARY, JOBS, PHASE
from fairlead.decide.sim import platform
from fairlead.kit.testing.machine import feed_rows
from fairlead.kit.testing.machine.course import DATA, Course
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.season import SMALL_SEASON, Season
from fairlead.store.lake import Lake

S = 1_000_000_000
ORIGIN_NS = 1_717_200_000 * S
SPAN = ("--since", "2024-06-01", "--until", "2024-06-02")
BLOCKS = platform.build_small_platform(forwarder_bandwidth=400e6)
"""16 nodes in a row behind each of 4 forwarders, which are what jobs meet at."""
DEALT = platform.build_small_platform(forwarder_bandwidth=400e6, nodes_per_forwarder=1)
"""The same machine with neighbours behind different forwarders."""
MIX = replace(SMALL_SEASON, arrivals_per_s=0.09)


def plays(before: int, after: int, seconds: int, *, seed: int = 11, noise: float = 1.0) -> list[Play]:
    """Plays under the map of blocks, then under the dealt one, one after the other."""
    seasons = [Season(one, MIX, seed, before + after, seconds, fault_share=0.0, noise=noise) for one in (BLOCKS, DEALT)]
    return [seasons[number >= before].play(number) for number in range(before + after)]


def rows(course: Course, origin_ns: int) -> dict[str, list[dict[str, object]]]:
    """Rows of JOBS, JOB_SUMMARY and PHASE of the jobs that ended."""
    machine, at = course.machine, course.phases.phase
    kind = np.full(len(course.phase_begun), -1)
    kind[at[course.op < DATA]] = course.op[course.op < DATA]
    moved = np.bincount(at, course.phases.amount, len(kind))
    flow_of = {place: np.flatnonzero(course.job == place) for place in range(len(course.jobs))}
    found: dict[str, list[dict[str, object]]] = {"jobs": [], "job_summary": [], "phase": []}
    for place, job in enumerate(course.jobs):
        if np.isnan(job.end_s):
            continue
        flows, program = flow_of[place], job.drawn.program
        spans = zip(course.first_lane[flows], course.lanes[flows], strict=True)
        lanes = np.concatenate([np.arange(first, first + many) for first, many in spans])
        data = flows[course.op[flows] < DATA]
        start = origin_ns + round(job.start_s * S)
        who = {
            "cluster": machine.name,
            "job_id": format_machine_job_id(job.drawn),
            "user": program.user,
            "project": program.project,
            "program": program.name,
            "nodes_count": len(job.nodes),
            "processes": len(job.nodes) * machine.cores_per_node,
        }
        end = origin_ns + round(job.end_s * S)
        served = {
            "forwarders": [machine.forwarders.names[int(f)] for f in np.unique(course.forwarder[flows])],
            "targets": [machine.targets.names[int(t)] for t in np.unique(course.target[data])],
        }
        of_job = who | {"start_ns": start, "end_ns": end, "cores": who["processes"]}
        found["jobs"].append(
            of_job | {"nodes": [machine.format_node_name(int(n)) for n in job.nodes], "state": "COMPLETED"}
        )
        found["job_summary"].append(
            of_job
            | served
            | {
                "io_processes": len(np.unique(course.rank[lanes])),
                "io_nodes": len(np.unique(course.node[lanes])),
                "write_mode": program.mode,
                "read_mode": program.mode,
                "write_bytes": 1,
                "read_bytes": 0,
                "basis": "client",
                "made_ns": end,
                "analysis_version": 1,
            }
        )
        for number, phase in enumerate(sorted({int(at[f]) for f in data})):
            begun, ended = (origin_ns + round(float(t[phase]) * S) for t in (course.phase_begun, course.phase_ended))
            found["phase"].append(
                who
                | served
                | {
                    "job_start_ns": start,
                    "number": number,
                    "kind": ("read", "write")[kind[phase]],
                    "start_ns": begun,
                    "end_ns": ended,
                    "active_ns": ended - begun,
                    "bytes": round(float(moved[phase])),
                    "request_bytes": float(course.size[data[at[data] == phase]].max()),
                    "made_ns": end,
                    "analysis_version": 1,
                }
            )
    return found


def lake_of(root: Path, made: Sequence[Play], *, broken: float = 0.0, seed: int = 3) -> Lake:
    """A lake of these plays. `broken`: the share of summaries that are corrupt, in several ways."""
    lake = Lake.open(root, create=True)
    rng = np.random.default_rng(seed)
    with lake.open_writer("main") as writer:
        batch = writer.open_batch("whatif")
        for play in made:
            found = rows(play.course, play.origin_ns)
            for one in found["job_summary"]:
                if rng.random() < broken:
                    one |= BROKEN[int(rng.integers(len(BROKEN)))]
            for table, spec in (("jobs", JOBS), ("job_summary", JOB_SUMMARY), ("phase", PHASE)):
                batch.add(pa.Table.from_pylist(found[table], spec.schema))
            batch.add(feed_rows.build_feed_rows(play.course, play.origin_ns, 0, 1)["mapping"])
        batch.commit()
    return lake


BROKEN: list[dict[str, object]] = [
    {"end_ns": ORIGIN_NS - 1},
    {"nodes_count": 0},
    {"nodes_count": -3},
    {"cores": -8},
    {"nodes_count": None},
    {"nodes_count": 1 << 50},
    {"cores": 1 << 60},
]
"""What is written over a sound summary."""
